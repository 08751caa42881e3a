//! Capcom's QSound (a DSP16A with its program): sixteen voices of 8-bit samples, three of ADPCM, echo.
//!
//! Registers are words (command C4):
//!
//! | register | |
//! |---|---|
//! | 8 v + 0 | bank of the *next* voice |
//! | 8 v + 1, 3 | address, and the place behind its point |
//! | 8 v + 2 | step in 4096ths of a sample |
//! | 8 v + 4 | length of the loop |
//! | 8 v + 5 | end |
//! | 8 v + 6 | volume |
//! | 80 + v | pan, 110 left to 130 right |
//! | 93 | feedback of the echo |
//! | BA + v | what voice v sends to the echo |
//! | CA + 4 a, CB, CC, CD | start, end, bank and volume of ADPCM voice a |
//! | D6 + a | ADPCM voice a plays when this is not 0 |
//! | D9 | the echo's length, and FFF |
//!
//! Voices never stop: at its end one goes back by the loop's length. An ADPCM voice takes a code
//! every third frame, the high one of a byte first. The ADPCM voices have pans 90 to 92.
//!
//! Left out on purpose: the filters and delays by which the chip puts a sound behind the listener;
//! a pan here is a constant power between two sides.
//!
//! Source: the registers and the program's arithmetic as MAME's qsoundhle (BSD-3-Clause, superctr,
//! Valley Bell) describes them; VGM specification 1.71 (command C4).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};

const VOICES: usize = 16;
const CODED: usize = 3;

/// Cycles of a frame, at half the crystal's clock.
const DIVIDER: u64 = 2 * 1248;

/// Old songs give a fifteenth of the crystal's clock.
const OLD_CLOCK_HZ: u32 = 5_000_000;

/// The longest echo, in frames.
const ECHO: usize = 1024;

/// How the codes' step is scaled, in 64ths, from −8 to 7.
const SCALES: [i32; 16] = [
    154, 154, 128, 102, 77, 58, 58, 58, 58, 58, 58, 58, 77, 102, 128, 154,
];

/// A pan's volume by its place from one side, 32 the whole.
const PLACES: usize = 33;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    bank: u16,
    address: u16,
    step: u16,
    fraction: u16,
    loop_length: u16,
    end: u16,
    volume: i16,
    echo: i16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Coded {
    start: u16,
    end: u16,
    bank: u16,
    volume: i16,
    flag: u16,
    playing: bool,
    at: u16,
    second_code: bool,
    step: i32,
    value: i32,
}

#[derive(Clone, Debug)]
struct Echo {
    feedback: i16,
    length: usize,
    at: usize,
    last: i32,
    line: Vec<i32>,
}

/// The chip.
#[derive(Clone, Debug)]
pub struct Qsound {
    clock_hz: u32,
    voices: [Voice; VOICES],
    coded: [Coded; CODED],
    /// Of all voices, from 0 left to 32 right.
    pans: [usize; VOICES + CODED],
    volumes: [i32; PLACES],
    echo: Echo,
    /// What goes to the echo, frame by frame of a block.
    sent: Vec<i32>,
    frame: u64,
    rom: Rom,
}

impl Qsound {
    /// A chip after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz: if clock_hz < OLD_CLOCK_HZ {
                clock_hz * 15
            } else {
                clock_hz
            },
            voices: Default::default(),
            coded: Default::default(),
            pans: [16; VOICES + CODED],
            volumes: std::array::from_fn(|place| {
                ((place as f64 / 32.0).sqrt() * 4096.0).round() as i32
            }),
            echo: Echo {
                feedback: 0,
                length: 0,
                at: 0,
                last: 0,
                line: vec![0; ECHO],
            },
            sent: Vec::new(),
            frame: 0,
            rom: Rom::default(),
        }
    }

    /// Volumes left and right of a voice, 4096 the whole.
    fn sides(&self, voice: usize) -> [i32; 2] {
        let pan = self.pans[voice];
        [self.volumes[32 - pan], self.volumes[pan]]
    }

    fn write_coded(&mut self, reg: u16, value: u16) {
        let coded = &mut self.coded[usize::from((reg - 0xCA) >> 2)];
        match (reg - 0xCA) & 3 {
            0 => coded.start = value,
            1 => coded.end = value,
            2 => coded.bank = value,
            _ => coded.volume = value as i16,
        }
    }
}

