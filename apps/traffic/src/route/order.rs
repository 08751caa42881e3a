//! Orders the junctions of a network by nested dissection, for the hierarchy (`hierarchy.rs`).
//!
//! We divide the network into two halves by a *separator*, which is a set of junctions such that
//! each path between the halves contains one of them. The junctions of the separator rank highest,
//! and both halves are divided in the same way. The order depends only on the shape of the network
//! and not on travel times, so a hierarchy can be used again when travel times change.

use crate::network::Network;
use creel::Pool;

/// We do not divide a part that has at most this number of junctions.
const PART_MIN: usize = 6;
/// We divide the halves of a part in parallel if the part has more junctions than this.
const PARALLEL_MIN: usize = 2000;
/// The smaller half contains at least this share of a part, in percent.
const HALF_MIN_PERCENT: usize = 20;

/// A part of the network: junctions with local numbers, and their neighbours.
struct Part {
    /// The junction of each local number.
    junctions: Vec<u32>,
    /// The coordinates of each junction, or its distances from two far junctions.
    places: Vec<[f32; 2]>,
    first: Vec<u32>,
    neighbours: Vec<u32>,
}

/// Returns all junctions, from the lowest rank to the highest.
pub(super) fn order(pool: &Pool, network: &Network) -> Vec<u32> {
    let mut order = Vec::with_capacity(network.junctions().len());
    dissect(pool, whole(network), network.has_coordinates(), &mut order);
    order
}

fn whole(network: &Network) -> Part {
    let junctions = network.junctions().len();
    let mut pairs: Vec<(u32, u32)> = network
        .links()
        .iter()
        .filter(|link| link.from != link.to)
        .flat_map(|link| [(link.from, link.to), (link.to, link.from)])
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut first = vec![0; junctions + 1];
    for &(from, _) in &pairs {
        first[from as usize + 1] += 1;
    }
    for junction in 0..junctions {
        first[junction + 1] += first[junction];
    }
    let place = |index: u32| {
        let junction = network.junctions()[index as usize];
        [junction.x as f32, junction.y as f32]
    };
    Part {
        junctions: (0..junctions as u32).collect(),
        places: (0..junctions as u32).map(place).collect(),
        first,
        neighbours: pairs.into_iter().map(|pair| pair.1).collect(),
    }
}

/// Divides a part, and appends its junctions to `order`, from the lowest rank to the highest.
fn dissect(pool: &Pool, mut part: Part, has_places: bool, order: &mut Vec<u32>) {
    let count = part.junctions.len();
    if !has_places {
        part.places = part.distances();
    }
    if count <= PART_MIN {
        // A small part is not divided. We order its junctions by their number of neighbours,
        // because contracting a junction with few neighbours adds few arcs.
        let mut all: Vec<u32> = (0..count as u32).collect();
        all.sort_by_key(|&local| part.around(local).len());
        order.extend(all.iter().map(|&local| part.junctions[local as usize]));
        return;
    }
    let side = part.separate();
    let separator: Vec<u32> = (0..count)
        .filter(|&local| side[local] == SEPARATOR)
        .map(|local| part.junctions[local])
        .collect();
    let [a, b] = [0, 1].map(|half| part.half(&side, half));
    drop((part, side));
    if count < PARALLEL_MIN {
        dissect(pool, a, has_places, order);
        dissect(pool, b, has_places, order);
    } else {
        let ordered = |part: Part| {
            let mut order = Vec::with_capacity(part.junctions.len());
            dissect(pool, part, has_places, &mut order);
            order
        };
        let (first, second) = pool.join(|| ordered(a), || ordered(b));
        order.extend(first);
        order.extend(second);
    }
    order.extend(separator);
}

/// The value of `side` for a junction of the separator. The values 0 and 1 stand for the two
/// halves.
const SEPARATOR: u8 = 2;

impl Part {
    fn around(&self, local: u32) -> &[u32] {
        let (begin, end) = (self.first[local as usize], self.first[local as usize + 1]);
        &self.neighbours[begin as usize..end as usize]
    }

