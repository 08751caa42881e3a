//! A group of four slots of a YMF271, and the sixteen algorithms that connect operators.
//!
//! Operators are computed in the order 1, 3, 2, 4, as drawn in the manual. The feedback of the
//! first one is the mean of the last two values of itself or, in some algorithms, of slot 3. These
//! two operators are computed frame by frame. All others are rendered a block at a time.

use super::super::super::rom::Reader;
use super::slot::{LFO_INTERVAL, Slot};

/// The slots of a group that play together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SyncMode {
    /// Four operators.
    #[default]
    Four,
    /// Slots 1 and 3 together, and slots 2 and 4 together.
    Pairs,
    /// Three operators, and slot 4 on its own.
    Three,
    /// Each slot on its own.
    None,
}

impl SyncMode {
    /// Returns the mode for the value of a group's register.
    pub fn of(value: u8) -> Self {
        match value & 3 {
            0 => SyncMode::Four,
            1 => SyncMode::Pairs,
            2 => SyncMode::Three,
            _ => SyncMode::None,
        }
    }

    /// Returns the slots, one bit per slot, that receive a shared write to slot `port`.
    pub fn slots(self, port: usize) -> u8 {
        match (self, port) {
            (SyncMode::Four, 0) => 0b1111,
            (SyncMode::Pairs, 0) => 0b0101,
            (SyncMode::Pairs, 1) => 0b1010,
            (SyncMode::Three, 0) => 0b0111,
            _ => 1 << port,
        }
    }
}

/// The connections of operators. Bits are places in the order of computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Algorithm {
    /// Whether the feedback comes from the second operator instead of the first.
    from_second: bool,
    /// The modulators of the second, third and fourth operator.
    moved_by: [u8; 3],
    /// The operators whose output is added.
    carriers: u8,
}

const fn algorithm(from_second: bool, moved_by: [u8; 3], heard: u8) -> Algorithm {
    Algorithm {
        from_second,
        moved_by,
        carriers: heard,
    }
}

/// The places of the slots in the order of computation: slots 1, 3, 2 and 4.
const S1: u8 = 1;
const S3: u8 = 2;
const S2: u8 = 4;
const S4: u8 = 8;

const FOUR: [Algorithm; 16] = [
    algorithm(false, [S1, S3, S2], S4),
    algorithm(true, [S1, S3, S2], S4),
    algorithm(false, [0, S1 | S3, S2], S4),
    algorithm(false, [0, S3, S1 | S2], S4),
    algorithm(false, [S1, 0, S3 | S2], S4),
    algorithm(true, [S1, 0, S3 | S2], S4),
    algorithm(false, [S1, 0, S2], S3 | S4),
    algorithm(true, [S1, 0, S2], S3 | S4),
    algorithm(false, [0, S3, S2], S1 | S4),
    algorithm(false, [0, 0, S3 | S2], S1 | S4),
    algorithm(false, [S1, 0, 0], S3 | S2 | S4),
    algorithm(true, [S1, 0, 0], S3 | S2 | S4),
    algorithm(false, [S1, S1, S1], S3 | S2 | S4),
    algorithm(false, [0, S3, 0], S1 | S2 | S4),
    algorithm(false, [S1, 0, S2], S1 | S3 | S4),
    algorithm(false, [0, 0, 0], S1 | S3 | S2 | S4),
];

const THREE: [Algorithm; 8] = [
    algorithm(false, [S1, S3, 0], S2),
    algorithm(true, [S1, S3, 0], S2),
    algorithm(false, [0, S1 | S3, 0], S2),
    algorithm(false, [0, S3, 0], S1 | S2),
    algorithm(false, [S1, 0, 0], S3 | S2),
    algorithm(true, [S1, 0, 0], S3 | S2),
    algorithm(false, [0, 0, 0], S1 | S3 | S2),
    algorithm(false, [S1, 0, 0], S1 | S3 | S2),
];

/// The algorithms of two operators, the first and the second in the order of computation.
const PAIR: [Algorithm; 4] = [
    algorithm(false, [S1, 0, 0], S3),
    algorithm(true, [S1, 0, 0], S3),
    algorithm(false, [0, 0, 0], S1 | S3),
    algorithm(false, [S1, 0, 0], S1 | S3),
];

/// The values of the operators of a group in a block, in the order of computation.
type Values = [[i32; LFO_INTERVAL]; 4];

