//! Computes the static user equilibrium: flows at which no traveller has a quicker path (Wardrop's
//! first principle).
//!
//! We minimise Beckmann's objective (1956) by the bi-conjugate Frank-Wolfe method (Mitradjieva and
//! Lindberg 2013). Each iteration moves towards a point such that the direction is conjugate to the
//! last two directions. The plain Frank-Wolfe method zigzags instead, and so needs many more
//! iterations.
//!
//! We use this module to verify the TNTP parser and the shortest paths against published results.
//! It does not use the queue model.
//!
//! Sums are computed in a fixed order, so the result is bitwise identical for any number of
//! workers.

use crate::network::NetworkError;
use crate::network::read::tntp::{Tntp, TntpLink};
use creel::Pool;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The result of an assignment.
#[derive(Clone, Debug)]
pub struct Equilibrium {
    /// The flow of each link.
    pub flows: Vec<f64>,
    /// Beckmann's objective: the sum over all links of the integral of travel time over flow.
    pub objective: f64,
    /// The relative gap: the share of the total travel time that would be saved if every trip took
    /// the shortest path at the present travel times.
    pub gap: f64,
    /// The number of iterations.
    pub steps: u32,
    /// The number of trips that were left out, because they end in their origin zone or have no
    /// path.
    pub left_out: f64,
}

/// Returns a power of `base`, with the same bits on all systems.
fn pow(base: f64, exponent: f64) -> f64 {
    // Most networks have small whole powers, and multiplication is several times faster.
    if exponent.fract() == 0.0 && (0.0..=8.0).contains(&exponent) {
        (0..exponent as u32).fold(1.0, |power, _| power * base)
    } else {
        libm::pow(base, exponent)
    }
}

impl TntpLink {
    /// Returns the travel time at a flow.
    pub fn time(&self, flow: f64) -> f64 {
        self.free_time * (1.0 + self.b * pow(flow / self.capacity, self.power))
    }

    fn slope(&self, flow: f64) -> f64 {
        if self.power == 0.0 || self.b == 0.0 || flow <= 0.0 && self.power < 1.0 {
            return 0.0;
        }
        self.free_time * self.b * self.power / self.capacity
            * pow(flow / self.capacity, self.power - 1.0)
    }

    fn integral(&self, flow: f64) -> f64 {
        let grown = self.b / (self.power + 1.0) * pow(flow / self.capacity, self.power);
        self.free_time * flow * (1.0 + grown)
    }
}

/// Computes the equilibrium of trips, given as (origin, destination, number). Stops at the relative
/// gap `gap` or after `steps_max` iterations. If the result has a greater `gap` than you asked for,
/// the iterations were not enough.
///
/// # Errors
/// Returns an error if a zone does not exist, or if the total travel time overflows.
pub fn equilibrium(
    loops: &Pool,
    network: &Tntp,
    trips: &[(u32, u32, f64)],
    gap: f64,
    steps_max: u32,
) -> Result<Equilibrium, NetworkError> {
    let demand = Demand::new(network, trips)?;
    let graph = Graph::new(network);
    let links = &network.links;
    let times = |flows: &[f64]| -> Vec<f64> {
        links
            .iter()
            .zip(flows)
            .map(|(link, &flow)| link.time(flow))
            .collect()
    };
    let mut flows = demand.load(loops, &graph, links, &times(&vec![0.0; links.len()]));
    let mut last: Vec<Vec<f64>> = Vec::new();
    let mut step_size = 0.0;
    let mut steps = 0;
    loop {
        let now = times(&flows);
        let target = demand.load(loops, &graph, links, &now);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (all, best) = (dot(&now, &flows), dot(&now, &target));
        if !all.is_finite() {
            let reason = "cannot compute the equilibrium: there are so many trips that the total travel time is out of range";
            return Err(NetworkError(reason.into()));
        }
        let reached = if all > 0.0 { (all - best) / all } else { 0.0 };
        if reached <= gap || steps >= steps_max {
            let objective = links
                .iter()
                .zip(&flows)
                .map(|(link, &flow)| link.integral(flow))
                .sum();
            return Ok(Equilibrium {
                flows,
                objective,
                gap: reached,
                steps,
                left_out: demand.left_out,
            });
        }
        let slopes: Vec<f64> = links
            .iter()
            .zip(&flows)
            .map(|(link, &flow)| link.slope(flow))
            .collect();
        let goal = conjugate(&flows, &target, &last, &slopes, step_size);
        let mut direction: Vec<f64> = goal.iter().zip(&flows).map(|(a, b)| a - b).collect();
        let mut goal = goal;
        if dot(&now, &direction) >= 0.0 {
            direction = target.iter().zip(&flows).map(|(a, b)| a - b).collect();
            goal = target;
            last.clear();
        }
        step_size = line_search(links, &flows, &direction);
        flows
            .iter_mut()
            .zip(&direction)
            .for_each(|(flow, d)| *flow = (*flow + step_size * d).max(0.0));
        if step_size >= 0.999_999 {
            // After a full step, the flows equal the point that we moved towards. The previous
            // points are then useless for conjugation, so we start again without them.
            last.clear();
        }
        last.insert(0, goal);
        last.truncate(2);
        steps += 1;
    }
}

