//! Generates trips by a gravity model: near destinations are more likely than far ones. We use it
//! if you have a network but no demand data, because it needs nothing but the network.

use super::{Plans, Route, Traveller};
use crate::network::{Ms, Network, NetworkError};
use crate::random::Stream;
use crate::route::Router;
use creel::Pool;

/// The parameters of the gravity model.
#[derive(Clone, Copy, Debug)]
pub struct Gravity {
    /// The number of cars.
    pub cars: u32,
    /// The period within which the first trips depart.
    pub within_ms: Ms,
    /// Whether each car repeats its round trip for ever. Otherwise it makes one round trip.
    pub repeats: bool,
    /// The number of candidate destinations per car. The car chooses one of them, and nearer ones
    /// are more likely.
    pub places: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Generates round trips. Also returns the number of cars that have no route, which stay at home.
///
/// The origin is the start of a random link, so a junction with more outgoing links has more
/// travellers. Candidate destinations are drawn the same way. The weight of a candidate is roughly
/// the inverse square of its distance. If the network has no coordinates, the difference of the
/// junction numbers stands for the distance, because neighbours have close numbers.
///
/// # Errors
/// Returns an error if the plans do not fit into their 32-bit encoding.
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

/// Chooses one of the places by a random number from 0 to 1. The weights are integers, so that the
/// choice is the same on every machine.
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
