//! Tests of the responses to valid and slightly wrong requests.

use std::io::{Read, Write};

use crate::process::{Answer, Folder, PROGRAM, Service, eventually, run};

#[test]
fn signed_messages_verify_and_are_stored_and_counted() {
    let folder = Folder::new("signed");
    let service = Service::start(&folder, &[]);
    assert_eq!(service.get("/counters").json()["signed"], 0);
    let signed = service.post("/sign", "hello").json();
    // SHA-256 of "hello".
    let id = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(signed["id"], id);
    let (key, signature) = (
        signed["key"].as_str().unwrap(),
        signed["signature"].as_str().unwrap(),
    );
    assert_eq!(service.get("/key").json()["key"], key);
    let verify = format!("/verify?key={key}&signature={signature}");
    assert_eq!(service.post(&verify, "hello").json()["valid"], true);
    assert_eq!(service.post(&verify, "hellO").json()["valid"], false);
    assert_eq!(
        service.get(&format!("/records/{id}")).json()["signature"],
        signature
    );
    assert_eq!(service.get("/counters").json()["signed"], 1);
    assert_eq!(
        service.get(&format!("/records/{}", "0".repeat(64))).status,
        404
    );
    assert_eq!(
        service.metric("creel_serve_requests_total{route=\"sign\",status=\"200\"}"),
        1.0
    );
}

#[test]
fn digests_match_the_standard_and_passwords_are_verified() {
    let folder = Folder::new("digests");
    let service = Service::start(&folder, &[]);
    // FIPS 180-2, appendix C.1.
    let sha512 = service.post("/digest?algorithm=sha512", "abc").json();
    assert!(
        sha512["digest"]
            .as_str()
            .unwrap()
            .starts_with("ddaf35a193617abacc417349ae204131")
    );
    let hash = service.post("/password", "secret").json();
    for (password, valid) in [("secret", true), ("Secret", false)] {
        let body = serde_json::json!({"password": password, "stored_hash": hash["stored_hash"]})
            .to_string();
        assert_eq!(
            service.post("/password/check", &body).json()["valid"],
            valid
        );
    }
}

#[test]
fn error_replies_have_a_reason() {
    let folder = Folder::new("errors");
    let service = Service::start(&folder, &["--body-max", "100"]);
    let expect = |answer: Answer, status, word: &str| {
        assert_eq!(answer.status, status, "{}", answer.body);
        let why = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(why.contains(word), "{why}");
        answer.head
    };
    expect(service.get("/nothing"), 404, "not found");
    assert!(expect(service.get("/sign"), 405, "method").contains("allow: post"));
    assert!(expect(service.post("/ready", ""), 405, "method").contains("allow: get, head"));
    for path in ["/health", "/ready", "/metrics"] {
        let answer = service.request("HEAD", path, "", b"");
        assert_eq!((answer.status, &answer.body[..]), (200, ""), "{path}");
    }
    expect(service.post("/verify?key=ab", "x"), 400, "key");
    expect(service.post("/digest?algorithm=md5", "x"), 400, "sha512");
    expect(service.post("/password/check", "{}"), 400, "stored_hash");
    expect(service.post("/sign", &"x".repeat(101)), 413, "too large");
    assert_eq!(service.post("/sign", &"x".repeat(100)).status, 200);
    let reply = service.request("POST", "/sign", "x-timeout-ms: soon\r\n", b"x");
    expect(reply, 400, "x-timeout-ms");
    // A timeout of zero cannot be met.
    let late = service.request("POST", "/sign", "x-timeout-ms: 0\r\n", b"x");
    assert!(expect(late, 503, "").contains("retry-after: 1"));
}

#[test]
fn an_http2_preface_without_an_upgrade_is_answered_with_settings() {
    let folder = Folder::new("http2");
    let service = Service::start(&folder, &[]);
    let mut stream = service.connect();
    // We send the preface and empty settings. The response begins with the server's settings (RFC
    // 9113, section 3.4).
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(frame[3], 4, "{frame:?}");
}

#[test]
fn flags_override_the_config_file() {
    let folder = Folder::new("config");
    let config = folder.path("serve.toml");
    std::fs::write(
        &config,
        "body-max = 10\ndeadline = \"30s\"\nadmission = \"off\"\nquiet = true\ndrain = \"0s\"\n",
    )
    .unwrap();
    let service = Service::start(&folder, &["--config", &config]);
    assert_eq!(service.post("/digest", &"x".repeat(11)).status, 413);
    let service = Service::start(&folder, &["--config", &config, "--body-max", "20"]);
    assert_eq!(service.post("/digest", &"x".repeat(11)).status, 200);

    std::fs::write(&config, "body-most = 10\n").unwrap();
    let wrong = run(&["--config", &config]);
    assert_eq!(wrong.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("body-most"));
}

