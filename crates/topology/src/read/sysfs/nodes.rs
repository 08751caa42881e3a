//! NUMA nodes, from `sys/devices/system/node`.
//!
//! Invariant: no PU belongs to two nodes. If the firmware reports that, we leave out the later of
//! the two nodes. A node without PUs (memory only) gets the PUs of its initiators, or of the nodes
//! at the smallest distance.
//!
//! Source: Linux, Documentation/ABI/stable/sysfs-devices-node,
//! Documentation/admin-guide/mm/numaperf.rst.

use crate::read::tree::Tree;
use crate::types::{CpuSet, NumaNode};

const NODE: &str = "sys/devices/system/node";

/// The classes of access whose initiators we read, in this order. Class 1 counts only CPUs as
/// initiators. Class 0 also counts devices, but it is the only class that older kernels report.
const ACCESSES: [&str; 2] = ["access1", "access0"];

pub(crate) fn read(tree: &Tree, online: &CpuSet) -> Vec<NumaNode> {
    let mut numbers = tree.numbered(NODE, "node");
    if let Some(up) = tree
        .list(&format!("{NODE}/online"))
        .filter(|up| !up.is_empty())
    {
        numbers.retain(|&number| up.contains(number));
    }
    let mut nodes = Vec::with_capacity(numbers.len());
    let mut taken = CpuSet::new();
    for &os_index in &numbers {
        let folder = format!("{NODE}/node{os_index}");
        let reported = tree.mask_or_list(&format!("{folder}/cpumap"), &format!("{folder}/cpulist"));
        let pus = &reported.unwrap_or_default() & online;
        if pus.intersects(&taken) {
            continue;
        }
        taken = &taken | &pus;
        let memory_bytes = memory_bytes(tree, &format!("{folder}/meminfo"));
        nodes.push(NumaNode {
            os_index,
            has_pus: !pus.is_empty(),
            pus,
            memory_bytes,
        });
    }
    let nearest: Vec<CpuSet> = nodes
        .iter()
        .map(|node| nearest_pus(tree, node, &nodes, &numbers))
        .collect();
    for (node, pus) in nodes.iter_mut().zip(nearest) {
        node.pus = pus;
    }
    nodes
}

/// Returns the node's own PUs. If it has none, returns the PUs of its initiators, or otherwise the
/// PUs of the nearest nodes that have PUs.
fn nearest_pus(tree: &Tree, node: &NumaNode, nodes: &[NumaNode], numbers: &[usize]) -> CpuSet {
    if node.has_pus {
        return node.pus.clone();
    }
    for access in ACCESSES {
        let folder = format!("{NODE}/node{}/{access}/initiators", node.os_index);
        let initiators = tree.numbered(&folder, "node");
        let pus = joined(nodes, |other| initiators.contains(&other.os_index));
        if !pus.is_empty() {
            return pus;
        }
    }
    // The file `distance` has one distance for each online node, in ascending order of their
    // numbers.
    let text = tree.text(&format!("{NODE}/node{}/distance", node.os_index));
    let distances: Vec<u32> = text
        .unwrap_or_default()
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let distance = |other: &NumaNode| {
        let column = numbers
            .iter()
            .position(|&number| number == other.os_index)?;
        distances.get(column).copied()
    };
    let with_pus = nodes.iter().filter(|other| other.has_pus);
    let least = with_pus.filter_map(distance).min();
    joined(nodes, |other| least.is_some() && distance(other) == least)
}

/// Returns the PUs that the nodes selected by `meant` have themselves.
fn joined(nodes: &[NumaNode], meant: impl Fn(&NumaNode) -> bool) -> CpuSet {
    let own_pus = nodes.iter().filter(|node| node.has_pus && meant(node));
    own_pus.fold(CpuSet::new(), |pus, node| &pus | &node.pus)
}

/// Returns the number of bytes in the line `MemTotal: … kB` of a file. In the file of a node,
/// `Node N` comes first.
pub(in crate::read) fn memory_bytes(tree: &Tree, file: &str) -> Option<u64> {
    let meminfo = tree.text(file)?;
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line
        .split("MemTotal:")
        .nth(1)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}
