//! Tests of the data folder and of the access log. They check who can read the folder, which keys
//! the service accepts, and that only one service can use the folder.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::process::{Folder, Service, eventually, run};

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a service on a data folder and returns its exit code and its messages.
fn start(data: &str) -> (Option<i32>, String) {
    let ended = run(&["--data", data, "--listen", "127.0.0.1:0"]);
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), why)
}

#[test]
fn the_folder_and_its_files_are_private() {
    let folder = Folder::new("private");
    let (data, log) = (folder.path("new/data"), folder.path("access.log"));
    let arguments = ["--data", &data, "--access-log", &log];
    let service = Service::start_alone(&arguments, &[]);
    assert_eq!(service.post("/sign", "hello").status, 200);
    assert_eq!(mode(&data), 0o700);
    for file in [format!("{data}/key"), format!("{data}/records.redb"), log] {
        assert_eq!(mode(&file), 0o600, "{file}");
    }
    assert!(service.lines("warning").is_empty());
}

#[test]
fn a_second_server_names_the_lock_and_its_holder() {
    let folder = Folder::new("lock");
    let data = folder.path("data");
    let service = Service::start_alone(&["--data", &data], &[]);
    let (code, why) = start(&data);
    assert_eq!(code, Some(75), "{why}");
    assert!(
        why.contains("records.redb") && why.contains("has locked it"),
        "{why}"
    );
    if cfg!(target_os = "linux") {
        assert!(why.contains(&format!("process {}", service.id())), "{why}");
    }
    assert_eq!(service.post("/sign", "hello").status, 200);
}

#[test]
fn weak_keys_are_rejected_and_readable_ones_warned_about() {
    let folder = Folder::new("keys");
    let data = folder.path("");
    let key = folder.path("key");
    for (text, word) in [
        ("", "empty"),
        ("zz", "64 hex digits"),
        (&*"0".repeat(64), "not random"),
    ] {
        fs::write(&key, text).unwrap();
        let (code, why) = start(&data);
        assert_eq!(code, Some(65), "{why}");
        assert!(why.contains(word) && why.contains("key"), "{why}");
    }
    fs::write(
        &key,
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    )
    .unwrap();
    for (permissions, warnings) in [(0o644, 1), (0o640, 1), (0o600, 0)] {
        fs::set_permissions(&key, Permissions::from_mode(permissions)).unwrap();
        let service = Service::start(&folder, &[]);
        eventually("the start is reported", || {
            !service.lines("keeping records").is_empty()
        });
        assert_eq!(service.lines("warning").len(), warnings, "{permissions:o}");
        assert_eq!(
            service.lines("chmod 600").len(),
            warnings,
            "{permissions:o}"
        );
        assert!(service.lines("9d61b19d").is_empty());
    }
}

#[test]
fn the_access_log_has_the_address_of_the_client() {
    let folder = Folder::new("client");
    let log = folder.path("access.log");
    let service = Service::start(&folder, &["--access-log", &log]);
    let stream = service.connect();
    let own = stream.local_addr().unwrap().to_string();
    crate::process::send(
        &stream,
        "GET /key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    eventually("the line is in the log", || {
        let lines = fs::read_to_string(&log).unwrap();
        lines.contains(&format!("\"client\":\"{own}\""))
    });
}

#[test]
fn records_that_others_can_read_are_warned_about() {
    let folder = Folder::new("records");
    let data = folder.path("data");
    drop(Service::start_alone(&["--data", &data], &[]));
    let records = format!("{data}/records.redb");
    for (permissions, warnings) in [(0o644, 1), (0o600, 0)] {
        fs::set_permissions(&records, Permissions::from_mode(permissions)).unwrap();
        let service = Service::start_alone(&["--data", &data], &[]);
        eventually("the start is reported", || {
            !service.lines("keeping records").is_empty()
        });
        assert_eq!(service.lines("warning").len(), warnings, "{permissions:o}");
    }
}

#[test]
fn an_access_log_that_cannot_be_written_is_reported_once() {
    let folder = Folder::new("full-log");
    let service = Service::start(&folder, &["--access-log", "/dev/full"]);
    for _ in 0..3 {
        assert_eq!(service.get("/key").status, 200);
        eventually("the line is counted", || {
            service.metric("creel_serve_log_dropped_total") > 0.0
        });
    }
    let words = "cannot write the access log /dev/full";
    eventually("the reason is reported", || {
        !service.lines(words).is_empty()
    });
    assert_eq!(service.lines(words).len(), 1);
}
