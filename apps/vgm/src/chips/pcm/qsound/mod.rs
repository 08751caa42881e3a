//! Capcom's QSound (a DSP16A with its program): sixteen voices of 8-bit samples, three of ADPCM,
//! echo.
//!
//! Registers are words (command C4):
//!
//! | register | |
//! |---|---|
//! | 8 v + 0 | bank of the *next* voice |
//! | 8 v + 1, 3 | address, and its fraction |
//! | 8 v + 2 | step in 4096ths of a sample |
//! | 8 v + 4 | length of the loop |
//! | 8 v + 5 | end |
//! | 8 v + 6 | volume |
//! | 80 + v | pan, 110 left to 130 right, or 140 to 160 without the filters |
//! | 93 | feedback of the echo |
//! | BA + v | send level of voice v to the echo |
//! | CA + 4 a, CB, CC, CD | start, end, bank and volume of ADPCM voice a |
//! | D6 + a | ADPCM voice a plays when this is not 0 |
//! | D9 | the echo's length plus FFF |
//!
//! Voices never stop. At its end a voice goes back by the length of the loop. An ADPCM voice
//! decodes a code every third frame, high nibble first. The chip stores the sum of the codes after
//! it has applied the volume. The sum therefore decays. The pans of the ADPCM voices are 90 to 92.
//!
//! Filters and delays are in [`spatial`].
//!
//! We leave out filters and delays other than the initial ones on purpose, although registers could
//! select them.
//!
//! Source: the registers and the program's arithmetic as MAME's qsoundhle (BSD-3-Clause, superctr,
//! Valley Bell) describes them; VGM specification 1.71 (command C4).

mod spatial;

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;
use spatial::{Pan, SpatialFilter};

/// The entry of the QSound in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Qsound,
    name: "QSound",
    verification: TONES,
    ratio: Some(2.9),
    // The core drops two bits, so the factor is 4.
    level: Level::new(4.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(19)],
    cost_ns: 80,
    memory_blocks: &[0x8F],
    create: Create::Samples(|_, clock_hz| Box::new(Qsound::new(clock_hz))),
};

const VOICES: usize = 16;
const CODED: usize = 3;

/// The number of periods of the crystal's clock per frame. The chip has 1,248 cycles per frame, at
/// half this clock.
const DIVIDER: u64 = 2 * 1248;

/// The limit below which the clock in the header is a fifteenth of the crystal's clock. Old songs
/// have such a value.
const OLD_CLOCK_HZ: u32 = 5_000_000;

/// The longest echo, in frames. `ECHO_AT_START` is the echo after reset.
const ECHO: usize = 1024;
const ECHO_AT_START: usize = 6;

