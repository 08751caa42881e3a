//! Tests of the caches of real machines. Each test has the smallest tree of files that shows its
//! special case.

use creel_topology::CacheKind;

use crate::support::{CPU, Fixture, cores, texts};

fn cache(fixture: Fixture, pu: usize, index: usize, fields: [&str; 4]) -> Fixture {
    let folder = format!("{CPU}/cpu{pu}/cache/index{index}");
    let [level, kind, size, shared] = fields;
    fixture
        .file(&format!("{folder}/level"), level)
        .file(&format!("{folder}/type"), kind)
        .file(&format!("{folder}/size"), size)
        .file(&format!("{folder}/shared_cpu_map"), shared)
}

#[test]
fn caches_may_differ_from_core_to_core() {
    let mut fixture = Fixture::online("0-2").topology("thread_siblings_list", &["0", "1", "2"]);
    fixture = cache(fixture, 0, 0, ["1", "Data", "32K", "1"]);
    fixture = cache(fixture, 0, 1, ["3", "Unified", "8M", "7"]);
    fixture = cache(fixture, 1, 0, ["2", "Unified", "512K", "6"]);
    fixture = cache(fixture, 1, 1, ["3", "Unified", "8M", "7"]);
    let machine = cache(fixture, 2, 0, ["1", "Instruction", "32K", "4"]).machine();
    assert_eq!(
        texts(machine.caches_at(1).map(|cache| &cache.pus)),
        ["0"],
        "instruction caches must not be listed as data caches"
    );
    assert_eq!(texts(machine.caches_at(2).map(|cache| &cache.pus)), ["1-2"]);
    assert_eq!(texts(machine.caches_at(3).map(|cache| &cache.pus)), ["0-2"]);
    assert_eq!(
        machine.caches_at(3).next().unwrap().size_bytes,
        Some(8 << 20)
    );
}

#[test]
fn pus_may_have_private_caches() {
    let mut fixture = Fixture::online("0-3").topology("thread_siblings_list", &["0-1", "2-3"]);
    for (pu, own, core) in [(0, "1", "3"), (1, "2", "3"), (2, "4", "c"), (3, "8", "c")] {
        fixture = cache(fixture, pu, 0, ["1", "Data", "16K", own]);
        fixture = cache(fixture, pu, 1, ["1", "Instruction", "64K", core]);
        fixture = cache(fixture, pu, 2, ["2", "Unified", "2048K", core]);
    }
    let machine = fixture.machine();
    assert_eq!(cores(&machine), ["0-1", "2-3"]);
    assert_eq!(
        texts(machine.caches_at(1).map(|cache| &cache.pus)),
        ["0", "1", "2", "3"]
    );
    let instructions = machine.caches().iter();
    let instructions = instructions.filter(|cache| cache.kind == CacheKind::Instruction);
    assert_eq!(texts(instructions.map(|cache| &cache.pus)), ["0-1", "2-3"]);
    assert_eq!(
        texts(machine.caches_at(2).map(|cache| &cache.pus)),
        ["0-1", "2-3"]
    );
}

#[test]
fn caches_without_a_list_of_sharers_belong_to_their_core() {
    let mut fixture = Fixture::online("0-3").topology("thread_siblings_list", &["0-1", "2-3"]);
    for pu in 0..4 {
        fixture = cache(
            fixture,
            pu,
            0,
            ["3", "Unified", "9216K", "00000000,00000000"],
        );
    }
    assert_eq!(
        texts(fixture.machine().caches_at(3).map(|cache| &cache.pus)),
        ["0-1", "2-3"]
    );
}
