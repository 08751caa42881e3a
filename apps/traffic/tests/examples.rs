//! Runs the examples and checks their results.

#[path = "../examples/frame.rs"]
mod frame;
#[path = "../examples/lockstep.rs"]
mod lockstep;
#[path = "../examples/rollback.rs"]
mod rollback;

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::sim::Simulation;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn the_frames_and_the_budget_of_a_game_do_not_change_the_result_of_its_ticks() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let game = frame::Game {
        side: 24,
        cars: 3000,
        frames: 40,
        ticks: 5,
        budget: Duration::from_secs(60),
    };
    let all = frame::play(&pool, game).unwrap();
    assert_eq!((all.ticks, all.short), (200, 0));
    assert!(all.lit > 100 && all.late <= game.frames, "{all:?}");
    // With a budget of zero, no tick is run, but all frames are drawn.
    let budget = Duration::ZERO;
    let none = frame::play(&pool, frame::Game { budget, ..game }).unwrap();
    assert_eq!((none.ticks, none.short, none.lit), (0, 40, 0));
    let network = Arc::new(City::grid(24, 24).network().unwrap());
    let plans = Arc::new(laps::plans(&pool, &network, 3000, 1).unwrap());
    let mut straight = Simulation::new(&pool, network, plans, Default::default()).unwrap();
    straight.run(&pool, 200);
    assert_eq!(all.hash, straight.hash(&pool));
}

#[test]
fn lockstep_copies_agree_and_a_cheat_is_detected() {
    let [first, second] = lockstep::match_up(20, None).unwrap();
    assert_eq!(first.unwrap(), second.unwrap());
    let [first, second] = lockstep::match_up(20, Some(5)).unwrap();
    assert!(first.is_err());
    assert!(second.unwrap_err().to_string().contains("turn"));
}

#[test]
fn two_copies_with_rollback_end_with_the_same_hash() {
    let [first, second] = rollback::match_up(200).unwrap();
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.hash, second.hash);
    assert!(first.again > 0 && second.again > 0);
}
