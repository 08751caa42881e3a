//! The placement policies, and their names on a command line.

use std::fmt;
use std::str::FromStr;

use crate::types::{CpuSet, Error};

/// Where workers sit. [`place`](crate::place) turns a policy into one [`CpuSet`] a worker.
///
/// No policy that chooses cores puts two workers on one before every core it uses has one.
///
/// | your program | take |
/// |---|---|
/// | loops over data that stays, alone on its machine | `Cores` |
/// | the same, where workers talk a lot | `Close` |
/// | the same, where memory's bandwidth is what lacks | `Spread` |
/// | hyper-threads do pay: light, independent work | `Pus` |
/// | one that shares the machine, blocks, or runs batches; tasks and sockets | `Unpinned` |
/// | tables as large as a cache, or memory of one node | `PerCache`, `PerNode` |
/// | loops whose slowest worker decides, on cores of several kinds | `FastCores` |
/// | a device, an interrupt or an operator decides | `List` |
///
/// Measure before you pin: it has cost as often as it has paid.
///
/// ```
/// use creel_topology::{Machine, Placement, place};
///
/// let machine = Machine::synthetic("package:2 core:2")?;
/// let close = place(&machine, machine.allowed(), 2, &Placement::Close)?;
/// let spread = place(&machine, machine.allowed(), 2, &Placement::Spread)?;
/// assert_eq!((close.seats()[1].first(), spread.seats()[1].first()), (Some(1), Some(2)));
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// Anywhere among the allowed PUs: the system moves workers as it likes.
    #[default]
    Unpinned,
    /// A core each (all its allowed PUs), the fastest kind first.
    Cores,
    /// A PU each: first one PU of every core, then the second ones, and so on.
    Pus,
    /// A core each, as near together as possible: within one cache, node or package if they fit.
    /// More workers than cores: neighbours share.
    Close,
    /// A core each, as far apart as possible: even over packages, then nodes, then caches.
    Spread,
    /// Last-level caches in turn; a worker may move among the PUs that share the cache.
    PerCache,
    /// NUMA nodes in turn; a worker may move among the PUs of the node.
    PerNode,
    /// A core each of the fastest kind only; all cores where kinds are not told.
    FastCores,
    /// These sets in turn.
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
    /// The names of all policies without arguments.
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

/// Reads a name, or a list: `0,2,4-7` is a PU a worker in this order, `{0-3},{4-7}` a set a
/// worker (the notation of OpenMP's `OMP_PLACES`).
///
/// Errors: [`Error::Syntax`], which names the mistake.
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

fn braced_sets(text: &str) -> Result<Vec<CpuSet>, Error> {
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| Error::syntax("placement", text, "a brace is missing"))?;
    let sets: Vec<CpuSet> = inner
        .split("},{")
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    match sets.iter().any(CpuSet::is_empty) {
        true => Err(Error::syntax("placement", text, "a set is empty")),
        false => Ok(sets),
    }
}

fn one_pu_each(text: &str) -> Result<Vec<CpuSet>, Error> {
    let ranges: Vec<CpuSet> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    if ranges.iter().any(CpuSet::is_empty) {
        return Err(Error::syntax("placement", text, "a PU is missing"));
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
    fn names_and_lists_read_as_written() {
        for text in ["unpinned", "per-cache", "fast-cores", "{0},{2},{4-7}"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        assert_eq!(
            "4,0-1".parse::<Placement>().unwrap().to_string(),
            "{4},{0},{1}"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("", "give one of"),
            ("core", "give one of"),
            ("{0-3", "brace"),
            ("{0},{}", "empty"),
            ("{0},{x}", "no number"),
            ("0,,1", "missing"),
            ("3-1", "backwards"),
        ] {
            let error = text.parse::<Placement>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
