//! Shortest paths to one junction, or from one junction.
//!
//! A query keeps the distances between its *centre* and the junctions that it has met. If the next
//! path has the same centre, it needs hardly more than a walk along the path. A caller with many
//! trips should therefore sort them by destination. It can also announce several destinations at
//! once. One pass over the hierarchy then computes the distances of all junctions to all of these
//! destinations (PHAST, Delling and others).

use super::hierarchy::{FAR, Hierarchy, Weights};
use super::{Router, Search};
use crate::network::Network;
use crate::random::Stream;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of centres (destinations or origins) for which one pass over the hierarchy computes
/// distances.
pub(crate) const LANES: usize = 8;

/// The travel time between the centre of a query and one junction, which is identified by its rank.
#[derive(Clone, Copy, Default)]
struct Known {
    distance: u32,
    /// Twice the number of the search that has set the distance, plus 1 if the distance is final.
    stamp: u32,
}

/// The distances between several centres and all junctions, which are identified by their ranks.
#[derive(Default)]
struct Trees {
    to_centre: bool,
    centres: Vec<u32>,
    /// For each centre, the distances of all ranks.
    distances: Vec<Vec<u32>>,
}

/// The working memory of a query.
pub struct RouteQuery {
    known: Vec<Known>,
    search: u32,
    /// The junction with which all paths of the query begin or end, and whether they end there.
    centre: Option<(u32, bool)>,
    /// The ranks whose distances must be computed before that of another rank. Without a hierarchy,
    /// we use the heap of Dijkstra's algorithm instead.
    chain: Vec<u32>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
    trees: Trees,
    /// The distances of a pass, for all centres of one rank after another. They are signed, because
    /// more processors compare signed numbers in parallel.
    table: Vec<[i32; LANES]>,
}

impl RouteQuery {
    pub(super) fn new(junctions: usize) -> Self {
        Self {
            known: vec![Known::default(); junctions],
            search: 0,
            centre: None,
            chain: Vec::new(),
            heap: BinaryHeap::new(),
            trees: Trees::default(),
            table: Vec::new(),
        }
    }

    /// Computes the distances of all junctions to up to [`LANES`] centres, or from them, for the
    /// following queries.
    pub(crate) fn announce(&mut self, router: &Router, centres: &[u32], to_centre: bool) {
        let Search::Hierarchy(hierarchy, weights) = &router.search else {
            return;
        };
        let centres = &centres[..centres.len().min(LANES)];
        self.pass(router, hierarchy, weights, centres, to_centre);
        let trees = &mut self.trees;
        trees.to_centre = to_centre;
        trees.centres.clear();
        trees.centres.extend(centres);
        trees.distances.resize(LANES, Vec::new());
        for (lane, distances) in trees.distances[..centres.len()].iter_mut().enumerate() {
            distances.clear();
            distances.extend(self.table.iter().map(|lanes| lanes[lane] as u32));
        }
    }

    /// Fills the table: from the centres upwards, and then downwards over all ranks.
    fn pass(
        &mut self,
        router: &Router,
        hierarchy: &Hierarchy,
        weights: &Weights,
        centres: &[u32],
        to_centre: bool,
    ) {
        let table = &mut self.table;
        table.clear();
        table.resize(router.rank.len(), [FAR as i32; LANES]);
        for (lane, &centre) in centres.iter().enumerate() {
            let mut low = router.rank[centre as usize];
            table[low as usize][lane] = 0;
            loop {
                let distance = table[low as usize][lane];
                for arc in hierarchy.arcs(low) {
                    let through = distance + weights[arc][usize::from(to_centre)] as i32;
                    let known = &mut table[hierarchy.head[arc] as usize][lane];
                    *known = through.min(*known);
                }
                match hierarchy.parent(low) {
                    Some(parent) => low = parent,
                    None => break,
                }
            }
        }
        for low in (0..table.len()).rev() {
            let mut best = table[low];
            for arc in hierarchy.arcs(low as u32) {
                let time = weights[arc][usize::from(!to_centre)] as i32;
                let high = &table[hierarchy.head[arc] as usize];
                for (best, high) in best.iter_mut().zip(high) {
                    *best = (*best).min(high + time);
                }
            }
            table[low] = best;
        }
    }

    #[inline]
    fn is_final(&self, rank: u32) -> bool {
        self.known[rank as usize].stamp == self.search * 2 + 1
    }

    #[inline]
    fn distance(&self, rank: u32) -> u32 {
        let known = self.known[rank as usize];
        if known.stamp >= self.search * 2 {
            known.distance
        } else {
            FAR
        }
    }

    fn set(&mut self, rank: u32, distance: u32, is_final: bool) {
        let stamp = self.search * 2 + u32::from(is_final);
        self.known[rank as usize] = Known { distance, stamp };
    }

