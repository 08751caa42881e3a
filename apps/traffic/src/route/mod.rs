//! Shortest paths, which all workers can compute at the same time.
//!
//! We use a customizable contraction hierarchy (`hierarchy.rs`). It is prepared once per network,
//! and can be adapted to other travel times quickly. If a network is not like a map, so that a
//! hierarchy would be too large, we use Dijkstra's algorithm.
//!
//! Of two equally quick paths, we choose one by the numbers that links and junctions have in their
//! file. The choice does not depend on the tiles of the network.

mod hierarchy;
mod order;
mod query;

pub(crate) use query::LANES;
pub use query::RouteQuery;

use crate::network::{Ms, Network};
use creel::Pool;
use hierarchy::{Hierarchy, Weights};
use std::fmt;
use std::sync::Arc;

/// The maximum number of arcs of a hierarchy per junction. If a network needs more, we do not use a
/// hierarchy.
const ARCS_PER_JUNCTION_MAX: usize = 100;

/// Computes shortest paths by travel time.
pub struct Router {
    search: Search,
    /// The travel time of each link.
    times: Vec<Ms>,
    /// The rank of each junction. Most junctions that are close to each other have close ranks.
    rank: Arc<Vec<u32>>,
    /// The outgoing and the incoming links of each rank.
    roads: [Roads; 2],
}

/// The method by which a router finds paths: with a hierarchy, or with Dijkstra's algorithm.
enum Search {
    Hierarchy(Arc<Hierarchy>, Weights),
    Plain,
}

/// The outgoing or the incoming links of each rank.
struct Roads {
    /// The index in `all` of each rank's first link, plus one entry for the end.
    first: Vec<u32>,
    all: Vec<Road>,
}

/// A link, as seen from one of its junctions.
#[derive(Clone, Copy, Default)]
struct Road {
    /// The rank of the junction at the other end of the link.
    other: u32,
    time: Ms,
    link: u32,
}

impl Roads {
    fn new(network: &Network, rank: &[u32], times: &[Ms], is_out: bool) -> Self {
        let mut first = vec![0_u32; rank.len() + 1];
        let ends = |index: usize| {
            let link = network.links()[index];
            let [from, to] = [link.from, link.to].map(|end| rank[end as usize]);
            if is_out { (from, to) } else { (to, from) }
        };
        for index in 0..times.len() {
            first[ends(index).0 as usize + 1] += 1;
        }
        for place in 0..rank.len() {
            first[place + 1] += first[place];
        }
        let mut next = first.clone();
        let mut all = vec![Road::default(); times.len()];
        for (index, &time) in times.iter().enumerate() {
            let (here, other) = ends(index);
            let place = &mut next[here as usize];
            all[*place as usize] = Road {
                other,
                time: time.max(1),
                link: index as u32,
            };
            *place += 1;
        }
        Self { first, all }
    }

    #[inline]
    fn at(&self, rank: u32) -> &[Road] {
        let (begin, end) = (self.first[rank as usize], self.first[rank as usize + 1]);
        &self.all[begin as usize..end as usize]
    }
}

impl Router {
    /// Creates a router that uses free-flow travel times.
    pub fn new(pool: &Pool, network: &Network) -> Self {
        Self::from_times(pool, network, free_flow_times(network))
    }

    /// Creates a router that uses the given travel time of each link, which must be at least 1.
    /// This takes a second or two for a network of 500,000 links.
    pub fn from_times(pool: &Pool, network: &Network, times: Vec<Ms>) -> Self {
        let order = order::order(pool, network);
        let mut rank = vec![0; order.len()];
        for (place, &junction) in (0..).zip(&order) {
            rank[junction as usize] = place;
        }
        let arcs_max = rank.len() * ARCS_PER_JUNCTION_MAX + 1_000_000;
        let search = match Hierarchy::new(network, &rank, arcs_max) {
            Some(hierarchy) => {
                let weights = hierarchy.weights(network, &rank, &times);
                Search::Hierarchy(Arc::new(hierarchy), weights)
            }
            None => Search::Plain,
        };
        Self {
            search,
            roads: [true, false].map(|is_out| Roads::new(network, &rank, &times, is_out)),
            rank: Arc::new(rank),
            times,
        }
    }

    /// Creates a router for the same network with other travel times. This is much faster than
    /// [`from_times`](Self::from_times), because the hierarchy stays the same.
    pub fn with_times(&self, network: &Network, times: Vec<Ms>) -> Self {
        let rank = &self.rank;
        let search = match &self.search {
            Search::Hierarchy(hierarchy, _) => {
                let weights = hierarchy.weights(network, rank, &times);
                Search::Hierarchy(hierarchy.clone(), weights)
            }
            Search::Plain => Search::Plain,
        };
        Self {
            search,
            roads: [true, false].map(|is_out| Roads::new(network, rank, &times, is_out)),
            rank: rank.clone(),
            times,
        }
    }

    /// Returns the number of arcs of the hierarchy, or `None` if there is no hierarchy.
    pub fn arcs(&self) -> Option<usize> {
        match &self.search {
            Search::Hierarchy(hierarchy, _) => Some(hierarchy.head.len()),
            Search::Plain => None,
        }
    }

    /// Returns the travel time of each link.
    pub fn times(&self) -> &[Ms] {
        &self.times
    }

    /// Creates the working memory of a query. Each thread needs its own. You can reuse it for any
    /// number of queries of one router.
    pub fn query(&self) -> RouteQuery {
        RouteQuery::new(self.rank.len())
    }

    /// Returns the links of the shortest path. The path is empty if `from` equals `to`. Returns
    /// `None` if there is no path.
    ///
    /// Consecutive queries to the same junction are much faster than others, because they share
    /// their search.
    pub fn shortest_path(
        &self,
        network: &Network,
        query: &mut RouteQuery,
        from: u32,
        to: u32,
    ) -> Option<Vec<u32>> {
        query.path(self, network, to, from, true)
    }

    /// Like [`shortest_path`](Self::shortest_path), but consecutive queries *from* the same
    /// junction share their search.
    pub fn shortest_path_from(
        &self,
        network: &Network,
        query: &mut RouteQuery,
        from: u32,
        to: u32,
    ) -> Option<Vec<u32>> {
        query.path(self, network, from, to, false)
    }
}

/// Returns the free-flow travel time of each link.
pub(crate) fn free_flow_times(network: &Network) -> Vec<Ms> {
    (0..network.links().len() as u32)
        .map(|link| network.free_flow_ms(link))
        .collect()
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}
