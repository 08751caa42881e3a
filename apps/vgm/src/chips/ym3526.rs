//! The YM3526 (OPL): nine channels of two operators, sine waves only.
//!
//! The register map is in [`opl::registers`](super::opl::registers). A frame takes 72 clocks. The
//! chip is mono. Its sum goes to a YM3014 converter with a mantissa of 10 bits and an exponent.
//!
//! Source: Yamaha YM3526 application manual.

use super::Rate;
use super::fm::dac::through_dac;
use super::opl::registers::{EarlyOpl, Opl, Revision};
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the YM3526 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym3526,
    name: "YM3526",
    verification: "bit-exact comparison with ymfm; libvgm: spectra 0.2 dB, balance 0.0 dB, onsets 0.98",
    ratio: Some(3.6),
    level: Level::new(1.0, 0x100, 2.0),
    voices: &[
        VoiceGroup::Counted("FM", 9),
        VoiceGroup::Named(&DRUM_VOICES),
    ],
    cost_ns: 100,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The YM3526.
///
/// ```
/// use creel_vgm::chips::ym3526::Ym3526;
///
/// let mut chip = Ym3526::new(3_579_545);
/// for (reg, value) in [(0x23, 0x21), (0x63, 0xf0), (0x83, 0x0f), (0xa0, 0x44), (0xb0, 0x32)] {
///     chip.write(0, reg, value); // A4 on the second operator of channel 0
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 4000));
/// ```
#[derive(Clone)]
pub struct Ym3526 {
    clock_hz: u32,
    fm: Opl<9>,
}

impl Ym3526 {
    /// Creates a chip in its state after reset, at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            fm: Opl::new(Revision::Opl),
        }
    }

    /// Returns the native rate, which is a 72nd of the clock.
    ///
    /// For example, it is 49,716 Hz at 3.579545 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 72,
        }
    }

    /// Writes a register between two frames.
    ///
    /// `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        self.fm.write(0, reg, value);
    }

    /// Mutes all voices except those in `voices`, one bit per voice: nine channels, then five
    /// drums.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.fm.set_voice_mask(voices);
    }

    /// Overwrites `out` with the next native frames, with equal sides and 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.fm.render::<EarlyOpl>(out);
        for frame in out {
            *frame = [through_dac(frame[0]); 2];
        }
    }
}
