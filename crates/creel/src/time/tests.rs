//! Tests of the timer futures with a manual clock. They fire the timers themselves, as the loop of
//! a worker would.

use super::clock::Clock;
use super::timers::{self, Timers};
use super::*;
use crate::worker::woken::wake_all;
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    clock: Clock,
    timers: Arc<Timers>,
    wakes: Arc<Count>,
    waker: Waker,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock::manual();
        let wakes = Arc::new(Count::default());
        Bench {
            timers: Arc::new(Timers::new(clock.clone())),
            clock,
            waker: Waker::from(Arc::clone(&wakes)),
            wakes,
        }
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
        while self.timers.fire(wake_all).more {}
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        let _entered = timers::enter(Arc::clone(&self.timers));
        std::pin::Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }
}

#[test]
fn a_sleep_ends_when_it_is_due_and_not_before() {
    let bench = Bench::new();
    let mut sleep = sleep(20 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    bench.advance(20 * MS - Duration::from_nanos(1));
    assert!(bench.poll(&mut sleep).is_pending());
    assert_eq!(bench.wakes.get(), 0);
    bench.advance(MS);
    assert_eq!(bench.wakes.get(), 1);
    assert!(bench.poll(&mut sleep).is_ready());
}

#[test]
fn a_dropped_sleep_leaves_nothing_behind() {
    let bench = Bench::new();
    let mut sleep = sleep(20 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    assert!(!bench.timers.may_end());
    drop(sleep);
    assert!(bench.timers.may_end());
    bench.advance(100 * MS);
    assert_eq!(bench.wakes.get(), 0);
}

/// Timers, a clock and a waker for a test. The test's thread acts as the worker's thread, so that
/// an entry that is armed again becomes a pending timer.
struct Serving {
    bench: Bench,
    start: std::time::Instant,
    interval: Interval,
    _entered: timers::Entered,
}

impl Serving {
    /// Creates a bench and an interval of 5 ms. The interval has ticked once, at 5 ms, and has a
    /// pending timer for 10 ms.
    fn new() -> Self {
        let bench = Bench::new();
        let start = bench.clock.now();
        let mut interval = interval(5 * MS);
        interval = interval.starting(start + 5 * MS);
        let entered = timers::serve(Arc::clone(&bench.timers));
        assert!(poll_as(&bench.waker, &mut interval).is_pending());
        bench.advance(6 * MS);
        assert!(poll_as(&bench.waker, &mut interval).is_ready());
        assert!(poll_as(&bench.waker, &mut interval).is_pending());
        assert_eq!(bench.wakes.get(), 1);
        Serving {
            bench,
            start,
            interval,
            _entered: entered,
        }
    }
}

fn poll_as(waker: &Waker, interval: &mut Interval) -> Poll<std::time::Instant> {
    interval.poll_tick(&mut Context::from_waker(waker))
}

#[test]
fn pending_timers_are_on_the_wheel_when_the_worker_checks_it() {
    let serving = Serving::new();
    let next = serving.bench.timers.sleep_until().unwrap();
    let due = serving.bench.clock.nanos_at(serving.start + 10 * MS);
    assert!((due..due + 66_000).contains(&next));
    serving.bench.advance(5 * MS);
    assert_eq!(serving.bench.wakes.get(), 2);
}

#[test]
fn a_pending_timer_that_is_dropped_does_not_fire() {
    let Serving {
        bench,
        interval,
        _entered,
        ..
    } = Serving::new();
    drop(interval);
    assert!(bench.timers.may_end());
    bench.advance(20 * MS);
    assert_eq!(bench.wakes.get(), 1);
}

#[test]
fn a_pending_timer_rearmed_by_another_thread_wakes_that_thread() {
    let mut serving = Serving::new();
    let other = Arc::new(Count::default());
    let (timers, interval) = (&serving.bench.timers, &mut serving.interval);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = timers::enter(Arc::clone(timers));
            let waker = Waker::from(Arc::clone(&other));
            assert!(poll_as(&waker, interval).is_pending());
        });
    });
    serving.bench.advance(5 * MS);
    assert_eq!((serving.bench.wakes.get(), other.get()), (1, 1));
}

#[test]
fn a_timer_that_is_polled_again_and_again_wakes_once() {
    let mut serving = Serving::new();
    for _ in 0..1_000 {
        assert!(poll_as(&serving.bench.waker, &mut serving.interval).is_pending());
    }
    serving.bench.advance(5 * MS);
    assert_eq!(serving.bench.wakes.get(), 2);
}

