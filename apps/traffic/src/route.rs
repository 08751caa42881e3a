//! Shortest paths by a contraction hierarchy, which all workers can query at the same time.
//!
//! The nodes of the hierarchy are junctions, numbered as in their file. Therefore the choice
//! between two equally quick paths does not depend on the tiles of the network.

use crate::network::{Ms, Network};
use fast_paths::{FastGraph, InputGraph, PathCalculator};
use std::fmt;

/// Computes shortest paths by travel time.
pub struct Router {
    graph: FastGraph,
    /// The travel time of each link.
    times: Vec<Ms>,
    /// Maps the numbers that junctions had in their file to their current numbers.
    junctions: Vec<u32>,
}

impl Router {
    /// Creates a router that uses free-flow travel times.
    pub fn new(network: &Network) -> Self {
        Self::from_times(network, free_flow_times(network))
    }

    /// Creates a router that uses the given travel time of each link, which must be at least 1.
    /// This takes seconds for a network of 100,000 links.
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

    /// Creates a router for the same network with other travel times. This is faster than
    /// [`from_times`](Self::from_times), because it reuses the order of the junctions.
    pub fn with_times(&self, network: &Network, times: Vec<Ms>) -> Self {
        let order = self.graph.get_node_ordering();
        let graph = fast_paths::prepare_with_order(&graph(network, &times), &order);
        Self {
            graph: graph.expect("the order is of this network"),
            times,
            junctions: self.junctions.clone(),
        }
    }

    /// Returns the travel time of each link.
    pub fn times(&self) -> &[Ms] {
        &self.times
    }

    /// Creates the working memory of a query. Each thread needs its own. You can reuse it for any
    /// number of queries of one router.
    pub fn query(&self) -> RouteQuery {
        RouteQuery(fast_paths::create_calculator(&self.graph))
    }

    /// Returns the links of the shortest path. The path is empty if `from` equals `to`. Returns
    /// `None` if there is no path.
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

/// Returns the free-flow travel time of each link.
pub(crate) fn free_flow_times(network: &Network) -> Vec<Ms> {
    (0..network.links().len() as u32)
        .map(|link| network.free_flow_ms(link))
        .collect()
}

/// Builds the graph of junctions. Of several parallel links, it contains the quickest one.
fn graph(network: &Network, times: &[Ms]) -> InputGraph {
    let mut graph = InputGraph::new();
    for (link, road) in network.links().iter().enumerate() {
        let parallel = network
            .out(road.from)
            .filter(|&other| network.links()[other as usize].to == road.to);
        let best = parallel.min_by_key(|&other| (times[other as usize], other));
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

/// The working memory of a query.
pub struct RouteQuery(PathCalculator);
