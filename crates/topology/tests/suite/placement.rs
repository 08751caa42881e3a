//! Checks the guarantees of every policy, on random machines and with random numbers of workers.

use std::collections::BTreeMap;

use creel_topology::{CacheKind, CpuSet, Ledger, Machine, Placement, place};

use crate::support::{Dice, set};

/// Returns a random machine with up to 1,024 PUs, and the set of allowed PUs.
fn machine(dice: &mut Dice) -> (Machine, CpuSet) {
    loop {
        let mut levels = Vec::new();
        for (level, most) in [("package", 4), ("numa", 3), ("l3", 3), ("l2", 2)] {
            if dice.below(3) > 0 {
                levels.push(format!("{level}:{}", 1 + dice.below(most)));
            }
        }
        let hybrid = dice.below(3) == 0;
        levels.push(match hybrid {
            true => format!(
                "core:{}+{} pu:{}+1",
                1 + dice.below(8),
                1 + dice.below(8),
                1 + dice.below(4)
            ),
            false => format!("core:{} pu:{}", 1 + dice.below(16), 1 + dice.below(4)),
        });
        let machine = Machine::synthetic(&levels.join(" ")).unwrap();
        if machine.online().len() > 1024 {
            continue;
        }
        let keep = 1 + dice.below(4);
        let allowed: CpuSet = machine
            .online()
            .iter()
            .filter(|_| keep == 4 || dice.below(4) < keep)
            .collect();
        if !allowed.is_empty() {
            return (machine, allowed);
        }
    }
}

/// Returns the number of workers on each allowed core. It counts only workers that are restricted
/// to one core.
fn per_core(machine: &Machine, allowed: &CpuSet, assigned: &[CpuSet]) -> Vec<usize> {
    let cores = machine
        .cores()
        .iter()
        .filter(|core| core.pus.intersects(allowed));
    cores
        .map(|core| {
            assigned
                .iter()
                .filter(|pus| pus.is_subset(&core.pus))
                .count()
        })
        .collect()
}

