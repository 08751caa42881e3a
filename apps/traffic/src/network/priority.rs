//! Right of way at priority junctions, and roundabouts.
//!
//! A *movement* is a pair of an incoming and an outgoing link. At a priority junction, some
//! movements yield to others. A reader may list them in [`RawNetwork::yields`], for example because
//! its file has a right-of-way matrix. For all other priority junctions we derive them from the
//! ranks of the roads ([`Link::approach`](super::Link::approach)) and from the coordinates.

use super::{Control, Junction, RawNetwork};
use std::collections::HashMap;

/// The kind of a movement that yields. It selects the critical gap and the follow-up time, see
/// [`Gaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Turn {
    /// A turn from a major road, which yields to oncoming traffic. We also use it for junctions of
    /// equal roads, such as priority to the right, and for merges straight ahead.
    FromMajor,
    /// A right turn from a minor road.
    Right,
    /// Straight on from a minor road.
    Through,
    /// A left turn from a minor road.
    Left,
    /// The entry of a roundabout.
    Roundabout,
}

impl Turn {
    /// All kinds, with the names that the command line uses.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("major", Self::FromMajor),
        ("right", Self::Right),
        ("through", Self::Through),
        ("left", Self::Left),
        ("roundabout", Self::Roundabout),
    ];
}

/// Critical gaps and follow-up times, by kind of movement (in the order of [`Turn::NAMES`]).
///
/// The critical gap is the shortest gap between two cars of the major road that a driver accepts.
/// The follow-up time is the time between two cars of a queue that use the same gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gaps {
    /// The critical gaps in milliseconds.
    pub critical_ms: [u32; 5],
    /// The follow-up times in milliseconds, for one lane.
    pub follow_up_ms: [u32; 5],
}

impl Gaps {
    /// The base values of the Highway Capacity Manual for a two-lane major road (two-way stop
    /// control), and for a roundabout with one lane.
    pub const HCM: Self = Self {
        critical_ms: [4100, 6200, 6500, 7100, 4980],
        follow_up_ms: [2200, 3300, 4000, 3500, 2610],
    };

    /// Returns the critical gap of a movement.
    pub fn critical(&self, turn: Turn) -> u32 {
        self.critical_ms[turn as usize]
    }

    /// Returns the follow-up time of a movement, for one lane.
    pub fn follow_up(&self, turn: Turn) -> u32 {
        self.follow_up_ms[turn as usize]
    }
}

/// A movement that yields to other movements of its junction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yield {
    /// The incoming link.
    pub from: u32,
    /// The outgoing link.
    pub to: u32,
    /// The kind of movement.
    pub turn: Turn,
    /// The movements that have priority over this movement, each as an incoming and an outgoing
    /// link.
    pub foes: Vec<(u32, u32)>,
}

/// The maximum length of a loop of links with priority that we treat as a roundabout, although no
/// file says that it is one.
const RING_MM_MAX: u64 = 400_000;
/// The value for links that do not belong to a roundabout.
pub(super) const NO_RING: u32 = u32::MAX;

/// Adds the movements that yield at priority junctions for which none are listed: those from roads
/// with approach 0 yield to those from other roads whose way they cross or join.
pub(super) fn add_missing_yields(raw: &mut RawNetwork) {
    let mut known = vec![false; raw.junctions.len()];
    for given in &raw.yields {
        known[raw.links[given.from as usize].to as usize] = true;
    }
    let missing =
        |index: usize, junction: &Junction| junction.control == Control::Priority && !known[index];
    let wanted: Vec<bool> = raw
        .junctions
        .iter()
        .enumerate()
        .map(|(index, junction)| missing(index, junction))
        .collect();
    if !wanted.contains(&true) {
        return;
    }
    let mut roads: HashMap<u32, (Vec<u32>, Vec<u32>)> = HashMap::new();
    for (index, link) in raw.links.iter().enumerate() {
        let index = index as u32;
        if wanted[link.to as usize] {
            roads.entry(link.to).or_default().0.push(index);
        }
        if wanted[link.from as usize] {
            roads.entry(link.from).or_default().1.push(index);
        }
    }
    let mut junctions: Vec<_> = roads.into_iter().collect();
    junctions.sort_unstable_by_key(|(junction, _)| *junction);
    for (_, (into, out)) in junctions {
        let (major, minor): (Vec<u32>, Vec<u32>) = into
            .iter()
            .partition(|&&link| raw.links[link as usize].approach > 0);
        for &from in &minor {
            for &to in &out {
                let all = major
                    .iter()
                    .flat_map(|&from| out.iter().map(move |&to| (from, to)));
                let foes: Vec<_> = all.filter(|&foe| conflict(raw, (from, to), foe)).collect();
                if !foes.is_empty() {
                    let turn = match angle(raw, from, to) {
                        Some(angle) if angle > 45.0 => Turn::Left,
                        Some(angle) if angle < -45.0 => Turn::Right,
                        _ => Turn::Through,
                    };
                    raw.yields.push(Yield {
                        from,
                        to,
                        turn,
                        foes,
                    });
                }
            }
        }
    }
}

