//! Ricoh's RF5C68 and RF5C164: eight voices that play from their own memory of 64 KiB.
//!
//! | register | |
//! |---|---|
//! | 00 | level of the selected voice |
//! | 01 | pan: left in the low four bits, right in the high four |
//! | 02, 03 | step in 2048ths of a sample, low byte first |
//! | 04, 05 | loop address, low byte first |
//! | 06 | start address, high byte |
//! | 07 | bit 7 sound on; with bit 6, bits 0–2 select a voice, otherwise bits 0–3 the 4 KiB of the window |
//! | 08 | one bit per voice: 0 is on |
//!
//! The memory is written through a window of 4 KiB (commands C1 and C2, blocks C0 and C1, copies).
//! A sample consists of a sign (set for values above the middle) and seven bits. FF is not a sample
//! but the end, at which the voice continues at its loop address. A voice that is off stays at its
//! start.
//!
//! The output of the RF5C68 has ten bits, and that of the RF5C164 sixteen.
//!
//! Source: Sega Mega-CD hardware manual, "PCM sound source"; VGM specification 1.71; the rounding
//! of a voice and the RF5C68's ten bits as in MAME's rf5c68 (BSD-3-Clause, Olivier Galibert).

use super::super::Rate;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;
use crate::sequence::OF_CHANNEL;

/// The entry of the RF5C68 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Rf5c68,
    name: "RF5C68",
    verification: "documented arithmetic; libvgm: spectra 0.1 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(2.7),
    level: Level::new(1.0, 0xB0, 1.0),
    voices: &[VoiceGroup::Numbered(8)],
    cost_ns: 25,
    memory_blocks: &[0x01, 0xC0],
    create: Create::Samples(|_, clock_hz| Box::new(Rf5c68::new(clock_hz))),
};

/// The entry of the RF5C164 in the list of chips.
pub const RF5C164: ChipInfo = ChipInfo {
    chip: ChipId::Rf5c164,
    name: "RF5C164",
    verification: TONES,
    ratio: Some(3.9),
    level: Level::new(1.0, 0x80, 2.0),
    voices: &[VoiceGroup::Numbered(8)],
    cost_ns: 25,
    memory_blocks: &[0x02, 0xC1],
    create: Create::Samples(|_, clock_hz| Box::new(Rf5c68::new_164(clock_hz))),
};

const VOICES: usize = 8;
const MEMORY: usize = 0x1_0000;

/// The byte that ends a sound.
const END: u8 = 0xFF;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    on: bool,
    level: u8,
    pan: u8,
    step: u16,
    loop_at: u16,
    start: u8,
    /// The position in 2048ths of a sample.
    at: u32,
}

/// An emulated RF5C68 or RF5C164, which renders native frames.
#[derive(Clone, Debug)]
pub struct Rf5c68 {
    clock_hz: u32,
    /// The bits of the output that reach the converter.
    mask: i32,
    sounds: bool,
    chosen: usize,
    window: usize,
    voices: [Voice; VOICES],
    memory: Vec<u8>,
}

impl Rf5c68 {
    /// Creates an RF5C68.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            mask: !0x3F,
            sounds: false,
            chosen: 0,
            window: 0,
            voices: Default::default(),
            memory: vec![0; MEMORY],
        }
    }

    /// Creates an RF5C164.
    pub fn new_164(clock_hz: u32) -> Self {
        Self {
            mask: !0,
            ..Self::new(clock_hz)
        }
    }
}

impl Voice {
    fn write(&mut self, reg: u16, value: u8) {
        match reg {
            0x00 => self.level = value,
            0x01 => self.pan = value,
            0x02 => self.step = self.step & 0xFF00 | u16::from(value),
            0x03 => self.step = self.step & 0x00FF | u16::from(value) << 8,
            0x04 => self.loop_at = self.loop_at & 0xFF00 | u16::from(value),
            0x05 => self.loop_at = self.loop_at & 0x00FF | u16::from(value) << 8,
            0x06 => self.start = value,
            _ => {}
        }
        if !self.on {
            self.at = u32::from(self.start) << 19;
        }
    }

    fn add(&mut self, memory: &[u8], out: &mut [[i32; 2]]) {
        let level = i32::from(self.level);
        let volumes = [self.pan & 15, self.pan >> 4].map(|pan| i32::from(pan) * level);
        for frame in out {
            let mut byte = memory[(self.at >> 11) as usize];
            if byte == END {
                self.at = u32::from(self.loop_at) << 11;
                byte = memory[usize::from(self.loop_at)];
                if byte == END {
                    return;
                }
            }
            self.at = (self.at + u32::from(self.step)) & 0x07FF_FFFF;
            let size = i32::from(byte & 0x7F);
            for (side, volume) in frame.iter_mut().zip(volumes) {
                let value = (size * volume) >> 5;
                *side += if byte & 0x80 != 0 { value } else { -value };
            }
        }
    }
}

impl PcmChip for Rf5c68 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 384,
        }
    }

    /// Port 1 is the window onto the memory.
    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let byte = value as u8;
        match (port, reg) {
            (OF_CHANNEL.., _) => self.voices[usize::from(port & 7)].write(reg, byte),
            (0, 0x07) => {
                self.sounds = byte & 0x80 != 0;
                if byte & 0x40 != 0 {
                    self.chosen = usize::from(byte & 7);
                } else {
                    self.window = usize::from(byte & 15) << 12;
                }
            }
            (0, 0x08) => {
                for (number, voice) in self.voices.iter_mut().enumerate() {
                    voice.on = byte >> number & 1 == 0;
                    if !voice.on {
                        voice.at = u32::from(voice.start) << 19;
                    }
                }
            }
            (0, _) => self.voices[self.chosen].write(reg, byte),
            _ => self.store(usize::from(reg), &[byte]),
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        if !self.sounds {
            return;
        }
        for voice in self.voices.iter_mut().filter(|voice| voice.on) {
            voice.add(&self.memory, out);
        }
        limit(out);
        for value in out.as_flattened_mut() {
            *value &= self.mask;
        }
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let start = (self.window + offset).min(MEMORY);
        let length = bytes.len().min(MEMORY - start);
        self.memory[start..start + length].copy_from_slice(&bytes[..length]);
    }
}
