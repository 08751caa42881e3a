//! Admission control: decides which requests may wait for the cryptography, by the delay of the
//! requests before them.
//!
//! A request is let in if, by what its kind has cost of late and what waits already, it will be
//! done by its deadline and begun within a limit. The limit is [`Limits::burst`] until the delay
//! that is measured has stayed above [`Limits::target`] for [`Limits::interval`]; from then on it is
//! the target itself. So a burst is taken in, and a lasting overload is met by a queue that is short.
//!
//! A queue that is too short is empty now and then, and then the machine is somebody else's: where
//! others have the cores for tens of milliseconds, requests come in heaps, and of each heap only so
//! much would be let in as the target allows. So after an interval in which a turn left nobody
//! waiting the limit is doubled, up to the burst; after one in which none did it falls by a
//! quarter. At the burst, with every fourth turn such a one, or without any turn, there is no
//! overload any more.
//!
//! The second look is when a request's turn comes: who cannot be done in time any more is refused
//! before any work; so is who has waited too long by then, if there are others for all workers.
//!
//! Invariant: a [`Queued`] is counted as waiting exactly until it starts or is dropped.
//!
//! Source: Nichols and Jacobson, "Controlling Queue Delay" (RFC 8289), for the two times; Maurer,
//! "Fail at Scale" (ACM Queue 13/8), for their use with requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Nanoseconds since the service's beginning.
pub type Nanos = u64;

/// How many kinds of work there are; each has a cost of its own.
pub const KINDS: usize = 5;

/// The numbers that [`Admission`] goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Off: all are let in, and nobody is refused for having waited.
    pub is_on: bool,
    /// How many are worked on at once.
    pub workers: usize,
    /// The delay that a lasting overload is held at, unless twice the mean cost is more.
    pub target: Duration,
    /// For how long the delay must be above the target to be called lasting.
    pub interval: Duration,
    /// The delay that is let pass until then.
    pub burst: Duration,
    /// How many may wait in any case.
    pub waiting_max: usize,
}

/// Why somebody is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// So many wait that no more may.
    Full,
    /// It would wait too long.
    Delay,
    /// It would not be done by its deadline.
    Deadline,
}

/// Lets work in, or refuses it.
///
/// The numbers are hints: they are read and written one by one, by many threads, and a decision
/// made by a stale one is as good as one made a microsecond earlier. So all are relaxed.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    /// How many wait.
    waiting: AtomicU64,
    /// What they will cost together.
    waiting_nanos: AtomicU64,
    /// What one of a kind costs, a mean over the last dozens; 0 until one was done.
    costs: [AtomicU64; KINDS],
    /// Of all kinds.
    mean: AtomicU64,
    /// Since when the delay has been above the target; 0: it is not.
    above_since: AtomicU64,
    /// Whether that has lasted.
    is_overloaded: AtomicBool,
    /// If so: the delay that is let pass, unless the target is more.
    delay_limit: AtomicU64,
    /// Since when the turns are counted, all and those that left nobody waiting.
    interval_start: AtomicU64,
    starts: AtomicU64,
    idle_starts: AtomicU64,
}

impl Admission {
    /// Creates admission control that has seen no work yet.
    pub fn new(limits: Limits) -> Admission {
        Admission {
            limits,
            waiting: AtomicU64::new(0),
            waiting_nanos: AtomicU64::new(0),
            costs: Default::default(),
            mean: AtomicU64::new(0),
            above_since: AtomicU64::new(0),
            is_overloaded: AtomicBool::new(false),
            delay_limit: AtomicU64::new(0),
            interval_start: AtomicU64::new(0),
            starts: AtomicU64::new(0),
            idle_starts: AtomicU64::new(0),
        }
    }

