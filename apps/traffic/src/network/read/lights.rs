//! Reads the traffic lights of SUMO networks.
//!
//! From the program of a traffic light, each edge gets the longest green phase of any of its lanes.

use crate::network::Ms;
use std::collections::BTreeMap;

/// A traffic light: its phases, and the positions of each edge in the state strings.
#[derive(Default)]
pub(super) struct Light {
    pub offset_ms: i64,
    pub phases: Vec<(Ms, Vec<u8>)>,
    pub letters: BTreeMap<u32, Vec<usize>>,
}

/// The maximum length of a cycle. It is more than eleven days.
pub(super) const CYCLE_MS_MAX: Ms = 1_000_000_000;

/// The green phases of the edges of a traffic light.
pub(super) enum Greens {
    /// The light never stops cars, because it is off or has no phases.
    Off,
    /// The green phase of each edge.
    Of(BTreeMap<u32, (Ms, Ms)>),
}

impl Light {
    /// Adds a phase, but not longer than what remains of the longest cycle. Returns whether it was
    /// added as a whole.
    pub fn add_phase(&mut self, seconds: f64, state: Vec<u8>) -> bool {
        let rest = CYCLE_MS_MAX - self.cycle_ms();
        let wanted = (seconds * 1000.0).clamp(0.0, f64::from(Ms::MAX)) as Ms;
        self.phases.push((wanted.min(rest), state));
        wanted <= rest
    }

    pub fn cycle_ms(&self) -> Ms {
        self.phases.iter().map(|phase| phase.0).sum()
    }

    /// Returns the green phase of each edge. Also returns the number of edges that never have
    /// green. SUMO lets cars of such an edge pass only if the light is yellow or off for it, so we
    /// treat its yellow and off phases like green. If it has only red, it gets the whole cycle.
    pub fn greens(&self) -> (Greens, usize) {
        let cycle_ms = self.cycle_ms();
        let is_off = |state: &[u8]| state.iter().all(|letter| matches!(letter, b'o' | b'O'));
        if cycle_ms < 1000 || self.phases.iter().all(|(_, state)| is_off(state)) {
            return (Greens::Off, 0);
        }
        let mut without = 0;
        let green = |(&edge, letters): (&u32, &Vec<usize>)| {
            let green = longest(&self.phases, letters, b"gGsoO");
            let green = green.or_else(|| {
                without += 1;
                longest(&self.phases, letters, b"yY")
            });
            (edge, green.unwrap_or((0, cycle_ms)))
        };
        let greens = self.letters.iter().map(green).collect();
        (Greens::Of(greens), without)
    }
}

/// Returns the longest interval within a cycle in which any of these positions has one of the
/// letters.
fn longest(phases: &[(Ms, Vec<u8>)], positions: &[usize], letters: &[u8]) -> Option<(Ms, Ms)> {
    let mut best: Option<(Ms, Ms)> = None;
    let (mut now, mut begin) = (0, None);
    for (length, state) in phases {
        let green = positions.iter().any(|&position| {
            state
                .get(position)
                .is_some_and(|letter| letters.contains(letter))
        });
        begin = if green { begin.or(Some(now)) } else { None };
        now += length;
        if let Some(begin) = begin
            && best.is_none_or(|(from, to)| now - begin > to - from)
            && now > begin
        {
            best = Some((begin, now));
        }
    }
    best
}
