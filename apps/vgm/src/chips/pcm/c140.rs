//! Namco's C140 with 24 voices of 8-bit or companded samples, and the C219 with 16 voices of 8-bit
//! samples.
//!
//! Each voice has sixteen bytes at 10 v:
//!
//! | byte | |
//! |---|---|
//! | 0, 1 | volume right, left |
//! | 2, 3 | step in 32768ths of a sample, high byte first |
//! | 4 | bank |
//! | 5 | bit 7 key, bit 4 loops, bit 3 companded (C140) |
//! | | C219: bit 6 right side inverted, bit 2 noise, bit 0 sign and magnitude |
//! | 6–B | start, end, loop, each high byte first |
//!
//! | register | |
//! |---|---|
//! | 1F1, 1F3, 1F5, 1F7 | C219: 128 KiB banks of voices 4–7, 8–11, 12–15, 0–3; again at 1F9–1FF |
//!
//! The board (VGM header 96) determines how a bank and an address of 16 bits are combined.
//! Addresses of the C219 are in words. The high byte of a word is first in the memory.
//!
//! We leave out the timer and its interrupt on purpose.
//!
//! Source: the registers as MAME's c140 (BSD-3-Clause, R. Belmont and others) describes them; VGM
//! specification 1.71 (header 96 and A8, command D4).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the C140 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::C140,
    name: "C140, C219",
    verification: TONES,
    ratio: Some(5.0),
    level: Level::new(1.0, 0x156, 1.0),
    voices: &[VoiceGroup::Numbered(24)],
    cost_ns: 40,
    memory_blocks: &[0x8D],
    create: Create::Samples(|header, clock_hz| Box::new(C140::new(clock_hz, header.byte(0x96)))),
};

const VOICES: usize = 24;

/// A field of the header that is at least this high is the clock of the chip. A lower one is the
/// frame rate.
const CHIP_HZ: u32 = 1_000_000;
const DIVIDER: u64 = 576;

/// The frame rate that songs usually give for the C140. We replace it by the clock
/// `USUAL_CLOCK_HZ`, because the frame rate of the chip is 21,333 Hz.
const USUAL_HZ: u32 = 21_390;
const USUAL_CLOCK_HZ: u32 = 12_288_000;

/// The registers with the banks of the C219's voices, for four voices each.
const BANKS_219: [usize; 4] = [3, 0, 1, 2];

const KEY: u8 = 0x80;
const LOOPS: u8 = 0x10;
const COMPANDED: u8 = 0x08;
const INVERTED_219: u8 = 0x40;
const NOISE_219: u8 = 0x04;
const SIGN_219: u8 = 0x01;

/// The board with its chip. It determines how a bank and an address are combined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Board {
    System2,
    System21,
    C219,
}

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    bytes: [u8; 16],
    playing: bool,
    /// The mode of the playing note, and its addresses in bytes.
    mode: u8,
    bank: u32,
    start: u32,
    length: u32,
    loop_at: u32,
    at: u32,
    fraction: u32,
    sample: i32,
    last: i32,
    noise: u16,
}

/// An emulated C140 or C219, which renders native frames.
#[derive(Clone, Debug)]
pub struct C140 {
    clock_hz: u32,
    board: Board,
    voices: [Voice; VOICES],
    banks: [u8; 4],
    rom: Rom,
}

impl C140 {
    /// Creates a chip in its state after reset. `kind` is byte 96 of the VGM header.
    pub fn new(clock_hz: u32, kind: u8) -> Self {
        let board = match kind {
            0 => Board::System2,
            1 => Board::System21,
            _ => Board::C219,
        };
        Self {
            clock_hz,
            board,
            voices: std::array::from_fn(|number| Voice {
                noise: 0x1234 + number as u16,
                ..Voice::default()
            }),
            banks: [0; 4],
            rom: Rom::default(),
        }
    }
}

