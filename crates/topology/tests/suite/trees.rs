//! Tests of special cases of real kernels. Each test has the smallest tree of files that shows its
//! case.

use crate::support::{CPU, Fixture, NODE, cores, set, texts};
use creel_topology::{Error, Machine};

#[test]
fn ids_may_be_sparse_and_pus_may_be_offline() {
    let machine = Fixture::online("2,5-6,900")
        .topology("thread_siblings_list", &["2,900", "5-6"])
        .file(&format!("{CPU}/cpu3/online"), "0\n")
        .file(&format!("{CPU}/possible"), "0-1023\n")
        .machine();
    assert_eq!(machine.online().to_string(), "2,5-6,900");
    assert_eq!(cores(&machine), ["2,900", "5-6"]);
    assert_eq!(machine.pus(), [2, 900, 5, 6]);
}

#[test]
fn without_a_list_the_folders_define_the_online_pus() {
    let mut fixture = Fixture::new();
    for pu in 0..4 {
        fixture = fixture.file(
            &format!("{CPU}/cpu{pu}/topology/thread_siblings"),
            &format!("{:08x}\n", 1 << pu),
        );
    }
    let machine = fixture.file(&format!("{CPU}/cpu2/online"), "0\n").machine();
    assert_eq!(machine.online().to_string(), "0-1,3");
    assert_eq!(machine.cores_in(machine.online()), 3);
}

#[test]
fn offline_cores_are_reported_and_not_used() {
    let machine = Fixture::online("0")
        .topology("thread_siblings_list", &["0", "1"])
        .machine();
    assert_eq!(cores(&machine), ["0", "1"]);
    assert_eq!(machine.cores_in(machine.online()), 1);
}

#[test]
fn a_machine_can_be_read_from_its_pus_alone() {
    let machine = Fixture::online("0-3").machine();
    assert!(!machine.siblings_known());
    assert_eq!(cores(&machine), ["0", "1", "2", "3"]);
    assert!(
        machine.packages().is_empty() && machine.caches().is_empty() && machine.kinds().is_empty()
    );
    let nodes = machine.numa_nodes();
    assert_eq!((nodes.len(), nodes[0].pus.to_string()), (1, "0-3".into()));
}

#[test]
fn files_may_be_padded_with_nuls() {
    let machine = Fixture::new()
        .file(&format!("{CPU}/online"), "0-1\n\0\0\0")
        .file(&format!("{CPU}/cpu0/topology/thread_siblings"), "3\n\0")
        .file(&format!("{NODE}/online"), "0\n\0")
        .file(&format!("{NODE}/node0/cpumap"), "00000003\n\0")
        .machine();
    assert_eq!(cores(&machine), ["0-1"]);
    assert_eq!(machine.numa_nodes()[0].pus.to_string(), "0-1");
}

#[test]
fn cores_may_have_four_hardware_threads_or_different_numbers() {
    let four = Fixture::online("0-7")
        .topology("core_cpus_list", &["0-3", "4-7"])
        .machine();
    assert_eq!(cores(&four), ["0-3", "4-7"]);
    let mixed = Fixture::online("0-4")
        .topology("core_cpus_list", &["0-1", "2", "3", "4"])
        .machine();
    assert_eq!(cores(&mixed), ["0-1", "2", "3", "4"]);
}

#[test]
fn core_ids_do_not_define_siblings() {
    let mut fixture = Fixture::online("0-7").topology("package_cpus_list", &["0-3", "4-7"]);
    for pu in 0..8 {
        fixture = fixture
            .file(
                &format!("{CPU}/cpu{pu}/topology/core_id"),
                &format!("{}\n", pu % 4),
            )
            .file(
                &format!("{CPU}/cpu{pu}/topology/core_cpus_list"),
                &format!("{pu}\n"),
            );
    }
    assert_eq!(fixture.machine().cores().len(), 8);
}

#[test]
fn newer_sysfs_names_have_priority() {
    let machine = Fixture::online("0-3")
        .topology("core_siblings_list", &["0-1", "2-3"])
        .topology("package_cpus_list", &["0-3"])
        .each("0-3", "topology/physical_package_id", "36\n")
        .machine();
    assert_eq!(machine.packages().len(), 1);
    assert_eq!(machine.packages()[0].os_index, Some(36));
}

#[test]
fn packages_split_at_nodes_are_rejoined() {
    let nodes = |fixture: Fixture| {
        fixture
            .file(&format!("{NODE}/node0/cpulist"), "0-3\n")
            .file(&format!("{NODE}/node1/cpulist"), "4-7\n")
    };
    let cut = Fixture::online("0-7")
        .topology("core_siblings_list", &["0-3", "4-7"])
        .each("0-7", "topology/physical_package_id", "0\n");
    assert_eq!(
        texts(
            nodes(cut)
                .machine()
                .packages()
                .iter()
                .map(|package| &package.pus)
        ),
        ["0-7"]
    );
    let lone = Fixture::online("0-7")
        .topology(
            "core_siblings_list",
            &["0", "1", "2", "3", "4", "5", "6", "7"],
        )
        .each("0-7", "topology/physical_package_id", "0\n");
    assert_eq!(
        nodes(lone).machine().packages().len(),
        8,
        "sets that are not nodes must stay separate"
    );
}

