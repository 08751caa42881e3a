//! Ensoniq's ES5505 (OTIS) and ES5506 (OTTO): up to 32 voices of 16-bit samples with filters.
//!
//! The ES5506 has 32-bit registers, which are written byte by byte, high byte first (command BE).
//! The write takes effect with the last byte. The page (register 15) selects a voice: 00 + v is its
//! lower half, and 20 + v its upper half.
//!
//! | register | page 00 + v | page 20 + v |
//! |---|---|---|
//! | 0 | control | control |
//! | 1 | step, 17 bits | start |
//! | 2 | volume left | end |
//! | 3 | its ramp | accumulator |
//! | 4, 5 | volume right, its ramp | state of the filters, in 4 to 9 |
//! | 6 | frames of the ramps | |
//! | 7, 8 | K2, its ramp | |
//! | 9, 10 | K1, its ramp | |
//! | 11 | voices less one | |
//!
//! The ES5505 has words (command D6): control, step, start (two words), end (two), K2, K1, volume
//! left, right, accumulator (two), –, voices, –, page.
//!
//! | control bit (ES5506) | |
//! |---|---|
//! | 0, 1 | stopped |
//! | 3, 4 | loops, ping-pong |
//! | 6 | backwards |
//! | 8, 9 | poles 3 and 4 of the filter are low-pass |
//! | 10–12 | output |
//! | 13 | companded |
//! | 14, 15 | bank |
//!
//! A frame takes 16 clocks per voice. Positions count in samples, with eleven fraction bits. A
//! volume has four bits of exponent and eight of mantissa. The first two poles of the filter are
//! low-pass with K1. The third and the fourth are low-pass or high-pass.
//!
//! We leave out interrupts and the unusual modes of ramps on purpose. We also mix all outputs
//! instead of using only the first two.
//!
//! Source: Ensoniq ES5506 "OTTO" technical specification; the ES5505's registers as MAME's es5506
//! (BSD-3-Clause, Aaron Giles) describes them; VGM specification 1.72 (header D0, commands BE, D6).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::sample::LoopMode;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, SAMPLES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the ES5505 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Es5506,
    name: "ES5505, ES5506",
    verification: SAMPLES,
    ratio: None,
    // One voice at its loudest has 20 bits. Our core drops six of them, and the cores of players
    // four.
    level: Level::new(4.0, 0x20, 16.0),
    voices: &[VoiceGroup::Numbered(32)],
    cost_ns: 80,
    memory_blocks: &[0x90],
    create: Create::Samples(|header, clock_hz| {
        Box::new(if header.is_variant(ChipId::Es5506) {
            Es550x::new(clock_hz)
        } else {
            Es550x::new_5505(clock_hz)
        })
    }),
};

const VOICES: usize = 32;

/// The number of clocks per voice and frame.
const DIVIDER: u64 = 16;

mod control {
    pub const STOP: u32 = 0x0003;
    pub const LOOP: u32 = 0x0008;
    pub const PING_PONG: u32 = 0x0010;
    pub const BACKWARDS: u32 = 0x0040;
    pub const LOW_3: u32 = 0x0100;
    pub const LOW_4: u32 = 0x0200;
    pub const COMPANDED: u32 = 0x2000;
}

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    control: u32,
    step: u32,
    start: u32,
    end: u32,
    at: u32,
    /// Left volume, right volume, K2 and K1, with 16 bits each.
    levels: [i32; 4],
    /// The change of these levels per frame.
    ramps: [i32; 4],
    /// Whether the ramp of a level is executed only in every eighth frame. Only filters can have
    /// slow ramps.
    slow: [bool; 4],
    ramp_frames: u32,
    count: u32,
    /// The outputs of the poles. `before` has the outputs of poles 2 and 3 one frame earlier.
    poles: [i32; 4],
    before: [i32; 2],
}

/// An emulated ES5505 or ES5506, which renders native frames.
#[derive(Clone, Debug)]
pub struct Es550x {
    clock_hz: u32,
    /// Whether the chip is an ES5505.
    words: bool,
    voices: [Voice; VOICES],
    last_voice: u64,
    page: usize,
    latch: u32,
    /// The voices that are not muted, one bit per voice.
    voice_mask: u32,
    rom: Rom,
}

impl Es550x {
    /// Creates an ES5506.
    pub fn new(clock_hz: u32) -> Self {
        let voice = Voice {
            control: control::STOP,
            levels: [0xFFFF; 4],
            ..Voice::default()
        };
        Self {
            clock_hz,
            words: false,
            voices: [voice; VOICES],
            last_voice: 31,
            page: 0,
            latch: 0,
            voice_mask: u32::MAX,
            rom: Rom::default(),
        }
    }

    /// Creates an ES5505.
    pub fn new_5505(clock_hz: u32) -> Self {
        Self {
            words: true,
            ..Self::new(clock_hz)
        }
    }

