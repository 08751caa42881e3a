//! Admission control. It decides which requests may wait for the cryptography.
//!
//! The decision depends on the *delay*: the time that requests spend in the queue. We estimate the
//! delay and the cost of a new request from the mean cost of its kind and from the work that is
//! already queued. A request is admitted if all of these hold:
//!
//! - Fewer than [`Limits::waiting_max`] requests wait.
//! - It will finish by its deadline.
//! - It will start within the current delay limit, or no other request waits.
//!
//! The delay limit is [`Limits::burst`] at first, or the target if that is longer. When the
//! measured delay has been above [`Limits::target`] for [`Limits::interval`], the overload is
//! *lasting*, and the limit becomes the target. We therefore absorb a burst, but keep the queue
//! short during a lasting overload.
//!
//! # Keeping the workers busy
//!
//! If the queue is too short, it is empty from time to time. The workers then run out of requests
//! and lose their cores to other programs. If those programs keep the cores for tens of
//! milliseconds, requests arrive in bursts, and a limit as low as the target would reject most of
//! each burst.
//!
//! For this reason the limit adapts during a lasting overload. We count *starts* (requests whose
//! work is about to start, including those that the second check rejects) and *idle starts*
//! (accepted starts that leave nobody waiting). After each interval:
//!
//! | in this interval | the limit |
//! |---|---|
//! | there was an idle start | doubles, up to the burst limit |
//! | there was no idle start | falls by a quarter, down to the target |
//!
//! The overload is over if there was no start at all, or if the limit is at the burst limit and at
//! least every fourth start was idle.
//!
//! # The second check
//!
//! We check each request again when its work is about to start. We reject it if it can no longer
//! finish by its deadline. We also reject it if it has waited longer than the limit and more
//! requests wait than there are workers. With fewer waiting requests, a worker would become idle.
//!
//! Invariant: a [`Queued`] is counted as waiting until it starts or is dropped.
//!
//! Sources: Nichols and Jacobson, "Controlling Queue Delay" (RFC 8289), for the target and the
//! interval. Maurer, "Fail at Scale" (ACM Queue 13/8), for their use with requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A time in nanoseconds since the start of the service, or a duration in nanoseconds.
pub type Nanos = u64;

/// The number of kinds of work. Each kind has its own mean cost.
pub const KINDS: usize = 5;

/// The limits of [`Admission`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Whether admission control is on. If it is off, every request is admitted and none is
    /// rejected because of its delay.
    pub is_on: bool,
    /// The number of requests that are worked on at the same time.
    pub workers: usize,
    /// The delay during a lasting overload. Twice the mean cost applies instead if that is longer.
    pub target: Duration,
    /// How long the delay must be above the target before we call the overload lasting.
    pub interval: Duration,
    /// The delay limit before the overload is lasting.
    pub burst: Duration,
    /// The maximum number of requests that wait.
    pub waiting_max: usize,
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// The queue has reached its maximum length.
    Full,
    /// The request would wait too long, or has waited too long.
    Delay,
    /// The request would not be done by its deadline.
    Deadline,
}

