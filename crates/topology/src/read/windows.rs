//! The machine as Windows describes it.
//!
//! `GetLogicalProcessorInformationEx` fills a buffer with records of different lengths. We read
//! them from bytes, so that captured buffers can be read on any system. PU number 64 × g + n is the
//! processor n of the processor group g.
//!
//! Source: winnt.h and the documentation of `SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX` and
//! `JOBOBJECT_CPU_RATE_CONTROL_INFORMATION`.

use crate::types::{
    Cache, CacheKind, Constraint, CpuSet, Die, Kind, KindSource, NumaNode, Package, Parts, Rule,
};

/// The maximum number of PUs in a processor group.
pub(crate) const GROUP_PUS: usize = 64;

// The relations of records.
const CORE: u32 = 0;
const NUMA_NODE: u32 = 1;
const CACHE: u32 = 2;
const PACKAGE: u32 = 3;
const GROUP: u32 = 4;
const DIE: u32 = 5;
const NUMA_NODE_OF_GROUPS: u32 = 6;

// The flags of the CPU rate of a job object.
const ENABLED: u32 = 1;
const WEIGHT: u32 = 2;
const HARD_CAP: u32 = 4;
const MIN_MAX: u32 = 16;

/// Reads the records of a buffer. `word` is the size of a pointer in bytes. Records that are cut or
/// unknown are left out.
pub(crate) fn machine(mut bytes: &[u8], word: usize) -> Parts {
    let mut parts = Parts::default();
    let mut classes: Vec<(u8, CpuSet)> = Vec::new();
    while let Some((relation, len)) = u32_at(bytes, 0).zip(u32_at(bytes, 4)) {
        let len = len as usize;
        let Some(record) = bytes.get(..len).filter(|_| len >= 8) else {
            break;
        };
        bytes = &bytes[len..];
        let record = Record {
            bytes: record,
            word,
        };
        let os_index = None;
        match relation {
            CORE => {
                let pus = record.masks(30, 32);
                let class = record.bytes.get(9).copied().unwrap_or(0);
                match classes.iter_mut().find(|(other, _)| *other == class) {
                    Some((_, all)) => *all = &*all | &pus,
                    None => classes.push((class, pus.clone())),
                }
                parts.siblings.push(pus);
            }
            PACKAGE => {
                let pus = record.masks(30, 32);
                parts.packages.push(Package { os_index, pus });
            }
            DIE => {
                let pus = record.masks(30, 32);
                parts.dies.push(Die { os_index, pus });
            }
            NUMA_NODE | NUMA_NODE_OF_GROUPS => {
                let pus = record.masks(30, 32);
                let os_index = u32_at(record.bytes, 8).unwrap_or(0) as usize;
                // Windows may report a NUMA node twice, once with each of these two relations
                // (`RelationNumaNode` and `RelationNumaNodeEx`). We keep the last record.
                parts.nodes.retain(|node| node.os_index != os_index);
                parts.nodes.push(NumaNode {
                    os_index,
                    has_pus: !pus.is_empty(),
                    pus,
                    memory_bytes: None,
                });
            }
            CACHE => parts.caches.extend(record.cache()),
            GROUP => parts.online = record.active_pus(),
            _ => (),
        }
    }
    parts.siblings.retain(|pus| !pus.is_empty());
    parts.packages.retain(|package| !package.pus.is_empty());
    // A list with one die per package adds no information.
    if parts.dies.len() <= parts.packages.len() {
        parts.dies.clear();
    }
    if parts.online.is_empty() {
        parts.online = parts
            .siblings
            .iter()
            .fold(CpuSet::new(), |all, core| &all | core);
    }
    classes.sort_by_key(|(class, _)| *class);
    if classes.len() > 1 {
        let kind = |(rank, (_, pus))| Kind {
            rank,
            pus,
            source: KindSource::EfficiencyClass,
        };
        parts.kinds = classes.into_iter().enumerate().map(kind).collect();
    }
    parts
}

