//! The attributes of SUMO's networks that we use, or that cannot change how cars drive in a queue
//! model. The reader counts all others.

use super::ReadError;
use super::xml::Element;

pub(super) const EDGE: [&str; 12] = [
    "id",
    "from",
    "to",
    "function",
    "priority",
    "type",
    "name",
    "shape",
    "spreadType",
    "distance",
    "routingType",
    "length",
];

/// A queue model has no lane changes or shapes, so it does not need the attributes for them.
pub(super) const LANE: [&str; 14] = [
    "id",
    "index",
    "speed",
    "length",
    "allow",
    "disallow",
    "width",
    "shape",
    "endOffset",
    "customShape",
    "type",
    "acceleration",
    "changeLeft",
    "changeRight",
];

/// The right-of-way matrix already contains `pass` and `uncontrolled`.
pub(super) const CONNECTION: [&str; 25] = [
    "from",
    "to",
    "fromLane",
    "toLane",
    "via",
    "tl",
    "linkIndex",
    "tl2",
    "linkIndex2",
    "dir",
    "state",
    "allow",
    "disallow",
    "pass",
    "uncontrolled",
    "keepClear",
    "contPos",
    "visibility",
    "shape",
    "type",
    "indirect",
    "changeLeft",
    "changeRight",
    "length",
    "permitted",
];

pub(super) const JUNCTION: [&str; 14] = [
    "id",
    "type",
    "x",
    "y",
    "z",
    "incLanes",
    "intLanes",
    "shape",
    "customShape",
    "radius",
    "fringe",
    "name",
    "rightOfWay",
    "roundabout",
];

/// The limits of a phase matter only for actuated lights, and we already count actuated lights as
/// unused.
pub(super) const PHASE: [&str; 7] = [
    "duration",
    "state",
    "minDur",
    "maxDur",
    "earliestEnd",
    "latestEnd",
    "name",
];

pub(super) const LIGHT: [&str; 4] = ["id", "type", "programID", "offset"];

/// Returns whether passenger cars may use an element with `allow` and `disallow` attributes.
pub(super) fn is_open(element: &Element<'_>) -> Result<bool, ReadError> {
    let has = |list: &str| {
        list.split_ascii_whitespace()
            .any(|class| matches!(class, "passenger" | "all"))
    };
    Ok(match (element.get("allow")?, element.get("disallow")?) {
        (Some(allow), _) if !allow.trim().is_empty() => has(&allow),
        (_, Some(disallow)) => !has(&disallow),
        _ => true,
    })
}
