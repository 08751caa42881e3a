//! Trips as people make them: from where many roads are, to where many are that is not too far.

use super::{Plans, Route, Traveller};
use crate::network::{Ms, Network, NetworkError};
use crate::random::Stream;
use crate::route::Router;
use creel::Pool;

/// What trips are like.
#[derive(Clone, Copy, Debug)]
pub struct Gravity {
    /// How many cars.
    pub cars: u32,
    /// Within how long their first trips begin.
    pub within_ms: Ms,
    /// Whether each drives to and fro for ever, rather than there and back once.
    pub repeats: bool,
    /// How many places each looks at; it takes one of them, the nearer the likelier.
    pub places: u32,
    /// What is random.
    pub seed: u64,
}

/// Travellers who begin where roads do (a junction with more roads has more of them), and drive to
/// one of some places drawn the same way, by the inverse square of the distance; then back. Networks
/// without places have the distance in junctions of their order. Also gives the number of those for
/// whom there was no way; they stay at home.
///
/// # Errors
/// Plans that do not fit into memory's numbers.
pub fn plans(
    pool: &Pool,
    network: &Network,
    router: &Router,
    gravity: &Gravity,
) -> Result<(Plans, u32), NetworkError> {
    let plans = Plans::from_fn(
        pool,
        gravity.cars,
        |_| router.query(),
        |car, query| {
            let mut stream = Stream::of(gravity.seed, "gravity", u64::from(car));
            let links = network.links();
            let mut place = || links[stream.below(links.len() as u64) as usize].from;
            let origin = place();
            let candidates: Vec<u32> = (0..gravity.places.max(1)).map(|_| place()).collect();
            let goal = choose(network, origin, &candidates, stream.unit());
            let depart_ms = stream.below(u64::from(gravity.within_ms.max(1))) as Ms;
            let stay_ms = stream.below(u64::from(gravity.within_ms.max(1))) as Ms;
            let (there, back) = (
                router.shortest_path(network, query, origin, goal),
                router.shortest_path(network, query, goal, origin),
            );
            let (Some(there), Some(back)) = (there, back) else {
                return Ok(Traveller {
                    origin,
                    ..Traveller::default()
                });
            };
            let back_ms = if gravity.repeats {
                depart_ms
            } else {
                depart_ms.saturating_add(stay_ms)
            };
            let trips = vec![
                (depart_ms, Route::pack(network, &there)?),
                (back_ms, Route::pack(network, &back)?),
            ];
            Ok(Traveller {
                origin,
                trips,
                repeats: gravity.repeats,
            })
        },
    )?;
    let stay = (0..plans.len() as u32)
        .filter(|&car| plans.stays(car))
        .count();
    Ok((plans, stay as u32))
}

/// One of the places, by a number from 0 to 1. Sums are of whole numbers, so that they are the same
/// on each machine.
fn choose(network: &Network, origin: u32, places: &[u32], share: f64) -> u32 {
    let junctions = network.junctions();
    let weight = |&place: &u32| -> u64 {
        let far = if network.has_coordinates() {
            let (a, b) = (junctions[origin as usize], junctions[place as usize]);
            let (x, y) = (a.x - b.x, a.y - b.y);
            x * x + y * y
        } else {
            f64::from(origin.abs_diff(place)).powi(2)
        };
        let scale = if network.geographic() { 1e-6 } else { 1e4 };
        ((1e9 / (far / scale + 1.0)) as u64).max(1)
    };
    let total: u64 = places.iter().map(weight).sum();
    let mut left = (share * total as f64) as u64;
    for place in places {
        let weight = weight(place);
        if left < weight {
            return *place;
        }
        left -= weight;
    }
    places[places.len() - 1]
}
