//! Tests with extreme values: thousands of callers, thousands of workers, the longest durations,
//! and items without a size.

#![cfg(not(miri))]

mod deadline;

use creel::{Balance, Pool, Wait, task, time};
use deadline::{block_on, bounded};
use std::{
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

const BALANCES: [Balance; 3] = [Balance::Fixed, Balance::Sticky, Balance::Shared];

/// The lock of the tests that start thousands of threads. Together, they could need more open files
/// than a process may have. Wine opens several files for each thread.
static MANY_THREADS: Mutex<()> = Mutex::new(());

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

#[test]
fn thousands_of_callers_do_not_pile_up_on_one_stack() {
    const CALLERS: usize = 3000;
    let _alone = MANY_THREADS.lock();
    bounded("run_on inside of run_on", || {
        let pool = Arc::new(pool(2));
        let (release, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        thread::scope(|s| {
            let blocked = &pool;
            s.spawn(move || {
                blocked
                    .run_on(1, move || {
                        begun.send(()).unwrap();
                        let _ = gate.recv();
                    })
                    .unwrap();
            });
            begins.recv().unwrap();
            for _ in 0..CALLERS {
                let call = || {
                    pool.run_on(0, || {
                        let held = black_box([1_u8; 512]);
                        pool.run_on(1, || ()).unwrap();
                        black_box(&held);
                    })
                    .unwrap();
                };
                let small = thread::Builder::new().stack_size(64 << 10);
                small.spawn_scoped(s, call).unwrap();
            }
            drop(release);
        });
    });
}

#[test]
fn thousands_of_workers_do_each_kind_of_work() {
    const WORKERS: usize = 2000;
    let _alone = MANY_THREADS.lock();
    bounded("thousands of workers", || {
        // The smaller stacks fit into a 32-bit address space.
        let small = Pool::builder().workers(WORKERS).stack_size(256 << 10);
        let pool = small.build().unwrap();
        assert!(pool.broadcast(|worker| worker).into_iter().eq(0..WORKERS));
        for balance in BALANCES {
            let mut items = vec![0; 50_000];
            let loops = pool.with_balance(balance);
            (0..5).for_each(|_| loops.for_each_indexed(&mut items, |i, item| *item += i));
            assert!(items.iter().enumerate().all(|(i, item)| *item == 5 * i));
        }
        let tasks: Vec<_> = (0..20_000)
            .map(|i| {
                pool.spawn(async move {
                    task::yield_now().await;
                    i
                })
            })
            .collect();
        let sum = pool.block_on(async {
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 19_999 * 10_000);
        pool.resize(1).unwrap();
        assert_eq!(block_on(pool.spawn(async { 5 })).unwrap(), 5);
    });
}

#[test]
fn the_shortest_and_longest_times_work() {
    const SHORT: Duration = Duration::from_millis(5);
    bounded("durations", || {
        pool(1).block_on(async {
            assert!(
                time::timeout(SHORT, time::sleep(Duration::MAX))
                    .await
                    .is_err()
            );
            assert!(time::timeout(Duration::MAX, async {}).await.is_ok());
            time::sleep(Duration::ZERO).await;
            time::sleep_until(Instant::now() - Duration::from_secs(5)).await;
            let mut never = time::interval(Duration::MAX).slack(Duration::MAX);
            assert!(time::timeout(SHORT, never.tick()).await.is_err());
            let mut ever = time::interval(Duration::from_nanos(1)).skip_missed();
            for _ in 0..100 {
                ever.tick().await;
            }
            let second = Duration::from_secs(1);
            // `early` lets a tick return before its time, but by one period at most. This also
            // holds if you pass a longer time.
            for early in [second, Duration::from_secs(7), Duration::MAX] {
                let mut at_once = time::interval(second).early(early);
                let begin = Instant::now();
                assert!(at_once.tick().await > begin);
                assert!(time::timeout(SHORT, at_once.tick()).await.is_err());
            }
        });
    });
    for wait in [
        Wait::Throttle(Duration::MAX),
        Wait::Throttle(Duration::from_nanos(1)),
        Wait::Spin(Duration::MAX),
    ] {
        bounded(&format!("{wait:?}"), move || {
            let pool = Pool::builder().workers(2).wait(wait).build().unwrap();
            assert_eq!(block_on(pool.spawn(async { 1 })).unwrap(), 1);
            assert_eq!(pool.map(&[1; 1000], |x| x + 1), [2; 1000]);
            assert_eq!(pool.run_on(1, || 2).unwrap(), 2);
        });
    }
}

#[test]
fn loops_take_zero_sized_items_and_ranges_up_to_usize_max() {
    bounded("counts at the end of a word", || {
        let pool = pool(3);
        let throw = || resume_unwind(Box::new("at the first"));
        let throws = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
        for loops in BALANCES.map(|balance| pool.with_balance(balance)) {
            let visits = AtomicUsize::new(0);
            let visit = || _ = visits.fetch_add(1, Ordering::Relaxed);
            loops.for_each(&mut [(); 100_000], |()| visit());
            assert_eq!(visits.swap(0, Ordering::Relaxed), 100_000);
            assert_eq!(loops.map(&[(); 100_000], |()| ()).len(), 100_000);
            loops.for_each(usize::MAX - 1000..usize::MAX, |i| {
                assert!(i >= usize::MAX - 1000);
                visit();
            });
            assert_eq!(visits.into_inner(), 1000);
            let all = || vec![(); usize::MAX];
            throws(&|| loops.for_each(0..usize::MAX, |_| throw()));
            throws(&|| loops.for_each(&mut all(), |()| throw()));
            throws(&|| loops.for_each_chunk(&mut all(), usize::MAX / 2, |_| throw()));
            throws(&|| drop(loops.map(&all(), |()| -> () { throw() })));
        }
    });
}

/// Returns the first ticks of an interval of one second that starts at `first`, relative to
/// `first`.
fn ticks_from<const N: usize>(pool: &Pool, first: Instant, skips: bool) -> [Duration; N] {
    pool.block_on(async move {
        let mut ticks = time::interval(Duration::from_secs(1)).starting(first);
        if skips {
            ticks = ticks.skip_missed();
        }
        let mut after = [Duration::ZERO; N];
        for after in &mut after {
            *after = ticks.tick().await.duration_since(first);
        }
        after
    })
}

#[test]
fn an_interval_that_starts_before_its_clock_keeps_its_schedule() {
    let seconds = |n: u64| Duration::from_secs(n);
    let clock = time::Clock::manual();
    let (epoch, pool) = (clock.now(), Pool::builder().workers(1).clock(clock.clone()));
    let pool = pool.build().unwrap();
    clock.advance(Duration::from_millis(2700));
    bounded("intervals", move || {
        let first = epoch - Duration::from_millis(300);
        assert_eq!(ticks_from(&pool, first, false), [0, 1, 2, 3].map(seconds));
        assert_eq!(ticks_from(&pool, first, true), [3].map(seconds));
        let first = epoch - Duration::from_millis(2500);
        let all = [0, 1, 2, 3, 4, 5].map(seconds);
        assert_eq!(ticks_from(&pool, first, false), all);
        assert_eq!(ticks_from(&pool, first, true), [5].map(seconds));
    });
    // This instant is long before the process first read a clock.
    if let Some(first) = Instant::now().checked_sub(seconds(3600)) {
        bounded("an interval", move || {
            let ticks = ticks_from(&self::pool(1), first, false);
            assert_eq!(ticks, [0, 1].map(seconds));
        });
    }
}
