//! Reads the traffic lights of SUMO networks.
//!
//! From the program of a traffic light, each edge gets the times at which at least half of its
//! movements have green or the yellow after it. We lengthen or shorten these times to the mean
//! green time of the movements.

use crate::network::Ms;
use std::collections::BTreeMap;

/// A traffic light: its phases, and the positions of each edge in the state strings.
#[derive(Default)]
pub(super) struct Light {
    pub offset_ms: i64,
    /// Whether detectors choose the lengths of phases. We use the shortest ones.
    pub is_actuated: bool,
    pub phases: Vec<(Ms, Vec<u8>)>,
    pub letters: BTreeMap<u32, Letters>,
}

/// The positions of the movements of an edge in the state strings.
#[derive(Default)]
pub(super) struct Letters {
    /// The positions of the movements that turn around, which we ignore unless the edge has no
    /// other movement.
    pub around: Vec<usize>,
    pub others: Vec<usize>,
}

/// The maximum length of a cycle. It is more than eleven days.
pub(super) const CYCLE_MS_MAX: Ms = 1_000_000_000;

/// The green phases of the edges of a traffic light.
pub(super) enum Greens {
    /// The light never stops cars, because it is off or has no phases.
    Off,
    /// The green phases of each edge. The longest phase comes first.
    Of(BTreeMap<u32, Vec<(Ms, Ms)>>),
}

impl Light {
    /// Adds a phase. If the cycle would become longer than [`CYCLE_MS_MAX`], shortens the phase and
    /// returns false.
    pub fn add_phase(&mut self, seconds: f64, state: Vec<u8>) -> bool {
        let rest = CYCLE_MS_MAX - self.cycle_ms();
        let wanted = (seconds * 1000.0).clamp(0.0, f64::from(Ms::MAX)) as Ms;
        self.phases.push((wanted.min(rest), state));
        wanted <= rest
    }

    pub fn cycle_ms(&self) -> Ms {
        self.phases.iter().map(|phase| phase.0).sum()
    }

    /// Returns the green phases of each edge. The longest phase comes first. Phases in which the
    /// light is off for an edge count as green.
    ///
    /// Also returns the number of edges that never have green. SUMO lets cars of such an edge pass
    /// only while the light is yellow, so we treat its yellow phases like green. An edge that has
    /// only red gets the whole cycle.
    pub fn greens(&self) -> (Greens, usize) {
        let cycle_ms = self.cycle_ms();
        let is_off = |state: &[u8]| state.iter().all(|letter| matches!(letter, b'o' | b'O'));
        if cycle_ms < 1000 || self.phases.iter().all(|(_, state)| is_off(state)) {
            return (Greens::Off, 0);
        }
        let mut without = 0;
        let green = |(&edge, letters): (&u32, &Letters)| {
            let letters = match &letters.others[..] {
                [] => &letters.around[..],
                others => others,
            };
            // Cars of one road share a queue. Therefore the road has green while at least half of
            // its movements have green, or while any of them has if they never have it together.
            let most = letters.len().div_ceil(2);
            let mut greens = intervals(&self.phases, letters, most, true);
            if greens.is_empty() {
                greens = intervals(&self.phases, letters, 1, true);
            }
            // We then lengthen or shorten these intervals, so that the road has green for as long
            // as its movements have on average.
            let one = |letter: &usize| intervals(&self.phases, &[*letter], 1, true).into_iter();
            let all = letters.iter().flat_map(one).map(|(from, to)| to - from);
            let mean = all.sum::<Ms>() / letters.len().max(1) as Ms;
            adjust(&mut greens, mean, cycle_ms);
            if greens.is_empty() {
                without += 1;
                greens = intervals(&self.phases, letters, 1, false);
            }
            if greens.is_empty() {
                greens.push((0, cycle_ms));
            }
            greens.sort_by_key(|&(from, to)| (std::cmp::Reverse(to - from), from));
            (edge, greens)
        };
        let greens = self.letters.iter().map(green).collect();
        (Greens::Of(greens), without)
    }
}

/// Shortens or lengthens intervals so that they last `total_ms` together, but not beyond the cycle.
fn adjust(greens: &mut Vec<(Ms, Ms)>, total_ms: Ms, cycle_ms: Ms) {
    greens.sort_by_key(|&(from, to)| (std::cmp::Reverse(to - from), from));
    let mut left_ms = total_ms;
    for (from, to) in greens.iter_mut() {
        *to = *from + (*to - *from).min(left_ms);
        left_ms -= *to - *from;
    }
    greens.retain(|&(from, to)| from < to);
    let starts: Vec<Ms> = greens.iter().map(|green| green.0).collect();
    if let Some((from, to)) = greens.first_mut() {
        let next = starts.into_iter().filter(|start| start >= to).min();
        let longer = (*to + left_ms).min(next.unwrap_or(cycle_ms));
        left_ms -= longer - *to;
        *to = longer;
        if next.is_none() {
            *from = from.saturating_sub(left_ms);
        }
    }
}

/// Returns the intervals of a cycle in which at least `most` of these positions have green or
/// yellow. Yellow counts, because cars still pass in it. If `needs_green` is set, an interval must
/// contain a phase in which at least `most` positions have green. Otherwise, intervals of yellow
/// alone count as well.
fn intervals(
    phases: &[(Ms, Vec<u8>)],
    positions: &[usize],
    most: usize,
    needs_green: bool,
) -> Vec<(Ms, Ms)> {
    let mut all = Vec::new();
    let mut open: Option<(Ms, bool)> = None;
    let mut now = 0;
    let end = phases.iter().map(|phase| phase.0).sum();
    let last = (0, Vec::new());
    for (length, state) in phases.iter().chain([&last]) {
        let count = |letters: &[u8]| {
            let letter = |position: &usize| state.get(*position);
            let letters = positions
                .iter()
                .filter_map(letter)
                .filter(|l| letters.contains(l));
            letters.count()
        };
        let (green, yellow) = (count(b"gGsoO"), count(b"yY"));
        let passes = (green + yellow >= most).then_some(green >= most);
        open = match (open, passes) {
            (None, Some(green)) => Some((now, green)),
            (Some((begin, seen)), Some(green)) => Some((begin, seen || green)),
            (Some((begin, seen)), None) => {
                if now > begin && (seen || !needs_green) {
                    all.push((begin, now.min(end)));
                }
                None
            }
            (None, None) => None,
        };
        now += length;
    }
    all
}
