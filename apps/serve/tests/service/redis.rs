//! Tests of a Redis server that is killed, stopped and started again under load, and of one that
//! rejects writes. Every answer must be right or 503, and no acknowledged record may be lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::process::{Folder, PROGRAM, Service, eventually, signal};
use crate::redis_server::{Redis, is_installed};

/// A load generator that signs messages and writes down the names of all acknowledged records.
pub struct Load {
    child: Child,
    names: String,
}

impl Load {
    pub fn start(folder: &Folder, service: &Service) -> Load {
        let url = format!("http://{}", service.address);
        let names = folder.path("acknowledged");
        let child = Command::new(PROGRAM)
            .args(["load", &url, "--rate", "100", "--step", "600s"])
            .args(["--connections", "64", "--check", "--acknowledged", &names])
            .args(["--request-timeout", "1s", "--timeout", "60s"])
            .args(["--format", "json", "-q"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Load { child, names }
    }

    /// Stops the load. No answer may be wrong, and the service must have all acknowledged records.
    pub fn finish(mut self, service: &Service) {
        signal(self.child.id(), "INT");
        let mut printed = Vec::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_end(&mut printed).unwrap();
        self.child.wait().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&printed).unwrap();
        let step = &report["steps"][0];
        for name in ["wrong", "other", "errors", "timeouts"] {
            assert_eq!(step[name], 0, "{name}: {step}");
        }
        let names = std::fs::read_to_string(&self.names).unwrap();
        assert!(names.lines().count() >= 40, "{}", names.lines().count());
        for name in names.lines() {
            let mut status = 503;
            // On a busy machine, a server may not answer in time. Then the record is not lost.
            eventually("the store answers", || {
                status = service.get(&format!("/records/{name}")).status;
                status != 503
            });
            assert_eq!(status, 200, "{name} was acknowledged");
        }
        // The counter may also count records that were stored and not acknowledged.
        let mut signed = None;
        eventually("the store answers", || {
            signed = service.get("/counters").json()["signed"].as_u64();
            signed.is_some()
        });
        let signed = signed.unwrap();
        assert!(signed >= names.lines().count() as u64);
    }
}

/// A test that fails must not leave a load behind, which would run for ten minutes.
impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_ready(service: &Service) -> bool {
    service.get("/ready").status == 200
}

/// Waits until the service has signed more messages.
pub fn makes_progress(service: &Service) {
    let good = || service.metric("creel_serve_requests_total{route=\"sign\",status=\"200\"}");
    let before = good();
    eventually("the service signs messages", || good() > before + 20.0);
}

#[test]
fn the_service_survives_redis_restarts() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("redis");
    let mut redis = Redis::start(&folder, "redis", &[]);
    let store = format!("unix:{}", redis.socket);
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the start names the store", || {
        service.lines("keeping records: unix:").len() == 1
    });
    eventually("the store is available", || is_ready(&service));

    let load = Load::start(&folder, &service);
    let refused = || service.metric("creel_serve_requests_total{route=\"sign\",status=\"503\"}");
    makes_progress(&service);
    for round in 1..=2 {
        let port = redis.port;
        redis.kill();
        eventually("the service detects the failure", || !is_ready(&service));
        let before = refused();
        eventually("requests are rejected", || refused() > before);
        redis = Redis::start_on(&folder, "redis", port, &[]);
        eventually("the store is available again", || is_ready(&service));
        has_recovered(&service, round);
        makes_progress(&service);
    }
    redis.signal("STOP");
    eventually("the service detects the failure", || !is_ready(&service));
    redis.signal("CONT");
    eventually("the store is available again", || is_ready(&service));
    makes_progress(&service);
    load.finish(&service);
    let errors = "creel_serve_store_errors_total{reason=\"unreachable\"}";
    assert!(service.metric(errors) > 0.0);
    let outages = "creel_serve_store_outages_total{reason=\"timeout\"}";
    assert!(service.metric(outages) >= 1.0);
}