/// Returns the point to move towards. It is a weighted mean of the shortest-path flows and the last
/// two points. The weights make the direction conjugate to the last two directions with respect to
/// the slopes.
fn conjugate(
    flows: &[f64],
    target: &[f64],
    last: &[Vec<f64>],
    slopes: &[f64],
    step: f64,
) -> Vec<f64> {
    const NEARLY_ONE: f64 = 0.99;
    let product = |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| -> f64 {
        (0..flows.len()).map(|i| a(i) * slopes[i] * b(i)).sum()
    };
    let fresh = |i: usize| target[i] - flows[i];
    match last {
        [] => target.to_vec(),
        [one] => {
            let old = |i: usize| one[i] - flows[i];
            let (n, d) = (
                product(&old, &fresh),
                product(&old, &|i| target[i] - one[i]),
            );
            let alpha = if d == 0.0 {
                0.0
            } else {
                (n / d).clamp(0.0, NEARLY_ONE)
            };
            (0..flows.len())
                .map(|i| alpha * one[i] + (1.0 - alpha) * target[i])
                .collect()
        }
        [one, two, ..] => {
            let old = |i: usize| one[i] - flows[i];
            let older = |i: usize| step * one[i] - flows[i] + (1.0 - step) * two[i];
            let d = product(&older, &|i| two[i] - one[i]);
            let mu = if d == 0.0 {
                0.0
            } else {
                (-product(&older, &fresh) / d).max(0.0)
            };
            let d = product(&old, &old);
            let nu = if d == 0.0 || step >= 1.0 {
                0.0
            } else {
                (-product(&old, &fresh) / d + mu * step / (1.0 - step)).max(0.0)
            };
            let all = 1.0 + mu + nu;
            (0..flows.len())
                .map(|i| (target[i] + nu * one[i] + mu * two[i]) / all)
                .collect()
        }
    }
}

