//! What must not compile: each example is a data race or a dangling borrow that the signatures
//! of the loops refuse.
//!
//! A shared counter without an atomic:
//! ```compile_fail,E0594
//! let pool = creel::Pool::new();
//! let mut count = 0;
//! pool.for_each_index(0..100, |_| count += 1);
//! ```
//!
//! Something that is not `Sync`, seen by all workers:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! let cell = std::cell::Cell::new(0);
//! pool.for_each(&[1, 2, 3], |_, x| cell.set(*x));
//! ```
//!
//! Items that are not `Send`, given to other threads:
//! ```compile_fail,E0277
//! let pool = creel::Pool::new();
//! let shared = std::rc::Rc::new(0);
//! let mut items = vec![shared.clone(), shared];
//! pool.for_each_mut(&mut items, |_, item| drop(item.clone()));
//! ```
//!
//! An item that outlives its loop:
//! ```compile_fail
//! let pool = creel::Pool::new();
//! let kept = std::sync::Mutex::new(None);
//! let mut items = [1, 2, 3];
//! pool.for_each_mut(&mut items, |_, item| *kept.lock().unwrap() = Some(item));
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
//! let made = pool.map(&[1, 2], |_, x| std::rc::Rc::new(*x));
//! ```
