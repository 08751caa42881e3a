//! Generates trips by a gravity model: near destinations are more likely than far ones. We use it
//! if you have a network but no demand data, because it needs nothing but the network.

use super::grouped::map_by_key;
use super::{Plans, Route, Traveller};
use crate::network::{Ms, Network, NetworkError};
use crate::random::Stream;
use crate::route::{RouteQuery, Router};
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

/// The maximum number of links that are destinations. With fewer destinations, more trips share the
/// search for their routes.
pub const DESTINATIONS_MAX: usize = 4096;

/// Generates round trips. Also returns the number of cars that have no route, which stay at home.
///
/// The origin is the start of a random link, so a junction with more outgoing links has more
/// travellers. Candidate destinations are drawn the same way. The weight of a candidate is roughly
/// the inverse square of its distance. If the network has no coordinates, the difference of the
/// junction numbers stands for the distance, because neighbours have close numbers.
///
/// In a large network, the candidates are drawn from [`DESTINATIONS_MAX`] links, because trips to
/// the same destination share the search for their routes.
///
/// # Errors
/// Returns an error if the plans do not fit into their 32-bit encoding.
pub fn plans(
    pool: &Pool,
    network: &Network,
    router: &Router,
    gravity: &Gravity,
) -> Result<(Plans, u32), NetworkError> {
    plans_with_progress(pool, network, router, gravity, &|_| {})
}

/// Like [`plans`]. `done` receives the number of cars that have been routed since its last call,
/// for a progress bar.
///
/// # Errors
/// Returns an error if the plans do not fit into their 32-bit encoding.
pub fn plans_with_progress(
    pool: &Pool,
    network: &Network,
    router: &Router,
    gravity: &Gravity,
    done: &(dyn Fn(u64) + Sync),
) -> Result<(Plans, u32), NetworkError> {
    let links = network.links();
    let mut goals: Vec<u32> = links.iter().map(|link| link.from).collect();
    if goals.len() > DESTINATIONS_MAX {
        let mut stream = Stream::of(gravity.seed, "destinations", 0);
        let all = std::mem::take(&mut goals);
        let goal = |_| all[stream.below(all.len() as u64) as usize];
        goals = (0..DESTINATIONS_MAX).map(goal).collect();
    }
    let wishes: Vec<Wish> = pool.map(0..gravity.cars as usize, |car| {
        let mut stream = Stream::of(gravity.seed, "gravity", car as u64);
        let origin = links[stream.below(links.len() as u64) as usize].from;
        let place = |_| goals[stream.below(goals.len() as u64) as usize];
        let candidates: Vec<u32> = (0..gravity.places.max(1)).map(place).collect();
        Wish {
            origin,
            goal: choose(network, origin, &candidates, stream.unit()),
            depart_ms: stream.below(u64::from(gravity.within_ms.max(1))) as Ms,
            stay_ms: stream.below(u64::from(gravity.within_ms.max(1))) as Ms,
        }
    });
    let keys: Vec<u32> = wishes.iter().map(|wish| wish.goal).collect();
    let queries = |_| (router.query(), router.query());
    let announce = |goals: &[u32], (to, from): &mut (RouteQuery, RouteQuery)| {
        to.announce(router, goals, true);
        from.announce(router, goals, false);
    };
    let travellers = map_by_key(pool, &keys, queries, done, announce, |car, (to, from)| {
        let Wish {
            origin,
            goal,
            depart_ms,
            stay_ms,
        } = wishes[car as usize];
        let (there, back) = (
            router.shortest_path(network, to, origin, goal),
            router.shortest_path_from(network, from, goal, origin),
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
    });
    let travellers = travellers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut plans = Plans::from_slice(pool, &travellers)?;
    plans.set_made_for(network);
    let stay = travellers.iter().filter(|one| one.trips.is_empty()).count();
    Ok((plans, stay as u32))
}

/// The round trip that a car wants to make, before its routes are known.
struct Wish {
    origin: u32,
    goal: u32,
    depart_ms: Ms,
    stay_ms: Ms,
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
            let distance = f64::from(origin.abs_diff(place));
            distance * distance
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
