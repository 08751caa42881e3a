//! A copy into an existing state reuses the memory of that state, and copies all of the source.

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::network::{Control, Network};
use creel_traffic::route::Router;
use creel_traffic::sim::{Rerouting, Simulation};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with a counter.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract for `alloc` is the one that we need here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract for `dealloc` is the one that we need here.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns a city with all kinds of junctions, several tiles and cars that are rerouted.
fn city(pool: &Pool, side: u32) -> Simulation {
    let mut plan = City::grid(side, side).raw_network().unwrap();
    for (index, junction) in plan.junctions.iter_mut().enumerate() {
        match index % 3 {
            0 => junction.control = Control::Stop,
            1 => junction.control = Control::Priority,
            _ => {}
        }
    }
    let network = Arc::new(Network::with_tiles(plan, 7).unwrap());
    let router = Router::new(pool, &network);
    let gravity = Gravity {
        cars: side * side * 20,
        within_ms: 300_000,
        repeats: true,
        places: 3,
        seed: 5,
    };
    let plans = gravity::plans(pool, &network, &router, &gravity).unwrap().0;
    let mut simulation =
        Simulation::new(pool, network, Arc::new(plans), Default::default()).unwrap();
    let rerouting = Rerouting {
        every_ticks: 60,
        share_ppm: 500_000,
        late_percent: 10,
        seed: 1,
    };
    simulation.set_rerouting(Some(rerouting)).unwrap();
    simulation.record_events(true);
    simulation
}

fn saved(simulation: &Simulation) -> Vec<u8> {
    let mut bytes = Vec::new();
    simulation.save(&mut bytes).unwrap();
    bytes
}

// There is one test, because the counter belongs to the whole process.
#[test]
fn a_copy_is_the_same_state_and_reuses_memory() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut simulation = city(&pool, 8);
    // The target of the first copy is a state of another city.
    let mut target = city(&pool, 5);
    target.run_ms(&pool, 100_000);
    for step in 0..6 {
        simulation.run_ms(&pool, 61_500);
        target.clone_from(&simulation);
        let mut fresh = simulation.clone();
        for copy in [&target, &fresh] {
            assert_eq!(saved(copy), saved(&simulation), "step {step}");
        }
        for copy in [&mut target, &mut fresh] {
            copy.run_ms(&pool, 30_250);
        }
        let mut later = simulation.clone();
        later.run_ms(&pool, 30_250);
        let events = later.take_events();
        assert!(!events.is_empty());
        for copy in [&mut target, &mut fresh] {
            assert_eq!(copy.hash(&pool), later.hash(&pool), "step {step}");
            assert!(copy.take_events() == events, "step {step}");
        }
    }
    assert!(simulation.tally().rerouted > 0);
    assert!(simulation.tally().arrived > 0);
    // The state after two frames needs the same memory as the state before them, or more.
    let before = simulation.clone();
    simulation.run_ms(&pool, 2000);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    simulation.clone_from(&before);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), allocations);
    assert_eq!(simulation.hash(&pool), before.hash(&pool));
}
