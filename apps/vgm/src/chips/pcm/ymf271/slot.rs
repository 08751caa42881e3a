//! A slot of a YMF271: an operator or a sample voice.
//!
//! Levels are attenuations in steps of 0.375 dB. The envelope has 256 steps, and a unit of the
//! total level is two. An envelope changes by the same attenuation every frame. The LFO is updated
//! every [`LFO_INTERVAL`] frames.

use std::sync::LazyLock;

use super::super::super::fm::tables::detune;
use super::super::super::rom::Reader;
use super::super::envelope::Stage;
use super::super::sample::{Format, LoopMode, detuned};

/// The number of frames between two updates of an LFO. Its shortest period is 128 frames.
pub const LFO_INTERVAL: usize = 32;

/// The length of a wave in samples. A phase is a position in the wave, with 16 fraction bits.
const WAVE: usize = 1024;
const PHASE_MASK: u32 = (WAVE as u32 - 1) << 16 | 0xFFFF;

/// The wave number that selects samples.
const SAMPLES: u8 = 7;

/// The loudest value of an envelope, with 16 fraction bits. An attack begins 60 dB below it.
const LOUDEST: i32 = 255 << 16;
const ATTACK_FROM: i32 = (255 - 160) << 16;

/// The volume that does not change a value.
const UNITY: f64 = 65_536.0;

/// The output levels in decibels.
const OUTPUT_DB: [f64; 16] = [
    0.0, 2.5, 6.0, 8.5, 12.0, 14.5, 18.1, 20.6, 24.1, 26.6, 30.1, 32.6, 36.1, 96.1, 96.1, 96.1,
];

/// The depths of the vibrato in cents.
const VIBRATO: [f64; 8] = [
    0.0, 3.378, 5.0646, 6.7495, 10.1143, 20.1699, 40.1076, 79.307,
];

/// The duration of an attack in milliseconds at rates from 48 on. `ATTACK_44_MS` has the durations
/// at rates 44 to 47. Below these, each decrease of the rate by four doubles the duration.
const ATTACK_MS: [f64; 16] = [
    3.02, 2.47, 2.14, 1.88, 1.70, 1.38, 1.16, 1.02, 0.88, 0.70, 0.57, 0.48, 0.43, 0.43, 0.43, 0.07,
];
const ATTACK_44_MS: [f64; 4] = [6.04, 4.86, 4.05, 3.46];
/// The durations of decays and releases, in the same form.
const DECAY_MS: [f64; 16] = [
    45.69, 36.55, 33.85, 26.09, 22.83, 18.28, 15.22, 13.03, 11.41, 9.12, 7.60, 6.51, 5.69, 5.69,
    5.69, 5.69,
];
const DECAY_44_MS: [f64; 4] = [91.41, 73.08, 60.93, 52.22];

/// The phase change of one detune step at a multiple of one half. The steps are those of the OPN
/// chips, whose phases have 20 bits. The phases here have 26 bits, so a step is 64 at a multiple of
/// 1.
const DETUNE_STEP: i64 = 32;

/// The largest attenuation of the tremolo, by its depth, in 64ths of 23.625 dB.
const TREMOLO: [i32; 4] = [0, 16, 32, 64];

/// The numbers at which the key code increases by one, for operators and for samples.
const NOTES: [[u16; 3]; 2] = [[0x780, 0x900, 0xA80], [0x100, 0x300, 0x500]];

struct Tables {
    /// The volumes by attenuation, in 65,536ths.
    volumes: [i32; 1024],
    outputs: [i32; 16],
    waves: [[i16; WAVE]; 8],
    /// The change of the attenuation per frame by rate, with 16 fraction bits.
    attacks: [i32; 64],
    decays: [i32; 64],
}

static TABLES: LazyLock<Box<Tables>> = LazyLock::new(|| {
    let volume = |db: f64| (UNITY * libm::exp10(-db / 20.0)) as i32;
    Box::new(Tables {
        volumes: std::array::from_fn(|steps| volume(steps as f64 * 0.375)),
        outputs: OUTPUT_DB.map(volume),
        waves: std::array::from_fn(|wave| std::array::from_fn(|place| wave_at(wave, place))),
        attacks: std::array::from_fn(|rate| step(rate, ATTACK_44_MS, ATTACK_MS)),
        decays: std::array::from_fn(|rate| step(rate, DECAY_44_MS, DECAY_MS)),
    })
});

/// Returns the attenuation per frame that moves an envelope from end to end in the manual's time.
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
    let (sin, sin_twice) = (libm::sin(turn), libm::sin(twice));
    let upper = place < WAVE / 2;
    let level = match wave {
        0 => sin,
        1 => sin * sin.abs(),
        2 => sin.abs(),
        3 if upper => sin,
        4 if upper => sin_twice,
        5 if upper => sin_twice.abs(),
        6 => 1.0,
        _ => 0.0,
    };
    (level * 32_767.0) as i16
}

