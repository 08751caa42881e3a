//! Kinds of cores, for example performance and efficiency cores, or big and little ones.
//!
//! No single source distinguishes all kinds. For example, the PMU lists of a Meteor Lake have its
//! low-power efficiency cores together with the other efficiency cores, and some ARM firmware gives
//! each core the same capacity. We therefore use all sources, beginning with the one that we trust
//! most. Each source splits the kinds that the sources before it have found. A source that gives
//! the cores of a kind equal values, or has no value for some of them, leaves this kind to the next
//! source.
//!
//! We split values only at a large gap between neighbouring values. Single "favoured" cores that
//! clock a few percent higher are not a kind of their own.
//!
//! We trust the *nominal* performance of CPPC more than the highest, because some firmware gives
//! equal cores different highest values.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu (`cpu_capacity`,
//! `acpi_cppc`), Documentation/admin-guide/pm/cpufreq.rst.

use crate::read::tree::{CPU, Tree};
use crate::types::{Cache, CacheKind, CpuSet, Kind, KindSource};

/// The names of the hybrid PMUs (performance monitoring units), from the PMU of the slowest cores
/// to the PMU of the fastest cores. Each PMU lists the PUs that it counts.
const PMUS: [&str; 3] = ["cpu_lowpower", "cpu_atom", "cpu_core"];

/// The sources with a value for each PU, from the most to the least trusted.
const VALUES: [KindSource; 5] = [
    KindSource::Capacity,
    KindSource::Cppc,
    KindSource::BaseFrequency,
    KindSource::MaxFrequency,
    KindSource::CppcHighest,
];

/// The level of the cache that low-power cores lack.
const SHARED_LEVEL: u8 = 3;

/// Returns the gap in percent above which two neighbouring values are different kinds.
fn gap_percent(source: KindSource) -> i64 {
    match source {
        KindSource::MaxFrequency | KindSource::CppcHighest => 20,
        _ => 10,
    }
}

/// A group of PUs, and the source that distinguishes them from the other PUs. The source is `None`
/// for the group of all PUs of the machine.
type Group = (CpuSet, Option<KindSource>);

/// Reads the kinds of cores. The list is empty if no source covers every online PU.
pub(super) fn read(tree: &Tree, online: &CpuSet, caches: &[Cache]) -> Vec<Kind> {
    let by_pmu = by_pmu(tree, online);
    let pmus = (!by_pmu.is_empty()).then_some(KindSource::Pmu);
    let mut groups: Vec<Group> = match by_pmu.len() {
        0 | 1 => vec![(online.clone(), pmus)],
        _ => by_pmu.into_iter().map(|pus| (pus, pmus)).collect(),
    };
    for source in VALUES {
        groups = split_all(groups, source, |pus| {
            Some(cut(values(tree, pus, source)?, source))
        });
    }
    // We use the caches only if other sources have found several kinds. On a machine with one kind
    // of cores, the sockets may differ in their caches.
    if groups.len() > 1 {
        let source = KindSource::SharedCache;
        groups = split_all(groups, source, |pus| by_shared_cache(pus, caches));
    }
    let kinds = groups.into_iter().enumerate();
    kinds
        .filter_map(|(rank, (pus, source))| {
            let source = source?;
            Some(Kind { rank, pus, source })
        })
        .collect()
}

/// Splits each group with a source. `parts` returns the PUs of each part, from the slowest to the
/// fastest. It returns `None` if the source does not cover the group.
fn split_all(
    groups: Vec<Group>,
    source: KindSource,
    parts: impl Fn(&CpuSet) -> Option<Vec<CpuSet>>,
) -> Vec<Group> {
    let split = |(pus, before): Group| match parts(&pus) {
        Some(parts) if parts.len() > 1 => {
            parts.into_iter().map(|part| (part, Some(source))).collect()
        }
        Some(_) => vec![(pus, before.or(Some(source)))],
        None => vec![(pus, before)],
    };
    groups.into_iter().flat_map(split).collect()
}

