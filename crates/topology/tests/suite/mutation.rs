//! Tests with hostile input: texts and trees with random errors must never cause a panic or a long
//! read.

use std::fs;
use std::path::{Path, PathBuf};

use creel_topology::{Budget, CpuSet, Machine, Placement, place};

use crate::support::{CPU, Dice, Fixture, NODE};

/// Returns a text with a few bytes changed, doubled or removed, or with its end cut off.
pub fn mutated(dice: &mut Dice, text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.below(256) as u8),
            2 => bytes.insert(at, b"0123456789-,:/+{}x \n"[dice.below(20)]),
            3 if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            _ => {
                let copy = bytes[at..].to_vec();
                bytes.extend(copy.iter().take(64));
            }
        }
    }
    bytes
}

#[test]
fn broken_texts_never_panic() {
    let mut dice = Dice::new("broken_texts_never_panic");
    let seeds = [
        "0-3,8",
        "0-31:2/4",
        "00000000,0000ffff",
        "0x00fff000",
        "package:2 numa:2 l3:1 core:6+8 pu:2+1",
        "{0-3},{4-7}",
        "0,2,4-7",
        "per-cache",
    ];
    for _ in 0..20_000 {
        let seed = seeds[dice.below(seeds.len())];
        let bytes = mutated(&mut dice, seed.as_bytes());
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(set) = text.parse::<CpuSet>() {
            assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set, "{text}");
        }
        if let Ok(set) = CpuSet::parse_mask(&text) {
            assert!(set.last().is_none_or(|last| last <= CpuSet::INDEX_MAX));
        }
        if let Ok(placement) = text.parse::<Placement>() {
            assert_eq!(
                placement.to_string().parse::<Placement>().unwrap(),
                placement,
                "{text}"
            );
        }
        if let Ok(machine) = Machine::synthetic(&text) {
            assert!(!machine.cores().is_empty());
        }
    }
}

/// Returns a tree with at least one file of every sort that the readers know.
pub fn whole() -> Fixture {
    let mut fixture = Fixture::online("0-3")
        .topology("core_cpus_list", &["0-1", "2-3"])
        .topology("package_cpus_list", &["0-3"])
        .topology("die_cpus_list", &["0-1", "2-3"])
        .each("0-3", "topology/die_id", "0\n")
        .each("0-3", "topology/physical_package_id", "0\n")
        .each("0-3", "cpu_capacity", "1024\n")
        .file(&format!("{NODE}/online"), "0-1\n")
        .file(&format!("{NODE}/node0/cpumap"), "0000000f\n")
        .file(&format!("{NODE}/node0/meminfo"), "Node 0 MemTotal: 1048576 kB\n")
        .file(&format!("{NODE}/node1/cpulist"), "\n")
        .file(&format!("{NODE}/node1/distance"), "20 10\n")
        .file("sys/devices/cpu_core/cpus", "0-1\n")
        .file("sys/devices/cpu_atom/cpus", "2-3\n")
        .file("proc/cpuinfo", "processor : 0\nphysical id : 0\nsiblings : 2\ncore id : 0\ncpu cores : 1\n")
        .file("proc/self/mountinfo", "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n32 23 0:27 /../.. /v1 rw - cgroup cgroup rw,cpuset\n")
        .file("proc/self/cgroup", "2:cpuset:/\n0::/a/b\n")
        .file("proc/self/stat", "7 (x) R\n")
        .file("proc/self/status", "Cpus_allowed_list:\t0-2\n")
        .file("cg/a/cpu.max", "200000 100000\n")
        .file("v1/p/q/cgroup.procs", "7\n")
        .file("v1/p/q/cpuset.cpus", "0-2\n");
    for pu in 0..4 {
        let folder = format!("{CPU}/cpu{pu}/cache/index0");
        for (name, text) in [
            ("level", "3"),
            ("type", "Unified"),
            ("size", "8M"),
            ("shared_cpu_map", "f"),
        ] {
            fixture = fixture.file(&format!("{folder}/{name}"), text);
        }
    }
    fixture
}

pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A captured tree has links to folders, which may form a loop.
        match path.symlink_metadata().unwrap().file_type() {
            kind if kind.is_dir() => files(&path, found),
            kind if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn broken_trees_never_panic() {
    let mut dice = Dice::new("broken_trees_never_panic");
    let fixture = whole();
    assert_eq!(Budget::of(&fixture.machine()).workers(), 2);
    let mut paths = Vec::new();
    files(fixture.root(), &mut paths);
    paths.sort();
    let (mut machines, mut noted) = (0, 0);
    for _ in 0..1_500 {
        let path = &paths[dice.below(paths.len())];
        let original = fs::read(path).unwrap();
        let bytes = mutated(&mut dice, &original);
        fs::write(path, &bytes).unwrap();
        match fixture.read() {
            Ok(machine) => {
                machines += 1;
                noted += usize::from(!machine.notes().is_empty());
                assert!(
                    machine.allowed().is_subset(machine.online()),
                    "{}",
                    path.display()
                );
                assert!(Budget::of(&machine).workers() >= 1);
                place(&machine, machine.allowed(), 3, &Placement::Spread).unwrap();
            }
            Err(error) => panic!("{}: {error}", path.display()),
        }
        fs::write(path, original).unwrap();
    }
    assert!(
        noted > 0,
        "{machines} machines, of which {noted} have notes"
    );
}