    /// Returns the side of each junction. We sweep over the part in four directions, and choose
    /// the place at which the separator is smallest.
    fn separate(&self) -> Vec<u8> {
        let count = self.junctions.len();
        let shortest = (count * HALF_MIN_PERCENT / 100).max(1);
        let mut best: Option<(usize, Vec<u32>, usize)> = None;
        for [a, b] in [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]] {
            let key = |local: &u32| {
                let [x, y] = self.places[*local as usize];
                a * x + b * y
            };
            let mut swept: Vec<(f32, u32)> = (0..count as u32)
                .map(|local| (key(&local), local))
                .collect();
            swept.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            // For each junction, we count the neighbours that the sweep has passed. From these
            // counts we know which junctions are at the edges of the two halves.
            let mut passed = vec![0_u32; count];
            let mut is_behind = vec![false; count];
            let (mut edge_behind, mut edge_ahead) = (0_usize, 0_usize);
            let mut least = (usize::MAX, 0);
            for (index, &(_, local)) in swept.iter().enumerate() {
                is_behind[local as usize] = true;
                let around = self.around(local);
                edge_ahead -= usize::from(passed[local as usize] > 0);
                edge_behind += usize::from((passed[local as usize] as usize) < around.len());
                for &other in around {
                    let other = other as usize;
                    passed[other] += 1;
                    if !is_behind[other] {
                        edge_ahead += usize::from(passed[other] == 1);
                    } else if passed[other] as usize == self.around(other as u32).len() {
                        edge_behind -= 1;
                    }
                }
                let cut = edge_behind.min(edge_ahead);
                let behind = index + 1;
                // If two cuts have separators of the same size, we prefer the more balanced one.
                let better = cut < least.0
                    || (cut == least.0
                        && behind.abs_diff(count / 2) < usize::abs_diff(least.1, count / 2));
                if behind >= shortest && count - behind >= shortest && better {
                    least = (cut, behind);
                }
            }
            let (cut, at) = least;
            if best.as_ref().is_none_or(|best| cut < best.0) {
                let swept = swept.into_iter().map(|swept| swept.1).collect();
                best = Some((cut, swept, at));
            }
        }
        let (_, swept, at) = best.unwrap_or_default();
        let mut side = vec![1; count];
        swept[..at]
            .iter()
            .for_each(|&local| side[local as usize] = 0);
        // The separator consists of the junctions of one half with roads to the other half.
        let edge = |half: u8| -> Vec<u32> {
            let crosses =
                |&local: &u32| self.around(local).iter().any(|&o| side[o as usize] != half);
            let all = (0..count as u32).filter(|&local| side[local as usize] == half);
            all.filter(crosses).collect()
        };
        let (a, b) = (edge(0), edge(1));
        let separator = if a.len() <= b.len() { a } else { b };
        separator
            .into_iter()
            .for_each(|local| side[local as usize] = SEPARATOR);
        side
    }

    /// Returns one half of the part.
    fn half(&self, side: &[u8], half: u8) -> Self {
        let mut local = vec![u32::MAX; side.len()];
        let mut part = Self {
            junctions: Vec::new(),
            places: Vec::new(),
            first: vec![0],
            neighbours: Vec::new(),
        };
        for old in (0..side.len()).filter(|&old| side[old] == half) {
            local[old] = part.junctions.len() as u32;
            part.junctions.push(self.junctions[old]);
            part.places.push(self.places[old]);
        }
        for old in (0..side.len()).filter(|&old| side[old] == half) {
            let inside = self.around(old as u32).iter();
            let inside = inside.map(|&other| local[other as usize]);
            part.neighbours
                .extend(inside.filter(|&other| other != u32::MAX));
            part.first.push(part.neighbours.len() as u32);
        }
        part
    }

    /// Returns the distances in roads of each junction from two junctions that are far from each
    /// other. They stand for coordinates if the network has none.
    fn distances(&self) -> Vec<[f32; 2]> {
        let far = |from: u32| {
            let mut distance = vec![f32::MAX; self.junctions.len()];
            let mut open = std::collections::VecDeque::new();
            let mut last = from;
            // If the part is not connected, we search from a junction of each component, so that
            // all junctions get a distance.
            for begin in std::iter::once(from).chain(0..self.junctions.len() as u32) {
                if distance[begin as usize] != f32::MAX {
                    continue;
                }
                distance[begin as usize] = 0.0;
                open.push_back(begin);
                while let Some(local) = open.pop_front() {
                    if begin == from {
                        last = local;
                    }
                    for &other in self.around(local) {
                        if distance[other as usize] == f32::MAX {
                            distance[other as usize] = distance[local as usize] + 1.0;
                            open.push_back(other);
                        }
                    }
                }
            }
            (distance, last)
        };
        if self.junctions.is_empty() {
            return Vec::new();
        }
        let (_, a) = far(0);
        let (from_a, b) = far(a);
        let (from_b, _) = far(b);
        let both = from_a.into_iter().zip(from_b);
        both.map(|(a, b)| [a, b]).collect()
    }
}