/// The scale of the step by code from −8 to 7, in 64ths.
const SCALES: [i32; 16] = [
    154, 154, 128, 102, 77, 58, 58, 58, 58, 58, 58, 58, 77, 102, 128, 154,
];

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
struct AdpcmVoice {
    start: u16,
    end: u16,
    bank: u16,
    volume: i16,
    playing: bool,
    at: u16,
    second_code: bool,
    step: i32,
    /// The output, which is also the value that the next code changes.
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

/// An emulated QSound, which renders native frames.
#[derive(Clone, Debug)]
pub struct Qsound {
    clock_hz: u32,
    voices: [Voice; VOICES],
    coded: [AdpcmVoice; CODED],
    /// The pans of all voices.
    pans: [Pan; VOICES + CODED],
    space: SpatialFilter,
    echo: Echo,
    /// The input of the filters, for each frame of a block.
    wet: Vec<[i32; 2]>,
    /// The input of the echo, for each frame of a block.
    sent: Vec<i32>,
    frame: u64,
    rom: Rom,
}

impl Qsound {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz: if clock_hz < OLD_CLOCK_HZ {
                clock_hz * 15
            } else {
                clock_hz
            },
            voices: Default::default(),
            coded: Default::default(),
            pans: [Pan::of(0x120); VOICES + CODED],
            space: SpatialFilter::new(),
            wet: Vec::new(),
            echo: Echo {
                feedback: 0,
                length: ECHO_AT_START,
                at: 0,
                last: 0,
                line: vec![0; ECHO],
            },
            sent: Vec::new(),
            frame: 0,
            rom: Rom::default(),
        }
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

/// The sums of a block: without filters, and for the filters.
type Sums<'s> = (&'s mut [[i32; 2]], &'s mut [[i32; 2]]);

impl Voice {
    /// Adds the unfiltered part to `dry`, the input of the filters to `wet`, and the input of the
    /// echo to `sent`.
    fn add(&mut self, rom: Reader<'_>, pan: Pan, sent: &mut [i32], (dry, wet): Sums<'_>) {
        let bank = u32::from(self.bank & 0x7F) << 16;
        let (volume, send) = (i32::from(self.volume), i32::from(self.echo));
        for ((dry, wet), sent) in dry.iter_mut().zip(wet).zip(sent) {
            let value = (rom.signed(bank | u32::from(self.address)) * volume) >> 6;
            pan.add(value, dry, wet);
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

impl Pan {
    #[inline]
    fn add(&self, value: i32, dry: &mut [i32; 2], wet: &mut [i32; 2]) {
        for side in 0..2 {
            dry[side] += (value * self.dry[side]) >> 14;
            wet[side] += (value * self.wet[side]) >> 14;
        }
    }
}

impl AdpcmVoice {
    fn press(&mut self, value: u16) {
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
        // The program stores the sum after applying the volume. The sum therefore decays, and it
        // does so faster at low volume.
        let sum = (self.value + moved).clamp(-0x8000, 0x7FFF);
        self.value = (sum * i32::from(self.volume)) >> 16;
        let scale = SCALES[(code + 8) as usize];
        self.step = ((self.step * scale) >> 6).clamp(1, 2000);
    }
}

impl Echo {
    /// Adds the echo, unfiltered on the left and through the filter on the right.
    fn add(&mut self, sent: &[i32], (dry, wet): Sums<'_>) {
        if self.length == 0 {
            return;
        }
        for ((dry, wet), sent) in dry.iter_mut().zip(wet).zip(sent) {
            let old = self.line[self.at];
            let smooth = (old + self.last) >> 1;
            self.last = old;
            let fed_back = (i64::from(smooth) * i64::from(self.feedback)) >> 14;
            self.line[self.at] = (i64::from(*sent) + fed_back).clamp(-0x8000, 0x7FFF) as i32;
            self.at += 1;
            if self.at >= self.length {
                self.at = 0;
            }
            dry[0] += smooth >> 2;
            wet[1] += smooth >> 2;
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
                self.pans[usize::from(reg - 0x80)] = Pan::of(value);
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
        self.wet.clear();
        self.wet.resize(out.len(), [0; 2]);
        let rom = self.rom.read();
        for (voice, pan) in self.voices.iter_mut().zip(self.pans) {
            if voice.volume != 0 || voice.step != 0 {
                voice.add(rom, pan, &mut self.sent, (out, &mut self.wet));
            }
        }
        for (number, coded) in self.coded.iter_mut().enumerate() {
            if !coded.playing {
                continue;
            }
            let pan = self.pans[VOICES + number];
            let sums = out.iter_mut().zip(&mut self.wet);
            for (count, (dry, wet)) in (self.frame..).zip(sums) {
                if count % 3 == number as u64 {
                    coded.advance(rom);
                }
                pan.add(coded.value, dry, wet);
            }
        }
        self.frame += out.len() as u64;
        self.echo.add(&self.sent, (out, &mut self.wet));
        self.space.render(&self.wet, out);
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8F).then_some(&mut self.rom)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn qsound_adpcm_voice_accumulates_after_volume() {
        let mut chip = Qsound::new(60_000_000);
        let rom = Arc::new(vec![0x77; 16]);
        chip.rom(0x8F).unwrap().add_block(0, rom, 0..16);
        for (reg, value) in [(0xCB, 16), (0xCD, 0x4000), (0xD6, 1)] {
            chip.write(0, reg, value);
        }
        let reader = chip.rom.read();
        let values = [0; 3].map(|_| {
            chip.coded[0].advance(reader);
            chip.coded[0].value
        });
        // Code 7 adds 75, 180 and 427, because the step sizes are 10, 24 and 57. At this volume, a
        // quarter of each sum is kept: 75 / 4 = 18, (18 + 180) / 4 = 49, (49 + 427) / 4 = 119.
        assert_eq!(values, [18, 49, 119]);
    }
}
