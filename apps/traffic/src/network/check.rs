//! Checks a raw network once, when it is created. Later code relies on everything that is checked
//! here, for example that the ends of each link exist.

use super::{Control, DEGREE_MAX, HEADWAY_MS_MAX, LINKS_MAX, Ms, NetworkError, RawNetwork};

/// The maximum distance of a junction from the origin, in metres or degrees.
const PLACE_MAX: f64 = 1e9;

/// The maximum length of a signal cycle, which is more than eleven days.
const CYCLE_MS_MAX: Ms = 1_000_000_000;

/// Returns an error for the first invalid part of the network.
pub(super) fn check(raw: &RawNetwork) -> Result<(), NetworkError> {
    let fail = |reason: String| Err(NetworkError(reason));
    if raw.junctions.is_empty() || raw.links.is_empty() {
        return fail(
            "the network is empty: a network needs at least one junction and one road".into(),
        );
    }
    if raw.junctions.len().max(raw.links.len()) > LINKS_MAX {
        return fail(format!(
            "the network has more than {LINKS_MAX} junctions or roads, which is the maximum"
        ));
    }
    for (index, program) in raw.programs.iter().enumerate() {
        let whole = program.cycle_ms >= 1000
            && program.cycle_ms <= CYCLE_MS_MAX
            && !program.greens.is_empty();
        let fits = |&(from, to): &(Ms, Ms)| from < to && to <= program.cycle_ms;
        let further = program.further_greens.iter().map(|further| &further.1);
        if !whole || !program.greens.iter().chain(further).all(fits) {
            return fail(format!(
                "signal program {}: invalid times, because each green must lie within a cycle of 1 s to 11 days",
                index + 1
            ));
        }
    }
    for (index, junction) in raw.junctions.iter().enumerate() {
        let name = || raw.junction_names.get(index as u32);
        let within = |value: f64| value.abs() <= PLACE_MAX;
        if !(within(junction.x) && within(junction.y)) {
            return fail(format!(
                "junction {}: coordinates out of range, because they exceed 1,000,000 km from the origin",
                name()
            ));
        }
        if let Control::Signal { program, offset_ms } = junction.control {
            match raw.programs.get(usize::from(program)) {
                Some(program) if offset_ms < program.cycle_ms => {}
                _ => {
                    return fail(format!(
                        "junction {}: its signal program does not exist, or its offset is longer than the cycle",
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
                "road {}: begins or ends at a junction that does not exist",
                name()
            ));
        }
        begin[link.from as usize] += 1;
        end[link.to as usize] += 1;
        if link.length_mm == 0 || link.length_mm > 1_000_000_000 {
            return fail(format!(
                "road {}: length of {} mm is out of range (1 mm to 1,000 km)",
                name(),
                link.length_mm
            ));
        }
        if link.speed_mm_s < 100 || link.speed_mm_s > 200_000 {
            return fail(format!(
                "road {}: speed of {} mm/s is out of range (0.1 to 200 m/s)",
                name(),
                link.speed_mm_s
            ));
        }
        if link.headway_ms > HEADWAY_MS_MAX {
            return fail(format!(
                "road {}: its capacity is less than one car in eleven days, so remove the road if it is closed",
                name()
            ));
        }
        if link.lanes == 0 {
            return fail(format!("road {}: needs at least one lane", name()));
        }
        if let Control::Signal { program, .. } = raw.junctions[link.to as usize].control {
            let greens = &raw.programs[usize::from(program)].greens;
            if usize::from(link.approach) >= greens.len() {
                return fail(format!(
                    "road {}: the signal program at its end has no green for this approach",
                    name()
                ));
            }
        }
    }
    for one in &raw.yields {
        let movements = std::iter::once((one.from, one.to)).chain(one.foes.iter().copied());
        let mut junctions = movements.map(|(from, to)| {
            let end = raw.links.get(from as usize)?.to;
            (raw.links.get(to as usize)?.from == end).then_some(end)
        });
        let first = junctions.next().flatten();
        if first.is_none() || !junctions.all(|junction| junction == first) {
            return fail("a turn and the turn that it yields to are at different junctions".into());
        }
    }
    let inner = raw.inner_ms.len();
    if (inner > 0 && inner != raw.links.len()) || raw.inner_ms.iter().any(|&ms| ms > 60_000) {
        return fail(
            "the times to cross a junction must be at most 60 s, with one time for each road"
                .into(),
        );
    }
    if raw
        .rings
        .iter()
        .flatten()
        .any(|&link| link as usize >= raw.links.len())
    {
        return fail("a roundabout refers to a road that does not exist".into());
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
