//! The PSG of the HuC6280 (PC Engine): six waves of 32 samples, two of which can be noise.
//!
//! | register | |
//! |---|---|
//! | 00 | the channel for 02 to 07, 0 to 5 |
//! | 01 | `l l l l r r r r` main volume |
//! | 02, 03 | period, low 8 bits and high 4 |
//! | 04 | `e d - v v v v v` on, direct, volume |
//! | 05 | `l l l l r r r r` balance |
//! | 06 | a sample of 5 bits: the wave's next, or with `d` the output |
//! | 07 | channels 4 and 5: `e - - n n n n n` noise, its rate |
//! | 08 | the LFO's period |
//! | 09 | `h - - - - - m m` stop the LFO; modulation depth |
//!
//! A tick is a clock. A wave plays its next sample every `period` ticks, and 0 means 4,096. The
//! noise shifts every 64 × (31 - rate) ticks, or every 32 at the highest rate. With the LFO,
//! channel 1 is silent. Its samples, shifted by 0, 2 or 4 bits, modulate the period of channel 0.
//!
//! The three volumes are attenuations of 1.5, 3 and 3 dB per step, which add up. Beyond 45 dB the
//! output is silent, because volume 1 of a channel is 45 dB below volume 31. A volume of 0 is off.
//! Samples are centred around their middle, as on the HuC6280A, so that a change of volume does not
//! click. Writing and playing a wave use the same position. Writing 04 with only `d` set resets the
//! position.
//!
//! Source: Paul Clifford, "PC Engine Programmable Sound Generator"; Charles MacDonald, "PC Engine
//! sound notes" (the noise's polynomial: taps 0, 1, 11, 12 and 17 of 18 bits); the VGM 1.71
//! specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink, is_inaudible};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;
use crate::sequence::OF_CHANNEL;

/// The entry of the HuC6280 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Huc6280,
    name: "HuC6280",
    verification: DOCUMENTS,
    ratio: Some(2.6),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(0.72, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(6)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(Huc6280::new(clock_hz))),
};

const WAVE: u8 = 32;

/// The distance between the lowest and the highest sample without attenuation, in steps of the
/// output. It is rounded down, so that six channels fit into 16 bits.
const LOUDEST: f64 = 10_922.0;

/// The attenuation from which a channel is silent.
const SILENT: u8 = 31;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    wave: [u8; WAVE as usize],
    period: u16,
    control: u8,
    balance: u8,
    noise: u8,
    direct: u8,
    place: u8,
    count: Countdown,
    register: u32,
    noise_count: Countdown,
    /// The level of a sample step, left and right.
    gains: [i32; 2],
    shown: OutputLevel,
}

impl Channel {
    fn is_on(&self) -> bool {
        self.control & 0x80 != 0
    }

    fn is_direct(&self) -> bool {
        self.control & 0x40 != 0
    }

    fn is_noise(&self) -> bool {
        self.noise & 0x80 != 0
    }

    fn period(&self) -> u32 {
        match self.period {
            0 => 4096,
            period => period.into(),
        }
    }

    fn noise_period(&self) -> u32 {
        match 31 - (self.noise & 31) {
            0 => 32,
            slow => 64 * u32::from(slow),
        }
    }

    /// Returns the level of a sample, left and right. The sample is given as its distance from the
    /// middle, in halves of a step, from -31 to 31.
    fn level(&self, halves: i32) -> [i32; 2] {
        self.gains.map(|gain| gain * halves / 31)
    }

    fn sample(&self) -> i32 {
        2 * i32::from(self.wave[usize::from(self.place)]) - 31
    }

    fn step_wave(&mut self) {
        self.place = (self.place + 1) % WAVE;
    }

    fn shift(&mut self) {
        let taps = self.register & 0b10_0001_1000_0000_0011;
        self.register = self.register >> 1 | (taps.count_ones() & 1) << 17;
    }

    fn noise_level(&self) -> [i32; 2] {
        self.level(if self.register & 1 != 0 { 31 } else { -31 })
    }

    fn run(&mut self, ticks: u32, limit: u32, steps: &mut dyn StepSink) {
        if !self.is_on() {
            self.shown.set(0, [0; 2], steps);
            self.skip_noise(ticks);
        } else if self.is_direct() {
            let level = self.level(2 * i32::from(self.direct) - 31);
            self.shown.set(0, level, steps);
            self.skip_noise(ticks);
        } else if self.is_noise() {
            self.shown.set(0, self.noise_level(), steps);
            let mut count = self.noise_count;
            count.run(ticks, |tick| {
                self.shift();
                self.shown.set(tick, self.noise_level(), steps);
                self.noise_period()
            });
            self.noise_count = count;
        } else {
            self.run_wave(ticks, limit, steps);
            self.skip_noise(ticks);
        }
    }

    fn run_wave(&mut self, ticks: u32, limit: u32, steps: &mut dyn StepSink) {
        let period = self.period();
        if self.gains == [0; 2] || is_inaudible(WAVE.into(), period, limit) {
            let sum: i32 = self
                .wave
                .iter()
                .map(|sample| 2 * i32::from(*sample) - 31)
                .sum();
            self.shown.set(0, self.level(sum / i32::from(WAVE)), steps);
            self.skip_wave(ticks);
            return;
        }
        self.shown.set(0, self.level(self.sample()), steps);
        let mut count = self.count;
        count.run(ticks, |tick| {
            self.step_wave();
            self.shown.set(tick, self.level(self.sample()), steps);
            period
        });
        self.count = count;
    }

    fn skip_wave(&mut self, ticks: u32) {
        let moved = self.count.skip(ticks, self.period());
        self.place = ((u32::from(self.place) + moved) % u32::from(WAVE)) as u8;
    }

