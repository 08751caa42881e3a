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
//! | D9 | the echo's length plus 554 |
//! | DE, DF, E0, E1 | delays in frames: filtered and unfiltered on the left, then on the right |
//! | E2 | applies the delays when this is not 0 |
//! | E3 | 288: resets everything |
//! | E4, E5, E6, E7 | volumes of the same four signals, in 3FFFths |
//!
//! Voices never stop. At its end a voice goes back by the length of the loop. The program compares
//! addresses as signed words, so a sound cannot cross the middle of a bank. An ADPCM voice
//! decodes a code every third frame, high nibble first. The chip stores the sum of the codes after
//! it has applied the volume. The sum therefore decays. The pans of the ADPCM voices are 90 to 92.
//!
//! Filters and delays are in [`spatial`].
//!
//! We leave out filters other than the initial ones (registers DA to DD) and the second mode
//! (register E3), because their coefficients are in the ROM of the chip. We report a song that uses
//! them.
//!
//! Source: the registers and the program's arithmetic as MAME's qsoundhle (BSD-3-Clause, superctr,
//! Valley Bell) describes them; VGM specification 1.71 (command C4).

mod spatial;

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;
use spatial::{DELAYS, Pan, SpatialFilter};

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
/// The register of the echo's end counts from here.
const ECHO_BASE: u16 = 0x554;