/// Waits until the log has a line for the end of each outage, and for at least a number of them. On
/// a busy machine there may be more, because a server did not answer in time.
pub fn has_recovered(service: &Service, outages: usize) {
    eventually("the log has a line for each change", || {
        let (lost, again) = service.reports();
        lost == again && lost >= outages
    });
}

/// A setting that makes a server reject writes, the setting that ends this, and the error that the
/// service reports.
struct Rejection {
    begin: &'static str,
    end: &'static str,
    reason: &'static str,
    words: &'static str,
}

#[test]
fn probes_detect_a_redis_that_rejects_writes_or_hangs() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("redis-full");
    let redis = Redis::start(&folder, "redis", &[]);
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the store is available", || is_ready(&service));
    let id = service.post("/sign", "hello").json()["id"].clone();
    let record = format!("/records/{}", id.as_str().unwrap());
    let rejections = [
        Rejection {
            begin: "CONFIG SET maxmemory 1",
            end: "CONFIG SET maxmemory 0",
            reason: "out_of_memory",
            words: "OOM command not allowed when used memory > 'maxmemory'.",
        },
        Rejection {
            begin: "REPLICAOF 127.0.0.1 1",
            end: "REPLICAOF NO ONE",
            reason: "read_only",
            words: "READONLY You can't write against a read only replica.",
        },
        Rejection {
            begin: "CONFIG SET min-replicas-to-write 1",
            end: "CONFIG SET min-replicas-to-write 0",
            reason: "replicas",
            words: "NOREPLICAS",
        },
    ];
    for (round, rejection) in rejections.iter().enumerate() {
        let Rejection {
            begin,
            end,
            reason,
            words,
        } = rejection;
        redis.execute(begin);
        // /ready does not send a request to the store, so only the probes can detect the change.
        eventually("the service detects that writes fail", || {
            !is_ready(&service)
        });
        let ready = service.get("/ready").body;
        assert!(ready.contains(words) && ready.contains(reason), "{ready}");
        assert_eq!(
            service.get(&record).status,
            200,
            "stored records must remain readable"
        );
        let refused = service.post("/sign", "hello");
        assert_eq!(refused.status, 503);
        assert!(
            !refused.body.contains(words),
            "clients need not know: {}",
            refused.body
        );
        let errors = format!("creel_serve_store_errors_total{{reason=\"{reason}\"}}");
        assert_eq!(service.metric(&errors), 1.0, "{reason}");
        let outages = format!("creel_serve_store_outages_total{{reason=\"{reason}\"}}");
        assert_eq!(service.metric(&outages), 1.0, "{reason}");
        eventually("the log has the server's words", || {
            service.lines(words).len() == 1 && service.lines(&format!("({reason})")).len() == 1
        });
        redis.execute(end);
        eventually("the store accepts writes again", || is_ready(&service));
        assert_eq!(service.post("/sign", "hello").status, 200);
        has_recovered(&service, round + 1);
    }
    redis.signal("STOP");
    eventually("the service detects the failure", || !is_ready(&service));
    redis.signal("CONT");
    eventually("the store is available again", || is_ready(&service));
}

#[test]
fn a_write_waits_for_the_number_of_replicas_that_the_operator_sets() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("replicas");
    let redis = Redis::start(&folder, "redis", &[]);
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let service = Service::start(&folder, &["--store", &store, "--store-replicas", "1"]);
    assert!(!is_ready(&service));
    let ready = service.get("/ready").body;
    assert!(
        ready.contains("0 of 1 replicas confirmed the write"),
        "{ready}"
    );
    let master = redis.port.to_string();
    let replica = Redis::start(&folder, "replica", &["--replicaof", "127.0.0.1", &master]);
    eventually("the replica confirms writes", || is_ready(&service));
    assert_eq!(service.post("/sign", "hello").status, 200);
    replica.kill();
    eventually("the service detects the loss", || !is_ready(&service));
}

