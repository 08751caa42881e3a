//! What a plan of roads must be, that later code takes for granted.

use super::{Control, DEGREE_MAX, LINKS_MAX, Ms, NetworkError, RawNetwork};

/// How far from the origin a junction may be, in metres or degrees.
const PLACE_MAX: f64 = 1e9;

/// Checks all of it.
pub(super) fn check(raw: &RawNetwork) -> Result<(), NetworkError> {
    let fail = |reason: String| Err(NetworkError(reason));
    if raw.junctions.is_empty() || raw.links.is_empty() {
        return fail("a network has at least one junction and one road".into());
    }
    if raw.junctions.len().max(raw.links.len()) > LINKS_MAX {
        return fail(format!("more than {LINKS_MAX} junctions or roads"));
    }
    for (index, program) in raw.programs.iter().enumerate() {
        let whole =
            program.cycle_ms >= 1000 && program.cycle_ms <= 3_600_000 && !program.greens.is_empty();
        let fits = |&(from, to): &(Ms, Ms)| from < to && to <= program.cycle_ms;
        if !whole || !program.greens.iter().all(fits) {
            return fail(format!(
                "signal program {}: greens must lie within a cycle of 1 s to an hour",
                index + 1
            ));
        }
    }
    for (index, junction) in raw.junctions.iter().enumerate() {
        let name = || raw.junction_names.get(index as u32);
        let within = |value: f64| value.abs() <= PLACE_MAX;
        if !(within(junction.x) && within(junction.y)) {
            return fail(format!(
                "junction {}: its place is not within 1,000,000 km of the origin",
                name()
            ));
        }
        if let Control::Signal { program, offset_ms } = junction.control {
            match raw.programs.get(usize::from(program)) {
                Some(program) if offset_ms < program.cycle_ms => {}
                _ => {
                    return fail(format!(
                        "junction {}: no such signal program, or its offset is no part of the cycle",
                        name()
                    ));
                }
            }
        }
    }
    let mut begin = vec![0_usize; raw.junctions.len()];
    let mut end = begin.clone();
    for (index, link) in raw.links.iter().enumerate() {
        let name = || raw.link_names.get(index as u32);
        let ends = link.from.max(link.to) as usize;
        if ends >= raw.junctions.len() {
            return fail(format!(
                "road {}: ends at a junction that is not there",
                name()
            ));
        }
        begin[link.from as usize] += 1;
        end[link.to as usize] += 1;
        if link.length_mm == 0 || link.length_mm > 1_000_000_000 {
            return fail(format!(
                "road {}: {} mm long, not 1 mm to 1,000 km",
                name(),
                link.length_mm
            ));
        }
        if link.speed_mm_s < 100 || link.speed_mm_s > 200_000 {
            return fail(format!(
                "road {}: a speed of {} mm/s, not 0.1 to 200 m/s",
                name(),
                link.speed_mm_s
            ));
        }
        if link.lanes == 0 {
            return fail(format!("road {}: has no lane", name()));
        }
        if let Control::Signal { program, .. } = raw.junctions[link.to as usize].control {
            let greens = &raw.programs[usize::from(program)].greens;
            if usize::from(link.approach) >= greens.len() {
                return fail(format!(
                    "road {}: the signal at its end has no green for it",
                    name()
                ));
            }
        }
    }
    for (counts, what) in [(begin, "begin"), (end, "end")] {
        if let Some(junction) = counts.iter().position(|&count| count > DEGREE_MAX) {
            let name = raw.junction_names.get(junction as u32);
            return fail(format!(
                "junction {name}: more than {DEGREE_MAX} roads {what} there"
            ));
        }
    }
    Ok(())
}
