//! Konami's K054539: eight voices of 8-bit, 16-bit or differential samples, with an echo.
//!
//! Each voice has 32 bytes at 20 v:
//!
//! | byte | |
//! |---|---|
//! | 00–02 | step in 65536ths of a sample, low byte first |
//! | 03 | attenuation: 36 dB in 64 steps |
//! | 04 | additional attenuation of its send to the echo |
//! | 05 | pan: 11–1F or 81–8F, right to left with constant power |
//! | 06, 07 | its echo's delay, in eighths of a frame |
//! | 08–0A | loop address |
//! | 0C–0E | the current address, so it is written before each note |
//!
//! | register | |
//! |---|---|
//! | 200 + 2 v | bits 2 and 3: 8-bit, 16-bit, 4-bit differences; bit 5: backwards |
//! | 201 + 2 v | bit 0: loops |
//! | 214, 215 | keys on, keys off, one bit per voice |
//! | 22C | which voices play |
//! | 22F | bit 0: sound on; bit 7: keys do not change 22C |
//!
//! A sound ends at a sample with a special value: 80, 8000 or the codes 88. Codes are read low
//! nibble first. Their differences are squares.
//!
//! We leave out the timer and access to the memory on purpose. We also ignore bit 0 of byte 95 in
//! the header, which swaps the sides, because files have set it without swapped sides.
//!
//! Source: VGM specification 1.71 (header 95: bit 1 no echo, bit 2 addresses taken at key on only);
//! the registers as MAME's k054539 (BSD-3-Clause, Olivier Galibert) describes them.

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the K054539 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::K054539,
    name: "K054539",
    verification: "documented arithmetic; libvgm: spectra 0.0 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(1.8),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(8)],
    cost_ns: 40,
    memory_blocks: &[0x8C],
    create: Create::Samples(|header, clock_hz| Box::new(K054539::new(clock_hz, header.byte(0x95)))),
};

const VOICES: usize = 8;
/// The limit below which the clock in the header is the frame rate, as in old songs.
const CHIP_HZ: u32 = 1_000_000;
/// The number of clocks per frame.
const DIVIDER: u32 = 384;
/// The longest delay, in frames.
const DELAY_MAX: usize = 0x2000;
/// The number of frames that are rendered at once. The limit keeps the echo within its memory.
const BLOCK: usize = 0x2000;
const ECHO: usize = DELAY_MAX + BLOCK;

const NO_ECHO: u8 = 2;
const AT_KEY_ON: u8 = 4;

/// The differences by code, in 256ths.
const DELTAS: [i32; 16] = [
    0, 0x100, 0x400, 0x900, 0x1000, 0x1900, 0x2400, 0x3100, -0x4000, -0x3100, -0x2400, -0x1900,
    -0x1000, -0x900, -0x400, -0x100,
];

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    /// The registers as written, 20h bytes.
    bytes: [u8; 32],
    kind: u8,
    looping: bool,
    /// The position in bytes. `second_code` is whether the next code is the second one of the byte.
    at: u32,
    second_code: bool,
    fraction: i32,
    value: i32,
}

/// An emulated K054539, which renders native frames.
#[derive(Clone, Debug)]
pub struct K054539 {
    clock_hz: u32,
    flags: u8,
    control: u8,
    playing: u8,
    voices: [Voice; VOICES],
    /// The current position in the echo's memory.
    now: usize,
    echo: Vec<i32>,
    rom: Rom,
}

/// Returns the factor of an attenuation in steps.
fn attenuated(steps: u8) -> f64 {
    libm::exp10(-36.0 * f64::from(steps) / 64.0 / 20.0)
}

impl K054539 {
    /// Creates a chip in its state after reset. `flags` is byte 95 of the VGM header.
    pub fn new(clock_hz: u32, flags: u8) -> Self {
        Self {
            clock_hz: match clock_hz {
                ..CHIP_HZ => clock_hz * DIVIDER,
                _ => clock_hz,
            },
            flags,
            control: 0,
            playing: 0,
            voices: Default::default(),
            now: 0,
            echo: vec![0; ECHO],
            rom: Rom::default(),
        }
    }

    fn press(&mut self, mask: u8) {
        if self.control & 0x80 != 0 {
            return;
        }
        for (number, voice) in self.voices.iter_mut().enumerate() {
            if mask >> number & 1 != 0 && self.flags & AT_KEY_ON != 0 {
                voice.seek();
            }
        }
        self.playing |= mask;
    }

    fn add_voices(&mut self, out: &mut [[i32; 2]]) {
        let rom = self.rom.read();
        for (number, voice) in self.voices.iter_mut().enumerate() {
            if self.playing >> number & 1 == 0 {
                continue;
            }
            let [left, right, send] = voice.volumes();
            let echo = self.now + voice.delay();
            for (place, frame) in (echo..).zip(out.iter_mut()) {
                if !voice.run(rom) {
                    self.playing &= !(1 << number);
                    break;
                }
                frame[0] += (voice.value * left) >> 16;
                frame[1] += (voice.value * right) >> 16;
                self.echo[place % ECHO] += (voice.value * send) >> 16;
            }
        }
    }