    /// Writes a whole register of an ES5506.
    fn set(&mut self, register: u16, value: u32) {
        let voice = &mut self.voices[self.page & 31];
        let byte = || (value >> 8) as i8 as i32;
        match (self.page >> 5, register) {
            (_, 15) => self.page = value as usize & 0x7F,
            (0, 11) => self.last_voice = u64::from(value & 31),
            (0 | 1, 0) => voice.control = value & 0xFFFF,
            (0, 1) => voice.step = value & 0x1_FFFF,
            (0, 2) => voice.levels[0] = (value & 0xFFFF) as i32,
            (0, 3) => voice.ramps[0] = byte(),
            (0, 4) => voice.levels[1] = (value & 0xFFFF) as i32,
            (0, 5) => voice.ramps[1] = byte(),
            (0, 6) => (voice.ramp_frames, voice.count) = (value & 0x1FF, 0),
            (0, 7) => voice.levels[2] = (value & 0xFFFF) as i32,
            (0, 8) => (voice.ramps[2], voice.slow[2]) = (byte(), value & 1 != 0),
            (0, 9) => voice.levels[3] = (value & 0xFFFF) as i32,
            (0, 10) => (voice.ramps[3], voice.slow[3]) = (byte(), value & 1 != 0),
            (1, 1) => voice.start = value & 0xFFFF_FF80,
            (1, 2) => voice.end = value & 0xFFFF_FF80,
            (1, 3) => voice.at = value,
            (1, 4..=9) => voice.set_filter(register, value),
            _ => {}
        }
    }

    /// Writes a word of an ES5505.
    fn set_word(&mut self, register: u16, value: u16) {
        let wide = u32::from(value);
        let voice = &mut self.voices[self.page & 31];
        let (high, low) = ((wide & 0x1FFF) << 18, (wide & 0xFFE0) << 2);
        match (self.page >> 5, register) {
            (_, 15) => self.page = usize::from(value & 0x7F),
            (_, 13) => self.last_voice = u64::from(value & 31),
            (0 | 1, 0) => {
                let bank = (wide & 4) << 12;
                let filter = wide >> 2 & (control::LOW_3 | control::LOW_4);
                voice.control = wide & 0xFB | bank | filter;
            }
            (0, 1) => voice.step = wide << 1,
            (0, 2) => voice.start = voice.start & 0x3_FFFF | high,
            (0, 3) => voice.start = voice.start & !0x3_FFFF | low,
            (0, 4) => voice.end = voice.end & 0x3_FFFF | high,
            (0, 5) => voice.end = voice.end & !0x3_FFFF | low,
            (0, 6) => voice.levels[2] = i32::from(value & 0xFFF0),
            (0, 7) => voice.levels[3] = i32::from(value & 0xFFF0),
            (0, 8) => voice.levels[0] = i32::from(value & 0xFF00),
            (0, 9) => voice.levels[1] = i32::from(value & 0xFF00),
            (0, 10) => voice.at = voice.at & 0x3_FFFF | high,
            (0, 11) => voice.at = voice.at & !0x3_FFFF | wide << 2,
            (1, 1..=6) => voice.set_filter(register + 3, wide << 2),
            _ => {}
        }
    }
}

/// Returns the sample of a companded code, which has three bits of exponent and ten or more of
/// mantissa.
fn expanded(word: i32) -> i32 {
    let bits = word as u32 & 0xFFFF;
    let (exponent, mantissa) = (bits >> 13, bits << 3 & 0xFFFF);
    if exponent == 0 {
        i32::from(mantissa as i16) >> 7
    } else {
        let mantissa = mantissa >> 1 | if mantissa & 0x8000 != 0 { 0 } else { 0x8000 };
        let mantissa = mantissa | if bits & 0x1000 != 0 { 0x8000 } else { 0 };
        i32::from((mantissa ^ 0x8000) as i16) >> (7 - exponent)
    }
}

/// Returns the factor of a volume of 16 bits, of which twelve are used. A factor of 2048 does not
/// change a value, and full volume is almost 16 times this factor.
#[inline]
fn volume(level: i32) -> i64 {
    let (exponent, mantissa) = (level >> 12, level >> 4 & 0xFF | 0x100);
    i64::from(mantissa << 11 >> (20 - exponent))
}

/// Moves from `old` towards `new` by the fraction `k`.
#[inline]
fn low_pass(new: i32, k: i32, old: i32) -> i32 {
    (((i64::from(k >> 2) * i64::from(new.wrapping_sub(old))) >> 14) as i32).wrapping_add(old)
}

#[inline]
fn high_pass(new: i32, k: i32, old: i32, new_before: i32) -> i32 {
    let kept = ((i64::from(k >> 2) * i64::from(old)) >> 15) as i32 + old / 2;
    // We limit the result to 18 bits, because the filter of the chip has 18 bits.
    new.wrapping_sub(new_before)
        .wrapping_add(kept)
        .clamp(-0x2_0000, 0x1_FFFF)
}

