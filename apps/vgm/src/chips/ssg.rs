//! The SSG: the square-wave part of the OPN chips. As a separate chip it is the YM2149.
//!
//! | register | bits | |
//! |---|---|---|
//! | 00, 02, 04 | `xxxxxxxx` | tone period of channel A, B, C, low 8 bits |
//! | 01, 03, 05 | `----xxxx` | tone period, high 4 bits |
//! | 06 | `---xxxxx` | noise period |
//! | 07 | `--CBA---` | noise off (1) or on (0) for a channel |
//! | 07 | `-----CBA` | tone off (1) or on (0) for a channel |
//! | 08, 09, 0A | `---x----` | level from the envelope (1) or from the low bits (0) |
//! | 08, 09, 0A | `----xxxx` | level |
//! | 0B, 0C | `xxxxxxxx` | envelope period, low and high 8 bits |
//! | 0D | `----CATH` | envelope shape: continue, attack, alternate, hold |
//! | 0E, 0F | `xxxxxxxx` | the I/O ports, which make no sound |
//!
//! One *tick* is eight periods of the SSG's clock. With period n, a tone toggles every n ticks, the
//! noise register shifts every 2n ticks, and the envelope takes one of its 32 steps every n ticks.
//! A period of 0 counts as 1.
//!
//! There are two ways to run the SSG, and they agree on every tick:
//!
//! - [`Ssg::levels`] clocks every counter and returns the levels of the three pins. It defines the
//!   behaviour of the chip.
//! - [`Ssg::run`] jumps from change to change and costs nothing between them. We use it to render
//!   songs.
//!
//! We leave out the I/O ports and reading back on purpose.
//!
//! Source: Yamaha YM2149 and YM2203 application manuals; the level table and the order of events
//! within a tick follow ymfm (BSD-3-Clause, Aaron Giles), with which the oracle test compares them.

/// The number of channels: A, B and C.
pub const CHANNELS: usize = 3;

/// The 32 levels of the YM2149's converter. Most steps are about 1.5 dB, and the softest ones are
/// larger.
///
/// Source: ymfm, `ssg_engine::output`.
pub const YM2149_LEVELS: [i16; 32] = [
    0, 32, 78, 141, 178, 222, 262, 306, 369, 441, 509, 585, 701, 836, 965, 1112, 1334, 1595, 1853,
    2146, 2576, 3081, 3576, 4135, 5000, 6006, 7023, 8155, 9963, 11976, 14132, 16382,
];

/// Stands for the tick of a change that will not happen before the next write.
const NEVER: u32 = u32::MAX;

/// The three square-wave channels with their noise and envelope.
///
/// ```
/// use creel_vgm::chips::ssg::Ssg;
///
/// let mut ssg = Ssg::new();
/// ssg.write(0x00, 10); // channel A: a toggle every 10 ticks
/// ssg.write(0x07, 0b111_110); // only its tone
/// ssg.write(0x08, 15);
/// let mut steps = Vec::new();
/// ssg.run(25, |tick, channel, delta| steps.push((tick, channel, delta)));
/// assert_eq!(steps, [(9, 0, 16382), (19, 0, -16382)]);
/// ```
#[derive(Clone, Debug)]
pub struct Ssg {
    tones: [Tone; CHANNELS],
    noise: Noise,
    envelope: Envelope,
    /// Register 07: the channels without tone and without noise.
    mixer: u8,
    /// Registers 08 to 0A.
    volumes: [u8; CHANNELS],
    table: &'static [i16; 32],
    /// The largest period of a plain tone that is replaced by its mean.
    inaudible_period: u32,
    /// The level of each channel at the end of the last tick.
    output_levels: [i16; CHANNELS],
}

impl Default for Ssg {
    fn default() -> Self {
        Self::new()
    }
}

impl Ssg {
    /// Creates an SSG in its state after reset, in which all registers are 0.
    pub fn new() -> Self {
        Self::with_levels(&YM2149_LEVELS)
    }