/// Decides which requests may wait for the cryptography.
///
/// All atomic accesses are relaxed. The numbers are hints that many threads read and write one by
/// one. A decision based on a stale number is as good as a decision made a microsecond earlier.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    /// The number of requests that wait.
    waiting: AtomicU64,
    /// The estimated cost of all waiting requests together.
    waiting_nanos: AtomicU64,
    /// The mean cost of each kind over the last requests. It is 0 until one request of the kind is
    /// done.
    costs: [AtomicU64; KINDS],
    /// The mean cost over all kinds.
    mean: AtomicU64,
    /// The time since which the delay has been above the target, or 0 if it is not above it.
    above_since: AtomicU64,
    /// Whether the overload is lasting.
    is_overloaded: AtomicBool,
    /// The delay limit during a lasting overload, unless the target is higher.
    delay_limit: AtomicU64,
    /// The start of the interval in which `starts` and `idle_starts` are counted.
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

    /// Lets a request of a kind join the queue.
    ///
    /// # Errors
    ///
    /// Returns the reason if the request is rejected. Nothing is counted in this case.
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

    /// Checks whether a new request with this estimated cost may wait.
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

    /// Returns the current delay limit. It adapts the limit first if an interval of an overload is
    /// over.
    fn current_limit(&self, now: Nanos) -> Nanos {
        if self.is_overloaded.load(Relaxed) {
            self.adjust_limit(now);
        }
        match self.is_overloaded.load(Relaxed) {
            true => self.delay_limit.load(Relaxed).max(self.target()),
            false => self.burst_limit(),
        }
    }

    /// Adapts the limit after each interval of an overload, as the head of this module describes.
    fn adjust_limit(&self, now: Nanos) {
        let since = self.interval_start.load(Relaxed);
        if now.saturating_sub(since) <= nanos(self.limits.interval) {
            return;
        }
        // Only one thread may decide. A second one would read counters that the first has reset.
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

    /// Returns the delay limit that applies if the overload is not lasting.
    fn burst_limit(&self) -> Nanos {
        nanos(self.limits.burst).max(self.target())
    }

    /// Returns the delay limit of a lasting overload. It is at least twice the mean cost, because
    /// with fewer than two requests waiting the workers would run out of work from time to time.
    fn target(&self) -> Nanos {
        nanos(self.limits.target).max(2 * self.mean.load(Relaxed))
    }

    /// Records the delay of a request that is about to start. The request still counts as waiting.
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

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Returns whether the overload is lasting: the delay was above the target for an interval.
    pub fn is_overloaded(&self) -> bool {
        self.is_overloaded.load(Relaxed)
    }

    /// Returns the mean cost of a kind, or 0 if none of that kind is done yet.
    pub fn cost(&self, kind: usize) -> Nanos {
        self.costs[kind].load(Relaxed)
    }
}

/// A request that is counted as waiting until it is started or dropped.
#[derive(Debug)]
#[must_use = "a queued request counts as waiting until it is started or dropped"]
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
    /// Returns the reason if it is too late for this request.
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

/// A request whose work has started.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    kind: usize,
}

impl Permit {
    /// Records that the work took this time.
    pub fn finish(self, took: Nanos) {
        update_mean(&self.admission.costs[self.kind], took);
        update_mean(&self.admission.mean, took);
    }
}

/// Updates a mean over about 16 values. A lost update does not matter, because it is only an
/// estimate.
fn update_mean(mean: &AtomicU64, took: u64) {
    let before = mean.load(Relaxed);
    let after = match before {
        0 => took,
        _ => before - before / 16 + took / 16,
    };
    mean.store(after.max(1), Relaxed);
}

/// Converts a duration to nanoseconds. A duration that is too long becomes a very large number.
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

    /// Creates admission control for which one request of kind 0 has cost a millisecond.
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
        // A request that was admitted before the cost of its kind was known must not subtract more
        // than it added.
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
    fn bursts_are_admitted_and_requests_are_shed_during_a_lasting_delay() {
        let admission = with_known_cost(true, 1000);
        // A hundred requests at once are a burst of 100 ms. One more would wait longer.
        let mut burst: Vec<Queued> = (0..=100)
            .map(|_| admission.enter(0, MS, NEVER).unwrap())
            .collect();
        assert_eq!(admission.enter(0, MS, NEVER).unwrap_err(), Shed::Delay);
        // The worker starts one request per millisecond, the last one after 100 ms.
        burst.reverse();
        let mut now = MS;
        while let Some(next) = burst.pop() {
            let (_, permit) = next.start(now).unwrap();
            now += MS;
            permit.finish(MS);
        }
        assert!(!admission.is_overloaded());
        // More requests keep coming, so that each has waited for 50 ms. They are admitted for 100
        // ms.
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
        // Now the limit is the target of 5 ms.
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
        // In an interval with an idle start, the limit doubles. In an interval without one, it
        // falls by a quarter. `others` is the number of requests that still wait at each start.
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

    /// Simulates one worker at twice its capacity for ten seconds.
    ///
    /// Requests arrive in bursts of `burst_ms`, because another program has the core in between.
    /// Returns the share of the time in which the worker is busy, and the 99th percentile of the
    /// delay of started requests in milliseconds.
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
                "bursts of {burst_ms} ms: the worker is busy for {share:.3} of the time, p99 delay {wait_ms} ms"
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
    fn disabled_admission_control_admits_everything() {
        let admission = with_known_cost(false, 1);
        let late: Vec<Queued> = (0..10)
            .map(|_| admission.enter(0, 0, MS).unwrap())
            .collect();
        for queued in late {
            assert_eq!(queued.start(NEVER).unwrap().0, NEVER);
        }
    }
}
