//! The SN76489 and its variants: three tones and a noise.
//!
//! One write-only port (VGM command 50):
//!
//! | byte | |
//! |---|---|
//! | `1 c c 0 d d d d` | channel c: latch its tone, low 4 bits of the period |
//! | `1 c c 1 d d d d` | channel c: latch its attenuation, 2 dB per step, 15 off |
//! | `1 1 1 0 - w r r` | channel 3: noise, white (w = 1) or periodic, rate r |
//! | `0 - d d d d d d` | the latched tone's high 6 bits, or the others' low 4 |
//!
//! The Game Gear adds a second port (command 4F). Bits 4 to 7 enable channels 0 to 3 on the left,
//! and bits 0 to 3 on the right.
//!
//! One *tick* is 16 clocks. A tone of period n toggles every n ticks. The noise shifts every 32, 64
//! or 128 ticks for rates 0 to 2. For rate 3 it shifts every second time that the period of tone 2
//! ends. A new period takes effect when the old one has ended. The output of a channel is 0 or its
//! level.
//!
//! The header of a song describes the variant of the chip ([`Variant`]):
//!
//! - the width and the taps of the noise register,
//! - the meaning of period 0,
//! - the sign of the output,
//! - whether the chip has the Game Gear's port,
//! - the divider,
//! - the inverted feedback of the NCR 8496.
//!
//! As with the [`ssg`](super::ssg), [`levels`](Sn76489::levels) defines the output tick by tick,
//! and [`run`](Sn76489::run) computes it faster. The Neo Geo Pocket's [`T6W28`](super::t6w28)
//! consists of two halves of this chip.
//!
//! Source: Texas Instruments SN76489AN data sheet; "SN76489 notes" of SMS Power! (Maxim); the VGM
//! 1.72 specification (header 0x0C, 0x28 to 0x2B).

use super::Rate;
use crate::blep::Sides;
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the SN76489 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Sn76489,
    name: "SN76489, T6W28",
    verification: "its documents; steps tick by tick",
    ratio: Some(12.3),
    level: Level::new(1.0, 0x80, 1.0),
    voices: &[VoiceGroup::Named(&["tone 1", "tone 2", "tone 3", "noise"])],
    cost_ns: 16,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The number of channels: three tones and the noise.
pub const CHANNELS: usize = 4;

/// The levels for the 16 attenuations: 8191 × 10^(-n / 10), which is 2 dB apart, and 0 for the
/// last one.
const LEVELS: [i16; 16] = [
    8191, 6506, 5168, 4105, 3261, 2590, 2057, 1634, 1298, 1031, 819, 651, 517, 411, 326, 0,
];

/// The description of the chip in the VGM header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Variant {
    /// Header 0x28: the taps of the noise register.
    pub taps: u16,
    /// Header 0x2A: the width of the noise register in bits, 2 to 16.
    pub width: u8,
    /// Header 0x2B.
    ///
    /// | bit | |
    /// |---|---|
    /// | 0 | a period of 0 means 1024; otherwise the tone stays high |
    /// | 1 | the output is negated |
    /// | 2 | there is no Game Gear port |
    /// | 3 | there is no division by 8: a tick is 2 clocks |
    /// | 4 | the feedback of white noise is inverted |
    pub flags: u8,
}

impl Variant {
    /// Sega's variant in the Master System, the Mega Drive and the Game Gear.
    ///
    /// It is also the default for old headers without this information.
    pub const SEGA: Self = Self {
        taps: 0x0009,
        width: 16,
        flags: 0,
    };

    const ZERO_IS_1024: u8 = 1;
    const NEGATED: u8 = 2;
    const NO_STEREO: u8 = 4;
    const UNDIVIDED: u8 = 8;
    const INVERTED_FEEDBACK: u8 = 16;

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The SN76489.
///
/// ```
/// use creel_vgm::chips::sn76489::{Sn76489, Variant};
///
/// let mut chip = Sn76489::new(3_579_545, Variant::SEGA);
/// chip.write(0, 0, 0x90); // channel 0 at its loudest
/// chip.write(0, 0, 0x8a); // period 10
/// let mut steps = Vec::new();
/// chip.run(25, |tick, _, delta| steps.push((tick, delta)));
/// assert_eq!(steps, [(0, 8191), (10, -8191), (20, 8191)]);
/// ```
#[derive(Clone, Debug)]
pub struct Sn76489 {
    clock_hz: u32,
    pub(super) variant: Variant,
    pub(super) tones: [Tone; 3],
    pub(super) noise: Noise,
    attenuations: [u8; CHANNELS],
    /// Bits 4 to 6 of the last byte with bit 7 set.
    latched: u8,
    stereo: u8,
    /// The largest period of a tone that is replaced by its mean.
    inaudible_period: u32,
    /// The panning and the level of each channel after the last tick.
    output_levels: [(Sides, i16); CHANNELS],
}

impl Sn76489 {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32, variant: Variant) -> Self {
        let mut tone = Tone {
            period: 0,
            left: 1,
            high: false,
            held: false,
            cycle: 1,
        };
        tone.set(0, variant);
        Self {
            clock_hz,
            variant,
            tones: [tone; 3],
            noise: Noise {
                control: 0,
                left: 32,
                cycle: 32,
                lfsr: 1 << (variant.width - 1),
            },
            attenuations: [15; CHANNELS],
            latched: 0,
            stereo: 0xff,
            inaudible_period: 0,
            output_levels: [(Sides::Both, 0); CHANNELS],
        }
    }