    /// Creates an SSG in its state after reset, with a table of levels.
    ///
    /// The table contains the level of each of the envelope's 32 steps. Fixed level n is entry
    /// `2n + 1`. Fixed level 0 is entry 0, which must be 0.
    pub fn with_levels(table: &'static [i16; 32]) -> Self {
        Self {
            tones: [Tone::default(); CHANNELS],
            noise: Noise {
                period: 0,
                count: 0,
                lfsr: 1,
            },
            envelope: Envelope::default(),
            mixer: 0,
            volumes: [0; CHANNELS],
            table,
            inaudible_period: 0,
            output_levels: [0; CHANNELS],
        }
    }

    /// Replaces tones of at most `period` by their mean from now on.
    ///
    /// [`run`](Self::run) reports such a tone as half of its level if it plays alone at a fixed
    /// level. Use this for periods that are too short for the output rate, see
    /// [`Blep::inaudible_half_period`](crate::blep::Blep::inaudible_half_period). The initial value
    /// 0 reports every change.
    pub fn set_inaudible_period(&mut self, period: u32) {
        self.inaudible_period = period;
    }

    /// Writes a register. Registers above 0D make no sound and are ignored.
    pub fn write(&mut self, reg: u8, value: u8) {
        let wide = u32::from(value);
        match reg {
            0x00 | 0x02 | 0x04 => {
                let tone = &mut self.tones[usize::from(reg) / 2];
                tone.period = (tone.period & 0xf00) | wide;
            }
            0x01 | 0x03 | 0x05 => {
                let tone = &mut self.tones[usize::from(reg) / 2];
                tone.period = (tone.period & 0xff) | (wide & 15) << 8;
            }
            0x06 => self.noise.period = wide & 31,
            0x07 => self.mixer = value,
            0x08..=0x0a => self.volumes[usize::from(reg) - 8] = value,
            0x0b => self.envelope.period = (self.envelope.period & 0xff00) | wide,
            0x0c => self.envelope.period = (self.envelope.period & 0xff) | wide << 8,
            0x0d => {
                self.envelope.shape = value & 15;
                self.envelope.step = 0;
            }
            _ => {}
        }
    }

    /// Runs `out.len()` ticks and writes the level of each channel after each tick.
    pub fn levels(&mut self, out: &mut [[i16; CHANNELS]]) {
        for frame in out {
            self.tones.iter_mut().for_each(Tone::clock);
            self.noise.clock();
            self.envelope.clock();
            let (noise, volume) = (self.noise.high(), self.envelope.volume());
            for (channel, level) in frame.iter_mut().enumerate() {
                *level = self.level(channel, self.tones[channel].high, noise, volume);
            }
            self.output_levels = *frame;
        }
    }

    /// Runs `ticks` ticks and reports each change of a channel's level to `sink` as (tick, channel,
    /// difference).
    ///
    /// The first tick is 0. The differences add up to the output of [`levels`](Self::levels). Ticks
    /// increase within a channel, and the channels are reported one after the other.
    pub fn run(&mut self, ticks: u32, mut sink: impl FnMut(u32, usize, i32)) {
        if ticks == 0 {
            return;
        }
        for channel in 0..CHANNELS {
            let report = |tick, delta| sink(tick, channel, delta);
            self.output_levels[channel] = if self.is_plain_tone(channel) {
                self.run_tone(channel, ticks, report)
            } else {
                self.run_mixed(channel, ticks, report)
            };
            self.tones[channel].advance(ticks);
        }
        self.noise.advance(ticks);
        self.envelope.advance(ticks);
    }

    /// Returns the level of a channel for these states of its tone, noise and envelope.
    fn level(&self, channel: usize, tone: bool, noise: bool, envelope: usize) -> i16 {
        let open = (tone || self.tone_is_off(channel)) && (noise || self.noise_is_off(channel));
        let volume = self.volumes[channel];
        match (open, volume & 16 != 0, usize::from(volume & 15)) {
            (false, _, _) | (true, false, 0) => self.table[0],
            (true, true, _) => self.table[envelope],
            (true, false, fixed) => self.table[2 * fixed + 1],
        }
    }

    fn tone_is_off(&self, channel: usize) -> bool {
        self.mixer >> channel & 1 != 0
    }