#[test]
fn failed_starts_have_a_reason_and_an_exit_code() {
    let folder = Folder::new("starts");
    let data = folder.0.path().to_str().unwrap();
    let service = Service::start(&folder, &[]);
    let address = service.address.to_string();
    for (arguments, code) in [
        (&["--listen", "nowhere"][..], 2),
        (&["--deadline", "0s"], 2),
        (&["--tls-cert", "a"], 2),
        (&["--config", "there-is-none.toml"], 1),
        (&["--store", "redis:127.0.0.1:6379"], 2),
        (&["evaluate", "--loads", "0"], 2),
        (&["evaluate", "--capacity", "0"], 2),
        (&["evaluate", "--times", "1,0"], 2),
        (&["evaluate", "--beside", "it=./there-is-none"], 2),
        (&["--password-cost", "m=1,t=0,p=1"], 2),
        (&["--store", "memory", "--listen", &address], 75),
        (&["load", "http://127.0.0.1:1", "--step", "1s"], 75),
    ] {
        let ended = run(&[&["--data", data][..], arguments].concat());
        let why = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {why}");
        assert!(!why.is_empty() && !why.contains("panicked"), "{why}");
    }
    std::fs::write(folder.0.path().join("key"), "zz").unwrap();
    let ended = run(&["--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(ended.status.code(), Some(65));
}

/// Returns an HTTP/2 frame with a part of the body of stream 1.
fn data(bytes: &[u8], is_last: bool) -> Vec<u8> {
    let length = (bytes.len() as u32).to_be_bytes();
    [&length[1..], &[0, is_last.into(), 0, 0, 0, 1], bytes].concat()
}

#[test]
fn an_oversized_http2_body_is_drained_and_rejected() {
    let folder = Folder::new("http2-large");
    let service = Service::start(&folder, &["--body-max", "1000"]);
    let mut stream = service.connect();
    // The headers of POST /sign in HPACK: 83 is `:method: POST`, 86 is `:scheme: http` (RFC 7541,
    // appendix A).
    let head = b"\x83\x86\x04\x05/sign\x01\x01x";
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    frames.extend([0, 0, head.len() as u8, 1, 4, 0, 0, 0, 1]);
    frames.extend(head);
    frames.extend(data(&[b'x'; 10_000], false));
    stream.write_all(&frames).unwrap();
    // We send the rest after the body has exceeded the limit. The service must not have reset the
    // stream by then.
    eventually("the service reads the body", || {
        service.metric("creel_serve_in_flight") >= 2.0
    });
    stream.write_all(&data(b"x", true)).unwrap();
    let (mut frame, mut kinds) = ([0; 9], Vec::new());
    while kinds.last() != Some(&1) {
        stream.read_exact(&mut frame).unwrap();
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        stream.read_exact(&mut vec![0; length]).unwrap();
        if frame[8] == 1 {
            kinds.push(frame[3]);
        }
    }
    assert!(!kinds.contains(&3), "a reset before the answer: {kinds:?}");
    let count = "creel_serve_requests_total{route=\"sign\",status=\"413\"}";
    assert_eq!(service.metric(count), 1.0);
}

#[test]
fn a_load_without_a_good_response_fails_and_has_no_latency() {
    let folder = Folder::new("vain");
    // There is no server at this address.
    let store = format!("unix:{}", folder.path("none.sock"));
    let service = Service::start(&folder, &["--store", &store]);
    let url = format!("http://{}", service.address);
    let arguments = [
        "load", &url, "--rate", "50", "--step", "1s", "--format", "json",
    ];
    let ended = run(&arguments);
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let step = &report["steps"][0];
    assert_eq!(step["good"], 0, "{step}");
    assert!(step["corrected"].is_null() && step["uncorrected"].is_null());
    assert!(step["refusal"]["p50_us"].is_u64(), "{step}");
    assert_eq!(ended.status.code(), Some(1));
}

/// Runs the program with a limit of 24 open files.
#[cfg(unix)]
#[test]
fn too_few_open_files_prevent_the_start() {
    let folder = Folder::new("files");
    let command = format!("ulimit -n 24 && exec {PROGRAM} \"$@\"");
    let data = folder.0.path().to_str().unwrap();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--store",
        "memory",
        "--data",
        data,
    ];
    let ended = std::process::Command::new("sh")
        .args(["-c", &command, "sh"])
        .args(arguments)
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(75), "{why}");
    assert!(why.contains("ulimit -n"), "{why}");
}
