//! Ensoniq's ES5503 (DOC), in the Apple IIgs and the Mirage: 32 oscillators.
//!
//! | register | |
//! |---|---|
//! | 00–1F, 20–3F | pitch of each oscillator, low 8 bits and high 8 |
//! | 40–5F | volume |
//! | 80–9F | start of its table, in pages of 256 bytes |
//! | A0–BF | `c c c c i m m h` channel, interrupt, mode, halted |
//! | C0–DF | `- b s s s r r r` bank, table of 256 × 2^s bytes, resolution |
//! | E1 | 2 × (number of oscillators - 1) |
//!
//! A frame takes 8 × (oscillators + 2) clocks. In each frame an oscillator adds its pitch to its
//! position of 24 bits. It plays the byte at position / 2^(9 + r - s). A byte of 0 ends the table,
//! and in modes 0 and 2 it also halts the oscillator.
//!
//! The mode selects what happens at the end of the table:
//!
//! - Mode 0 repeats the table.
//! - Mode 1 halts the oscillator.
//! - Mode 2 (sync) repeats the table. An oscillator with an odd number also restarts the one with
//!   the next lower number.
//! - Mode 3 (swap) halts the oscillator and starts the other one of the pair.
//!
//! If the header gives more than one channel, channels with an even number are panned left and the
//! others right. Otherwise all are on both sides, 3 dB softer. We leave out interrupts, reading,
//! and the amplitude modulation of mode 2 on purpose.
//!
//! Source: Ensoniq, "ES5503 Digital Oscillator Chip" data sheet; "Apple IIGS Hardware Reference",
//! chapter 5; the VGM 1.71 specification.

use super::Rate;
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the ES5503 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Es5503,
    name: "ES5503",
    verification: "documented figures; libvgm, which repeats tables a byte early and dulls the \
        treble: spectra 3.4 dB, balance 0.9 dB",
    ratio: Some(2.9),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(1.0, 0x40, 8.0),
    voices: &[VoiceGroup::Numbered(32)],
    cost_ns: 50,
    memory_blocks: &[0xE1],
    create: Create::ByFactory,
};

const OSCILLATORS: usize = 32;

const MEMORY: usize = 1 << 17;

#[derive(Clone, Copy, Debug, Default)]
struct Oscillator {
    pitch: u16,
    volume: u8,
    table: u8,
    control: u8,
    size: u8,
    place: u32,
}

impl Oscillator {
    fn is_halted(&self) -> bool {
        self.control & 1 != 0
    }

    fn mode(&self) -> u8 {
        self.control >> 1 & 3
    }

    fn bytes(&self) -> u32 {
        256 << (self.size >> 3 & 7)
    }

    fn shift(&self) -> u32 {
        u32::from(9 + (self.size & 7) - (self.size >> 3 & 7))
    }

    /// Returns the start of the table. Tables are aligned to their size.
    fn start(&self) -> u32 {
        let bank = u32::from(self.size >> 6 & 1) << 16;
        bank | (u32::from(self.table) << 8 & !(self.bytes() - 1))
    }

    fn begin(&mut self) {
        self.control &= !1;
        self.place = 0;
    }
}

/// An emulated ES5503, which renders native frames.
#[derive(Clone, Debug)]
pub struct Es5503 {
    clock_hz: u32,
    oscillators: [Oscillator; OSCILLATORS],
    enabled: usize,
    is_stereo: bool,
    memory: Vec<u8>,
}

impl Es5503 {
    /// Creates a silent chip at `clock_hz`.
    ///
    /// `channels` is byte 0xD4 of the header, which is the number of outputs of the board.
    pub fn new(clock_hz: u32, channels: u8) -> Self {
        let halted = Oscillator {
            control: 1,
            ..Oscillator::default()
        };
        Es5503 {
            clock_hz,
            oscillators: [halted; OSCILLATORS],
            enabled: 1,
            is_stereo: channels > 1,
            memory: vec![0; MEMORY],
        }
    }

    /// Returns the number of native frames per second, which writes to E1 change.
    ///
    /// For example, it is 26 kHz at 7.16 MHz with all oscillators.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 8 * (self.enabled as u64 + 2),
        }
    }

    /// Returns the memory that contains the samples.
    pub fn memory_mut(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    /// Writes a register. `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        let oscillator = &mut self.oscillators[usize::from(reg & 31)];
        match reg {
            0x00..=0x1F => oscillator.pitch = oscillator.pitch & 0xFF00 | u16::from(value),
            0x20..=0x3F => oscillator.pitch = oscillator.pitch & 0xFF | u16::from(value) << 8,
            0x40..=0x5F => oscillator.volume = value,
            0x80..=0x9F => oscillator.table = value,
            0xA0..=0xBF => {
                if oscillator.is_halted() && value & 1 == 0 {
                    oscillator.place = 0;
                }
                oscillator.control = value;
            }
            0xC0..=0xDF => oscillator.size = value,
            0xE1 => self.enabled = usize::from(value >> 1 & 31) + 1,
            _ => {}
        }
    }

    /// Overwrites `out` with the next frames. An oscillator at its loudest reaches 32,385.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let heard = |oscillator: &Oscillator| !oscillator.is_halted();
        let mut all = self.oscillators[..self.enabled].iter();
        if all.any(|oscillator| heard(oscillator) && oscillator.mode() >= 2) {
            // In these modes oscillators affect each other, so we must render frame by frame.
            for frame in out.chunks_mut(1) {
                for index in 0..self.enabled {
                    self.play(index, frame);
                }
            }
        } else {
            for index in 0..self.enabled {
                self.play(index, out);
            }
        }
    }

    /// Adds the frames of an oscillator until it halts.
    fn play(&mut self, index: usize, out: &mut [[i32; 2]]) {
        let oscillator = self.oscillators[index];
        if oscillator.is_halted() {
            return;
        }
        let (start, bytes, shift) = (oscillator.start(), oscillator.bytes(), oscillator.shift());
        let volume = i32::from(oscillator.volume);
        // The gains are in 256ths.
        let gains = match (self.is_stereo, oscillator.control >> 4 & 1) {
            (false, _) => [181, 181],
            (true, 0) => [256, 0],
            (true, _) => [0, 256],
        };
        let gains = gains.map(|gain| gain * volume);
        for frame in out {
            let place = self.oscillators[index].place;
            let at = start | place >> shift & (bytes - 1);
            let byte = self.memory[at as usize % MEMORY];
            if byte == 0 {
                self.end(index, true);
                return;
            }
            for (side, gain) in frame.iter_mut().zip(gains) {
                *side += ((i32::from(byte) - 128) * gain) >> 8;
            }
            let place = place + u32::from(oscillator.pitch);
            self.oscillators[index].place = place;
            if place >> shift >= bytes {
                self.end(index, false);
                if self.oscillators[index].is_halted() {
                    return;
                }
            }
        }
    }

    /// Handles the end of a table, or its end mark.
    fn end(&mut self, index: usize, marked: bool) {
        let oscillator = &mut self.oscillators[index];
        match oscillator.mode() {
            0 | 2 if !marked => {
                let whole = oscillator.bytes() << oscillator.shift();
                oscillator.place -= whole;
                if oscillator.mode() == 2 && index % 2 == 1 {
                    self.oscillators[index - 1].place = 0;
                }
            }
            3 => {
                oscillator.control |= 1;
                self.oscillators[index ^ 1].begin();
            }
            _ => oscillator.control |= 1,
        }
    }
}