impl Voice {
    fn set_filter(&mut self, register: u16, value: u32) {
        let state = (value << 14) as i32 >> 14;
        match register {
            4 => self.poles[3] = state,
            5 => self.before[1] = state,
            6 => self.poles[2] = state,
            7 => self.before[0] = state,
            8 => self.poles[1] = state,
            _ => self.poles[0] = state,
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.control & bit != 0
    }

    fn sample(&self, rom: Reader<'_>, place: u32) -> i32 {
        // A bank has two million words.
        let bank = self.control >> 14 & 3;
        let word = rom.word_be((bank << 21 | place & 0x1F_FFFF) * 2);
        if self.has(control::COMPANDED) {
            expanded(word)
        } else {
            word
        }
    }

    fn filter(&mut self, sample: i32) -> i32 {
        let [_, _, k2, k1] = self.levels;
        let old = self.poles;
        self.poles[0] = low_pass(sample, k1, old[0]);
        self.before[0] = old[1];
        self.poles[1] = low_pass(self.poles[0], k1, old[1]);
        self.before[1] = old[2];
        let (low_3, low_4) = (self.has(control::LOW_3), self.has(control::LOW_4));
        self.poles[2] = match (low_3, low_4) {
            (false, false) => high_pass(self.poles[1], k2, old[2], self.before[0]),
            (true, _) => low_pass(self.poles[1], k1, old[2]),
            (false, true) => low_pass(self.poles[1], k2, old[2]),
        };
        self.poles[3] = if low_4 {
            low_pass(self.poles[2], k2, old[3])
        } else {
            high_pass(self.poles[2], k2, old[3], self.before[1])
        };
        self.poles[3]
    }

    fn ramp(&mut self) {
        self.ramp_frames -= 1;
        self.count += 1;
        for (kind, level) in self.levels.iter_mut().enumerate() {
            if !self.slow[kind] || self.count & 7 == 0 {
                *level = (*level + self.ramps[kind]).clamp(0, 0xFFFF);
            }
        }
    }

    /// Advances by a frame. At the end, the voice stops, loops or turns around.
    fn advance(&mut self) {
        let backwards = self.has(control::BACKWARDS);
        let over = if backwards {
            self.at = self.at.wrapping_sub(self.step);
            (self.start.wrapping_sub(self.at) as i32).max(0)
        } else {
            self.at = self.at.wrapping_add(self.step);
            (self.at.wrapping_sub(self.end) as i32).max(0)
        } as u32;
        if over == 0 {
            return;
        }
        let turn = LoopMode::of(self.has(control::LOOP), self.has(control::PING_PONG));
        match turn {
            LoopMode::Stop => {
                self.control |= 1;
                return;
            }
            LoopMode::Forward => {}
            LoopMode::PingPong => self.control ^= control::BACKWARDS,
        }
        let ends = [self.start, self.end].map(i64::from);
        self.at = turn.place(ends, i64::from(over), backwards) as u32;
    }

    fn add(&mut self, rom: Reader<'_>, out: &mut [[i32; 2]]) {
        let mut volumes = [self.levels[0], self.levels[1]].map(volume);
        for frame in out {
            let place = self.at >> 11;
            let part = (self.at & 0x7FF) as i32;
            let [one, two] = [self.sample(rom, place), self.sample(rom, place + 1)];
            let between = (one * (0x800 - part) + two * part) >> 11;
            let value = i64::from(self.filter(between));
            frame[0] += ((value * volumes[0]) >> 11) as i32;
            frame[1] += ((value * volumes[1]) >> 11) as i32;
            self.advance();
            if self.ramp_frames > 0 {
                self.ramp();
                volumes = [self.levels[0], self.levels[1]].map(volume);
            }
            if self.has(control::STOP) {
                return;
            }
        }
    }
}

impl PcmChip for Es550x {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER * (self.last_voice + 1),
        }
    }

    /// Port 0 receives bytes, and port 1 words.
    fn write(&mut self, port: u8, reg: u16, value: u16) {
        if self.words {
            if port == 1 {
                self.set_word(reg & 15, value);
            }
            return;
        }
        if port == 1 {
            return;
        }
        let shift = 24 - 8 * u32::from(reg & 3);
        self.latch = self.latch & !(0xFF << shift) | u32::from(value & 0xFF) << shift;
        if shift == 0 {
            self.set(reg >> 2, self.latch);
            self.latch = 0;
        }
    }

    /// The voices do not affect each other, so we do not run muted ones.
    fn set_voice_mask(&mut self, voices: u64) -> bool {
        self.voice_mask = voices as u32;
        true
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        let voices = self.last_voice as usize + 1;
        for (number, voice) in self.voices[..voices].iter_mut().enumerate() {
            if !voice.has(control::STOP) && self.voice_mask >> number & 1 != 0 {
                voice.add(rom, out);
            }
        }
        for value in out.as_flattened_mut() {
            // With this shift, one voice at its loudest uses 14 bits.
            *value >>= 6;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x90).then_some(&mut self.rom)
    }
}