impl Voice {
    fn word(&self, at: usize) -> u32 {
        u32::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn press(&mut self, mode: u8, board: Board) {
        let unit = if board == Board::C219 { 2 } else { 1 };
        self.playing = mode & KEY != 0;
        if self.playing {
            self.mode = mode;
            self.bank = u32::from(self.bytes[4]);
            self.start = self.word(6) * unit;
            self.length = (self.word(8) * unit).saturating_sub(self.start);
            self.loop_at = (self.word(10) * unit).wrapping_sub(self.start);
            (self.at, self.fraction) = (0, 0);
            (self.sample, self.last) = (0, 0);
        }
    }

    /// Returns the address of the current byte in the memory.
    fn place(&self, board: Board, bank_219: u8) -> u32 {
        let address = self.start.wrapping_add(self.at);
        let banked = self.bank << 16 | address & 0xFFFF;
        match board {
            Board::System2 => (banked & 0x20_0000) >> 2 | banked & 0x7_FFFF,
            Board::System21 => (banked & 0x30_0000) >> 1 | banked & 0x7_FFFF,
            Board::C219 => (u32::from(bank_219 & 3) << 17).wrapping_add(address) ^ 1,
        }
    }

    /// Decodes a byte according to the mode of the voice. Full scale is 4096.
    fn decode(&self, byte: u8, board: Board) -> i32 {
        let plain = i32::from(byte as i8);
        if board == Board::C219 {
            let value = if self.mode & SIGN_219 != 0 && plain < 0 {
                -(plain & 0x7F)
            } else {
                plain
            };
            return value << 5;
        }
        if self.mode & COMPANDED == 0 {
            return plain << 5;
        }
        // The upper five bits are shifted by the low three. We add the range that smaller shifts
        // cover.
        let (high, shift) = (plain >> 3, u32::from(byte & 7));
        let reached = (16 << shift) - 16;
        (high << shift) + if high < 0 { -reached } else { reached }
    }

    /// Moves to the next byte and returns whether there is one.
    fn advance(&mut self) -> bool {
        self.at = self.at.wrapping_add(1);
        if self.at >= self.length {
            if self.mode & LOOPS == 0 {
                return false;
            }
            self.at = self.loop_at;
        }
        true
    }
}

impl PcmChip for C140 {
    fn rate(&self) -> Rate {
        let clock_hz = match self.clock_hz {
            USUAL_HZ if self.board != Board::C219 => USUAL_CLOCK_HZ,
            clock_hz => clock_hz,
        };
        Rate {
            frames: u64::from(clock_hz),
            seconds: if clock_hz < CHIP_HZ { 1 } else { DIVIDER },
        }
    }

    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let value = value as u8;
        let reg = u16::from(port & 1) << 8 | reg & 0xFF;
        match reg {
            0x1F0.. if reg & 1 != 0 => self.banks[usize::from(reg >> 1 & 3)] = value,
            0x000..0x180 => {
                let voice = &mut self.voices[usize::from(reg >> 4)];
                voice.bytes[usize::from(reg & 15)] = value;
                if reg & 15 == 5 {
                    voice.press(value, self.board);
                }
            }
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        let voices = if self.board == Board::C219 {
            16
        } else {
            VOICES
        };
        for (number, voice) in self.voices[..voices].iter_mut().enumerate() {
            if voice.playing {
                let bank = self.banks[BANKS_219[number >> 2 & 3]];
                voice.add(rom, (self.board, bank), out);
            }
        }
        for value in out.as_flattened_mut() {
            *value >>= 7;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8D).then_some(&mut self.rom)
    }
}

impl Voice {
    fn add(&mut self, rom: Reader<'_>, (board, bank): (Board, u8), out: &mut [[i32; 2]]) {
        let mut volumes = [self.bytes[1], self.bytes[0]].map(i32::from);
        if board == Board::C219 && self.mode & INVERTED_219 != 0 {
            volumes[1] = -volumes[1];
        }
        let step = self.word(2) * 2;
        let noisy = board == Board::C219 && self.mode & NOISE_219 != 0;
        for frame in out {
            self.fraction += step;
            if self.fraction >= 0x1_0000 {
                for _ in 0..self.fraction >> 16 {
                    if !self.advance() {
                        self.playing = false;
                        return;
                    }
                }
                self.fraction &= 0xFFFF;
                self.last = self.sample;
                let byte = if noisy {
                    self.noise = self.noise >> 1 ^ ((self.noise & 1).wrapping_neg() & 0xFFF6);
                    self.noise as u8
                } else {
                    rom.byte(self.place(board, bank))
                };
                self.sample = self.decode(byte, board);
            }
            let rise = self.sample - self.last;
            let value = self.last + ((rise * (self.fraction >> 1) as i32) >> 15);
            frame[0] += value * volumes[0];
            frame[1] += value * volumes[1];
        }
    }
}