#[test]
fn dies_are_listed_only_if_they_differ_from_packages() {
    let fixture = |dies: &[&str]| {
        Fixture::online("0-3")
            .topology("package_cpus_list", &["0-3"])
            .topology("die_cpus_list", dies)
            .each("0-3", "topology/die_id", "0\n")
    };
    assert_eq!(fixture(&["0-3"]).machine().dies().len(), 0);
    assert_eq!(
        texts(
            fixture(&["0-1", "2-3"])
                .machine()
                .dies()
                .iter()
                .map(|die| &die.pus)
        ),
        ["0-1", "2-3"]
    );
    let unnumbered = fixture(&["0", "1", "2", "3"]).each("0-3", "topology/die_id", "-1\n");
    assert_eq!(unnumbered.machine().dies().len(), 0);
}

#[test]
fn cpuinfo_replaces_a_missing_sysfs() {
    let cpuinfo = "processor\t: 0\nphysical id\t: 0\nsiblings\t: 2\ncore id\t: 0\ncpu cores\t: 1\n\n\
                   processor\t: 1\nphysical id\t: 0\nsiblings\t: 2\ncore id\t: 0\ncpu cores\t: 1\n";
    let machine = Fixture::new().file("proc/cpuinfo", cpuinfo).machine();
    assert_eq!(machine.online().to_string(), "0-1");
    assert_eq!(cores(&machine), ["0-1"]);
    assert_eq!(machine.packages().len(), 1);
    let sparc = Fixture::new()
        .file(
            "proc/cpuinfo",
            "cpu\t\t: UltraSparc T1\nncpus active\t: 2\nCPU0:\t\tonline\n",
        )
        .file("proc/stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu5 1 2 3\nintr 7\n");
    assert_eq!(sparc.machine().online().to_string(), "0,5");
}

#[test]
fn machines_with_more_than_1024_pus_are_read() {
    let mut fixture = Fixture::online("0-2047");
    for core in 0..1024 {
        let mut words = vec!["00000000".to_string(); 64];
        for pu in [core, core + 1024] {
            let word = 63 - pu / 32;
            let bits = u32::from_str_radix(&words[word], 16).unwrap() | 1 << (pu % 32);
            words[word] = format!("{bits:08x}");
        }
        fixture = fixture.file(
            &format!("{CPU}/cpu{core}/topology/core_cpus"),
            &words.join(","),
        );
    }
    let machine = fixture.machine();
    assert_eq!(machine.cores().len(), 1024);
    assert_eq!(machine.cores()[1023].pus, set("1023,2047"));
}

#[test]
fn a_folder_without_a_machine_and_an_unreadable_one_give_different_errors() {
    let kind = |result: Result<Machine, Error>| match result {
        Err(Error::NoMachine { .. }) => "no machine",
        Err(Error::Unreadable { .. }) => "unreadable",
        Err(_) => "another error",
        Ok(_) => "a machine",
    };
    let missing = std::path::Path::new("no/such/folder");
    assert_eq!(kind(Machine::read_from(missing)), "unreadable");
    assert_eq!(kind(Fixture::new().read()), "no machine");
    assert_eq!(
        kind(Fixture::new().file("sys", "a file").read()),
        "no machine"
    );
}

#[test]
fn malformed_lists_are_noted_and_replaced_by_other_sources() {
    let huge = "0,".repeat(1 << 20);
    for (text, reason) in [
        ("0-", "not a number"),
        ("0-99999999", "above"),
        (&huge, "longer"),
    ] {
        let fixture = Fixture::online("0-2").file(&format!("{CPU}/online"), text);
        let machine = fixture.machine();
        assert_eq!(machine.online().to_string(), "0-2", "{reason}");
        let [note] = machine.notes() else {
            panic!("{reason}: {:?}", machine.notes());
        };
        assert!(
            note.contains("cpu/online") && note.contains(reason),
            "{note}"
        );
    }
    let typo = Fixture::online("0-1").topology("thread_siblings_list", &["0-1"]);
    let typo = typo.file(&format!("{CPU}/cpu0/topology/thread_siblings_list"), "0..1");
    let machine = typo.machine();
    assert_eq!(cores(&machine), ["0-1"], "from the other PU");
    let note = &machine.notes()[0];
    assert!(
        note.contains("cpu0/topology/thread_siblings_list") && note.contains("0..1"),
        "{note}"
    );
}

#[cfg(unix)]
#[test]
fn links_devices_and_pipes_do_not_block_a_read() {
    use std::os::unix::fs::symlink;
    let looped = Fixture::new().file("sys/devices/system/x", "");
    symlink("cpu", looped.root().join(CPU)).unwrap();
    assert!(matches!(looped.read(), Err(Error::NoMachine { .. })));
    let endless = Fixture::new().file(&format!("{CPU}/cpu3/x"), "");
    symlink("/dev/zero", endless.root().join(CPU).join("online")).unwrap();
    assert_eq!(endless.machine().online().to_string(), "3");
    let pipe = Fixture::online("0").file(&format!("{CPU}/cpu0/topology/x"), "");
    let fifo = pipe.root().join(CPU).join("cpu0/topology/thread_siblings");
    let made = std::process::Command::new("mkfifo").arg(fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    assert_eq!(
        pipe.machine().online().to_string(),
        "0",
        "a pipe without a writer must read as empty"
    );
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::detect().unwrap();
    assert!(!machine.allowed().is_empty() && machine.allowed().is_subset(machine.online()));
    assert_eq!(machine.pus().len(), machine.online().len());
    #[cfg(target_os = "linux")]
    assert!(
        machine
            .allowed()
            .is_subset(&creel_topology::affinity::current().unwrap())
    );
}
