//! The titles of the queue's songs, read beside the playing: nobody waits for them.
//!
//! Left out on purpose: songs in archives, of which each would unpack what lies before it; their titles
//! are known once they play.

use std::sync::Arc;

use creel_vgm::batch::Source;

use super::session::PlayerSession;

/// Begins to read them, after all others that want a processor.
///
/// # Errors
///
/// If the system has no thread for it.
pub fn read(songs: Vec<Source>, session: &Arc<PlayerSession>) -> std::io::Result<()> {
    let session = Arc::clone(session);
    let read = move || {
        // Of no process in particular is this thread alone, on Linux.
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
