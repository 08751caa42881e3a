//! The sound of the Game Boy (DMG): two pulses, a wave and a noise.
//!
//! The registers as VGM files write them (command B3), which are the CPU's addresses minus FF10:
//!
//! | register | | |
//! |---|---|---|
//! | 00 | NR10 | pulse 1's sweep: `- p p p n s s s` period, negate, shift |
//! | 01, 06 | NR11, NR21 | `d d l l l l l l` duty, length |
//! | 02, 07, 11 | NR12, NR22, NR42 | `v v v v u p p p` volume, up, envelope's period |
//! | 03, 08, 0D | NR13, NR23, NR33 | pitch, low 8 bits |
//! | 04, 09, 0E | NR14, NR24, NR34 | `t l - - - p p p` start, use the length, pitch's high 3 bits |
//! | 0A | NR30 | wave: bit 7 its DAC on |
//! | 0B, 0C | NR31, NR32 | length, 8 bits; volume off, 1, 1/2, 1/4 in bits 5 and 6 |
//! | 10 | NR41 | noise: length |
//! | 12 | NR43 | `s s s s w r r r` shift, 7 bits instead of 15, divider |
//! | 13 | NR44 | `t l - - - - - -` |
//! | 14 | NR50 | `- l l l - r r r` main volume |
//! | 15 | NR51 | which channels are on the left (bits 4 to 7), on the right (0 to 3) |
//! | 16 | NR52 | bit 7: power |
//! | 20–2F | | the wave's 32 samples of 4 bits, the high one first |
//!
//! A tick is two clocks. A pulse advances by an eighth of its period every 2 × (2048 - pitch)
//! ticks, and the wave by a sample every 2048 - pitch ticks. A 512 Hz counter has eight steps.
//! Every second step clocks the lengths, the third and seventh clock the sweep, and the last one
//! clocks the envelopes.
//!
//! We leave out two details on purpose: the effect of playing on the wave's memory, and the
//! differences of the Color.
//!
//! Source: Pan Docs, "Audio" and "Audio details"; gbdev wiki, "Game Boy sound hardware", with its
//! obscure behaviour (writing volumes without a restart); the VGM 1.71 specification.

mod envelope;

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;
use envelope::{Envelope, Length};

/// The entry of the GameBoy in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::GameBoy,
    name: "GameBoy",
    verification: DOCUMENTS,
    ratio: Some(6.5),
    // In our core, the four channels together fill the range of 16 bits. The machine is twice as
    // loud, so the factor is 2.
    level: Level::new(2.0, 0xC0, 4.0),
    voices: &[VoiceGroup::Named(&["pulse 1", "pulse 2", "wave", "noise"])],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(GameBoy::new(clock_hz))),
};

/// The number of ticks per step of the 512 Hz counter, which is 8,192 clocks.
const FRAME: u32 = 4096;

/// The number of output steps per step of the chip, which has 15 levels and 8 volumes.
const SCALE: i32 = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Pulse {
    on: bool,
    length: Length,
    envelope: Envelope,
    duty: u8,
    pitch: u16,
    phase: u8,
    count: Countdown,
    shown: OutputLevel,
}

/// The eighths of the period that are high, from bit 0.
const DUTIES: [u8; 4] = [0b1000_0000, 0b1000_0001, 0b1110_0001, 0b0111_1110];

impl Pulse {
    fn period(&self) -> u32 {
        2 * (2048 - u32::from(self.pitch))
    }

    fn start(&mut self) {
        self.on = self.envelope.has_dac();
        self.length.start(64);
        self.envelope.start();
        self.count = Countdown::of(self.period());
    }

