//! Tests of the shutdown, and of the data after a restart.

use std::io::{Read, Write};

use crate::process::{Answer, Folder, Service, eventually, exists};
use crate::retry::retry;

#[test]
fn pending_requests_are_answered_before_shutdown() {
    let folder = Folder::new("graceful");
    let log = folder.path("access.log");
    let mut service = Service::start(&folder, &["--access-log", &log, "--deadline", "60s"]);
    let mut stream = service.connect();
    // The body of this request is incomplete when the shutdown starts.
    stream
        .write_all(b"POST /sign HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
        .unwrap();
    eventually("the request is being answered", || {
        service.metric("creel_serve_in_flight") >= 2.0
    });
    service.signal("TERM");
    eventually("the listener is closed", || {
        std::net::TcpStream::connect(service.address).is_err()
    });
    stream.write_all(b"llo").unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(service.ended(), Some(0));
    let lines = std::fs::read_to_string(&log).unwrap();
    let line = lines
        .lines()
        .find(|line| line.contains("/sign"))
        .expect("the log has no line of the request");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["status"], &line["method"]),
        (&200.into(), &"POST".into())
    );

    service = Service::start(&folder, &[]);
    service.signal("INT");
    assert_eq!(service.ended(), Some(0));
}

#[test]
fn clients_that_honour_connection_close_lose_nothing_during_drain() {
    let folder = Folder::new("drain");
    let service = Service::start(&folder, &["--drain", "600s"]);
    let request = b"POST /sign HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    let mut idle: Vec<_> = (0..8).map(|_| service.connect()).collect();
    for stream in &mut idle {
        stream.write_all(request).unwrap();
        let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
        while !answer.ends_with(b"}") {
            let read = retry(|| stream.read(&mut chunk)).unwrap();
            assert!(read > 0, "{answer:?}");
            answer.extend_from_slice(&chunk[..read]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(service.get("/ready").status, 200);
    service.signal("TERM");
    // These are new connections, which the service must still accept.
    eventually("/ready is 503", || service.get("/ready").status == 503);
    for stream in &mut idle {
        stream.write_all(request).unwrap();
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
    service.signal("TERM");
    assert_eq!(
        service.ended(),
        None,
        "a second SIGTERM must end the process at once"
    );
}

/// A pipe without a reader must delay neither the start nor the shutdown.
#[cfg(unix)]
#[test]
fn an_unread_access_log_does_not_block_the_service() {
    let folder = Folder::new("pipe");
    let pipe = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let service = Service::start(&folder, &["--access-log", &pipe]);
    // The lines need more space than a pipe has.
    let path = format!("/{}", "x".repeat(4000));
    for _ in 0..40 {
        assert_eq!(service.get(&path).status, 404);
    }
    service.signal("TERM");
    assert_eq!(service.ended(), Some(0));
}

#[test]
fn keys_and_acknowledged_records_survive_a_kill() {
    let folder = Folder::new("kill");
    let store = folder.path("records.redb");
    let arguments = ["--store", &store[..], "--deadline", "60s"];
    let service = Service::start(&folder, &arguments);
    let signed: Vec<_> = (0..20)
        .map(|n| service.post("/sign", &format!("message {n}")).json())
        .collect();
    service.signal("KILL");
    service.ended();
    assert!(exists(folder.0.path().join("key")));

    let service = Service::start(&folder, &arguments);
    for record in signed {
        let id = record["id"].as_str().unwrap();
        let stored = service.get(&format!("/records/{id}")).json();
        assert_eq!(stored["signature"], record["signature"]);
        assert_eq!(stored["key"], service.get("/key").json()["key"]);
    }
    assert_eq!(service.get("/counters").json()["signed"], 20);
}
