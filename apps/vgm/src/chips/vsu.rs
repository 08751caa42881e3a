//! The VSU of the Virtual Boy: five waves of 32 samples of 6 bits, and a noise.
//!
//! The registers as VGM files write them (command C7), which are the CPU's offsets in words. The
//! port is the high byte:
//!
//! | offset | |
//! |---|---|
//! | 000–09F | five waves of 32 samples |
//! | 0A0–0BF | the modulation's table, signed |
//! | 100 + 10 × channel | `e - o i i i i i` start and on, switch off after (i + 1) × 3.84 ms if `o` |
//! | + 1 | `l l l l r r r r` volumes |
//! | + 2, 3 | pitch, low 8 bits and high 3 |
//! | + 4 | envelope: `v v v v u p p p` first value, up, period of (p + 1) × 15.36 ms |
//! | + 5 | `- - - - - - r e` envelope: repeat, on |
//! | + 5 of channel 4 (from 0) | also the modulation in bits 6 to 4: on, repeat, by the table instead of a sweep |
//! | + 5 of channel 5 | also the noise's tap in bits 4 to 6 |
//! | + 6 | which wave |
//! | 147 | sweep: `c i i i u s s s` unit of 7.68 ms instead of 0.96, interval, up, shift |
//! | 160 | bit 0: stop all |
//!
//! A tick is a clock. A wave plays its next sample every 2048 - pitch ticks. The noise shifts every
//! ten times this number of ticks. It has 15 bits, of which bit 7 and the tap are compared.
//!
//! Source: "The Sacred Tech Scroll" of Planet Virtual Boy, "VSU"; the VGM 1.71 specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the VSU in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Vsu,
    name: "VSU",
    verification: "documented figures; libvgm: spectra 1.0 dB, balance 0.2 dB",
    ratio: Some(2.4),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(2.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(6)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(Vsu::new(clock_hz))),
};

/// The units of time in clocks.
const INTERVAL: u32 = 19_200;
const ENVELOPE: u32 = 76_800;
const SWEEPS: [u32; 2] = [4_800, 38_400];

/// The channels with additional functions, counted from 0.
const SWEPT: usize = 4;
const NOISE: usize = 5;

/// The bits of the noise register that are compared with bit 7.
const TAPS: [u8; 8] = [14, 10, 13, 4, 8, 6, 9, 11];

/// The number of output steps per step of the chip, which has 63 × 29 levels.
const SCALE: i32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    interval: u8,
    volume: u8,
    /// The pitch as written. `bent` is the modulated pitch.
    pitch: u16,
    bent: u16,
    envelope: u8,
    mode: u8,
    wave: u8,
    level: u8,
    place: u8,
    count: Countdown,
    until_off: u32,
    until_envelope: u32,
    shown: OutputLevel,
}

impl Channel {
    fn is_on(&self) -> bool {
        self.interval & 0x80 != 0
    }

    fn switches_off(&self) -> bool {
        self.is_on() && self.interval & 0x20 != 0
    }

    fn period(&self) -> u32 {
        2048 - u32::from(self.bent)
    }

    fn envelope_period(&self) -> u32 {
        (u32::from(self.envelope & 7) + 1) * ENVELOPE
    }

    fn start(&mut self) {
        self.until_off = (u32::from(self.interval & 31) + 1) * INTERVAL;
        self.until_envelope = self.envelope_period();
        self.level = self.envelope >> 4;
        self.place = 0;
        self.bent = self.pitch;
        self.count = Countdown::of(self.period());
    }

    /// Returns the factors of a sample, left and right.
    fn gains(&self) -> [i32; 2] {
        if !self.is_on() {
            return [0; 2];
        }
        let level = i32::from(self.level);
        [self.volume >> 4, self.volume & 15].map(|volume| {
            let volume = i32::from(volume);
            let heard = i32::from(level != 0 && volume != 0);
            (((level * volume) >> 3) + heard) * SCALE
        })
    }

    fn clock_envelope(&mut self) {
        let (up, repeats) = (self.envelope & 8 != 0, self.mode & 2 != 0);
        match (up, self.level) {
            (true, 0..=14) => self.level += 1,
            (false, 1..=15) => self.level -= 1,
            _ if repeats => self.level = self.envelope >> 4,
            _ => {}
        }
    }

    /// Returns the number of ticks until the channel switches off or its envelope takes a step, or
    /// `u32::MAX` if neither happens.
    fn until_change(&self) -> u32 {
        let mut next = u32::MAX;
        if self.switches_off() {
            next = next.min(self.until_off);
        }
        if self.is_on() && self.mode & 1 != 0 {
            next = next.min(self.until_envelope);
        }
        next
    }

    fn pass(&mut self, ticks: u32) {
        if self.switches_off() {
            self.until_off -= ticks;
            if self.until_off == 0 {
                self.interval &= 0x7F;
            }
        }
        if self.is_on() && self.mode & 1 != 0 {
            self.until_envelope -= ticks;
            if self.until_envelope == 0 {
                self.clock_envelope();
                self.until_envelope = self.envelope_period();
            }
        }
    }
}

/// An emulated VSU, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct Vsu {
    clock_hz: u32,
    channels: [Channel; 6],
    waves: [[u8; 32]; 5],
    table: [i8; 32],
    table_place: u8,
    sweep: u8,
    until_sweep: u32,
    register: u16,
    averaged: u32,
}

