//! A slot of a YMF271: an operator, or a voice of samples.
//!
//! Levels are attenuations of 0.375 dB: the envelope has 256 of them, a total level is two. An
//! envelope goes on by the same attenuation each frame. The LFO goes by leaps of [`LEAP`] frames.

use std::sync::LazyLock;

use super::super::super::fm::tables::detune;
use super::super::super::rom::Reader;
use super::super::envelope::Stage;
use super::super::sample::{Format, LoopMode, detuned};

/// Frames between two looks at an LFO; its fastest turn takes 128.
pub const LFO_INTERVAL: usize = 32;

/// A wave's length; phases have 16 bits more.
const WAVE: usize = 1024;
const PHASE_MASK: u32 = (WAVE as u32 - 1) << 16 | 0xFFFF;

/// The wave that stands for samples.
const SAMPLES: u8 = 7;

/// The loudest of an envelope, with 16 bits of fraction; an attack begins 60 dB below.
const LOUDEST: i32 = 255 << 16;
const ATTACK_FROM: i32 = (255 - 160) << 16;

/// A volume that leaves a value as it is.
const UNITY: f64 = 65_536.0;

/// Decibels of the levels of an output.
const OUTPUT_DB: [f64; 16] = [
    0.0, 2.5, 6.0, 8.5, 12.0, 14.5, 18.1, 20.6, 24.1, 26.6, 30.1, 32.6, 36.1, 96.1, 96.1, 96.1,
];

/// Cents of vibrato.
const VIBRATO: [f64; 8] = [
    0.0, 3.378, 5.0646, 6.7495, 10.1143, 20.1699, 40.1076, 79.307,
];

/// Milliseconds of an attack at the rates from 48 on; below, a rate of four less takes twice as long
/// as one of these.
const ATTACK_MS: [f64; 16] = [
    3.02, 2.47, 2.14, 1.88, 1.70, 1.38, 1.16, 1.02, 0.88, 0.70, 0.57, 0.48, 0.43, 0.43, 0.43, 0.07,
];
const ATTACK_44_MS: [f64; 4] = [6.04, 4.86, 4.05, 3.46];
/// The same of decays and releases.
const DECAY_MS: [f64; 16] = [
    45.69, 36.55, 33.85, 26.09, 22.83, 18.28, 15.22, 13.03, 11.41, 9.12, 7.60, 6.51, 5.69, 5.69,
    5.69, 5.69,
];
const DECAY_44_MS: [f64; 4] = [91.41, 73.08, 60.93, 52.22];

/// A step of detune at a multiple of one half: those of the OPN chips, whose phases have 20 bits
/// where these have 26.
const DETUNE_STEP: i64 = 32;

/// How far the LFO's depth attenuates, in 64ths of 23.625 dB.
const TREMOLO: [i32; 4] = [0, 16, 32, 64];

/// Numbers from which the key code is one more, for operators and for samples.
const NOTES: [[u16; 3]; 2] = [[0x780, 0x900, 0xA80], [0x100, 0x300, 0x500]];

struct Tables {
    /// By attenuation, of 65,536.
    volumes: [i32; 1024],
    outputs: [i32; 16],
    waves: [[i16; WAVE]; 8],
    /// By rate: attenuations a frame, 16 bits of fraction.
    attacks: [i32; 64],
    decays: [i32; 64],
}

static TABLES: LazyLock<Box<Tables>> = LazyLock::new(|| {
    let volume = |db: f64| (UNITY * 10f64.powf(-db / 20.0)) as i32;
    Box::new(Tables {
        volumes: std::array::from_fn(|steps| volume(steps as f64 * 0.375)),
        outputs: OUTPUT_DB.map(volume),
        waves: std::array::from_fn(|wave| std::array::from_fn(|place| wave_at(wave, place))),
        attacks: std::array::from_fn(|rate| step(rate, ATTACK_44_MS, ATTACK_MS)),
        decays: std::array::from_fn(|rate| step(rate, DECAY_44_MS, DECAY_MS)),
    })
});

/// The attenuation a frame that takes an envelope from end to end in the manual's time.
fn step(rate: usize, at_44: [f64; 4], from_48: [f64; 16]) -> i32 {
    let ms = match rate {
        0..4 => return 0,
        48.. => from_48[rate - 48],
        _ => at_44[rate & 3] * f64::from(1 << (11 - (rate >> 2))),
    };
    (255.0 * 65_536.0 / (ms * 44.1)) as i32
}

