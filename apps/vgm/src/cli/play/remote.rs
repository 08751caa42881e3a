//! The remote control: a client sends lines over a Unix socket, and we answer each with one line of
//! JSON.
//!
//! The answer to `status` is the status of the player. The answer to any other line is
//! `{"ok":true}` or `{"error":"…"}`. A line may have up to a kilobyte. Each client has a task of
//! its own, so a slow client does not delay the others.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use creel::Pool;
use creel::net::{UnixListener, UnixStream};

use super::action::Action;
use super::session::PlayerSession;

const LINE_BYTES_MAX: usize = 1 << 10;

/// Returns the default path of the socket.
///
/// # Errors
///
/// Fails if `XDG_RUNTIME_DIR` is not set.
pub fn default_socket() -> Result<PathBuf, String> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.ok_or(
        "there is no default socket, because the variable XDG_RUNTIME_DIR is not set. Pass the \
         path of a socket",
    )?;
    Ok(PathBuf::from(folder).join("creel-vgm.sock"))
}

/// Connects to the player that listens on `path`. Each later read and write fails after `timeout`.
///
/// # Errors
///
/// Fails if no player is listening, or if the system reports an error.
pub fn connect(path: &Path, timeout: Duration) -> io::Result<StdStream> {
    let stream = StdStream::connect(path)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// A listening socket. Its file is removed when this value is dropped.
pub struct Remote {
    path: PathBuf,
}

impl Remote {
    /// Listens on `path`, with tasks on the pool. It replaces a socket file that a former player
    /// left behind.
    ///
    /// # Errors
    ///
    /// Fails if another player is listening on `path`, if `path` is not a socket, or if the system
    /// reports an error.
    pub fn listen(path: &Path, session: &Arc<PlayerSession>, pool: &Pool) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let message = "the file exists, but it is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if StdStream::connect(path).is_ok() {
                let message = "another player is listening on this socket";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            fs::remove_file(path)?;
        }
        let bound = path.to_path_buf();
        let listener = pool.block_on(async move { UnixListener::bind(&bound) })?;
        let remote = Remote {
            path: path.to_path_buf(),
        };
        // Only the user who started the player may control it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let (session, handle) = (Arc::clone(session), pool.handle());
        pool.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                handle.spawn(serve(stream, Arc::clone(&session)));
            }
        });
        Ok(remote)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // We ignore errors, because the file may already be gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers the lines of one client until it disconnects.
async fn serve(stream: UnixStream, session: Arc<PlayerSession>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 256];
    loop {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            let mut answer = answer(&String::from_utf8_lossy(&line), &session);
            answer.push('\n');
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
        if bytes.len() > LINE_BYTES_MAX {
            let _ = stream
                .write_all(b"{\"error\":\"the line is too long: at most 1024 bytes\"}\n")
                .await;
            return;
        }
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
}

fn answer(line: &str, session: &PlayerSession) -> String {
    let answer = if line.trim() == "status" {
        serde_json::to_string(&session.status())
    } else {
        match Action::read(line).and_then(|action| action.apply(session)) {
            Ok(()) => return "{\"ok\":true}".into(),
            Err(error) => serde_json::to_string(&serde_json::json!({ "error": error })),
        }
    };
    answer.unwrap_or_else(|_| "{\"error\":\"no answer\"}".into())
}
