//! Sega's PCM (315-5218): sixteen voices of unsigned 8-bit samples.
//!
//! Each voice has eight bytes at 8 n and eight at 80 + 8 n (command C0 has the address):
//!
//! | byte | |
//! |---|---|
//! | 02, 03 | volume left, right: 7 bits |
//! | 04, 05 | loop address, low byte first |
//! | 06 | last page: the voice ends or loops after it |
//! | 07 | step in 256ths of a sample |
//! | 84, 85 | address, low byte first |
//! | 86 | bit 0 stops, bit 1 plays once; higher bits select the bank |
//!
//! A page has 256 samples. The board determines which bits select the bank, and its address. The
//! VGM header (3C) contains this: the low byte is the shift of these bits, and the third byte is
//! their mask.
//!
//! Source: VGM specification 1.71 (header 38 to 3F, command C0); the registers as MAME's segapcm
//! (BSD-3-Clause, Hiromitsu Shioya, Olivier Galibert) describes them.

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the SegaPCM in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::SegaPcm,
    name: "SegaPCM",
    verification: TONES,
    ratio: Some(2.0),
    // The core drops two bits, so that eight voices at their loudest fit into 16 bits.
    level: Level::new(4.0, 0x180, 1.0),
    voices: &[VoiceGroup::Numbered(16)],
    cost_ns: 25,
    memory_blocks: &[0x80],
    create: Create::Samples(|header, clock_hz| Box::new(SegaPcm::new(clock_hz, header.long(0x3C)))),
};

const VOICES: usize = 16;

/// The bits that select a bank if the header does not give them.
const USUAL_MASK: u8 = 0x70;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    volumes: [i32; 2],
    loop_page: u16,
    last_page: u8,
    step: u8,
    /// The position in 256ths of a sample.
    at: u32,
    flags: u8,
}

/// An emulated SegaPCM, which renders native frames.
#[derive(Clone, Debug)]
pub struct SegaPcm {
    clock_hz: u32,
    shift: u32,
    mask: u8,
    voices: [Voice; VOICES],
    rom: Rom,
}

impl SegaPcm {
    /// Creates a chip at `clock_hz`. `board` is word 3C of the VGM header, which describes the
    /// board.
    pub fn new(clock_hz: u32, board: u32) -> Self {
        let mask = (board >> 16) as u8;
        let voice = Voice {
            flags: 1,
            ..Voice::default()
        };
        Self {
            clock_hz,
            shift: board & 15,
            mask: if mask == 0 { USUAL_MASK } else { mask },
            voices: [voice; VOICES],
            rom: Rom::default(),
        }
    }
}

impl Voice {
    fn write(&mut self, byte: u16, value: u8) {
        let wide = u32::from(value);
        match byte {
            0x02 | 0x03 => self.volumes[usize::from(byte & 1)] = i32::from(value & 0x7F),
            0x04 => self.loop_page = self.loop_page & 0xFF00 | u16::from(value),
            0x05 => self.loop_page = self.loop_page & 0x00FF | u16::from(value) << 8,
            0x06 => self.last_page = value,
            0x07 => self.step = value,
            0x84 => self.at = self.at & 0xFF_00FF | wide << 8,
            0x85 => self.at = self.at & 0x00_FFFF | wide << 16,
            0x86 => {
                self.flags = value;
                if value & 1 != 0 {
                    self.at &= 0xFF_FF00;
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, rom: Reader<'_>, bank: u32, out: &mut [[i32; 2]]) {
        let behind = u32::from(self.last_page.wrapping_add(1));
        for frame in out {
            if self.at >> 16 == behind {
                if self.flags & 2 != 0 {
                    self.flags |= 1;
                    self.at &= 0xFF_FF00;
                    return;
                }
                self.at = u32::from(self.loop_page) << 8;
            }
            let sample = i32::from(rom.byte(bank + (self.at >> 8))) - 0x80;
            frame[0] += sample * self.volumes[0];
            frame[1] += sample * self.volumes[1];
            self.at = (self.at + u32::from(self.step)) & 0xFF_FFFF;
        }
    }
}

impl PcmChip for SegaPcm {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 128,
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        // Higher address lines are ignored, so the rest of the address space mirrors these
        // registers.
        let voice = &mut self.voices[usize::from(reg >> 3 & 15)];
        voice.write(reg & 0x87, value as u8);
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let playing = |voice: &&mut Voice| voice.flags & 1 == 0;
        let rom = self.rom.read();
        for voice in self.voices.iter_mut().filter(playing) {
            let bank = u32::from(voice.flags & self.mask) << self.shift;
            voice.add(rom, bank, out);
        }
        for value in out.as_flattened_mut() {
            // With this shift, eight voices at their loudest fit into 16 bits.
            *value >>= 2;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x80).then_some(&mut self.rom)
    }
}