fn wave_at(wave: usize, place: usize) -> i16 {
    let turn = (2 * place + 1) as f64 / WAVE as f64 * std::f64::consts::PI;
    let twice = (4 * place + 1) as f64 / WAVE as f64 * std::f64::consts::PI;
    let upper = place < WAVE / 2;
    let level = match wave {
        0 => turn.sin(),
        1 => turn.sin() * turn.sin().abs(),
        2 => turn.sin().abs(),
        3 if upper => turn.sin(),
        4 if upper => twice.sin(),
        5 if upper => twice.sin().abs(),
        6 => 1.0,
        _ => 0.0,
    };
    (level * 32_767.0) as i16
}

/// A slot.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// How it and those that play with it are connected, 0 to 15.
    pub algorithm: u8,
    lfo_speed: u8,
    lfo_wave: u8,
    vibrato: u8,
    tremolo: u8,
    detune: u8,
    multiple: u8,
    total_level: u8,
    key_scaling: u8,
    attack: u8,
    decays: [u8; 2],
    decay_level: u8,
    release: u8,
    /// Register A, which counts with register 9.
    high: u8,
    number: u16,
    /// −8 to 7.
    block: i32,
    feedback: u8,
    wave: u8,
    levels: [u8; 2],
    start: u32,
    end: u32,
    loop_start: u32,
    format: Format,
    turn: LoopMode,
    halvings: u8,

    stage: Stage,
    /// How loud the envelope is, 16 bits of fraction.
    volume: i32,
    steps: [i32; 4],
    /// Of an operator in 65,536ths of a wave's place, of samples in those of a sample.
    at: u64,
    step: u64,
    backwards: bool,
    /// The last two values that are fed back, as phases.
    last_phases: [i32; 2],
    lfo: u32,
    /// Attenuation by all but the envelope, of the block being rendered.
    base: usize,
}

impl Slot {
    /// Writes the register whose high four bits are `what`.
    pub fn write(&mut self, what: u16, value: u8) {
        match what {
            0x0 => self.key(value & 1 != 0),
            0x1 => self.lfo_speed = value,
            0x2 => {
                self.lfo_wave = value & 3;
                self.vibrato = value >> 3 & 7;
                self.tremolo = value >> 6;
            }
            0x3 => (self.detune, self.multiple) = (value >> 4 & 7, value & 15),
            0x4 => self.total_level = value & 0x7F,
            0x5 => (self.key_scaling, self.attack) = (value >> 5, value & 31),
            0x6 => self.decays[0] = value & 31,
            0x7 => self.decays[1] = value & 31,
            0x8 => (self.decay_level, self.release) = (value >> 4, value & 15),
            0x9 => {
                self.number = u16::from(self.high & 15) << 8 | u16::from(value);
                self.block = i32::from(self.high as i8 >> 4);
            }
            0xA => self.high = value,
            0xB => (self.feedback, self.wave) = (value >> 4 & 7, value & 7),
            0xC => self.algorithm = value & 15,
            0xD => self.levels = [value >> 4, value & 15],
            _ => {}
        }
    }

    /// Writes the register of port 4 whose high four bits are `what`.
    pub fn write_samples(&mut self, what: u16, value: u8) {
        let place = match what {
            0..=2 => &mut self.start,
            3..=5 => &mut self.end,
            6..=8 => &mut self.loop_start,
            9 => {
                self.halvings = value & 3;
                self.format = match value & 4 {
                    0 => Format::Bytes,
                    _ => Format::Twelve,
                };
                return;
            }
            _ => return,
        };
        if what == 2 {
            self.turn = LoopMode::of(true, value & 0x80 != 0);
        }
        let shift = 8 * u32::from(what % 3);
        *place = (*place & !(0xFF << shift) | u32::from(value) << shift) & 0x7F_FFFF;
    }

    /// Whether it plays samples.
    pub fn has_samples(&self) -> bool {
        self.wave == SAMPLES
    }

    /// Whether nothing is to be heard of it until its key is pressed.
    pub fn is_silent(&self) -> bool {
        self.stage == Stage::Off
    }

    fn key(&mut self, on: bool) {
        if !on {
            if self.stage != Stage::Off {
                self.stage = Stage::Release;
            }
            return;
        }
        self.stage = Stage::Attack;
        self.volume = ATTACK_FROM;
        (self.at, self.backwards) = (0, false);
        self.last_phases = [0; 2];
        self.lfo = 0;
        self.set_steps();
    }

    /// What an envelope goes on by in each stage; it does not change while a key is held.
    fn set_steps(&mut self) {
        let tables = &**TABLES;
        let scaled = |rate: u8| usize::from(rate + self.faster()).min(63);
        let fall = |rate: u8| tables.decays[scaled(rate)];
        // The manual's time of decay 1 is that to its level.
        let part = i32::from(self.decay_level) << 4;
        let first = (i64::from(fall(2 * self.decays[0])) * i64::from(part) / 255) as i32;
        self.steps = [
            tables.attacks[scaled(2 * self.attack)],
            first,
            fall(2 * self.decays[1]),
            fall(4 * self.release),
        ];
    }

