//! Programs of traffic lights.

use super::Ms;
use crate::random::Stream;

/// A fixed-time signal program, which gives each approach its green phase within a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Program {
    /// The length of the cycle.
    pub cycle_ms: Ms,
    /// The green phase of each approach, as times within the cycle. The start is included, the end
    /// is not.
    pub greens: Vec<(Ms, Ms)>,
    /// More green phases, for approaches that have several per cycle. Each entry has the number of
    /// its approach.
    pub further_greens: Vec<(u8, (Ms, Ms))>,
}

impl Program {
    /// Returns a program in which the approaches have green one after another. The cycle is divided
    /// into equal parts, one per approach. Each part ends with 3 s without green, or with half of
    /// the part if it is shorter than 6 s.
    pub fn fixed_time(approaches: u8, cycle_ms: Ms) -> Self {
        let part = cycle_ms / Ms::from(approaches.max(1));
        let green = |i: u8| {
            (
                Ms::from(i) * part,
                (Ms::from(i) + 1) * part - 3000.min(part / 2),
            )
        };
        Self {
            cycle_ms,
            greens: (0..approaches.max(1)).map(green).collect(),
            further_greens: Vec::new(),
        }
    }

    /// Returns a hash of the program.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = Stream::new(u64::from(self.cycle_ms));
        self.greens
            .iter()
            .for_each(|&(a, b)| hash.mix(u64::from(a) << 32 | u64::from(b)));
        for &(approach, (a, b)) in &self.further_greens {
            hash.mix(u64::from(approach));
            hash.mix(u64::from(a) << 32 | u64::from(b));
        }
        hash.value()
    }

    /// Returns the earliest time at or after `at_ms` at which `approach` has green.
    #[inline]
    pub fn green(&self, approach: u8, offset_ms: Ms, at_ms: Ms) -> Ms {
        let first = self.next_green(self.greens[usize::from(approach)], offset_ms, at_ms);
        if self.further_greens.is_empty() || first == at_ms {
            return first;
        }
        let further = self.greens_of(approach).skip(1);
        let further = further.map(|green| self.next_green(green, offset_ms, at_ms));
        further.fold(first, Ms::min)
    }

    /// Returns all green phases of an approach.
    pub fn greens_of(&self, approach: u8) -> impl Iterator<Item = (Ms, Ms)> {
        let further = self.further_greens.iter();
        let further = further.filter(move |further| further.0 == approach);
        std::iter::once(self.greens[usize::from(approach)]).chain(further.map(|further| further.1))
    }

    #[inline]
    fn next_green(&self, (from, to): (Ms, Ms), offset_ms: Ms, at_ms: Ms) -> Ms {
        let phase =
            (u64::from(at_ms) + u64::from(self.cycle_ms - offset_ms)) % u64::from(self.cycle_ms);
        let phase = phase as Ms;
        if phase < from {
            at_ms.saturating_add(from - phase)
        } else if phase < to {
            at_ms
        } else {
            at_ms.saturating_add(self.cycle_ms - phase + from)
        }
    }
}
