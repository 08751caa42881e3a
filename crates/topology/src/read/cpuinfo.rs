//! Reads the machine from `/proc`, for kernels and sandboxes without `/sys`.
//!
//! `proc/cpuinfo` lists the online PUs, and on x86 also the package and core of each PU. Other
//! architectures use other fields, so cores and packages remain empty there. If the file lists no
//! PUs, we take them from `proc/stat`.

use std::collections::BTreeMap;

use super::tree::Tree;
use crate::types::{CpuSet, Package};

/// The fields of one PU.
#[derive(Default)]
struct Processor {
    pu: usize,
    package: Option<usize>,
    core: Option<usize>,
    siblings: Option<usize>,
    cores: Option<usize>,
}

/// The PUs in the order of the file.
#[derive(Default)]
pub(crate) struct Cpuinfo {
    processors: Vec<Processor>,
}

impl Cpuinfo {
    /// Reads `proc/cpuinfo`. If the file is missing, the list is empty.
    pub(crate) fn read(tree: &Tree) -> Cpuinfo {
        Cpuinfo::parse(&tree.long_text("proc/cpuinfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Cpuinfo {
        let mut processors: Vec<Processor> = Vec::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, number) = (key.trim(), value.trim().parse().ok());
            if let Some(pu) = new_pu(key, number) {
                processors.push(Processor {
                    pu,
                    ..Processor::default()
                });
            } else if let Some(processor) = processors.last_mut() {
                match key {
                    "physical id" => processor.package = number,
                    "core id" => processor.core = number,
                    "siblings" => processor.siblings = number,
                    "cpu cores" => processor.cores = number,
                    _ => {}
                }
            }
        }
        Cpuinfo { processors }
    }

    /// Returns the PUs of this file, or those of `proc/stat` if this file lists none.
    pub(crate) fn online(&self, tree: &Tree) -> CpuSet {
        let online: CpuSet = self
            .processors
            .iter()
            .map(|processor| processor.pu)
            .collect();
        if online.is_empty() {
            in_stat(&tree.long_text("proc/stat").unwrap_or_default())
        } else {
            online
        }
    }

    /// Returns the PUs of each package. The list is empty if the file gives no package for some PU
    /// in `online`.
    pub(crate) fn packages(&self, online: &CpuSet) -> Vec<Package> {
        let groups = self.grouped(online, |processor| processor.package);
        groups
            .into_iter()
            .map(|(number, pus)| Package {
                os_index: Some(number),
                pus,
            })
            .collect()
    }

    /// Returns the PUs of each core. The list is empty if the file gives no core for some PU in
    /// `online`.
    ///
    /// The number of a core is unique only within its package. We ignore it if the package has as
    /// many siblings as cores, because each PU is a core then.
    pub(crate) fn cores(&self, online: &CpuSet) -> Vec<CpuSet> {
        let groups = self.grouped(online, |processor| {
            let alone = processor.siblings.is_some() && processor.siblings == processor.cores;
            let within = if alone { processor.pu } else { processor.core? };
            Some((processor.package?, within))
        });
        groups.into_values().collect()
    }

    /// Groups the PUs by a key. The result is empty if some PU in `online` has no key.
    fn grouped<K: Ord>(
        &self,
        online: &CpuSet,
        key: impl Fn(&Processor) -> Option<K>,
    ) -> BTreeMap<K, CpuSet> {
        let mut groups: BTreeMap<K, CpuSet> = BTreeMap::new();
        let mut reported = CpuSet::new();
        for processor in self
            .processors
            .iter()
            .filter(|processor| online.contains(processor.pu))
        {
            if let Some(key) = key(processor)
                && reported.insert(processor.pu)
            {
                groups.entry(key).or_default().insert(processor.pu);
            }
        }
        if reported == *online {
            groups
        } else {
            BTreeMap::new()
        }
    }
}

/// Returns the PUs that have a line of their own in `proc/stat`, `cpuN …`.
fn in_stat(stat: &str) -> CpuSet {
    let pus = stat.lines().filter_map(|line| {
        let name = line.split(' ').next()?;
        name.strip_prefix("cpu")?.parse().ok()
    });
    pus.filter(|&pu| pu <= CpuSet::INDEX_MAX).collect()
}

/// Returns the PU of a line that begins a new PU: `processor : N`, or on s390 `processor N: version
/// = …`.
fn new_pu(key: &str, number: Option<usize>) -> Option<usize> {
    let pu = match key.strip_prefix("processor")?.trim() {
        "" => number,
        inline => inline.parse().ok(),
    };
    pu.filter(|&pu| pu <= CpuSet::INDEX_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYPER_THREADED: &str = "\
processor\t: 0\nphysical id\t: 0\nsiblings\t: 4\ncore id\t\t: 0\ncpu cores\t: 2\n\n\
processor\t: 1\nphysical id\t: 0\nsiblings\t: 4\ncore id\t\t: 1\ncpu cores\t: 2\n\n\
processor\t: 2\nphysical id\t: 0\nsiblings\t: 4\ncore id\t\t: 0\ncpu cores\t: 2\n\n\
processor\t: 3\nphysical id\t: 0\nsiblings\t: 4\ncore id\t\t: 1\ncpu cores\t: 2\n";

    fn texts(sets: &[CpuSet]) -> Vec<String> {
        sets.iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn x86_cpuinfo_has_cores_and_packages() {
        let reported = Cpuinfo::parse(HYPER_THREADED);
        let online = CpuSet::range(0..=3);
        assert_eq!(texts(&reported.cores(&online)), ["0,2", "1,3"]);
        assert_eq!(reported.packages(&online).len(), 1);
    }

    #[test]
    fn repeated_core_ids_without_smt_are_separate_cores() {
        let reported = Cpuinfo::parse(&HYPER_THREADED.replace("cpu cores\t: 2", "cpu cores\t: 4"));
        assert_eq!(
            texts(&reported.cores(&CpuSet::range(0..=3))),
            ["0", "1", "2", "3"]
        );
    }

    #[test]
    fn other_architectures_list_pus_only() {
        let reported = Cpuinfo::parse(
            "# processors : 2\nprocessor 0: version = 00\nprocessor 7: version = 00\n",
        );
        assert_eq!(
            reported.processors.iter().map(|p| p.pu).collect::<Vec<_>>(),
            [0, 7]
        );
        assert!(reported.cores(&CpuSet::from_iter([0, 7])).is_empty());
    }
}