    /// Returns the number of ticks per second.
    pub fn rate(&self) -> Rate {
        let clocks = if self.variant.has(Variant::UNDIVIDED) {
            2
        } else {
            16
        };
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: clocks,
        }
    }

    /// Writes a byte to the chip, or to the Game Gear's port if bit 0 of `port` is set.
    ///
    /// `_reg` is ignored, because the chip has no register numbers.
    pub fn write(&mut self, port: u8, _reg: u8, value: u8) {
        match (port & 1, value & 0x80 != 0) {
            (0, true) => {
                self.latched = value >> 4 & 7;
                self.write_low(value & 15);
            }
            (0, false) if self.latched & 1 == 0 && self.latched < 6 => {
                let tone = &mut self.tones[usize::from(self.latched / 2)];
                tone.set(
                    (tone.period & 15) | u32::from(value & 63) << 4,
                    self.variant,
                );
                self.noise.follow(&self.tones[2]);
            }
            (0, false) => self.write_low(value & 15),
            _ if !self.variant.has(Variant::NO_STEREO) => self.stereo = value,
            _ => {}
        }
    }

    /// Replaces tones of at most `period` by their mean from now on.
    ///
    /// [`run`](Self::run) reports such a tone as half of its level, see
    /// [`Blep::inaudible_half_period`](crate::blep::Blep::inaudible_half_period). The initial value
    /// 0 reports every change.
    pub fn set_inaudible_period(&mut self, period: u32) {
        self.inaudible_period = period;
    }

    /// Runs `out.len()` ticks and writes the level of each channel after each tick.
    pub fn levels(&mut self, out: &mut [[i16; CHANNELS]]) {
        for frame in out {
            for tone in &mut self.tones {
                tone.clock();
            }
            self.noise.advance(1, self.variant);
            for (channel, level) in frame.iter_mut().enumerate() {
                *level = if self.is_high(channel) {
                    self.loudness(channel)
                } else {
                    0
                };
                let sides = self.sides(channel);
                self.output_levels[channel] =
                    (sides, if sides == Sides::None { 0 } else { *level });
            }
        }
    }

    /// Overwrites `out` with one stereo frame per tick.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            let mut levels = [[0; CHANNELS]];
            self.levels(&mut levels);
            *frame = [0, 0];
            for (channel, level) in levels[0].into_iter().enumerate() {
                let [left, right] = self.sides(channel).gains();
                frame[0] += left * i32::from(level);
                frame[1] += right * i32::from(level);
            }
        }
    }

    /// Runs `ticks` ticks and reports each change to `sink` as (tick, sides, difference).
    ///
    /// The first tick is 0. The differences add up to the output of [`render`](Self::render). Ticks
    /// increase within a channel, and the channels are reported one after the other.
    pub fn run(&mut self, ticks: u32, mut sink: impl FnMut(u32, Sides, i32)) {
        if ticks == 0 {
            return;
        }
        for channel in 0..CHANNELS {
            let sides = self.sides(channel);
            let (old_sides, mut level) = self.output_levels[channel];
            if sides != old_sides {
                if level != 0 {
                    sink(0, old_sides, -i32::from(level));
                }
                level = 0;
            }
            let loud = if sides == Sides::None {
                0
            } else {
                self.loudness(channel)
            };
            let report = |tick, delta| sink(tick, sides, delta);
            let level = if channel < 3 {
                self.run_tone(channel, ticks, (level, loud), report)
            } else {
                self.run_noise(ticks, (level, loud), report)
            };
            self.output_levels[channel] = (sides, level);
        }
        for tone in &mut self.tones {
            tone.advance(ticks);
        }
        self.noise.advance(ticks, self.variant);
    }

    /// Reports a tone, starting from level `shown`, and returns the last level.
    pub(super) fn run_tone(
        &self,
        channel: usize,
        ticks: u32,
        (shown, loud): (i16, i16),
        mut report: impl FnMut(u32, i32),
    ) -> i16 {
        let tone = self.tones[channel];
        let (mut at, mut high) = (tone.left - 1, tone.high);
        if at == 0 {
            high = tone.held || !high;
            at = tone.cycle;
        }
        let averaged = !tone.held && tone.cycle <= self.inaudible_period;
        let start = match (averaged, high) {
            (true, _) => loud / 2,
            (false, true) => loud,
            (false, false) => 0,
        };
        if start != shown {
            report(0, i32::from(start) - i32::from(shown));
        }
        if averaged || loud == 0 || (tone.held && high) {
            return start;
        }
        let delta = i32::from(loud);
        while at < ticks {
            report(at, if high { -delta } else { delta });
            high = !high;
            if tone.held {
                break;
            }
            at += tone.cycle;
        }
        if high { loud } else { 0 }
    }

    /// Reports the noise, starting from level `shown`, and returns the last level.
    pub(super) fn run_noise(
        &self,
        ticks: u32,
        (shown, loud): (i16, i16),
        mut report: impl FnMut(u32, i32),
    ) -> i16 {
        let mut noise = self.noise;
        let mut level = shown;
        let mut tick = 0;
        while tick < ticks {
            // We always run the first tick separately, because a write may have changed the level.
            let run = if tick == 0 {
                1
            } else {
                noise.left.min(ticks - tick)
            };
            noise.advance(run, self.variant);
            tick += run;
            let next = if noise.high() { loud } else { 0 };
            if next != level {
                report(tick - 1, i32::from(next) - i32::from(level));
                level = next;
            }
        }
        level
    }

    fn write_low(&mut self, bits: u8) {
        let channel = usize::from(self.latched / 2);
        if self.latched & 1 != 0 {
            self.attenuations[channel] = bits;
        } else if channel < 3 {
            let tone = &mut self.tones[channel];
            tone.set(tone.period & 0x3f0 | u32::from(bits), self.variant);
        } else {
            let mode_stays = (self.noise.control ^ bits) & 4 == 0;
            self.noise.control = bits;
            if !(mode_stays && self.variant.has(Variant::INVERTED_FEEDBACK)) {
                self.noise.lfsr = 1 << (self.variant.width - 1);
            }
        }
        self.noise.follow(&self.tones[2]);
    }

    pub(super) fn loudness(&self, channel: usize) -> i16 {
        let level = LEVELS[usize::from(self.attenuations[channel])];
        if self.variant.has(Variant::NEGATED) {
            -level
        } else {
            level
        }
    }

    fn is_high(&self, channel: usize) -> bool {
        self.tones
            .get(channel)
            .map_or(self.noise.high(), |tone| tone.high)
    }

    fn sides(&self, channel: usize) -> Sides {
        Sides::of(
            self.stereo >> (channel + 4) & 1 != 0,
            self.stereo >> channel & 1 != 0,
        )
    }
}

