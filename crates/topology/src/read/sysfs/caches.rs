//! Caches, from the `cache` folder of each PU. The files `level` and `type` identify a cache, so
//! the caches of cores may differ.
//!
//! Invariant: caches of one level and type never overlap. We take the size and the sharing PUs of a
//! cache from the first PU that lists it.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu (`cache/indexN`).

use std::collections::BTreeMap;

use crate::read::tree::{CPU, Tree};
use crate::types::{Cache, CacheKind, CpuSet};

/// Reads every cache once. We skip a hyper-thread if it shares all caches with a sibling.
pub(super) fn read(tree: &Tree, asked: &CpuSet, siblings: &[CpuSet]) -> Vec<Cache> {
    let mut levels: BTreeMap<(u8, CacheKind), Vec<Cache>> = BTreeMap::new();
    let mut alike = CpuSet::new();
    for pu in asked.iter() {
        if alike.contains(pu) {
            continue;
        }
        let core = siblings.iter().find(|core| core.contains(pu));
        let core = core.map_or_else(|| CpuSet::from_iter([pu]), |core| core & asked);
        let indices = tree.numbered(&format!("{CPU}/cpu{pu}/cache"), "index");
        let mut sharing_all = if indices.is_empty() {
            CpuSet::new()
        } else {
            core.clone()
        };
        for index in indices {
            let folder = format!("{CPU}/cpu{pu}/cache/index{index}");
            let Some((level, kind)) = level_and_kind(tree, &folder) else {
                continue;
            };
            let known = levels.entry((level, kind)).or_default();
            let place = known.iter().position(|cache| cache.pus.contains(pu));
            let place = place.unwrap_or(known.len());
            if place == known.len() {
                let reported = sharers(tree, &folder).map(|reported| &reported & asked);
                let reported = reported
                    .filter(|reported| !reported.is_empty())
                    .unwrap_or_else(|| core.clone());
                let mut pus = known.iter().fold(reported, |pus, cache| &pus - &cache.pus);
                pus.insert(pu);
                let size_bytes = tree
                    .text(&format!("{folder}/size"))
                    .and_then(|text| size_bytes(&text));
                known.push(Cache {
                    level,
                    kind,
                    size_bytes,
                    pus,
                });
            }
            sharing_all = &sharing_all & &known[place].pus;
        }
        alike = &alike | &sharing_all;
    }
    levels.into_values().flatten().collect()
}

/// Returns the PUs that share a cache. Old IA-64 kernels do not report them for some caches, which
/// then belong to one core.
fn sharers(tree: &Tree, folder: &str) -> Option<CpuSet> {
    let (mask, list) = (
        format!("{folder}/shared_cpu_map"),
        format!("{folder}/shared_cpu_list"),
    );
    tree.mask_or_list(&mask, &list)
}

/// Returns the level and the contents of a cache, or `None` if the level is missing or invalid.
fn level_and_kind(tree: &Tree, folder: &str) -> Option<(u8, CacheKind)> {
    let level = tree.number(&format!("{folder}/level"))?;
    let kind = match tree.text(&format!("{folder}/type")).as_deref() {
        Some("Data") => CacheKind::Data,
        Some("Instruction") => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    u8::try_from(level)
        .ok()
        .filter(|level| (1..=8).contains(level))
        .map(|level| (level, kind))
}

/// Parses a size (`32K`, `8M` or a plain number) in bytes. A size of 0 means that it is unknown.
fn size_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
}
