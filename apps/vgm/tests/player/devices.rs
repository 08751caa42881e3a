//! Tests with a real sound server, if one is installed. Its sink has no output.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Folder, SILENT};

/// A PulseAudio server for the test.
struct Server {
    child: Child,
    runtime: String,
}

impl Server {
    fn start(folder: &Folder) -> Option<Server> {
        let runtime = folder.path("run");
        fs::create_dir_all(format!("{runtime}/pulse")).unwrap();
        let script = folder.put(
            "start.pa",
            format!(
                "load-module module-null-sink sink_name=nowhere\n\
                 load-module module-native-protocol-unix auth-anonymous=1 socket={runtime}/pulse/native\n"
            )
            .as_bytes(),
        );
        let child = Command::new("pulseaudio")
            .args([
                "--daemonize=no",
                "-n",
                "--exit-idle-time=-1",
                "--use-pid-file=no",
                "-F",
                &script,
            ])
            .env("XDG_RUNTIME_DIR", &runtime)
            .env("HOME", &runtime)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = match child {
            Ok(child) => Server { child, runtime },
            Err(_) => {
                eprintln!("skipped: no pulseaudio here");
                return None;
            }
        };
        server.until("a socket", || {
            fs::metadata(format!("{}/pulse/native", server.runtime)).is_ok()
        });
        Some(server)
    }

    fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{what}: not seen for a minute"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A player that ends with the test, even if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pulse_server_is_reconnected() {
    let folder = Folder::new("pulse");
    let Some(server) = Server::start(&folder) else {
        return;
    };
    let socket = folder.path("socket");
    let begin = Instant::now();
    let player = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .args(["play", "--demo", "--sink", "pulse", "--listen", &socket])
        .args(&SILENT[2..])
        .env("XDG_RUNTIME_DIR", &server.runtime)
        .env("HOME", &server.runtime)
        .env_remove("PULSE_SERVER")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut player = Running(player);
    let status = || {
        let output = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["ctl", "--socket", &socket, "--json", "status"])
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    let at = |status: &serde_json::Value| status["position_s"].as_f64().unwrap_or(0.0);
    // The server sets the pace: the song advances no faster than the clock, apart from the buffer.
    server.until("three seconds", || {
        let heard = at(&status());
        let passed = begin.elapsed().as_secs_f64();
        assert!(heard < passed + 0.5, "{heard} s after {passed}");
        heard > 3.0
    });
    assert_eq!(status()["device_lost"], false);
    // The server ends, and another one starts.
    let runtime = server.runtime.clone();
    drop(server);
    let begin = Instant::now();
    while status()["device_lost"] != true {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "nothing is missed"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = fs::remove_file(format!("{runtime}/pulse/native"));
    let lost_at = at(&status());
    let again = Server::start(&folder).unwrap();
    again.until("sound again", || at(&status()) > lost_at + 0.5);
    assert_eq!(status()["device_lost"], false);
    let printed = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .args(["ctl", "--socket", &socket, "quit"])
        .status()
        .unwrap();
    assert!(printed.success());
    assert_eq!(player.0.wait().unwrap().code(), Some(0));
}