/// Returns the direction in which a link leaves its first junction, or arrives at its last one, in
/// degrees.
fn bearing(raw: &RawNetwork, link: u32) -> Option<f64> {
    let road = raw.links[link as usize];
    let (a, b) = (
        raw.junctions[road.from as usize],
        raw.junctions[road.to as usize],
    );
    let shrink = if raw.geographic {
        libm::cos(a.y.to_radians())
    } else {
        1.0
    };
    let (x, y) = ((b.x - a.x) * shrink, b.y - a.y);
    (raw.has_coordinates && (x != 0.0 || y != 0.0)).then(|| libm::atan2(y, x).to_degrees())
}

/// Returns the change of direction of a movement, from -180 to 180 degrees. Positive is left.
pub(super) fn angle(raw: &RawNetwork, from: u32, to: u32) -> Option<f64> {
    let turned = bearing(raw, to)? - bearing(raw, from)?;
    Some((turned + 540.0).rem_euclid(360.0) - 180.0)
}

/// Returns whether the paths of two movements meet inside their junction. Without coordinates, we
/// assume that they do. Cars drive on the right.
pub(super) fn conflict(raw: &RawNetwork, a: (u32, u32), b: (u32, u32)) -> bool {
    if a.0 == b.0 {
        return false;
    }
    if a.1 == b.1 {
        return true;
    }
    // We place the ends of all roads on a circle around the junction. Cars drive on the right, so
    // the incoming road of an arm is a little to the left of its outgoing road, as seen from the
    // junction.
    let place = |(from, to): (u32, u32)| {
        let (from, to) = (bearing(raw, from)? + 180.0, bearing(raw, to)?);
        Some(((from + 1.0).rem_euclid(360.0), (to - 1.0).rem_euclid(360.0)))
    };
    let (Some((a, b)), Some((c, d))) = (place(a), place(b)) else {
        return true;
    };
    let between = |x: f64| (x - a).rem_euclid(360.0) < (b - a).rem_euclid(360.0);
    between(c) != between(d)
}

/// Returns the roundabout of each link, as a number, or [`NO_RING`]. Returns an empty list if there
/// are no roundabouts.
///
/// In addition to the roundabouts that the file lists, we find others by their priorities. We treat
/// a short loop as a roundabout if a car that stays on the loop has priority at each junction, over
/// all cars that enter the loop there.
pub(super) fn rings(raw: &RawNetwork) -> Vec<u32> {
    let mut before = HashMap::new();
    let yields: std::collections::HashSet<(u32, u32)> =
        raw.yields.iter().map(|y| (y.from, y.to)).collect();
    for one in &raw.yields {
        for foe in one
            .foes
            .iter()
            .filter(|foe| foe.1 == one.to && !yields.contains(foe))
        {
            before.insert(foe.1, foe.0);
        }
    }
    let mut ring = Vec::new();
    let mut next = 0;
    for links in raw.rings.iter().filter(|links| !links.is_empty()) {
        ring.resize(raw.links.len(), NO_RING);
        for &link in links {
            ring[link as usize] = next;
        }
        next += 1;
    }
    if before.is_empty() {
        return ring;
    }
    // A link also continues the loop without a yield if its junction has no other incoming link,
    // because there is no car to yield to.
    let mut incoming: Vec<(u32, u32)> = vec![(0, 0); raw.junctions.len()];
    for (index, link) in raw.links.iter().enumerate() {
        let count = &mut incoming[link.to as usize];
        *count = (count.0 + 1, index as u32);
    }
    let previous = |link: u32| {
        before.get(&link).copied().or_else(|| {
            let (count, only) = incoming[raw.links[link as usize].from as usize];
            (count == 1).then_some(only)
        })
    };
    let mut starts: Vec<u32> = before.keys().copied().collect();
    starts.sort_unstable();
    for start in starts {
        if ring
            .get(start as usize)
            .is_some_and(|&ring| ring != NO_RING)
        {
            continue;
        }
        let (mut links, mut length) = (vec![start], 0_u64);
        let mut link = start;
        let closed = loop {
            length += u64::from(raw.links[link as usize].length_mm);
            match previous(link) {
                Some(before) if before == start => break true,
                Some(before) if length < RING_MM_MAX && links.len() < 64 => {
                    links.push(before);
                    link = before;
                }
                _ => break false,
            }
        };
        if closed && length <= RING_MM_MAX && links.len() > 1 {
            ring.resize(raw.links.len(), NO_RING);
            for link in links {
                ring[link as usize] = next;
            }
            next += 1;
        }
    }
    ring
}

/// Marks the movements that enter a roundabout.
pub(super) fn mark_entries(yields: &mut [Yield], ring: &[u32]) {
    let ring = |link: u32| ring.get(link as usize).filter(|&&ring| ring != NO_RING);
    for one in yields {
        if ring(one.to).is_some() && ring(one.to) != ring(one.from) {
            one.turn = Turn::Roundabout;
        }
    }
}
