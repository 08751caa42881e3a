//! Tests of the NUMA nodes that real kernels report. Each test has the smallest tree of files that
//! shows its special case.

use crate::support::{Fixture, NODE, texts};
use creel_topology::Budget;

#[test]
fn nodes_without_pus_get_the_nearest_pus() {
    let machine = Fixture::online("0-7")
        .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
        .file(&format!("{NODE}/node1/cpulist"), "4-7\n")
        .file(&format!("{NODE}/node8/cpumap"), "0\n")
        .file(&format!("{NODE}/node8/distance"), "31 21 10 41\n")
        .file(
            &format!("{NODE}/node8/meminfo"),
            "\nNode 8 MemTotal:       1048576 kB\n",
        )
        .file(&format!("{NODE}/node9/cpulist"), "\n")
        .file(&format!("{NODE}/node9/distance"), "31 41 41 10\n")
        .file(&format!("{NODE}/node9/access0/initiators/node0/x"), "")
        .machine();
    let nodes = machine.numa_nodes();
    assert_eq!(
        texts(nodes.iter().map(|node| &node.pus)),
        ["0-3", "4-7", "4-7", "0-3"]
    );
    assert_eq!(
        nodes.iter().map(|node| node.has_pus).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!(nodes[2].memory_bytes, Some(1 << 30));
}

#[test]
fn an_explicit_number_of_workers_overrides_a_limit_by_memory_in_either_order() {
    let machine = Fixture::online("0-3")
        .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
        .file(
            &format!("{NODE}/node0/meminfo"),
            "Node 0 MemTotal: 1048576 kB\n",
        )
        .machine();
    let budget = || Budget::of(&machine);
    assert_eq!(budget().with_memory(&machine, 1 << 29).workers(), 2);
    for budget in [
        budget().with_memory(&machine, 1 << 29).explicit(8),
        budget().explicit(8).with_memory(&machine, 1 << 29),
    ] {
        assert_eq!(budget.workers(), 8);
        assert_eq!(budget.bound_by().to_string(), "the given number (8)");
    }
}

#[test]
fn memory_that_is_taken_from_a_node_for_a_while_still_counts() {
    let machine = Fixture::online("0-3")
        .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
        .file(
            &format!("{NODE}/node0/meminfo"),
            "Node 0 MemTotal: 1048576 kB\n",
        )
        .file("proc/meminfo", "MemTotal:        3145728 kB\n")
        .machine();
    assert_eq!(
        machine.memory_limit().unwrap().value,
        (3_u64 << 30).to_string()
    );
    let budget = Budget::of(&machine).with_memory(&machine, 1 << 30);
    assert_eq!(budget.workers(), 3);
}

/// Returns a tree with two nodes with PUs, and a memory node at the same distance from both.
fn between_two_nodes() -> Fixture {
    Fixture::online("0-7")
        .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
        .file(&format!("{NODE}/node1/cpulist"), "4-7\n")
        .file(&format!("{NODE}/node2/cpulist"), "\n")
        .file(&format!("{NODE}/node2/distance"), "20 20 10\n")
}

fn initiator(fixture: Fixture, access: usize, node: usize) -> Fixture {
    let folder = format!("{NODE}/node2/access{access}/initiators");
    fixture
        .file(&format!("{folder}/node{node}/x"), "")
        .file(&format!("{folder}/read_latency"), "100\n")
}

#[test]
fn cpu_initiators_define_the_node_of_memory() {
    let of_memory = |fixture: Fixture| fixture.machine().numa_nodes()[2].pus.to_string();
    assert_eq!(
        of_memory(between_two_nodes()),
        "0-7",
        "both nodes are at the same distance"
    );
    let cpus = initiator(between_two_nodes(), 1, 1);
    assert_eq!(of_memory(cpus), "4-7", "only access1 is listed");
    let devices_too = initiator(initiator(between_two_nodes(), 0, 0), 1, 1);
    assert_eq!(
        of_memory(devices_too),
        "4-7",
        "access1 has priority, because it counts CPUs only"
    );
    let device = initiator(initiator(between_two_nodes(), 1, 9), 0, 0);
    assert_eq!(
        of_memory(device),
        "0-3",
        "an initiator without PUs must be ignored"
    );
}

#[test]
fn no_pu_belongs_to_two_nodes() {
    let machine = Fixture::online("0-7")
        .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
        .file(&format!("{NODE}/node1/cpulist"), "2-7\n")
        .file(&format!("{NODE}/node2/cpulist"), "4-7\n")
        .machine();
    assert_eq!(
        machine
            .numa_nodes()
            .iter()
            .map(|node| node.os_index)
            .collect::<Vec<_>>(),
        [0, 2]
    );
}
