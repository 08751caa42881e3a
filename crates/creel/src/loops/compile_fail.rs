//! Programs that must not compile. Each example is a data race or a dangling borrow that the
//! signatures of the loops prevent.
//!
//! A shared counter without an atomic:
//! ```compile_fail,E0594
//! let pool = creel::Pool::new();
//! let mut count = 0;
//! pool.for_each(0..100, |_| count += 1);
//! ```
//!
//! A value that is not `Sync` but is visible to all workers:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! let cell = std::cell::Cell::new(0);
//! pool.for_each(&[1, 2, 3], |x| cell.set(*x));
//! ```
//!
//! Items that are not `Send` but are passed to other threads:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! let shared = std::rc::Rc::new(0);
//! let mut items = vec![shared.clone(), shared];
//! pool.for_each(&mut items, |item| drop(item.clone()));
//! ```
//!
//! An item that outlives its loop:
//! ```compile_fail
//! let pool = creel::Pool::new();
//! let kept = std::sync::Mutex::new(None);
//! let mut items = [1, 2, 3];
//! pool.for_each(&mut items, |item| *kept.lock().unwrap() = Some(item));
//! items[0] = 4;
//! drop(kept);
//! ```
//!
//! A spawned closure that borrows from inside its scope:
//! ```compile_fail,E0373
//! let pool = creel::Pool::new();
//! pool.scope(|s| {
//!     let local = 1;
//!     s.spawn(|| drop(local + 1));
//! });
//! ```
//!
//! A scope that escapes:
//! ```compile_fail
//! let pool = creel::Pool::new();
//! let mut kept = None;
//! pool.scope(|s| kept = Some(s));
//! kept.unwrap().spawn(|| ());
//! ```
//!
//! Results that are not `Send`:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! let made = pool.map(&[1, 2], |x| std::rc::Rc::new(*x));
//! ```
//!
//! A worker's scratch that outlives a visit:
//! ```compile_fail,E0521
//! let pool = creel::Pool::new();
//! let mut own = pool.scratch(|_| 0);
//! let kept = std::sync::Mutex::new(vec![]);
//! pool.for_each((0..3, &mut own), |(_, own)| kept.lock().unwrap().push(own));
//! ```
//!
//! Scratch without any other items, so that the number of visits is unknown:
//! ```compile_fail,E0080
//! let pool = creel::Pool::new();
//! let mut own = pool.scratch(|_| 0);
//! pool.for_each(&mut own, |own| *own += 1);
//! ```
//!
//! A slice that one loop visits twice, and changes in one of the two visits:
//! ```compile_fail,E0502
//! let pool = creel::Pool::new();
//! let mut items = vec![1, 2, 3];
//! pool.for_each((&mut items, &items), |(a, b)| *a += b);
//! ```
//!
//! A vector that is passed by value instead of by reference:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! pool.for_each(vec![1, 2, 3], |item| drop(item));
//! ```
//!
//! A sort of items that are not `Send`:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! pool.sort(&mut vec![std::rc::Rc::new(1)]);
//! ```
//!
//! A forgotten `.build()?`, which the compiler's message points out
//! (`pool/builder_diagnostics.rs`):
//! ```compile_fail,E0277
//! let pool = creel::Pool::builder().workers(2);
//! pool.for_each(0..3, |_| ());
//! ```
//!
//! A forgotten `?` after it:
//! ```compile_fail,E0599
//! let pool = creel::Pool::builder().workers(2).build();
//! pool.for_each(0..3, |_| ());
//! ```
//!
//! A builder that is passed on as a pool:
//! ```compile_fail,E0308
//! fn sum(pool: &creel::Pool) -> usize {
//!     pool.sum(0..10, |n| n)
//! }
//! sum(&creel::Pool::builder().workers(2));
//! ```
//!
//! A closure of an `_indexed` form that does not take the index:
//! ```compile_fail,E0593
//! let pool = creel::Pool::new();
//! pool.for_each_indexed(&mut [1, 2, 3], |x| *x += 1);
//! ```
//!
//! A loop over an iterator:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! pool.for_each([1, 2, 3].iter(), |x| drop(x));
//! ```
//!
//! A range that does not count by `usize`:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! pool.for_each(0..3_u32, |x| drop(x));
//! ```
//!
//! A task that borrows what its pool outlives:
//! ```compile_fail,E0373
//! let pool = creel::Pool::new();
//! let words = vec!["one", "two"];
//! pool.spawn(async { words.len() });
//! ```
