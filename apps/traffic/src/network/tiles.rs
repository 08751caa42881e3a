//! Partitions a network into tiles of neighbouring junctions, and orders the junctions so that
//! neighbours are close in memory. We want few links between tiles, because each of them costs
//! messages.
//!
//! The junctions at both ends of a link that takes less than [`LINK_TIME_MS_MIN`] belong to one
//! *cluster*, which is never divided. Therefore such a link never connects two tiles. If a cluster
//! would become too large, we raise the time of the link to the minimum instead.

use super::{LINK_TIME_MS_MIN, RawNetwork};

/// The partition of a network into tiles.
pub(super) struct Tiles {
    /// The junctions in the order in which the network stores them, tile by tile.
    pub order: Vec<u32>,
    /// The position at which each tile begins, plus one entry for the end.
    pub begins: Vec<u32>,
    /// Whether each link must take at least [`LINK_TIME_MS_MIN`], because its cluster would be too
    /// large. The list is empty if no link had to be raised.
    pub raised: Vec<bool>,
}

/// Partitions the network into tiles of at most `junctions_max` junctions, unless a cluster is
/// larger.
pub(super) fn cut(raw: &RawNetwork, junctions_max: usize) -> Tiles {
    let mut degree = vec![0_u32; raw.junctions.len()];
    for link in &raw.links {
        degree[link.from as usize] += 1;
        degree[link.to as usize] += 1;
    }
    let (cluster, raised) = clusters(raw, &degree);
    let mut order: Vec<u32> = (0..raw.junctions.len() as u32).collect();
    if !raw.has_coordinates {
        order = breadth_first_order(raw);
        if !cluster.is_empty() {
            let mut rank = vec![0; order.len()];
            for (place, &junction) in order.iter().enumerate() {
                rank[junction as usize] = place as u32;
            }
            order.sort_by_key(|&j| (rank[cluster[j as usize] as usize], rank[j as usize]));
        }
    }
    let mut begins = vec![0];
    let mut tiles = Cut {
        raw,
        degree: &degree,
        cluster: &cluster,
        junctions_max,
        begins: &mut begins,
    };
    tiles.halve(&mut order, 0);
    Tiles {
        order,
        begins,
        raised,
    }
}

/// Returns for each junction the junction that stands for its cluster, and for each link whether it
/// is [raised](Tiles::raised). Both lists are empty if no link is short, and the second list is
/// also empty if no link is raised. Only the number of link ends limits a cluster, so the result
/// does not depend on the size of the tiles.
fn clusters(raw: &RawNetwork, degree: &[u32]) -> (Vec<u32>, Vec<bool>) {
    let is_short = |link: &super::Link| link.free_flow_ms() < LINK_TIME_MS_MIN;
    if !raw.links.iter().any(is_short) {
        return (Vec::new(), Vec::new());
    }
    fn root(parent: &mut [u32], mut junction: u32) -> u32 {
        while parent[junction as usize] != junction {
            let above = parent[parent[junction as usize] as usize];
            parent[junction as usize] = above;
            junction = above;
        }
        junction
    }
    let mut parent: Vec<u32> = (0..raw.junctions.len() as u32).collect();
    for link in raw.links.iter().filter(|link| is_short(link)) {
        let (a, b) = (root(&mut parent, link.from), root(&mut parent, link.to));
        // The junction with the lowest number stands for the cluster.
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut cluster: Vec<u32> = (0..parent.len() as u32)
        .map(|junction| root(&mut parent, junction))
        .collect();
    let mut ends = vec![0_usize; cluster.len()];
    for (junction, &of) in cluster.iter().enumerate() {
        ends[of as usize] += degree[junction] as usize;
    }
    let large = |of: u32| ends[of as usize] > ENDS_MAX;
    let is_raised = |link: &super::Link| is_short(link) && large(cluster[link.from as usize]);
    let mut raised: Vec<bool> = raw.links.iter().map(is_raised).collect();
    if !raised.contains(&true) {
        raised.clear();
    }
    for (junction, of) in (0..).zip(&mut cluster) {
        if ends[*of as usize] > ENDS_MAX {
            *of = junction;
        }
    }
    (cluster, raised)
}

/// The maximum number of link ends per tile. A timer stores the index of a link end in 14 bits.
const ENDS_MAX: usize = 16_000;
// The assertion ensures that each junction fits into a tile, because the number of links at a
// junction is limited.
const _: () = assert!(ENDS_MAX > 2 * super::DEGREE_MAX);

struct Cut<'a> {
    raw: &'a RawNetwork,
    degree: &'a [u32],
    /// The junction that stands for the cluster of each junction. Empty if all clusters are single
    /// junctions.
    cluster: &'a [u32],
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
        let mut middle = part.len() / 2;
        if self.raw.has_coordinates {
            let place = |j: u32| self.raw.junctions[j as usize];
            let span = |get: fn(super::Junction) -> f64| {
                let values = part.iter().map(|&j| get(place(j)));
                let (low, high) =
                    values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
                high - low
            };
            let wide = span(|j| j.x) >= span(|j| j.y);
            part.select_nth_unstable_by(middle, |&a, &b| {
                let key = |j: u32| if wide { place(j).x } else { place(j).y };
                let (of_a, of_b) = (self.cluster_of(a), self.cluster_of(b));
                let clusters = key(of_a).total_cmp(&key(of_b)).then(of_a.cmp(&of_b));
                clusters.then(a.cmp(&b))
            });
        }
        if !self.cluster.is_empty() {
            let Some(end) = self.end_of_cluster(part, middle) else {
                self.begins.push((begin + part.len()) as u32);
                return;
            };
            middle = end;
        }
        let (left, right) = part.split_at_mut(middle);
        self.halve(left, begin);
        self.halve(right, begin + middle);
    }

    fn cluster_of(&self, junction: u32) -> u32 {
        self.cluster
            .get(junction as usize)
            .copied()
            .unwrap_or(junction)
    }

    /// Returns a place near `middle` at which the part can be cut without dividing a cluster, or
    /// `None` if the part is one cluster. For this, moves the junctions of the cluster at `middle`
    /// next to each other. The returned place is the nearer end of this cluster.
    fn end_of_cluster(&self, part: &mut [u32], middle: usize) -> Option<usize> {
        let of = self.cluster_of(part[middle]);
        let mut first = middle;
        for index in (0..middle).rev() {
            if self.cluster_of(part[index]) == of {
                first -= 1;
                part.swap(index, first);
            }
        }
        let mut end = middle + 1;
        for index in middle + 1..part.len() {
            if self.cluster_of(part[index]) == of {
                part.swap(index, end);
                end += 1;
            }
        }
        match (first > 0, end < part.len()) {
            (false, false) => None,
            (true, false) => Some(first),
            (false, true) => Some(end),
            (true, true) if middle - first <= end - middle => Some(first),
            (true, true) => Some(end),
        }
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
    // `seeds` has the unvisited junctions next to completed regions. The next region starts from
    // one of them.
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
