//! Computes the logical order of PUs, and a core of its own for each PU without known siblings.

use crate::types::CpuSet;

/// Returns the sibling sets (the PUs of each core), and a set of one PU for each online PU that is
/// in no sibling set.
pub(super) fn with_lone_pus(siblings: Vec<CpuSet>, online: &CpuSet) -> Vec<CpuSet> {
    let known = siblings.iter().fold(CpuSet::new(), |all, pus| &all | pus);
    let lone = (online - &known)
        .iter()
        .map(|pu| CpuSet::from_iter([pu]))
        .collect::<Vec<_>>();
    siblings.into_iter().chain(lone).collect()
}

/// Returns the online PUs in logical order. They are sorted by the first PU of the widest object
/// around them, then by the first PU of the next narrower object, and so on.
pub(super) fn logical(online: &CpuSet, levels: &[Vec<&CpuSet>]) -> Vec<usize> {
    let mut keys: Vec<(Vec<usize>, usize)> = online
        .iter()
        .map(|pu| (Vec::with_capacity(levels.len()), pu))
        .collect();
    for sets in levels {
        let mut firsts = vec![usize::MAX; online.last().map_or(0, |last| last + 1)];
        for (pu, first) in sets
            .iter()
            .flat_map(|set| set.iter().map(|pu| (pu, set.first().unwrap_or(pu))))
        {
            if let Some(slot) = firsts.get_mut(pu) {
                *slot = first;
            }
        }
        for (key, pu) in &mut keys {
            key.push(firsts[*pu]);
        }
    }
    keys.sort();
    keys.into_iter().map(|(_, pu)| pu).collect()
}
