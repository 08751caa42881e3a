//! Runs every loop method on a few items, with and without a panic. Of a plain form and its
//! `_indexed` form, we run one. These tests are small enough for Miri, which detects undefined
//! behaviour.

use creel::{Balance, Outbox, Pool, Scratch, Wait, loops::ExchangeSender};
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

#[test]
fn every_loop_method_works_and_survives_a_panic() {
    let balances = [Balance::Sticky, Balance::Shared, Balance::Fixed];
    // Under Miri we test only one balance, because Miri takes minutes for work that otherwise takes
    // milliseconds.
    for &balance in &balances[..if cfg!(miri) { 1 } else { 3 }] {
        let builder = Pool::builder().workers(3).wait(Wait::Park);
        let pool = builder.balance(balance).build().unwrap();
        for &bad in &[4, usize::MAX, 0, 8][..if cfg!(miri) { 1 } else { 4 }] {
            let check = |index: usize| assert!(index != bad, "at {index}");
            let mut items: Vec<Box<usize>> = (0..9).map(Box::new).collect();
            let mut others = items.clone();
            let mut outbox = Outbox::new();
            let mut own = Scratch::new(3, |_| Box::new(0));
            let thrown = |verb: &str, call: &mut dyn FnMut()| {
                let thrown = catch_unwind(AssertUnwindSafe(call)).is_err();
                assert_eq!(thrown, bad != usize::MAX, "{verb}, bad {bad}");
            };
            let tick = |index: usize, x: &mut usize| {
                check(index);
                *x += 1;
            };
            thrown("mut", &mut || {
                pool.for_each_indexed(&mut items, |i, x| tick(i, x))
            });
            thrown("chunks", &mut || {
                pool.for_each_chunk_indexed(&mut items, 1, |i, part| tick(i, &mut part[0]));
            });
            thrown("zip", &mut || {
                pool.for_each_indexed((&mut items, &mut others), |i, (a, b)| {
                    tick(i, a);
                    *b = a.clone();
                });
            });
            // The items are boxes, because the test checks what happens to heap memory.
            #[allow(clippy::borrowed_box)]
            let copy = |i: usize, x: &Box<usize>| {
                check(i);
                x.clone()
            };
            thrown("map", &mut || drop(pool.map_indexed(&items, copy)));
            thrown("reduce", &mut || {
                drop(pool.map_reduce_indexed(&items, copy, |a, b| a.max(b)))
            });
            thrown("scope", &mut || {
                pool.scope(|s| (0..9).for_each(|i| s.spawn(move || check(i))));
            });
            thrown("bridge", &mut || {
                pool.for_each_bridged(others.iter_mut().enumerate(), 2, |(i, x)| tick(i, x));
            });
            thrown("ordered bridge", &mut || {
                let mut seen = Vec::new();
                let copy = |(i, x): (usize, &_)| copy(i, x);
                pool.map_bridged(items.iter().enumerate(), 2, copy, |x| seen.push(x));
                assert_eq!(seen, items);
            });
            thrown("outbox", &mut || {
                pool.for_each_indexed((&mut items, outbox.for_receivers(9)), |i, (x, post)| {
                    post.send(8 - i, copy(i, x));
                });
                pool.deliver(&mut outbox, &mut others, |x, message| *x = message);
            });
            for balance in [Balance::Sticky, Balance::Fixed] {
                // With the first balance of the list, an exchange delivers messages at once. With
                // the second balance, it stores messages first.
                let pool = pool.with_balance(balance);
                thrown("exchange", &mut || {
                    let items = (0..9, &mut items);
                    let send =
                        |(i, x): (usize, &mut Box<usize>),
                         post: &mut ExchangeSender<'_, _, _, _>| {
                            tick(i, x);
                            post.send(8 - i, x.clone());
                        };
                    pool.exchange(items, &mut outbox, &mut others, send, |x, message| {
                        *x = message
                    });
                });
            }
            thrown("scratch", &mut || {
                pool.for_each_indexed((&mut items, &mut own), |i, (_, x)| tick(i, x));
            });
        }
        let (a, b) = pool.session(|s| s.join(|| 1, || String::from("b")));
        assert_eq!((a, b.as_str()), (1, "b"));
    }
}

