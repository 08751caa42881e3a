//! Machines from a description, so that tests do not need large machines.

use crate::types::{
    Cache, CacheKind, CpuSet, Die, Error, Kind, KindSource, NumaNode, Package, Parts,
};

/// The levels of a description, from the outside in.
const LEVELS: [&str; 9] = [
    "package", "die", "numa", "l4", "l3", "l2", "l1", "core", "pu",
];
const CORE: usize = 7;
const PU: usize = 8;

/// A parsed description. It has the number of objects of each level in one object of the level
/// before. The last two levels have a number for each kind of core.
struct Shape {
    counts: [Option<usize>; CORE],
    kinds: Vec<CoreKind>,
}

struct CoreKind {
    cores: usize,
    pus: usize,
}

/// Builds the parts of a machine from a description.
///
/// # Errors
///
/// Returns [`Error::Syntax`] if the description has a mistake.
pub(crate) fn parts(description: &str) -> Result<Parts, Error> {
    let bad = |reason: String| Error::syntax("synthetic machine", description, reason);
    let shape = parse(description).map_err(bad)?;
    let pus_in_innermost: usize = shape
        .kinds
        .iter()
        .map(|kind| kind.cores.saturating_mul(kind.pus))
        .fold(0, usize::saturating_add);
    let pus = shape
        .counts
        .iter()
        .flatten()
        .fold(pus_in_innermost, |all, &count| all.saturating_mul(count));
    if pus > CpuSet::INDEX_MAX + 1 {
        return Err(bad(format!(
            "the machine has more than {} PUs",
            CpuSet::INDEX_MAX + 1
        )));
    }
    Ok(build(&shape, pus))
}

fn parse(description: &str) -> Result<Shape, String> {
    let mut counts: [Option<Vec<usize>>; LEVELS.len()] = Default::default();
    let mut outermost_left = 0;
    for word in description.split_whitespace() {
        let (name, numbers) = word
            .split_once(':')
            .ok_or_else(|| format!("\"{word}\" has no number: expected LEVEL:N"))?;
        let level = LEVELS
            .iter()
            .position(|level| *level == name.to_ascii_lowercase());
        let level = level.ok_or_else(|| {
            format!(
                "unknown level \"{name}\": expected one of {}",
                LEVELS.join(", ")
            )
        })?;
        if level < outermost_left {
            return Err(format!(
                "\"{name}\" is repeated, or comes after a level inside it"
            ));
        }
        outermost_left = level + 1;
        let numbers = numbers
            .split('+')
            .map(|number| count(number, word))
            .collect::<Result<Vec<_>, _>>()?;
        if numbers.len() > 1 && level < CORE {
            return Err(format!(
                "\"{word}\": only core and pu may have several kinds (N+N)"
            ));
        }
        counts[level] = Some(numbers);
    }
    if outermost_left == 0 {
        return Err("the description is empty".into());
    }
    let kinds = core_kinds(counts[CORE].take(), counts[PU].take())?;
    let mut shape = Shape {
        counts: [None; CORE],
        kinds,
    };
    for (slot, numbers) in shape.counts.iter_mut().zip(counts) {
        *slot = numbers.map(|numbers| numbers[0]);
    }
    Ok(shape)
}

/// Parses a number of objects.
fn count(number: &str, word: &str) -> Result<usize, String> {
    let count = number
        .parse()
        .ok()
        .filter(|count| (1..=CpuSet::INDEX_MAX + 1).contains(count));
    count.ok_or_else(|| {
        format!(
            "\"{word}\" needs whole numbers from 1 to {}",
            CpuSet::INDEX_MAX + 1
        )
    })
}

/// Combines the numbers of cores and of PUs per core into kinds of cores.
fn core_kinds(cores: Option<Vec<usize>>, pus: Option<Vec<usize>>) -> Result<Vec<CoreKind>, String> {
    let cores = cores.unwrap_or_else(|| vec![1]);
    let pus = pus.unwrap_or_else(|| vec![1]);
    if pus.len() != 1 && pus.len() != cores.len() {
        return Err(format!(
            "there are {} kinds of cores, but numbers of PUs for {}",
            cores.len(),
            pus.len()
        ));
    }
    let pus_of = |kind: usize| pus[kind.min(pus.len() - 1)];
    Ok(cores
        .iter()
        .enumerate()
        .map(|(kind, &cores)| CoreKind {
            cores,
            pus: pus_of(kind),
        })
        .collect())
}

/// Builds the parts. PUs are numbered in order, so that the PUs of a core have neighbouring
/// numbers.
fn build(shape: &Shape, pus: usize) -> Parts {
    let online = CpuSet::range(0..=pus - 1);
    let mut parts = Parts {
        online,
        ..Parts::default()
    };
    let mut objects = 1;
    for (level, count) in shape.counts.iter().enumerate() {
        let Some(count) = count else { continue };
        objects *= count;
        let width = pus / objects;
        for object in 0..objects {
            add_object(
                &mut parts,
                level,
                object,
                CpuSet::range(object * width..=(object + 1) * width - 1),
            );
        }
    }
    add_cores(&mut parts, shape, objects);
    parts
}

/// Adds one object of a level above the cores.
fn add_object(parts: &mut Parts, level: usize, object: usize, pus: CpuSet) {
    match LEVELS[level] {
        "package" => parts.packages.push(Package {
            os_index: Some(object),
            pus,
        }),
        "die" => parts.dies.push(Die {
            os_index: Some(object),
            pus,
        }),
        "numa" => parts.nodes.push(NumaNode {
            os_index: object,
            pus,
            has_pus: true,
            memory_bytes: None,
        }),
        _ => {
            let level = u8::try_from(CORE - level).unwrap_or(0);
            parts.caches.push(Cache {
                level,
                kind: CacheKind::Unified,
                size_bytes: None,
                pus,
            });
        }
    }
}

/// Adds the cores. In each innermost object the kinds follow one another, from the fastest to the
/// slowest.
fn add_cores(parts: &mut Parts, shape: &Shape, objects: usize) {
    let mut next = 0;
    let mut pus_of_kind = vec![CpuSet::new(); shape.kinds.len()];
    for _ in 0..objects {
        for (kind, pus_of_kind) in shape.kinds.iter().zip(&mut pus_of_kind) {
            for _ in 0..kind.cores {
                let core = CpuSet::range(next..=next + kind.pus - 1);
                next += kind.pus;
                pus_of_kind.extend(core.iter());
                parts.siblings.push(core);
            }
        }
    }
    if shape.kinds.len() > 1 {
        let slowest_first = pus_of_kind.into_iter().rev().enumerate();
        parts.kinds = slowest_first
            .map(|(rank, pus)| Kind {
                rank,
                pus,
                source: KindSource::Description,
            })
            .collect();
    }
}