    /// Begins a search from or to a rank.
    fn begin(&mut self, router: &Router, centre: u32, to_centre: bool) {
        if self.centre == Some((centre, to_centre)) {
            return;
        }
        self.centre = Some((centre, to_centre));
        self.search += 1;
        if self.search == u32::MAX / 2 - 1 {
            self.known.fill(Known::default());
            self.search = 1;
        }
        self.set(centre, 0, false);
        match &router.search {
            Search::Hierarchy(hierarchy, weights) => {
                // From the centre, we go upwards from parent to parent. These are all ranks that
                // can be reached through arcs to higher ranks.
                let mut low = centre;
                loop {
                    let distance = self.distance(low);
                    for arc in hierarchy.arcs(low) {
                        let high = hierarchy.head[arc];
                        let through = distance + weights[arc][usize::from(to_centre)];
                        if through < self.distance(high) {
                            self.set(high, through, false);
                        }
                    }
                    match hierarchy.parent(low) {
                        Some(parent) => low = parent,
                        None => break,
                    }
                }
            }
            Search::Plain => {
                self.heap.clear();
                self.heap.push(Reverse((0, centre)));
            }
        }
    }

    /// Returns the distance between the centre and the junction of this rank.
    #[inline]
    fn resolve(&mut self, router: &Router, rank: u32) -> u32 {
        if !self.is_final(rank) {
            match &router.search {
                Search::Hierarchy(hierarchy, weights) => self.climb(hierarchy, weights, rank),
                Search::Plain => self.settle(router, rank),
            }
        }
        self.distance(rank)
    }

    /// Computes the distances between the centre and a rank, and those of the ranks above it.
    fn climb(&mut self, hierarchy: &Hierarchy, weights: &Weights, rank: u32) {
        let to_centre = self.centre.is_some_and(|centre| centre.1);
        let mut low = rank;
        while !self.is_final(low) {
            self.chain.push(low);
            match hierarchy.parent(low) {
                Some(parent) => low = parent,
                None => break,
            }
        }
        while let Some(low) = self.chain.pop() {
            let mut best = self.distance(low);
            for arc in hierarchy.arcs(low) {
                let time = weights[arc][usize::from(!to_centre)];
                best = best.min(time + self.known[hierarchy.head[arc] as usize].distance);
            }
            self.set(low, best, true);
        }
    }

    /// Continues Dijkstra's algorithm until the distance of a rank is final.
    fn settle(&mut self, router: &Router, rank: u32) {
        let to_centre = self.centre.is_some_and(|centre| centre.1);
        while !self.is_final(rank) {
            let Some(Reverse((distance, here))) = self.heap.pop() else {
                return;
            };
            if self.is_final(here) {
                continue;
            }
            self.set(here, distance, true);
            for road in router.roads[usize::from(to_centre)].at(here) {
                let through = (distance + road.time.min(FAR)).min(FAR);
                if through < self.distance(road.other) {
                    self.set(road.other, through, false);
                    self.heap.push(Reverse((through, road.other)));
                }
            }
        }
    }

    /// Returns the links of the shortest path between the centre of this query and another
    /// junction, or `None` if there is no path.
    pub(super) fn path(
        &mut self,
        router: &Router,
        network: &Network,
        centre: u32,
        other: u32,
        to_centre: bool,
    ) -> Option<Vec<u32>> {
        let ends = [centre, other].map(|end| router.rank[end as usize]);
        let seed = [centre, other].map(|end| u64::from(network.junction_file_index(end)));
        let seed = seed[0] << 32 | seed[1];
        let walk = Walk {
            router,
            network,
            ends,
            to_centre,
            seed,
        };
        let trees = &self.trees;
        let lane = trees.centres.iter().position(|&one| one == centre);
        let lane = lane.filter(|_| trees.to_centre == to_centre);
        if let Some(tree) = lane.map(|lane| &trees.distances[lane]) {
            return walk.path(|rank| tree[rank as usize]);
        }
        self.begin(router, ends[0], to_centre);
        walk.path(|rank| self.resolve(router, rank))
    }
}

/// The parameters of a walk along a shortest path.
struct Walk<'a> {
    router: &'a Router,
    network: &'a Network,
    ends: [u32; 2],
    to_centre: bool,
    seed: u64,
}

impl Walk<'_> {
    /// Walks to the centre, given the distance of each rank.
    ///
    /// Of several shortest paths we choose one at random, but always the same one for these ends.
    fn path(&self, mut distance_of: impl FnMut(u32) -> u32) -> Option<Vec<u32>> {
        let [centre, mut place] = self.ends;
        let mut distance = distance_of(place);
        if distance >= FAR {
            return None;
        }
        let lot = |link: u32| {
            let link = u64::from(self.network.link_file_index(link));
            Stream::new(self.seed ^ link << 20).value()
        };
        let roads = &self.router.roads[usize::from(!self.to_centre)];
        let mut path = Vec::new();
        while place != centre {
            let mut best: Option<(u32, u32, u32)> = None;
            for road in roads.at(place) {
                let rest = distance.wrapping_sub(road.time);
                if road.time <= distance
                    && distance_of(road.other) == rest
                    && best.is_none_or(|(link, ..)| lot(road.link) < lot(link))
                {
                    best = Some((road.link, road.other, rest));
                }
            }
            let (link, next, rest) = best?;
            path.push(link);
            (place, distance) = (next, rest);
        }
        if !self.to_centre {
            path.reverse();
        }
        Some(path)
    }
}