impl Voice {
    fn add(&mut self, rom: Reader<'_>, sides: [i32; 2], sent: &mut [i32], out: &mut [[i32; 2]]) {
        let bank = u32::from(self.bank & 0x7F) << 16;
        let (volume, send) = (i32::from(self.volume), i32::from(self.echo));
        for (frame, sent) in out.iter_mut().zip(sent) {
            let value = (rom.signed(bank | u32::from(self.address)) * volume) >> 6;
            frame[0] += (value * sides[0]) >> 14;
            frame[1] += (value * sides[1]) >> 14;
            *sent += (value * send) >> 14;
            let mut at = i64::from(self.address) << 12 | i64::from(self.fraction >> 4);
            at += i64::from(self.step);
            if at >> 12 >= i64::from(self.end) {
                at -= i64::from(self.loop_length) << 12;
            }
            self.address = (at >> 12) as u16;
            self.fraction = (at << 4) as u16;
        }
    }
}

impl Coded {
    fn press(&mut self, value: u16) {
        self.flag = value;
        if value != 0 {
            self.playing = true;
            (self.at, self.second_code) = (self.start, false);
            (self.step, self.value) = (10, 0);
        }
    }

    fn advance(&mut self, rom: Reader<'_>) {
        if self.at == self.end && !self.second_code {
            self.playing = false;
            self.value = 0;
            return;
        }
        let byte = rom.byte(u32::from(self.bank & 0x7F) << 16 | u32::from(self.at));
        let code = if self.second_code {
            i32::from((byte << 4) as i8 >> 4)
        } else {
            i32::from(byte as i8 >> 4)
        };
        if self.second_code {
            self.at = self.at.wrapping_add(1);
        }
        self.second_code = !self.second_code;
        let moved = ((1 + (code << 1).abs()) * self.step) >> 1;
        let moved = if code <= 0 { -moved } else { moved };
        self.value = (self.value + moved).clamp(-0x8000, 0x7FFF);
        let scale = SCALES[(code + 8) as usize];
        self.step = ((self.step * scale) >> 6).clamp(1, 2000);
    }
}

impl Echo {
    fn add(&mut self, sent: &[i32], out: &mut [[i32; 2]]) {
        if self.length == 0 {
            return;
        }
        for (frame, sent) in out.iter_mut().zip(sent) {
            let old = self.line[self.at];
            let smooth = (old + self.last) >> 1;
            self.last = old;
            let fed_back = (i64::from(smooth) * i64::from(self.feedback)) >> 14;
            self.line[self.at] = (i64::from(*sent) + fed_back).clamp(-0x8000, 0x7FFF) as i32;
            self.at += 1;
            if self.at >= self.length {
                self.at = 0;
            }
            frame[0] += smooth >> 2;
            frame[1] += smooth >> 2;
        }
    }
}

impl PcmChip for Qsound {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        match reg {
            0x00..=0x7F => {
                let number = usize::from(reg >> 3);
                if reg & 7 == 0 {
                    self.voices[(number + 1) % VOICES].bank = value;
                    return;
                }
                let voice = &mut self.voices[number];
                match reg & 7 {
                    1 => voice.address = value,
                    2 => voice.step = value,
                    3 => voice.fraction = value,
                    4 => voice.loop_length = value,
                    5 => voice.end = value,
                    6 => voice.volume = value as i16,
                    _ => {}
                }
            }
            0x80..=0x92 => {
                let place = value.saturating_sub(0x110).min(32);
                self.pans[usize::from(reg - 0x80)] = usize::from(place);
            }
            0x93 => self.echo.feedback = value as i16,
            0xBA..=0xC9 => self.voices[usize::from(reg - 0xBA)].echo = value as i16,
            0xCA..=0xD5 => self.write_coded(reg, value),
            0xD6..=0xD8 => self.coded[usize::from(reg - 0xD6)].press(value),
            0xD9 => {
                self.echo.length = usize::from(value.saturating_sub(0xFFF)).min(ECHO);
                self.echo.at = 0;
            }
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        self.sent.clear();
        self.sent.resize(out.len(), 0);
        let sides: [_; VOICES + CODED] = std::array::from_fn(|voice| self.sides(voice));
        let rom = self.rom.read();
        for (voice, sides) in self.voices.iter_mut().zip(sides) {
            if voice.volume != 0 || voice.step != 0 {
                voice.add(rom, sides, &mut self.sent, out);
            }
        }
        for (number, coded) in self.coded.iter_mut().enumerate() {
            if !coded.playing {
                continue;
            }
            let volume = i32::from(coded.volume);
            for (count, frame) in (self.frame..).zip(out.iter_mut()) {
                if count % 3 == number as u64 {
                    coded.advance(rom);
                }
                let value = (coded.value * volume) >> 14;
                frame[0] += (value * sides[VOICES + number][0]) >> 14;
                frame[1] += (value * sides[VOICES + number][1]) >> 14;
            }
        }
        self.frame += out.len() as u64;
        self.echo.add(&self.sent, out);
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8F).then_some(&mut self.rom)
    }
}