/// The loop methods with a result, and those that need no test under each balance.
#[expect(clippy::borrowed_box, reason = "the closures get what the loops pass")]
#[test]
fn every_other_loop_method_works_and_survives_a_panic() {
    let pool = Pool::builder().workers(3).wait(Wait::Park).build().unwrap();
    let items: Vec<Box<usize>> = (0..9).map(Box::new).collect();
    for bad in [usize::MAX, 4] {
        let panics = bad != usize::MAX;
        // Unlike `panic`, this prints no backtrace, for which Miri needs seconds.
        let check = |index: usize| {
            if index == bad {
                resume_unwind(Box::new(index));
            }
        };
        // The results own heap memory, so that Miri finds one that is lost or dropped twice.
        let copy = |x: &Box<usize>| {
            check(**x);
            x.clone()
        };
        let put = |all: &mut Vec<Box<usize>>, x: &Box<usize>| all.push(copy(x));
        let join = |a: Vec<Box<usize>>, b| [a, b].concat();
        let mut others = items.clone();
        let result = |method: &str, call: &mut dyn FnMut() -> bool| {
            let result = catch_unwind(AssertUnwindSafe(call));
            assert_eq!(result.is_err(), panics, "{method}");
            assert!(result.unwrap_or(true), "{method} returns a wrong result");
        };
        result("for_each_range", &mut || {
            let visited = AtomicUsize::new(0);
            pool.for_each_range(0..9, |range, _| {
                range.for_each(|index| {
                    check(index);
                    visited.fetch_add(1, Relaxed);
                });
            });
            visited.into_inner() == 9
        });
        result("for_each_longest_first", &mut || {
            pool.for_each_longest_first(&mut others, |x| 9 - **x as u64, |x| *x = copy(x));
            others == items
        });
        result("map_chunks", &mut || {
            let chunks = pool.map_chunks(&items, 2, |chunk| copy(&chunk[0]));
            chunks.iter().map(|x| **x).eq((0..9).step_by(2))
        });
        result("flat_map", &mut || {
            pool.flat_map(&items, |x| [copy(x), copy(x)]).len() == 18
        });
        result("try_map", &mut || {
            pool.try_map(&items, |x| Ok::<_, ()>(copy(x))).as_ref() == Ok(&items)
        });
        result("try_map with an error", &mut || {
            let error = |x: &Box<usize>| if **x < 5 { Ok(copy(x)) } else { Err(copy(x)) };
            pool.try_map(&items, error).unwrap_err() == items[5]
        });
        result("try_for_each", &mut || {
            let error = |x: &Box<usize>| if **x < 5 { Ok(()) } else { Err(copy(x)) };
            pool.try_for_each(&items, |x| error(&copy(x))).unwrap_err() == items[5]
        });
        result("fold", &mut || {
            pool.fold(&items, Vec::new, put, join) == items
        });
        result("fold_with_leaves", &mut || {
            pool.fold_with_leaves(3, &items, Vec::new, put, join) == items
        });
        result("fold_by_worker", &mut || {
            pool.fold_by_worker(&items, Vec::new, put, join).len() == 9
        });
        result("sum", &mut || pool.sum(&items, |x| *copy(x)) == 36);
        result("count", &mut || pool.count(&items, |x| *copy(x) > 4) == 4);
        result("min", &mut || {
            pool.min(&items, copy).as_ref() == Some(&items[0])
        });
        result("max", &mut || {
            pool.max(&items, copy).as_ref() == Some(&items[8])
        });
        result("find_map", &mut || {
            let found = pool.find_map(&items, |x| (*copy(x) > 4).then(|| x.clone()));
            found.as_ref() == Some(&items[5])
        });
        result("position", &mut || {
            pool.position(&items, |x| *copy(x) > 4) == Some(5)
        });
        result("find_any", &mut || {
            pool.find_any(&items, |x| *copy(x) > 8).is_none()
        });
        result("any", &mut || !pool.any(&items, |x| *copy(x) > 8));
        result("all", &mut || pool.all(&items, |x| *copy(x) < 9));
        result("recurse", &mut || {
            let (a, b) =
                pool.recurse(|joiner| joiner.join(|_| copy(&items[3]), |_| copy(&items[4])));
            *a + *b == 7
        });
        result("gang", &mut || {
            let members = AtomicUsize::new(0);
            let mut gang = pool.gang(3).unwrap();
            gang.run(|member| {
                check(member.index() + 3);
                members.fetch_add(1, Relaxed);
                member.barrier();
                assert_eq!(members.load(Relaxed), 3);
            });
            members.into_inner() == 3
        });
    }
}

/// Shorter slices are sorted on one thread. Each half is sorted already, so that the test takes
/// little time, but the halves must be merged.
#[test]
fn sorts_move_each_item_once() {
    const LEN: usize = 2048;
    let pool = Pool::builder().workers(2).wait(Wait::Park).build().unwrap();
    let halves: Vec<Box<usize>> = (0..LEN)
        .map(|n| Box::new(if n < LEN / 2 { 2 * n } else { 2 * n - LEN + 1 }))
        .collect();
    let sorted = |items: &[Box<usize>]| items.iter().map(|x| **x).eq(0..LEN);
    let mut items = halves.clone();
    pool.sort_by(&mut items, Ord::cmp);
    assert!(sorted(&items));
    items.clone_from(&halves);
    pool.sort_unstable_by(&mut items, Ord::cmp);
    assert!(sorted(&items));
    // The panic happens during a merge, because the sort of the halves needs fewer comparisons.
    let compared = AtomicUsize::new(0);
    items.clone_from(&halves);
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        pool.sort_by(&mut items, |a, b| {
            assert!(compared.fetch_add(1, Relaxed) < LEN + LEN / 2);
            a.cmp(b)
        });
    }));
    assert!(thrown.is_err());
    items.sort_unstable();
    assert!(sorted(&items));
}

/// All workers use one and the same closure, and it is dropped once.
///
/// Small closures are moved to where the workers can read them. Large closures, and closures with
/// something to drop, stay in place.
#[test]
fn all_workers_call_the_same_closure() {
    let pool = Pool::builder().workers(3).wait(Wait::Park);
    let pool = pool.balance(Balance::Fixed).build().unwrap();
    let mut tickets = [0; 9];
    let sorted = |tickets: &[usize; 9]| {
        let mut sorted = *tickets;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7, 8], "of {tickets:?}");
    };
    let small = AtomicUsize::new(0);
    pool.for_each(&mut tickets, move |ticket| {
        *ticket = small.fetch_add(1, Relaxed);
    });
    sorted(&tickets);
    let large = [const { AtomicUsize::new(0) }; 9];
    pool.for_each(&mut tickets, move |ticket| {
        *ticket = large[8].fetch_add(1, Relaxed);
    });
    sorted(&tickets);
    // The closure has two words. A copy would free the box that the first call has stored.
    let last = Mutex::new(Box::new(7));
    pool.for_each(0..9, move |index| {
        let before = mem::replace(&mut *last.lock().unwrap(), Box::new(index));
        assert!(*before < 9);
    });
}
