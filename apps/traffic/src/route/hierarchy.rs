//! A customizable contraction hierarchy (Dibbelt, Strasser and Wagner).
//!
//! The junctions are ordered by rank (`order.rs`). An *arc* connects two junctions of which one can
//! be reached from the other through junctions of lower rank only. For each arc we know the
//! shortest such travel time in both directions. The arcs follow from the order alone. The travel
//! times are computed afterwards, which takes a fraction of a second for a large city, so routes
//! for current travel times are cheap.

use crate::network::{Ms, Network};

/// The value for "no path". A path that takes longer than this, which is 12 days, counts as no path
/// as well. The limit ensures that the sum of two travel times fits into 31 bits.
pub(super) const FAR: u32 = (1 << 30) - 1;
/// The value for "no junction".
const NONE: u32 = u32::MAX;

pub(super) struct Hierarchy {
    /// The first arc of each rank, plus one entry for the end. Arcs lead to higher ranks.
    pub first: Vec<u32>,
    /// The higher rank of each arc, in ascending order for each rank.
    pub head: Vec<u32>,
    /// The index in `below` of each rank's first entry, plus one entry for the end.
    first_below: Vec<u32>,
    /// The arcs that lead to each rank from lower ranks. An entry is the lower rank and the index
    /// of the arc.
    below: Vec<(u32, u32)>,
}

/// The travel times of all arcs. The first number of an arc is the time from the lower rank to the
/// higher one, and the second number is the time back.
pub(super) type Weights = Vec<[u32; 2]>;

impl Hierarchy {
    /// Builds the arcs from the rank of each junction. Returns `None` if there would be more than
    /// `arcs_max` arcs. This happens if the network is not like a map, and a hierarchy would not
    /// pay then.
    pub fn new(network: &Network, rank: &[u32], arcs_max: usize) -> Option<Self> {
        let junctions = rank.len();
        // Each rank with its neighbours of higher rank, from which we build the first arcs.
        let mut pairs: Vec<(u32, u32)> = network
            .links()
            .iter()
            .map(|link| (rank[link.from as usize], rank[link.to as usize]))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a.min(b), a.max(b)))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let (mut first, mut head) = (vec![0_u32], Vec::with_capacity(pairs.len() * 3));
        // The children of a rank are the ranks whose first arc leads to it.
        let (mut child, mut next_child) = (vec![NONE; junctions], vec![NONE; junctions]);
        let mut seen = vec![NONE; junctions];
        let mut pairs = pairs.into_iter().peekable();
        for low in 0..junctions as u32 {
            let begin = head.len();
            while let Some((_, high)) = pairs.next_if(|pair| pair.0 == low) {
                seen[high as usize] = low;
                head.push(high);
            }
            let mut one = child[low as usize];
            while one != NONE {
                let (from, to) = (
                    first[one as usize] as usize,
                    first[one as usize + 1] as usize,
                );
                for arc in from..to {
                    let high = head[arc];
                    if high != low && seen[high as usize] != low {
                        seen[high as usize] = low;
                        head.push(high);
                    }
                }
                one = next_child[one as usize];
            }
            if head.len() > arcs_max {
                return None;
            }
            head[begin..].sort_unstable();
            if let Some(&parent) = head.get(begin) {
                next_child[low as usize] = child[parent as usize];
                child[parent as usize] = low;
            }
            first.push(head.len() as u32);
        }
        let mut first_below = vec![0_u32; junctions + 1];
        head.iter()
            .for_each(|&high| first_below[high as usize + 1] += 1);
        for high in 0..junctions {
            first_below[high + 1] += first_below[high];
        }
        let mut next = first_below.clone();
        let mut below = vec![(0, 0); head.len()];
        for low in 0..junctions as u32 {
            for arc in first[low as usize]..first[low as usize + 1] {
                let place = &mut next[head[arc as usize] as usize];
                below[*place as usize] = (low, arc);
                *place += 1;
            }
        }
        Some(Self {
            first,
            head,
            first_below,
            below,
        })
    }

    /// Computes the travel times of all arcs for the travel times of the links.
    pub fn weights(&self, network: &Network, rank: &[u32], times: &[Ms]) -> Weights {
        let mut weights = vec![[FAR; 2]; self.head.len()];
        for (link, &time) in network.links().iter().zip(times) {
            let (from, to) = (rank[link.from as usize], rank[link.to as usize]);
            if from != to {
                let (low, high) = (from.min(to), from.max(to));
                let arcs = self.arcs(low);
                let place = self.head[arcs.clone()].partition_point(|&other| other < high);
                let weight = &mut weights[arcs.start + place][usize::from(from > to)];
                *weight = (*weight).min(time.max(1));
            }
        }
        // We compute the shortest detour of each arc through a lower rank. We go from the lowest
        // rank upwards, so the times of the arcs of lower ranks are final.
        let mut arc_to = vec![0_u32; rank.len()];
        for middle in 0..rank.len() as u32 {
            for arc in self.arcs(middle) {
                arc_to[self.head[arc] as usize] = arc as u32;
            }
            let below = self.first_below[middle as usize]..self.first_below[middle as usize + 1];
            for &(low, down) in &self.below[below.start as usize..below.end as usize] {
                let [up_time, down_time] = weights[down as usize];
                for arc in down as usize + 1..self.first[low as usize + 1] as usize {
                    let [up, back] = weights[arc];
                    let target = &mut weights[arc_to[self.head[arc] as usize] as usize];
                    target[0] = target[0].min(down_time + up);
                    target[1] = target[1].min(back + up_time);
                }
            }
        }
        weights
    }

    /// Returns the lowest rank that an arc of a rank leads to. All ranks that can be reached by
    /// arcs are reached by going from parent to parent.
    #[inline]
    pub fn parent(&self, low: u32) -> Option<u32> {
        self.arcs(low).next().map(|arc| self.head[arc])
    }

    /// Returns the arcs that lead from a rank to higher ranks.
    #[inline]
    pub fn arcs(&self, low: u32) -> std::ops::Range<usize> {
        self.first[low as usize] as usize..self.first[low as usize + 1] as usize
    }
}