/// A group.
#[derive(Clone, Default)]
pub struct Group {
    /// The slots 1 to 4.
    pub slots: [Slot; 4],
    /// The mode in which the slots play together.
    pub sync_mode: SyncMode,
}

impl Group {
    /// Adds at most [`LFO_INTERVAL`] frames of the slots in `heard`. If `updates_lfo` is set, the
    /// LFOs are updated first.
    pub fn render(
        &mut self,
        updates_lfo: bool,
        heard: [bool; 4],
        rom: Reader<'_>,
        out: &mut [[i32; 2]],
    ) {
        if self.slots.iter().all(Slot::is_silent) {
            return;
        }
        for slot in &mut self.slots {
            slot.prepare(updates_lfo);
        }
        match self.sync_mode {
            SyncMode::Four => {
                let algorithm = FOUR[usize::from(self.slots[0].algorithm)];
                self.operators(&[0, 2, 1, 3], algorithm, heard, out);
            }
            SyncMode::Pairs => {
                for first in 0..2 {
                    let algorithm = PAIR[usize::from(self.slots[first].algorithm & 3)];
                    self.operators(&[first, first + 2], algorithm, heard, out);
                }
            }
            SyncMode::Three => {
                let algorithm = THREE[usize::from(self.slots[0].algorithm & 7)];
                self.operators(&[0, 2, 1], algorithm, heard, out);
                self.voice(3, heard[3], rom, out);
            }
            SyncMode::None => {
                for (slot, heard) in heard.into_iter().enumerate() {
                    self.voice(slot, heard, rom, out);
                }
            }
        }
    }

    /// Adds a slot that plays on its own.
    fn voice(&mut self, number: usize, heard: bool, rom: Reader<'_>, out: &mut [[i32; 2]]) {
        let slot = &mut self.slots[number];
        if slot.is_silent() {
            return;
        }
        let mut values = [0; LFO_INTERVAL];
        let values = &mut values[..out.len()];
        if slot.has_samples() {
            slot.samples(rom, values);
        } else {
            slot.operator(None, values);
        }
        if heard {
            slot.add(values, out);
        }
    }

    /// Adds operators that play together. `order` contains their slots in the order of computation.
    fn operators(
        &mut self,
        order: &[usize],
        algorithm: Algorithm,
        heard: [bool; 4],
        out: &mut [[i32; 2]],
    ) {
        if order.iter().all(|place| self.slots[*place].is_silent()) {
            return;
        }
        let mut values: Values = [[0; LFO_INTERVAL]; 4];
        let frames = out.len();
        let done = if algorithm.from_second {
            self.loop_of_two([order[0], order[1]], frames, &mut values);
            2
        } else {
            self.slots[order[0]].fed_back(&mut values[0][..frames]);
            1
        };
        for (place, slot) in order.iter().enumerate().skip(done) {
            let (before, own) = values.split_at_mut(place);
            let movers = algorithm.moved_by[place - 1];
            let mut moved = [0; LFO_INTERVAL];
            for (mover, values) in before.iter().enumerate() {
                if movers >> mover & 1 != 0 {
                    for (sum, value) in moved.iter_mut().zip(values) {
                        *sum += value;
                    }
                }
            }
            let moved = (movers != 0).then_some(&moved);
            self.slots[*slot].operator(moved, &mut own[0][..frames]);
        }
        for place in (0..order.len()).filter(|place| algorithm.carriers >> place & 1 != 0) {
            let number = order[place];
            if heard[number] {
                self.slots[number].add(&values[place][..frames], out);
            }
        }
    }

    /// Computes the first two operators if the value of the second one is fed back into the first.
    fn loop_of_two(&mut self, [first, second]: [usize; 2], frames: usize, values: &mut Values) {
        let mut gains = [[0; LFO_INTERVAL]; 2];
        self.slots[first].gains(&mut gains[0][..frames]);
        self.slots[second].gains(&mut gains[1][..frames]);
        for frame in 0..frames {
            let fed_back = self.slots[first].fed_back_phase();
            let one = self.slots[first].value(fed_back, gains[0][frame]);
            let moved = self.slots[second].moved(one);
            let two = self.slots[second].value(moved, gains[1][frame]);
            self.slots[first].feed_back(two);
            (values[0][frame], values[1][frame]) = (one, two);
        }
    }
}
