//! The remote control: lines over a Unix socket, each answered by one line of JSON.
//!
//! `status` is answered by how the player stands, any other line by `{"ok":true}` or
//! `{"error":"…"}`. A line has at most a kilobyte; nobody is waited for.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use creel::Pool;
use creel::net::{UnixListener, UnixStream};

use super::action::Action;
use super::session::PlayerSession;

const LINE_BYTES_MAX: usize = 1 << 10;

/// Where a player listens unless told otherwise.
///
/// # Errors
///
/// Where there is no folder for such things.
pub fn default_socket() -> Result<PathBuf, String> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.ok_or("XDG_RUNTIME_DIR is not set; name a socket")?;
    Ok(PathBuf::from(folder).join("creel-vgm.sock"))
}

/// A socket that is listened on, and removed at the end.
pub struct Remote {
    path: PathBuf,
}

impl Remote {
    /// Listens at `path`, on the pool. A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    ///
    /// If another player listens there, if the path is something else, and what the system says.
    pub fn listen(path: &Path, session: &Arc<PlayerSession>, pool: &Pool) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let message = "is there and is no socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if StdStream::connect(path).is_ok() {
                let message = "another player listens there";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            fs::remove_file(path)?;
        }
        let bound = path.to_path_buf();
        let listener = pool.block_on(async move { UnixListener::bind(&bound) })?;
        let remote = Remote {
            path: path.to_path_buf(),
        };
        // Who may play may tell.
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
        // One that is gone already is as well.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers line by line, until the other end has gone.
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
                .write_all(b"{\"error\":\"the line is too long\"}\n")
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
