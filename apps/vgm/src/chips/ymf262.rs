//! The YMF262 (OPL3): eighteen channels of two operators, of which twelve can
//! be six of four; eight waveforms; stereo.
//!
//! The register map is in [`opl::registers`](super::opl::registers). A frame
//! takes 288 clocks. Of the four outputs that a channel can go to, A and B are
//! left and right; C and D lead to a second converter that few boards have, and
//! are left out.
//!
//! Source: Yamaha YMF262 data sheet and application manual.

use super::Rate;
use super::opl::registers::{Opl, Opl3, Revision};
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YMF262 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ymf262,
    name: "YMF262",
    verification: YMFM,
    ratio: Some(7.2),
    // The core keeps a bit more than that of the YM3812.
    level: Level::new(0.5, 0x100, 2.0),
    voices: &[
        VoiceGroup::Counted("FM", 18),
        VoiceGroup::Named(&DRUM_VOICES),
    ],
    cost_ns: 100,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The chip.
///
/// ```
/// use creel_vgm::chips::ymf262::Ymf262;
///
/// let mut chip = Ymf262::new(14_318_180);
/// chip.write(1, 0x05, 0x01);
/// for (reg, value) in [(0x23, 0x21), (0x63, 0xf0), (0x83, 0x0f), (0xc0, 0x10), (0xa0, 0x44), (0xb0, 0x32)] {
///     chip.write(0, reg, value); // A4, on the left alone
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
}

impl Ymf262 {
    /// A chip after reset, at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            fm: Opl::new(Revision::Opl3),
        }
    }

    /// The native rate: a 288th of the clock.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 288,
        }
    }

    /// Writes a register of the lower half (`port` 0) or the upper (`port` 1)
    /// between two frames.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        self.fm.write(port, reg, value);
    }

    /// Lets only these voices reach the outputs, a bit each: 18 channels, five drums.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.fm.set_voice_mask(voices);
    }

    /// Overwrites `out` with the next native frames, left and right, 16 bits.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.fm.render::<Opl3>(out);
        for side in out.as_flattened_mut() {
            *side = (*side).clamp(-0x8000, 0x7fff);
        }
    }
}