/// Returns the hard limit of a job object as a quota on a machine with `pus` PUs. Returns `None` if
/// the job sets no hard limit.
pub(crate) fn job_quota(flags: u32, value: u32, pus: usize) -> Option<Constraint> {
    if flags & ENABLED == 0 || flags & WEIGHT != 0 {
        return None;
    }
    // The CPU rate is in hundredths of a percent of the whole machine.
    let rate = match () {
        () if flags & MIN_MAX != 0 => value >> 16,
        () if flags & HARD_CAP != 0 => value,
        () => return None,
    };
    let (most, rate) = (10_000, u64::from(rate));
    (1..most).contains(&rate).then(|| Constraint {
        path: "the job object's CPU rate".into(),
        generation: 0,
        rule: Rule::Quota {
            quota_us: rate * pus as u64,
            period_us: most,
        },
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

struct Record<'a> {
    bytes: &'a [u8],
    word: usize,
}

impl Record<'_> {
    /// Returns the union of the group masks, whose number is at `count` and which begin at `first`.
    fn masks(&self, count: usize, first: usize) -> CpuSet {
        // Windows builds before 20348 leave the number of masks of a NUMA node at 0.
        let masks = u16_at(self.bytes, count).unwrap_or(0).max(1);
        // Each element of the list has a mask, the number of its processor group, and three
        // reserved numbers.
        let len = self.word + 8;
        let mut pus = CpuSet::new();
        for at in (0..usize::from(masks)).map(|n| first + n * len) {
            let (Some(mask), Some(group)) = (self.mask(at), u16_at(self.bytes, at + self.word))
            else {
                break;
            };
            insert(&mut pus, usize::from(group), mask);
        }
        pus
    }

    fn mask(&self, at: usize) -> Option<u64> {
        let low = u64::from(u32_at(self.bytes, at)?);
        match self.word {
            4 => Some(low),
            _ => Some(low | u64::from(u32_at(self.bytes, at + 4)?) << 32),
        }
    }

    fn cache(&self) -> Option<Cache> {
        let level = *self.bytes.get(8)?;
        let kind = match u32_at(self.bytes, 16)? {
            0 => CacheKind::Unified,
            1 => CacheKind::Instruction,
            2 => CacheKind::Data,
            _ => return None,
        };
        let pus = self.masks(38, 40);
        ((1..=8).contains(&level) && !pus.is_empty()).then(|| Cache {
            level,
            kind,
            size_bytes: u32_at(self.bytes, 12)
                .map(u64::from)
                .filter(|size| *size > 0),
            pus,
        })
    }

    /// Returns the active PUs of a record about the groups.
    fn active_pus(&self) -> CpuSet {
        let groups = usize::from(u16_at(self.bytes, 10).unwrap_or(0));
        let mut pus = CpuSet::new();
        // Each group has two counts, 38 reserved bytes, and a mask.
        for (group, at) in (0..groups).map(|n| (n, 32 + n * (40 + self.word))) {
            match self.mask(at + 40) {
                Some(mask) => insert(&mut pus, group, mask),
                None => break,
            }
        }
        pus
    }
}

/// Adds the PUs of a group's mask.
pub(crate) fn insert(pus: &mut CpuSet, group: usize, mut mask: u64) {
    while mask != 0 {
        let pu = group * GROUP_PUS + mask.trailing_zeros() as usize;
        if pu <= CpuSet::INDEX_MAX {
            pus.insert(pu);
        }
        mask &= mask - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the records that Windows would return.
    #[derive(Default)]
    struct Buffer(Vec<u8>);

    impl Buffer {
        fn record(&mut self, relation: u32, body: &[u8]) {
            self.0.extend(relation.to_le_bytes());
            self.0.extend((body.len() as u32 + 8).to_le_bytes());
            self.0.extend(body);
        }

        /// Adds the record of a core, package, die or node. `head` has the first bytes of its body.
        fn masks(&mut self, relation: u32, head: &[u8], masks: &[(u16, u64)]) {
            let mut body = vec![0; 22];
            body[..head.len()].copy_from_slice(head);
            body.extend((masks.len() as u16).to_le_bytes());
            body.extend(group_masks(masks));
            self.record(relation, &body);
        }

        fn cache(&mut self, level: u8, kind: u32, size: u32, masks: &[(u16, u64)]) {
            let mut body = vec![level, 8, 64, 0];
            body.extend(size.to_le_bytes());
            body.extend(kind.to_le_bytes());
            body.extend([0; 18]);
            body.extend((masks.len() as u16).to_le_bytes());
            body.extend(group_masks(masks));
            self.record(CACHE, &body);
        }

        fn groups(&mut self, active: &[u64]) {
            let mut body = (active.len() as u16).to_le_bytes().repeat(2);
            body.extend([0; 20]);
            for mask in active {
                body.extend([64, mask.count_ones() as u8]);
                body.extend([0; 38]);
                body.extend(mask.to_le_bytes());
            }
            self.record(GROUP, &body);
        }
    }

    fn group_masks(masks: &[(u16, u64)]) -> Vec<u8> {
        let one = |(group, mask): &(u16, u64)| {
            let mut bytes = mask.to_le_bytes().to_vec();
            bytes.extend(group.to_le_bytes());
            bytes.extend([0; 6]);
            bytes
        };
        masks.iter().flat_map(one).collect()
    }

    /// Returns the records of a notebook. It has two fast cores with two hardware threads each, and
    /// two slow cores with one each.
    fn notebook() -> Buffer {
        let mut buffer = Buffer::default();
        buffer.masks(CORE, &[1, 1], &[(0, 0b11)]);
        buffer.masks(CORE, &[1, 1], &[(0, 0b1100)]);
        buffer.masks(CORE, &[0, 0], &[(0, 1 << 4)]);
        buffer.masks(CORE, &[0, 0], &[(0, 1 << 5)]);
        buffer.masks(PACKAGE, &[], &[(0, 0x3f)]);
        buffer.masks(DIE, &[], &[(0, 0x3f)]);
        buffer.masks(NUMA_NODE, &[0; 4], &[(0, 0x3f)]);
        buffer.cache(3, 0, 12 << 20, &[(0, 0x3f)]);
        buffer.cache(1, 1, 32 << 10, &[(0, 0b11)]);
        buffer.groups(&[0x3f]);
        buffer
    }

    #[test]
    fn a_notebook_has_two_kinds_of_cores() {
        let parts = machine(&notebook().0, 8);
        assert_eq!(parts.online.to_string(), "0-5");
        let cores: Vec<_> = parts.siblings.iter().map(CpuSet::to_string).collect();
        assert_eq!(cores, ["0-1", "2-3", "4", "5"]);
        let kinds: Vec<_> = parts.kinds.iter().map(|k| k.pus.to_string()).collect();
        assert_eq!(kinds, ["4-5", "0-3"], "the slowest first");
        assert!(parts.dies.is_empty(), "one die per package says nothing");
        let caches: Vec<_> = parts.caches.iter().map(|c| (c.level, c.kind)).collect();
        assert_eq!(
            caches,
            [(3, CacheKind::Unified), (1, CacheKind::Instruction)]
        );
        assert_eq!(parts.nodes.len(), 1);
    }

    #[test]
    fn a_server_has_several_processor_groups() {
        let mut buffer = Buffer::default();
        for group in 0..2 {
            for core in 0..48 {
                buffer.masks(CORE, &[0, 0], &[(group, 1 << core)]);
            }
            buffer.masks(
                NUMA_NODE,
                &u32::from(group).to_le_bytes(),
                &[(group, (1 << 48) - 1)],
            );
        }
        buffer.masks(PACKAGE, &[], &[(0, (1 << 48) - 1), (1, (1 << 48) - 1)]);
        buffer.groups(&[(1 << 48) - 1; 2]);
        let parts = machine(&buffer.0, 8);
        assert_eq!(parts.online.to_string(), "0-47,64-111");
        assert_eq!(parts.siblings.len(), 96);
        assert_eq!(parts.packages[0].pus, parts.online);
        assert_eq!(parts.nodes[1].pus.to_string(), "64-111");
        assert!(parts.kinds.is_empty());
    }

    #[test]
    fn truncated_and_unknown_records_are_ignored() {
        let whole = notebook().0;
        let mut unknown = Buffer::default();
        unknown.record(99, &[7; 30]);
        unknown.0.extend(&whole);
        assert_eq!(machine(&unknown.0, 8).siblings.len(), 4);
        for len in 0..whole.len() {
            let parts = machine(&whole[..len], 8);
            assert!(parts.siblings.len() <= 4 && parts.online.len() <= 6);
        }
        assert!(machine(&[0; 64], 8).siblings.is_empty(), "no endless loop");
    }

    #[test]
    fn only_a_hard_cap_of_a_job_is_a_quota() {
        let quota = |flags, value| match job_quota(flags, value, 8)?.rule {
            Rule::Quota {
                quota_us,
                period_us,
            } => Some(quota_us as f64 / period_us as f64),
            _ => None,
        };
        assert_eq!(quota(ENABLED | HARD_CAP, 2_500), Some(2.0));
        assert_eq!(quota(ENABLED | MIN_MAX, 5_000 << 16 | 1_000), Some(4.0));
        assert_eq!(quota(ENABLED | HARD_CAP, 10_000), None, "the whole machine");
        assert_eq!(quota(ENABLED | WEIGHT, 5), None);
        assert_eq!(quota(ENABLED, 2_500), None, "not a hard cap");
        assert_eq!(quota(HARD_CAP, 2_500), None);
    }
}
