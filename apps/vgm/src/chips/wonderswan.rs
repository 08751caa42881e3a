//! The sound of the WonderSwan: four waves of 32 samples of 4 bits. The second channel can play a
//! voice, the third can sweep, and the fourth can play noise.
//!
//! The registers as VGM files write them (command BC), which are the CPU's ports minus 80:
//!
//! | register | |
//! |---|---|
//! | 00–07 | pitch of each channel, low 8 bits and high 3 |
//! | 08–0B | `l l l l r r r r` volumes; 09 is the voice's sample while the voice is on |
//! | 0C, 0D | what the sweep adds, signed; its interval in 375ths of a second, less 1 |
//! | 0E | noise: `- - - e r t t t` on, restart, tap |
//! | 0F | address of the waves in memory, in units of 64 bytes |
//! | 10 | `n s v - 4 3 2 1` noise, sweep, voice; which channels are on |
//! | 14 | voice: bit 0 right, bit 1 right by half, bit 2 left, bit 3 left by half |
//!
//! Command C6 stores bytes in the machine's memory. Its port is 1 + the high byte of the address.
//! The wave of a channel has 16 bytes, low half first.
//!
//! A tick is a clock. A channel plays the next sample every 2048 - pitch ticks, and the noise
//! shifts at the same rate. It has 15 bits, of which bit 7 and the tap are compared.
//!
//! We leave out two details on purpose: the Hyper Voice of the Color, and the headphone output rate
//! of 24,000 samples per second.
//!
//! Source: WSMan (Judge and Dox), "Sound"; the WSdev wiki, "Sound"; the header of libws (the bits
//! of port 94); the VGM 1.71 specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the WonderSwan in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::WonderSwan,
    name: "WonderSwan",
    verification: DOCUMENTS,
    ratio: Some(1.5),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(WonderSwan::new(clock_hz))),
};

/// The size of the memory that the wave addresses can reach.
const MEMORY: usize = 0x4000;

/// The number of ticks per step of the sweep, of which there are 375 per second.
const SWEEP: u32 = 8192;

/// The bits of the noise register that are compared with bit 7.
const TAPS: [u8; 8] = [14, 10, 13, 4, 8, 6, 9, 11];

/// The number of output steps per step of the chip, which has 15 × 15 levels.
const SCALE: i32 = 32;

/// The channels with additional functions, counted from 0.
const VOICE: usize = 1;
const SWEPT: usize = 2;
const NOISE: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    pitch: u16,
    volume: u8,
    place: u8,
    count: Countdown,
    shown: OutputLevel,
}

impl Channel {
    fn period(&self) -> u32 {
        2048 - u32::from(self.pitch)
    }

    fn level(&self, sample: u8) -> [i32; 2] {
        let sample = i32::from(sample) * SCALE;
        [
            i32::from(self.volume >> 4) * sample,
            i32::from(self.volume & 15) * sample,
        ]
    }

    fn skip(&mut self, ticks: u32) -> u32 {
        let moved = self.count.skip(ticks, self.period());
        self.place = ((u32::from(self.place) + moved) & 31) as u8;
        moved
    }
}

/// The emulated sound of a WonderSwan, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct WonderSwan {
    clock_hz: u32,
    channels: [Channel; 4],
    memory: Vec<u8>,
    base: u8,
    control: u8,
    voice: u8,
    sweep: i8,
    sweep_time: u8,
    sweep_left: u8,
    until_sweep: u32,
    noise: u8,
    register: u16,
    averaged: u32,
}

