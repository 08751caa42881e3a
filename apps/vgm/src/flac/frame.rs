//! A frame of FLAC: of the ways in which a block can be said, one of the shortest.
//!
//! Which sides are written, left, right, their middle and their difference, is decided by what
//! differences of low order leave of each; each side by the lengths of both its predictions.
//!
//! Source: RFC 9639, section 9.

use super::bits::{Bits, frame_sum, header_sum};
use super::predict::{Finder, Weights, difference_sums, differences};
use super::rice::{Plan, estimate};

/// Blocks that are shorter are written as they are.
const PREDICTED_MIN: usize = 32;

/// The two sides that are written, and the number by which a frame says so.
const PAIRS: [(usize, usize, u32); 4] = [
    (LEFT, RIGHT, 0b0001),
    (LEFT, DIFFERENCE, 0b1000),
    (DIFFERENCE, RIGHT, 0b1001),
    (MIDDLE, DIFFERENCE, 0b1010),
];
const LEFT: usize = 0;
const RIGHT: usize = 1;
const MIDDLE: usize = 2;
const DIFFERENCE: usize = 3;

/// Writes frames; made once a file.
pub struct Frames {
    /// Bits of a sample.
    bits: u32,
    sample_rate: u32,
    /// Left, right, middle, difference.
    sides: [Vec<i32>; 4],
    finder: Finder,
    /// What differences and weights leave of a side.
    left: [Vec<u32>; 2],
    out: Bits,
}

impl Frames {
    /// Frames of samples of so many bits.
    pub fn new(bits: u32, sample_rate: u32) -> Frames {
        Frames {
            bits,
            sample_rate,
            sides: Default::default(),
            finder: Finder::default(),
            left: Default::default(),
            out: Bits::default(),
        }
    }

    /// The frame with this number of the block of these samples, both sides in turn; blocks have
    /// `usual` frames each, but for the last.
    pub fn write(&mut self, samples: &[i32], number: u32, usual: usize) -> &[u8] {
        self.split(samples);
        let sums = self.sides.each_ref().map(|side| difference_sums(side));
        let length = samples.len() as u64 / 2;
        let costs = sums.map(|sums| {
            let each = sums.map(|sum| estimate(2 * sum, length).0);
            each.into_iter().min().unwrap_or(0)
        });
        let cost = |pair: &&(usize, usize, u32)| costs[pair.0] + costs[pair.1];
        let (first, second, assignment) = *PAIRS.iter().min_by_key(cost).expect("four");
        self.out.clear();
        self.header(samples.len() / 2, number, (usual, assignment));
        for side in [first, second] {
            let bits = self.bits + u32::from(side == DIFFERENCE);
            let sums = &sums[side];
            let order = (0..sums.len()).min_by_key(|order| sums[*order]);
            self.side(side, bits, order.unwrap_or(0));
        }
        self.out.align();
        let sum = frame_sum(self.out.bytes());
        self.out.put(u32::from(sum), 16);
        self.out.align();
        self.out.bytes()
    }

    fn split(&mut self, samples: &[i32]) {
        for side in &mut self.sides {
            side.clear();
        }
        let frames = samples.as_chunks::<2>().0;
        let of = |what: fn(&[i32; 2]) -> i32| frames.iter().map(what);
        self.sides[LEFT].extend(of(|frame| frame[0]));
        self.sides[RIGHT].extend(of(|frame| frame[1]));
        self.sides[MIDDLE].extend(of(|frame| (frame[0] + frame[1]) >> 1));
        self.sides[DIFFERENCE].extend(of(|frame| frame[0] - frame[1]));
    }

    /// The beginning of a frame of `length` frames of sound.
    fn header(&mut self, length: usize, number: u32, (usual, assignment): (usize, u32)) {
        let out = &mut self.out;
        // All blocks are of one length.
        out.put(0b11_1111_1111_1110 << 2, 16);
        let is_usual = length == usual && usual == 4096;
        out.put(if is_usual { 0b1100 } else { 0b0111 }, 4);
        let (rate, more) = rate_code(self.sample_rate);
        out.put(rate, 4);
        out.put(assignment, 4);
        let size = match self.bits {
            8 => 0b001,
            16 => 0b100,
            _ => 0b110,
        };
        out.put(size << 1, 4);
        put_number(number, out);
        if !is_usual {
            out.put(length as u32 - 1, 16);
        }
        if let Some(more) = more {
            out.put(more, 16);
        }
        out.align();
        let sum = header_sum(out.bytes());
        out.put(u32::from(sum), 8);
    }

