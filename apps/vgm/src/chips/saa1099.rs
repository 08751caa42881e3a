//! The Philips SAA1099: six tones, two noises, two envelopes, in stereo.
//!
//! | register | |
//! |---|---|
//! | 00–05 | `r r r r l l l l` amplitudes |
//! | 08–0D | pitches |
//! | 10–12 | octaves, two channels each: bits 0 to 2 and 4 to 6 |
//! | 14 | which tones are on, from bit 0 |
//! | 15 | which noises are on |
//! | 16 | the noise clocks, bits 0 and 1, 4 and 5: clock / 256, 512, 1024, or tone 0 (3) |
//! | 18, 19 | envelopes of channels 2 and 5: `e - x c f f f i` on, clocked by a write, of 3 bits, shape, right inverted |
//! | 1C | bit 0 sound on, bit 1 all tones held at their start |
//!
//! A tick is two clocks. A tone toggles every (511 - pitch) × 2^(7 - octave) ticks. Noise n is
//! mixed into channels 3n to 3n + 2. Noise alone switches the channel's level on and off. Together
//! with the tone, it halves the high level. Tones 1 and 4 clock the envelopes that are not clocked
//! by writes.
//!
//! If an envelope is on and its channel has neither tone nor noise, the channel outputs the
//! envelope itself. Music uses it as a bass, and players of samples as a converter of 3 bits.
//!
//! A tone reads its pitch and octave when it toggles. We leave out a detail on purpose, which is
//! the order in which pitch and octave take effect if both were written.
//!
//! Source: Philips SAA1099 data sheet (1986); "SAA1099 technical guide" of the SAM Coupé's scene
//! (the noise's polynomial, x^18 + x^11 + 1); the VGM 1.71 specification; the documentation of
//! Furnace and players of samples for the SAM Coupé (envelopes without tone and noise). The level
//! of these was measured in the output of libvgm as a program.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the SAA1099 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Saa1099,
    name: "SAA1099",
    verification: "documented figures; libvgm: spectra 1.5 dB, balance 0.6 dB",
    ratio: Some(2.1),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(1.07, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(6)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(Saa1099::new(clock_hz))),
};

/// The number of output steps per step of the chip, which has 16 × 15 levels (amplitude times
/// envelope).
const SCALE: i32 = 20;

/// The factor of a full envelope, and of an amplitude without an envelope.
const FULL: i32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    amplitude: u8,
    pitch: u8,
    octave: u8,
    high: bool,
    count: Countdown,
    shown: OutputLevel,
}

impl Channel {
    fn period(&self) -> u32 {
        (511 - u32::from(self.pitch)) << (7 - self.octave)
    }
}

#[derive(Clone, Copy, Debug)]
struct Noise {
    register: u32,
    count: Countdown,
}

impl Noise {
    fn is_high(&self) -> bool {
        self.register & 1 != 0
    }

