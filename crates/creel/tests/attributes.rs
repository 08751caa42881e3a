//! Tests of `#[creel::main]` and `#[creel::test]`.

use creel::time::{Clock, now, sleep};
use creel::{Pool, Wait, task};
use std::io;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// The time by which a timer may be late.
const RESOLUTION: Duration = Duration::from_millis(1);

mod program {
    use super::*;

    #[creel::main]
    pub async fn main() -> io::Result<u32> {
        let task = task::spawn(async { io::Result::Ok(6) });
        let six = task.await.map_err(io::Error::other)??;
        Ok(six * 7)
    }
}

#[test]
fn a_main_function_returns_its_output() {
    assert_eq!(program::main().unwrap(), 42);
}

#[creel::main(workers = 3, name = "own", wait = Wait::Park, stack_size = 1 << 20)]
async fn settings() -> (usize, String) {
    let pool = Pool::current().unwrap();
    let name = || std::thread::current().name().unwrap_or_default().to_owned();
    let name = pool.spawn_on(2, async move { name() }).await;
    (pool.workers(), name.unwrap())
}

#[test]
fn options_of_the_attribute_are_settings_of_the_pool() {
    assert_eq!(settings(), (3, "own-2".to_owned()));
}

#[creel::main(workers = 1, crate = ::creel)]
async fn borrows() -> &'static str {
    let text = String::from("text");
    let borrowed = &text;
    task::yield_now().await;
    assert_eq!(borrowed, "text");
    "static"
}

#[test]
fn a_body_may_borrow_its_own_variables() {
    assert_eq!(borrows(), "static");
}

#[creel::main(workers = 1)]
async fn with_parameters(
    mut sum: u32,
    (one, other): (&str, u32),
) -> Result<u32, std::num::ParseIntError> {
    sum += one.parse::<u32>()?;
    task::yield_now().await;
    if sum == 0 {
        return Ok(other);
    }
    Ok(sum + task::spawn(async move { other }).await.unwrap())
}

#[test]
fn a_main_function_can_have_parameters() {
    assert_eq!(with_parameters(1, ("2", 3)), Ok(6));
    assert_eq!(with_parameters(0, ("0", 3)), Ok(3));
    assert!(with_parameters(0, ("x", 3)).is_err());
}

#[creel::test]
async fn a_test_has_one_worker() {
    assert_eq!(Pool::current().unwrap().workers(), 1);
}

#[creel::test(workers = 2)]
async fn a_test_can_have_more_workers() -> Result<(), creel::JoinError> {
    assert_eq!(Pool::current().unwrap().workers(), 2);
    task::spawn(async {}).await
}

#[creel::test]
#[should_panic = "on purpose"]
async fn other_attributes_of_a_test_are_kept() {
    task::yield_now().await;
    panic!("on purpose");
}

#[creel::test]
#[ignore = "checks that the attribute is kept"]
async fn an_ignored_test_does_not_run() {
    unreachable!();
}

#[creel::test(manual_clock)]
async fn a_test_moves_its_clock(clock: Clock) {
    let begun = (Instant::now(), now());
    let slept = task::spawn(sleep(HOUR));
    clock.advance(HOUR / 2);
    task::yield_now().await;
    assert!(!slept.is_finished());
    clock.advance(HOUR / 2 + RESOLUTION);
    slept.await.unwrap();
    assert_eq!(now() - begun.1, HOUR + RESOLUTION);
    assert!(begun.0.elapsed() < HOUR / 10);
}

#[creel::test(manual_clock, workers = 2)]
async fn the_clock_argument_may_have_any_pattern(_: Clock) {
    assert_eq!(Pool::current().unwrap().workers(), 2);
}

#[creel::test(seed = 7)]
async fn a_seeded_test_waits_for_no_timer() {
    let begun = (Instant::now(), now());
    task::spawn(sleep(HOUR)).await.unwrap();
    assert!(now() - begun.1 >= HOUR);
    assert!(begun.0.elapsed() < HOUR / 10);
}
