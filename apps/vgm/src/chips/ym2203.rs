//! The YM2203, or OPN: three FM channels.
//!
//! | register | |
//! |---|---|
//! | 00–0F | SSG: a separate part, see [`ssg`](super::ssg) |
//! | 20–B2 | FM, see [`opn`](super::fm::opn); no LFO and no stereo |
//! | 2D, 2E, 2F | prescaler 6, 3 (only from 6), 2; the value does not matter |
//!
//! The output is that of the YM3014: a mantissa of 10 bits and an exponent.
//!
//! We leave out the SSG on purpose, because it renders separately from the FM. We also leave out
//! the status.
//!
//! Source: the YM2203 application manual and YM3014 datasheet; behaviour that they leave open
//! follows ymfm (BSD-3-Clause, Aaron Giles).

use super::Rate;
use super::fm::algorithms::{FullWidth, Sums};
use super::fm::dac::through_dac;
use super::fm::opn::{Opn, Prescaler};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YM2203 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2203,
    name: "YM2203",
    verification: YMFM,
    ratio: Some(3.7),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Counted("FM", 3), VoiceGroup::Counted("SSG", 3)],
    cost_ns: 60,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The number of clocks per native frame for each step of the prescaler.
const DIVIDER: u64 = 12;

const ALL_CHANNELS: u8 = 0b111;

/// The YM2203 without its SSG.
///
/// ```
/// use creel_vgm::chips::ym2203::Ym2203;
///
/// let mut chip = Ym2203::new(3_993_600);
/// let setup = [(0xb0, 7), (0xa4, 0x22), (0xa0, 0x69), (0x50, 31), (0x80, 15), (0x28, 0x10)];
/// for (reg, value) in setup {
///     chip.write(0, reg, value); // a tone on operator 1 of channel 1
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 8000));
/// ```
#[derive(Clone)]
pub struct Ym2203 {
    clock_hz: u32,
    prescaler: Prescaler,
    fm: Opn<3>,
    /// The channels that are not muted.
    channel_mask: u8,
}

impl Ym2203 {
    /// Creates a YM2203 in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        let prescaler = Prescaler::default();
        let mut fm = Opn::new(ALL_CHANNELS);
        fm.set_prescaler(prescaler);
        Self {
            clock_hz,
            prescaler,
            fm,
            channel_mask: ALL_CHANNELS,
        }
    }

    /// Returns the native rate, which is a 72nd of the clock, or a 36th or a 24th with another
    /// prescaler.
    pub fn rate(&self) -> Rate {
        let seconds = DIVIDER * u64::from(self.prescaler.fm());
        Rate {
            frames: u64::from(self.clock_hz),
            seconds,
        }
    }

    /// Returns the number of ticks per second of the chip's SSG, which also depends on the
    /// prescaler.
    pub fn ssg_rate(&self) -> Rate {
        let seconds = 4 * u64::from(self.prescaler.ssg());
        Rate {
            frames: u64::from(self.clock_hz),
            seconds,
        }
    }

    /// Writes a register between two frames. Writes to the SSG are ignored.
    ///
    /// `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        if reg >= 0x10 {
            self.prescaler.select(0, reg);
            self.fm.set_prescaler(self.prescaler);
            self.fm.write(0, reg, value);
        }
    }

    /// Mutes all channels except those in `voices`, one bit per channel. The voices of the SSG have
    /// the next higher bits, which are ignored here.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.channel_mask = ALL_CHANNELS & voices as u8;
    }

    /// Overwrites `out` with the next native frames, with equal sides and 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        let mut rest = out;
        while !rest.is_empty() {
            let frames = self.fm.begin(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            let mut sums = Sums::new(frames, 0);
            self.fm
                .render::<FullWidth>(frames, self.channel_mask, |_, values| {
                    sums.add([true; 2], values, |value| value);
                });
            sums.write(block, through_dac);
            rest = after;
        }
    }
}