impl WonderSwan {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        WonderSwan {
            clock_hz,
            channels: [Channel::default(); 4],
            memory: vec![0; MEMORY],
            base: 0,
            control: 0,
            voice: 0,
            sweep: 0,
            sweep_time: 0,
            sweep_left: 0,
            until_sweep: SWEEP,
            noise: 0,
            register: 0,
            averaged: 0,
        }
    }

    fn wave(&self, channel: usize) -> [u8; 16] {
        let start = (usize::from(self.base) << 6) + 16 * channel;
        std::array::from_fn(|byte| self.memory[(start + byte) % MEMORY])
    }

    fn is(&self, bit: u8) -> bool {
        self.control >> bit & 1 != 0
    }

    fn voice_level(&self) -> [i32; 2] {
        let sample = i32::from(self.channels[VOICE].volume);
        let side = |bits: u8| match bits & 3 {
            0 => 0,
            2 => sample / 2,
            _ => sample,
        };
        [side(self.voice >> 2), side(self.voice)].map(|level| level * SCALE)
    }

    fn shift(&mut self) {
        let tap = TAPS[usize::from(self.noise & 7)];
        let fed = (self.register >> 7 ^ self.register >> tap ^ 1) & 1;
        self.register = (self.register << 1 | fed) & 0x7FFF;
    }

    fn noise_level(&self) -> [i32; 2] {
        self.channels[NOISE].level(if self.register & 1 != 0 { 15 } else { 0 })
    }

    fn run_noise(&mut self, (start, ticks): (u32, u32), steps: &mut dyn StepSink) {
        let mut shown = self.channels[NOISE].shown;
        shown.set(start, self.noise_level(), steps);
        if self.noise & 0x10 != 0 {
            let mut count = self.channels[NOISE].count;
            let period = self.channels[NOISE].period();
            count.run(ticks, |tick| {
                self.shift();
                shown.set(start + tick, self.noise_level(), steps);
                period
            });
            self.channels[NOISE].count = count;
        }
        self.channels[NOISE].shown = shown;
    }

    fn run_wave(&mut self, index: usize, (start, ticks): (u32, u32), steps: &mut dyn StepSink) {
        let wave = self.wave(index);
        let sample = |place: u8| wave[usize::from(place / 2)] >> (4 * (place & 1)) & 15;
        let channel = &mut self.channels[index];
        let period = channel.period();
        if channel.volume == 0 || is_inaudible(32, period, self.averaged) {
            let sum: u32 = (0..32).map(|place| u32::from(sample(place))).sum();
            let level = channel.level((sum / 32) as u8);
            channel.shown.set(start, level, steps);
            channel.skip(ticks);
            return;
        }
        let level = channel.level(sample(channel.place));
        channel.shown.set(start, level, steps);
        let mut count = channel.count;
        count.run(ticks, |tick| {
            channel.place = (channel.place + 1) & 31;
            let level = channel.level(sample(channel.place));
            channel.shown.set(start + tick, level, steps);
            period
        });
        channel.count = count;
    }

    fn run_channel(&mut self, index: usize, span: (u32, u32), steps: &mut dyn StepSink) {
        if index == VOICE && self.is(5) {
            let level = if self.is(1) {
                self.voice_level()
            } else {
                [0; 2]
            };
            self.channels[index].shown.set(span.0, level, steps);
        } else if !self.is(index as u8) {
            self.channels[index].shown.set(span.0, [0; 2], steps);
        } else if index == NOISE && self.is(7) {
            self.run_noise(span, steps);
        } else {
            self.run_wave(index, span, steps);
        }
    }

    fn clock_sweep(&mut self) {
        if !self.is(6) {
            return;
        }
        if self.sweep_left > 0 {
            self.sweep_left -= 1;
            return;
        }
        self.sweep_left = self.sweep_time;
        let channel = &mut self.channels[SWEPT];
        channel.pitch = channel.pitch.wrapping_add_signed(self.sweep.into()) & 0x7FF;
    }
}

impl StepChip for WonderSwan {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, port: u8, reg: u8, value: u8) {
        if port > 0 {
            let address = usize::from(port - 1) << 8 | usize::from(reg);
            self.memory[address % MEMORY] = value;
            return;
        }
        match reg {
            0x00..=0x07 => {
                let channel = &mut self.channels[usize::from(reg / 2)];
                channel.pitch = match reg & 1 {
                    0 => channel.pitch & 0x700 | u16::from(value),
                    _ => channel.pitch & 0xFF | u16::from(value & 7) << 8,
                };
            }
            0x08..=0x0B => self.channels[usize::from(reg & 3)].volume = value,
            0x0C => self.sweep = value as i8,
            0x0D => {
                self.sweep_time = value & 31;
                self.sweep_left = self.sweep_time;
                self.until_sweep = SWEEP;
            }
            0x0E => {
                self.noise = value;
                if value & 8 != 0 {
                    self.register = 0;
                }
            }
            0x0F => self.base = value,
            0x10 => self.control = value,
            0x14 => self.voice = value,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let mut at = 0;
        while at < ticks {
            if self.until_sweep == 0 {
                self.clock_sweep();
                self.until_sweep = SWEEP;
            }
            let run = self.until_sweep.min(ticks - at);
            for index in 0..4 {
                self.run_channel(index, (at, run), steps);
            }
            self.until_sweep -= run;
            at += run;
        }
    }
}
