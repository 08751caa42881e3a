//! A temporary folder and a Redis server for tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder in the system's folder for temporary files.
    pub fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("creel-tokio-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A Redis server with a Unix socket. It ends when it is dropped.
pub struct Redis(Child);

impl Redis {
    /// Starts a server, and waits until it accepts connections. If Redis is not installed,
    /// prints that the test is skipped, and returns `None`.
    pub fn start(socket: &Path) -> Option<Redis> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.arg("--unixsocket").arg(socket);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(process) = quiet.spawn() else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        let server = Redis(process);
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            assert!(begun.elapsed() < HANG_TIMEOUT, "Redis does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
