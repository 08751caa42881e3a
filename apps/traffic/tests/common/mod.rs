//! Small networks for tests.
#![allow(dead_code, reason = "each test file uses only a part of this module")]

use creel::Pool;
use creel_traffic::demand::{Plans, Route, Traveller};
use creel_traffic::network::{Gaps, Junction, Link, Network, Physics, RawNetwork};
use creel_traffic::sim::Simulation;
use std::sync::Arc;

/// Parameters with round numbers: a standing car takes 5 m (0.2 cars per metre), and a driver
/// reacts after 1 s. On a [`road`], whose free speed is 20 m/s, the capacity is then 0.8 cars per
/// second and the wave speed is 5 m/s.
pub const NEWELL: Physics = Physics {
    spacing_mm: 5000,
    reaction_ms: 1000,
    gap_ms: 2000,
    gaps: Gaps::HCM,
    stuck_ms: 300_000,
    flow_ppm: 1_000_000,
    storage_ppm: 1_000_000,
};

/// Returns a link with one lane and a free speed of 20 m/s.
pub fn road(from: u32, to: u32, length_m: u32) -> Link {
    Link {
        from,
        to,
        length_mm: length_m * 1000,
        speed_mm_s: 20_000,
        headway_ms: 0,
        lanes: 1,
        approach: 0,
    }
}

/// Returns a network of junctions in a row, 100 m apart, with at most `tile` junctions per tile.
pub fn network(junctions: u32, links: Vec<Link>, tile: usize) -> Arc<Network> {
    Arc::new(Network::with_tiles(plan(junctions, links), tile).unwrap())
}

pub fn plan(junctions: u32, links: Vec<Link>) -> RawNetwork {
    let junctions = (0..junctions).map(|i| Junction {
        x: f64::from(i) * 100.0,
        ..Junction::default()
    });
    RawNetwork {
        junctions: junctions.collect(),
        links,
        has_coordinates: true,
        ..RawNetwork::default()
    }
}

/// Converts link numbers of the file to link numbers of the network.
pub fn path(network: &Network, origins: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let all = 0..network.links().len() as u32;
    let find = |origin| {
        all.clone()
            .find(|&link| network.link_file_index(link) == origin)
            .unwrap()
    };
    origins.into_iter().map(find).collect()
}

/// Returns a traveller with one trip.
pub fn trip(
    network: &Network,
    depart_ms: u32,
    origins: impl IntoIterator<Item = u32>,
) -> Traveller {
    let path = path(network, origins);
    let origin = network.links()[path[0] as usize].from;
    Traveller {
        origin,
        trips: vec![(depart_ms, Route::pack(network, &path).unwrap())],
        repeats: false,
    }
}

pub fn simulation(
    network: &Arc<Network>,
    travellers: Vec<Traveller>,
    physics: Physics,
) -> Simulation {
    let plans = Arc::new(Plans::new(travellers).unwrap());
    let pool = Pool::builder().workers(1).build().unwrap();
    let mut simulation = Simulation::new(&pool, network.clone(), plans, physics).unwrap();
    simulation.record_events(true);
    simulation
}
