//! Reads the titles of the songs in the queue on a thread of its own, so that the player does not
//! wait for them.
//!
//! We leave out songs in archives on purpose, because unpacking all of them would take long. Their
//! titles are known once they play.

use std::sync::Arc;

use creel_vgm::batch::Source;

use super::session::PlayerSession;

/// Starts a thread that reads the titles of the songs outside of archives. On Linux, the thread has
/// the lowest priority.
///
/// # Errors
///
/// Fails if the system cannot start the thread.
pub fn read(songs: Vec<Source>, session: &Arc<PlayerSession>) -> std::io::Result<()> {
    let session = Arc::clone(session);
    let read = move || {
        // On Linux, `setpriority` without a process affects only the calling thread.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, 19);
        for (place, song) in songs.iter().enumerate() {
            if session.is_quitting() || session.controls.is_ended() {
                return;
            }
            if !matches!(song, Source::Packed(_))
                && let Ok(song) = song.load()
            {
                session.set_title(place, &song.tags.with_fallback());
            }
        }
    };
    let thread = std::thread::Builder::new().name("titles".into());
    thread.spawn(read).map(drop)
}