/// Rescues the timers in batches on a thread of its own, as another worker would.
fn rescue(timers: &Timers) -> Vec<usize> {
    let mut batches = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut more = true;
            while more {
                let mut rescued = timers.rescue();
                more = rescued.more;
                batches.push(rescued.due.list().len());
                rescued.due.run(wake_all);
            }
        });
    });
    batches
}

#[test]
fn pending_timers_of_a_busy_worker_fire_on_another_worker() {
    let mut serving = Serving::new();
    let timers = Arc::clone(&serving.bench.timers);
    assert_eq!(rescue(&timers), [0], "none is due");
    // The worker is in a poll, so it does not fire timers.
    let reactions = timers.reactions();
    serving.bench.clock.advance(5 * MS);
    assert_eq!(rescue(&timers), [1]);
    assert_eq!(rescue(&timers), [0], "it fires once");
    assert_eq!(serving.bench.wakes.get(), 2);
    assert_eq!(timers.reactions(), reactions);
    // The busy worker may poll the task before it fires timers again. The tick must be ready then.
    let due = serving.start + 10 * MS;
    assert_eq!(
        poll_as(&serving.bench.waker, &mut serving.interval),
        Poll::Ready(due)
    );
    assert_eq!(timers.reactions(), reactions);
}

#[test]
fn rescued_timers_come_in_batches() {
    let bench = Bench::new();
    let mut sleeps: Vec<_> = (0..70).map(|_| sleep(MS)).collect();
    for sleep in &mut sleeps {
        assert!(bench.poll(sleep).is_pending());
    }
    bench.clock.advance(2 * MS);
    assert_eq!(rescue(&bench.timers), [32, 32, 6]);
    bench.advance(MS);
    assert_eq!(bench.wakes.get(), 70);
}

#[test]
fn a_rescued_timer_is_ready_on_the_worker_that_polls_its_task() {
    let bench = Bench::new();
    let mut sleep = sleep(20 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    let elsewhere = Bench {
        timers: Arc::new(Timers::new(bench.clock.clone())),
        clock: bench.clock.clone(),
        wakes: Arc::clone(&bench.wakes),
        waker: bench.waker.clone(),
    };
    bench.clock.advance(21 * MS);
    assert_eq!(rescue(&bench.timers), [1]);
    assert!(elsewhere.poll(&mut sleep).is_ready());
}

#[test]
fn a_worker_can_arm_timers_before_the_previous_worker_has_finished() {
    let mut serving = Serving::new();
    let wakes = Arc::new(Count::default());
    let timers = Arc::clone(&serving.bench.timers);
    let mut interval = interval(MS).starting(serving.start + 7 * MS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = timers::serve(Arc::clone(&timers));
            let waker = Waker::from(Arc::clone(&wakes));
            for n in 7..10 {
                assert!(poll_as(&waker, &mut interval).is_pending());
                serving.bench.clock.advance(Duration::from_micros(1_100));
                while timers.fire(wake_all).more {}
                assert_eq!(wakes.get(), n - 6);
                assert!(poll_as(&waker, &mut interval).is_ready());
            }
        });
    });
    assert!(poll_as(&serving.bench.waker, &mut serving.interval).is_pending());
    serving.bench.advance(MS);
    assert_eq!(serving.bench.wakes.get(), 2);
}

