//! The AY-3-8910 and the YM2149: an [`Ssg`] in its own package.
//!
//! The register map is in [`ssg`](super::ssg). The types in the VGM header (0x78) differ in sound
//! as follows.
//!
//! | type | chip | levels of the envelope | tick |
//! |---|---|---|---|
//! | 00 to 03 | AY-3-8910, 8912, 8913, AY8930 | 16, each for two steps | 8 clocks |
//! | 10, 11 | YM2149, YM3439 | 32 | 8 clocks, or 16 by flag 10 (pin 26 low) |
//! | 12, 13 | YMZ284, YMZ294 | 32 | as above |
//!
//! A VGM file may pan each channel to the left, to the right or to both sides (command 31). We
//! leave out two features on purpose:
//!
//! - The expanded mode of the AY8930.
//! - The analogue mixing of boards that join the three pins (header flags 02, 04 and 08). There,
//!   loud channels attenuate each other.
//!
//! Source: General Instrument AY-3-8910 data manual (the envelope takes 256 clocks of the tone for
//! its 16 steps); Yamaha YM2149 manual; the VGM 1.72 specification.

use super::Rate;
use super::ssg::{CHANNELS, Ssg, YM2149_LEVELS};
use crate::blep::Sides;
use crate::chips::info::{ChipInfo, Create, Level, SSG_SCALE, VoiceGroup};
use crate::format::ChipId;

/// The entry of the AY8910 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ay8910,
    name: "AY8910, YM2149",
    verification: "tick-exact comparison with ymfm's SSG",
    ratio: Some(6.9),
    level: Level::new(SSG_SCALE, 0x100, 2.0),
    voices: &[VoiceGroup::Named(&["A", "B", "C"])],
    cost_ns: 16,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The voltages of a pin of the AY-3-8910 at its 16 levels, in mV at a load of 1 kΩ.
///
/// Source: measured by Matthew Westcott, comp.sys.sinclair, December 2001; quoted in this form by
/// MAME (BSD-3-Clause). The data manual draws steps of 3 dB, but the chip has such steps only in
/// the middle of its range.
const AY_PIN_MV: [i32; 16] = [
    1147, 1162, 1169, 1178, 1192, 1213, 1238, 1299, 1336, 1457, 1573, 1707, 1882, 2060, 2320, 2580,
];

/// The same levels, scaled to the range from 0 to the YM2149's loudest level. Each level serves two
/// steps of the envelope.
const AY_LEVELS: [i16; 32] = {
    let (least, loudest) = (AY_PIN_MV[0], YM2149_LEVELS[31] as i32);
    let mut levels = [0; 32];
    let mut step = 0;
    while step < 32 {
        let above = AY_PIN_MV[step / 2] - least;
        levels[step] = (above * loudest / (AY_PIN_MV[15] - least)) as i16;
        step += 1;
    }
    levels
};

/// The AY-3-8910 or YM2149.
///
/// ```
/// use creel_vgm::chips::ay8910::Ay8910;
///
/// let mut chip = Ay8910::new(1_789_773, 0x00, 0x00);
/// chip.write(0, 0x00, 2);
/// chip.write(0, 0x07, 0b111_110);
/// chip.write(0, 0x08, 15);
/// let mut frames = [[0; 2]; 5];
/// chip.render(&mut frames);
/// assert_eq!(frames.map(|frame| frame[0]), [0, 16382, 16382, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Ay8910 {
    clock_hz: u32,
    clocks_a_tick: u32,
    ssg: Ssg,
    sides: [Sides; CHANNELS],
    /// The panning and the level of each channel after the last tick.
    output_levels: [(Sides, i32); CHANNELS],
}

impl Ay8910 {
    /// Creates a silent chip at `clock_hz`. `kind` (0x78) and `flags` (0x79) are those of the
    /// header.
    pub fn new(clock_hz: u32, kind: u8, flags: u8) -> Self {
        let is_yamaha = kind & 0x10 != 0;
        Self {
            clock_hz,
            clocks_a_tick: if is_yamaha && flags & 0x10 != 0 {
                16
            } else {
                8
            },
            ssg: Ssg::with_levels(if is_yamaha {
                &YM2149_LEVELS
            } else {
                &AY_LEVELS
            }),
            sides: [Sides::Both; CHANNELS],
            output_levels: [(Sides::Both, 0); CHANNELS],
        }
    }

    /// Returns the number of ticks per second.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: u64::from(self.clocks_a_tick),
        }
    }

    /// Writes a register. `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        self.ssg.write(reg, value);
    }

    /// Pans the channels A, B and C. Bits 0 and 1 are channel A, 2 and 3 B, 4 and 5 C. The lower
    /// bit of a pair is the left side.
    pub fn set_stereo(&mut self, mask: u8) {
        for (channel, sides) in self.sides.iter_mut().enumerate() {
            let pair = mask >> (2 * channel);
            *sides = Sides::of(pair & 1 != 0, pair & 2 != 0);
        }
    }

    /// Replaces short periods by their mean, as [`Ssg::set_inaudible_period`] does.
    pub fn set_inaudible_period(&mut self, period: u32) {
        self.ssg.set_inaudible_period(period);
    }

    /// Overwrites `out` with one stereo frame per tick. Each channel is 0 to 16382.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            let mut levels = [[0; CHANNELS]];
            self.ssg.levels(&mut levels);
            *frame = [0, 0];
            for (channel, level) in levels[0].into_iter().enumerate() {
                let [left, right] = self.sides[channel].gains();
                frame[0] += left * i32::from(level);
                frame[1] += right * i32::from(level);
                self.output_levels[channel] = (self.sides[channel], i32::from(level));
            }
        }
    }

    /// Runs `ticks` ticks and reports each change to `sink` as (tick, sides, difference).
    ///
    /// The first tick is 0. The differences add up to the output of [`render`](Self::render).
    pub fn run(&mut self, ticks: u32, mut sink: impl FnMut(u32, Sides, i32)) {
        if ticks == 0 {
            return;
        }
        for (shown, &sides) in self.output_levels.iter_mut().zip(&self.sides) {
            if shown.0 != sides && shown.1 != 0 {
                sink(0, shown.0, -shown.1);
                sink(0, sides, shown.1);
            }
            shown.0 = sides;
        }
        self.ssg.run(ticks, |tick, channel, delta| {
            self.output_levels[channel].1 += delta;
            sink(tick, self.sides[channel], delta);
        });
    }
}
