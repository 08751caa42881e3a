//! The meaning of OpenStreetMap's tags for cars.

use super::Unused;
use std::collections::HashMap;

/// The properties of a road, taken from the tags of a way.
#[derive(Clone, Copy)]
pub(super) struct Road {
    /// The speed in the direction of the way, and against it.
    pub speed_mm_s: [u32; 2],
    /// The number of lanes in the direction of the way, and against it.
    pub lanes: [u8; 2],
    /// Whether the way belongs to a roundabout.
    pub round: bool,
}

/// A traffic light or sign at a node. The value says whether it applies only to cars that drive in
/// the direction of the way (`Some(false)`) or against it (`Some(true)`). `None` means both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Lights(Option<bool>),
    Stop(Option<bool>),
    AllWayStop,
    GiveWay(Option<bool>),
}

impl Sign {
    /// Returns whether the traffic light or sign names the direction to which it applies.
    pub fn is_directed(self) -> bool {
        self.direction().is_some()
    }

    /// Returns whether the traffic light or sign applies to cars that drive in the direction of the
    /// way, or `against` it.
    pub fn applies(self, against: bool) -> bool {
        self.direction().is_none_or(|only| only == against)
    }

    fn direction(self) -> Option<bool> {
        match self {
            Self::Lights(only) | Self::Stop(only) | Self::GiveWay(only) => only,
            Self::AllWayStop => None,
        }
    }
}

/// Returns whether a relation restricts turns for cars.
pub(super) fn is_restriction(tags: &HashMap<&str, &str>) -> bool {
    let of_cars = tags.contains_key("restriction")
        || tags.contains_key("restriction:conditional")
        || tags.contains_key("restriction:motorcar");
    let excepted = tags.get("except").is_some_and(|except| {
        let mut classes = except.split(';').map(str::trim);
        classes.any(|class| matches!(class, "motorcar" | "motor_vehicle" | "vehicle"))
    });
    matches!(tags.get("type"), Some(&"restriction")) && of_cars && !excepted
}

/// Returns the traffic light or sign of a node.
pub(super) fn sign(tags: &HashMap<&str, &str>, unused: &mut Unused) -> Option<Sign> {
    if let Some(barrier) = tags.get("barrier") {
        let closed = access(tags).map_or(
            matches!(*barrier, "bollard" | "block" | "jersey_barrier" | "log"),
            |open| !open,
        );
        if closed || *barrier == "toll_booth" {
            unused.add(format!("node barrier={barrier}"));
        }
    }
    if tags.get("railway") == Some(&"level_crossing") {
        unused.add("node railway=level_crossing");
    }
    if tags
        .get("traffic_calming")
        .is_some_and(|kind| *kind != "no")
    {
        unused.add("node traffic_calming");
    }
    let has_signals = tags.get("crossing") == Some(&"traffic_signals")
        || tags.get("crossing:signals") == Some(&"yes");
    if has_signals && tags.get("highway") == Some(&"crossing") {
        unused.add("node crossing=traffic_signals");
    }
    let direction = || {
        let tag = ["traffic_signals:direction", "direction"].map(|key| tags.get(key).copied());
        match tag[0].or(tag[1]) {
            Some("forward") => Some(false),
            Some("backward") => Some(true),
            _ => None,
        }
    };
    match *tags.get("highway")? {
        "traffic_signals" => Some(Sign::Lights(direction())),
        "stop" if matches!(tags.get("stop"), Some(&("all" | "4way"))) => Some(Sign::AllWayStop),
        "stop" => Some(Sign::Stop(direction())),
        "give_way" => Some(Sign::GiveWay(direction())),
        "mini_roundabout" => {
            unused.add("node highway=mini_roundabout");
            None
        }
        _ => None,
    }
}

/// The keys for the access of cars to a way or node, and to one direction of a way. The more
/// specific key decides.
const ACCESS: [&str; 4] = ["motorcar", "motor_vehicle", "vehicle", "access"];
const ACCESS_BY_DIRECTION: [[&str; 4]; 2] = [
    [
        "motorcar:forward",
        "motor_vehicle:forward",
        "vehicle:forward",
        "access:forward",
    ],
    [
        "motorcar:backward",
        "motor_vehicle:backward",
        "vehicle:backward",
        "access:backward",
    ],
];

/// Returns whether cars may use a way or node, if a tag says so.
fn access(tags: &HashMap<&str, &str>) -> Option<bool> {
    access_by(tags, &ACCESS)
}

fn access_by(tags: &HashMap<&str, &str>, keys: &[&str]) -> Option<bool> {
    let value = keys.iter().find_map(|key| tags.get(key))?;
    Some(!matches!(
        *value,
        "no" | "private"
            | "agricultural"
            | "forestry"
            | "agricultural;forestry"
            | "emergency"
            | "military"
            | "psv"
            | "bus"
    ))
}

