//! Decides how long a worker spins before it sleeps.
//!
//! With `Wait::Adaptive`, each worker has a limit for the duration of its spins. The limit starts
//! at about what a sleep and a wake cost. A spin that found no work halves the limit, down to 0. A
//! spin that found work restores the limit, and so does a sleep so short that a spin would have
//! paid. A worker beyond the number of CPUs that the pool may use never spins. If a thread lost its
//! CPU during a spin, the worker does not spin for a while, because another thread needs the CPU or
//! the process has used up its CPU quota. If loops come at regular times, a worker sleeps but is
//! awake before the next one (`rhythm.rs`). The spin between this alarm and the loop does not change
//! the limit.
//!
//! If the pool has sockets, tasks do not restore the limit. The workers of a server notify each
//! other of tasks every few microseconds, because sockets become ready all the time. They would
//! spin between most of these notifications, although a spin does not see sockets. In a profile of
//! a server that shared two busy CPUs with its client, such spins took a tenth of the CPU time.
//!
//! If the pool runs the program's own queues (`source.rs`), a worker yields its CPU during a spin. A
//! thread from outside often pushes a job to such a queue and sleeps until the job is done. When the
//! job is done, this thread needs a CPU, but all CPUs may have workers that spin.

use super::{Wait, rhythm::Rhythm, shared::Shared};
use crate::sync::{LOOKS, Ordering, now_ns, spin_loop, thread};
use crate::worker::{parts::SocketPart, slot::WorkerSlot};

/// The longest spin of `Adaptive` is twice the measured time of a wake, within these bounds.
const SPIN_MIN_NS: u64 = 10_000;
const SPIN_MAX_NS: u64 = 50_000;
/// A worker that was woken for a loop spins for this time after the loop, whatever its limit is.
/// Several loops often come in a row. Without this spin, the worker would sleep after each of them,
/// and callers would wake it for only a few of them.
const AFTER_LOOP_NS: u64 = 4_000;
/// A spin that is shorter than this time, in ns, is not worth two readings of the clock.
const SPIN_WORTH_NS: u64 = 1_000;
/// If two readings of the clock during a spin are this far apart, in ns, the thread was preempted
/// between them.
const PREEMPTED_NS: u64 = 400_000;
/// The time for which a worker does not spin after it was preempted.
const QUIET_NS: u64 = 100_000_000;
/// The maximum duration of a spin during a session.
const SESSION_NS: u64 = 500_000;

/// The state that a worker has learned about spinning.
pub(crate) struct Spin {
    limit_ns: u64,
    quiet_until_ns: u64,
    /// Whether the call of a loop has ended a sleep of the worker since the worker's last spin that
    /// found nothing.
    woken_for_loop: bool,
    rhythm: Rhythm,
}

/// The way in which a spin ended.
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

    /// Spins according to the pool's [`Wait`]. Returns true if there is something to do.
    pub(crate) fn spin(&mut self, shared: &Shared, slot: &WorkerSlot) -> bool {
        let (learned, due) = match shared.wait {
            Wait::Spin(time) => (u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), None),
            Wait::Adaptive if slot.index < shared.cpus && !self.is_quiet() => {
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
                self.loop_began(shared, slot, false);
            }
            Spun::Paid => self.restore_limit(shared, slot),
            Spun::InVain if due.is_some() => self.rhythm.missed(),
            Spun::InVain => {
                self.limit_ns = learned.min(self.limit_ns) / 2;
                self.woken_for_loop = false;
            }
            Spun::Preempted => self.quiet_until_ns = now_ns() + QUIET_NS,
        }
        spun == Spun::Paid
    }

    /// Returns when the worker should wake up by itself, in the time of [`now_ns`].
    pub(crate) fn alarm(&self) -> Option<u64> {
        self.rhythm.alarm()
    }

    /// Records that the worker has slept for `ns`, and whether a ready `socket` ended the sleep. If
    /// the sleep was short, a spin would have paid. This does not apply to sockets, because a spin
    /// does not see them.
    pub(crate) fn slept(&mut self, shared: &Shared, slot: &WorkerSlot, ns: u64, socket: bool) {
        if !socket && ns < full_ns(shared) {
            self.restore_limit(shared, slot);
        }
        self.loop_began(shared, slot, true);
    }

    /// Restores the limit, because a spin has paid or would have paid. In a pool with sockets, it
    /// does so only if something other than tasks has ended the wait.
    fn restore_limit(&mut self, shared: &Shared, slot: &WorkerSlot) {
        let loops = &shared.loops;
        if shared.driver.is_empty()
            || loops.has_part(slot)
            || loops.forks.any_active()
            || loops.shared_jobs.seems_left()
            || slot.inbox.any()
        {
            self.limit_ns = SPIN_MAX_NS;
        }
    }

    /// Checks whether a loop ended the wait of the worker, and learns from it.
    fn loop_began(&mut self, shared: &Shared, slot: &WorkerSlot, asleep: bool) {
        if shared.wait == Wait::Adaptive && shared.loops.has_part(slot) {
            self.rhythm
                .loop_began(shared.loops.mailbox.woken_ns(), asleep);
            self.woken_for_loop |= asleep;
        }
    }

    /// Returns whether the worker's thread lost its CPU in a recent spin.
    fn is_quiet(&mut self) -> bool {
        let quiet = self.quiet_until_ns > 0 && now_ns() < self.quiet_until_ns;
        self.quiet_until_ns *= u64::from(quiet);
        quiet
    }

    /// Returns how long an adaptive worker spins now, unless a session extends it.
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

/// Returns the longest spin of `Adaptive`.
fn full_ns(shared: &Shared) -> u64 {
    (2 * shared.loops.mailbox.wake_ns()).clamp(SPIN_MIN_NS, SPIN_MAX_NS)
}

/// Spins for at most `limit()` ns. Returns how the spin ended, and how long it took. A short spin
/// counts as 0, because it ends before the clock is read.
fn spin(shared: &Shared, slot: &WorkerSlot, limit: impl Fn() -> u64) -> (Spun, u64) {
    let (mut begin, mut last) = (0, 0);
    let (mailbox, share) = (&shared.loops.mailbox, shared.loops.shares.at(slot.index));
    let yields = shared.slots.hooks.source.is_some();
    loop {
        // Reading the clock costs about 20 ns, and so does a pause. Therefore, we check for work
        // several times between two readings.
        for look in 0..LOOKS {
            if share.is_unseen(mailbox.call()) || slot.parker.notified() {
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
        if now - begin >= limit() || cfg!(any(creel_loom, creel_shuttle)) {
            return (Spun::InVain, now - begin);
        }
        last = now;
        if yields {
            thread::yield_now();
            // Another thread may have had the CPU, but it has not preempted this one.
            last = now_ns();
        }
    }
}