fn spread_of(counts: &[usize]) -> usize {
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

/// Returns the number of workers and the number of allowed cores of each object, for example of
/// each package. Leaves out objects without an allowed core.
fn per_object(
    machine: &Machine,
    allowed: &CpuSet,
    objects: &[CpuSet],
    assigned: &[CpuSet],
) -> Vec<(usize, usize)> {
    let cores = |object: &CpuSet| machine.cores_in(&(object & allowed));
    let objects = objects.iter().filter(|object| cores(object) > 0);
    objects
        .map(|object| {
            (
                assigned.iter().filter(|pus| pus.is_subset(object)).count(),
                cores(object),
            )
        })
        .collect()
}

/// Checks that workers are spread evenly over objects. `counts` has the number of workers and the
/// number of cores of each object.
///
/// Each object must have at least `rounds` workers per core, and at most one more per core. We
/// compare the workers beyond `rounds` per core. Their number must not differ by more than one
/// between two objects. The only exception is an object that already has one such worker on each of
/// its cores: others may then have more.
fn assert_even(counts: &[(usize, usize)], rounds: usize, what: &str) {
    for (workers, cores) in counts {
        assert!(
            (cores * rounds..=cores * (rounds + 1)).contains(workers),
            "{what}: {counts:?}"
        );
        for (fewer, fewer_cores) in counts {
            let (rest, fewer_rest) = (workers - cores * rounds, fewer - fewer_cores * rounds);
            assert!(
                rest <= fewer_rest + 1 || fewer_rest == *fewer_cores,
                "{what}: {counts:?}"
            );
        }
    }
}

fn packages(machine: &Machine) -> Vec<CpuSet> {
    machine
        .packages()
        .iter()
        .map(|package| package.pus.clone())
        .collect()
}

fn nodes(machine: &Machine) -> Vec<CpuSet> {
    machine
        .numa_nodes()
        .iter()
        .map(|node| node.pus.clone())
        .collect()
}

fn last_level_caches(machine: &Machine) -> Vec<CpuSet> {
    let data = machine
        .caches()
        .iter()
        .filter(|cache| cache.kind != CacheKind::Instruction);
    let last = data.clone().map(|cache| cache.level).max();
    data.filter(|cache| Some(cache.level) == last)
        .map(|cache| cache.pus.clone())
        .collect()
}

/// Checks the guarantees of one policy, in addition to the invariants of all policies.
fn assert_promise(machine: &Machine, allowed: &CpuSet, placement: &Placement, assigned: &[CpuSet]) {
    let workers = assigned.len();
    let cores = machine.cores_in(allowed);
    let per_core = per_core(machine, allowed, assigned);
    match placement {
        Placement::Cores | Placement::Close | Placement::Spread | Placement::Pus => {
            assert_eq!(
                per_core.iter().sum::<usize>(),
                workers,
                "each worker must be restricted to one core"
            );
            if *placement != Placement::Pus || workers <= cores {
                assert!(spread_of(&per_core) <= 1, "{per_core:?}");
            }
        }
        Placement::FastCores => {
            let fast = machine
                .kinds()
                .iter()
                .rev()
                .find(|kind| kind.pus.intersects(allowed));
            assert!(
                assigned
                    .iter()
                    .all(|pus| fast.is_none_or(|fast| pus.is_subset(&fast.pus)))
            );
        }
        _ => {}
    }
    if *placement == Placement::Pus {
        let mut per_pu: BTreeMap<&CpuSet, usize> = BTreeMap::new();
        assigned
            .iter()
            .for_each(|pus| *per_pu.entry(pus).or_default() += 1);
        assert!(assigned.iter().all(|pus| pus.len() == 1));
        assert!(
            workers < allowed.len() || per_pu.len() == allowed.len(),
            "every PU must be used before one is shared"
        );
    }
    if *placement == Placement::Close && workers <= cores {
        let union = assigned.iter().fold(CpuSet::new(), |all, pus| &all | pus);
        for object in packages(machine)
            .into_iter()
            .chain(nodes(machine))
            .chain(last_level_caches(machine))
        {
            let fits = machine.cores_in(&(&object & allowed)) >= workers;
            let within = |object: &CpuSet| union.is_subset(object);
            let other = packages(machine)
                .iter()
                .chain(&nodes(machine))
                .chain(&last_level_caches(machine))
                .any(|other| other.len() <= object.len() && within(other));
            assert!(
                !fits || other,
                "{workers} workers fit into {object}, but were placed on {union}"
            );
        }
    }
    let rounds = workers / cores;
    if *placement == Placement::Spread {
        assert_even(
            &per_object(machine, allowed, &packages(machine), assigned),
            rounds,
            "packages",
        );
    }
    if *placement == Placement::PerNode {
        assert_even(
            &per_object(machine, allowed, &nodes(machine), assigned),
            rounds,
            "nodes",
        );
    }
    if *placement == Placement::PerCache && !last_level_caches(machine).is_empty() {
        assert_even(
            &per_object(machine, allowed, &last_level_caches(machine), assigned),
            rounds,
            "caches",
        );
    }
}

#[test]
fn every_policy_keeps_its_invariants() {
    let mut dice = Dice::new("every_policy_keeps_its_invariants");
    for _ in 0..400 {
        let (machine, allowed) = machine(&mut dice);
        let workers = match dice.below(2) {
            0 => 1 + dice.below(24),
            _ => 1 + dice.below(2000),
        };
        for name in Placement::names() {
            let placement: Placement = name.parse().unwrap();
            let layout = place(&machine, &allowed, workers, &placement).unwrap();
            let assigned = layout.assigned();
            assert_eq!(assigned.len(), workers, "{name}");
            assert!(
                assigned
                    .iter()
                    .all(|pus| !pus.is_empty() && pus.is_subset(&allowed)),
                "{name}: {assigned:?}"
            );
            assert_eq!(layout.pinned(), placement != Placement::Unpinned);
            if workers <= machine.cores_in(&allowed) && placement != Placement::FastCores {
                assert!(!layout.wrapped(), "{name}: {workers} workers");
                assert!(
                    per_core(&machine, &allowed, assigned)
                        .iter()
                        .all(|&count| count <= 1)
                        || !layout.pinned()
                        || allowed.len() < 2,
                    "{name}"
                );
            }
            assert_promise(&machine, &allowed, &placement, assigned);
        }
    }
}

#[test]
fn layouts_are_deterministic() {
    let mut dice = Dice::new("layouts_are_deterministic");
    let (machine, allowed) = machine(&mut dice);
    for placement in Placement::names().map(|name| name.parse::<Placement>().unwrap()) {
        let layouts = [
            place(&machine, &allowed, 17, &placement),
            place(&machine.clone(), &allowed.clone(), 17, &placement),
        ];
        assert_eq!(layouts[0].as_ref().unwrap(), layouts[1].as_ref().unwrap());
    }
}

#[test]
fn sets_of_a_list_are_assigned_in_turn_and_never_widened() {
    let machine = Machine::synthetic("core:8").unwrap();
    let allowed = set("0-5");
    let assigned = |text: &str, workers| {
        let layout = place(&machine, &allowed, workers, &text.parse().unwrap());
        layout.map(|layout| {
            (
                layout
                    .assigned()
                    .iter()
                    .map(CpuSet::to_string)
                    .collect::<Vec<_>>(),
                layout.wrapped(),
            )
        })
    };
    assert_eq!(
        assigned("{0-1},{4}", 3).unwrap(),
        (vec!["0-1".into(), "4".into(), "0-1".into()], true)
    );
    assert!(assigned("5,6", 1).unwrap_err().to_string().contains("6"));
    assert!(place(&machine, &set("100"), 1, &Placement::Cores).is_err());
    assert!(place(&machine, &CpuSet::new(), 1, &Placement::Unpinned).is_err());
}

#[test]
fn pools_spread_over_free_cores() {
    let mut dice = Dice::new("pools_spread_over_free_cores");
    for _ in 0..100 {
        let (machine, allowed) = machine(&mut dice);
        let mut ledger = Ledger::new();
        let mut layouts = Vec::new();
        let mut left = machine.cores_in(&allowed);
        while left > 0 {
            let workers = 1 + dice.below(left);
            left -= workers;
            let placement = [
                Placement::Cores,
                Placement::Close,
                Placement::Spread,
                Placement::Pus,
            ][dice.below(4)]
            .clone();
            layouts.push(
                ledger
                    .assign(&machine, &allowed, workers, &placement)
                    .unwrap(),
            );
        }
        let assigned: Vec<CpuSet> = layouts
            .iter()
            .flat_map(|layout| layout.assigned().to_vec())
            .collect();
        assert!(
            per_core(&machine, &allowed, &assigned)
                .iter()
                .all(|&count| count == 1),
            "{assigned:?}"
        );
        layouts.iter().for_each(|layout| ledger.release(layout));
        assert!(allowed.iter().all(|pu| ledger.workers_on(pu) == 0.0));
    }
}

#[test]
fn workers_in_caches_nodes_and_pus_are_counted_in_the_ledger() {
    let machine = Machine::synthetic("package:2 l3:2 core:2 pu:2").unwrap();
    let mut ledger = Ledger::new();
    let mut next = |placement| {
        ledger
            .assign(&machine, machine.allowed(), 1, &placement)
            .unwrap()
            .assigned()[0]
            .to_string()
    };
    assert_eq!(next(Placement::PerCache), "0-3");
    assert_eq!(next(Placement::PerCache), "4-7");
    assert_eq!(next(Placement::PerNode), "0-15");
    let two = Machine::synthetic("core:1 pu:2").unwrap();
    let mut ledger = Ledger::new();
    let mut next = || {
        ledger
            .assign(&two, two.allowed(), 1, &Placement::Pus)
            .unwrap()
            .assigned()[0]
            .to_string()
    };
    assert_eq!((next(), next()), ("0".into(), "1".into()));
}