#[test]
fn a_sleep_can_be_reset() {
    let bench = Bench::new();
    let start = bench.clock.now();
    let mut sleep = sleep_until(start + 5 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    sleep.reset(start + 50 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    bench.advance(10 * MS);
    assert_eq!(bench.wakes.get(), 0);
    bench.advance(45 * MS);
    assert!(bench.poll(&mut sleep).is_ready());
}

#[test]
fn an_interval_neither_drifts_nor_is_early() {
    let bench = Bench::new();
    let start = bench.clock.now();
    let mut interval = interval(20 * MS).starting(start + 20 * MS);
    for n in 1..=1_000_u32 {
        while bench.poll(&mut interval.tick()).is_pending() {
            bench.advance(Duration::from_micros(2_700));
        }
        let due = start + n * 20 * MS;
        assert!(bench.clock.now() >= due);
        assert!(bench.clock.now() < due + 3 * MS);
    }
}

#[test]
fn missed_ticks_come_in_succession_or_are_skipped() {
    let bench = Bench::new();
    let start = bench.clock.now();
    let mut all = interval(10 * MS).starting(start + 10 * MS);
    let mut some = interval(10 * MS).starting(start + 10 * MS).skip_missed();
    bench.advance(35 * MS);
    for n in 1..=3 {
        assert_eq!(
            bench.poll(&mut all.tick()),
            Poll::Ready(start + n * 10 * MS)
        );
    }
    assert!(bench.poll(&mut all.tick()).is_pending());
    assert_eq!(bench.poll(&mut some.tick()), Poll::Ready(start + 30 * MS));
    assert!(bench.poll(&mut some.tick()).is_pending());
}

/// Returns the number of turns in which a hundred intervals, 150 µs apart, tick once.
fn turns_with(slack: Duration) -> u32 {
    let bench = Bench::new();
    let start = bench.clock.now();
    let mut intervals: Vec<_> = (0..100)
        .map(|i| {
            let first = start + 20 * MS + i * Duration::from_micros(150);
            interval(20 * MS).starting(first).slack(slack)
        })
        .collect();
    for interval in &mut intervals {
        assert!(bench.poll(&mut interval.tick()).is_pending());
    }
    let mut turns = 0;
    while !bench.timers.may_end() {
        let next = bench.timers.sleep_until().expect("timers are armed");
        let now = bench.clock.nanos();
        bench.clock.advance(Duration::from_nanos(next - now));
        turns += u32::from(bench.timers.fire(wake_all).count > 0);
    }
    for (i, interval) in (0..).zip(&mut intervals) {
        let due = start + 20 * MS + i * Duration::from_micros(150);
        assert_eq!(bench.poll(&mut interval.tick()), Poll::Ready(due));
    }
    turns
}

#[test]
fn slack_merges_wake_ups() {
    assert_eq!(turns_with(Duration::ZERO), 100);
    assert!(turns_with(5 * MS) <= 7);
}

#[test]
fn a_tick_is_early_only_on_request() {
    let bench = Bench::new();
    let start = bench.clock.now();
    let mut early = interval(20 * MS).starting(start + 20 * MS).early(5 * MS);
    let mut exact = interval(20 * MS).starting(start + 20 * MS);
    bench.advance(16 * MS);
    assert_eq!(bench.poll(&mut early.tick()), Poll::Ready(start + 20 * MS));
    assert!(bench.poll(&mut exact.tick()).is_pending());
}

#[test]
fn a_timeout_ends_a_future_that_takes_too_long() {
    let bench = Bench::new();
    let mut late = pin!(timeout(5 * MS, pending::<()>()));
    assert!(bench.poll(&mut late).is_pending());
    bench.advance(6 * MS);
    assert_eq!(bench.poll(&mut late), Poll::Ready(Err(Elapsed)));
    let mut done = pin!(timeout(5 * MS, ready(7)));
    assert_eq!(bench.poll(&mut done), Poll::Ready(Ok(7)));
    assert!(bench.timers.may_end());
}

#[test]
fn a_timer_moves_to_the_worker_that_polls_it() {
    let bench = Bench::new();
    let other = Arc::new(Timers::new(bench.clock.clone()));
    let mut sleep = sleep(20 * MS);
    assert!(bench.poll(&mut sleep).is_pending());
    let elsewhere = Bench {
        clock: bench.clock.clone(),
        timers: Arc::clone(&other),
        wakes: Arc::clone(&bench.wakes),
        waker: bench.waker.clone(),
    };
    assert!(elsewhere.poll(&mut sleep).is_pending());
    assert!(bench.timers.may_end() && !other.may_end());
    elsewhere.advance(25 * MS);
    assert_eq!(bench.wakes.get(), 1);
    assert!(elsewhere.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleeping_worker_is_woken_for_an_earlier_timer_only() {
    let bench = Bench::new();
    let was_woken = Arc::new(Count::default());
    bench
        .timers
        .set_wake(|| Waker::from(Arc::clone(&was_woken)));
    let mut late = sleep(50 * MS);
    assert!(bench.poll(&mut late).is_pending());
    assert_eq!(was_woken.get(), 1, "the worker has not begun to sleep");
    bench.timers.fire(wake_all);
    late.reset(bench.clock.now() + 49 * MS);
    assert!(bench.poll(&mut late).is_pending());
    assert_eq!(was_woken.get(), 1, "the worker is awake");
    bench.timers.sleep_until();
    let mut later = sleep(60 * MS);
    assert!(bench.poll(&mut later).is_pending());
    assert_eq!(was_woken.get(), 1);
    let mut early = sleep(5 * MS);
    assert!(bench.poll(&mut early).is_pending());
    assert_eq!(was_woken.get(), 2);
    bench.clock.advance(MS);
    assert_eq!(
        was_woken.get(),
        3,
        "a manual clock that advances wakes them as well"
    );
}