/// Returns the step size, from 0 to 1, at which the objective stops falling. It is found by
/// bisection, and is 1 if the objective falls up to there.
fn line_search(links: &[TntpLink], flows: &[f64], direction: &[f64]) -> f64 {
    let falls = |step: f64| {
        let change = |((link, flow), d): ((&TntpLink, &f64), &f64)| {
            d * link.time((flow + step * d).max(0.0))
        };
        links
            .iter()
            .zip(flows)
            .zip(direction)
            .map(change)
            .sum::<f64>()
            < 0.0
    };
    if falls(1.0) {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if falls(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    (low + high) / 2.0
}

/// The links, grouped by the node at which they begin.
struct Graph {
    first: Vec<u32>,
    links: Vec<u32>,
    first_through: u32,
}

impl Graph {
    fn new(network: &Tntp) -> Self {
        let mut first = vec![0; network.nodes as usize + 1];
        network
            .links
            .iter()
            .for_each(|link| first[link.from as usize + 1] += 1);
        (0..network.nodes as usize).for_each(|node| first[node + 1] += first[node]);
        let mut links: Vec<u32> = (0..network.links.len() as u32).collect();
        links.sort_by_key(|&link| network.links[link as usize].from);
        Self {
            first,
            links,
            first_through: network.first_through,
        }
    }

    /// Returns the nodes in the order of their travel time from `origin`, and the link by which
    /// each node is reached.
    fn tree(&self, links: &[TntpLink], times: &[f64], origin: u32) -> (Vec<u32>, Vec<u32>) {
        const NONE: u32 = u32::MAX;
        let nodes = self.first.len() - 1;
        let (mut best, mut by) = (vec![f64::INFINITY; nodes], vec![NONE; nodes]);
        let mut order = Vec::new();
        let mut done = vec![false; nodes];
        let mut heap = BinaryHeap::new();
        best[origin as usize] = 0.0;
        // The heap needs an order, which floats do not have because of NaN. The bits of
        // non-negative floats are in the same order as the floats, so we store the bits.
        heap.push(Reverse((0_u64, origin)));
        while let Some(Reverse((_, node))) = heap.pop() {
            if std::mem::replace(&mut done[node as usize], true) {
                continue;
            }
            order.push(node);
            if node != origin && node < self.first_through {
                continue;
            }
            for &link in &self.links
                [self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
            {
                let to = links[link as usize].to as usize;
                let time = best[node as usize] + times[link as usize];
                if time < best[to] {
                    (best[to], by[to]) = (time, link);
                    heap.push(Reverse((time.to_bits(), to as u32)));
                }
            }
        }
        (order, by)
    }
}

/// The trips, grouped by origin, because one search finds the shortest paths of all trips from the
/// same origin.
struct Demand {
    origins: Vec<(u32, Vec<(u32, f64)>)>,
    left_out: f64,
}

impl Demand {
    fn new(network: &Tntp, trips: &[(u32, u32, f64)]) -> Result<Self, NetworkError> {
        let mut sorted: Vec<_> = trips
            .iter()
            .filter(|trip| trip.0 != trip.1 && trip.2 > 0.0)
            .copied()
            .collect();
        sorted.sort_by_key(|&(from, to, _)| (from, to));
        let mut origins: Vec<(u32, Vec<(u32, f64)>)> = Vec::new();
        let graph = Graph::new(network);
        let free: Vec<f64> = network.links.iter().map(|link| link.time(0.0)).collect();
        let stay = trips.iter().filter(|trip| trip.0 == trip.1);
        let mut left_out = stay.fold(0.0, |sum, trip| sum + trip.2);
        let mut reached = Vec::new();
        for (from, to, amount) in sorted {
            if from.max(to) >= network.nodes {
                let zone = from.max(to) + 1;
                return Err(NetworkError(format!(
                    "the trip table contains zone {zone}, but the network has only {} nodes",
                    network.nodes
                )));
            }
            if origins.last().is_none_or(|last| last.0 != from) {
                origins.push((from, Vec::new()));
                reached = graph.tree(&network.links, &free, from).1;
            }
            match origins.last_mut() {
                Some((_, goals)) if reached[to as usize] != u32::MAX => goals.push((to, amount)),
                _ => left_out += amount,
            }
        }
        Ok(Self { origins, left_out })
    }

    /// Assigns all trips to the shortest paths at the given travel times. Returns the flow of each
    /// link.
    fn load(&self, loops: &Pool, graph: &Graph, links: &[TntpLink], times: &[f64]) -> Vec<f64> {
        let parts = loops.map(&self.origins, |(origin, goals)| {
            let (order, by) = graph.tree(links, times, *origin);
            let mut through = vec![0.0; graph.first.len() - 1];
            goals
                .iter()
                .for_each(|&(to, amount)| through[to as usize] += amount);
            let mut flows = Vec::new();
            for &node in order.iter().rev().filter(|&node| node != origin) {
                let (link, amount) = (by[node as usize], through[node as usize]);
                if amount > 0.0 {
                    through[links[link as usize].from as usize] += amount;
                    flows.push((link, amount));
                }
            }
            flows
        });
        let mut flows = vec![0.0; links.len()];
        for (link, amount) in parts.into_iter().flatten() {
            flows[link as usize] += amount;
        }
        flows
    }
}