/// Accepts connections on a port, and connects each to the server that is the target at that time,
/// like a host name that a failover changes. Open connections keep their server.
fn forward(target: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", target.load(Relaxed))).unwrap();
            for (from, into) in [(&client, &server), (&server, &client)] {
                let (mut from, mut into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    port
}

#[test]
fn a_host_name_that_a_failover_changes_is_looked_up_again() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("host-name");
    let old = Redis::start(&folder, "old", &[]);
    let new = Redis::start(&folder, "new", &[]);
    let target = Arc::new(AtomicU16::new(old.port));
    let store = format!("redis://127.0.0.1:{}", forward(Arc::clone(&target)));
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the store is available", || is_ready(&service));
    let id = service.post("/sign", "hello").json()["id"].clone();
    let record = format!("/records/{}", id.as_str().unwrap());
    // The old server becomes a replica and keeps its connections, which stay readable.
    old.execute(&format!("REPLICAOF 127.0.0.1 {}", new.port));
    eventually("the service detects that writes fail", || {
        !is_ready(&service)
    });
    eventually("records can be read", || service.get(&record).status != 503);
    target.store(new.port, Relaxed);
    eventually("the store accepts writes again", || is_ready(&service));
    assert_eq!(service.post("/sign", "again").status, 200);
    assert_eq!(service.lines("READONLY").len(), 1);
}

/// A small file system of its own. It is unmounted on drop.
struct SmallDisk(String);

impl SmallDisk {
    /// Mounts a file system of 4 MB on a folder, or returns `None` if this user may not do that.
    fn mount(folder: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "none", folder]);
        let is_mounted = mount.output().is_ok_and(|done| done.status.success());
        if !is_mounted {
            println!("skipped: cannot mount a small file system");
        }
        is_mounted.then(|| SmallDisk(folder.to_owned()))
    }

    /// Fills the disk up to the last byte.
    fn fill(&self) {
        let file = std::fs::File::create(format!("{}/ballast", self.0)).unwrap();
        let mut file = std::io::LineWriter::new(file);
        while file.write_all(&[b'\n'; 256]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(format!("{}/ballast", self.0)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn no_acknowledged_record_is_lost_on_a_full_disk_of_redis() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("redis-disk");
    let Some(disk) = SmallDisk::mount(&folder.path("redis")) else {
        return;
    };
    // With `everysec`, Redis keeps running if it cannot write, and rejects writes (MISCONF).
    let arguments = [
        "--appendfsync",
        "everysec",
        "--auto-aof-rewrite-percentage",
        "0",
    ];
    let redis = Redis::start(&folder, "redis", &arguments);
    let store = format!("redis://127.0.0.1:{}", redis.port);
    let service = Service::start(&folder, &["--store", &store]);
    eventually("the store is available", || is_ready(&service));
    let load = Load::start(&folder, &service);
    for round in 1..=2 {
        makes_progress(&service);
        disk.fill();
        eventually("the service detects that writes fail", || {
            !is_ready(&service)
        });
        eventually("the log has the server's words", || {
            service.lines("MISCONF").len() == round && service.lines("(disk)").len() == round
        });
        assert!(service.get("/ready").body.contains("MISCONF"));
        let outages = "creel_serve_store_outages_total{reason=\"disk\"}";
        assert_eq!(service.metric(outages), round as f64);
        disk.free();
        eventually("the store accepts writes again", || is_ready(&service));
        has_recovered(&service, round);
    }
    assert!(service.metric("creel_serve_store_errors_total{reason=\"disk\"}") > 0.0);
    // The records must also be in the file, and not only in the memory of the server.
    eventually("everything is on the disk", || {
        redis.info("aof_last_write_status") == "ok" && redis.info("aof_pending_bio_fsync") == "0"
    });
    let port = redis.port;
    redis.kill();
    let _redis = Redis::start_on(&folder, "redis", port, &arguments);
    eventually("the store is available again", || is_ready(&service));
    makes_progress(&service);
    load.finish(&service);
}