    fn skip_noise(&mut self, ticks: u32) {
        if self.is_noise() {
            for _ in 0..self.noise_count.skip(ticks, self.noise_period()) {
                self.shift();
            }
        }
    }
}

/// The emulated PSG of a HuC6280, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct Huc6280 {
    clock_hz: u32,
    channels: [Channel; 6],
    chosen: usize,
    volume: u8,
    lfo_period: u8,
    lfo: u8,
    averaged: u32,
}

impl Huc6280 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let channel = Channel {
            register: 1,
            balance: 0xFF,
            ..Channel::default()
        };
        Huc6280 {
            clock_hz,
            channels: [channel; 6],
            chosen: 0,
            volume: 0xFF,
            lfo_period: 0,
            lfo: 0,
            averaged: 0,
        }
    }

    fn set_gains(&mut self) {
        let sides = |byte: u8| [byte >> 4, byte & 15];
        let main = sides(self.volume);
        for channel in &mut self.channels {
            let own = sides(channel.balance);
            channel.gains = std::array::from_fn(|side| {
                let off = 31 - (channel.control & 31);
                gain(off + coarse(own[side]) + coarse(main[side]))
            });
        }
    }

    fn bends(&self) -> bool {
        self.lfo & 0x80 == 0 && self.lfo & 3 != 0
    }

    /// Runs channel 0 while channel 1 modulates it. Channel 1 advances as if it were audible.
    fn run_bent(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let factor = match self.lfo_period {
            0 => 256,
            period => u32::from(period),
        };
        let shift = 2 * ((self.lfo & 3) - 1);
        let [bent, lfo] = self
            .channels
            .first_chunk_mut()
            .expect("there must be six channels");
        lfo.shown.set(0, [0; 2], steps);
        let lfo_period = lfo.period() * factor;
        let mut at = 0;
        while at < ticks {
            let run = lfo.count.left().min(ticks - at);
            let bend = (i32::from(lfo.wave[usize::from(lfo.place)]) - 16) << shift;
            let period = (i32::from(bent.period) + bend).rem_euclid(4096) as u32;
            let period = if period == 0 { 4096 } else { period };
            let heard = bent.is_on() && !bent.is_direct() && !bent.is_noise();
            if heard {
                bent.shown.set(at, bent.level(bent.sample()), steps);
                let mut count = bent.count;
                count.run(run, |tick| {
                    bent.step_wave();
                    bent.shown.set(at + tick, bent.level(bent.sample()), steps);
                    period
                });
                bent.count = count;
            }
            at += run;
            lfo.count = if lfo.count.left() == run {
                if lfo.is_on() {
                    lfo.step_wave();
                }
                Countdown::of(lfo_period)
            } else {
                Countdown::of(lfo.count.left() - run)
            };
        }
        if !(bent.is_on() && !bent.is_direct() && !bent.is_noise()) {
            bent.run(ticks, 0, steps);
        }
    }
}

/// Returns the attenuation of a volume with 4 bits, in steps of 1.5 dB. Volume 0 is off.
fn coarse(volume: u8) -> u8 {
    match volume {
        0 => SILENT,
        volume => 2 * (15 - volume),
    }
}

/// Returns the highest level of a sample after an attenuation in steps of 1.5 dB.
fn gain(off: u8) -> i32 {
    if off >= SILENT {
        return 0;
    }
    // The level is halved, because it extends to both sides of the middle.
    (LOUDEST / 2.0 * libm::exp10(-1.5 * f64::from(off) / 20.0)).round() as i32
}

impl StepChip for Huc6280 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, port: u8, reg: u8, value: u8) {
        if port & OF_CHANNEL != 0 {
            let chosen = std::mem::replace(&mut self.chosen, usize::from(port & 7));
            self.write(0, reg, value);
            self.chosen = chosen;
            return;
        }
        match reg {
            0 => {
                self.chosen = usize::from(value & 7);
                return;
            }
            1 => {
                self.volume = value;
                self.set_gains();
                return;
            }
            8 => self.lfo_period = value,
            9 => {
                self.lfo = value;
                if value & 0x80 != 0 {
                    let lfo = &mut self.channels[1];
                    lfo.place = 0;
                    lfo.count = Countdown::of(lfo.period());
                }
            }
            _ => {}
        }
        let is_noisy = self.chosen >= 4;
        let Some(channel) = self.channels.get_mut(self.chosen) else {
            return;
        };
        match reg {
            2 => channel.period = channel.period & 0xF00 | u16::from(value),
            3 => channel.period = channel.period & 0xFF | u16::from(value & 15) << 8,
            4 => {
                if value & 0xC0 == 0x40 {
                    channel.place = 0;
                }
                channel.control = value;
                self.set_gains();
            }
            5 => {
                channel.balance = value;
                self.set_gains();
            }
            6 if channel.is_direct() => channel.direct = value & 31,
            6 if !channel.is_on() => {
                channel.wave[usize::from(channel.place)] = value & 31;
                channel.step_wave();
            }
            7 if is_noisy => channel.noise = value,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let first = if self.bends() {
            self.run_bent(ticks, steps);
            2
        } else {
            0
        };
        for channel in &mut self.channels[first..] {
            channel.run(ticks, self.averaged, steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The noise has an odd number of taps. Therefore it repeats after half of the states of its 18
    /// bits, and not after all of them.
    #[test]
    fn the_noise_repeats_after_131071_shifts() {
        let mut channel = Huc6280::new(3_579_545).channels[4];
        let first = channel.register;
        let shifts = (1..).find(|_| {
            channel.shift();
            channel.register == first
        });
        assert_eq!(shifts, Some((1 << 17) - 1));
    }
}
