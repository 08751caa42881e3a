//! The placement policies, and their names on a command line.

use std::fmt;
use std::str::FromStr;

use crate::types::{CpuSet, Error};

/// The policy that decides where workers run. [`place`](crate::place) turns it into one [`CpuSet`]
/// per worker.
///
/// A policy that chooses cores puts a second worker on a core only if every core that it uses
/// already has one.
///
/// | your program | policy |
/// |---|---|
/// | runs loops over data that stays in place, and is alone on its machine | `Cores` |
/// | runs such loops, and its workers communicate often | `Close` |
/// | runs such loops, and is limited by memory bandwidth | `Spread` |
/// | runs light, independent work that profits from hyper-threads | `Pus` |
/// | shares the machine, blocks, or runs batches, tasks or sockets | `Unpinned` |
/// | uses tables as large as a cache, or the memory of one node | `PerCache`, `PerNode` |
/// | runs loops that wait for the slowest worker, on several kinds of cores | `FastCores` |
/// | must follow a device, an interrupt or an operator | `List` |
///
/// Measure before you pin workers, because in our measurements pinning cost time as often as it
/// saved time.
///
/// ```
/// use creel_topology::{Machine, Placement, place};
///
/// let machine = Machine::synthetic("package:2 core:2")?;
/// let close = place(&machine, machine.allowed(), 2, &Placement::Close)?;
/// let spread = place(&machine, machine.allowed(), 2, &Placement::Spread)?;
/// assert_eq!((close.assigned()[1].first(), spread.assigned()[1].first()), (Some(1), Some(2)));
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Lets workers run on any allowed PU. The OS moves them as it likes.
    #[default]
    Unpinned,
    /// Gives each worker a core with all its allowed PUs. Cores of the fastest kind get workers
    /// first.
    Cores,
    /// Gives each worker a PU: first one PU of every core, then the second PU of every core, and so
    /// on.
    Pus,
    /// Gives each worker a core. The cores are as close to each other as possible: within one
    /// cache, node or package if that has enough cores. If there are more workers than cores,
    /// workers with neighbouring indices share a core.
    Close,
    /// Gives each worker a core. The cores are as far apart as possible: spread evenly over
    /// packages, then nodes, then caches.
    Spread,
    /// Assigns workers to last-level caches in turn. A worker may move among the PUs that share the
    /// cache.
    PerCache,
    /// Assigns workers to NUMA nodes in turn. A worker may move among the PUs of the node.
    PerNode,
    /// Gives each worker a core of the fastest kind. Uses all cores if the kinds are unknown.
    FastCores,
    /// Assigns workers to these sets in turn.
    List(Vec<CpuSet>),
}

/// The policies without arguments and their names.
const NAMES: [(&str, Placement); 8] = [
    ("unpinned", Placement::Unpinned),
    ("cores", Placement::Cores),
    ("pus", Placement::Pus),
    ("close", Placement::Close),
    ("spread", Placement::Spread),
    ("per-cache", Placement::PerCache),
    ("per-node", Placement::PerNode),
    ("fast-cores", Placement::FastCores),
];

impl Placement {
    /// Returns the names of all policies without arguments.
    ///
    /// ```
    /// use creel_topology::Placement;
    ///
    /// assert!(Placement::names().all(|name| name.parse::<Placement>().is_ok()));
    /// ```
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Placement::List(sets) = self {
            let texts: Vec<String> = sets.iter().map(|set| format!("{{{set}}}")).collect();
            return f.write_str(&texts.join(","));
        }
        let name = NAMES
            .iter()
            .find(|(_, placement)| placement == self)
            .map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// Parses a name or a list, in the notation of OpenMP's `OMP_PLACES`.
///
/// `0,2,4-7` gives each worker one PU in this order. `{0-3},{4-7}` gives each worker one set.
///
/// # Errors
///
/// Returns [`Error::Syntax`], which names the mistake.
impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Placement, Error> {
        let text = text.trim();
        if let Some((_, placement)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(placement.clone());
        }
        let sets = match text.chars().next() {
            Some('{') => braced_sets(text),
            Some(digit) if digit.is_ascii_digit() => one_pu_each(text),
            _ => {
                let names: Vec<&str> = Placement::names().collect();
                let reason = format!(
                    "give one of {}, PUs (0,2,4-7) or sets ({{0-3}},{{4-7}})",
                    names.join(", ")
                );
                return Err(Error::syntax("placement", text, reason));
            }
        };
        match sets {
            Ok(sets) => Ok(Placement::List(sets)),
            Err(Error::Syntax { reason, .. }) => Err(Error::syntax("placement", text, reason)),
            Err(other) => Err(other),
        }
    }
}

/// Parses sets in braces, for example `{0-3},{4-7}`.
fn braced_sets(text: &str) -> Result<Vec<CpuSet>, Error> {
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| {
        Error::syntax(
            "placement",
            text,
            "a brace is missing: write one set per worker, for example {0-3},{4-7}",
        )
    })?;
    let sets: Vec<CpuSet> = inner
        .split("},{")
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    match sets.iter().any(CpuSet::is_empty) {
        true => Err(Error::syntax("placement", text, "a set of PUs is empty")),
        false => Ok(sets),
    }
}

/// Parses a list of PUs and returns a set of one PU for each, in the order of the list.
fn one_pu_each(text: &str) -> Result<Vec<CpuSet>, Error> {
    let ranges: Vec<CpuSet> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    if ranges.iter().any(CpuSet::is_empty) {
        return Err(Error::syntax(
            "placement",
            text,
            "an item of the list of PUs is empty",
        ));
    }
    Ok(ranges
        .iter()
        .flat_map(CpuSet::iter)
        .map(|pu| CpuSet::from_iter([pu]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_names_and_lists_print_as_written() {
        for text in ["unpinned", "per-cache", "fast-cores", "{0},{2},{4-7}"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        assert_eq!(
            "4,0-1".parse::<Placement>().unwrap().to_string(),
            "{4},{0},{1}"
        );
    }

    #[test]
    fn errors_name_the_mistake() {
        for (text, reason) in [
            ("", "give one of"),
            ("core", "give one of"),
            ("{0-3", "brace"),
            ("{0},{}", "empty"),
            ("{0},{x}", "not a number"),
            ("0,,1", "empty"),
            ("3-1", "backwards"),
        ] {
            let error = text.parse::<Placement>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
