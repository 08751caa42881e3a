//! How long a worker spins before it sleeps.
//!
//! `Adaptive` keeps a limit a worker. It begins at about what a sleep and a wake cost; a spin
//! that ran out in vain halves it, down to none; a spin that paid, or a sleep so short that a
//! spin would have paid, restores it. A worker beyond the CPUs that the pool may use never
//! spins, and after a spin in which the thread lost its CPU it does not for a while: then
//! somebody else has a use for it. Where loops come in a rhythm, a worker that sleeps is awake
//! before the next.

use super::{Wait, rhythm::Rhythm, shared::Shared};
use crate::sync::{LOOKS, Ordering, now_ns, spin_loop};
use crate::worker::slot::WorkerSlot;

/// The longest spin of `Adaptive` is twice what a wake was measured to take, within these bounds.
const SPIN_MIN_NS: u64 = 10_000;
const SPIN_MAX_NS: u64 = 50_000;
/// Who was woken for a loop spins for so long after it, whatever it has learned: loops often come
/// several in a row, and a worker that slept after each would be woken for every few of them only.
const AFTER_LOOP_NS: u64 = 4_000;
/// Below this a spin is not worth two looks at the clock.
const SPIN_WORTH_NS: u64 = 1_000;
/// Two looks at the clock this far apart mean that the thread was preempted between them.
const PREEMPTED_NS: u64 = 400_000;
/// How long a worker does not spin after it was.
const QUIET_NS: u64 = 100_000_000;
/// What a worker spins for at most during a session.
const SESSION_NS: u64 = 500_000;

/// What a worker has learned about spinning.
pub(crate) struct Spin {
    limit_ns: u64,
    quiet_until_ns: u64,
    /// Whether the last sleep was ended by a loop, and no spin in vain came after.
    woken_for_loop: bool,
    rhythm: Rhythm,
}

/// How a spin ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    Paid,
    InVain,
    Preempted,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Self {
            limit_ns: SPIN_MAX_NS,
            quiet_until_ns: 0,
            woken_for_loop: false,
            rhythm: Rhythm::new(),
        }
    }

    /// Spins as the pool's [`Wait`] says; true: something came.
    pub(crate) fn spin(&mut self, shared: &Shared, slot: &WorkerSlot) -> bool {
        let (learned, due) = match shared.wait {
            Wait::Spin(time) => (u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), None),
            Wait::Adaptive if slot.index < shared.pus && !self.is_quiet() => {
                (self.learned(shared), self.rhythm.due(now_ns))
            }
            Wait::Adaptive | Wait::Park | Wait::Throttle(_) => (0, None),
        };
        let limit = learned.max(due.unwrap_or(0));
        if limit == 0 {
            return false;
        }
        let hot = || match shared.wait {
            Wait::Adaptive if shared.sessions.load(Ordering::Relaxed) > 0 => SESSION_NS,
            _ => limit,
        };
        let (spun, ns) = spin(shared, slot, hot);
        slot.counters.spins.add(1);
        slot.counters.spun_ns.add(ns);
        match spun {
            Spun::Paid if due.is_some() => {
                self.rhythm.came_after(ns);
                self.called(shared, slot, false);
            }
            Spun::Paid => self.limit_ns = SPIN_MAX_NS,
            Spun::InVain if due.is_some() => self.rhythm.missed(),
            Spun::InVain => {
                self.limit_ns = learned.min(self.limit_ns) / 2;
                self.woken_for_loop = false;
            }
            Spun::Preempted => self.quiet_until_ns = now_ns() + QUIET_NS,
        }
        spun == Spun::Paid
    }

    /// When the worker should wake up although nobody wakes it, by [`now_ns`].
    pub(crate) fn alarm(&self) -> Option<u64> {
        self.rhythm.alarm()
    }

    /// The worker has slept for `ns`, until a `socket` was ready or not: if not for long, a spin
    /// would have paid, which sees no socket.
    pub(crate) fn slept(&mut self, shared: &Shared, slot: &WorkerSlot, ns: u64, socket: bool) {
        if !socket && ns < full_ns(shared) {
            self.limit_ns = SPIN_MAX_NS;
        }
        self.called(shared, slot, true);
    }

    /// What the worker slept for is over: was it a loop?
    fn called(&mut self, shared: &Shared, slot: &WorkerSlot, asleep: bool) {
        if shared.wait == Wait::Adaptive && shared.loops.has_part(slot) {
            self.rhythm.called(shared.loops.mailbox.woken_ns(), asleep);
            self.woken_for_loop |= asleep;
        }
    }

    /// Whether the thread lost its CPU in a spin not long ago.
    fn is_quiet(&mut self) -> bool {
        let quiet = self.quiet_until_ns > 0 && now_ns() < self.quiet_until_ns;
        self.quiet_until_ns *= u64::from(quiet);
        quiet
    }

    /// What an adaptive worker spins for now, unless a session makes it longer.
    fn learned(&self, shared: &Shared) -> u64 {
        let least = if self.woken_for_loop {
            AFTER_LOOP_NS
        } else {
            0
        };
        match self.limit_ns.min(full_ns(shared)).max(least) {
            short if short >= SPIN_WORTH_NS => short,
            _ if shared.sessions.load(Ordering::Relaxed) > 0 => SPIN_WORTH_NS,
            _ => 0,
        }
    }
}

/// The longest spin of `Adaptive`.
fn full_ns(shared: &Shared) -> u64 {
    (2 * shared.loops.mailbox.wake_ns()).clamp(SPIN_MIN_NS, SPIN_MAX_NS)
}

/// Spins for at most `limit()` ns; tells how that ended, and how long it took (short spins count
/// as none: they are over before the clock is read).
fn spin(shared: &Shared, slot: &WorkerSlot, limit: impl Fn() -> u64) -> (Spun, u64) {
    let (mut begin, mut last) = (0, 0);
    let (line, share) = (&shared.loops.mailbox, shared.loops.shares.at(slot.index));
    loop {
        // Reading the clock costs some 20 ns, and so does a pause: look many times between.
        for look in 0..LOOKS {
            if share.is_unseen(line.call()) || slot.parker.notified() {
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
        if now - begin >= limit() || cfg!(any(loom, shuttle)) {
            return (Spun::InVain, now - begin);
        }
        last = now;
    }
}
