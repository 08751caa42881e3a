//! Quickest ways: a contraction hierarchy, asked from all workers.

use crate::network::{LEAST_MS, Ms, Network};
use fast_paths::{FastGraph, InputGraph, PathCalculator};

/// Quickest ways through a network, by given times.
pub struct Router {
    graph: FastGraph,
    /// The time of each road.
    times: Vec<Ms>,
}

impl Router {
    /// By free-flow times.
    pub fn new(network: &Network) -> Self {
        let time = |link| Self::free_flow(network, link);
        Self::by(
            network,
            (0..network.links().len() as u32).map(time).collect(),
        )
    }

    /// By a time for each road, which is at least 1. Takes seconds where there are 100,000 roads.
    pub fn by(network: &Network, times: Vec<Ms>) -> Self {
        let mut input = InputGraph::new();
        for (link, road) in network
            .links()
            .iter()
            .enumerate()
            .filter(|(_, road)| road.from != road.to)
        {
            // Of roads side by side the quickest counts.
            let beside = network
                .out(road.from)
                .filter(|&other| network.links()[other as usize].to == road.to);
            let best = beside.min_by_key(|&other| (times[other as usize], other));
            if best == Some(link as u32) {
                input.add_edge(
                    road.from as usize,
                    road.to as usize,
                    times[link].max(1) as usize,
                );
            }
        }
        input.freeze();
        Self {
            graph: fast_paths::prepare(&input),
            times,
        }
    }

    fn free_flow(network: &Network, link: u32) -> Ms {
        let road = network.links()[link as usize];
        let time = u64::from(road.length_mm) * 1000 / u64::from(road.speed_mm_s);
        time.clamp(u64::from(LEAST_MS), 1 << 30) as Ms
    }

    /// Something to ask with, one a thread.
    pub fn asker(&self) -> Asker {
        Asker(fast_paths::create_calculator(&self.graph))
    }

    /// The roads of the quickest way, none where it begins at its end; `None` where there is no way.
    pub fn way(
        &self,
        network: &Network,
        asker: &mut Asker,
        from: u32,
        to: u32,
    ) -> Option<Vec<u32>> {
        if from == to {
            return Some(Vec::new());
        }
        let known = self.graph.get_num_nodes();
        if from.max(to) as usize >= known {
            return None;
        }
        let path = asker.0.calc_path(&self.graph, from as usize, to as usize)?;
        let road = |pair: &[usize]| {
            let out = network.out(pair[0] as u32);
            let fits = out.filter(|&link| network.links()[link as usize].to as usize == pair[1]);
            fits.min_by_key(|&link| (self.times[link as usize], link))
        };
        path.get_nodes().windows(2).map(road).collect()
    }
}

/// What a query needs of memory.
pub struct Asker(PathCalculator);
