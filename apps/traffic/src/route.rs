//! Quickest ways: a contraction hierarchy, asked from all workers.
//!
//! Its nodes are junctions by the numbers of their file, so that which of two equally quick ways is
//! taken does not depend on how the network is cut into tiles.

use crate::network::{LINK_TIME_MS_MIN, Ms, Network};
use fast_paths::{FastGraph, InputGraph, PathCalculator};
use std::fmt;

/// Quickest ways through a network, by given times.
pub struct Router {
    graph: FastGraph,
    /// The time of each road.
    times: Vec<Ms>,
    /// Junctions by the numbers of their file.
    junctions: Vec<u32>,
}

impl Router {
    /// By free-flow times.
    pub fn new(network: &Network) -> Self {
        Self::from_times(network, free_flow_times(network))
    }

    /// By a time for each road, which is at least 1. Takes seconds where there are 100,000 roads.
    pub fn from_times(network: &Network, times: Vec<Ms>) -> Self {
        let graph = fast_paths::prepare(&graph(network, &times));
        let mut junctions = vec![0; network.junctions().len()];
        for junction in 0..junctions.len() as u32 {
            junctions[network.junction_file_index(junction) as usize] = junction;
        }
        Self {
            graph,
            times,
            junctions,
        }
    }

    /// The same network by other times: sooner made, for the order of junctions is kept.
    pub fn with_times(&self, network: &Network, times: Vec<Ms>) -> Self {
        let order = self.graph.get_node_ordering();
        let graph = fast_paths::prepare_with_order(&graph(network, &times), &order);
        Self {
            graph: graph.expect("the order is of this network"),
            times,
            junctions: self.junctions.clone(),
        }
    }

    /// The time of each road.
    pub fn times(&self) -> &[Ms] {
        &self.times
    }

    /// Something to ask with, one a thread.
    pub fn query(&self) -> RouteQuery {
        RouteQuery(fast_paths::create_calculator(&self.graph))
    }

    /// The roads of the quickest way, none where it begins at its end; `None` where there is no way.
    pub fn shortest_path(
        &self,
        network: &Network,
        query: &mut RouteQuery,
        from: u32,
        to: u32,
    ) -> Option<Vec<u32>> {
        if from == to {
            return Some(Vec::new());
        }
        let [from, to] = [from, to].map(|junction| network.junction_file_index(junction) as usize);
        if from.max(to) >= self.graph.get_num_nodes() {
            return None;
        }
        let path = query.0.calc_path(&self.graph, from, to)?;
        let road = |pair: &[usize]| {
            let (from, to) = (self.junctions[pair[0]], self.junctions[pair[1]]);
            let out = network.out(from);
            let fits = out.filter(|&link| network.links()[link as usize].to == to);
            fits.min_by_key(|&link| (self.times[link as usize], link))
        };
        path.get_nodes().windows(2).map(road).collect()
    }
}

/// How long each road takes where nobody is in the way.
pub(crate) fn free_flow_times(network: &Network) -> Vec<Ms> {
    let time = |road: &crate::network::Link| {
        let time = u64::from(road.length_mm) * 1000 / u64::from(road.speed_mm_s);
        time.clamp(u64::from(LINK_TIME_MS_MIN), 1 << 30) as Ms
    };
    network.links().iter().map(time).collect()
}

/// The junctions and, of roads side by side, the quickest.
fn graph(network: &Network, times: &[Ms]) -> InputGraph {
    let mut graph = InputGraph::new();
    for (link, road) in network.links().iter().enumerate() {
        let beside = network
            .out(road.from)
            .filter(|&other| network.links()[other as usize].to == road.to);
        let best = beside.min_by_key(|&other| (times[other as usize], other));
        if road.from != road.to && best == Some(link as u32) {
            graph.add_edge(
                network.junction_file_index(road.from) as usize,
                network.junction_file_index(road.to) as usize,
                times[link].max(1) as usize,
            );
        }
    }
    graph.freeze();
    graph
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// What a query needs of memory.
pub struct RouteQuery(PathCalculator);