/// Returns the properties of a way, or `None` if it is not a road for cars.
pub(super) fn road(tags: &HashMap<&str, &str>, unused: &mut Unused) -> Option<Road> {
    if tags.get("route") == Some(&"ferry") && access(tags) != Some(false) {
        unused.add("way route=ferry (left out)");
    }
    let kind = *tags.get("highway")?;
    let (kmh, lanes) = match kind.trim_end_matches("_link") {
        "motorway" => (110, 2),
        "trunk" => (80, 2),
        "primary" => (60, 1),
        "secondary" | "tertiary" => (50, 1),
        "unclassified" | "road" => (40, 1),
        "residential" => (30, 1),
        "living_street" => (15, 1),
        // Cars may use these ways, but there are too many of them in a city.
        "service" | "track" if access(tags) != Some(false) => {
            unused.add(format!("way highway={kind} (left out)"));
            return None;
        }
        _ => return None,
    };
    if access(tags) == Some(false) || tags.get("area") == Some(&"yes") {
        return None;
    }
    for key in tags.keys().filter(|key| key.ends_with(":conditional")) {
        let of_cars = ["access", "motor", "vehicle", "oneway", "maxspeed", "lanes"];
        if of_cars.iter().any(|begin| key.starts_with(begin)) {
            unused.add(format!("way {key}"));
        }
    }
    report(tags, unused);
    let limit = |key: &str, unused: &mut Unused| match tags.get(key) {
        Some(&("none" | "implicit")) | None => None,
        Some(&"walk") => Some(7),
        Some(text) => speed(text).or_else(|| {
            unused.add(format!("way {key} (not a number)"));
            None
        }),
    };
    let both = limit("maxspeed", unused).unwrap_or(kmh);
    let speeds = ["maxspeed:forward", "maxspeed:backward"];
    let speeds = speeds.map(|key| limit(key, unused).unwrap_or(both));
    let round = matches!(tags.get("junction"), Some(&("roundabout" | "circular")));
    let one_way = [
        "oneway:motorcar",
        "oneway:motor_vehicle",
        "oneway:vehicle",
        "oneway",
    ];
    let one_way = match one_way.iter().find_map(|key| tags.get(key)) {
        Some(&("yes" | "true" | "1")) => 1,
        Some(&("-1" | "reverse")) => -1,
        Some(value @ &("reversible" | "alternating")) => {
            unused.add(format!("way oneway={value}"));
            0
        }
        Some(_) => 0,
        None => i32::from(round || kind.starts_with("motorway")),
    };
    let mut number = |key: &str| {
        let text = tags.get(key)?;
        let lanes = text.parse::<u8>().ok().filter(|lanes| *lanes > 0);
        if lanes.is_none() {
            unused.add(format!("way {key} (not a number)"));
        }
        lanes
    };
    let all = number("lanes");
    let directions = [number("lanes:forward"), number("lanes:backward")];
    let lanes_of = |against: usize| {
        let rest = || Some(all?.saturating_sub(directions[1 - against]?).max(1));
        let half = || all.map(|all| (all / 2).max(1));
        directions[against]
            .or_else(rest)
            .or_else(half)
            .unwrap_or(lanes)
    };
    let mut lanes = match one_way {
        1 => [all.or(directions[0]).unwrap_or(lanes), 0],
        -1 => [0, all.or(directions[1]).unwrap_or(lanes)],
        _ => [lanes_of(0), lanes_of(1)],
    };
    for (lanes, keys) in lanes.iter_mut().zip(&ACCESS_BY_DIRECTION) {
        if access_by(tags, keys) == Some(false) {
            *lanes = 0;
        }
    }
    if lanes == [0, 0] {
        return None;
    }
    Some(Road {
        speed_mm_s: speeds.map(|kmh| kmh * 1_000_000 / 3600),
        lanes,
        round,
    })
}

/// Counts the tags of a road that change how cars drive, and that we do not use.
fn report(tags: &HashMap<&str, &str>, unused: &mut Unused) {
    if ["lanes:bus", "lanes:psv", "bus:lanes", "psv:lanes"]
        .iter()
        .any(|key| tags.contains_key(key))
    {
        unused.add("way lanes:bus");
    }
    let others = [
        "access:lanes",
        "vehicle:lanes",
        "motor_vehicle:lanes",
        "motorcar:lanes",
        "lanes:both_ways",
        "maxspeed:lanes",
        "maxspeed:variable",
    ];
    for key in others.iter().filter(|key| tags.contains_key(*key)) {
        unused.add(format!("way {key}"));
    }
    // Not every car may or should drive through such a road, but ours do.
    let access = ACCESS.iter().find_map(|key| tags.get(key));
    if let Some(
        value
        @ &("destination" | "customers" | "delivery" | "permit" | "residents" | "discouraged"),
    ) = access
    {
        unused.add(format!("way access={value}"));
    }
}

/// Parses a speed limit and returns it in km/h.
fn speed(text: &str) -> Option<u32> {
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .ok()
            .filter(|speed| (5..=300).contains(speed))
    };
    match text.strip_suffix("mph") {
        Some(miles) => number(miles).map(|miles| miles * 1609 / 1000),
        None => number(text),
    }
}