/// A counter that toggles a square wave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tone {
    /// The period as written, 0 to 1023.
    period: u32,
    /// The number of ticks until the counter runs out, at least 1.
    left: u32,
    high: bool,
    /// Whether the output stays high after the counter has run out.
    held: bool,
    /// The number of ticks of the counter's next period.
    cycle: u32,
}

impl Tone {
    fn set(&mut self, period: u32, variant: Variant) {
        let is_1024 = variant.has(Variant::ZERO_IS_1024);
        self.period = period;
        self.held = period == 0 && !is_1024;
        self.cycle = if period == 0 && is_1024 {
            1024
        } else {
            period.max(1)
        };
    }

    fn clock(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.high = self.held || !self.high;
            self.left = self.cycle;
        }
    }

    pub(super) fn advance(&mut self, ticks: u32) {
        let Some(past) = ticks.checked_sub(self.left) else {
            self.left -= ticks;
            return;
        };
        self.high = self.held || self.high != ((past / self.cycle) & 1 == 0);
        self.left = self.cycle - past % self.cycle;
    }
}

/// A shift register. Bit 0 is the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    control: u8,
    /// The number of ticks until the next shift, at least 1.
    left: u32,
    cycle: u32,
    lfsr: u32,
}

impl Noise {
    /// Sets the period that the control bits select.
    fn follow(&mut self, tone: &Tone) {
        self.cycle = match self.control & 3 {
            3 => 2 * tone.cycle,
            rate => 32 << rate,
        };
    }

    fn high(&self) -> bool {
        self.lfsr & 1 != 0
    }

    fn shift(&mut self, variant: Variant) {
        let white = (self.lfsr & u32::from(variant.taps)).count_ones() & 1;
        let fed = match (
            self.control & 4 != 0,
            variant.has(Variant::INVERTED_FEEDBACK),
        ) {
            (false, _) => self.lfsr & 1,
            (true, false) => white,
            (true, true) => white ^ 1,
        };
        self.lfsr = self.lfsr >> 1 | fed << (variant.width - 1);
    }

    pub(super) fn advance(&mut self, mut ticks: u32, variant: Variant) {
        while ticks >= self.left {
            ticks -= self.left;
            self.shift(variant);
            self.left = self.cycle;
        }
        self.left -= ticks;
    }
}
