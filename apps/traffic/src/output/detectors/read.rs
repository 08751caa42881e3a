//! Reads the detectors of one of SUMO's additional files.
//!
//! Source: SUMO's documentation, "Simulation/Output/Induction Loops Detectors (E1)" and "Lanearea
//! Detectors (E2)".

use crate::network::read::xml::{self, Element};
use crate::network::read::{ReadError, Unused};
use crate::network::{Ms, Network};
use std::collections::HashMap;

/// The kind of a detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// An induction loop (E1), which counts the cars that pass a place.
    Loop,
    /// A lane area detector (E2), which watches a part of a lane. A car halts if it is slower than
    /// `halts_below` metres per second for `halts_after` seconds. Halting cars form a jam if the
    /// gap between them is at most `jam_gap` metres.
    Area {
        /// The speed below which a car halts.
        halts_below: f64,
        /// The time after which a slow car counts as halting.
        halts_after: f64,
        /// The largest gap between two neighbouring cars of the same jam, in metres.
        jam_gap: f64,
    },
}

/// A detector on a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Detector {
    /// The name of the detector.
    pub name: String,
    /// The kind of the detector.
    pub kind: Kind,
    /// The link on which the detector lies.
    pub link: u32,
    /// The lane of the link, from 0 on the right.
    pub lane: u8,
    /// The distance from the beginning of the link to the beginning of the detector in metres.
    pub from_m: f64,
    /// The distance from the beginning of the link to the end of the detector in metres. An
    /// induction loop has no length, so it ends where it begins.
    pub to_m: f64,
    /// The length of the detector's intervals. If it is `None`, there is one interval for the whole
    /// run.
    pub period_ms: Option<Ms>,
}

/// Reads the detectors of an additional file. Also returns the parts that are not used.
///
/// # Errors
/// Returns an error if the file is not valid, or if a detector is on a lane that does not exist.
pub fn detectors(text: &str, network: &Network) -> Result<(Vec<Detector>, Unused), ReadError> {
    let links = network.links_by_name();
    let (mut all, mut unused) = (Vec::new(), Unused::default());
    let mut detector_depth = false;
    xml::each(text, |part| {
        match part {
            xml::Part::Begin(element) => match element.name().as_str() {
                "additional" | "add" => {}
                "e1Detector" | "inductionLoop" | "e2Detector" | "laneAreaDetector" => {
                    detector_depth = true;
                    all.extend(detector(&element, network, &links, &mut unused)?);
                }
                "param" if detector_depth => {}
                name => unused.add(name),
            },
            xml::Part::End(name) if name.contains("etector") || name == "inductionLoop" => {
                detector_depth = false;
            }
            _ => {}
        }
        Ok(())
    })?;
    let mut names: Vec<&str> = all.iter().map(|one: &Detector| one.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let reason = format!("two detectors have the id {}", pair[0]);
        return Err(ReadError::Malformed(reason));
    }
    Ok((all, unused))
}

fn detector(
    element: &Element<'_>,
    network: &Network,
    links: &HashMap<String, u32>,
    unused: &mut Unused,
) -> Result<Option<Detector>, ReadError> {
    let is_loop = matches!(element.name().as_str(), "e1Detector" | "inductionLoop");
    // We accept `file` without a note. It has no effect, because all detectors of a kind are
    // written to one file.
    let common = [
        "id",
        "lane",
        "pos",
        "period",
        "freq",
        "file",
        "friendlyPos",
        "name",
    ];
    let own: &[&str] = match is_loop {
        true => &["type", "mesoTLS"],
        false => &[
            "endPos",
            "length",
            "timeThreshold",
            "speedThreshold",
            "jamThreshold",
            "show",
            "cont",
        ],
    };
    unused.attributes(element, &[&common[..], own].concat())?;
    let name = element.need("id")?;
    let Some(lane) = element.get("lane")? else {
        // The detector has no single lane, because it covers several lanes in a row. We do not
        // support this. `attributes` has already counted it as unused.
        return Ok(None);
    };
    let place = lane.rsplit_once('_').and_then(|(edge, lane)| {
        let link = *links.get(edge)?;
        Some((link, lane.parse::<u8>().ok()?))
    });
    let Some((link, lane)) = place else {
        return Err(element.error(format!(
            "the detector {name} is on lane {lane}, but the network has no such lane for cars"
        )));
    };
    let road = network.links()[link as usize];
    let length = f64::from(road.length_mm) / 1000.0;
    // Our link has only the lanes for cars. If the file has more lanes, we move a detector on a
    // missing lane to our last one.
    let lane = lane.min(road.lanes.max(1) - 1);
    let is_friendly = element.get("friendlyPos")?;
    let is_friendly = is_friendly.is_some_and(|text| matches!(text.as_str(), "1" | "true" | "yes"));
    let number = |name: &str| element.number::<f64>(name);
    // A negative position counts from the end of the lane.
    let from_begin = |pos: f64| if pos < 0.0 { pos + length } else { pos };
    let pos = number("pos")?.map(from_begin);
    let (mut from_m, mut to_m) = if is_loop {
        let pos =
            pos.ok_or_else(|| element.error(format!("the detector {name} has no attribute pos")))?;
        (pos, pos)
    } else {
        match (pos, number("endPos")?.map(from_begin), number("length")?) {
            (Some(from), Some(to), _) => (from, to),
            (Some(from), None, Some(length)) => (from, from + length),
            (None, Some(to), Some(length)) => (to - length, to),
            (None, None, Some(part)) => (length - part, length),
            (Some(from), None, None) => (from, length),
            (None, to, None) => (0.0, to.unwrap_or(length)),
        }
    };
    if is_friendly {
        (from_m, to_m) = (from_m.clamp(0.0, length), to_m.clamp(0.0, length));
    }
    // SUMO rounds positions to centimetres, so we allow a difference of one centimetre.
    let fits = from_m >= -0.01 && to_m <= length + 0.01 && (is_loop || from_m < to_m);
    if !fits {
        return Err(element.error(format!(
            "the detector {name} does not lie on its lane, which is {length} m long"
        )));
    }
    let period = number("period")?.or(number("freq")?);
    let period_ms = match period {
        None => None,
        Some(seconds) if (0.001..=3e6).contains(&seconds) => Some((seconds * 1000.0) as Ms),
        Some(seconds) => {
            let reason =
                format!("the detector {name} has a period of {seconds} s, which is out of range");
            return Err(element.error(reason));
        }
    };
    let kind = match is_loop {
        true => Kind::Loop,
        false => Kind::Area {
            halts_below: number("speedThreshold")?.unwrap_or(5.0 / 3.6),
            halts_after: number("timeThreshold")?.unwrap_or(1.0),
            jam_gap: number("jamThreshold")?.unwrap_or(10.0),
        },
    };
    Ok(Some(Detector {
        name,
        kind,
        link,
        lane,
        from_m: from_m.max(0.0),
        to_m: to_m.min(length),
        period_ms,
    }))
}
