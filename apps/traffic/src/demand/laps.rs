//! Generates cars that drive laps for ever. We use them to fill a city with traffic, for example in
//! benchmarks. Their routes need no router, so generating them is quick.

use super::{Plans, Route, Traveller};
use crate::network::{Network, NetworkError};
use crate::random::Stream;
use creel::Pool;

/// The maximum number of roads of a lap, out and back.
const ROADS_MAX: u32 = 120;

/// Generates `cars` travellers that start at random junctions within the first minute.
///
/// Each car follows 20 to 59 roads, takes a random turn at each junction, and returns home the same
/// way. It repeats this for ever.
///
/// # Errors
/// Returns an error if a road has no road in the opposite direction, because the car could not
/// return.
pub fn plans(pool: &Pool, network: &Network, cars: u32, seed: u64) -> Result<Plans, NetworkError> {
    let back = if cars == 0 {
        Vec::new()
    } else {
        backward(network)?
    };
    Plans::from_fn(
        pool,
        cars,
        |_| (),
        |car, ()| Ok(traveller(network, &back, seed, car)),
    )
}

/// Returns for each road the road that leads in the opposite direction.
fn backward(network: &Network) -> Result<Vec<u32>, NetworkError> {
    let links = network.links();
    (0..links.len() as u32)
        .map(|link| {
            let road = links[link as usize];
            network
                .out(road.to)
                .find(|&other| links[other as usize].to == road.from)
                .ok_or_else(|| {
                    NetworkError(format!(
                        "cannot generate laps, because there is no road in the direction opposite to road {}: use --demand gravity instead",
                        network.link_name(link)
                    ))
                })
        })
        .collect()
}

fn traveller(network: &Network, back: &[u32], seed: u64, car: u32) -> Traveller {
    let mut stream = Stream::of(seed, "lap", u64::from(car));
    let links = network.links();
    let origin = stream.below(network.junctions().len() as u64) as u32;
    let roads = 20 + stream.below(u64::from(ROADS_MAX / 2 - 20)) as u32;
    let mut path: Vec<u32> = Vec::with_capacity(2 * roads as usize);
    let mut junction = origin;
    for _ in 0..roads {
        let out = network.out(junction);
        if out.is_empty() {
            break;
        }
        let last = path.last().copied();
        // A car turns around only if there is no other road, because drivers rarely do so.
        let onward = out
            .clone()
            .filter(|&link| last.is_none_or(|last| back[last as usize] != link));
        let choices = onward.clone().count() as u64;
        let link = match choices {
            0 => out.start,
            _ => onward
                .clone()
                .nth(stream.below(choices) as usize)
                .unwrap_or(out.start),
        };
        path.push(link);
        junction = links[link as usize].to;
    }
    let home: Vec<u32> = path.iter().rev().map(|&link| back[link as usize]).collect();
    path.extend(home);
    let route = Route::pack(network, &path).unwrap_or_default();
    let depart_ms = stream.below(60_000) as u32;
    Traveller {
        origin,
        trips: vec![(depart_ms, route)],
        repeats: true,
    }
}
