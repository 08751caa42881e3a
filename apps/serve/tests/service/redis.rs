//! Tests of a Redis server that is killed, stopped and started again under load. Every answer must
//! be right or 503, and no acknowledged record may be lost.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::process::{Folder, HANG_TIMEOUT, PROGRAM, Service, eventually, exists, signal};

/// A Redis server on its own socket. It writes all acknowledged data to a file. It is killed on
/// drop.
struct Redis(Child);

impl Redis {
    fn start(folder: &Folder) -> Option<Redis> {
        let socket = folder.path("redis.sock");
        let arguments = [
            "--port",
            "0",
            "--unixsocket",
            &socket,
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ];
        let mut command = Command::new("redis-server");
        command
            .args(arguments)
            .args(["--save", "", "--dir", folder.0.to_str().unwrap()]);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        eventually("redis listens", || exists(&socket));
        Some(Redis(child))
    }

    fn kill(mut self, folder: &Folder) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        // A killed server leaves its socket behind.
        let _ = std::fs::remove_file(folder.path("redis.sock"));
    }

    /// Executes a command over a separate connection. The reply must be `+OK`.
    fn execute(&self, folder: &Folder, command: &str) {
        let mut stream = UnixStream::connect(folder.path("redis.sock")).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK");
    }

    fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_service_survives_redis_restarts() {
    let folder = Folder::new("redis");
    let Some(mut redis) = Redis::start(&folder) else {
        println!("skipped: redis-server is not installed");
        return;
    };
    let store = format!("unix:{}", folder.path("redis.sock"));
    let service = Service::start(&folder, &["--store", &store]);
    let is_ready = || service.get("/ready").status == 200;
    eventually("the store is available", is_ready);

    let (url, names) = (
        format!("http://{}", service.address),
        folder.path("acknowledged"),
    );
    let load = Command::new(PROGRAM)
        .args([
            "load",
            &url,
            "--rate",
            "100",
            "--step",
            "600s",
            "--connections",
            "64",
        ])
        .args([
            "--check",
            "--acknowledged",
            &names,
            "--request-timeout",
            "1s",
            "--timeout",
            "60s",
        ])
        .args(["--format", "json", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let good = || service.metric("creel_serve_requests_total{route=\"sign\",status=\"200\"}");
    let refused = || service.metric("creel_serve_requests_total{route=\"sign\",status=\"503\"}");
    let makes_progress = || {
        let before = good();
        eventually("the service signs messages", || good() > before + 20.0);
    };
    makes_progress();
    for _ in 0..2 {
        redis.kill(&folder);
        eventually("the service detects the failure", || !is_ready());
        let before = refused();
        eventually("requests are rejected", || refused() > before);
        redis = Redis::start(&folder).unwrap();
        eventually("the store is available again", is_ready);
        makes_progress();
    }
    redis.signal("STOP");
    eventually("the service detects the failure", || !is_ready());
    redis.signal("CONT");
    eventually("the store is available again", is_ready);
    makes_progress();

    signal(load.id(), "INT");
    let load = load.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&load.stdout).unwrap();
    let step = &report["steps"][0];
    for name in ["wrong", "other", "errors", "timeouts"] {
        assert_eq!(step[name], 0, "{name}: {step}");
    }
    let names = std::fs::read_to_string(names).unwrap();
    assert!(names.lines().count() >= 80);
    for name in names.lines() {
        assert_eq!(
            service.get(&format!("/records/{name}")).status,
            200,
            "{name} was acknowledged"
        );
    }
    // The counter may also count records that were stored and not acknowledged.
    let signed = service.get("/counters").json()["signed"].as_u64().unwrap();
    assert!(signed >= names.lines().count() as u64);
    drop(redis);
}

#[test]
fn probes_detect_a_redis_that_rejects_writes_or_hangs() {
    let folder = Folder::new("redis-full");
    let Some(redis) = Redis::start(&folder) else {
        println!("skipped: redis-server is not installed");
        return;
    };
    let store = format!("unix:{}", folder.path("redis.sock"));
    let service = Service::start(&folder, &["--store", &store]);
    // /ready does not send a request to the store, so only the probes can detect the change.
    let is_ready = || service.get("/ready").status == 200;
    eventually("the store is available", is_ready);
    let id = service.post("/sign", "hello").json()["id"].clone();
    let record = format!("/records/{}", id.as_str().unwrap());
    for (one, other) in [
        (
            "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$9\r\nmaxmemory\r\n$1\r\n1\r\n",
            "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n",
        ),
        (
            "*3\r\n$9\r\nREPLICAOF\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n",
            "*3\r\n$9\r\nREPLICAOF\r\n$2\r\nNO\r\n$3\r\nONE\r\n",
        ),
    ] {
        redis.execute(&folder, one);
        eventually("the service detects that writes fail", || !is_ready());
        assert_eq!(
            service.get(&record).status,
            200,
            "stored records must remain readable"
        );
        redis.execute(&folder, other);
        eventually("the store accepts writes again", is_ready);
    }
    redis.signal("STOP");
    eventually("the service detects the failure", || !is_ready());
    redis.signal("CONT");
    eventually("the store is available again", is_ready);
}
