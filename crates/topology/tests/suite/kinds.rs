//! Tests of the kinds of cores. Each machine has the files that the kernel shows on a real machine.
//! On these machines, no single source distinguishes all kinds.

use creel_topology::{KindSource, Machine, Placement, place};

use crate::support::{CPU, Fixture, texts};

fn kinds(fixture: &Fixture) -> Vec<String> {
    texts(fixture.machine().kinds().iter().map(|kind| &kind.pus))
}

fn sources(machine: &Machine) -> Vec<KindSource> {
    machine.kinds().iter().map(|kind| kind.source).collect()
}

/// Adds a level 3 cache for each group of PUs in `shared`, and a level 2 cache for every PU of
/// `all`.
fn caches(mut fixture: Fixture, all: &str, shared: &[&str]) -> Fixture {
    fixture =
        fixture
            .each(all, "cache/index2/level", "2\n")
            .each(all, "cache/index2/type", "Unified\n");
    for pus in shared {
        fixture = fixture
            .each(pus, "cache/index3/level", "3\n")
            .each(pus, "cache/index3/type", "Unified\n")
            .each(pus, "cache/index3/shared_cpu_list", &format!("{pus}\n"));
    }
    fixture
}

/// Returns a Meteor Lake without frequencies: 6 performance cores with two PUs each, 8 efficiency
/// cores, and 2 low-power efficiency cores that do not share the L3 cache.
fn meteor_lake() -> Fixture {
    let fixture = Fixture::online("0-21")
        .topology(
            "core_cpus_list",
            &["0-1", "2-3", "4-5", "6-7", "8-9", "10-11"],
        )
        .file("sys/devices/cpu_core/cpus", "0-11\n")
        .file("sys/devices/cpu_atom/cpus", "12-21\n");
    caches(fixture, "0-21", &["0-19"])
}

#[test]
fn low_power_cores_are_recognised_by_their_frequency() {
    let fixture = meteor_lake()
        .each("0-1,4-11", "cpufreq/cpuinfo_max_freq", "4700000\n")
        .each("2-3", "cpufreq/cpuinfo_max_freq", "4800000\n")
        .each("12-19", "cpufreq/cpuinfo_max_freq", "3800000\n")
        .each("20-21", "cpufreq/cpuinfo_max_freq", "2500000\n");
    assert_eq!(kinds(&fixture), ["20-21", "12-19", "0-11"]);
    let expected = [
        KindSource::MaxFrequency,
        KindSource::MaxFrequency,
        KindSource::Pmu,
    ];
    assert_eq!(sources(&fixture.machine()), expected);
}

#[test]
fn low_power_cores_are_recognised_by_their_missing_cache() {
    let machine = meteor_lake().machine();
    assert_eq!(kinds(&meteor_lake()), ["20-21", "12-19", "0-11"]);
    assert_eq!(machine.kinds()[0].source, KindSource::SharedCache);
    let layout = place(&machine, machine.allowed(), 15, &Placement::Cores).unwrap();
    let last = layout.assigned().last().unwrap();
    assert_eq!(last.to_string(), "20", "the slowest cores are used last");
}

#[test]
fn low_power_cores_are_recognised_by_a_pmu_of_their_own() {
    let fixture = Fixture::online("0-15")
        .file("sys/devices/cpu_core/cpus", "0-5\n")
        .file("sys/devices/cpu_atom/cpus", "6-13\n")
        .file("sys/devices/cpu_lowpower/cpus", "14-15\n")
        .each("0-15", "cpu_capacity", "1024\n")
        .each("0-15", "acpi_cppc/nominal_perf", "40\n");
    assert_eq!(kinds(&fixture), ["14-15", "6-13", "0-5"]);
}

#[test]
fn cores_without_any_shared_cache_are_one_kind() {
    // In a Lunar Lake, only the performance cores share the L3 cache.
    let fixture = Fixture::online("0-7")
        .file("sys/devices/cpu_core/cpus", "0-3\n")
        .file("sys/devices/cpu_atom/cpus", "4-7\n");
    assert_eq!(kinds(&caches(fixture, "0-7", &["0-3"])), ["4-7", "0-3"]);
}

