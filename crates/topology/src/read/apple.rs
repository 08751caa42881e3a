//! The machine as the sysctl names of macOS describe it.
//!
//! Apple's systems report counts for each performance level, and not which core has which number.
//! We number the PUs ourselves. Like the kernel on Apple silicon, we begin with the cores of the
//! slowest level. No thread can be pinned there, so nobody depends on these numbers.
//!
//! Source: sysctl(3) of macOS 12 and later (`hw.nperflevels`, `hw.perflevelN.*`; level 0 is the
//! fastest); `hw.physicalcpu` and `hw.logicalcpu` on older systems and on Intel's processors.

use crate::types::{Cache, CacheKind, CpuSet, Kind, KindSource, Parts};

/// Returns the machine. `value` returns the value of a sysctl name, if it exists. Returns `None`
/// if there are no counts, or if they contradict each other.
pub(crate) fn machine(value: &dyn Fn(&str) -> Option<u64>) -> Option<Parts> {
    let number = |name: &str| usize::try_from(value(name)?).ok();
    let levels = number("hw.nperflevels").filter(|levels| (1..=8).contains(levels));
    let mut parts = Parts::default();
    let mut begin = 0;
    // We begin with the slowest performance level, which has the highest number.
    for level in (0..levels.unwrap_or(1)).rev() {
        let key = |name: &str| match levels {
            Some(_) => format!("hw.perflevel{level}.{name}"),
            None => format!("hw.{name}"),
        };
        let (cores, pus) = (number(&key("physicalcpu"))?, number(&key("logicalcpu"))?);
        if cores == 0 || pus % cores != 0 || begin + pus > CpuSet::INDEX_MAX {
            return None;
        }
        let all = begin..begin + pus;
        parts.siblings.extend(pieces(all.clone(), pus / cores));
        for (cache, size) in [(2, "l2cachesize"), (3, "l3cachesize")] {
            let size_bytes = value(&key(size)).filter(|bytes| *bytes > 0);
            let sharers = number(&key(&format!("cpusperl{cache}")))
                .filter(|sharers| (1..=pus).contains(sharers));
            let (Some(_), Some(sharers)) = (size_bytes, sharers) else {
                continue;
            };
            parts
                .caches
                .extend(pieces(all.clone(), sharers).map(|pus| Cache {
                    level: cache,
                    kind: CacheKind::Unified,
                    size_bytes,
                    pus,
                }));
        }
        if levels.is_some_and(|levels| levels > 1) {
            parts.kinds.push(Kind {
                rank: parts.kinds.len(),
                pus: CpuSet::from_iter(all.clone()),
                source: KindSource::PerformanceLevel,
            });
        }
        begin = all.end;
    }
    parts.online = CpuSet::range(0..=begin.checked_sub(1)?);
    Some(parts)
}

/// Divides consecutive PUs into sets of `len`.
fn pieces(pus: std::ops::Range<usize>, len: usize) -> impl Iterator<Item = CpuSet> {
    let end = pus.end;
    let set = move |first: usize| CpuSet::range(first..=(first + len).min(end) - 1);
    pus.step_by(len).map(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(text: &str) -> Option<Parts> {
        let values: HashMap<&str, u64> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.trim(), value.trim().parse().unwrap()))
            .collect();
        machine(&|name| values.get(name).copied())
    }

    #[test]
    fn an_apple_processor_has_two_kinds_and_shared_caches() {
        // A processor with 8 fast cores in two clusters and 2 slow cores.
        let parts = read(
            "hw.nperflevels: 2
            hw.perflevel0.physicalcpu: 8
            hw.perflevel0.logicalcpu: 8
            hw.perflevel0.l2cachesize: 12582912
            hw.perflevel0.cpusperl2: 4
            hw.perflevel1.physicalcpu: 2
            hw.perflevel1.logicalcpu: 2
            hw.perflevel1.l2cachesize: 4194304
            hw.perflevel1.cpusperl2: 2
            hw.physicalcpu: 10
            hw.logicalcpu: 10",
        )
        .unwrap();
        assert_eq!(parts.online.to_string(), "0-9");
        assert_eq!(parts.siblings.len(), 10);
        let kinds: Vec<_> = parts.kinds.iter().map(|k| k.pus.to_string()).collect();
        assert_eq!(kinds, ["0-1", "2-9"], "the slowest first");
        let caches: Vec<_> = parts.caches.iter().map(|c| c.pus.to_string()).collect();
        assert_eq!(caches, ["0-1", "2-5", "6-9"]);
        assert_eq!(parts.caches[0].size_bytes, Some(4 << 20));
    }

    #[test]
    fn hyper_threads_of_an_intel_processor_are_one_core() {
        let parts = read("hw.physicalcpu: 4\nhw.logicalcpu: 8").unwrap();
        let cores: Vec<_> = parts.siblings.iter().map(CpuSet::to_string).collect();
        assert_eq!(cores, ["0-1", "2-3", "4-5", "6-7"]);
        assert!(parts.kinds.is_empty() && parts.caches.is_empty());
    }

    #[test]
    fn counts_that_contradict_each_other_describe_no_machine() {
        assert!(read("").is_none());
        assert!(read("hw.physicalcpu: 0\nhw.logicalcpu: 8").is_none());
        assert!(read("hw.physicalcpu: 3\nhw.logicalcpu: 8").is_none());
        assert!(read("hw.nperflevels: 2\nhw.perflevel0.physicalcpu: 8").is_none());
        assert!(read("hw.physicalcpu: 1\nhw.logicalcpu: 99999999").is_none());
    }
}
