//! Partitions a network into tiles of neighbouring junctions, and orders the junctions so that
//! neighbours are close in memory. We want few links between tiles, because each of them costs
//! messages.

use super::RawNetwork;

/// Returns the junctions in order, and the position at which each tile begins (plus one entry for
/// the end).
pub(super) fn cut(raw: &RawNetwork, junctions_max: usize) -> (Vec<u32>, Vec<u32>) {
    let mut degree = vec![0_u32; raw.junctions.len()];
    for link in &raw.links {
        degree[link.from as usize] += 1;
        degree[link.to as usize] += 1;
    }
    let mut order: Vec<u32> = (0..raw.junctions.len() as u32).collect();
    if !raw.has_coordinates {
        order = breadth_first_order(raw);
    }
    let mut begins = vec![0];
    let mut tiles = Cut {
        raw,
        degree: &degree,
        junctions_max,
        begins: &mut begins,
    };
    tiles.halve(&mut order, 0);
    (order, begins)
}

/// The maximum number of link ends per tile. A timer refers to a link end with 14 bits.
const ENDS_MAX: usize = 16_000;
// Each junction fits into a tile, because its degree is limited.
const _: () = assert!(ENDS_MAX > 2 * super::DEGREE_MAX);

struct Cut<'a> {
    raw: &'a RawNetwork,
    degree: &'a [u32],
    junctions_max: usize,
    begins: &'a mut Vec<u32>,
}

impl Cut<'_> {
    /// Halves a part along its longer side until it is small enough. Without coordinates, it halves
    /// the part in its current order.
    fn halve(&mut self, part: &mut [u32], begin: usize) {
        let ends: u64 = part
            .iter()
            .map(|&j| u64::from(self.degree[j as usize]))
            .sum();
        if part.len() == 1 || (part.len() <= self.junctions_max && ends <= ENDS_MAX as u64) {
            self.begins.push((begin + part.len()) as u32);
            return;
        }
        let middle = part.len() / 2;
        if self.raw.has_coordinates {
            let place = |&j: &u32| self.raw.junctions[j as usize];
            let span = |get: fn(super::Junction) -> f64| {
                let values = part.iter().map(|j| get(place(j)));
                let (low, high) =
                    values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
                high - low
            };
            let wide = span(|j| j.x) >= span(|j| j.y);
            part.select_nth_unstable_by(middle, |a, b| {
                let key = |j: &u32| if wide { place(j).x } else { place(j).y };
                key(a).total_cmp(&key(b)).then(a.cmp(b))
            });
        }
        let (left, right) = part.split_at_mut(middle);
        self.halve(left, begin);
        self.halve(right, begin + middle);
    }
}

/// Returns an order of the junctions in which consecutive parts are close to each other. It grows
/// one region after another by breadth-first search. Each region starts next to an earlier one, if
/// there is an unvisited junction there.
fn breadth_first_order(raw: &RawNetwork) -> Vec<u32> {
    const REGION: usize = 512;
    let total = raw.junctions.len();
    let mut first = vec![0_u32; total + 1];
    for link in &raw.links {
        first[link.from as usize + 1] += 1;
        first[link.to as usize + 1] += 1;
    }
    for j in 0..total {
        first[j + 1] += first[j];
    }
    let mut filled = first.clone();
    let mut neighbours = vec![0_u32; raw.links.len() * 2];
    for link in &raw.links {
        for (a, b) in [(link.from, link.to), (link.to, link.from)] {
            neighbours[filled[a as usize] as usize] = b;
            filled[a as usize] += 1;
        }
    }
    let mut order = Vec::with_capacity(total);
    let mut taken = vec![false; total];
    // Unvisited junctions next to a completed region, from which further regions can start.
    let mut seeds = std::collections::VecDeque::new();
    let mut next = 0;
    while order.len() < total {
        let seed = loop {
            match seeds.pop_front() {
                Some(seed) if !taken[seed as usize] => break seed,
                Some(_) => {}
                None => {
                    while taken[next] {
                        next += 1;
                    }
                    break next as u32;
                }
            }
        };
        let begin = order.len();
        order.push(seed);
        taken[seed as usize] = true;
        let mut looked = begin;
        while looked < order.len() {
            let junction = order[looked] as usize;
            looked += 1;
            for &other in &neighbours[first[junction] as usize..first[junction + 1] as usize] {
                if taken[other as usize] {
                    continue;
                }
                if order.len() - begin < REGION {
                    taken[other as usize] = true;
                    order.push(other);
                } else {
                    seeds.push_back(other);
                }
            }
        }
    }
    order
}
