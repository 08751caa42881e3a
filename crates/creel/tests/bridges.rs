//! Tests of loops over iterators. They cover live sources, the maximum number of items that are
//! taken and not finished, the order of results, and panics.

mod deadline;

use creel::{Pool, Wait};
use deadline::bounded;
use std::{
    hint::spin_loop,
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// Computes for a while, so that items end in a different order than they begin.
fn work(item: usize) {
    let turns = (item as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    (0..turns).for_each(|_| spin_loop());
}

/// Runs a loop over a channel that contains an item only after the previous item was processed, and
/// that is closed after the last one. A loop that collects the items first would wait for ever.
fn chain(pool: &Pool, bound: usize, ordered: bool) {
    let (send, receive) = mpsc::channel();
    send.send(0).unwrap();
    let send = Mutex::new(Some(send));
    let next = |item: usize| {
        let mut send = send.lock().unwrap();
        match item {
            20 => *send = None,
            _ => send.as_ref().unwrap().send(item + 1).unwrap(),
        }
        item
    };
    let mut seen = Vec::new();
    if ordered {
        pool.map_bridged(receive, bound, next, |item| seen.push(item));
    } else {
        let all = Mutex::new(&mut seen);
        pool.for_each_bridged(receive, bound, |item| {
            all.lock().unwrap().push(item);
            next(item);
        });
    }
    assert!(seen.iter().copied().eq(0..=20), "{seen:?}");
}

#[test]
fn items_of_a_live_source_may_depend_on_the_previous_item() {
    for workers in [1, 2, 4] {
        for bound in [1, 2, 100] {
            for ordered in [false, true] {
                bounded("a live source", move || {
                    let pool = pool(workers);
                    chain(&pool, bound, ordered);
                    pool.run_on(workers - 1, || chain(&pool, bound, ordered))
                        .unwrap();
                    chain(&pool.with_max_workers(1), bound, ordered);
                });
            }
        }
    }
}

#[test]
fn loops_over_iterators_can_be_nested() {
    bounded("nested loops", || {
        let pool = pool(3);
        let sum = AtomicUsize::new(0);
        pool.for_each_bridged(0..10, 4, |outer| {
            pool.map_bridged(
                0..10,
                3,
                |inner| 10 * outer + inner,
                |n| _ = sum.fetch_add(n, SeqCst),
            );
        });
        pool.for_each(0..10, |outer| {
            pool.for_each_bridged(0..10, 3, |inner| {
                pool.for_each(0..2, |_| _ = sum.fetch_add(10 * outer + inner, SeqCst));
            });
        });
        assert_eq!(sum.into_inner(), 3 * 4950);
    });
}

#[test]
fn the_bound_on_items_in_flight_is_never_exceeded() {
    for workers in [1, 2, 4] {
        for bound in [1, 2, 7] {
            bounded("the bound", move || {
                let pool = pool(workers);
                let flying = AtomicUsize::new(0);
                let pulled = || {
                    (0..300).inspect(|_| {
                        let before = flying.fetch_add(1, SeqCst);
                        assert!(before < bound, "{before} of {bound}");
                    })
                };
                pool.for_each_bridged(pulled(), bound, |item| {
                    work(item);
                    flying.fetch_sub(1, SeqCst);
                });
                let mut order = Vec::new();
                let map = |item| {
                    work(item);
                    item
                };
                pool.map_bridged(pulled(), bound, map, |item| {
                    order.push(item);
                    flying.fetch_sub(1, SeqCst);
                });
                assert!(order.into_iter().eq(0..300));
                let few = pool.with_max_workers(2);
                let running = AtomicUsize::new(0);
                few.for_each_bridged(0..100, 50, |item| {
                    assert!(running.fetch_add(1, SeqCst) < 2);
                    work(item);
                    running.fetch_sub(1, SeqCst);
                });
            });
        }
    }
}

#[test]
fn a_bound_of_zero_panics() {
    let pool = pool(2);
    let thrown = catch_unwind(AssertUnwindSafe(|| pool.for_each_bridged(0..3, 0, |_| ())));
    assert!(thrown.is_err());
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        pool.map_bridged(0..3, 0, |n| n, |_| ());
    }));
    assert!(thrown.is_err());
    let none = iter::empty::<usize>;
    pool.for_each_bridged(none(), 1, |_| unreachable!());
    pool.map_bridged(none(), 1, |n| n, |_| unreachable!());
}

/// An item that counts how many of its kind exist.
struct Counted(usize, Arc<AtomicUsize>);

impl Counted {
    fn new(item: usize, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Self(item, Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_panic_reaches_the_caller_after_running_items_have_ended() {
    const PLACES: [&str; 3] = ["iterator", "item", "sink"];
    for workers in [1, 2, 4] {
        for bound in [1, 3, 100] {
            for (place, at) in PLACES
                .into_iter()
                .flat_map(|p| [0, 5, 99].map(|at| (p, at)))
            {
                bounded("a panic", move || {
                    let pool = pool(workers);
                    let (alive, running) = (Arc::default(), AtomicUsize::new(0));
                    let check =
                        |here: &str, item| assert!((here, item) != (place, at), "{here} {at}");
                    let items = || {
                        (0..100).map(|item| {
                            check("iterator", item);
                            Counted::new(item, &alive)
                        })
                    };
                    let map = |item: Counted| {
                        running.fetch_add(1, SeqCst);
                        work(item.0);
                        running.fetch_sub(1, SeqCst);
                        check("item", item.0);
                        item
                    };
                    let ended = |thrown: thread::Result<()>| {
                        assert_eq!(running.load(SeqCst), 0);
                        assert_eq!(alive.load(SeqCst), 0, "{place} {at}");
                        let message = *thrown.unwrap_err().downcast::<String>().unwrap();
                        assert_eq!(message, format!("{place} {at}"));
                    };
                    ended(catch_unwind(AssertUnwindSafe(|| {
                        pool.map_bridged(items(), bound, map, |item| check("sink", item.0));
                    })));
                    if place != "sink" {
                        ended(catch_unwind(AssertUnwindSafe(|| {
                            pool.for_each_bridged(items(), bound, |item| drop(map(item)));
                        })));
                    }
                    // The pool can still be used.
                    assert_eq!(pool.map(0..10, |n| n).len(), 10);
                    pool.for_each_bridged(0..10, bound, |_| ());
                });
            }
        }
    }
}

#[test]
fn an_iterator_that_blocks_does_not_stop_the_workers() {
    bounded("a source that blocks", || {
        let pool = pool(2);
        let (send, receive) = mpsc::channel();
        let done = AtomicBool::new(false);
        thread::scope(|s| {
            s.spawn(|| pool.for_each_bridged(receive, 4, |_: usize| done.store(true, SeqCst)));
            send.send(1).unwrap();
            // The first item must run although the iterator blocks now.
            while !done.load(SeqCst) {
                thread::yield_now();
            }
            // While the iterator blocks, the pool still runs everything else: jobs on both workers,
            // another loop, and another loop over an iterator.
            for worker in 0..2 {
                assert_eq!(pool.run_on(worker, || worker).unwrap(), worker);
            }
            assert_eq!(pool.map(0..1000, |n| n).len(), 1000);
            pool.map_bridged(0..10, 4, |n| n, |_| ());
            drop(send);
        });
    });
}