    fn shift(&mut self) {
        let fed = (self.register >> 17 ^ self.register >> 10) & 1;
        self.register = self.register << 1 | fed;
        self.register &= 0x3_FFFF;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Envelope {
    written: u8,
    /// A written value that takes effect at the next position at which the chip accepts it.
    next: Option<u8>,
    step: u8,
}

impl Envelope {
    fn is_on(&self) -> bool {
        self.written & 0x80 != 0
    }

    fn by_write(&self) -> bool {
        self.written & 0x20 != 0
    }

    fn level(&self) -> u8 {
        let step = self.step;
        let level = match self.written >> 1 & 7 {
            0 => 0,
            1 => 15,
            2 | 3 if step < 16 => 15 - step,
            4 | 5 if step < 16 => step,
            4 | 5 if step < 32 => 31 - step,
            6 | 7 if step < 16 => step,
            _ => 0,
        };
        if self.written & 0x10 != 0 {
            level & 14
        } else {
            level
        }
    }

    /// Returns the factors of the envelope on the left and on the right. They are constant if the
    /// envelope is off.
    fn levels(&self) -> [i32; 2] {
        if !self.is_on() {
            return [FULL; 2];
        }
        let level = self.level();
        let top = if self.written & 0x10 != 0 { 14 } else { 15 };
        let right = if self.written & 1 != 0 {
            top - level
        } else {
            level
        };
        [i32::from(level), i32::from(right)]
    }

    fn write(&mut self, value: u8) {
        if self.is_on() && value & 0x80 != 0 && !self.is_at_end() {
            self.next = Some(value);
        } else {
            self.take(value);
        }
        if value & 0x80 == 0 {
            self.take(value);
        }
    }

    fn take(&mut self, value: u8) {
        self.written = value;
        self.next = None;
        self.step = 0;
    }

    fn steps(&self) -> u8 {
        if matches!(self.written >> 1 & 7, 4 | 5) {
            32
        } else {
            16
        }
    }

    /// Returns whether a shape that plays once has ended.
    fn is_at_end(&self) -> bool {
        self.step >= self.steps()
    }

    fn clock(&mut self) {
        if !self.is_on() {
            return;
        }
        let stride = if self.written & 0x10 != 0 { 2 } else { 1 };
        let steps = self.steps();
        if self.step >= steps {
            if let Some(next) = self.next {
                self.take(next);
            }
            return;
        }
        self.step += stride;
        if self.step < steps {
            return;
        }
        let repeats = self.written & 2 != 0;
        match self.next {
            Some(next) => self.take(next),
            None if repeats => self.step = 0,
            None => {}
        }
    }
}

/// An emulated SAA1099, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct Saa1099 {
    clock_hz: u32,
    channels: [Channel; 6],
    tones: u8,
    noises: u8,
    paces: u8,
    noise: [Noise; 2],
    envelopes: [Envelope; 2],
    on: bool,
    held: bool,
    averaged: u32,
}

impl Saa1099 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let noise = Noise {
            register: 0x3_FFFF,
            count: Countdown::default(),
        };
        Saa1099 {
            clock_hz,
            channels: [Channel::default(); 6],
            tones: 0,
            noises: 0,
            paces: 0,
            noise: [noise; 2],
            envelopes: [Envelope::default(); 2],
            on: false,
            held: false,
            averaged: 0,
        }
    }

    /// Returns the level of a channel, left and right. An inaudible tone has half of its high
    /// level.
    fn level(&self, index: usize, limit: u32) -> [i32; 2] {
        let channel = &self.channels[index];
        let has = |mask: u8| mask >> index & 1 != 0;
        let noisy = self.noise[index / 3].is_high();
        let averaged = !self.held && is_inaudible(2, channel.period(), limit);
        let high = match averaged {
            true => 1,
            false => 2 * i32::from(channel.high),
        };
        let shaped = index % 3 == 2;
        let envelope = if shaped {
            self.envelopes[index / 3]
        } else {
            Envelope::default()
        };
        // The value is in halves of the level.
        let halves = match (has(self.tones), has(self.noises)) {
            _ if !self.on => 0,
            (false, false) if envelope.is_on() => 2,
            (false, false) => 0,
            (true, false) => high,
            (false, true) => 2 * i32::from(noisy),
            (true, true) if noisy => high / 2,
            (true, true) => high,
        };
        let factors = envelope.levels();
        std::array::from_fn(|side| {
            let amplitude = i32::from(channel.amplitude >> (4 * side) & 15);
            // The multiplier of the envelope ignores the lowest bit of the amplitude.
            let amplitude = if envelope.is_on() {
                amplitude & 14
            } else {
                amplitude
            };
            amplitude * factors[side] * halves * SCALE / 2
        })
    }

    fn show(&mut self, tick: u32, index: usize, steps: &mut dyn StepSink) {
        let level = self.level(index, self.averaged);
        self.channels[index].shown.set(tick, level, steps);
    }

    fn noise_period(&self, which: usize) -> Option<u32> {
        match self.paces >> (4 * which) & 3 {
            3 => None,
            pace => Some(128 << pace),
        }
    }

    /// Returns whether a tone also clocks a noise or an envelope. Its toggles then affect more than
    /// its own level.
    fn drives(&self, index: usize) -> bool {
        let half = index / 3;
        match index % 3 {
            0 => self.noise_period(half).is_none(),
            1 => self.envelopes[half].is_on() && !self.envelopes[half].by_write(),
            _ => false,
        }
    }

    /// Runs half of the chip: three channels, a noise and an envelope.
    fn run_half(&mut self, half: usize, ticks: u32, steps: &mut dyn StepSink) {
        let all = 3 * half..3 * half + 3;
        for index in all.clone() {
            self.show(0, index, steps);
        }
        let heard = |chip: &Self, index: usize| {
            let channel = &chip.channels[index];
            let loud = chip.on && channel.amplitude != 0 && chip.tones >> index & 1 != 0;
            loud && !is_inaudible(2, channel.period(), chip.averaged)
        };
        // A tone that is inaudible and clocks nothing does not need each of its toggles, so we
        // count them all at once.
        let mut toggles = [false; 3];
        for (place, index) in all.clone().enumerate() {
            toggles[place] = !self.held && (heard(self, index) || self.drives(index));
            let channel = &mut self.channels[index];
            if self.held {
                channel.count = Countdown::of(channel.period());
            } else if !toggles[place] {
                let period = channel.period();
                channel.high ^= channel.count.skip(ticks, period) & 1 != 0;
            }
        }
        let noise_period = self.noise_period(half);
        loop {
            let mut next = ticks;
            for (place, index) in all.clone().enumerate() {
                if toggles[place] {
                    next = next.min(self.channels[index].count.left());
                }
            }
            if noise_period.is_some() {
                next = next.min(self.noise[half].count.left());
            }
            if next >= ticks {
                break;
            }
            for (place, index) in all.clone().enumerate() {
                if toggles[place] && self.channels[index].count.left() == next {
                    self.toggle(index, next);
                    self.show(next, index, steps);
                }
            }
            if let Some(period) = noise_period
                && self.noise[half].count.left() == next
            {
                self.noise[half].count = Countdown::of(next + period);
                self.noise[half].shift();
            }
            for index in all.clone() {
                // The noise or the envelope may have changed the level of these channels.
                if self.noises >> index & 1 != 0 || index % 3 == 2 {
                    self.show(next, index, steps);
                }
            }
        }
        for (place, index) in all.enumerate() {
            if toggles[place] {
                self.channels[index].count.skip(ticks, 1 << 30);
            }
        }
        if noise_period.is_some() {
            self.noise[half].count.skip(ticks, 1 << 30);
        }
    }

    fn toggle(&mut self, index: usize, tick: u32) {
        let half = index / 3;
        let channel = &mut self.channels[index];
        channel.high = !channel.high;
        channel.count = Countdown::of(tick + channel.period());
        match index % 3 {
            0 if self.noise_period(half).is_none() => self.noise[half].shift(),
            1 if !self.envelopes[half].by_write() => self.envelopes[half].clock(),
            _ => {}
        }
    }
}

impl StepChip for Saa1099 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 2,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x00..=0x05 => self.channels[usize::from(reg)].amplitude = value,
            0x08..=0x0D => self.channels[usize::from(reg & 7)].pitch = value,
            0x10..=0x12 => {
                let pair = 2 * usize::from(reg & 3);
                self.channels[pair].octave = value & 7;
                self.channels[pair + 1].octave = value >> 4 & 7;
            }
            0x14 => self.tones = value & 0x3F,
            0x15 => self.noises = value & 0x3F,
            0x16 => self.paces = value,
            0x18 | 0x19 => self.envelopes[usize::from(reg & 1)].write(value),
            0x1C => {
                self.on = value & 1 != 0;
                self.held = value & 2 != 0;
                if self.held {
                    for channel in &mut self.channels {
                        channel.high = false;
                    }
                }
            }
            _ => {}
        }
        // A write to the register of an envelope clocks it, if it is clocked by writes. On the
        // chip, selecting the register is enough.
        if matches!(reg, 0x18 | 0x19) {
            let envelope = &mut self.envelopes[usize::from(reg & 1)];
            if envelope.by_write() {
                envelope.clock();
            }
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        self.run_half(0, ticks, steps);
        self.run_half(1, ticks, steps);
    }
}
