//! Irem's GA20: four voices of unsigned 8-bit samples, mono.
//!
//! Each voice has eight bytes at 8 v (command BF):
//!
//! | byte | |
//! |---|---|
//! | 0, 1 | start, in units of 16 bytes, low byte first |
//! | 2, 3 | end, in units of 16 bytes |
//! | 4 | rate: a sample every 100h − n ticks of 4 clocks |
//! | 5 | volume n: n ÷ (n + 10) |
//! | 6 | 2 plays, 0 stops |
//!
//! A byte of 0 also ends a sound. We use frames of 16 ticks and average the output over each frame.
//!
//! Source: the registers and the volume's curve as MAME's iremga20 (BSD-3-Clause, Acho A. Tang and
//! others) describes them; VGM specification 1.72 (header E0).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::PcmChip;
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the GA20 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ga20,
    name: "GA20",
    verification: "documented arithmetic; libvgm: spectra 0.0 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(8.0),
    level: Level::new(1.0, 0x280, 1.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 15,
    memory_blocks: &[0x93],
    create: Create::Samples(|_, clock_hz| Box::new(Ga20::new(clock_hz))),
};

const VOICES: usize = 4;

/// The number of clocks per tick, and of ticks per native frame.
const TICK: u64 = 4;
const TICKS: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    start: u32,
    end: u32,
    rate: u8,
    /// The volume in 256ths.
    volume: i32,
    playing: bool,
    at: u32,
    /// The number of ticks until the next sample.
    left: u32,
    sample: i32,
}

/// An emulated GA20, which renders native frames.
#[derive(Clone, Debug)]
pub struct Ga20 {
    clock_hz: u32,
    voices: [Voice; VOICES],
    rom: Rom,
}

impl Ga20 {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            voices: Default::default(),
            rom: Rom::default(),
        }
    }
}

impl Voice {
    fn write(&mut self, byte: u16, value: u8) {
        let wide = u32::from(value);
        match byte {
            0 => self.start = self.start & 0xF_F000 | wide << 4,
            1 => self.start = self.start & 0x0_0FF0 | wide << 12,
            2 => self.end = self.end & 0xF_F000 | wide << 4,
            3 => self.end = self.end & 0x0_0FF0 | wide << 12,
            4 => self.rate = value,
            5 => self.volume = 256 * i32::from(value) / (i32::from(value) + 10),
            6 => {
                self.playing = value & 2 != 0;
                (self.at, self.left) = (self.start, 0);
            }
            _ => {}
        }
    }

    /// Reads the next sample and returns whether there is one.
    fn advance(&mut self, rom: Reader<'_>) -> bool {
        let byte = rom.byte(self.at);
        self.playing = byte != 0 && self.at < self.end;
        self.sample = i32::from(byte) - 0x80;
        self.at += 1;
        self.left = 0x100 - u32::from(self.rate);
        self.playing
    }

    fn add(&mut self, rom: Reader<'_>, out: &mut [[i32; 2]]) {
        for frame in out {
            let (mut sum, mut ticks) = (0, TICKS);
            while ticks > 0 {
                if self.left == 0 && !self.advance(rom) {
                    return;
                }
                let some = self.left.min(ticks);
                sum += self.sample * some as i32;
                self.left -= some;
                ticks -= some;
            }
            frame[0] += sum * self.volume;
        }
    }
}

impl PcmChip for Ga20 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: TICK * u64::from(TICKS),
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        self.voices[usize::from(reg >> 3 & 3)].write(reg & 7, value as u8);
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        for voice in self.voices.iter_mut().filter(|voice| voice.playing) {
            voice.add(rom, out);
        }
        for frame in out {
            // The sum has eight bits of sample, eight of volume and four of ticks, for four voices.
            *frame = [frame[0] >> 6; 2];
        }
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x93).then_some(&mut self.rom)
    }
}