/// Reads the PUs of each PMU. The list is empty unless they cover every online PU.
fn by_pmu(tree: &Tree, online: &CpuSet) -> Vec<CpuSet> {
    let mut groups = Vec::new();
    let mut covered = CpuSet::new();
    for pmu in PMUS {
        let reported = tree.list(&format!("sys/devices/{pmu}/cpus"));
        let pus = &(&reported.unwrap_or_default() & online) - &covered;
        if !pus.is_empty() {
            covered = &covered | &pus;
            groups.push(pus);
        }
    }
    if covered == *online {
        groups
    } else {
        Vec::new()
    }
}

/// Returns the PUs without and with a shared cache, for example the low-power cores of a Meteor
/// Lake, which are on another tile than the cache. Returns `None` if the caches are unknown
/// or all PUs are alike.
fn by_shared_cache(pus: &CpuSet, caches: &[Cache]) -> Option<Vec<CpuSet>> {
    let data = || caches.iter().filter(|c| c.kind != CacheKind::Instruction);
    let covered = |level: Option<u8>| {
        let caches = data().filter(|cache| level.is_none_or(|level| cache.level == level));
        caches.fold(CpuSet::new(), |all, cache| &all | &cache.pus)
    };
    let with = &covered(Some(SHARED_LEVEL)) & pus;
    let without = pus - &with;
    let known = pus.is_subset(&covered(None));
    (known && !with.is_empty() && !without.is_empty()).then(|| vec![without, with])
}

/// Returns the value of each PU, or `None` unless every PU has one.
fn values(tree: &Tree, pus: &CpuSet, source: KindSource) -> Option<Vec<(i64, usize)>> {
    let value = |pu| {
        let value = value(tree, pu, source).filter(|&value| value > 0)?;
        Some((value, pu))
    };
    pus.iter().map(value).collect()
}

fn value(tree: &Tree, pu: usize, source: KindSource) -> Option<i64> {
    let frequency = |name: &str| {
        // In a captured tree the link from the PU to its `cpufreq` policy may be missing.
        tree.number(&format!("{CPU}/cpu{pu}/cpufreq/{name}"))
            .or_else(|| tree.number(&format!("{CPU}/cpufreq/policy{pu}/{name}")))
    };
    let number = |name: &str| tree.number(&format!("{CPU}/cpu{pu}/{name}"));
    match source {
        KindSource::Capacity => number("cpu_capacity"),
        KindSource::Cppc => number("acpi_cppc/nominal_perf"),
        KindSource::CppcHighest => number("acpi_cppc/highest_perf"),
        KindSource::BaseFrequency => frequency("base_frequency"),
        KindSource::MaxFrequency => frequency("cpuinfo_max_freq"),
        KindSource::Pmu
        | KindSource::SharedCache
        | KindSource::EfficiencyClass
        | KindSource::PerformanceLevel
        | KindSource::Description => None,
    }
}

/// Sorts the values and splits them at gaps.
fn cut(mut values: Vec<(i64, usize)>, source: KindSource) -> Vec<CpuSet> {
    values.sort_unstable();
    let apart = |low: i64, high: i64| {
        high - low > low / 100 * gap_percent(source) + low % 100 * gap_percent(source) / 100
    };
    values
        .chunk_by(|(low, _), (high, _)| !apart(*low, *high))
        .map(|run| run.iter().map(|&(_, pu)| pu).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(values: &[i64], source: KindSource) -> Vec<String> {
        let values = values
            .iter()
            .copied()
            .enumerate()
            .map(|(pu, value)| (value, pu))
            .collect();
        cut(values, source).iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn favoured_cores_are_not_a_kind_of_their_own() {
        assert_eq!(
            kinds(&[5000, 5300, 5000, 5300], KindSource::MaxFrequency),
            ["0-3"]
        );
        assert_eq!(
            kinds(&[718, 997, 731, 1024, 1017], KindSource::Capacity),
            ["0,2", "1,3-4"]
        );
        assert_eq!(kinds(&[24, 24, 19, 19], KindSource::Cppc), ["2-3", "0-1"]);
    }
}
