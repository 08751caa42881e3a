//! A pair of barriers, for protocols in which one side is frequent and the other side is rare.
//!
//! Two threads each store to one word and then load the word of the other. They must not both miss
//! the other's store, so each of them needs a full barrier in between. Here, the frequent side uses
//! [`light`], which only restrains the compiler. The rare side pays for both with [`heavy`]. It
//! makes the kernel execute a full barrier on every running thread of the process (`membarrier`,
//! Linux 4.14 and later). If the kernel has no such call, on other systems, and under the model
//! checkers, both are ordinary full barriers.
//!
//! The kernel's barrier takes a lock and interrupts every processor that runs the process. On a
//! virtual machine, it takes up to ten microseconds. If many threads use the rare side, they mostly
//! wait for each other. A protocol can therefore execute an ordinary barrier on both sides instead
//! ([`full`]).
//!
//! We do not cover processes that were forked without `exec`, because their threads do not belong
//! to the pool.

use super::Ordering;

#[cfg(all(
    target_os = "linux",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
))]
mod pair {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

    pub(super) use std::sync::atomic::fence;

    /// Whether the kernel supports `membarrier`. The first call of [`prepare`] sets it.
    static BY_KERNEL: AtomicBool = AtomicBool::new(false);

    pub(crate) fn prepare() {
        static ASKED: Once = Once::new();
        ASKED.call_once(|| {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            BY_KERNEL.store(registered.is_ok(), Ordering::Relaxed);
        });
    }

    pub(super) fn is_by_kernel() -> bool {
        BY_KERNEL.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn light_by_kernel() {
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn heavy_by_kernel() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

/// A simulated program is sequentially consistent, so we simulate only the costs.
#[cfg(creel_sim)]
mod pair {
    pub(super) use creel_sim::atomic::fence;

    /// The cost of the system call, and that of the interrupt of each other PU. We estimate both.
    const HEAVY_NS: u64 = 2_000;
    const INTERRUPT_NS: u64 = 500;

    pub(crate) fn prepare() {}

    pub(super) fn is_by_kernel() -> bool {
        true
    }

    pub(super) fn light_by_kernel() {}

    pub(super) fn heavy_by_kernel() -> bool {
        creel_sim::interrupt_others(INTERRUPT_NS);
        creel_sim::work(HEAVY_NS);
        true
    }
}

#[cfg(all(
    not(creel_sim),
    any(not(target_os = "linux"), creel_loom, creel_shuttle, miri)
))]
mod pair {
    #[cfg(creel_loom)]
    pub(super) use loom::sync::atomic::fence;
    #[cfg(not(creel_loom))]
    pub(super) use std::sync::atomic::fence;

    pub(crate) fn prepare() {}

    pub(super) fn is_by_kernel() -> bool {
        false
    }

    pub(super) fn light_by_kernel() {}

    pub(super) fn heavy_by_kernel() -> bool {
        false
    }
}

/// Asks the kernel for support, once. Call it before any thread uses the barriers.
pub(crate) use pair::prepare;

/// The barrier of the frequent side.
#[inline]
pub(crate) fn light() {
    if pair::is_by_kernel() {
        pair::light_by_kernel();
    } else {
        pair::fence(Ordering::SeqCst);
    }
}

/// The barrier of the rare side, which takes some microseconds. It returns false if the kernel
/// refused, and then nothing is ordered.
pub(crate) fn heavy() -> bool {
    if pair::is_by_kernel() {
        pair::heavy_by_kernel()
    } else {
        pair::fence(Ordering::SeqCst);
        true
    }
}

/// A full barrier, for protocols whose two sides are about equally frequent.
#[inline]
pub(crate) fn full() {
    pair::fence(Ordering::SeqCst);
}
