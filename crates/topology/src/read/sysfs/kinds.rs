//! Kinds of cores, for example performance and efficiency cores, or big and little ones.
//!
//! We use the first source that has a value for every online PU, in the order of [`KindSource`]. We
//! split its values into kinds only where there is a large gap between neighbouring values, because
//! single "favoured" cores that clock a few percent higher are not a kind of their own.
//!
//! We read the *nominal* performance of CPPC and not the highest, because some firmware gives equal
//! cores different highest values.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu (`cpu_capacity`,
//! `acpi_cppc`), Documentation/admin-guide/pm/cpufreq.rst.

use crate::read::tree::{CPU, Tree};
use crate::types::{CpuSet, Error, Kind, KindSource};

/// The names of the hybrid PMUs, the slowest first. Each lists the PUs that it counts.
const PMUS: [&str; 3] = ["cpu_lowpower", "cpu_atom", "cpu_core"];

/// Returns the gap in percent above which two neighbouring values are different kinds.
fn gap_percent(source: KindSource) -> i64 {
    match source {
        KindSource::MaxFrequency => 20,
        _ => 10,
    }
}

/// Reads the kinds of cores. The list is empty if no source covers every online PU.
pub(crate) fn read(tree: &Tree, online: &CpuSet) -> Result<Vec<Kind>, Error> {
    let by_pmu = by_pmu(tree, online)?;
    if !by_pmu.is_empty() {
        return Ok(by_pmu);
    }
    for source in [
        KindSource::Capacity,
        KindSource::Cppc,
        KindSource::BaseFrequency,
        KindSource::MaxFrequency,
    ] {
        if let Some(values) = values(tree, online, source)? {
            return Ok(cut(values, source));
        }
    }
    Ok(Vec::new())
}

/// Reads the kinds from the lists of the PMUs.
fn by_pmu(tree: &Tree, online: &CpuSet) -> Result<Vec<Kind>, Error> {
    let mut kinds = Vec::new();
    let mut covered = CpuSet::new();
    for pmu in PMUS {
        let reported = tree
            .list(&format!("sys/devices/{pmu}/cpus"))?
            .unwrap_or_default();
        let pus = &(&reported & online) - &covered;
        if !pus.is_empty() {
            covered = &covered | &pus;
            kinds.push(Kind {
                rank: kinds.len(),
                pus,
                source: KindSource::Pmu,
            });
        }
    }
    Ok(if covered == *online {
        kinds
    } else {
        Vec::new()
    })
}

/// Returns the value of each online PU, or `None` unless every PU has one.
fn values(
    tree: &Tree,
    online: &CpuSet,
    source: KindSource,
) -> Result<Option<Vec<(i64, usize)>>, Error> {
    let mut values = Vec::with_capacity(online.len());
    for pu in online.iter() {
        match value(tree, pu, source)? {
            Some(value) if value > 0 => values.push((value, pu)),
            _ => return Ok(None),
        }
    }
    Ok(Some(values))
}

fn value(tree: &Tree, pu: usize, source: KindSource) -> Result<Option<i64>, Error> {
    let frequency = |name: &str| match tree.number(&format!("{CPU}/cpu{pu}/cpufreq/{name}"))? {
        Some(value) => Ok(Some(value)),
        // In a captured tree the link from the PU to its policy may be missing.
        None => tree.number(&format!("{CPU}/cpufreq/policy{pu}/{name}")),
    };
    match source {
        KindSource::Capacity => tree.number(&format!("{CPU}/cpu{pu}/cpu_capacity")),
        KindSource::Cppc => tree.number(&format!("{CPU}/cpu{pu}/acpi_cppc/nominal_perf")),
        KindSource::BaseFrequency => frequency("base_frequency"),
        KindSource::MaxFrequency => frequency("cpuinfo_max_freq"),
        KindSource::Pmu | KindSource::Description => Ok(None),
    }
}

/// Sorts the values and splits them at gaps.
fn cut(mut values: Vec<(i64, usize)>, source: KindSource) -> Vec<Kind> {
    values.sort_unstable();
    let apart = |low: i64, high: i64| {
        high - low > low / 100 * gap_percent(source) + low % 100 * gap_percent(source) / 100
    };
    values
        .chunk_by(|(low, _), (high, _)| !apart(*low, *high))
        .enumerate()
        .map(|(rank, run)| Kind {
            rank,
            pus: run.iter().map(|&(_, pu)| pu).collect(),
            source,
        })
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
        cut(values, source)
            .iter()
            .map(|kind| kind.pus.to_string())
            .collect()
    }

    #[test]
    fn favoured_cores_are_not_a_kind() {
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