    /// Lets work of a kind wait for its turn.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn enter(
        self: &Arc<Self>,
        kind: usize,
        now: Nanos,
        deadline: Nanos,
    ) -> Result<Queued, Shed> {
        let cost = self.costs[kind].load(Relaxed);
        if self.limits.is_on {
            self.check(cost, now, deadline)?;
        }
        self.waiting.fetch_add(1, Relaxed);
        self.waiting_nanos.fetch_add(cost, Relaxed);
        let admission = Arc::clone(self);
        Ok(Queued {
            admission,
            kind,
            cost,
            enqueued_at: now,
            deadline,
        })
    }

    fn check(&self, cost: u64, now: Nanos, deadline: Nanos) -> Result<(), Shed> {
        if self.waiting() >= self.limits.waiting_max as u64 {
            return Err(Shed::Full);
        }
        let wait = self.waiting_nanos.load(Relaxed) / self.limits.workers as u64;
        if now + wait + cost > deadline {
            return Err(Shed::Deadline);
        }
        if self.waiting() > 0 && wait > self.current_limit(now) {
            return Err(Shed::Delay);
        }
        Ok(())
    }

    /// How long one may wait at present.
    fn current_limit(&self, now: Nanos) -> Nanos {
        if self.is_overloaded.load(Relaxed) {
            self.adjust_limit(now);
        }
        match self.is_overloaded.load(Relaxed) {
            true => self.delay_limit.load(Relaxed).max(self.target()),
            false => self.burst_limit(),
        }
    }

    /// After each interval of an overload: whether the limit leaves workers without work.
    fn adjust_limit(&self, now: Nanos) {
        let since = self.interval_start.load(Relaxed);
        if now.saturating_sub(since) <= nanos(self.limits.interval) {
            return;
        }
        // One decides; the others would find nothing counted.
        let first = self
            .interval_start
            .compare_exchange(since, now, Relaxed, Relaxed);
        if first.is_err() {
            return;
        }
        let (starts, idle_starts) = (
            self.starts.swap(0, Relaxed),
            self.idle_starts.swap(0, Relaxed),
        );
        let delay_limit = self.delay_limit.load(Relaxed).max(self.target());
        if starts == 0 || (4 * idle_starts >= starts && delay_limit >= self.burst_limit()) {
            self.is_overloaded.store(false, Relaxed);
            self.above_since.store(0, Relaxed);
        } else if idle_starts > 0 {
            self.delay_limit
                .store((2 * delay_limit).min(self.burst_limit()), Relaxed);
        } else {
            self.delay_limit
                .store(delay_limit - delay_limit / 4, Relaxed);
        }
    }

    /// What may wait where there is no overload.
    fn burst_limit(&self) -> Nanos {
        nanos(self.limits.burst).max(self.target())
    }

    /// With less than two of them waiting, workers would find nothing now and then.
    fn target(&self) -> Nanos {
        nanos(self.limits.target).max(2 * self.mean.load(Relaxed))
    }

    /// Learns what a turn that has come has waited for; it still counts as waiting.
    fn record_delay(&self, delay: Nanos, now: Nanos) {
        self.starts.fetch_add(1, Relaxed);
        if delay <= self.target() {
            self.above_since.store(0, Relaxed);
            return;
        }
        let since = self.above_since.load(Relaxed);
        if since == 0 {
            self.above_since.store(now, Relaxed);
        } else if now.saturating_sub(since) > nanos(self.limits.interval)
            && !self.is_overloaded.swap(true, Relaxed)
        {
            self.delay_limit.store(0, Relaxed);
            self.interval_start.store(now, Relaxed);
            self.starts.store(0, Relaxed);
            self.idle_starts.store(0, Relaxed);
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Whether the delay has been above the target for long.
    pub fn is_overloaded(&self) -> bool {
        self.is_overloaded.load(Relaxed)
    }

    /// What one of a kind costs.
    pub fn cost(&self, kind: usize) -> Nanos {
        self.costs[kind].load(Relaxed)
    }
}

/// The right to wait.
#[derive(Debug)]
#[must_use = "it waits until it begins or is dropped"]
pub struct Queued {
    admission: Arc<Admission>,
    kind: usize,
    cost: u64,
    enqueued_at: Nanos,
    deadline: Nanos,
}

impl Queued {
    /// Starts the work. Returns how long the request has waited, and a permit to report its cost.
    ///
    /// # Errors
    ///
    /// Why it is too late for it.
    pub fn start(self, now: Nanos) -> Result<(Nanos, Permit), Shed> {
        let delay = now.saturating_sub(self.enqueued_at);
        let admission = Arc::clone(&self.admission);
        admission.record_delay(delay, now);
        if admission.limits.is_on {
            let cost = admission.costs[self.kind].load(Relaxed);
            let shed = if now + cost > self.deadline {
                Some(Shed::Deadline)
            } else if delay > admission.current_limit(now)
                && admission.waiting() > admission.limits.workers as u64
            {
                Some(Shed::Delay)
            } else {
                None
            };
            if let Some(shed) = shed {
                return Err(shed);
            }
        }
        if admission.waiting() <= 1 {
            admission.idle_starts.fetch_add(1, Relaxed);
        }
        let kind = self.kind;
        Ok((delay, Permit { admission, kind }))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.admission.waiting.fetch_sub(1, Relaxed);
        self.admission.waiting_nanos.fetch_sub(self.cost, Relaxed);
    }
}

/// Work that is being done.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    kind: usize,
}

