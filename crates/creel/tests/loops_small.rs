//! Every verb once, on few items: small enough for Miri, which looks for undefined behaviour.

use creel::{Balance, Outbox, Pool, Scratch, Wait};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn every_verb_once_and_a_panic_in_each() {
    let balances = [Balance::Sticky, Balance::Shared, Balance::Fixed];
    // Miri takes minutes for what takes milliseconds else.
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
                pool.for_each_mut(&mut items, |i, x| tick(i, x))
            });
            thrown("chunks", &mut || {
                pool.for_each_chunk_mut(&mut items, 1, |i, part| tick(i, &mut part[0]));
            });
            thrown("zip", &mut || {
                pool.zip(&mut items, &mut others, |i, a, b| {
                    tick(i, a);
                    *b = a.clone();
                });
            });
            // Boxes, because the test is about what becomes of heap memory.
            #[allow(clippy::borrowed_box)]
            let copy = |i: usize, x: &Box<usize>| {
                check(i);
                x.clone()
            };
            thrown("map", &mut || drop(pool.map(&items, copy)));
            thrown("reduce", &mut || {
                drop(pool.reduce(&items, copy, |a, b| a.max(b)))
            });
            thrown("scope", &mut || {
                pool.scope(|s| (0..9).for_each(|i| s.spawn(move || check(i))));
            });
            thrown("outbox", &mut || {
                pool.for_each_sending(&mut items, outbox.to(9), |i, x, post| {
                    post.send(8 - i, copy(i, x));
                });
                pool.deliver(&mut outbox, &mut others, |_, x, message| *x = message);
            });
            thrown("scratch", &mut || {
                pool.for_each_mut_with(&mut items, &mut own, |i, _, x| tick(i, x));
            });
        }
        let (a, b) = pool.session(|s| s.join(|| 1, || String::from("b")));
        assert_eq!((a, b.as_str()), (1, "b"));
    }
}