    fn noise_is_off(&self, channel: usize) -> bool {
        self.mixer >> (3 + channel) & 1 != 0
    }

    /// Returns whether only the tone affects this channel.
    fn is_plain_tone(&self, channel: usize) -> bool {
        self.noise_is_off(channel) && !self.tone_is_off(channel) && self.volumes[channel] & 16 == 0
    }

    /// Runs a tone at a fixed level, which is the common case, and returns the last level.
    fn run_tone(&self, channel: usize, ticks: u32, mut report: impl FnMut(u32, i32)) -> i16 {
        let tone = &self.tones[channel];
        let loud = self.level(channel, true, true, 0);
        let averaged = tone.cycle() <= self.inaudible_period;
        let mut at = tone.next() - 1;
        let mut high = tone.high;
        if at == 0 {
            high = !high;
            at = tone.cycle();
        }
        let start = match (averaged, high) {
            (true, _) => loud / 2,
            (false, true) => loud,
            (false, false) => 0,
        };
        if start != self.output_levels[channel] {
            report(0, i32::from(start) - i32::from(self.output_levels[channel]));
        }
        if averaged || loud == 0 {
            return start;
        }
        let mut delta = if high {
            -i32::from(loud)
        } else {
            i32::from(loud)
        };
        while at < ticks {
            report(at, delta);
            delta = -delta;
            at += tone.cycle();
        }
        if delta < 0 { loud } else { 0 }
    }

    /// Runs any mixture of tone, noise and envelope, and returns the last level.
    fn run_mixed(&self, channel: usize, ticks: u32, mut report: impl FnMut(u32, i32)) -> i16 {
        let (tone, volume) = (self.tones[channel], self.volumes[channel]);
        let audible = volume & 0x1f != 0;
        let tone_used = audible && !self.tone_is_off(channel);
        let noise_used = audible && !self.noise_is_off(channel);
        let (mut noise, mut envelope) = (self.noise, self.envelope);
        let mut high = tone.high;
        let mut tone_at = if tone_used { tone.next() - 1 } else { NEVER };
        let mut noise_at = if noise_used {
            noise.next_shift() - 1
        } else {
            NEVER
        };
        let mut envelope_at = if volume & 16 != 0 {
            envelope.next_step() - 1
        } else {
            NEVER
        };
        let mut shown = self.output_levels[channel];
        let mut tick = 0;
        loop {
            if tone_at == tick {
                high = !high;
                tone_at = tick.saturating_add(tone.cycle());
            }
            if noise_at == tick {
                noise.shift(1);
                noise_at = tick.saturating_add(noise.skip_to_change());
            }
            if envelope_at == tick {
                envelope.take_steps(1);
                envelope_at = tick.saturating_add(envelope.cycle());
            }
            let level = self.level(channel, high, noise.high(), envelope.volume());
            if level != shown {
                report(tick, i32::from(level) - i32::from(shown));
                shown = level;
            }
            tick = tone_at.min(noise_at).min(envelope_at);
            if tick >= ticks {
                return shown;
            }
        }
    }
}

/// A counter that toggles a square wave.
#[derive(Clone, Copy, Debug, Default)]
struct Tone {
    period: u32,
    count: u32,
    high: bool,
}

impl Tone {
    fn clock(&mut self) {
        self.count += 1;
        if self.count >= self.period {
            self.high = !self.high;
            self.count = 0;
        }
    }

    /// Returns the number of ticks between two toggles.
    fn cycle(&self) -> u32 {
        self.period.max(1)
    }

    /// Returns the number of ticks until the next toggle, at least 1.
    ///
    /// If a write leaves the counter above its new period, the tone toggles in the next tick.
    fn next(&self) -> u32 {
        self.period.saturating_sub(self.count).max(1)
    }

    fn advance(&mut self, ticks: u32) {
        let Some(past) = ticks.checked_sub(self.next()) else {
            self.count += ticks;
            return;
        };
        self.high ^= (past / self.cycle()) & 1 == 0;
        self.count = past % self.cycle();
    }
}

