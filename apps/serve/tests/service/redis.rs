//! Redis killed, stopped and started again, under load: right or 503, and nothing lost.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::process::{Folder, HANG_TIMEOUT, PROGRAM, Service, eventually, exists, signal};

/// A server on a socket of its own, which writes all that it acknowledges to a file.
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
        // What a killed one leaves behind.
        let _ = std::fs::remove_file(folder.path("redis.sock"));
    }

    /// By a connection of one's own; it says `+OK`.
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
        println!("skipped: there is no redis-server");
        return;
    };
    let store = format!("unix:{}", folder.path("redis.sock"));
    let service = Service::start(&folder, &["--store", &store]);
    let is_ready = || service.get("/ready").status == 200;
    eventually("the store is found", is_ready);

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
    let goes_on = || {
        let before = good();
        eventually("it signs", || good() > before + 20.0);
    };
    goes_on();
    for _ in 0..2 {
        redis.kill(&folder);
        eventually("it is missed", || !is_ready());
        let before = refused();
        eventually("who asks is refused", || refused() > before);
        redis = Redis::start(&folder).unwrap();
        eventually("it is found again", is_ready);
        goes_on();
    }
    redis.signal("STOP");
    eventually("it is missed", || !is_ready());
    redis.signal("CONT");
    eventually("it is found again", is_ready);
    goes_on();

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
    // Counted at least once each.
    let signed = service.get("/counters").json()["signed"].as_u64().unwrap();
    assert!(signed >= names.lines().count() as u64);
    drop(redis);
}

#[test]
fn probes_detect_a_redis_that_rejects_writes_or_hangs() {
    let folder = Folder::new("redis-full");
    let Some(redis) = Redis::start(&folder) else {
        println!("skipped: there is no redis-server");
        return;
    };
    let store = format!("unix:{}", folder.path("redis.sock"));
    let service = Service::start(&folder, &["--store", &store]);
    // Neither asks anything of the store.
    let is_ready = || service.get("/ready").status == 200;
    eventually("the store is found", is_ready);
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
        eventually("it is known to keep nothing", || !is_ready());
        assert_eq!(service.get(&record).status, 200, "it still has what it has");
        redis.execute(&folder, other);
        eventually("it keeps again", is_ready);
    }
    redis.signal("STOP");
    eventually("it is missed", || !is_ready());
    redis.signal("CONT");
    eventually("it is found again", is_ready);
}
