//! Konami's K053260: four voices of 8-bit samples or 4-bit differences.
//!
//! | register | bits | |
//! |---|---|---|
//! | 08 + 8 v, 09 | 12 | pitch: a sample every 1000h − pitch clocks, low byte first |
//! | 0A, 0B + 8 v | 16 | length less one, in bytes |
//! | 0C–0E + 8 v | 21 | start address, low byte first |
//! | 0F + 8 v | 7 | volume |
//! | 28 | `rrrrkkkk` | plays backwards; keys: a voice starts when its bit becomes 1 |
//! | 2A | `aaaallll` | 4-bit differences; loops |
//! | 2C, 2D | `--bbbaaa` | pan of voices 0 and 1, 2 and 3 |
//! | 2F | `------s-` | sound on |
//!
//! Pan 1 to 7 moves from one side to the other with constant power: 0, 24, 35, 45, 55, 66 and 90
//! degrees. 0 is silence. A voice starts one byte after its start address, but a loop returns to
//! the address itself. Codes are read low nibble first and are summed up from 0.
//!
//! We leave out three features on purpose: the ports between processors, reading the memory, and
//! the auxiliary input.
//!
//! Source: the registers, counters and angles as MAME's k053260 (BSD-3-Clause, Ernesto Corvi, Alex
//! W. Jackson) describes them.

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the K053260 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::K053260,
    name: "K053260",
    verification: "documented arithmetic; libvgm: spectra 0.3 dB, balance 0.1 dB, onsets 0.99",
    ratio: Some(2.4),
    level: Level::new(2.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 25,
    memory_blocks: &[0x8E],
    create: Create::Samples(|_, clock_hz| Box::new(K053260::new(clock_hz))),
};

const VOICES: usize = 4;

/// The number of clocks per native frame.
const DIVIDER: u32 = 64;

/// The amount that each 4-bit code adds to the sum.
const DELTAS: [i32; 16] = [
    0, 1, 2, 4, 8, 16, 32, 64, -128, -64, -32, -16, -8, -4, -2, -1,
];

/// The cosine and sine of a pan's angle, in 65536ths.
const PANS: [[i32; 2]; 8] = [
    [0, 0],
    [65_536, 0],
    [59_870, 26_656],
    [53_684, 37_590],
    [46_341, 46_341],
    [37_590, 53_684],
    [26_656, 59_870],
    [0, 65_536],
];

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    pitch: u32,
    length: u32,
    start: u32,
    volume: i32,
    pan: u8,
    backwards: bool,
    looping: bool,
    /// Whether the voice plays 4-bit differences.
    differs: bool,
    playing: bool,
    /// The position in bytes, or codes, from the start.
    at: u32,
    /// The count of clocks, up to 1000h.
    counter: u32,
    output: i32,
}

/// An emulated K053260, which renders native frames.
#[derive(Clone, Debug)]
pub struct K053260 {
    clock_hz: u32,
    keys: u8,
    sounds: bool,
    voices: [Voice; VOICES],
    rom: Rom,
}

impl K053260 {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            keys: 0,
            sounds: false,
            voices: Default::default(),
            rom: Rom::default(),
        }
    }

    fn press(&mut self, value: u8) {
        for (number, voice) in self.voices.iter_mut().enumerate() {
            let bit = |bits: u8| bits >> number & 1 != 0;
            voice.backwards = bit(value >> 4);
            if !bit(value) {
                voice.playing = false;
            } else if !bit(self.keys) {
                voice.playing = true;
                voice.at = u32::from(voice.differs);
                voice.counter = 0x1000 - DIVIDER;
                voice.output = 0;
            }
        }
        self.keys = value & 15;
    }
}

impl Voice {
    fn write(&mut self, byte: u16, value: u8) {
        let wide = u32::from(value);
        match byte {
            0 => self.pitch = self.pitch & 0xF00 | wide,
            1 => self.pitch = self.pitch & 0x0FF | (wide & 15) << 8,
            2 => self.length = self.length & 0xFF00 | wide,
            3 => self.length = self.length & 0x00FF | wide << 8,
            4 => self.start = self.start & 0x1F_FF00 | wide,
            5 => self.start = self.start & 0x1F_00FF | wide << 8,
            6 => self.start = self.start & 0x00_FFFF | (wide & 0x1F) << 16,
            _ => self.volume = i32::from(value & 0x7F),
        }
    }

    fn add(&mut self, rom: Reader<'_>, out: &mut [[i32; 2]]) {
        let volumes = PANS[usize::from(self.pan)].map(|part| part * self.volume);
        for frame in out {
            self.counter += DIVIDER;
            while self.counter >= 0x1000 {
                self.counter = self.counter - 0x1000 + self.pitch;
                if !self.advance(rom) {
                    self.playing = false;
                    self.output = 0;
                    return;
                }
            }
            frame[0] += (self.output * volumes[0]) >> 16;
            frame[1] += (self.output * volumes[1]) >> 16;
        }
    }

    /// Reads the next sample and returns whether there is one.
    fn advance(&mut self, rom: Reader<'_>) -> bool {
        self.at += 1;
        let mut byte_at = self.at >> u32::from(self.differs);
        if byte_at > self.length {
            if !self.looping {
                return false;
            }
            (self.at, byte_at, self.output) = (0, 0, 0);
        }
        let address = if self.backwards {
            self.start.wrapping_sub(byte_at)
        } else {
            self.start + byte_at
        };
        let byte = rom.byte(address & 0x1F_FFFF);
        if self.differs {
            let code = byte >> (4 * (self.at & 1)) & 15;
            let sum = self.output + DELTAS[usize::from(code)];
            self.output = i32::from(sum as i8);
        } else {
            self.output = i32::from(byte as i8);
        }
        true
    }
}

impl PcmChip for K053260 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: u64::from(DIVIDER),
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let value = value as u8;
        match reg {
            0x08..=0x27 => {
                let voice = &mut self.voices[usize::from((reg - 8) >> 3)];
                voice.write(reg & 7, value);
            }
            0x28 => self.press(value),
            0x2A => {
                for (number, voice) in self.voices.iter_mut().enumerate() {
                    voice.looping = value >> number & 1 != 0;
                    voice.differs = value >> (4 + number) & 1 != 0;
                }
            }
            0x2C | 0x2D => {
                let first = usize::from(reg & 1) * 2;
                self.voices[first].pan = value & 7;
                self.voices[first + 1].pan = value >> 3 & 7;
            }
            0x2F => self.sounds = value & 2 != 0,
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        if !self.sounds {
            return;
        }
        let rom = self.rom.read();
        for voice in self.voices.iter_mut().filter(|voice| voice.playing) {
            voice.add(rom, out);
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8E).then_some(&mut self.rom)
    }
}
