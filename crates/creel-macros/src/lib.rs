//! The attributes `#[creel::main]` and `#[creel::test]`. Use them through the crate `creel`, which
//! re-exports them.
//!
//! We parse the function by hand and not with the crate `syn`, because every program that uses
//! `creel` with its default features builds this crate. The attributes only need to recognize
//! `async fn NAME(…) … { … }` and a list of options.
//!
//! An attribute turns the function into an ordinary one with the same name, which contains the
//! `async` function and passes its future to `Pool::block_on`:
//!
//! ```text
//! fn main() -> Output {
//!     async fn main() -> Output { … }
//!     let pool = ::creel::Pool::builder().build()…;
//!     pool.block_on(main())
//! }
//! ```
//!
//! The compiler therefore checks the `async` function exactly as you wrote it.
#![forbid(unsafe_code)]

mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Runs an `async fn main` on a pool.
///
/// The attribute creates a [`Pool`](https://docs.rs/creel/latest/creel/struct.Pool.html) and passes
/// the function's future to its `block_on`. The pool is dropped when the function returns, which
/// cancels the tasks that have not ended.
///
/// ```
/// #[creel::main]
/// async fn main() -> Result<(), creel::JoinError> {
///     let answer = creel::task::spawn(async { 6 * 7 }).await?;
///     assert_eq!(answer, 42);
///     Ok(())
/// }
/// ```
///
/// # Options
///
/// Each option is the name of a method of `PoolBuilder` and its argument: `name`, `workers`,
/// `placement`, `stack_size`, `wait`, `balance`, `clock`, `observe`. The default is the same as
/// that of `Pool::builder`.
///
/// ```
/// #[creel::main(workers = 2, wait = creel::Wait::Park)]
/// async fn main() {
///     assert_eq!(creel::Pool::current().unwrap().workers(), 2);
/// }
/// ```
///
/// If your program uses `creel` under another path, pass it as `crate = other::path`.
///
/// The function can have any name, and parameters. For example, a `main` that parses the command
/// line first can pass the result to it:
///
/// ```
/// #[creel::main]
/// async fn run(names: Vec<String>) -> usize {
///     creel::task::yield_now().await;
///     names.len()
/// }
///
/// fn main() {
///     println!("{} arguments", run(std::env::args().skip(1).collect()));
/// }
/// ```
///
/// # Panics
///
/// The generated function panics if it cannot create the pool. If your program needs to handle this
/// error, or chooses the settings at run time, create the pool yourself.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(options, item)
}

/// Runs an `async` test on a pool.
///
/// ```
/// # mod hidden {
/// #[creel::test]
/// async fn a_task_returns_its_output() {
///     assert_eq!(creel::task::spawn(async { 7 }).await.unwrap(), 7);
/// }
/// # }
/// ```
///
/// The pool has one worker by default. The options are those of [`macro@main`]. There are two more,
/// which are for tests with timers.
///
/// # A clock that jumps
///
/// With `seed = NUMBER`, the test runs on a pool of `Pool::seeded`. Sleeps take no time, because
/// the clock jumps to the next timer when no task can run. The seed determines the order of the
/// tasks, so each run of the test is the same.
///
/// ```
/// # mod hidden {
/// use creel::time::{now, sleep};
/// use std::time::Duration;
///
/// #[creel::test(seed = 7)]
/// async fn an_hour_takes_no_time() {
///     let begun = now();
///     sleep(Duration::from_secs(3600)).await;
///     assert!(now() - begun >= Duration::from_secs(3600));
/// }
/// # }
/// ```
///
/// # A clock that the test moves
///
/// With `manual_clock`, the pool has a clock of `Clock::manual`, and the test receives it as its
/// parameter. Note that a timer may be late by its resolution. Therefore move the clock a
/// millisecond further than the timer needs.
///
/// ```
/// # mod hidden {
/// use creel::time::{Clock, sleep};
/// use std::time::Duration;
///
/// #[creel::test(manual_clock)]
/// async fn a_sleep_ends_when_the_clock_moves(clock: Clock) {
///     let hour = Duration::from_secs(3600);
///     let sleeps = creel::task::spawn(sleep(hour));
///     clock.advance(hour / 2);
///     assert!(!sleeps.is_finished());
///     clock.advance(hour / 2 + Duration::from_millis(1));
///     sleeps.await.unwrap();
/// }
/// # }
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(options, item)
}
