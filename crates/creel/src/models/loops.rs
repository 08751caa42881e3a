//! Models of loops, scopes, sessions and the outbox.

use super::{check, draw, pool, throw};
use crate::{
    Outbox, Pool,
    sync::{AtomicBool, AtomicUsize, Ordering, thread},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Calls one loop. Checks that each unit is visited once, and none after the return.
fn visit_each_once(pool: &Pool, units: usize) {
    let visits: Vec<_> = (0..units).map(|_| AtomicUsize::new(0)).collect();
    let under_way = Arc::new(AtomicBool::new(true));
    let body = |index: usize| {
        assert!(under_way.load(Ordering::Relaxed), "visited after the loop");
        // We load and store in two steps, so that the model also detects two visits at the same
        // time.
        let before = visits[index].load(Ordering::Relaxed);
        visits[index].store(before + 1, Ordering::Relaxed);
    };
    pool.for_each(0..units, |index| body(index));
    under_way.store(false, Ordering::Relaxed);
    assert!(
        visits
            .iter()
            .all(|visits| visits.load(Ordering::Relaxed) == 1)
    );
}

/// Runs `other` on a second thread at the same time as `own`. Both use the same pool, which ends
/// afterwards.
fn run_both(pool: Pool, other: fn(&Pool), own: fn(&Pool)) {
    let pool = Arc::new(pool);
    let theirs = Arc::clone(&pool);
    let other = thread::spawn(move || other(&theirs));
    own(&pool);
    drop(pool);
    other.join().expect("no panic");
}

#[test]
fn loops_of_two_callers_visit_each_item_once() {
    check(|| {
        let loops = |pool: &Pool| (0..3).for_each(|_| visit_each_once(pool, 5));
        run_both(pool(1 + draw(3)), loops, loops);
    });
}

#[test]
fn repeated_loops_of_one_call_site_visit_each_item_once() {
    check(|| {
        let pool = pool(2 + draw(2));
        for _ in 0..8 {
            visit_each_once(&pool, 9);
        }
    });
}

#[test]
fn nested_loops_visit_each_item_once() {
    check(|| {
        let pool = pool(2 + draw(2));
        let visits = AtomicUsize::new(0);
        pool.for_each(0..3, |_| {
            pool.for_each(0..3, |_| {
                visits.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(visits.load(Ordering::Relaxed), 9);
    });
}

#[test]
fn a_panic_in_a_body_reaches_its_caller() {
    check(|| {
        run_both(
            pool(2 + draw(2)),
            |pool| visit_each_once(pool, 4),
            |pool| {
                let bad = draw(6);
                let thrown = catch_unwind(AssertUnwindSafe(|| {
                    pool.for_each(0..6, |index| (index == bad).then(throw).unwrap_or(()));
                }));
                assert!(thrown.is_err());
                visit_each_once(pool, 4);
            },
        );
    });
}

#[test]
fn results_before_a_panic_are_dropped_once() {
    check(|| {
        let pool = pool(2);
        let alive = Arc::new(());
        let bad = draw(6);
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            pool.map_indexed(&[(); 6], |index, ()| {
                (index == bad).then(throw);
                Arc::clone(&alive)
            })
        }));
        assert!(thrown.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_pool_can_be_resized_during_a_loop() {
    check(|| {
        run_both(
            pool(1 + draw(3)),
            |pool| {
                for _ in 0..2 {
                    pool.resize(1 + draw(4)).expect("the size is in range");
                }
            },
            |pool| (0..3).for_each(|_| visit_each_once(pool, 5)),
        );
    });
}

#[test]
fn a_session_next_to_a_loop_sees_its_own_writes() {
    check(|| {
        run_both(
            pool(2),
            |pool| visit_each_once(pool, 4),
            |pool| {
                let mut items = [0; 6];
                pool.session(|s| {
                    s.for_each_indexed(&mut items, |index, item| *item = index);
                    let read = s.map(&items, |item| *item);
                    s.for_each_indexed(&mut items, |index, item| *item += read[5 - index]);
                });
                assert_eq!(items, [5; 6]);
            },
        );
    });
}

#[test]
fn an_outbox_delivers_in_the_order_of_the_senders() {
    check(|| {
        const SENDERS: usize = 600;
        const RECEIVERS: usize = 2100;
        let pool = pool(2 + draw(2));
        let mut senders = vec![(); SENDERS];
        let mut receivers = vec![Vec::new(); RECEIVERS];
        let mut outbox = Outbox::new();
        pool.for_each_indexed(
            (&mut senders, outbox.for_receivers(RECEIVERS)),
            |index, ((), post)| {
                post.send(index % 3 * 1000, index);
            },
        );
        pool.deliver(&mut outbox, &mut receivers, |got, index| got.push(index));
        for (place, got) in receivers.iter().enumerate() {
            match place % 1000 {
                0 if place < 3000 => {
                    assert!(got.iter().copied().eq((place / 1000..SENDERS).step_by(3)));
                }
                _ => assert!(got.is_empty()),
            }
        }
    });
}

#[test]
fn scopes_and_joins_run_each_closure() {
    check(|| {
        run_both(
            pool(1 + draw(3)),
            |pool| {
                let (a, b) = pool.join(|| pool.join(|| 1, || 2), || 3);
                assert_eq!((a, b), ((1, 2), 3));
            },
            |pool| {
                let done = AtomicUsize::new(0);
                let add = |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                };
                pool.scope(|s| {
                    s.spawn(|| add(()));
                    s.spawn_on(draw(pool.workers()), || add(())).unwrap();
                    s.spawn(|| pool.for_each(0..2, |_| add(())));
                });
                assert_eq!(done.load(Ordering::Relaxed), 4);
            },
        );
    });
}

/// A pool of three workers is large under this model checker (`worker/slots.rs`).
#[test]
fn two_trees_of_joins_run_each_closure_in_a_large_pool() {
    fn leaves(pool: &Pool, depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let (a, b) = pool.join(|| leaves(pool, depth - 1), || leaves(pool, depth - 1));
        a + b
    }
    check(|| {
        let tree = |pool: &Pool| assert_eq!(leaves(pool, 3), 8);
        run_both(pool(3 + draw(2)), tree, tree);
    });
}

#[test]
fn jobs_of_a_scope_spawn_jobs_on_any_thread() {
    fn grow<'s>(s: &'s crate::Scope<'s, '_>, depth: usize, runs: &'s AtomicUsize) {
        runs.fetch_add(1, Ordering::Relaxed);
        for _ in 0..2 * depth.min(1) {
            s.spawn(move || grow(s, depth - 1, runs));
        }
    }
    check(|| {
        let runs = |pool: &Pool| {
            let runs = AtomicUsize::new(0);
            pool.scope(|s| grow(s, 2, &runs));
            assert_eq!(runs.into_inner(), 7);
        };
        run_both(pool(1 + draw(3)), runs, runs);
    });
}

#[test]
fn workers_that_wait_for_each_other_make_progress() {
    check(|| {
        run_both(
            pool(2),
            |pool| assert_eq!(pool.run_on(0, || pool.run_on(1, || 5).unwrap()).unwrap(), 5),
            |pool| {
                assert_eq!(pool.run_on(1, || pool.run_on(0, || 7).unwrap()).unwrap(), 7);
                let sums = pool.broadcast(|index| {
                    visit_each_once(pool, 3);
                    index
                });
                assert_eq!(sums, [0, 1]);
            },
        );
    });
}

#[test]
fn members_of_a_gang_run_regions_together() {
    check(|| {
        let pool = pool(2);
        let mut gang = pool.gang(2).unwrap();
        for failing in [false, true] {
            let arrived = AtomicUsize::new(0);
            gang.run(|member| {
                if failing && member.index() == 1 {
                    return member.break_barriers();
                }
                arrived.fetch_add(1, Ordering::Relaxed);
                let passed = member.try_barrier().is_ok();
                assert_eq!(passed, !failing);
                if passed {
                    assert_eq!(arrived.load(Ordering::Relaxed), 2);
                }
            });
        }
        drop(gang);
        visit_each_once(&pool, 3);
    });
}