impl Vsu {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Vsu {
            clock_hz,
            channels: [Channel::default(); 6],
            waves: [[0; 32]; 5],
            table: [0; 32],
            table_place: 0,
            sweep: 0,
            until_sweep: SWEEPS[0],
            register: 0,
            averaged: 0,
        }
    }

    fn sweep_period(&self) -> u32 {
        SWEEPS[usize::from(self.sweep >> 7)] * u32::from(self.sweep >> 4 & 7)
    }

    /// Returns whether the pitch of the fifth channel is modulated.
    fn sweeps(&self) -> bool {
        let channel = &self.channels[SWEPT];
        channel.is_on() && channel.mode & 0x40 != 0 && self.sweep & 0x70 != 0
    }

    fn clock_sweep(&mut self) {
        let channel = &mut self.channels[SWEPT];
        if channel.mode & 0x10 != 0 {
            // The table modulates the pitch, once or repeatedly.
            if self.table_place < 32 {
                let bend = self.table[usize::from(self.table_place)];
                channel.bent = channel.pitch.wrapping_add_signed(bend.into()) & 0x7FF;
                self.table_place += 1;
                if self.table_place == 32 && channel.mode & 0x20 != 0 {
                    self.table_place = 0;
                }
            }
            return;
        }
        let change = channel.bent >> (self.sweep & 7);
        if self.sweep & 8 != 0 {
            channel.bent += change;
            if channel.bent > 0x7FF {
                channel.bent = 0x7FF;
                channel.interval &= 0x7F;
            }
        } else {
            channel.bent -= change;
        }
    }

    fn write_channel(&mut self, index: usize, reg: u8, value: u8) {
        let channel = &mut self.channels[index];
        match reg {
            0 => {
                channel.interval = value;
                if value & 0x80 != 0 {
                    channel.start();
                    if index == SWEPT {
                        self.table_place = 0;
                        self.until_sweep = self.sweep_period().max(1);
                    }
                    if index == NOISE {
                        self.register = 0;
                    }
                }
            }
            1 => channel.volume = value,
            2 | 3 => {
                channel.pitch = match reg {
                    2 => channel.pitch & 0x700 | u16::from(value),
                    _ => channel.pitch & 0xFF | u16::from(value & 7) << 8,
                };
                channel.bent = channel.pitch;
            }
            4 => {
                channel.envelope = value;
                channel.level = value >> 4;
            }
            5 => {
                channel.mode = value;
                if index == NOISE {
                    self.register = 0;
                }
            }
            6 => channel.wave = value & 15,
            7 if index == SWEPT => self.sweep = value,
            _ => {}
        }
    }

    fn shift(&mut self) {
        let tap = TAPS[usize::from(self.channels[NOISE].mode >> 4 & 7)];
        let fed = (self.register >> 7 ^ self.register >> tap ^ 1) & 1;
        self.register = (self.register << 1 | fed) & 0x7FFF;
    }

    fn run_noise(&mut self, (start, ticks): (u32, u32), steps: &mut dyn StepSink) {
        let gains = self.channels[NOISE].gains();
        let period = 10 * self.channels[NOISE].period();
        let level = |register: u16| gains.map(|gain| if register & 1 != 0 { 63 * gain } else { 0 });
        let mut shown = self.channels[NOISE].shown;
        shown.set(start, level(self.register), steps);
        let mut count = self.channels[NOISE].count;
        count.run(ticks, |tick| {
            self.shift();
            shown.set(start + tick, level(self.register), steps);
            period
        });
        self.channels[NOISE].count = count;
        self.channels[NOISE].shown = shown;
    }

    fn run_wave(&mut self, index: usize, (start, ticks): (u32, u32), steps: &mut dyn StepSink) {
        let channel = &mut self.channels[index];
        let silence = [0; 32];
        let wave = self
            .waves
            .get(usize::from(channel.wave))
            .unwrap_or(&silence);
        let (gains, period) = (channel.gains(), channel.period());
        if gains == [0; 2] || is_inaudible(32, period, self.averaged) {
            let sum: i32 = wave.iter().map(|sample| i32::from(*sample)).sum();
            channel
                .shown
                .set(start, gains.map(|gain| gain * sum / 32), steps);
            let moved = channel.count.skip(ticks, period);
            channel.place = ((u32::from(channel.place) + moved) & 31) as u8;
            return;
        }
        let level = |place: u8| gains.map(|gain| gain * i32::from(wave[usize::from(place)]));
        channel.shown.set(start, level(channel.place), steps);
        let mut count = channel.count;
        count.run(ticks, |tick| {
            channel.place = (channel.place + 1) & 31;
            channel.shown.set(start + tick, level(channel.place), steps);
            period
        });
        channel.count = count;
    }
}

impl StepChip for Vsu {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, port: u8, reg: u8, value: u8) {
        match (port, reg) {
            (0, 0x00..=0x9F) => {
                self.waves[usize::from(reg / 32)][usize::from(reg & 31)] = value & 63
            }
            (0, 0xA0..=0xBF) => self.table[usize::from(reg & 31)] = value as i8,
            (1, 0x00..=0x5F) => self.write_channel(usize::from(reg >> 4), reg & 15, value),
            (1, 0x60) if value & 1 != 0 => {
                for channel in &mut self.channels {
                    channel.interval &= 0x7F;
                }
            }
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let mut at = 0;
        while at < ticks {
            let changes = self.channels.iter().map(Channel::until_change);
            let mut run = changes.fold(ticks - at, u32::min);
            if self.sweeps() {
                run = run.min(self.until_sweep);
            }
            for index in 0..NOISE {
                self.run_wave(index, (at, run), steps);
            }
            self.run_noise((at, run), steps);
            if self.sweeps() {
                self.until_sweep -= run;
                if self.until_sweep == 0 {
                    self.clock_sweep();
                    self.until_sweep = self.sweep_period().max(1);
                }
            }
            for channel in &mut self.channels {
                channel.pass(run);
            }
            at += run;
        }
    }
}