/// A 17-bit shift register with taps at bits 0 and 3. Bit 0 is the output.
#[derive(Clone, Copy, Debug)]
struct Noise {
    period: u32,
    count: u32,
    lfsr: u32,
}

impl Noise {
    fn clock(&mut self) {
        self.count += 1;
        if self.count >= self.cycle() {
            self.shift(1);
            self.count = 0;
        }
    }

    fn high(&self) -> bool {
        self.lfsr & 1 != 0
    }

    /// Returns the number of ticks between two shifts.
    fn cycle(&self) -> u32 {
        2 * self.period.max(1)
    }

    fn next_shift(&self) -> u32 {
        self.cycle().saturating_sub(self.count).max(1)
    }

    /// Shifts up to 14 places at once. All bits that are shifted in are known until a new bit
    /// reaches the upper tap.
    fn shift(&mut self, places: u32) {
        let fed = (self.lfsr ^ self.lfsr >> 3) & ((1 << places) - 1);
        self.lfsr = self.lfsr >> places | fed << (17 - places);
    }

    /// Shifts to just before bit 0 changes, at most 13 places.
    ///
    /// Returns the number of ticks from the last shift to the next one after these places.
    fn skip_to_change(&mut self) -> u32 {
        let changes = self.lfsr ^ self.lfsr >> 1;
        let places = changes.trailing_zeros().min(13);
        self.shift(places);
        (places + 1) * self.cycle()
    }

    fn advance(&mut self, ticks: u32) {
        let Some(past) = ticks.checked_sub(self.next_shift()) else {
            self.count += ticks;
            return;
        };
        self.count = past % self.cycle();
        let mut places = past / self.cycle() + 1;
        while places > 14 {
            self.shift(14);
            places -= 14;
        }
        self.shift(places);
    }
}

/// The envelope: 32 steps up or down. The shape selects how the envelope continues after them.
#[derive(Clone, Copy, Debug, Default)]
struct Envelope {
    period: u32,
    count: u32,
    /// The number of steps since the shape was written: modulo 64, or at most 32 if the shape stops
    /// after its first 32 steps.
    step: u32,
    shape: u8,
}

impl Envelope {
    const HOLD: u8 = 1;
    const ALTERNATE: u8 = 2;
    const ATTACK: u8 = 4;
    const CONTINUE: u8 = 8;

    fn clock(&mut self) {
        self.count += 1;
        if self.count >= self.period {
            self.take_steps(1);
            self.count = 0;
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.shape & bit != 0
    }

    /// Returns whether the shape stops after its first 32 steps.
    fn is_one_shot(&self) -> bool {
        self.has(Self::HOLD) || !self.has(Self::CONTINUE)
    }

    fn volume(&self) -> usize {
        if self.step >= 32 && self.is_one_shot() {
            let up = self.has(Self::ATTACK) != self.has(Self::ALTERNATE);
            return if up && self.has(Self::CONTINUE) {
                31
            } else {
                0
            };
        }
        let turned = self.has(Self::ALTERNATE) && self.step >= 32;
        let up = self.has(Self::ATTACK) != turned;
        let step = (self.step & 31) as usize;
        if up { step } else { 31 - step }
    }

    fn take_steps(&mut self, steps: u32) {
        let step = self.step.saturating_add(steps);
        self.step = if self.is_one_shot() {
            step.min(32)
        } else {
            step & 63
        };
    }

    /// Returns the number of ticks between two steps, or [`NEVER`] once the envelope is held.
    fn cycle(&self) -> u32 {
        if self.step >= 32 && self.is_one_shot() {
            NEVER
        } else {
            self.period.max(1)
        }
    }

    /// Returns the number of ticks until the next step, even if the step has no effect.
    fn next_step(&self) -> u32 {
        self.period.saturating_sub(self.count).max(1)
    }

    fn advance(&mut self, ticks: u32) {
        let Some(past) = ticks.checked_sub(self.next_step()) else {
            self.count += ticks;
            return;
        };
        self.take_steps(past / self.period.max(1) + 1);
        self.count = past % self.period.max(1);
    }
}