    /// By how much the pitch makes rates faster.
    fn faster(&self) -> u8 {
        let code = self.key_code();
        match self.key_scaling {
            0 => 0,
            scaling @ 1..=4 => code >> (4 - scaling),
            scaling => code + [2, 4, 8][usize::from(scaling - 5)],
        }
        .min(31)
    }

    /// Where its pitch lies: four to an octave, 0 to 31.
    fn key_code(&self) -> u8 {
        let notes = NOTES[usize::from(self.has_samples())];
        let number = if self.has_samples() {
            self.number & 0x7FF
        } else {
            self.number
        };
        let note = notes.iter().filter(|from| number >= **from).count() as u8;
        (self.block & 7) as u8 * 4 + note
    }

    /// What stays the same until the LFO leaps again or something is written.
    pub fn prepare(&mut self, leaps: bool) {
        if leaps {
            self.lfo = self.lfo.wrapping_add(self.lfo_step());
        }
        let octave = (self.block + 8) as u32;
        let twice = [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
        let multiple = twice[usize::from(self.multiple)];
        let number = u64::from(self.number);
        self.step = if self.has_samples() {
            (((number | 0x800) * multiple) << octave >> 4) >> self.halvings
        } else {
            let detuned = i64::from(detune(self.detune, self.key_code())) * DETUNE_STEP;
            let step = (number * multiple) << octave >> 4;
            step.saturating_add_signed(detuned * multiple as i64)
        };
        let turn = (self.lfo >> 24) as i32;
        if self.vibrato > 0 {
            let depth = VIBRATO[usize::from(self.vibrato)];
            self.step = detuned(self.step, depth * pitch_wave(self.lfo_wave, turn));
        }
        let depth = TREMOLO[usize::from(self.tremolo)];
        let tremolo = (level_wave(self.lfo_wave, turn) * depth * 63) >> 14;
        self.base = 2 * usize::from(self.total_level) + tremolo as usize;
    }

    /// How far the LFO turns in a leap, of 2^32. Source: the manual's frequencies, of which each is a
    /// number of frames.
    fn lfo_step(&self) -> u32 {
        let entry = 256 - u32::from(self.lfo_speed);
        let (mantissa, exponent) = (entry & 15, entry >> 4);
        let period = match exponent {
            0 => mantissa << 7,
            _ => (mantissa | 16) << (exponent + 6),
        };
        ((LFO_INTERVAL as u64) << 32)
            .checked_div(u64::from(period))
            .unwrap_or(0) as u32
    }

    fn advance_envelope(&mut self) {
        match self.stage {
            Stage::Attack => {
                self.volume += self.steps[0];
                if self.volume >= LOUDEST {
                    (self.volume, self.stage) = (LOUDEST, Stage::Decay1);
                }
                return;
            }
            Stage::Decay1 => {
                self.volume -= self.steps[1];
                if self.volume >> 16 <= 255 - (i32::from(self.decay_level) << 4) {
                    self.stage = Stage::Decay2;
                }
            }
            Stage::Decay2 => self.volume -= self.steps[2],
            Stage::Release => self.volume -= self.steps[3],
            Stage::Off => return,
        }
        if self.volume <= 0 {
            (self.volume, self.stage) = (0, Stage::Off);
        }
    }

    /// Overwrites `out` with the volumes of the next frames, of 65,536.
    pub fn gains(&mut self, out: &mut [i32]) {
        let volumes = &TABLES.volumes;
        for gain in out {
            self.advance_envelope();
            *gain = match self.stage {
                Stage::Off => 0,
                _ => volumes[self.base + (255 - (self.volume >> 16)) as usize],
            };
        }
    }

    /// How far another's value moves the phase.
    #[inline]
    pub fn moved(&self, value: i32) -> i32 {
        // 4π at 0, and half as much each; then 8π, 16π and 32π.
        const SHIFTS: [u32; 8] = [12, 11, 10, 9, 8, 13, 14, 15];
        value.wrapping_shl(SHIFTS[usize::from(self.feedback)])
    }

    /// How far the values fed back move the phase.
    #[inline]
    pub fn fed_back_phase(&self) -> i32 {
        (self.last_phases[0].wrapping_add(self.last_phases[1])) >> 1
    }

    /// Takes the value that is fed back next.
    #[inline]
    pub fn feed_back(&mut self, value: i32) {
        let phase = match self.feedback {
            0 => 0,
            // A sixteenth of π/4 … four of them.
            depth => (value << 8 >> 4) << (depth - 1),
        };
        self.last_phases = [self.last_phases[1], phase];
    }

    /// The next value at a volume, with the phase moved.
    #[inline]
    pub fn value(&mut self, moved: i32, gain: i32) -> i32 {
        let phase = (self.at as u32).wrapping_add_signed(moved) & PHASE_MASK;
        self.at += self.step;
        let wave = &TABLES.waves[usize::from(self.wave)];
        (i32::from(wave[(phase >> 16) as usize]) * gain) >> 16
    }

    /// Overwrites `out` with the values of an operator that feeds itself.
    pub fn fed_back(&mut self, out: &mut [i32]) {
        let mut gains = [0; LFO_INTERVAL];
        self.gains(&mut gains[..out.len()]);
        for (value, gain) in out.iter_mut().zip(gains) {
            *value = self.value(self.fed_back_phase(), gain);
            self.feed_back(*value);
        }
    }

    /// Overwrites `out` with the values of an operator that others may move.
    pub fn operator(&mut self, moved: Option<&[i32; LFO_INTERVAL]>, out: &mut [i32]) {
        match moved {
            Some(values) => self.operate(|slot, frame| slot.moved(values[frame]), out),
            None => self.operate(|_, _| 0, out),
        }
    }

    fn operate(&mut self, moved: impl Fn(&Self, usize) -> i32, out: &mut [i32]) {
        let mut gains = [0; LFO_INTERVAL];
        self.gains(&mut gains[..out.len()]);
        let wave = &TABLES.waves[usize::from(self.wave)];
        let (mut at, step) = (self.at as u32, self.step as u32);
        for (frame, (value, gain)) in out.iter_mut().zip(gains).enumerate() {
            let phase = at.wrapping_add_signed(moved(self, frame)) & PHASE_MASK;
            *value = (i32::from(wave[(phase >> 16) as usize]) * gain) >> 16;
            at = at.wrapping_add(step);
        }
        self.at += self.step * out.len() as u64;
    }

    /// Overwrites `out` with the values of samples.
    pub fn samples(&mut self, rom: Reader<'_>, out: &mut [i32]) {
        let mut gains = [0; LFO_INTERVAL];
        self.gains(&mut gains[..out.len()]);
        for (value, gain) in out.iter_mut().zip(gains) {
            self.turn_at_ends();
            let byte = |at: u32| rom.byte(at & 0x7F_FFFF);
            let sample = self.format.sample(byte, self.start, (self.at >> 16) as u32);
            *value = (sample * gain) >> 16;
            self.at = match self.backwards {
                true => self.at.wrapping_sub(self.step),
                false => self.at.wrapping_add(self.step),
            };
        }
    }

    /// Behind the end: as far behind the loop's start, or back from there to the loop's start.
    fn turn_at_ends(&mut self) {
        let (at, last) = (self.at as i64, i64::from(self.end));
        let ends = [i64::from(self.loop_start) << 16, last << 16];
        let over = match self.backwards {
            true if at < ends[0] => ends[0] - at,
            false if at >> 16 > last => at - ends[1],
            _ => return,
        };
        let at = self.turn.place(ends, over, self.backwards);
        self.backwards ^= self.turn == LoopMode::PingPong;
        // Where that is outside, too, the sound goes on at its start.
        self.at = match (0..=last).contains(&(at >> 16)) {
            true => at,
            false => at & 0xFFFF | ends[0].min(ends[1]),
        } as u64;
    }

    /// Adds values at the levels of outputs 1 and 2.
    pub fn add(&self, values: &[i32], out: &mut [[i32; 2]]) {
        let [left, right] = self.levels.map(|level| TABLES.outputs[usize::from(level)]);
        for (frame, value) in out.iter_mut().zip(values) {
            frame[0] += (value * left) >> 16;
            frame[1] += (value * right) >> 16;
        }
    }
}

/// Where the LFO moves the pitch, −1 to 1; `turn` has 256 to a turn.
fn pitch_wave(wave: u8, turn: i32) -> f64 {
    match wave {
        0 => 0.0,
        1 if turn < 128 => f64::from(turn) / 127.0,
        1 => f64::from(turn - 128) / 127.0 - 1.0,
        2 if turn < 128 => 1.0,
        2 => -1.0,
        _ => match turn {
            0..64 => f64::from(turn) / 64.0,
            64..192 => 1.0 - f64::from(turn - 64) / 64.0,
            _ => f64::from(turn - 192) / 64.0 - 1.0,
        },
    }
}

/// How far it attenuates, 0 to 256.
fn level_wave(wave: u8, turn: i32) -> i32 {
    match wave {
        0 => 0,
        1 => 256 - turn,
        2 if turn < 128 => 256,
        2 => 0,
        _ if turn < 128 => 256 - 2 * turn,
        _ => 2 * (turn - 128),
    }
}
