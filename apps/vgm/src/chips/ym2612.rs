//! The YM2612 and YM3438, or OPN2 and OPN2C: six FM channels and a DAC.
//!
//! | port, register | bits | |
//! |---|---|---|
//! | 0, 20–B6 | | FM channels 1–3, see [`opn`](super::fm::opn) |
//! | 0, 2A | `xxxxxxxx` | DAC data, unsigned |
//! | 0, 2B | `x-------` | the DAC replaces channel 6 |
//! | 0, 2C | `----x---` | the DAC's ninth bit (test register) |
//! | 1, 30–B6 | | FM channels 4–6 |
//!
//! A channel is limited to 9 bits, and the chip outputs its channels one after the other. We output
//! their mean. The output of the YM2612 has a discontinuity at 0, which is audible as a ladder
//! effect in quiet tones. The YM3438 does not have it.
//!
//! A stream of DAC data would split blocks every few frames. Therefore [`Ym2612::render_with_dac`]
//! receives the data together with the block.
//!
//! We leave out reading the status and the other test bits on purpose.
//!
//! Source: the YM3438 application manual, Sega's Genesis software manual; the DAC's behaviour
//! follows ymfm (BSD-3-Clause, Aaron Giles).

use super::Rate;
use super::fm::algorithms::{NineBits, Sums};
use super::fm::opn::{ALL, Opn};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YM2612 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2612,
    name: "YM2612, YM3438",
    verification: YMFM,
    ratio: Some(2.5),
    // The core outputs the mean of six channels.
    level: Level::new(1.5, 0x100, 1.0),
    voices: &[
        VoiceGroup::Counted("FM", 5),
        VoiceGroup::Named(&["FM 6, DAC"]),
    ],
    cost_ns: 115,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The number of clocks per native frame.
const DIVIDER: u64 = 144;

const CHANNELS: i32 = 6;

/// The FM channels that remain when the DAC is on.
const WITHOUT_LAST: u8 = 0b01_1111;

/// The offsets of the YM2612's output for positive and negative values.
const LADDER: [i32; 2] = [4, -3];

/// The YM2612 or YM3438.
///
/// ```
/// use creel_vgm::chips::ym2612::Ym2612;
///
/// let mut chip = Ym2612::new(7_670_454);
/// chip.write(0, 0x2b, 0x80);
/// let mut frames = [[0; 2]; 4];
/// chip.render_with_dac(&[(1, 0xff), (3, 0x80)], &mut frames);
/// assert_eq!(frames.map(|frame| frame[0]), [504, 5839, 5839, 504]);
/// ```
#[derive(Clone)]
pub struct Ym2612 {
    clock_hz: u32,
    has_ladder: bool,
    /// The channels that are not muted. The last one includes the DAC.
    channel_mask: u8,
    fm: Opn<6>,
    dac_on: bool,
    /// The DAC value, 9 bits, signed.
    dac: i32,
}

impl Ym2612 {
    /// Creates a YM2612 in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            has_ladder: true,
            channel_mask: ALL,
            fm: Opn::new(ALL),
            dac_on: false,
            dac: 0,
        }
    }

    /// Creates a YM3438 in its state after reset. It has no ladder effect.
    pub fn new_3438(clock_hz: u32) -> Self {
        Self {
            has_ladder: false,
            ..Self::new(clock_hz)
        }
    }

    /// Returns the native rate, which is a 144th of the clock.
    ///
    /// For example, it is 53,267 Hz at 7.670454 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    /// Writes a register between two frames.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match (port & 1, reg) {
            (0, 0x2a) => self.set_dac(value),
            (0, 0x2b) => self.dac_on = value & 0x80 != 0,
            (0, 0x2c) => self.dac = self.dac & !1 | i32::from(value >> 3 & 1),
            _ => self.fm.write(port, reg, value),
        }
    }

    fn set_dac(&mut self, value: u8) {
        self.dac = (i32::from(value) - 0x80) << 1 | self.dac & 1;
    }

    /// Mutes all voices except those in `voices`, one bit per channel. The last channel includes
    /// the DAC.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.channel_mask = ALL & voices as u8;
    }

    /// Overwrites `out` with the next native frames, left and right, with 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.render_with_dac(&[], out);
    }

    /// Renders as [`render`](Self::render) does, with writes of DAC data (register 2A).
    ///
    /// Each write has the frame of `out` before which it takes effect. The writes must be in order.
    pub fn render_with_dac(&mut self, data: &[(usize, u8)], out: &mut [[i32; 2]]) {
        self.render_fm(out);
        let mut start = 0;
        for &(frame, value) in data {
            let end = frame.clamp(start, out.len());
            self.add_dac(&mut out[start..end]);
            self.set_dac(value);
            start = end;
        }
        self.add_dac(&mut out[start..]);
        for value in out.as_flattened_mut() {
            *value = if self.has_ladder {
                *value * 128 * 64 / (CHANNELS * 65)
            } else {
                *value * 128 / CHANNELS
            };
        }
    }

    fn render_fm(&mut self, out: &mut [[i32; 2]]) {
        let audible = self.channel_mask & if self.dac_on { WITHOUT_LAST } else { ALL };
        let has_ladder = self.has_ladder;
        let zero = if has_ladder { LADDER[0] * CHANNELS } else { 0 };
        let mut rest = out;
        while !rest.is_empty() {
            let frames = self.fm.begin(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            let mut sums = Sums::new(frames, zero);
            self.fm
                .render::<NineBits>(frames, audible, |channel, values| {
                    sums.add(channel.outputs, values, |value| stepped(has_ladder, value));
                });
            sums.write(block, |value| value);
            rest = after;
        }
    }

    fn add_dac(&self, out: &mut [[i32; 2]]) {
        if !self.dac_on || self.channel_mask & !WITHOUT_LAST == 0 {
            return;
        }
        let value = stepped(self.has_ladder, self.dac);
        let sides = self.fm.last_outputs().map(|on| if on { value } else { 0 });
        for frame in out {
            frame[0] += sides[0];
            frame[1] += sides[1];
        }
    }
}

/// Returns a channel's value with the ladder effect, relative to the value of a channel at 0.
#[inline(always)]
fn stepped(has_ladder: bool, value: i32) -> i32 {
    let below = value < 0 && has_ladder;
    value + if below { LADDER[1] - LADDER[0] } else { 0 }
}
