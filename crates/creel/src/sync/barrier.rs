//! A pair of barriers, for protocols in which one side is frequent and the other side is rare.
//!
//! Two threads each store to one word and then load the word of the other. They must not both miss
//! the other's store, so each of them needs a full barrier in between. Here, the frequent side uses
//! [`light`], which only restrains the compiler. The rare side pays for both with [`heavy`]. It
//! makes the kernel execute a full barrier on every running thread of the process (`membarrier`,
//! Linux 4.14 and later). If the kernel has no such call, on other systems, and under the model
//! checkers, both are ordinary full barriers.
//!
//! We do not cover processes that were forked without `exec`, because their threads do not belong
//! to the pool.

#[cfg(all(
    target_os = "linux",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
))]
mod pair {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Whether the kernel supports `membarrier`. The first call of [`prepare`] sets it.
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

/// A simulated program is sequentially consistent, so we simulate only the cost of the rare side.
#[cfg(creel_sim)]
mod pair {
    /// The cost of the system call, which we estimate.
    const HEAVY_NS: u64 = 2_000;

    pub(crate) fn prepare() {}

    pub(crate) fn light() {}

    pub(crate) fn heavy() -> bool {
        creel_sim::work(HEAVY_NS);
        true
    }
}

#[cfg(all(
    not(creel_sim),
    any(not(target_os = "linux"), creel_loom, creel_shuttle, miri)
))]
mod pair {
    use std::sync::atomic::Ordering;

    #[cfg(creel_loom)]
    use loom::sync::atomic::fence;
    #[cfg(not(creel_loom))]
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

/// The barrier of the frequent side.
pub(crate) use pair::light;

/// The barrier of the rare side, which takes some microseconds. It returns false if the kernel
/// refused, and then nothing is ordered.
pub(crate) use pair::heavy;

/// Asks the kernel for support, once. Call it before any thread uses the barriers.
pub(crate) use pair::prepare;