/// A slot.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The algorithm of this slot and those that play with it, 0 to 15.
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
    /// Register A, which takes effect with register 9.
    high: u8,
    number: u16,
    /// The block, −8 to 7.
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
    /// The level of the envelope, with 16 fraction bits. Higher is louder.
    volume: i32,
    steps: [i32; 4],
    /// The position: for an operator in 65,536ths of a wave's entry, for samples in 65,536ths of a
    /// sample.
    at: u64,
    step: u64,
    backwards: bool,
    /// The last two values that are fed back, as phases.
    last_phases: [i32; 2],
    lfo: u32,
    /// The attenuation in the current block, without the envelope.
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

    /// Returns whether the slot plays samples.
    pub fn has_samples(&self) -> bool {
        self.wave == SAMPLES
    }

    /// Returns whether the slot is silent until its key is pressed.
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

    /// Computes the change of the envelope per frame in each stage. It stays the same while a key
    /// is pressed.
    fn set_steps(&mut self) {
        let tables = &**TABLES;
        let scaled = |rate: u8| usize::from(rate + self.faster()).min(63);
        let fall = |rate: u8| tables.decays[scaled(rate)];
        // The manual's time of decay 1 is the time until it reaches its level.
        let part = i32::from(self.decay_level) << 4;
        let first = (i64::from(fall(2 * self.decays[0])) * i64::from(part) / 255) as i32;
        self.steps = [
            tables.attacks[scaled(2 * self.attack)],
            first,
            fall(2 * self.decays[1]),
            fall(4 * self.release),
        ];
    }

    /// Returns the amount by which the pitch increases the rates.
    fn faster(&self) -> u8 {
        let code = self.key_code();
        match self.key_scaling {
            0 => 0,
            scaling @ 1..=4 => code >> (4 - scaling),
            scaling => code + [2, 4, 8][usize::from(scaling - 5)],
        }
        .min(31)
    }

    /// Returns the key code, 0 to 31, with four codes per octave.
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

    /// Computes the values that are constant until the next update of the LFO or the next write.
    pub fn prepare(&mut self, updates_lfo: bool) {
        if updates_lfo {
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

    /// Returns the phase change of the LFO per update, as a fraction of 2^32.
    ///
    /// Source: the frequencies in the manual. The period of each is a whole number of frames.
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

    /// Overwrites `out` with the volumes of the next frames, in 65,536ths.
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

    /// Returns the phase change that the value of another operator causes.
    #[inline]
    pub fn moved(&self, value: i32) -> i32 {
        // The depths are 4π, 2π, π, π/2 and π/4 for 0 to 4, and 8π, 16π and 32π for 5 to 7.
        const SHIFTS: [u32; 8] = [12, 11, 10, 9, 8, 13, 14, 15];
        value.wrapping_shl(SHIFTS[usize::from(self.feedback)])
    }

    /// Returns the phase change that the feedback causes.
    #[inline]
    pub fn fed_back_phase(&self) -> i32 {
        (self.last_phases[0].wrapping_add(self.last_phases[1])) >> 1
    }

    /// Stores a value for the feedback.
    #[inline]
    pub fn feed_back(&mut self, value: i32) {
        let phase = match self.feedback {
            0 => 0,
            // The feedback depth doubles from one level to the next, from a sixteenth of π/4 to
            // four times π/4.
            depth => (value << 8 >> 4) << (depth - 1),
        };
        self.last_phases = [self.last_phases[1], phase];
    }

    /// Returns the next value at a volume and with a phase change.
    #[inline]
    pub fn value(&mut self, moved: i32, gain: i32) -> i32 {
        let phase = (self.at as u32).wrapping_add_signed(moved) & PHASE_MASK;
        self.at += self.step;
        let wave = &TABLES.waves[usize::from(self.wave)];
        (i32::from(wave[(phase >> 16) as usize]) * gain) >> 16
    }

    /// Overwrites `out` with the values of an operator with its own feedback.
    pub fn fed_back(&mut self, out: &mut [i32]) {
        let mut gains = [0; LFO_INTERVAL];
        self.gains(&mut gains[..out.len()]);
        for (value, gain) in out.iter_mut().zip(gains) {
            *value = self.value(self.fed_back_phase(), gain);
            self.feed_back(*value);
        }
    }

    /// Overwrites `out` with the values of an operator that others may modulate.
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

    /// Overwrites `out` with samples.
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

    /// Handles the end of the sound: wraps to the loop start or turns around.
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
        // If this position is outside as well, the sound continues at the loop start.
        self.at = match (0..=last).contains(&(at >> 16)) {
            true => at,
            false => at & 0xFFFF | ends[0].min(ends[1]),
        } as u64;
    }

    /// Adds values with the levels of outputs 1 and 2.
    pub fn add(&self, values: &[i32], out: &mut [[i32; 2]]) {
        let [left, right] = self.levels.map(|level| TABLES.outputs[usize::from(level)]);
        for (frame, value) in out.iter_mut().zip(values) {
            frame[0] += (value * left) >> 16;
            frame[1] += (value * right) >> 16;
        }
    }
}

/// Returns the pitch modulation of the LFO, −1 to 1. `turn` counts in 256ths of a period.
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

/// Returns the attenuation of the LFO, 0 to 256.
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
