//! The order in which a worker takes blocks of a loop from other workers. It begins with
//! neighbours, because a worker shares caches with them, and these contain data that the neighbours
//! have used.

use creel_topology::{CpuSet, Machine};

/// Returns the other workers, nearest to worker `index` first. They are ordered by the smallest
/// unit of the machine that contains both workers, and then by the distance of their indices.
/// `slots` contains the processing units of each worker.
pub(crate) fn nearest(machine: &Machine, slots: &[CpuSet], index: usize) -> Vec<usize> {
    let around = machine.units_around(&slots[index]);
    let unit = |other: usize| {
        let both = around.iter().position(|unit| slots[other].is_subset(unit));
        both.unwrap_or(around.len())
    };
    let mut others: Vec<usize> = by_index(slots.len(), index).collect();
    others.sort_by_cached_key(|&other| unit(other));
    others
}

/// Returns the indices of the other workers, if there are `workers` workers. The indices form a
/// ring, and those that are nearest to `index` in it come first.
pub(crate) fn by_index(workers: usize, index: usize) -> impl Iterator<Item = usize> {
    (1..workers).map(move |distance| {
        let step = distance.div_ceil(2);
        match distance % 2 {
            1 => (index + step) % workers,
            _ => (index + workers - step) % workers,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_topology::{Ledger, Placement};

    #[test]
    fn workers_of_the_same_cache_come_first_and_those_of_other_packages_last() {
        let machine = Machine::synthetic("package:2 l3:2 core:3 pu:2").unwrap();
        for placement in [Placement::Cores, Placement::Spread] {
            let mut ledger = Ledger::new();
            let layout = ledger.assign(&machine, machine.allowed(), 12, &placement);
            let layout = layout.unwrap();
            let l3 = |slot: usize| layout.assigned()[slot].first().unwrap() / 6;
            for index in 0..12 {
                let order = nearest(&machine, layout.assigned(), index);
                let mut all = order.clone();
                all.sort_unstable();
                assert!(all.iter().copied().eq((0..12).filter(|i| *i != index)));
                let (own, other) = (l3(index), l3(index) ^ 1);
                let place = |slot: &usize| match l3(*slot) {
                    cache if cache == own => 0,
                    cache if cache == other => 1,
                    _ => 2,
                };
                assert!(
                    order.iter().is_sorted_by_key(place),
                    "{placement:?} {index}: {order:?}"
                );
            }
        }
    }

    #[test]
    fn unpinned_workers_are_ordered_by_their_distance_in_index() {
        let machine = Machine::synthetic("package:2 core:4").unwrap();
        let slots = vec![machine.allowed().clone(); 5];
        assert_eq!(nearest(&machine, &slots, 1), [2, 0, 3, 4]);
        assert_eq!(by_index(1, 0).count(), 0);
    }
}
