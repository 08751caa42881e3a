//! Tests of the loop methods. Each item is visited once, results have the same bits on any number
//! of workers, panics reach the caller, and loops can be nested.

use creel::{Balance, Pool, Wait};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const BALANCES: [Balance; 3] = [Balance::Fixed, Balance::Sticky, Balance::Shared];
const WAITS: [Wait; 3] = [
    Wait::Park,
    Wait::Adaptive,
    Wait::Spin(Duration::from_micros(20)),
];

fn pools(workers: &[usize]) -> impl Iterator<Item = Pool> + '_ {
    let knobs = WAITS.iter().flat_map(|w| BALANCES.map(|b| (*w, b)));
    knobs.flat_map(|(wait, balance)| {
        workers.iter().map(move |&n| {
            let builder = Pool::builder().workers(n).wait(wait).balance(balance);
            builder.build().unwrap()
        })
    })
}

fn add_one(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn every_item_is_visited_once_with_its_index() {
    for pool in pools(&[1, 2, 3, 7, 64]) {
        for len in [0, 1, 2, 6, 63, 64, 65, 1000, 10_007] {
            let mut items = vec![0_usize; len];
            for _ in 0..3 {
                pool.for_each_indexed(&mut items, |index, item| *item += index + 1);
            }
            assert!(
                items.iter().enumerate().all(|(i, x)| *x == 3 * (i + 1)),
                "{pool:?} {len}"
            );
            let mapped = pool.map_indexed(&items, |index, x| x - index);
            assert!(
                mapped.iter().enumerate().all(|(i, x)| *x == 2 * i + 3),
                "{pool:?} {len}"
            );
        }
    }
}

#[test]
fn chunks_have_the_given_length_and_the_last_has_the_rest() {
    for pool in pools(&[1, 2, 5]) {
        for (total, len) in [(0, 3), (1, 3), (9, 3), (10, 3), (10, 100), (1000, 7)] {
            let mut items = vec![usize::MAX; total];
            pool.for_each_chunk_indexed(&mut items, len, |start, part| {
                assert_eq!(part.len(), len.min(total - start));
                part.fill(start / len);
            });
            assert!(items.iter().enumerate().all(|(i, x)| *x == i / len));
        }
    }
}

#[test]
fn sums_of_floats_have_the_same_bits_at_any_number_of_workers() {
    let noise: Vec<f32> = (0..12_345).map(|i| (i as f32 * 1.618).sin()).collect();
    let sums: HashSet<u32> = pools(&[1, 2, 7, 64])
        .map(|pool| {
            let sum = pool.fold(&noise, || 0.0, |sum, x| *sum += x, |a: f32, b| a + b);
            let again = pool.map_reduce(&noise, |x| *x, |a, b| a + b);
            assert_eq!(again.map(f32::to_bits), Some(sum.to_bits()));
            sum.to_bits()
        })
        .collect();
    assert_eq!(sums.len(), 1);
    let none: [f32; 0] = [];
    assert_eq!(
        pools(&[2])
            .next()
            .unwrap()
            .map_reduce(&none, |x| *x, f32::max),
        None
    );
}

#[test]
fn a_panic_at_any_item_reaches_the_caller_and_the_pool_keeps_working() {
    for pool in pools(&[1, 2, 8]) {
        for bad in [0, 1, 31, 32, 50, 63] {
            let mut items = [0; 64];
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.for_each_indexed(&mut items, |index, item| {
                    assert!(index != bad, "item {index} fails");
                    *item = 1;
                });
            }));
            let payload = thrown.unwrap_err();
            assert_eq!(
                *payload.downcast_ref::<String>().unwrap(),
                format!("item {bad} fails")
            );
            assert_eq!(items[bad], 0);
            assert_eq!(pool.map_indexed(&items, |index, _| index).len(), 64);
        }
    }
}

/// A value that is counted while it is alive.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn results_made_before_a_panic_are_dropped_once() {
    let alive = AtomicUsize::new(0);
    for pool in pools(&[1, 2, 8]) {
        for bad in [0, 1, 99, 100, 199] {
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.map_indexed(&[(); 200], |index, ()| {
                    assert!(index != bad);
                    Counted::new(&alive)
                })
            }));
            assert!(thrown.is_err());
            assert_eq!(alive.load(Ordering::Relaxed), 0);
        }
    }
}

#[test]
fn nested_loops_of_several_callers_and_of_workers_visit_all_items() {
    for pool in pools(&[1, 2, 5]) {
        let total = AtomicUsize::new(0);
        let add = |_| add_one(&total);
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..20 {
                        pool.for_each(0..10, |_| pool.for_each(0..10, add));
                    }
                });
            }
        });
        pool.broadcast(|_| pool.for_each(0..100, add));
        assert_eq!(total.into_inner(), 3 * 20 * 100 + pool.workers() * 100);
    }
}

#[test]
fn two_workers_that_call_each_other_from_a_loop_make_progress() {
    for pool in pools(&[2, 3]) {
        let workers = pool.workers();
        let met = Mutex::new(HashSet::new());
        pool.run_on(1, || {
            pool.for_each(0..workers, |index| {
                let id = pool.run_on(1, || thread::current().id()).unwrap();
                met.lock().unwrap().insert((index, id));
            });
        })
        .unwrap();
        assert_eq!(met.into_inner().unwrap().len(), workers);
    }
}

#[test]
fn a_scope_runs_all_jobs_including_nested_ones() {
    for pool in pools(&[1, 2, 4]) {
        let count = AtomicUsize::new(0);
        let (pool, tally) = (&pool, &count);
        let result = pool.scope(|s| {
            for i in 0..50 {
                s.spawn(move || {
                    s.spawn(|| add_one(tally));
                    s.spawn_on(i % pool.workers(), || add_one(tally)).unwrap();
                });
            }
            "done"
        });
        assert_eq!((result, count.into_inner()), ("done", 100));
    }
}

#[test]
fn a_scope_with_a_panic_waits_for_the_others() {
    for pool in pools(&[1, 2, 4]) {
        let count = AtomicUsize::new(0);
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|s| {
                for i in 0..20 {
                    let count = &count;
                    s.spawn(move || {
                        assert!(i != 7, "the seventh");
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
                panic!("the panic of the scope's closure");
            })
        }));
        let payload = thrown.unwrap_err();
        assert_eq!(
            payload.downcast_ref(),
            Some(&"the panic of the scope's closure")
        );
        assert_eq!(count.into_inner(), 19);
        assert_eq!(pool.join(|| 1, || 2), (1, 2));
    }
}

#[test]
fn joins_can_be_nested() {
    fn sum(pool: &Pool, numbers: &[u64]) -> u64 {
        if numbers.len() < 4 {
            return numbers.iter().sum();
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        let (a, b) = pool.join(|| sum(pool, left), || sum(pool, right));
        a + b
    }
    let numbers: Vec<u64> = (0..500).collect();
    for pool in pools(&[1, 2, 4]) {
        assert_eq!(sum(&pool, &numbers), 500 * 499 / 2);
    }
}

#[test]
fn a_pool_is_resized_while_loops_run() {
    for pool in pools(&[3]) {
        let stop = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                for round in 0..200 {
                    pool.resize(1 + round % 6).unwrap();
                    thread::yield_now();
                }
                stop.store(1, Ordering::Relaxed);
            });
            while stop.load(Ordering::Relaxed) == 0 {
                let mut items = [0_u8; 500];
                pool.for_each(&mut items, |x| *x += 1);
                assert_eq!(items, [1; 500]);
            }
        });
    }
}
