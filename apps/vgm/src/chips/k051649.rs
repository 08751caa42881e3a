//! The K051649 (SCC) and K052539 (SCC-I): five waves of 32 samples.
//!
//! The registers as VGM files write them (command D2), by port:
//!
//! | port | register | |
//! |---|---|---|
//! | 0 | 00–7F | waves of channels 0 to 3, signed bytes; channel 4 plays the wave of channel 3 |
//! | 1 | 00–09 | periods, low 8 bits and high 4 of each channel |
//! | 2 | 00–04 | volumes, 0 to 15 |
//! | 3 | 00 | which channels are on, from bit 0 |
//! | 4 | 00–9F | the K052539's waves: channel 4 has its own wave |
//! | 5 | 00 | test register: bit 5 lets a write to a period restart the wave |
//!
//! A tick is half a clock of the header, and the header's clock is half of the bus clock. A channel
//! plays the next of its 32 samples every period + 1 ticks. It stops if the period is below 9. Its
//! output is sample × volume without the lowest four bits.
//!
//! We leave out the other bits of the test register on purpose, which rotate the waves in memory.
//!
//! Source: "Konami SCC sound chip documentation" (NYYRIKKI and Sean Young, MSX Assembly Page: "SCC
//! and SCC+"); the VGM 1.71 specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the K051649 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::K051649,
    name: "K051649, K052539",
    verification: DOCUMENTS,
    ratio: Some(1.7),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(3.2, 0xA0, 1.6),
    voices: &[VoiceGroup::Numbered(5)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(K051649::new(clock_hz))),
};

/// The number of samples of a wave.
const WAVE: usize = 32;

/// The smallest period. With a smaller one the channel stops.
const PERIOD_MIN: u16 = 9;

/// The bit of the test register that lets a write to a period restart the wave.
const RESTARTS: u8 = 0x20;

/// The number of output steps per step of the chip.
const SCALE: i32 = 16;

/// A channel that plays one wave.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    wave: [i8; WAVE],
    period: u16,
    volume: u8,
    on: bool,
    place: u8,
    count: Countdown,
    shown: OutputLevel,
}

impl Channel {
    fn level(&self) -> [i32; 2] {
        let sample = i32::from(self.wave[usize::from(self.place)]);
        self.scaled(sample)
    }

    fn mean(&self) -> [i32; 2] {
        let sum: i32 = self.wave.iter().map(|sample| i32::from(*sample)).sum();
        self.scaled(sum / WAVE as i32)
    }

    fn scaled(&self, sample: i32) -> [i32; 2] {
        let level = if self.on {
            ((sample * i32::from(self.volume)) >> 4) * SCALE
        } else {
            0
        };
        [level; 2]
    }

    fn run(&mut self, ticks: u32, limit: u32, steps: &mut dyn StepSink) {
        let period = u32::from(self.period) + 1;
        if self.period < PERIOD_MIN {
            self.shown.set(0, self.level(), steps);
            return;
        }
        let averaged = is_inaudible(WAVE as u32, period, limit);
        if averaged || !self.on || self.volume == 0 {
            self.shown.set(0, self.mean(), steps);
            let moved = self.count.skip(ticks, period);
            self.place = ((u32::from(self.place) + moved) % WAVE as u32) as u8;
            return;
        }
        self.shown.set(0, self.level(), steps);
        let mut count = self.count;
        count.run(ticks, |tick| {
            self.place = (self.place + 1) % WAVE as u8;
            self.shown.set(tick, self.level(), steps);
            period
        });
        self.count = count;
    }
}

/// An emulated K051649 or K052539, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct K051649 {
    clock_hz: u32,
    channels: [Channel; 5],
    test: u8,
    averaged: u32,
}

impl K051649 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        K051649 {
            clock_hz,
            channels: [Channel::default(); 5],
            test: 0,
            averaged: 0,
        }
    }

    fn set_period(&mut self, reg: u8, value: u8) {
        let restarts = self.test & RESTARTS != 0;
        let Some(channel) = self.channels.get_mut(usize::from(reg / 2)) else {
            return;
        };
        channel.period = match reg & 1 {
            0 => channel.period & 0xF00 | u16::from(value),
            _ => channel.period & 0xFF | u16::from(value & 15) << 8,
        };
        if restarts {
            channel.place = 0;
            channel.count = Countdown::of(u32::from(channel.period));
        }
    }
}

impl StepChip for K051649 {
    fn rate(&self) -> Rate {
        Rate {
            frames: 2 * u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, port: u8, reg: u8, value: u8) {
        let (channel, place) = (usize::from(reg) / WAVE, usize::from(reg) % WAVE);
        match (port, reg) {
            (0, 0x00..=0x7F) => {
                self.channels[channel].wave[place] = value as i8;
                if channel == 3 {
                    self.channels[4].wave[place] = value as i8;
                }
            }
            (4, 0x00..=0x9F) => self.channels[channel].wave[place] = value as i8,
            (1, _) => self.set_period(reg, value),
            (2, 0..=4) => self.channels[usize::from(reg)].volume = value & 15,
            (3, _) => {
                for (bit, channel) in self.channels.iter_mut().enumerate() {
                    channel.on = value >> bit & 1 != 0;
                }
            }
            (5, _) => self.test = value,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        for channel in &mut self.channels {
            channel.run(ticks, self.averaged, steps);
        }
    }
}
