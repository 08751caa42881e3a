//! How long a worker spins before it sleeps.
//!
//! `Adaptive` keeps a limit a worker. It begins at about what a sleep and a wake cost; a spin
//! that ran out in vain halves it, down to none; a spin that paid, or a sleep so short that a
//! spin would have paid, restores it. A worker beyond the CPUs that the pool may use never
//! spins, and after a spin in which the thread lost its CPU it does not for a while: then
//! somebody else has a use for it.

use super::{Wait, seat::Seat, shared::Shared};
use crate::sync::{LOOKS, Ordering, now_ns, spin_loop};

/// The longest spin of `Adaptive` is twice what a wake was measured to take, within these bounds.
const SPIN_MIN_NS: u64 = 10_000;
const SPIN_MAX_NS: u64 = 50_000;
/// Below this a spin is not worth two looks at the clock.
const SPIN_WORTH_NS: u64 = 1_000;
/// Two looks at the clock this far apart mean that the thread was preempted between them.
const PREEMPTED_NS: u64 = 400_000;
/// How long a worker does not spin after it was.
const QUIET_NS: u64 = 100_000_000;
/// What a worker spins for during a session.
const SESSION_NS: u64 = 500_000;

/// What a worker has learned about spinning.
pub(crate) struct Patience {
    limit_ns: u64,
    quiet_until_ns: u64,
}

/// How a spin ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    Paid,
    InVain,
    Preempted,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            limit_ns: SPIN_MAX_NS,
            quiet_until_ns: 0,
        }
    }

    /// Spins as the pool's [`Wait`] says; true: something came.
    pub(crate) fn spin(&mut self, shared: &Shared, seat: &Seat) -> bool {
        let limit = match shared.wait {
            Wait::Spin(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Wait::Adaptive if seat.index < shared.pus => self.limit(shared),
            Wait::Adaptive | Wait::Park | Wait::Throttle(_) => 0,
        };
        if limit == 0 {
            return false;
        }
        let (spun, ns) = spin(shared, seat, limit);
        seat.counters.spins.add(1);
        seat.counters.spun_ns.add(ns);
        match spun {
            Spun::Paid => self.limit_ns = SPIN_MAX_NS,
            Spun::InVain => self.limit_ns = limit / 2,
            Spun::Preempted => self.quiet_until_ns = now_ns() + QUIET_NS,
        }
        spun == Spun::Paid
    }

    /// The worker has slept: if not for long, a spin would have paid.
    pub(crate) fn slept(&mut self, shared: &Shared, ns: u64) {
        if ns < full_ns(shared) {
            self.limit_ns = SPIN_MAX_NS;
        }
    }

    /// What an adaptive worker spins for now.
    fn limit(&mut self, shared: &Shared) -> u64 {
        let limit = match shared.sessions.load(Ordering::Relaxed) {
            0 => self.limit_ns.min(full_ns(shared)),
            _ => SESSION_NS,
        };
        if limit < SPIN_WORTH_NS || self.quiet_until_ns > 0 && now_ns() < self.quiet_until_ns {
            return 0;
        }
        self.quiet_until_ns = 0;
        limit
    }
}

/// The longest spin of `Adaptive`.
fn full_ns(shared: &Shared) -> u64 {
    (2 * shared.line.wake_ns()).clamp(SPIN_MIN_NS, SPIN_MAX_NS)
}

/// Spins for at most `limit` ns; tells how that ended, and how long it took (short spins count
/// as none: they are over before the clock is read).
fn spin(shared: &Shared, seat: &Seat, limit: u64) -> (Spun, u64) {
    let (mut begin, mut last) = (0, 0);
    loop {
        // Reading the clock costs some 20 ns, and so does a pause: look many times between.
        for look in 0..LOOKS {
            if seat.share.is_unseen(shared.line.call()) || seat.notified() {
                return (Spun::Paid, last - begin);
            }
            if look % 4 == 3 {
                spin_loop();
            }
        }
        let now = now_ns();
        if begin == 0 {
            (begin, last) = (now, now);
        }
        if now - last > PREEMPTED_NS {
            return (Spun::Preempted, now - begin);
        }
        if now - begin >= limit || cfg!(any(loom, shuttle)) {
            return (Spun::InVain, now - begin);
        }
        last = now;
    }
}
