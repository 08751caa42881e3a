//! A pair of barriers, where one side of a protocol is frequent and the other rare.
//!
//! Two threads that each store to one word and then load the other's must not both miss the
//! store: each needs a full barrier between. Here the frequent side has [`light`], which only holds
//! the compiler back, and the rare side pays for both with [`heavy`], by which the kernel makes
//! every running thread of the process pass a full barrier (`membarrier`, Linux 4.14 and later).
//! Elsewhere, and under the model checkers, both are ordinary full barriers.
//!
//! Left out: processes forked without `exec`, whose threads are not the pool's.

#[cfg(all(target_os = "linux", not(loom), not(shuttle), not(miri)))]
mod pair {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Whether the kernel does it. Written once, by the first [`prepare`].
    static BY_KERNEL: AtomicBool = AtomicBool::new(false);

    pub(crate) fn prepare() {
        static ASKED: Once = Once::new();
        ASKED.call_once(|| {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            BY_KERNEL.store(registered.is_ok(), Ordering::Relaxed);
        });
    }

    #[inline]
    pub(crate) fn light() {
        if BY_KERNEL.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn heavy() -> bool {
        if BY_KERNEL.load(Ordering::Relaxed) {
            membarrier(MembarrierCommand::PrivateExpedited).is_ok()
        } else {
            fence(Ordering::SeqCst);
            true
        }
    }
}

#[cfg(any(not(target_os = "linux"), loom, shuttle, miri))]
mod pair {
    use std::sync::atomic::Ordering;

    #[cfg(loom)]
    use loom::sync::atomic::fence;
    #[cfg(not(loom))]
    use std::sync::atomic::fence;

    pub(crate) fn prepare() {}

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

/// The frequent side's barrier.
pub(crate) use pair::light;

/// The rare side's barrier, some microseconds. False: the kernel refused, nothing is ordered.
pub(crate) use pair::heavy;

/// Asks the kernel, once, before any thread uses the barriers.
pub(crate) use pair::prepare;