#[test]
fn sockets_with_different_caches_are_one_kind() {
    let fixture = Fixture::online("0-7").each("0-7", "cpufreq/cpuinfo_max_freq", "3000000\n");
    assert_eq!(kinds(&caches(fixture, "0-7", &["0-3"])), ["0-7"]);
}

/// Returns a Strix Point, whose firmware gives each core the same nominal performance. PUs 0 to 7
/// belong to its 4 large cores, and PUs 8 to 23 to its 8 compact ones. No file lists siblings.
fn strix_point() -> Fixture {
    let fixture = Fixture::online("0-23").each("0-23", "acpi_cppc/nominal_perf", "60\n");
    caches(fixture, "0-23", &["0-7", "8-23"])
}

#[test]
fn compact_cores_are_a_kind_of_their_own() {
    let by_frequency = strix_point()
        .each("0-7", "cpufreq/cpuinfo_max_freq", "5157895\n")
        .each("8-23", "cpufreq/cpuinfo_max_freq", "3305160\n");
    assert_eq!(kinds(&by_frequency), ["8-23", "0-7"]);
    let by_performance = strix_point()
        .each("0-3", "acpi_cppc/highest_perf", "202\n")
        .each("4-7", "acpi_cppc/highest_perf", "196\n")
        .each("8-23", "acpi_cppc/highest_perf", "135\n");
    assert_eq!(kinds(&by_performance), ["8-23", "0-7"]);
    assert_eq!(kinds(&strix_point()), ["0-23"]);
}

#[test]
fn frequencies_distinguish_kinds_if_all_capacities_are_equal() {
    let equal = || Fixture::online("0-7").each("0-7", "cpu_capacity", "1024\n");
    let fixture = equal()
        .each("0-3", "cpufreq/cpuinfo_max_freq", "1800000\n")
        .each("4-7", "cpufreq/cpuinfo_max_freq", "2400000\n");
    assert_eq!(kinds(&fixture), ["0-3", "4-7"]);
    assert_eq!(
        sources(&fixture.machine()),
        [KindSource::MaxFrequency; 2],
        "the source that distinguishes them"
    );
    assert_eq!(sources(&equal().machine()), [KindSource::Capacity]);
}

#[test]
fn the_most_trusted_source_decides_which_kind_is_faster() {
    let hybrid = || {
        Fixture::online("0-5")
            .each("0-3", "cpufreq/cpuinfo_max_freq", "5000000\n")
            .each("4-5", "cpufreq/cpuinfo_max_freq", "3000000\n")
    };
    assert_eq!(kinds(&hybrid()), ["4-5", "0-3"]);
    // The frequency is trusted less than the first source, so it must not change the order of the
    // kinds.
    let capacity =
        hybrid()
            .each("0-3", "cpu_capacity", "446\n")
            .each("4-5", "cpu_capacity", "1024\n");
    assert_eq!(kinds(&capacity), ["0-3", "4-5"]);
    let pmu = hybrid()
        .each("0-5", "cpu_capacity", "1024\n")
        .file("sys/devices/cpu_core/cpus", "0-3\n")
        .file("sys/devices/cpu_atom/cpus", "4-5\n");
    assert_eq!(kinds(&pmu), ["4-5", "0-3"]);
    assert_eq!(sources(&pmu.machine()), [KindSource::Pmu; 2]);
}

#[test]
fn sources_that_do_not_cover_a_kind_are_ignored() {
    let machine = Fixture::online("0-1")
        .each("0", "cpufreq/cpuinfo_max_freq", "800000\n")
        .machine();
    assert!(machine.kinds().is_empty());
    // All efficiency cores have a frequency, so their frequencies split them into two kinds. One of
    // the performance cores (PU 0) has no frequency, so the performance cores stay one kind.
    let partly = Fixture::online("0-5")
        .file("sys/devices/cpu_core/cpus", "0-1\n")
        .file("sys/devices/cpu_atom/cpus", "2-5\n")
        .each("1,4-5", "cpufreq/cpuinfo_max_freq", "4000000\n")
        .each("2-3", "cpufreq/cpuinfo_max_freq", "2000000\n")
        .file(
            &format!("{CPU}/cpu0/cpufreq/cpuinfo_max_freq"),
            "<unknown>\n",
        );
    assert_eq!(kinds(&partly), ["2-3", "4-5", "0-1"]);
}