impl Permit {
    /// It took this long.
    pub fn finish(self, took: Nanos) {
        update_mean(&self.admission.costs[self.kind], took);
        update_mean(&self.admission.mean, took);
    }
}

/// A mean over some sixteen, for which a lost update is as good as none.
fn update_mean(mean: &AtomicU64, took: u64) {
    let before = mean.load(Relaxed);
    let after = match before {
        0 => took,
        _ => before - before / 16 + took / 16,
    };
    mean.store(after.max(1), Relaxed);
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const NEVER: u64 = u64::MAX / 2;

    fn admission(is_on: bool, waiting_max: usize) -> Arc<Admission> {
        let time = Duration::from_millis;
        let (target, interval, burst) = (time(5), time(100), time(100));
        Arc::new(Admission::new(Limits {
            is_on,
            workers: 1,
            target,
            interval,
            burst,
            waiting_max,
        }))
    }

    /// What costs a millisecond each.
    fn with_known_cost(is_on: bool, waiting_max: usize) -> Arc<Admission> {
        let admission = admission(is_on, waiting_max);
        admission
            .enter(0, 0, NEVER)
            .unwrap()
            .start(0)
            .unwrap()
            .1
            .finish(MS);
        admission
    }

    #[test]
    fn a_dropped_request_is_no_longer_counted_as_waiting() {
        let admission = with_known_cost(true, 10);
        let queued: Vec<Queued> = (0..3)
            .map(|_| admission.enter(0, 0, NEVER).unwrap())
            .collect();
        assert_eq!(
            (admission.waiting(), admission.waiting_nanos.load(Relaxed)),
            (3, 3 * MS)
        );
        drop(queued);
        assert_eq!(
            (admission.waiting(), admission.waiting_nanos.load(Relaxed)),
            (0, 0)
        );
        // One that was let in before its kind's cost was known leaves what it came with.
        let early = admission.enter(1, 0, NEVER).unwrap();
        admission
            .enter(1, 0, NEVER)
            .unwrap()
            .start(0)
            .unwrap()
            .1
            .finish(MS);
        drop(early);
        assert_eq!(admission.waiting_nanos.load(Relaxed), 0);
    }

    #[test]
    fn the_queue_length_is_bounded() {
        let admission = admission(true, 2);
        let _queued = [
            admission.enter(0, 0, NEVER).unwrap(),
            admission.enter(0, 0, NEVER).unwrap(),
        ];
        assert_eq!(admission.enter(0, 0, NEVER).unwrap_err(), Shed::Full);
    }

    #[test]
    fn requests_that_would_miss_their_deadline_are_shed_on_entry_and_on_start() {
        let admission = with_known_cost(true, 100);
        let _before: Vec<Queued> = (0..10)
            .map(|_| admission.enter(0, 0, NEVER).unwrap())
            .collect();
        assert_eq!(admission.enter(0, 0, 10 * MS).unwrap_err(), Shed::Deadline);
        let just = admission.enter(0, 0, 11 * MS).unwrap();
        assert_eq!(just.start(11 * MS).unwrap_err(), Shed::Deadline);
    }

    #[test]
    fn bursts_are_admitted_and_lasting_delay_is_shed() {
        let admission = with_known_cost(true, 1000);
        // A hundred at once are a burst of 100 ms; one more would wait longer.
        let mut burst: Vec<Queued> = (0..=100)
            .map(|_| admission.enter(0, MS, NEVER).unwrap())
            .collect();
        assert_eq!(admission.enter(0, MS, NEVER).unwrap_err(), Shed::Delay);
        // They are taken one a millisecond, the last ones after 100 ms.
        burst.reverse();
        let mut now = MS;
        while let Some(next) = burst.pop() {
            let (_, permit) = next.start(now).unwrap();
            now += MS;
            permit.finish(MS);
        }
        assert!(!admission.is_overloaded());
        // More keep coming, so that each has waited for 50 ms: for 100 ms they are let in.
        let other = admission.enter(0, now, NEVER).unwrap();
        let mut refused = None;
        for _ in 0..200 {
            let queued = admission.enter(0, now - 50 * MS, NEVER).unwrap();
            if queued.start(now).is_err() {
                refused.get_or_insert(now);
            }
            now += MS;
        }
        assert!(admission.is_overloaded());
        assert!(refused.is_some());
        drop(other);
        // Now the limit is the target: 5 ms of waiting, and no more.
        let few: Vec<Queued> = (0..6)
            .map(|_| admission.enter(0, now, NEVER).unwrap())
            .collect();
        assert_eq!(admission.enter(0, now, NEVER).unwrap_err(), Shed::Delay);
        let begin_some = |others: usize| {
            for _ in 0..8 {
                let _others: Vec<Queued> = (0..others)
                    .map(|_| admission.enter(0, now, NEVER).unwrap())
                    .collect();
                drop(admission.enter(0, now, NEVER).unwrap().start(now));
            }
        };
        drop(few);
        // It grows while turns leave nobody waiting, and falls while none does.
        for (interval, others, limit) in [
            (1, 1, 5 * MS),
            (2, 0, 10 * MS),
            (3, 1, 15 * MS / 2),
            (4, 0, 15 * MS),
            (5, 0, 30 * MS),
            (6, 0, 60 * MS),
            (7, 0, 100 * MS),
        ] {
            begin_some(others);
            assert_eq!(
                admission.current_limit(now + interval * 101 * MS),
                limit,
                "{interval}"
            );
            assert!(admission.is_overloaded());
        }
        begin_some(0);
        assert_eq!(admission.current_limit(now + 808 * MS), 100 * MS);
        assert!(!admission.is_overloaded());
    }

    /// What one worker gets done of twice what it can do, in ten seconds, if requests are seen every
    /// `burst_ms` only, because somebody else has the core meanwhile; and how long who was worked on
    /// had waited, all but one in a hundred.
    fn simulate(burst_ms: u64) -> (f64, u64) {
        let (admission, mut queue) = (
            with_known_cost(true, 4096),
            std::collections::VecDeque::new(),
        );
        let (mut done, mut idle, mut delays) = (0, 0, Vec::new());
        for ms in 1..10_000 {
            let now = ms * MS;
            if ms % burst_ms == 0 {
                let burst =
                    (0..2 * burst_ms).filter_map(|_| admission.enter(0, now, now + 1000 * MS).ok());
                queue.extend(burst);
            }
            let started = std::iter::from_fn(|| queue.pop_front())
                .find_map(|next: Queued| next.start(now).ok());
            match started {
                Some((delay, permit)) => {
                    permit.finish(MS);
                    delays.push(delay / MS);
                    done += 1;
                }
                None => idle += 1,
            }
        }
        delays.sort_unstable();
        (
            f64::from(done) / f64::from(done + idle),
            delays[delays.len() * 99 / 100],
        )
    }

    #[test]
    fn a_worker_stays_busy_for_any_arrival_pattern() {
        for (burst_ms, least, wait_ms_max) in [
            (1, 0.99, 12),
            (10, 0.98, 40),
            (30, 0.95, 100),
            (60, 0.9, 100),
        ] {
            let (share, wait_ms) = simulate(burst_ms);
            println!(
                "heaps of {burst_ms} ms: {share:.3} of what can be done, p99 of the wait {wait_ms} ms"
            );
            assert!(share >= least, "{burst_ms}: {share}");
            assert!(wait_ms <= wait_ms_max, "{burst_ms}: {wait_ms} ms");
        }
    }

    #[test]
    fn the_target_is_at_least_twice_the_mean_cost() {
        let admission = admission(true, 1000);
        admission
            .enter(0, 0, NEVER)
            .unwrap()
            .start(0)
            .unwrap()
            .1
            .finish(20 * MS);
        assert_eq!(admission.target(), 40 * MS);
    }

    #[test]
    fn admission_off_admits_everything() {
        let admission = with_known_cost(false, 1);
        let late: Vec<Queued> = (0..10)
            .map(|_| admission.enter(0, 0, MS).unwrap())
            .collect();
        for queued in late {
            assert_eq!(queued.start(NEVER).unwrap().0, NEVER);
        }
    }
}
