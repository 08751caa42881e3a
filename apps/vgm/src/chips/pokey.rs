//! Atari's POKEY: four counters whose outputs can be masked or replaced by random bits.
//!
//! | register | |
//! |---|---|
//! | 00, 02, 04, 06 | AUDF: periods |
//! | 01, 03, 05, 07 | AUDC: `g n t v l l l l` see below, fixed level, level |
//! | 08 | AUDCTL: see below |
//! | 09 | STIMER: restarts the counters |
//! | 0F | SKCTL: if bits 0 and 1 are 0, the bases of 64 and 15 kHz and the noises stand still |
//!
//! | bit of AUDCTL | |
//! |---|---|
//! | 7 | the long noise has 9 bits instead of 17 |
//! | 6, 5 | channels 0 and 2 count clocks |
//! | 4, 3 | join channel 0 to 1, and channel 2 to 3 |
//! | 2, 1 | high-pass of channel 0 by channel 2, and of channel 1 by channel 3 |
//! | 0 | the base is 15 kHz instead of 64 kHz |
//!
//! A tick is a clock. A counter counts down (AUDF + 1) × 28 or 114 clocks, or AUDF + 4 clocks. Two
//! joined counters form a counter of 16 bits, with + 7 instead of + 4 clocks. The lower one then
//! runs out every 256 counts.
//!
//! Each time a counter runs out, its output may change. It does not change if `g` is 0 and the bit
//! of the 5-bit noise is 0. With `t` the output toggles. Otherwise it takes a bit of the 4-bit
//! noise (`n`) or of the long noise. A high-pass is a flip-flop that samples the output when the
//! other channel's counter runs out. The audible signal is the exclusive-or of both.
//!
//! The four levels are added linearly. We leave out several features on purpose: the saturation of
//! the output stage, serial transfers, the two-tone mode and resetting the noises. The chip starts
//! in the state of SKCTL 3, because some songs never write it.
//!
//! Source: Atari, "POKEY (C012294)" data sheet; "De Re Atari", chapter 7; the VGM 1.71
//! specification.

use std::sync::OnceLock;

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the Pokey in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Pokey,
    name: "Pokey",
    verification: "documented figures; libvgm: spectra 2.9 dB, balance 0.0 dB",
    ratio: Some(38.0),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(1.45, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(Pokey::new(clock_hz))),
};

/// The number of output steps per step of the chip, which has 15 levels.
const SCALE: i32 = 512;

/// The whole sequence of each noise, in order of time. The names are the widths of the shift
/// registers in bits.
#[derive(Clone)]
struct Noises {
    four: Vec<bool>,
    five: Vec<bool>,
    nine: Vec<bool>,
    seventeen: Vec<bool>,
}

/// Returns the whole sequence of a shift register of `width` bits.
///
/// The register shifts a one in if its last bit and bit `tap` are equal. The sequence therefore has
/// one 0 more than ones.
fn sequence(width: u32, tap: u32) -> Vec<bool> {
    let mut register = 0u32;
    let length = (1u32 << width) - 1;
    let bits = (0..length).map(|_| {
        let fed = (register >> (width - 1) ^ register >> (tap - 1) ^ 1) & 1;
        register = (register << 1 | fed) & length;
        fed != 0
    });
    bits.collect()
}

