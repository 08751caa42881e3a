//! One operator: a phase, an envelope and a key, rendered into the two arrays
//! from which the channel computes its tones.
//!
//! Phase and attenuation do not depend on any other operator, so they are
//! written for a whole block first; what remains for the channel is table
//! lookups. An operator that cannot be heard in a block is only moved on.

use super::envelope::{Envelope, EnvelopeClock, QUIET, Rates, Stage};
use super::ssg_eg::{self, SsgEg};
use super::tables::{MAX_ATTENUATION, SILENT};

/// The most frames that are rendered in one go; the arrays of a chip stay in L1.
pub const BLOCK: usize = 128;

/// Key sources, which are or-ed together.
pub mod key {
    /// The key register.
    pub const NORMAL: u8 = 1;
    /// The rhythm register of the OPL family.
    pub const RHYTHM: u8 = 2;
    /// Timer A in CSM mode; it lets go by itself.
    pub const CSM: u8 = 4;
}

/// What determines an operator's frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pitch {
    /// Block and frequency number as the registers have them.
    pub block_freq: u16,
    /// Added before the notes' table is read; OPM's coarse detune.
    pub note_offset: i16,
    /// Added to the phase step.
    pub detune: i8,
    /// Twice the frequency's multiple.
    pub multiple: u8,
}

/// An operator's registers, decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorSettings {
    /// Its frequency.
    pub pitch: Pitch,
    /// Its envelope.
    pub rates: Rates,
    /// Attenuation added to the envelope.
    pub total_level: u16,
    /// Whether the LFO modulates its amplitude.
    pub am: bool,
    /// OPN alone.
    pub ssg_eg: SsgEg,
}

/// The phase and attenuation of each frame of a block.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Tone {
    /// The phase; its low 10 bits matter.
    pub phase: [u16; BLOCK],
    /// The attenuation in the units of [`VOLUME`](super::tables::VOLUME), 0 to 0xffc.
    pub attenuation: [u16; BLOCK],
}

impl Tone {
    /// A tone that makes no sound.
    pub const OFF: Self = Self {
        phase: [0; BLOCK],
        attenuation: [MAX_ATTENUATION << 2; BLOCK],
    };
}

/// A stretch of frames in which the LFO stands still, as one operator sees it.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// How many frames.
    pub frames: usize,
    /// The phase step.
    pub step: u32,
    /// The attenuation that the LFO adds.
    pub am: u16,
}

/// One operator.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Its registers.
    pub settings: OperatorSettings,
    phase: u32,
    envelope: Envelope,
    inverted: bool,
    keys: u8,
    keyed: bool,
}

impl Operator {
    /// Presses or lets go the key of one `source` (see [`key`]); takes effect
    /// with [`prepare`](Self::prepare).
    pub fn set_key(&mut self, source: u8, on: bool) {
        self.keys = self.keys & !source | if on { source } else { 0 };
    }

    /// Looks at the key, as the chip does before the first frame after a
    /// write. Returns whether the operator may be heard.
    pub fn prepare(&mut self) -> bool {
        let on = self.keys != 0;
        if on != self.keyed {
            self.keyed = on;
            if on { self.key_on() } else { self.key_off() }
        }
        self.keys &= !key::CSM;
        self.envelope.is_active()
    }

    fn key_on(&mut self) {
        if self.envelope.depress(&self.settings.rates) {
            return;
        }
        if self.envelope.stage != Stage::Attack {
            self.envelope.attack(&self.settings.rates);
            self.inverted = self.settings.ssg_eg.starts_inverted();
            self.phase = 0;
        }
    }

    fn key_off(&mut self) {
        if self.envelope.stage != Stage::Release {
            self.envelope.stage = Stage::Release;
            if self.inverted {
                self.envelope.attenuation = ssg_eg::inverted(self.envelope.attenuation);
                self.inverted = false;
            }
        }
    }

    /// Whether every tone up to the next write is 0.
    pub fn is_silent(&self) -> bool {
        let level = self.settings.total_level;
        if self.settings.ssg_eg.is_on() || !self.envelope.only_falls() {
            level >= SILENT
        } else {
            self.envelope.attenuation + level >= SILENT
        }
    }

