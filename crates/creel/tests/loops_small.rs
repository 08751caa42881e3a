//! Runs every loop verb once, on a few items. These tests are small enough for Miri, which detects
//! undefined behaviour.

use creel::{Balance, Outbox, Pool, Scratch, Wait, loops::ExchangeSender};
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
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