fn noises() -> &'static Noises {
    static NOISES: OnceLock<Noises> = OnceLock::new();
    NOISES.get_or_init(|| Noises {
        four: sequence(4, 3),
        five: sequence(5, 3),
        nine: sequence(9, 4),
        seventeen: sequence(17, 12),
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// Register AUDF, which sets the period. `control` is register AUDC.
    set: u8,
    control: u8,
    high: bool,
    /// The flip-flop of the high-pass.
    held: bool,
    count: Countdown,
    shown: OutputLevel,
}

impl Channel {
    fn volume(&self) -> i32 {
        i32::from(self.control & 15)
    }

    fn is_level(&self) -> bool {
        self.control & 0x10 != 0
    }

    fn toggles(&self) -> bool {
        self.control & 0x20 != 0
    }

    fn is_pure(&self) -> bool {
        self.control & 0xA0 == 0xA0
    }
}

/// An emulated POKEY, which reports its output as steps.
#[derive(Clone)]
pub struct Pokey {
    clock_hz: u32,
    channels: [Channel; 4],
    control: u8,
    /// Whether SKCTL stops the bases and the noises.
    stopped: bool,
    tick: u64,
    noises: &'static Noises,
    averaged: u32,
}

impl Pokey {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Pokey {
            clock_hz,
            channels: [Channel::default(); 4],
            control: 0,
            stopped: false,
            tick: 0,
            noises: noises(),
            averaged: 0,
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.control >> bit & 1 != 0
    }

    /// Returns whether the counter of a channel counts clocks instead of a base.
    fn is_fast(&self, index: usize) -> bool {
        let pair = (index / 2) as u8;
        self.has(6 - pair) && (self.has(4 - pair) || index & 1 == 0)
    }

    fn period(&self, index: usize) -> u32 {
        let pair = index / 2;
        let fast = self.has(6 - pair as u8);
        let low = u32::from(self.channels[2 * pair].set);
        let high = u32::from(self.channels[2 * pair + 1].set);
        let joined = self.has(4 - pair as u8);
        let base = if self.has(0) { 114 } else { 28 };
        let count = match (joined, index % 2) {
            // The lower one of two joined counters always counts its full range.
            (true, 0) => return if fast { 256 } else { 256 * base },
            (true, _) => high << 8 | low,
            (false, 0) => low,
            (false, _) => high,
        };
        match (self.is_fast(index), joined) {
            (true, true) => count + 7,
            (true, false) => count + 4,
            (false, _) => (count + 1) * base,
        }
    }

    /// Returns whether a channel has a high-pass.
    fn is_filtered(&self, index: usize) -> bool {
        match index {
            0 => self.has(2),
            1 => self.has(1),
            _ => false,
        }
    }

    fn level(&self, index: usize) -> [i32; 2] {
        let channel = &self.channels[index];
        let high = if self.is_filtered(index) {
            channel.high != channel.held
        } else {
            channel.high
        };
        let heard = high || channel.is_level();
        [if heard { channel.volume() * SCALE } else { 0 }; 2]
    }

    /// Handles the end of a counter at `tick` of the run.
    fn run_out(&mut self, index: usize, tick: u32) {
        let at = self.tick + if self.stopped { 0 } else { u64::from(tick) };
        let bit = |bits: &[bool]| bits[(at % bits.len() as u64) as usize];
        let channel = self.channels[index];
        if channel.control & 0x80 != 0 || bit(&self.noises.five) {
            let high = if channel.toggles() {
                !channel.high
            } else if channel.control & 0x40 != 0 {
                bit(&self.noises.four)
            } else if self.has(7) {
                bit(&self.noises.nine)
            } else {
                bit(&self.noises.seventeen)
            };
            self.channels[index].high = high;
        }
        if let Some(filtered) = index.checked_sub(2)
            && self.is_filtered(filtered)
        {
            self.channels[filtered].held = self.channels[filtered].high;
        }
    }
}

impl StepChip for Pokey {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x00..=0x07 if reg & 1 == 0 => self.channels[usize::from(reg / 2)].set = value,
            0x00..=0x07 => self.channels[usize::from(reg / 2)].control = value,
            0x08 => {
                self.control = value;
                // Two joined counters may now be separate, so that their periods have 8 bits
                // instead of 16. We limit the rest of the count to the new period.
                for index in 0..4 {
                    let left = self.channels[index].count.left();
                    self.channels[index].count = Countdown::of(left.min(self.period(index)));
                }
            }
            0x09 => {
                for index in 0..4 {
                    self.channels[index].count = Countdown::of(self.period(index));
                }
            }
            0x0F => self.stopped = value & 3 == 0,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let periods = [0, 1, 2, 3].map(|index| self.period(index));
        let (mut runs, mut averaged) = ([false; 4], [false; 4]);
        for index in 0..4 {
            // The channels of a high-pass must run exactly, because the filter samples their state.
            let filters = self.is_filtered(index & 1);
            if self.stopped && !self.is_fast(index) {
                let level = self.level(index);
                self.channels[index].shown.set(0, level, steps);
                continue;
            }
            let channel = self.channels[index];
            let period = periods[index];
            let unheard = channel.volume() == 0 || channel.is_level();
            let inaudible = channel.is_pure()
                && !self.is_filtered(index)
                && is_inaudible(2, period, self.averaged);
            runs[index] = filters || !(unheard || inaudible);
            let mut level = self.level(index);
            averaged[index] = !unheard && inaudible;
            if averaged[index] {
                level = [channel.volume() * SCALE / 2; 2];
            }
            let channel = &mut self.channels[index];
            channel.shown.set(0, level, steps);
            if !runs[index] {
                let times = channel.count.skip(ticks, period);
                channel.high ^= channel.is_pure() && times & 1 != 0;
            }
        }
        loop {
            let mut next = ticks;
            for (channel, runs) in self.channels.iter().zip(runs) {
                if runs {
                    next = next.min(channel.count.left());
                }
            }
            if next >= ticks {
                break;
            }
            for index in 0..4 {
                if runs[index] && self.channels[index].count.left() == next {
                    self.run_out(index, next);
                    self.channels[index].count = Countdown::of(next + periods[index]);
                    for index in [index, index & 1] {
                        let level = self.level(index);
                        if runs[index] && !averaged[index] {
                            self.channels[index].shown.set(next, level, steps);
                        }
                    }
                }
            }
        }
        for (channel, runs) in self.channels.iter_mut().zip(runs) {
            if runs {
                channel.count.skip(ticks, 1 << 30);
            }
        }
        if !self.stopped {
            self.tick += u64::from(ticks);
        }
    }
}
