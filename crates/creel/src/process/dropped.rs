//! Children whose [`Child`](super::Child) was dropped before they ended.
//!
//! The system keeps an ended child as a zombie until its parent has waited for it. Therefore we
//! keep the handles of dropped children that continue. We wait for those that have ended whenever
//! the process starts a child, or drops another one that continues.

use crate::blocking;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

/// The children that continue. In a forked process, [`reap`] forgets them, because they are not its
/// children.
static CONTINUING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Waits for the children that have ended. Never blocks.
pub(super) fn reap() {
    let mut continuing = CONTINUING.lock().unwrap_or_else(PoisonError::into_inner);
    // We also forget a child if waiting for it returns an error, because then other code has waited
    // for it, and it no longer exists.
    continuing.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// Keeps a dropped child, so that [`reap`] can wait for it once it has ended.
pub(super) fn keep(child: Child) {
    reap();
    let mut continuing = CONTINUING.lock().unwrap_or_else(PoisonError::into_inner);
    continuing.push(child);
}

/// Kills a dropped child, and waits for it on another thread.
pub(super) fn kill(mut child: Child) {
    // We ignore the error, because it means that the child has ended already.
    let _ = child.kill();
    if let Ok(None) = child.try_wait() {
        // If no thread for blocking calls can be started, a zombie remains. We do not panic,
        // because this code runs in a destructor, where a panic could abort the process.
        let _ = blocking::detached(move || drop(child.wait()));
    }
}