/// The value of register E3 that resets the chip.
const RESET: u16 = 0x288;

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
    /// The delays that register E2 applies.
    delays: [u16; 4],
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
            delays: DELAYS,
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
            let mut at = i32::from(self.address as i16) << 12 | i32::from(self.fraction >> 4);
            at += i32::from(self.step);
            if at >> 12 >= i32::from(self.end as i16) {
                at -= i32::from(self.loop_length as i16) << 12;
            }
            self.address = (at.clamp(-0x800_0000, 0x7FF_FFFF) >> 12) as u16;
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
                let length = value.wrapping_sub(ECHO_BASE) as i16;
                self.echo.length = (length.max(1) as usize).min(ECHO);
                self.echo.at = 0;
            }
            0xDE..=0xE1 => self.delays[usize::from(reg - 0xDE)] = value,
            0xE2 if value != 0 => self.space.set_delays(self.delays),
            0xE3 if value == RESET => {
                let rom = std::mem::take(&mut self.rom);
                *self = Self {
                    clock_hz: self.clock_hz,
                    rom,
                    ..Self::new(self.clock_hz)
                };
            }
            0xE4..=0xE7 => self.space.set_volume(usize::from(reg - 0xE4), value as i16),
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

    /// Returns the output of a chip that plays one impulse in voice 0 after these writes.
    fn impulse(writes: &[(u16, u16)]) -> Vec<[i32; 2]> {
        let mut chip = Qsound::new(60_000_000);
        let rom = Arc::new([&[100][..], &[0; 15]].concat());
        chip.rom(0x8F).unwrap().add_block(0, rom, 0..16);
        let voice = [(0x78, 0x8000), (5, 0xFFF), (2, 0x1000), (6, 0x4000)];
        for (reg, value) in writes.iter().copied().chain(voice) {
            chip.write(0, reg, value);
        }
        let mut frames = vec![[0; 2]; 400];
        chip.render(&mut frames);
        frames
    }

    #[test]
    fn qsound_addresses_are_signed_words() {
        let mut chip = Qsound::new(60_000_000);
        let rom = Arc::new((0..=255u8).cycle().take(0x1_0000).collect::<Vec<_>>());
        chip.rom(0x8F).unwrap().add_block(0, rom, 0..0x1_0000);
        let mut address = |start: u16, end: u16, step: u16| {
            for (reg, value) in [(1, start), (3, 0), (5, end), (4, 0x100), (2, step), (6, 1)] {
                chip.write(0, reg, value);
            }
            chip.render(&mut [[0; 2]; 4]);
            chip.voices[0].address
        };
        assert_eq!(address(0x9000, 0xA000, 0x1000), 0x9004);
        assert_eq!(address(0x9FFF, 0xA000, 0x1000), 0x9F03);
        assert_eq!(address(0x1000, 0x2000, 0x1000), 0x1004);
        // An end in the other half is before every address, so the voice goes back in each frame.
        assert_eq!(address(0x1000, 0x9000, 0x1000), 0x0C04);
    }

    #[test]
    fn qsound_echo_ends_after_the_length_in_its_register() {
        let first = |length: u16| {
            let frames = impulse(&[(0x80, 0x140), (0xBA, 0x4000), (0xD9, 0x554 + length)]);
            // The dry signal is 26 frames late.
            let echoes = frames.iter().skip(30).position(|frame| frame[0] != 0);
            echoes.map(|at| at + 30 - 26)
        };
        assert_eq!(first(100), Some(100));
        assert_eq!(first(300), Some(300));
    }

    #[test]
    fn qsound_volumes_scale_the_filtered_and_the_unfiltered_signal() {
        let energy = |frames: &[[i32; 2]], side: usize| {
            let squares = frames.iter().map(|frame| f64::from(frame[side]).powi(2));
            squares.sum::<f64>()
        };
        let whole = impulse(&[(0xE4, 0x3FFF), (0xE7, 0x3FFF)]);
        assert!(whole == impulse(&[]), "these are the initial volumes");
        for (filtered, unfiltered, side) in [(0xE4, 0xE5, 0), (0xE6, 0xE7, 1)] {
            let parts = [
                impulse(&[(unfiltered, 0)]),
                impulse(&[(filtered, 0)]),
                impulse(&[(filtered, 0), (unfiltered, 0)]),
            ];
            for (at, frame) in whole.iter().enumerate() {
                let sum = parts[0][at][side] + parts[1][at][side];
                assert!((sum - frame[side]).abs() <= 1, "{side}, {at}");
            }
            assert!(energy(&parts[0], side) > 0.0 && energy(&parts[1], side) > 0.0);
            assert_eq!(energy(&parts[2], side), 0.0);
            assert!(energy(&parts[2], 1 - side) > 0.0);
        }
        let half = impulse(&[(0x80, 0x140), (0xE5, 0x2000)]);
        let full = impulse(&[(0x80, 0x140)]);
        assert!((2 * half[26][0] - full[26][0]).abs() <= 1 && full[26][0] != 0);
    }

    #[test]
    fn qsound_delays_apply_when_register_e2_is_set() {
        let loudest = |writes: &[(u16, u16)]| {
            let frames = impulse(&[&[(0x80, 0x140)], writes].concat());
            let at = (0..frames.len()).max_by_key(|at| frames[*at][0].abs());
            at.unwrap()
        };
        assert_eq!(loudest(&[]), 26);
        assert_eq!(loudest(&[(0xDF, 50)]), 26, "not yet applied");
        assert_eq!(loudest(&[(0xDF, 50), (0xE2, 1)]), 30);
        assert_eq!(loudest(&[(0xDF, 36), (0xE2, 1)]), 16);
        // Our filters are shorter than those of the chip, so a short delay makes the others longer.
        assert_eq!(loudest(&[(0xDF, 0), (0xE1, 20), (0xE2, 1)]), 0);
        assert_eq!(loudest(&[(0xDF, 10), (0xE1, 0), (0xE2, 1)]), 10);
    }

    #[test]
    fn qsound_reset_stops_voices_and_keeps_the_samples() {
        let mut chip = Qsound::new(4_000_000);
        let rom = Arc::new(vec![100; 16]);
        chip.rom(0x8F).unwrap().add_block(0, rom, 0..16);
        let rate = chip.rate().hz();
        let heard = |chip: &mut Qsound| {
            let mut frames = vec![[0; 2]; 200];
            chip.render(&mut frames);
            frames[150] != [0; 2]
        };
        let voice = [(0x78, 0x8000), (5, 0xFFF), (6, 0x4000)];
        for reset in [false, true] {
            if reset {
                chip.write(0, 0xE3, 0x288);
                assert!(!heard(&mut chip));
            }
            for (reg, value) in voice {
                chip.write(0, reg, value);
            }
            assert!(heard(&mut chip), "{reset}");
        }
        assert_eq!(chip.rate().hz(), rate);
    }

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
