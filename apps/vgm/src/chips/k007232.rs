//! Konami's K007232: two voices that play samples of 7 bits.
//!
//! The registers as VGM files write them (command 41). The registers of voice 1 are 6 higher:
//!
//! | register | |
//! |---|---|
//! | 00, 01 | pitch, low 8 bits and high 4 |
//! | 02–04 | start of the sample, 17 bits, low bits first |
//! | 05 | starts the voice; reading it also does so, which is a write of 05 (or 0B) to 1F |
//! | 0D | bits 0 and 1: which voices repeat |
//! | 10–13 | the board's volumes: voice 0 left and right, voice 1 |
//! | 14, 15 | the board's banks of 128 KiB |
//!
//! A tick is four clocks. A voice plays the next byte every 4096 - pitch ticks. The low 7 bits are
//! the sample, and a set bit 7 ends the sample.
//!
//! We leave out the two test modes on purpose, in which fewer bits of the pitch count.
//!
//! Source: the notes on the chip that go with MAME's driver; the registers that libvgm adds to
//! those of the chip (both BSD-3, from which we took only figures); the VGM 1.72 specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the K007232 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::K007232,
    name: "K007232",
    verification: "documented figures; libvgm: spectra 2.2 dB, balance 0.1 dB",
    ratio: Some(3.2),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(2)],
    cost_ns: 20,
    memory_blocks: &[0x94],
    create: Create::Steps(|clock_hz| Box::new(K007232::new(clock_hz))),
};

/// The number of bytes that a sample address can reach.
const BANK: usize = 1 << 17;

/// The kind of the chip's data block.
const ROM: u8 = 0x94;

/// The size of the largest memory that is loaded.
const ROM_MAX: usize = 256 * BANK;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    pitch: u16,
    start: u32,
    at: u32,
    bank: usize,
    plays: bool,
    repeats: bool,
    volumes: [u8; 2],
    count: Countdown,
    shown: OutputLevel,
}

impl Voice {
    fn byte(&self, rom: &[u8]) -> Option<u8> {
        rom.get(self.bank + self.at as usize % BANK).copied()
    }

    fn level(&self, rom: &[u8]) -> [i32; 2] {
        let byte = if self.plays { self.byte(rom) } else { None };
        let sample = byte.map_or(0, |byte| i32::from(byte & 0x7F) - 0x40);
        self.volumes.map(|volume| sample * i32::from(volume))
    }

    fn start(&mut self, rom: &[u8]) {
        self.at = self.start;
        self.count = Countdown::of(self.period());
        self.plays = self.byte(rom).is_some_and(|byte| byte & 0x80 == 0);
    }

    fn period(&self) -> u32 {
        4096 - u32::from(self.pitch)
    }

    fn step(&mut self, rom: &[u8]) {
        self.at += 1;
        let ends = self.byte(rom).is_none_or(|byte| byte & 0x80 != 0);
        if (ends || self.at as usize >= BANK) && self.plays {
            self.at = self.start;
            self.plays = self.repeats && self.byte(rom).is_some_and(|byte| byte & 0x80 == 0);
        }
    }

    fn run(&mut self, rom: &[u8], ticks: u32, steps: &mut dyn StepSink) {
        self.shown.set(0, self.level(rom), steps);
        let mut count = self.count;
        while self.plays && count.left() < ticks {
            let tick = count.left();
            self.step(rom);
            self.shown.set(tick, self.level(rom), steps);
            count = Countdown::of(tick + self.period());
        }
        count.skip(ticks, 1 << 30);
        self.count = if self.plays {
            count
        } else {
            Countdown::default()
        };
    }
}

/// An emulated K007232, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct K007232 {
    clock_hz: u32,
    voices: [Voice; 2],
    rom: Vec<u8>,
}

impl K007232 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let mut voices = [Voice::default(); 2];
        // The initial volumes are those of most boards: one voice per side.
        voices[0].volumes = [255, 0];
        voices[1].volumes = [0, 255];
        K007232 {
            clock_hz,
            voices,
            rom: Vec::new(),
        }
    }

    fn write_voice(&mut self, which: usize, reg: u8, value: u8) {
        let voice = &mut self.voices[which];
        let byte = |at: u32, place: u32| at & !(0xFF << place) | u32::from(value) << place;
        match reg {
            0 => voice.pitch = voice.pitch & 0xF00 | u16::from(value),
            1 => voice.pitch = voice.pitch & 0xFF | u16::from(value & 15) << 8,
            2 => voice.start = byte(voice.start, 0),
            3 => voice.start = byte(voice.start, 8),
            4 => voice.start = voice.start & 0xFFFF | u32::from(value & 1) << 16,
            _ => voice.start(&self.rom),
        }
    }
}

impl StepChip for K007232 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 4,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x00..=0x05 => self.write_voice(0, reg, value),
            0x06..=0x0B => self.write_voice(1, reg - 6, value),
            0x0D => {
                for (bit, voice) in self.voices.iter_mut().enumerate() {
                    voice.repeats = value >> bit & 1 != 0;
                }
            }
            0x10..=0x13 => {
                self.voices[usize::from(reg >> 1 & 1)].volumes[usize::from(reg & 1)] = value;
            }
            0x14 | 0x15 => self.voices[usize::from(reg & 1)].bank = usize::from(value) * BANK,
            0x1F if value == 0x05 => self.voices[0].start(&self.rom),
            0x1F if value == 0x0B => self.voices[1].start(&self.rom),
            _ => {}
        }
    }

    fn load(&mut self, kind: u8, start: usize, data: &[u8]) {
        let end = start + data.len();
        if kind != ROM || end > ROM_MAX {
            return;
        }
        if self.rom.len() < end {
            self.rom.resize(end, 0);
        }
        self.rom[start..end].copy_from_slice(data);
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        for voice in &mut self.voices {
            voice.run(&self.rom, ticks, steps);
        }
    }
}
