//! The OKI MSM6258, an ADPCM voice of the Sharp X68000.
//!
//! The registers as VGM files write them (command B7):
//!
//! | register | |
//! |---|---|
//! | 00 | control: bit 0 stop, bit 1 play, bit 2 record |
//! | 01 | data: two 4-bit codes, the low one first |
//! | 02 | pan, of the machine around the chip: bit 0 right off, bit 1 left off |
//! | 08–0B | clock in Hz, low byte first; takes effect with the last byte |
//! | 0C | divider: 0 for 1024, 1 for 768, 2 and 3 for 512 |
//!
//! The chip decodes one code of its [ADPCM](super::oki_adpcm) every `divider` clocks. We queue a
//! few bytes, because VGM files place writes on a grid of 44,100 Hz that differs from the chip's
//! clock. Without data the output keeps its value.
//!
//! A sum of steps carries the rest of one sample over to the next. Real data is cut and joined
//! without regard to this, so the sum drifts to its limits and stays there. Like all players, we
//! let the sum leak 11/256 per code, which is a high-pass at 107 Hz at the highest rate.
//!
//! The value has 12 bits. A 10-bit output drops the two lowest. We leave out recording on purpose.
//! We also leave out the 3-bit format, because no known song uses it and no player plays it.
//!
//! Source: OKI MSM6258 data sheet (block diagram, dividers, commands); the leak: the X68000
//! emulator XM6, whose figure other players have taken up; the VGM 1.72 specification (header 0x90
//! to 0x94, command B7).

use super::Rate;
use super::oki_adpcm::{Codes, Steps};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the OKIM6258 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Okim6258,
    name: "OKIM6258",
    verification: "documented figures; libvgm: spectra 2.6 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(1.7),
    level: Level::new(1.0, 0x1C0, 2.0),
    voices: &[VoiceGroup::Numbered(1)],
    cost_ns: 20,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The part of the value that remains at the next code, in 256ths.
const KEPT: i32 = 245;

/// The value after a start, half a step of the 10-bit output below the middle.
const START_VALUE: i32 = -2;

/// The largest number of queued bytes. Further bytes replace the oldest ones.
const WAITING_MAX: u32 = 4;

/// The chip with its stereo panning.
///
/// ```
/// use creel_vgm::chips::okim6258::Okim6258;
///
/// let mut chip = Okim6258::new(8_000_000, 0b1010); // divider 512, 12 bits
/// assert_eq!(chip.rate().hz(), 15_625.0);
/// chip.write(0, 0x00, 0x02); // play
/// chip.write(0, 0x01, 0x77);
/// let mut frames = [[0; 2]; 2];
/// chip.render(&mut frames);
/// assert_eq!(frames, [[448, 448], [1_424, 1_424]]);
/// ```
#[derive(Clone, Debug)]
pub struct Okim6258 {
    clock_hz: u32,
    /// The bytes 08 to 0A, until 0B completes a new clock.
    clock_bytes: [u8; 4],
    divider: u32,
    /// The bits of a value that reach the converter.
    mask: i32,
    playing: bool,
    pan: u8,
    /// The queued codes, two per byte. The number is odd if only the high code of a byte is left.
    waiting: Codes,
    /// The value in 256ths, so that the leak causes no rounding error.
    value: i32,
    steps: Steps,
}

impl Okim6258 {
    /// Creates a chip at `clock_hz`.
    ///
    /// `flags` is byte 0x94 of the VGM header. Bits 0 and 1 are the divider, and bit 3 selects a
    /// 12-bit output instead of 10 bits.
    pub fn new(clock_hz: u32, flags: u8) -> Self {
        let mask = if flags & 8 != 0 { !0 } else { !3 };
        Self {
            clock_hz,
            clock_bytes: clock_hz.to_le_bytes(),
            divider: divider(flags),
            mask,
            playing: false,
            pan: 0,
            waiting: Codes::default(),
            value: 0,
            steps: Steps::default(),
        }
    }

    /// Returns the number of codes per second, which writes to 0B and 0C change.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: u64::from(self.divider),
        }
    }

    /// Writes a register. `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x00 => self.control(value),
            0x01 => {
                let left = self.waiting.len() & 1;
                if self.waiting.len() - left == 2 * WAITING_MAX {
                    self.waiting.drop_pair(left);
                }
                self.waiting.push(value & 15);
                self.waiting.push(value >> 4);
            }
            0x02 => self.pan = value,
            0x08..=0x0b => {
                self.clock_bytes[usize::from(reg - 8)] = value;
                let clock_hz = u32::from_le_bytes(self.clock_bytes);
                if reg == 0x0b && clock_hz != 0 {
                    self.clock_hz = clock_hz;
                }
            }
            0x0c => self.divider = divider(value),
            _ => {}
        }
    }

    /// Overwrites `out` with the next frames, each side from -32768 to 32767.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            if self.playing
                && let Some(code) = self.waiting.pop()
            {
                self.play(code);
            }
            let level = (self.value >> 8 & self.mask) << 4;
            let side = |off_bit| if self.pan & off_bit == 0 { level } else { 0 };
            *frame = [side(2), side(1)];
        }
    }

    fn control(&mut self, value: u8) {
        self.playing = value & 3 == 2;
        self.value = if self.playing { START_VALUE << 8 } else { 0 };
        self.steps = Steps::default();
        self.waiting = Codes::default();
    }

    fn play(&mut self, code: u8) {
        // Both products fit into 32 bits, because a value has 20 bits.
        let moved = self.value * KEPT / 256 + (self.steps.take(code) << 8);
        self.value = moved.clamp(-2048 << 8, (2047 << 8) | 0xFF);
    }
}

fn divider(bits: u8) -> u32 {
    match bits & 3 {
        0 => 1024,
        1 => 768,
        _ => 512,
    }
}
