//! Computes a value for each car, in an order in which cars with the same destination follow each
//! other, because their routes share most of the work.

use crate::route::LANES;
use creel::Pool;
use std::ops::Range;

/// The maximum number of cars that one task processes.
const CARS_PER_TASK: usize = 4096;

/// Calls `f` for each car and returns the results in the order of the cars. `keys` has the key of
/// each car, for example its destination. Before the cars of up to [`LANES`] keys, it calls
/// `announce` with these keys. `done` receives the number of cars that have been processed since
/// its last call.
///
/// The results of `f` must not depend on its scratch value.
pub(super) fn map_by_key<S: Send, T: Send>(
    pool: &Pool,
    keys: &[u32],
    scratch: impl FnMut(usize) -> S,
    done: &(dyn Fn(u64) + Sync),
    announce: impl Fn(&[u32], &mut S) + Sync,
    f: impl Fn(u32, &mut S) -> T + Sync,
) -> Vec<T> {
    let mut cars: Vec<u32> = (0..keys.len() as u32).collect();
    pool.sort_unstable_by_key(&mut cars, |&car| (keys[car as usize], car));
    let key_of = |place: usize| keys[cars[place] as usize];
    // Each task has a range of cars, and the list of the distinct keys of these cars.
    let mut tasks: Vec<(Range<usize>, Vec<u32>)> = Vec::new();
    for place in 0..cars.len() {
        let key = key_of(place);
        match tasks.last_mut() {
            Some((cars, keys))
                if cars.len() < CARS_PER_TASK
                    && (keys.last() == Some(&key) || keys.len() < LANES) =>
            {
                cars.end = place + 1;
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
            }
            _ => tasks.push((place..place + 1, vec![key])),
        }
    }
    let mut scratch = pool.scratch(scratch);
    let parts = pool.map((&tasks, &mut scratch), |((range, keys), scratch)| {
        announce(keys, scratch);
        let cars = &cars[range.clone()];
        let part: Vec<T> = cars.iter().map(|&car| f(car, scratch)).collect();
        done(part.len() as u64);
        part
    });
    let mut results: Vec<Option<T>> = Vec::new();
    results.resize_with(cars.len(), || None);
    for (&car, result) in cars.iter().zip(parts.into_iter().flatten()) {
        results[car as usize] = Some(result);
    }
    results.into_iter().flatten().collect()
}
