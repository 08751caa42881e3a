//! Reads DIMACS graphs and pair lists.
//!
//! A DIMACS graph has a line `p sp NODES ARCS`, followed by lines `a FROM TO LENGTH` (9th DIMACS
//! challenge, file formats). A pair list has a line `p tw NODES EDGES`, followed by one pair per
//! line for a road in each direction. Comment lines begin with `c`.

use super::{Assumed, ReadError, at_line};
use crate::network::{Junction, LINKS_MAX, Link, RawNetwork};

pub(super) fn read(
    text: &str,
    assumed: &Assumed,
    coordinates: Option<&str>,
) -> Result<RawNetwork, ReadError> {
    let mut raw: Option<RawNetwork> = None;
    let mut declared = 0;
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next().filter(|&word| word != "c") else {
            continue;
        };
        let mut value = || -> Result<u32, ReadError> {
            let word = words.next().ok_or_else(|| {
                at_line(number, "the line ends too early: expected another number")
            })?;
            word.parse()
                .map_err(|_| at_line(number, format!("'{word}' is not a whole number")))
        };
        let Some(raw) = &mut raw else {
            if first != "p" {
                return Err(at_line(number, "expected the problem line 'p …' first"));
            }
            let kind = line.split_ascii_whitespace().nth(1).unwrap_or_default();
            let mut sizes = line
                .split_ascii_whitespace()
                .skip(2)
                .map(str::parse::<usize>);
            let (Some(Ok(nodes)), Some(Ok(edges))) = (sizes.next(), sizes.next()) else {
                return Err(at_line(
                    number,
                    format!("expected 'p {kind} NODES EDGES', but found '{line}'"),
                ));
            };
            if nodes > LINKS_MAX || edges > LINKS_MAX {
                return Err(at_line(
                    number,
                    format!("more than {LINKS_MAX} junctions or roads, which is the maximum"),
                ));
            }
            declared = edges;
            raw = Some(RawNetwork {
                junctions: vec![Junction::default(); nodes],
                ..RawNetwork::default()
            });
            continue;
        };
        let (from, to, length_mm, both) = match first {
            "a" => (
                value()?,
                value()?,
                value()?.saturating_mul(assumed.unit_mm).max(1),
                false,
            ),
            "p" => {
                return Err(at_line(
                    number,
                    "found a second problem line 'p …', but a file has only one",
                ));
            }
            _ => {
                let from = first
                    .parse()
                    .map_err(|_| at_line(number, format!("'{first}' is not a whole number")))?;
                (from, value()?, assumed.length_mm, true)
            }
        };
        if words.next().is_some() {
            raw.unused.add("road (further numbers)");
        }
        let nodes = raw.junctions.len() as u32;
        if from == 0 || to == 0 || from > nodes || to > nodes {
            return Err(at_line(
                number,
                format!(
                    "there is no road from {from} to {to}, because junctions are numbered 1 to {nodes}"
                ),
            ));
        }
        let link = Link {
            from: from - 1,
            to: to - 1,
            length_mm,
            speed_mm_s: assumed.speed_mm_s,
            headway_ms: 0,
            lanes: 1,
            approach: 0,
        };
        raw.links.push(link);
        if both {
            raw.links.push(Link {
                from: link.to,
                to: link.from,
                ..link
            });
        }
        declared = declared.checked_sub(1).ok_or_else(|| {
            at_line(
                number,
                "found more roads than the problem line 'p …' declares",
            )
        })?;
    }
    let mut raw =
        raw.ok_or_else(|| ReadError::Malformed("the problem line 'p …' is missing".into()))?;
    if declared > 0 {
        return Err(ReadError::Malformed(format!(
            "the file is cut off: {declared} roads fewer than the problem line 'p …' declares"
        )));
    }
    if let Some(text) = coordinates {
        place(&mut raw, text)?;
    }
    Ok(raw)
}

/// Reads coordinates from lines `v NUMBER X Y`, in millionths of a degree.
fn place(raw: &mut RawNetwork, text: &str) -> Result<(), ReadError> {
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("v "))
    {
        let mut values = line.split_ascii_whitespace().skip(1).map(str::parse::<i64>);
        let (Some(Ok(node)), Some(Ok(x)), Some(Ok(y))) =
            (values.next(), values.next(), values.next())
        else {
            return Err(at_line(
                number,
                format!("coordinates: expected 'v NUMBER X Y', but found '{line}'"),
            ));
        };
        let junction = usize::try_from(node - 1)
            .ok()
            .and_then(|node| raw.junctions.get_mut(node));
        let junction = junction
            .ok_or_else(|| at_line(number, format!("coordinates: there is no junction {node}")))?;
        (junction.x, junction.y) = (x as f64 / 1e6, y as f64 / 1e6);
        raw.has_coordinates = true;
        raw.geographic = true;
    }
    Ok(())
}
