//! Loads forged snapshots with a correct checksum. Each of them is either rejected or runs like any
//! other.

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::laps;
use creel_traffic::network::{Network, Physics};
use creel_traffic::random::Stream;
use creel_traffic::sim::{END_MS_MAX, Rerouting, Simulation, SnapshotError, TICK_MS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Returns a snapshot with jams, detours, entry queues and all kinds of timers.
fn snapshot(pool: &Pool) -> (Arc<Network>, Vec<u8>) {
    let city = City::grid(6, 6);
    let network = Arc::new(Network::with_tiles(city.raw_network().unwrap(), 12).unwrap());
    let plans = laps::plans(pool, &network, 900, 5).unwrap();
    let physics = Physics {
        stuck_ms: 40_000,
        ..Physics::default()
    };
    let mut simulation =
        Simulation::new(pool, Arc::clone(&network), Arc::new(plans), physics).unwrap();
    let rerouting = Rerouting {
        every_ticks: 20,
        share_ppm: 500_000,
        late_percent: 20,
        seed: 3,
    };
    simulation.set_rerouting(Some(rerouting)).unwrap();
    simulation.run(pool, 211);
    let tally = simulation.tally();
    assert!(tally.rerouted > 0 && tally.stepped_aside > 0 && tally.waiting_to_enter > 0);
    let mut bytes = Vec::new();
    simulation.save(&mut bytes).unwrap();
    (network, bytes)
}

/// Changes one to four bytes, mostly by a small amount, and corrects the checksum.
fn change(bytes: &mut [u8], stream: &mut Stream) {
    let end = bytes.len() - 4;
    for _ in 0..=stream.below(3) {
        let at = 16 + stream.below(end as u64 - 16) as usize;
        bytes[at] = match stream.below(4) {
            0 => stream.below(256) as u8,
            1 => bytes[at] ^ 1 << stream.below(8),
            2 => bytes[at].wrapping_add(1),
            _ => bytes[at].wrapping_sub(1),
        };
    }
    let sum = crc32fast::hash(&bytes[16..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the number of rejected snapshots.
fn try_all(seed: u64, count: u64) -> u64 {
    println!("seed {seed}");
    let pool = Pool::builder().workers(1).build().unwrap();
    let (network, whole) = snapshot(&pool);
    let mut refused = 0;
    for number in 0..count {
        let mut stream = Stream::of(seed, "made up", number);
        let mut bytes = whole.clone();
        change(&mut bytes, &mut stream);
        let goes_on = || match Simulation::load(&pool, Arc::clone(&network), &bytes[..]) {
            Ok(mut simulation) => {
                simulation.record_events(true);
                let left = (END_MS_MAX - simulation.now_ms()) / TICK_MS;
                simulation.run(&pool, left.min(120));
                simulation.take_events();
                simulation.vehicles_on_links();
                simulation.occupancy(&mut Vec::new());
                assert!(simulation.delay_seconds() >= 0.0 && simulation.gridlocked() < 900);
                simulation.check().unwrap();
                simulation.hash(&pool);
                false
            }
            Err(SnapshotError::Malformed(_) | SnapshotError::OtherNetwork) => true,
            Err(error) => panic!("{error}"),
        };
        let outcome = catch_unwind(AssertUnwindSafe(goes_on));
        refused += u64::from(outcome.unwrap_or_else(|_| panic!("number {number} of seed {seed}")));
    }
    println!("{refused} of {count} were rejected");
    refused
}

#[test]
fn a_forged_snapshot_is_rejected_or_runs() {
    let refused = try_all(1, 400);
    // Some changes result in another consistent state.
    assert!((200..400).contains(&refused), "{refused}");
}

#[test]
#[ignore = "takes about 15 seconds"]
fn many_forged_snapshots_are_rejected_or_run() {
    for seed in 2..6 {
        try_all(seed, 2000);
    }
}
