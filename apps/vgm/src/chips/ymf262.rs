//! The YMF262 (OPL3): eighteen channels of two operators, eight waveforms, stereo. Twelve of the
//! channels can be combined to six channels of four operators.
//!
//! The register map is in [`opl::registers`](super::opl::registers). A frame takes 288 clocks. A
//! channel has four outputs. A and B are left and right. We leave out C and D, because they lead to
//! a second converter that few boards have. We report a song with a voice on C or D that is not on
//! A or B.
//!
//! Source: Yamaha YMF262 data sheet and application manual.

use super::Rate;
use super::opl::registers::{Opl, Opl3, Revision};
use super::pcm::ymf278b;
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YMF262 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ymf262,
    name: "YMF262",
    verification: YMFM,
    ratio: Some(7.2),
    // The output of this core has one bit more than that of the YM3812, so the factor is half as
    // large.
    level: Level::new(0.5, 0x100, 2.0),
    voices: &[
        VoiceGroup::Counted("FM", 18),
        VoiceGroup::Named(&DRUM_VOICES),
    ],
    cost_ns: 100,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The YMF262, or the FM half of a YMF278B.
///
/// ```
/// use creel_vgm::chips::ymf262::Ymf262;
///
/// let mut chip = Ymf262::new(14_318_180);
/// chip.write(1, 0x05, 0x01);
/// for (reg, value) in [(0x23, 0x21), (0x63, 0xf0), (0x83, 0x0f), (0xc0, 0x10), (0xa0, 0x44), (0xb0, 0x32)] {
///     chip.write(0, reg, value); // A4, only on the left
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 8000));
/// assert!(frames.iter().all(|frame| frame[1] == 0));
/// ```
#[derive(Clone)]
pub struct Ymf262 {
    clock_hz: u32,
    fm: Opl<18>,
    /// The volumes left and right in 256ths, if the chip is a part of a YMF278B.
    mix: Option<[i32; 2]>,
}

/// The register of port 2 that sets the volumes in a YMF278B, and its value after reset, which is
/// -9 dB.
const MIX: u8 = 0xF8;
const MIX_AFTER_RESET: u8 = 0x1B;

impl Ymf262 {
    /// Creates a chip in its state after reset, at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            fm: Opl::new(Revision::Opl3),
            mix: None,
        }
    }

    /// Creates the FM half of a YMF278B in its state after reset. `clock_hz` is the clock of the
    /// YMF278B.
    pub fn new_opl4(clock_hz: u32) -> Self {
        Self {
            mix: Some(ymf278b::mix(MIX_AFTER_RESET)),
            ..Self::new(ymf278b::fm_clock_hz(clock_hz))
        }
    }

    /// Returns the native rate, which is a 288th of the clock.
    ///
    /// For example, it is 49,716 Hz at 14.31818 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 288,
        }
    }

    /// Writes a register of the lower half (`port` 0) or the upper half (`port` 1) between two
    /// frames.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match (&mut self.mix, port, reg) {
            (Some(mix), 2, MIX) => *mix = ymf278b::mix(value),
            (_, 2.., _) => {}
            _ => self.fm.write(port, reg, value),
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice: 18 channels, then five drums.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.fm.set_voice_mask(voices);
    }

    /// Overwrites `out` with the next native frames, left and right, with 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.fm.render::<Opl3>(out);
        for side in out.as_flattened_mut() {
            *side = (*side).clamp(-0x8000, 0x7fff);
        }
        if let Some(mix) = self.mix {
            for frame in out {
                *frame = std::array::from_fn(|side| (frame[side] * mix[side]) >> 8);
            }
        }
    }
}
