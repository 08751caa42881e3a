//! Reads machines that were captured elsewhere and compares them with their known topology.
//!
//! The data are not part of the project. We look for them in the folder that `CREEL_SHARED` names,
//! or in `../shared` next to the project. The files are `machines/expected.json` and
//! `machines/machines.tar.xz`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use creel_topology::{Budget, CpuSet, Machine};
use serde_json::Value;

fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("CREEL_SHARED").map_or(beside, PathBuf::from);
    shared
        .join("machines/expected.json")
        .is_file()
        .then_some(shared)
}

/// Files that the tests do not need. These files are half of the archive, so we do not unpack them.
const LEFT_OUT: [&str; 4] = [
    "device-tree",
    "ways_of_associativity",
    "number_of_sets",
    "coherency_line_size",
];

/// Unpacks the machines with the system's `tar`. Returns whether it succeeded.
fn unpack(shared: &Path, into: &Path) -> bool {
    let archive = shared.join("machines/machines.tar.xz");
    let mut tar = Command::new("tar");
    tar.args(LEFT_OUT.map(|name| format!("--exclude={name}")));
    tar.arg("-xJf").arg(archive).arg("-C").arg(into);
    tar.status().is_ok_and(|status| status.success())
}

/// Returns sets of PUs as CPU lists, without the empty ones.
fn sets<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> BTreeSet<String> {
    sets.map(CpuSet::to_string)
        .filter(|text| !text.is_empty())
        .collect()
}

fn expected_sets(value: &Value) -> BTreeSet<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|set| set.as_str().unwrap().to_string())
        .collect()
}

fn expected_nodes(value: &Value) -> BTreeSet<(usize, String)> {
    let node = |node: &Value| {
        (
            node["id"].as_u64().unwrap() as usize,
            node["cpus"].as_str().unwrap().to_string(),
        )
    };
    value.as_array().unwrap().iter().map(node).collect()
}

/// Returns the PUs of each expected kind. The slowest kind is first.
fn expected_kinds(value: &Value) -> Vec<String> {
    let kinds = value.as_array().unwrap().iter();
    kinds
        .map(|kind| kind["cpus"].as_str().unwrap().to_string())
        .collect()
}

/// Returns the kinds, or an empty list if there is only one kind. We do not distinguish a machine
/// with a single kind from one whose kinds are unknown.
fn several(kinds: Vec<String>) -> Vec<String> {
    if kinds.len() > 1 { kinds } else { Vec::new() }
}

/// Returns the differences between a machine and its expected topology.
fn differences(machine: &Machine, expected: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |level: &str, found: String, expected: String| {
        if found != expected {
            differences.push(format!("{level}: found {found}, expected {expected}"));
        }
    };
    compare(
        "pus",
        machine.online().to_string(),
        expected["pus"].as_str().unwrap().into(),
    );
    compare(
        "allowed",
        machine.allowed().to_string(),
        expected["allowed"].as_str().unwrap().into(),
    );
    let reported = if expected["kernel_cores"].is_array() {
        "kernel_cores"
    } else {
        "cores"
    };
    let cores = machine
        .cores()
        .iter()
        .filter(|_| machine.siblings_known())
        .map(|core| &core.pus);
    let levels = [
        ("cores", reported, sets(cores)),
        (
            "packages",
            "packages",
            sets(machine.packages().iter().map(|package| &package.pus)),
        ),
        (
            "dies",
            "dies",
            sets(machine.dies().iter().map(|die| &die.pus)),
        ),
        (
            "l2",
            "l2",
            sets(machine.caches_at(2).map(|cache| &cache.pus)),
        ),
        (
            "l3",
            "l3",
            sets(machine.caches_at(3).map(|cache| &cache.pus)),
        ),
    ];
    for (level, reported, found) in levels {
        compare(
            level,
            format!("{found:?}"),
            format!("{:?}", expected_sets(&expected[reported])),
        );
    }
    let nodes: BTreeSet<(usize, String)> = machine
        .numa_nodes()
        .iter()
        .map(|node| (node.os_index, node.pus.to_string()))
        .collect();
    compare(
        "numa",
        format!("{nodes:?}"),
        format!("{:?}", expected_nodes(&expected["numa"])),
    );
    let expected_kinds = expected_kinds(&expected["kinds"]);
    // An empty list means that the kinds are unknown, so we do not compare them.
    if !expected_kinds.is_empty() {
        let kinds: Vec<String> = machine
            .kinds()
            .iter()
            .map(|kind| kind.pus.to_string())
            .collect();
        compare(
            "kinds",
            format!("{:?}", several(kinds)),
            format!("{:?}", several(expected_kinds)),
        );
    }
    differences
}

/// Unpacks the captured machines, or returns `None` with a message if that is not possible.
pub fn unpacked() -> Option<tempfile::TempDir> {
    let Some(shared) = shared() else {
        eprintln!("skipped: CREEL_SHARED or ../shared has no machines/expected.json");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    if !unpack(&shared, folder.path()) {
        eprintln!("skipped: tar could not unpack machines.tar.xz");
        return None;
    }
    Some(folder)
}

#[test]
fn captured_machines_match_their_expectations() {
    let Some((shared, folder)) = shared().zip(unpacked()) else {
        return;
    };
    let text = std::fs::read_to_string(shared.join("machines/expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut wrong = Vec::new();
    for (name, expected) in expected.as_object().unwrap() {
        let root = folder.path().join("machines").join(name);
        match Machine::read_from(&root) {
            Ok(machine) => {
                let differing = differences(&machine, expected);
                wrong.extend(differing.iter().map(|line| format!("{name}: {line}")));
                // `read_cores_from` reads fewer files than `read_from`, but must give the same
                // budget.
                let brief = Machine::read_cores_from(&root).map(|brief| Budget::of(&brief));
                if brief.as_ref().ok() != Some(&Budget::of(&machine)) {
                    wrong.push(format!("{name}: by its cores alone {brief:?}"));
                }
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!(
        "{} captured machines match",
        expected.as_object().unwrap().len()
    );
}