    /// A side of samples of `bits` bits, of which differences of an order leave least.
    fn side(&mut self, side: usize, bits: u32, order: usize) {
        let (signal, out) = (&self.sides[side], &mut self.out);
        if signal.iter().all(|sample| *sample == signal[0]) {
            out.put(0, 8);
            return out.put_signed(signal[0], bits);
        }
        let [by_differences, by_weights] = &mut self.left;
        let mut best = (u64::from(bits) * signal.len() as u64, Way::AsItIs);
        if signal.len() >= PREDICTED_MIN {
            if differences(signal, order, by_differences) {
                let plan = Plan::of(by_differences, order);
                let cost = plan.bits + u64::from(bits) * order as u64;
                if cost < best.0 {
                    best = (cost, Way::Differences(plan));
                }
            }
            // With these the sums of most songs of 16 bits fit 32.
            let precision = if self.bits > 16 { 15 } else { 12 };
            let weights = self.finder.find(signal, bits, precision);
            if let Some(weights) = weights
                && weights.misses(signal, by_weights)
            {
                let plan = Plan::of(by_weights, weights.order);
                let cost = plan.bits + u64::from(bits + precision) * weights.order as u64;
                if cost < best.0 {
                    best = (cost, Way::Weights(weights, precision, plan));
                }
            }
        }
        let warm_up = |order: usize, out: &mut Bits| {
            for sample in &signal[..order] {
                out.put_signed(*sample, bits);
            }
        };
        match best.1 {
            Way::AsItIs => {
                out.put(1 << 1, 8);
                warm_up(signal.len(), out);
            }
            Way::Differences(plan) => {
                out.put((0b1000 | order as u32) << 1, 8);
                warm_up(order, out);
                plan.write(by_differences, order, out);
            }
            Way::Weights(weights, precision, plan) => {
                let Weights {
                    order,
                    numbers,
                    shift,
                } = weights;
                out.put((0b10_0000 | (order as u32 - 1)) << 1, 8);
                warm_up(order, out);
                out.put(precision - 1, 4);
                out.put(shift, 5);
                for number in &numbers[..order] {
                    out.put_signed(*number, precision);
                }
                plan.write(by_weights, order, out);
            }
        }
    }
}

/// How a side is written.
enum Way {
    AsItIs,
    Differences(Plan),
    /// The weights, their bits, and what they leave.
    Weights(Weights, u32, Plan),
}

/// The number that stands for a rate, and the one that follows the header for others.
fn rate_code(sample_rate: u32) -> (u32, Option<u32>) {
    const USUAL: [u32; 11] = [
        88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
    ];
    match USUAL.iter().position(|usual| *usual == sample_rate) {
        Some(place) => (place as u32 + 1, None),
        None if sample_rate <= 0xFFFF => (0b1101, Some(sample_rate)),
        None if sample_rate.is_multiple_of(10) => (0b1110, Some(sample_rate / 10)),
        // As the file's beginning says.
        None => (0, None),
    }
}

/// A number in as many bytes as it needs, as UTF-8 has those of characters, but up to 31 bits.
fn put_number(number: u32, out: &mut Bits) {
    if number < 0x80 {
        return out.put(number, 8);
    }
    // Each byte more has six bits; the first loses one for it.
    let more = (1..=5).find(|more| number >> (6 * more + 6 - more) == 0);
    let more = more.unwrap_or(5);
    let ones = 0xFF << (7 - more) & 0xFF;
    out.put(ones & !(1 << (6 - more)) | number >> (6 * more), 8);
    for byte in (0..more).rev() {
        out.put(0x80 | number >> (6 * byte) & 0x3F, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_coded_as_characters_are() {
        for number in [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x1_0000, 0x10_FFFF] {
            let mut out = Bits::default();
            put_number(number, &mut out);
            out.align();
            let text = char::from_u32(number).unwrap().to_string();
            assert_eq!(out.bytes(), text.as_bytes());
        }
        let mut out = Bits::default();
        put_number(0x7FFF_FFFF, &mut out);
        out.align();
        assert_eq!(out.bytes(), [0xFD, 0xBF, 0xBF, 0xBF, 0xBF, 0xBF]);
    }

    #[test]
    fn rates_are_said_where_a_code_has_them() {
        assert_eq!(rate_code(44_100), (0b1001, None));
        assert_eq!(rate_code(192_000), (0b0011, None));
        assert_eq!(rate_code(11_025), (0b1101, Some(11_025)));
        assert_eq!(rate_code(150_000), (0b1110, Some(15_000)));
        assert_eq!(rate_code(123_457), (0, None));
    }
}