    fn add_echo(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            let echo = std::mem::take(&mut self.echo[self.now]);
            frame[0] += echo;
            frame[1] += echo;
            self.now = (self.now + 1) % ECHO;
        }
    }
}

impl Voice {
    fn word(&self, at: usize) -> u32 {
        let [low, middle, high] = [0, 1, 2].map(|byte| u32::from(self.bytes[at + byte]));
        low | middle << 8 | high << 16
    }

    /// Moves to the address in the registers.
    fn seek(&mut self) {
        self.at = self.word(0x0C);
        self.second_code = false;
        (self.fraction, self.value) = (0, 0);
    }

    /// Returns the volumes left, right and to the echo, in 16384ths.
    fn volumes(&self) -> [i32; 3] {
        let place = match self.bytes[5] {
            pan @ 0x11..=0x1F => pan - 0x11,
            pan @ 0x81..=0x8F => pan - 0x81,
            _ => 7,
        };
        let volume = attenuated(self.bytes[3]);
        let side = |place: u8| volume * (f64::from(place) / 14.0).sqrt();
        let echo = attenuated(self.bytes[3].saturating_add(self.bytes[4])) / 2.0;
        [side(place), side(14 - place), echo].map(|volume| (volume * 16_384.0).round() as i32)
    }

    /// Returns the delay of the voice's echo in frames. Since the chip's memory is a ring, 0 is the
    /// longest delay.
    fn delay(&self) -> usize {
        match u16::from_le_bytes([self.bytes[6], self.bytes[7]]) >> 3 {
            0 => DELAY_MAX,
            frames => usize::from(frames),
        }
    }

    /// Advances by a frame, and returns whether the sound continues.
    fn run(&mut self, rom: Reader<'_>) -> bool {
        self.fraction += self.word(0) as i32;
        while self.fraction >= 0x1_0000 {
            self.fraction -= 0x1_0000;
            if !self.advance(rom) {
                return false;
            }
        }
        true
    }

    /// Returns the current sample. Returns `None` at the end of the sound, or if the chip has no
    /// such kind of samples.
    fn take(&mut self, rom: Reader<'_>) -> Option<i32> {
        match self.kind >> 2 & 3 {
            0 => {
                let byte = rom.byte(self.at);
                (byte != 0x80).then_some(i32::from(byte as i8) << 8)
            }
            1 => {
                let word = rom.word_le(self.at);
                (word != -0x8000).then_some(word)
            }
            2 => {
                let byte = rom.byte(self.at);
                let code = byte >> (4 * u8::from(self.second_code)) & 15;
                let sum = self.value + DELTAS[usize::from(code)];
                (byte != 0x88).then_some(sum.clamp(-0x8000, 0x7FFF))
            }
            _ => None,
        }
    }

    /// Moves to the next sample or to the loop, and returns whether there is one.
    fn advance(&mut self, rom: Reader<'_>) -> bool {
        let backwards = self.kind & 0x20 != 0;
        let mut bytes = [1, 2, 1, 1][usize::from(self.kind >> 2 & 3)];
        if self.kind >> 2 & 3 == 2 {
            bytes = u32::from(self.second_code != backwards);
            self.second_code = !self.second_code;
        }
        self.at = if backwards {
            self.at.wrapping_sub(bytes)
        } else {
            self.at.wrapping_add(bytes)
        };
        let mut sample = self.take(rom);
        if sample.is_none() && self.looping {
            (self.at, self.second_code) = (self.word(0x08), false);
            sample = self.take(rom);
        }
        self.value = sample.unwrap_or(0);
        sample.is_some()
    }
}

impl PcmChip for K054539 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: u64::from(DIVIDER),
        }
    }

    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let value = value as u8;
        let reg = u16::from(port) << 8 | reg & 0xFF;
        match reg {
            0x000..=0x0FF => {
                let voice = &mut self.voices[usize::from(reg >> 5)];
                voice.bytes[usize::from(reg & 31)] = value;
                if self.flags & AT_KEY_ON == 0 && matches!(reg & 31, 0x0C..=0x0E) {
                    let shift = 8 * u32::from((reg & 31) - 0x0C);
                    let at = voice.at & !(0xFF << shift) | u32::from(value) << shift;
                    voice.bytes[0x0C..0x0F].copy_from_slice(&at.to_le_bytes()[..3]);
                    voice.seek();
                }
            }
            0x200..=0x20F => {
                let voice = &mut self.voices[usize::from(reg >> 1 & 7)];
                if reg & 1 == 0 {
                    voice.kind = value;
                } else {
                    voice.looping = value & 1 != 0;
                }
            }
            0x214 => self.press(value),
            0x215 if self.control & 0x80 == 0 => self.playing &= !value,
            0x22C => self.playing = value,
            0x22F => self.control = value,
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        if self.control & 1 == 0 {
            return;
        }
        for block in out.chunks_mut(BLOCK) {
            self.add_voices(block);
            if self.flags & NO_ECHO == 0 {
                self.add_echo(block);
            }
            limit(block);
        }
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8C).then_some(&mut self.rom)
    }
}