    /// Moves on by the frames of `stretches` without a tone.
    pub fn skip(&mut self, clock: &EnvelopeClock, stretches: &[Stretch]) {
        if self.settings.ssg_eg.is_on() {
            return self.run_ssg_eg(clock, stretches, |_, _, _| {});
        }
        self.inverted = false;
        let frames = stretches.iter().map(|s| s.frames).sum();
        let attacked = self
            .envelope
            .run(&self.settings.rates, clock, frames, |_, _| {});
        let mut start = 0;
        for s in stretches {
            let end = start + s.frames;
            let from = match attacked {
                Some(frame) if (start..end).contains(&frame) => {
                    self.phase = 0;
                    frame
                }
                _ => start,
            };
            self.phase = self
                .phase
                .wrapping_add(s.step.wrapping_mul((end - from) as u32));
            start = end;
        }
    }

    /// Renders the frames of `stretches`, at most [`BLOCK`], into `tone`.
    pub fn render(&mut self, clock: &EnvelopeClock, stretches: &[Stretch], tone: &mut Tone) {
        self.render_level(clock, stretches, tone, |attenuation| attenuation > QUIET);
        for level in &mut tone.attenuation {
            *level <<= 2;
        }
    }

    /// Like [`render`](Self::render), but the attenuation is the 10-bit one of
    /// the envelope, even when it is quiet: what feeds OPM's noise.
    pub fn render_raw(&mut self, clock: &EnvelopeClock, stretches: &[Stretch], tone: &mut Tone) {
        self.render_level(clock, stretches, tone, |_| false);
    }

    fn render_level(
        &mut self,
        clock: &EnvelopeClock,
        stretches: &[Stretch],
        tone: &mut Tone,
        is_off: impl Fn(u16) -> bool,
    ) {
        let total = self.settings.total_level;
        let shown = |attenuation: u16, inverted: bool| match attenuation {
            off if is_off(off) => MAX_ATTENUATION,
            level if inverted => ssg_eg::inverted(level),
            level => level,
        };
        if self.settings.ssg_eg.is_on() {
            let Tone { phase, attenuation } = tone;
            return self.run_ssg_eg(clock, stretches, |frame, operator, am| {
                phase[frame] = (operator.phase >> 10) as u16;
                let level = shown(operator.envelope.attenuation, operator.inverted);
                attenuation[frame] = (level + total + am).min(MAX_ATTENUATION);
            });
        }
        self.inverted = false;
        let frames = stretches.iter().map(|s| s.frames).sum();
        let attenuation = &mut tone.attenuation;
        let attacked = self
            .envelope
            .run(&self.settings.rates, clock, frames, |range, level| {
                attenuation[range].fill((shown(level, false) + total).min(MAX_ATTENUATION));
            });
        let mut start = 0;
        for s in stretches {
            let end = start + s.frames;
            let mut from = start;
            if let Some(frame) = attacked.filter(|frame| (start..end).contains(frame)) {
                ramp(self.phase, s.step, &mut tone.phase[start..frame]);
                (self.phase, from) = (0, frame);
            }
            self.phase = ramp(self.phase, s.step, &mut tone.phase[from..end]);
            if s.am != 0 && self.settings.am {
                for level in &mut attenuation[start..end] {
                    *level = (*level + s.am).min(MAX_ATTENUATION);
                }
            }
            start = end;
        }
    }

    /// Frame by frame; calls `show` with the frame, the operator as it is then
    /// and the LFO's attenuation.
    fn run_ssg_eg(
        &mut self,
        clock: &EnvelopeClock,
        stretches: &[Stretch],
        mut show: impl FnMut(usize, &Self, u16),
    ) {
        let settings = self.settings;
        let (mut tick, mut count) = clock.next();
        let mut frame = 0;
        for s in stretches {
            let am = if settings.am { s.am } else { 0 };
            for _ in 0..s.frames {
                let Self {
                    envelope, inverted, ..
                } = self;
                if ssg_eg::clock(settings.ssg_eg, &settings.rates, envelope, inverted) {
                    self.phase = 0;
                }
                if frame == tick {
                    ssg_eg::tick(&settings.rates, &mut self.envelope, count);
                    tick += clock.divider();
                    count = count.wrapping_add(1);
                }
                self.phase = self.phase.wrapping_add(s.step);
                show(frame, self, am);
                frame += 1;
            }
        }
    }
}

/// Writes the phases of a constant frequency and returns the last.
fn ramp(start: u32, step: u32, out: &mut [u16]) -> u32 {
    let mut phase = start;
    for slot in out {
        phase = phase.wrapping_add(step);
        *slot = (phase >> 10) as u16;
    }
    phase
}
