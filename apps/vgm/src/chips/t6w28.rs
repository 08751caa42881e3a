//! The T6W28 of the Neo Geo Pocket: three tones and a noise, each with a volume per side.
//!
//! The chip has two ports, which accept the same bytes as the port of an [`Sn76489`].
//!
//! | | left port (VGM command 50) | right port (command 30) |
//! |---|---|---|
//! | volumes | of the left side | of the right side |
//! | periods of the tones | as in the SN76489 | only that of tone 3: the noise's period at rate 3 |
//! | noise control | ignored | as in the SN76489 |
//!
//! The format describes the chip as two SN76489 with bit 31 of the clock set. Therefore, we build
//! it from two of them: the left one has the tones, and the right one has the noise. The bytes of
//! the second SN76489 have bit 1 of the port set.
//!
//! Source: the VGM 1.72 specification (header 0x0C); public notes on the hardware of the Neo Geo
//! Pocket.

use super::Rate;
use super::sn76489::{CHANNELS, Sn76489, Variant};
use crate::blep::Sides;

/// The channel of the noise.
const NOISE: usize = 3;

const SIDES: [Sides; 2] = [Sides::Left, Sides::Right];

/// The T6W28.
///
/// ```
/// use creel_vgm::blep::Sides;
/// use creel_vgm::chips::sn76489::Variant;
/// use creel_vgm::chips::t6w28::T6w28;
///
/// let mut chip = T6w28::new(3_072_000, Variant::SEGA);
/// chip.write(0, 0, 0x8a); // tone 1 with period 10
/// chip.write(2, 0, 0x90); // at its loudest on the right
/// let mut steps = Vec::new();
/// chip.run(15, |tick, sides, delta| steps.push((tick, sides, delta)));
/// assert_eq!(steps, [(0, Sides::Right, 8191), (10, Sides::Right, -8191)]);
/// ```
#[derive(Clone, Debug)]
pub struct T6w28 {
    left: Sn76489,
    right: Sn76489,
    /// The level of each channel after the last tick, left and right.
    output_levels: [[i16; 2]; CHANNELS],
}

impl T6w28 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32, variant: Variant) -> Self {
        let half = Sn76489::new(clock_hz, variant);
        T6w28 {
            left: half.clone(),
            right: half,
            output_levels: [[0; 2]; CHANNELS],
        }
    }

    /// Returns the number of ticks per second.
    pub fn rate(&self) -> Rate {
        self.left.rate()
    }

    /// Writes a byte to the left port, or to the right port if bit 1 of `port` is set.
    ///
    /// There is no port for panning, so bytes with bit 0 of `port` are ignored. `_reg` is ignored,
    /// because the chip has no register numbers.
    pub fn write(&mut self, port: u8, _reg: u8, value: u8) {
        match port & 3 {
            0 => self.left.write(0, 0, value),
            2 => self.right.write(0, 0, value),
            _ => {}
        }
    }

    /// Replaces tones of at most `period` by their mean from now on.
    pub fn set_inaudible_period(&mut self, period: u32) {
        self.left.set_inaudible_period(period);
    }

    /// Runs `ticks` ticks and reports each change to `sink` as (tick, side, difference).
    ///
    /// The first tick is 0. Ticks increase within a channel and a side. Channels and sides are
    /// reported one after the other.
    pub fn run(&mut self, ticks: u32, mut sink: impl FnMut(u32, Sides, i32)) {
        if ticks == 0 {
            return;
        }
        for (channel, levels) in self.output_levels.iter_mut().enumerate() {
            let halves = [&self.left, &self.right];
            for ((level, half), side) in levels.iter_mut().zip(halves).zip(SIDES) {
                let from_to = (*level, half.loudness(channel));
                let report = |tick, delta| sink(tick, side, delta);
                *level = if channel == NOISE {
                    self.right.run_noise(ticks, from_to, report)
                } else {
                    self.left.run_tone(channel, ticks, from_to, report)
                };
            }
        }
        for tone in &mut self.left.tones {
            tone.advance(ticks);
        }
        self.right.noise.advance(ticks, self.right.variant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIANT: Variant = Variant {
        taps: 6,
        width: 16,
        flags: 0,
    };

    /// Returns the level of each side after each tick, for bytes to the left and the right port.
    fn rendered(bytes: &[(u8, u8)], ticks: u32, run: u32) -> Vec<[i32; 2]> {
        let mut chip = T6w28::new(3_072_000, VARIANT);
        for (port, byte) in bytes {
            chip.write(*port, 0, *byte);
        }
        let mut deltas = vec![[0; 2]; ticks as usize];
        for start in (0..ticks).step_by(run as usize) {
            chip.run(run.min(ticks - start), |tick, sides, delta| {
                let gains = sides.gains();
                let frame = &mut deltas[(start + tick) as usize];
                *frame = [0, 1].map(|side| frame[side] + gains[side] * delta);
            });
        }
        let mut level = [0; 2];
        let sum = |delta: [i32; 2]| {
            level = [0, 1].map(|side| level[side] + delta[side]);
            level
        };
        deltas.into_iter().map(sum).collect()
    }

    /// Returns the frames of an SN76489 that has received these bytes.
    fn psg(bytes: &[u8], ticks: u32) -> Vec<i32> {
        let mut chip = Sn76489::new(3_072_000, VARIANT);
        bytes.iter().for_each(|byte| chip.write(0, 0, *byte));
        let mut frames = vec![[0; 2]; ticks as usize];
        chip.render(&mut frames);
        frames.into_iter().map(|frame| frame[0]).collect()
    }

    #[test]
    fn tones_take_their_period_from_the_left_port_and_a_volume_per_side() {
        let period = [(0, 0x85), (0, 0x02), (2, 0x8F), (2, 0x3F)];
        let left = psg(&[0x85, 0x02, 0x92], 500);
        let right = psg(&[0x85, 0x02, 0x97], 500);
        for (volumes, expected) in [
            (&[(0, 0x92)][..], [&left, &vec![0; 500]]),
            (&[(2, 0x97)], [&vec![0; 500], &right]),
            (&[(0, 0x92), (2, 0x97)], [&left, &right]),
        ] {
            for run in [1, 7, 500] {
                let frames = rendered(&[&period[..], volumes].concat(), 500, run);
                for side in [0, 1] {
                    let heard: Vec<i32> = frames.iter().map(|frame| frame[side]).collect();
                    assert_eq!(&heard, expected[side], "{volumes:x?}, side {side}");
                }
            }
        }
    }

    #[test]
    fn noise_is_controlled_by_the_right_port() {
        for control in 0xE0..=0xE7u8 {
            // Tone 3 of the right port has period 5, that of the left port has period 3.
            let periods = [(0, 0xC3), (0, 0x00), (2, 0xC5), (2, 0x00)];
            let bytes = [(2, control), (0, control ^ 7), (0, 0xF1), (2, 0xF4)];
            let frames = rendered(&[&periods[..], &bytes].concat(), 3000, 11);
            for (side, volume) in [(0, 0xF1), (1, 0xF4)] {
                let expected = psg(&[0xC5, 0x00, control, volume], 3000);
                let heard: Vec<i32> = frames.iter().map(|frame| frame[side]).collect();
                assert_eq!(heard, expected, "{control:x}, side {side}");
            }
        }
    }
}
