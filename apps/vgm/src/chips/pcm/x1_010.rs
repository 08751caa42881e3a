//! Seta's X1-010: sixteen voices that play samples, or waves and envelopes in the chip's own
//! memory.
//!
//! Each voice has eight bytes at 8 v (command C8 has the address):
//!
//! | byte | of samples | of waves |
//! |---|---|---|
//! | 0 | bit 0 key, bit 1: 0, bit 7 half speed | bit 1: 1, bit 2: the envelope runs once |
//! | 1 | volume left, right, four bits each | which wave |
//! | 2, 3 | step in 16ths of a sample | step in 1024ths of a sample, low byte first |
//! | 4 | start, in units of 4 KiB | step of the envelope in 1024ths |
//! | 5 | 100h − end, in units of 4 KiB | which envelope |
//!
//! Envelopes have 128 bytes with two volumes each. They are at 0080–0FFF, by their number. Waves
//! have 128 signed bytes and are at 1000–1FFF.
//!
//! Source: the registers as MAME's x1_010 (BSD-3-Clause, Luca Elia, Manbow-J) describes them; VGM
//! specification 1.72 (header D8).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the X1-010 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::X1010,
    name: "X1-010",
    verification: "documented arithmetic; libvgm: spectra 0.1 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(3.5),
    // A volume of 15 is 546 / 256.
    level: Level::new(546.0 / 512.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(16)],
    cost_ns: 40,
    memory_blocks: &[0x91],
    create: Create::Samples(|_, clock_hz| Box::new(X1010::new(clock_hz))),
};

const VOICES: usize = 16;
const MEMORY: usize = 0x2000;

const KEY: u8 = 1;
const WAVE: u8 = 2;
const ONCE: u8 = 4;
const HALF: u8 = 0x80;

/// The step of a voice to which none was written. Some programs rely on it.
const USUAL_STEP: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The position in 1024ths of a sample.
    sample: u32,
    envelope: u32,
}

/// An emulated X1-010, which renders native frames.
#[derive(Clone, Debug)]
pub struct X1010 {
    clock_hz: u32,
    memory: Vec<u8>,
    places: [Place; VOICES],
    rom: Rom,
}

impl X1010 {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            memory: vec![0; MEMORY],
            places: Default::default(),
            rom: Rom::default(),
        }
    }
}

/// Returns the left and right volumes in a byte.
fn volumes(byte: u8) -> [i32; 2] {
    [i32::from(byte >> 4), i32::from(byte & 15)]
}

/// Adds samples until the block or the sound ends, and returns whether the sound continues.
fn add_samples(bytes: [u8; 8], at: &mut u32, rom: Reader<'_>, out: &mut [[i32; 2]]) -> bool {
    let step = match u32::from(bytes[2]) >> u32::from(bytes[0] & HALF != 0) {
        0 => USUAL_STEP,
        step => step,
    };
    let start = u32::from(bytes[4]) << 12;
    let end = (0x100 - u32::from(bytes[5])) << 12;
    let [left, right] = volumes(bytes[1]);
    for frame in out {
        let address = start + (*at >> 10);
        if address >= end {
            return false;
        }
        let sample = rom.signed(address);
        frame[0] += sample * left;
        frame[1] += sample * right;
        *at += step << 6;
    }
    true
}

/// Adds a wave until the block or the envelope ends, and returns whether the wave continues.
fn add_wave(bytes: [u8; 8], at: &mut Place, memory: &[u8], out: &mut [[i32; 2]]) -> bool {
    let step = u32::from(u16::from_le_bytes([bytes[2], bytes[3]]));
    let step = step >> u32::from(bytes[0] & HALF != 0);
    let wave = &memory[0x1000 + (usize::from(bytes[1] & 31) << 7)..][..128];
    let envelope = &memory[usize::from(bytes[5] & 31) << 7..][..128];
    for frame in out {
        let place = at.envelope >> 10;
        if bytes[0] & ONCE != 0 && place >= 128 {
            return false;
        }
        let [left, right] = volumes(envelope[place as usize & 127]);
        let sample = i32::from(wave[(at.sample >> 10) as usize & 127] as i8);
        frame[0] += sample * left;
        frame[1] += sample * right;
        at.sample = at.sample.wrapping_add(step) & 0x1_FFFF;
        at.envelope += u32::from(bytes[4]);
        if bytes[0] & ONCE == 0 {
            at.envelope &= 0x1_FFFF;
        }
    }
    true
}

impl PcmChip for X1010 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 512,
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let place = usize::from(reg) & (MEMORY - 1);
        let old = std::mem::replace(&mut self.memory[place], value as u8);
        if place < 8 * VOICES && place & 7 == 0 && old & KEY == 0 && value as u8 & KEY != 0 {
            self.places[place >> 3] = Place::default();
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        for (number, place) in self.places.iter_mut().enumerate() {
            let bytes = std::array::from_fn(|byte| self.memory[8 * number + byte]);
            if bytes[0] & KEY == 0 {
                continue;
            }
            let goes_on = if bytes[0] & WAVE == 0 {
                add_samples(bytes, &mut place.sample, rom, out)
            } else {
                add_wave(bytes, place, &self.memory, out)
            };
            if !goes_on {
                self.memory[8 * number] &= !KEY;
            }
        }
        for value in out.as_flattened_mut() {
            // Each voice has seven bits of sample and four of volume. With this shift, eight voices
            // at their loudest fit into 16 bits.
            *value <<= 1;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x91).then_some(&mut self.rom)
    }
}
