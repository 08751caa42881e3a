//! The Y8950 (MSX-AUDIO): a YM3526 with ADPCM-B.
//!
//! | register | |
//! |---|---|
//! | 07 | ADPCM-B's 00: control |
//! | 08 | bits 7, 6: CSM and note select; bits 0–3: ADPCM-B's 01, memory |
//! | 09–12 | ADPCM-B's 02 to 0B, see [`adpcm_b`](super::adpcm_b) |
//! | 06, 18, 19 | keyboard and I/O, which make no sound |
//! | others | FM, see [`opl::registers`](super::opl::registers) |
//!
//! A frame takes 72 clocks. The chip is mono, and its memory has 256 KiB.
//!
//! We leave out the same features as [`adpcm_b`](super::adpcm_b).
//!
//! Source: Yamaha Y8950 application manual; the mixing as in ymfm.

use super::Rate;
use super::adpcm_b::AdpcmB;
use super::fm::dac::through_dac;
use super::opl::registers::{EarlyOpl, Opl, Revision};
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the Y8950 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Y8950,
    name: "Y8950",
    verification: "bit-exact comparison with ymfm; libvgm: spectra 0.1 dB, balance 0.0 dB, onsets 0.98",
    ratio: Some(3.2),
    level: Level::new(1.0, 0x100, 2.0),
    voices: &[
        VoiceGroup::Counted("FM", 9),
        VoiceGroup::Named(&DRUM_VOICES),
        VoiceGroup::Named(&["ADPCM"]),
    ],
    cost_ns: 125,
    memory_blocks: &[0x88],
    create: Create::ByFactory,
};

/// The number of bytes that the chip can address.
const MEMORY: usize = 1 << 18;

/// The left output of ADPCM-B, which is the only output of this chip.
const LEFT: u8 = 0x80;

/// The Y8950.
///
/// ```
/// use creel_vgm::chips::y8950::Y8950;
///
/// let mut chip = Y8950::new(3_579_545);
/// chip.adpcm_b_mut()[..256].fill(0x77);
/// for (reg, value) in [(0x08, 0x01), (0x0b, 0x07), (0x11, 0x80), (0x12, 0xff), (0x07, 0xa0)] {
///     chip.write(0, reg, value); // 256 bytes from the start
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 1000));
/// ```
#[derive(Clone)]
pub struct Y8950 {
    clock_hz: u32,
    fm: Opl<9>,
    adpcm_b: AdpcmB,
}

impl Y8950 {
    /// Creates a chip in its state after reset, at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let mut adpcm_b = AdpcmB::new(None, 3);
        adpcm_b.ram_mut().resize(MEMORY, 0);
        adpcm_b.write(1, LEFT);
        Self {
            clock_hz,
            fm: Opl::new(Revision::Opl),
            adpcm_b,
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

    /// Returns the memory of ADPCM-B.
    pub fn adpcm_b_mut(&mut self) -> &mut Vec<u8> {
        self.adpcm_b.ram_mut()
    }

    /// Writes a register between two frames.
    ///
    /// `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x06 | 0x17..=0x19 => {}
            0x08 => {
                self.adpcm_b.write(1, value & 15 | LEFT);
                self.fm.write(0, reg, value & 0xc0);
            }
            0x07 | 0x09..=0x12 | 0x15 | 0x16 => self.adpcm_b.write(reg - 7, value),
            _ => self.fm.write(0, reg, value),
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice: nine channels, five drums and
    /// the samples.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.fm.set_voice_mask(voices);
        self.adpcm_b.set_enabled(voices >> 14 & 1 != 0);
    }

    /// Overwrites `out` with the next native frames, with equal sides and 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.fm.render::<EarlyOpl>(out);
        self.adpcm_b.render(out);
        for frame in out {
            *frame = [through_dac(frame[0]); 2];
        }
    }
}
