//! Tests of clients that send too much, too little, too slowly or nonsense. The service must
//! bound what they use, and serve the other clients.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::process::{Answer, Folder, Service, eventually};

#[test]
fn a_missing_body_times_out() {
    let folder = Folder::new("slow-body");
    let service = Service::start(&folder, &[]);
    let mut stream = service.connect();
    let head = "POST /sign HTTP/1.1\r\nHost: x\r\nx-timeout-ms: 200\r\nContent-Length: 5\r\n\r\nhe";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 408, "{}", answer.head);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    assert_eq!(service.metric("creel_serve_bodies_unread_total"), 1.0);
    assert_eq!(
        service.metric("creel_serve_requests_total{route=\"sign\",status=\"408\"}"),
        1.0
    );
}

#[test]
fn a_connection_is_usable_after_an_answer_that_needs_no_body() {
    let folder = Folder::new("early");
    let service = Service::start(&folder, &["--body-max", "1000"]);
    for (line, headers, length, status) in [
        ("GET /health", "", 5, 200),
        ("POST /nope", "", 5, 404),
        ("POST /key", "", 5, 405),
        ("POST /sign", "x-timeout-ms: abc\r\n", 5, 400),
        ("POST /sign", "", 5_000_000, 413),
    ] {
        let mut stream = service.connect();
        let head =
            format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        eventually("the head is read", || {
            service.metric("creel_serve_in_flight") >= 2.0
        });
        stream.write_all(&vec![b'x'; length]).unwrap();
        let answer = Answer::read_one(&mut stream);
        assert_eq!(answer.status, status, "{line}: {}", answer.head);
        assert!(!answer.head.contains("connection:"), "{}", answer.head);
        let next = b"POST /sign HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
        stream.write_all(next).unwrap();
        assert_eq!(Answer::read_one(&mut stream).status, 200, "after {line}");
    }
    assert_eq!(service.metric("creel_serve_bodies_unread_total"), 0.0);
}

#[test]
fn an_answer_to_a_body_that_is_not_read_closes_the_connection() {
    let folder = Folder::new("unread");
    let service = Service::start(&folder, &["--body-max", "1000"]);
    for headers in [
        "Expect: 100-continue\r\nContent-Length: 2000",
        "Content-Length: 1000000000",
    ] {
        let mut stream = service.connect();
        let head = format!("POST /sign HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 413, "{}", answer.head);
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
    assert_eq!(service.metric("creel_serve_bodies_unread_total"), 2.0);
}

#[test]
fn an_endless_body_is_rejected_at_the_limit() {
    let folder = Folder::new("endless-body");
    let service = Service::start(&folder, &["--deadline", "60s", "--body-max", "1000"]);
    let mut stream = service.connect();
    stream
        .write_all(b"POST /sign HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = format!("100\r\n{}\r\n", "x".repeat(256));
    // We send until the service closes the connection.
    while stream.write_all(chunk.as_bytes()).is_ok() {}
    eventually("the request is rejected", || {
        service.metric("creel_serve_requests_total{route=\"sign\",status=\"413\"}") == 1.0
    });
}

#[test]
fn a_disconnected_client_is_not_served() {
    let folder = Folder::new("leaves");
    let service = Service::start(&folder, &["--deadline", "60s"]);
    for how in [Shutdown::Both, Shutdown::Write] {
        let mut stream = service.connect();
        stream
            .write_all(b"POST /sign HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
            .unwrap();
        eventually("the request is being answered", || {
            service.metric("creel_serve_in_flight") >= 2.0
        });
        stream.shutdown(how).unwrap();
        // The only remaining request is the one for the metrics.
        eventually("the request is dropped", || {
            service.metric("creel_serve_in_flight") == 1.0
        });
    }
}

#[test]
fn malformed_http_closes_only_its_connection() {
    let folder = Folder::new("garbage");
    let service = Service::start(&folder, &[]);
    for garbage in [
        &b"\0\x01\x02\x03 garbage\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /sign HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /sign HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /sign HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nthis is no frame of that protocol",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut stream = service.connect();
        stream.write_all(garbage).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // The connection must end. Any response but 200 is fine.
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{garbage:?}");
    }
    assert_eq!(service.post("/sign", "hello").status, 200);
}

#[test]
fn wrong_transfer_codings_get_the_status_of_their_fault() {
    let folder = Folder::new("codings");
    let service = Service::start(&folder, &["--body-max", "1000"]);
    for (fields, status) in [
        (&["chunked"][..], 200),
        (&["Chunked"], 200),
        // Empty elements of a list do not count.
        (&[",chunked"], 200),
        (&["", "chunked"], 200),
        (&["gzip, chunked"], 501),
        (&["gzip", "chunked"], 501),
        (&["identity, chunked"], 501),
        // A body must not be chunked twice, and must be chunked last.
        (&["chunked, chunked"], 400),
        (&["chunked", "chunked"], 400),
        (&["chunked, gzip, chunked"], 400),
        (&["gzip"], 400),
        (&["chunked, gzip"], 400),
    ] {
        let fields = fields
            .iter()
            .map(|field| format!("Transfer-Encoding: {field}\r\n"));
        let head = format!(
            "POST /digest HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}\r\n",
            fields.collect::<String>()
        );
        for body in ["5\r\nhello\r\n0\r\n\r\n".to_owned(), {
            // A body that is too long does not hide another fault.
            format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000))
        }] {
            let expected = match (status, body.len() > 1000) {
                (200, true) => 413,
                (status, _) => status,
            };
            let mut stream = service.connect();
            stream.write_all(head.as_bytes()).unwrap();
            // The service may close the connection before it has read the body.
            let _ = stream.write_all(body.as_bytes());
            let answer = Answer::read(&mut stream);
            assert_eq!(answer.status, expected, "{head}");
        }
    }
}

#[test]
fn a_slow_head_times_out() {
    let folder = Folder::new("slow-head");
    let service = Service::start(&folder, &["--head-timeout", "1s", "--connections", "8"]);
    // These are as many connections as the service allows, so they keep all others out.
    let mut slow: Vec<_> = (0..8).map(|_| service.connect()).collect();
    for stream in &mut slow {
        // The service may have closed the first ones already.
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nX: ");
    }
    eventually("the slow connections are closed", || {
        service.get("/health").status == 200
    });
    // A client that sends a byte from time to time must be disconnected, too.
    let mut slow = service.connect();
    eventually("the connection is closed", || slow.write_all(b"x").is_err());
}

#[test]
fn an_oversized_head_is_rejected() {
    let folder = Folder::new("large-head");
    let service = Service::start(&folder, &[]);
    let mut stream = service.connect();
    let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nX: ");
    // We send until the service closes the connection.
    while stream.write_all(&[b'x'; 4096]).is_ok() {}
    assert_eq!(service.get("/health").status, 200);
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_counted() {
    let folder = Folder::new("never-reads");
    let service = Service::start(&folder, &["--write-timeout", "1s"]);
    let mut stream = service.connect();
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    // We send until the buffers of both sides are full.
    let questions = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    while stream.write_all(&questions).is_ok() {}
    eventually("the connection is closed", || {
        service.metric("creel_serve_connections_ended_total{how=\"not_read\"}") == 1.0
    });
    let nonsense = service.connect().write_all(b"\0\x01\x02 garbage\r\n\r\n");
    nonsense.unwrap();
    eventually("the malformed request is counted", || {
        service.metric("creel_serve_connections_ended_total{how=\"failed\"}") == 1.0
    });
    eventually(
        "the only open connection is the one for the metrics",
        || service.metric("creel_serve_connections_open") == 1.0,
    );
}
