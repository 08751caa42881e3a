//! The DC filter: removes the mean and frequencies below the range of hearing.
//!
//! It stands for the coupling capacitors between the sound chips and the amplifier. Most chips run
//! on a single supply, so their output is a voltage around half of it, or between 0 and a maximum.
//! No amplifier or television accepts this voltage, and therefore all the boards that we know of
//! have a capacitor at the output. Without it, a song whose square waves are only ever positive has
//! a mean of several percent of full scale.

use super::Effect;

/// The frequency at which the filter attenuates by 3 dB. On real boards it lies between 1 and 20
/// Hz. For example, 10 µF and a load of 10 kΩ give 1.6 Hz, and 1 µF and 22 kΩ give 7 Hz. We use the
/// same frequency for all chips, because it is inaudible.
const CORNER_HZ: f64 = 5.0;

/// A high-pass of 6 dB per octave for each side.
///
/// If `c` is the change of the input per frame, the output is `y[n] = c[n] + k × y[n - 1]`. With
/// this equation, each frame would have to wait for the one before. We therefore insert the
/// equation into itself, which gives `y[n] = c[n] + k × c[n - 1] + k² × y[n - 2]`. Two frames can
/// then be computed at once.
pub(super) struct DcFilter {
    /// The factor by which the output decays per frame, and its square.
    keep: [f64; 2],
    /// The latest input.
    input: [f64; 2],
    /// The latest change of the input.
    change: [f64; 2],
    /// The latest two outputs, in the order of their frames.
    outputs: [[f64; 2]; 2],
}

impl DcFilter {
    pub(super) fn new(sample_rate: u32) -> Self {
        let keep = libm::exp(-std::f64::consts::TAU * CORNER_HZ / f64::from(sample_rate));
        DcFilter {
            keep: [keep, keep * keep],
            input: [0.0; 2],
            change: [0.0; 2],
            outputs: [[0.0; 2]; 2],
        }
    }

    /// Filters two frames at a time. The bits are those of [`apply_one`](Self::apply_one).
    ///
    /// The state is in local variables, because the compiler then keeps it in registers.
    #[allow(
        clippy::needless_range_loop,
        reason = "a lane is at the same place in all arrays"
    )]
    fn apply_pairs(&mut self, pairs: &mut [[[f32; 2]; 2]]) {
        let [keep, squared] = self.keep;
        let ([mut left, mut right], mut change) = (self.input, self.change);
        let [[a, b], [c, d]] = self.outputs;
        let mut outputs = [a, b, c, d];
        for [first, second] in pairs {
            let ([a, b], [c, d]) = (first.map(f64::from), second.map(f64::from));
            let (input, before) = ([a, b, c, d], [left, right, a, b]);
            let mut changes = [0.0; 4];
            for lane in 0..4 {
                changes[lane] = input[lane] - before[lane];
            }
            let earlier = [change[0], change[1], changes[0], changes[1]];
            for lane in 0..4 {
                outputs[lane] = (changes[lane] + keep * earlier[lane]) + squared * outputs[lane];
            }
            ([left, right], change) = ([c, d], [changes[2], changes[3]]);
            *first = rounded([outputs[0], outputs[1]]);
            *second = rounded([outputs[2], outputs[3]]);
        }
        (self.input, self.change) = ([left, right], change);
        let [a, b, c, d] = outputs;
        self.outputs = [[a, b], [c, d]];
    }

    /// Filters the next frame.
    #[allow(
        clippy::needless_range_loop,
        reason = "a lane is at the same place in all arrays"
    )]
    fn apply_one(&mut self, frame: &mut [f32; 2]) {
        let [keep, squared] = self.keep;
        let input = frame.map(f64::from);
        let [before, latest] = self.outputs;
        let mut output = [0.0; 2];
        for side in 0..2 {
            let change = input[side] - self.input[side];
            output[side] = (change + keep * self.change[side]) + squared * before[side];
            self.change[side] = change;
        }
        self.input = input;
        self.outputs = [latest, output];
        *frame = rounded(output);
    }
}

/// Adding 0 turns a negative zero into a positive one.
#[inline(always)]
fn rounded(output: [f64; 2]) -> [f32; 2] {
    output.map(|side| side as f32 + 0.0)
}

/// Outputs below this become 0 at the end of a block. They are 0 as `f32` in any case, so the
/// samples do not depend on the blocks. Without this, a silent output would decay to numbers so
/// small that the processor needs many times as long for them.
const NOTHING: f64 = 1e-60;

impl Effect for DcFilter {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        let (pairs, rest) = frames.as_chunks_mut();
        self.apply_pairs(pairs);
        for frame in rest {
            self.apply_one(frame);
        }
        for side in self.outputs.as_flattened_mut() {
            if side.abs() < NOTHING {
                *side = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dc_filter_removes_the_mean_and_keeps_tones() {
        let tone = |at: usize| (at as f32 * 0.1).sin() * 0.4;
        let mut frames: Vec<_> = (0..88_200).map(|at| [0.5 + tone(at), 0.5]).collect();
        DcFilter::new(44_100).apply(&mut frames);
        let last = &frames[66_150..];
        let mean = last.iter().map(|frame| frame[0]).sum::<f32>() / last.len() as f32;
        let peak = last.iter().map(|frame| frame[0].abs()).fold(0.0, f32::max);
        assert!(mean.abs() < 1e-3, "{mean}");
        assert!((0.395..0.405).contains(&peak), "{peak}");
        assert!(last.iter().all(|frame| frame[1].abs() < 1e-3));
    }

    #[test]
    fn a_long_silence_does_not_depend_on_the_blocks_and_ends_at_zero() {
        let rate = 8_000;
        let play = |block: usize| {
            let mut filter = DcFilter::new(rate);
            let mut frames = vec![[0.0; 2]; 60 * rate as usize];
            frames[..100].fill([0.5, -0.25]);
            // The sound after the silence must not depend on the blocks, either.
            let last = frames.len() - 50;
            frames[last..].fill([0.125, 0.5]);
            frames
                .chunks_mut(block)
                .for_each(|block| filter.apply(block));
            (frames, filter)
        };
        let (frames, _) = play(60 * rate as usize);
        for block in [1, 7, 1024] {
            let (other, _) = play(block);
            let bits = |frames: &[[f32; 2]]| -> Vec<u32> {
                frames
                    .as_flattened()
                    .iter()
                    .map(|side| side.to_bits())
                    .collect()
            };
            assert!(bits(&frames) == bits(&other), "blocks of {block}");
        }
        let mut filter = play(1024).1;
        filter.apply(&mut vec![[0.125, 0.5]; 60 * rate as usize]);
        assert_eq!(filter.outputs, [[0.0; 2]; 2]);
    }
}