    fn run(
        &mut self,
        (start, ticks): (u32, u32),
        limit: u32,
        gains: [i32; 2],
        steps: &mut dyn StepSink,
    ) {
        let loud = if self.on {
            i32::from(self.envelope.level)
        } else {
            0
        };
        let period = self.period();
        let duty = DUTIES[usize::from(self.duty)];
        if loud == 0 || is_inaudible(8, period, limit) {
            let mean = loud * duty.count_ones() as i32;
            self.shown
                .set(start, gains.map(|gain| gain * mean / 8), steps);
            let moved = self.count.skip(ticks, period);
            self.phase = (self.phase as u32 + moved) as u8 & 7;
            return;
        }
        let level = |phase: u8| gains.map(|gain| gain * loud * i32::from(duty >> phase & 1));
        self.shown.set(start, level(self.phase), steps);
        let (mut phase, mut shown) = (self.phase, self.shown);
        self.count.run(ticks, |tick| {
            phase = (phase + 1) & 7;
            shown.set(start + tick, level(phase), steps);
            period
        });
        (self.phase, self.shown) = (phase, shown);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    written: u8,
    on: bool,
    shadow: u16,
    left: u8,
    negated: bool,
}

impl Sweep {
    fn period(&self) -> u8 {
        match self.written >> 4 & 7 {
            0 => 8,
            period => period,
        }
    }

