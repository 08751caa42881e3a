//! Tests of machines that are created from a description.

use creel_topology::Machine;

fn machine(description: &str) -> Machine {
    Machine::synthetic(description).unwrap()
}

#[test]
fn levels_of_a_description_nest_in_order() {
    let machine = machine("package:2 numa:2 l3:2 core:4 pu:2");
    assert_eq!(machine.online().to_string(), "0-63");
    assert_eq!(machine.packages()[1].pus.to_string(), "32-63");
    assert_eq!(machine.numa_nodes()[3].pus.to_string(), "48-63");
    assert_eq!(machine.caches_at(3).nth(1).unwrap().pus.to_string(), "8-15");
    assert_eq!(machine.cores()[31].pus.to_string(), "62-63");
}

#[test]
fn kinds_of_cores_may_differ_in_hardware_threads_per_core() {
    let machine = machine("package:1 core:6+8 pu:2+1");
    assert_eq!(machine.online().len(), 20);
    let kinds: Vec<String> = machine
        .kinds()
        .iter()
        .map(|kind| kind.pus.to_string())
        .collect();
    assert_eq!(kinds, ["12-19", "0-11"]);
    assert_eq!(machine.cores().len(), 14);
}

#[test]
fn errors_name_the_mistake() {
    for (description, reason) in [
        ("", "empty"),
        ("core", "no number"),
        ("socket:2", "unknown level"),
        ("core:0", "from 1"),
        ("core:x", "from 1"),
        ("pu:2 core:2", "after a level inside"),
        ("core:2 core:2", "is repeated"),
        ("package:2+2", "only core and pu"),
        ("core:1+2+3 pu:2+1", "PUs for 2"),
        ("package:150 core:150", "more than"),
        (
            "package:16384 die:16384 numa:16384 l4:16384 l3:16384",
            "more than",
        ),
    ] {
        let error = Machine::synthetic(description).unwrap_err().to_string();
        assert!(error.contains(reason), "{description}: {error}");
    }
}