    fn target(&mut self) -> u16 {
        let change = self.shadow >> (self.written & 7);
        if self.written & 8 != 0 {
            self.negated = true;
            self.shadow.saturating_sub(change)
        } else {
            self.shadow + change
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Wave {
    on: bool,
    dac: bool,
    length: Length,
    volume: u8,
    pitch: u16,
    samples: [u8; 16],
    place: u8,
    /// The sample that was read last. Starting the channel does not read a new one.
    held: u8,
    count: Countdown,
    shown: OutputLevel,
}

impl Wave {
    fn period(&self) -> u32 {
        2048 - u32::from(self.pitch)
    }

    fn sample(&self, place: u8) -> u8 {
        let byte = self.samples[usize::from(place / 2)];
        if place & 1 == 0 { byte >> 4 } else { byte & 15 }
    }

    fn start(&mut self) {
        self.on = self.dac;
        self.length.start(256);
        self.place = 0;
        // The first sample is read three ticks late.
        self.count = Countdown::of(self.period() + 3);
    }

    fn run(
        &mut self,
        (start, ticks): (u32, u32),
        limit: u32,
        gains: [i32; 2],
        steps: &mut dyn StepSink,
    ) {
        let period = self.period();
        let shift = match self.volume {
            _ if !self.on => 4,
            0 => 4,
            volume => volume - 1,
        };
        let level = |sample: u8| gains.map(|gain| gain * i32::from(sample >> shift));
        if shift == 4 || is_inaudible(32, period, limit) {
            let sum: u32 = (0..32)
                .map(|place| u32::from(self.sample(place) >> shift))
                .sum();
            self.shown
                .set(start, gains.map(|gain| gain * sum as i32 / 32), steps);
            let moved = self.count.skip(ticks, period);
            self.place = ((u32::from(self.place) + moved) & 31) as u8;
            if moved > 0 {
                self.held = self.sample(self.place);
            }
            return;
        }
        self.shown.set(start, level(self.held), steps);
        let mut count = self.count;
        count.run(ticks, |tick| {
            self.place = (self.place + 1) & 31;
            self.held = self.sample(self.place);
            self.shown.set(start + tick, level(self.held), steps);
            period
        });
        self.count = count;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Noise {
    on: bool,
    length: Length,
    envelope: Envelope,
    written: u8,
    register: u16,
    count: Countdown,
    shown: OutputLevel,
}

impl Noise {
    /// Returns the period, or `None` if the noise does not shift.
    fn period(&self) -> Option<u32> {
        let divider = match self.written & 7 {
            0 => 4,
            slow => 8 * u32::from(slow),
        };
        let shift = self.written >> 4;
        (shift < 14).then(|| divider << shift)
    }

    fn start(&mut self) {
        self.on = self.envelope.has_dac();
        self.length.start(64);
        self.envelope.start();
        self.register = 0;
        self.count = Countdown::of(self.period().unwrap_or(0));
    }

    fn shift(&mut self) {
        let fed = !(self.register ^ self.register >> 1) & 1;
        self.register = self.register >> 1 | fed << 14;
        if self.written & 8 != 0 {
            self.register = self.register & !0x40 | fed << 6;
        }
    }

    fn run(&mut self, (start, ticks): (u32, u32), gains: [i32; 2], steps: &mut dyn StepSink) {
        let loud = if self.on {
            i32::from(self.envelope.level)
        } else {
            0
        };
        let level = |noise: &Self| gains.map(|gain| gain * loud * i32::from(noise.register & 1));
        self.shown.set(start, level(self), steps);
        let Some(period) = self.period() else {
            return;
        };
        if loud == 0 {
            for _ in 0..self.count.skip(ticks, period) {
                self.shift();
            }
            return;
        }
        let mut count = self.count;
        count.run(ticks, |tick| {
            self.shift();
            let level = level(self);
            self.shown.set(start + tick, level, steps);
            period
        });
        self.count = count;
    }
}

/// The emulated sound of a Game Boy, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct GameBoy {
    clock_hz: u32,
    power: bool,
    pulses: [Pulse; 2],
    sweep: Sweep,
    wave: Wave,
    noise: Noise,
    volumes: u8,
    sides: u8,
    until_frame: u32,
    frame: u8,
    averaged: u32,
}

impl GameBoy {
    /// Creates a silent chip at `clock_hz` that is switched on.
    pub fn new(clock_hz: u32) -> Self {
        GameBoy {
            clock_hz,
            power: true,
            pulses: [Pulse::default(); 2],
            sweep: Sweep::default(),
            wave: Wave::default(),
            noise: Noise::default(),
            volumes: 0x77,
            sides: 0xFF,
            until_frame: FRAME,
            frame: 0,
            averaged: 0,
        }
    }

    fn switch_off(&mut self) {
        let shown = self.pulses.map(|pulse| pulse.shown);
        for (pulse, shown) in self.pulses.iter_mut().zip(shown) {
            let length = Length {
                used: false,
                ..pulse.length
            };
            *pulse = Pulse {
                length,
                shown,
                ..Pulse::default()
            };
        }
        self.sweep = Sweep::default();
        self.wave = Wave {
            samples: self.wave.samples,
            shown: self.wave.shown,
            ..Wave::default()
        };
        self.noise = Noise {
            shown: self.noise.shown,
            ..Noise::default()
        };
        (self.volumes, self.sides) = (0, 0);
    }

    fn start_sweep(&mut self) {
        let sweep = &mut self.sweep;
        sweep.shadow = self.pulses[0].pitch;
        sweep.left = sweep.period();
        sweep.negated = false;
        sweep.on = sweep.written & 0x77 != 0;
        if sweep.written & 7 != 0 && sweep.target() > 2047 {
            self.pulses[0].on = false;
        }
    }

    fn clock_sweep(&mut self) {
        let sweep = &mut self.sweep;
        sweep.left = sweep.left.saturating_sub(1);
        if sweep.left > 0 {
            return;
        }
        sweep.left = sweep.period();
        if !sweep.on || sweep.written >> 4 & 7 == 0 {
            return;
        }
        let target = sweep.target();
        if target > 2047 {
            self.pulses[0].on = false;
        } else if sweep.written & 7 != 0 {
            sweep.shadow = target;
            self.pulses[0].pitch = target;
            if sweep.target() > 2047 {
                self.pulses[0].on = false;
            }
        }
    }

    fn clock_frame(&mut self) {
        let step = self.frame;
        self.frame = (step + 1) & 7;
        if step & 1 == 0 {
            for pulse in &mut self.pulses {
                pulse.on &= !pulse.length.clock();
            }
            self.wave.on &= !self.wave.length.clock();
            self.noise.on &= !self.noise.length.clock();
        }
        if step == 2 || step == 6 {
            self.clock_sweep();
        }
        if step == 7 {
            for pulse in &mut self.pulses {
                pulse.envelope.clock();
            }
            self.noise.envelope.clock();
        }
    }

    fn write_pulse(&mut self, which: usize, reg: u8, value: u8) {
        let pulse = &mut self.pulses[which];
        match reg {
            1 => {
                pulse.duty = value >> 6;
                pulse.length.left = 64 - u16::from(value & 63);
            }
            2 => {
                pulse.envelope.write(value, pulse.on);
                pulse.on &= pulse.envelope.has_dac();
            }
            3 => pulse.pitch = pulse.pitch & 0x700 | u16::from(value),
            _ => {
                pulse.pitch = pulse.pitch & 0xFF | u16::from(value & 7) << 8;
                pulse.length.used = value & 0x40 != 0;
                if value & 0x80 != 0 {
                    pulse.start();
                    if which == 0 {
                        self.start_sweep();
                    }
                }
            }
        }
    }

    fn write_wave(&mut self, reg: u8, value: u8) {
        let wave = &mut self.wave;
        match reg {
            0x0A => {
                wave.dac = value & 0x80 != 0;
                wave.on &= wave.dac;
            }
            0x0B => wave.length.left = 256 - u16::from(value),
            0x0C => wave.volume = value >> 5 & 3,
            0x0D => wave.pitch = wave.pitch & 0x700 | u16::from(value),
            _ => {
                wave.pitch = wave.pitch & 0xFF | u16::from(value & 7) << 8;
                wave.length.used = value & 0x40 != 0;
                if value & 0x80 != 0 {
                    wave.start();
                }
            }
        }
    }

    fn write_noise(&mut self, reg: u8, value: u8) {
        let noise = &mut self.noise;
        match reg {
            0x10 => noise.length.left = 64 - u16::from(value & 63),
            0x11 => {
                noise.envelope.write(value, noise.on);
                noise.on &= noise.envelope.has_dac();
            }
            0x12 => noise.written = value,
            _ => {
                noise.length.used = value & 0x40 != 0;
                if value & 0x80 != 0 {
                    noise.start();
                }
            }
        }
    }

    /// Returns how much one step of a channel adds to the output, left and right.
    fn gains(&self, channel: usize) -> [i32; 2] {
        let heard = |bit: usize| i32::from(self.sides >> bit & 1);
        let volume = |bits: u8| i32::from(bits & 7) + 1;
        [
            heard(channel + 4) * volume(self.volumes >> 4) * SCALE,
            heard(channel) * volume(self.volumes) * SCALE,
        ]
    }
}

impl StepChip for GameBoy {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 2,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x16 => {
                let power = value & 0x80 != 0;
                if self.power && !power {
                    self.switch_off();
                } else if power && !self.power {
                    self.frame = 0;
                }
                self.power = power;
            }
            0x20..=0x2F => self.wave.samples[usize::from(reg & 15)] = value,
            _ if !self.power => {}
            0x00 => {
                let was_negated = self.sweep.negated;
                self.sweep.written = value;
                if was_negated && value & 8 == 0 {
                    self.pulses[0].on = false;
                }
            }
            0x01..=0x04 => self.write_pulse(0, reg, value),
            0x06..=0x09 => self.write_pulse(1, reg - 5, value),
            0x0A..=0x0E => self.write_wave(reg, value),
            0x10..=0x13 => self.write_noise(reg, value),
            0x14 => self.volumes = value,
            0x15 => self.sides = value,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let limit = self.averaged;
        let gains = [0, 1, 2, 3].map(|channel| self.gains(channel));
        let mut at = 0;
        while at < ticks {
            if self.until_frame == 0 {
                self.clock_frame();
                self.until_frame = FRAME;
            }
            let span = (at, self.until_frame.min(ticks - at));
            self.pulses[0].run(span, limit, gains[0], steps);
            self.pulses[1].run(span, limit, gains[1], steps);
            self.wave.run(span, limit, gains[2], steps);
            self.noise.run(span, gains[3], steps);
            self.until_frame -= span.1;
            at += span.1;
        }
    }
}
