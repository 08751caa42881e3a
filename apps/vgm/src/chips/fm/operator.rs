//! One operator: a phase, an envelope and a key.
//!
//! An operator is rendered into two arrays, phase and attenuation, from which the channel computes
//! its tones. Phase and attenuation do not depend on any other operator. Therefore we compute them
//! for a whole block first, and the channel only needs table lookups. An operator that is inaudible
//! in a block only advances its state.

use std::ops::Range;

use super::envelope::{AttenuationSink, Envelope, EnvelopeClock, QUIET, Rates, Stage};
use super::ssg_eg::{self, SsgEg};
use super::tables::{MAX_ATTENUATION, SILENT};
use crate::simd::{self, Loop};

/// The largest number of frames in a block. With this size the arrays of a chip stay in the L1
/// cache.
pub const BLOCK: usize = 256;

/// The number of frames that are written at once, even if fewer are needed.
///
/// Most intervals between two envelope steps are shorter. A loop with one iteration causes no
/// branch misprediction.
pub const BEYOND: usize = 64;

/// The key sources. A key is pressed if any of them presses it.
pub mod key {
    /// The key register.
    pub const NORMAL: u8 = 1;
    /// The rhythm register of the OPL family.
    pub const RHYTHM: u8 = 2;
    /// Timer A in CSM mode, which releases its key one frame later.
    pub const CSM: u8 = 4;
}

/// The parameters of an operator's frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pitch {
    /// The block and the frequency number, as in the registers.
    pub block_freq: u16,
    /// The offset added before the lookup in the table of notes, which is OPM's coarse detune.
    pub note_offset: i16,
    /// The offset added to the phase step.
    pub detune: i8,
    /// Twice the multiple of the frequency.
    pub multiple: u8,
}

/// The decoded registers of an operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorSettings {
    /// The parameters of the frequency.
    pub pitch: Pitch,
    /// The phase step per frame that follows from `pitch`, without the LFO.
    pub step: u32,
    /// The rates of the envelope.
    pub rates: Rates,
    /// The attenuation added to the envelope.
    pub total_level: u16,
    /// Whether the LFO modulates the amplitude.
    pub am: bool,
    /// The SSG-EG, which only the OPN family has.
    pub ssg_eg: SsgEg,
}

/// The phase and attenuation of each frame of a block, with space to write beyond it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Tone {
    /// The phase. Only its low 10 bits count.
    pub phase: [u16; BLOCK + BEYOND],
    /// The attenuation in the units of [`VOLUME`](super::tables::VOLUME), 0 to 0xffc.
    pub attenuation: [u16; BLOCK + BEYOND],
}

impl Tone {
    /// A silent tone.
    pub const OFF: Self = Self {
        phase: [0; BLOCK + BEYOND],
        attenuation: [MAX_ATTENUATION << 2; BLOCK + BEYOND],
    };
}

/// A range of frames in which the LFO of one operator is constant.
#[derive(Clone, Copy, Debug)]
pub struct LfoSegment {
    /// The number of frames in the range.
    pub frames: usize,
    /// The change of the phase per frame.
    pub step: u32,
    /// The attenuation that the LFO adds.
    pub am: u16,
}

/// An operator with its registers and the state of its phase, envelope and key.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// The decoded registers.
    pub settings: OperatorSettings,
    phase: u32,
    envelope: Envelope,
    inverted: bool,
    keys: u8,
    keyed: bool,
}

impl Operator {
    /// Presses or releases the key of one `source` (see [`key`]).
    ///
    /// The change takes effect with [`prepare`](Self::prepare).
    pub fn set_key(&mut self, source: u8, on: bool) {
        self.keys = self.keys & !source | if on { source } else { 0 };
    }

    /// Samples the key, as the chip does before the first frame after a write.
    ///
    /// Returns whether the operator may be audible.
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

    /// Returns whether all tones until the next write are 0.
    pub fn is_silent(&self) -> bool {
        let level = self.settings.total_level;
        if self.settings.ssg_eg.is_on() {
            level >= SILENT || ssg_eg::is_over(&self.envelope)
        } else if !self.envelope.is_monotonic() {
            level >= SILENT
        } else {
            self.envelope.attenuation + level >= SILENT
        }
    }

    /// Advances by the frames of `segments` without computing a tone.
    pub fn skip(&mut self, clock: &EnvelopeClock, segments: &[LfoSegment]) {
        if self.settings.ssg_eg.is_on() {
            return self.run_ssg_eg(clock, segments, |_, _, _| {}, |_, _, _| {});
        }
        self.inverted = false;
        let frames = segments.iter().map(|s| s.frames).sum();
        let rates = &self.settings.rates;
        let attacked = self.envelope.run(rates, clock, frames, ());
        let mut start = 0;
        for s in segments {
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

    /// Renders the frames of `segments`, at most [`BLOCK`], into `tone`.
    pub fn render(&mut self, clock: &EnvelopeClock, segments: &[LfoSegment], tone: &mut Tone) {
        self.render_scaled::<2>(clock, segments, tone, |attenuation| attenuation > QUIET);
    }

    /// Renders as [`render`](Self::render) does, but with the 10-bit attenuation of the envelope
    /// even if it is quiet. OPM's noise uses this.
    pub fn render_raw(&mut self, clock: &EnvelopeClock, segments: &[LfoSegment], tone: &mut Tone) {
        self.render_scaled::<0>(clock, segments, tone, |_| false);
    }

    fn render_scaled<const SHIFT: u32>(
        &mut self,
        clock: &EnvelopeClock,
        segments: &[LfoSegment],
        tone: &mut Tone,
        is_off: impl Fn(u16) -> bool,
    ) {
        simd::run(Rendering::<SHIFT, _> {
            operator: self,
            clock,
            segments,
            tone,
            is_off,
        });
    }

    /// Runs an operator with SSG-EG.
    ///
    /// - `ramp` is called for each range of frames in which the phase advances evenly. Its
    ///   arguments are the range, the phase before it and the step.
    /// - `hold` is called for each range in which the envelope is constant. Its arguments are the
    ///   range, the operator in its state at that time, and the attenuation of the LFO.
    #[inline(always)]
    fn run_ssg_eg(
        &mut self,
        clock: &EnvelopeClock,
        segments: &[LfoSegment],
        mut ramp: impl FnMut(Range<usize>, u32, u32),
        mut hold: impl FnMut(Range<usize>, &Self, u16),
    ) {
        let OperatorSettings {
            rates, ssg_eg, am, ..
        } = self.settings;
        let (mut tick, mut count) = clock.next();
        let mut frame = 0;
        for s in segments {
            let am = if am { s.am } else { 0 };
            let end = frame + s.frames;
            // The frame in which the phase was last restarted.
            let mut from = frame;
            while frame < end {
                let start = frame;
                let Self {
                    envelope, inverted, ..
                } = self;
                if ssg_eg::is_idle(envelope) {
                    // The envelope does not change before the next tick that steps it.
                    frame = end;
                    if tick < end {
                        envelope.advance_stage(&rates);
                        let wait = envelope.ticks_to_step(&rates, count);
                        let wait = wait.unwrap_or(u32::MAX / 4);
                        tick += wait as usize * clock.divider();
                        count = count.wrapping_add(wait);
                        frame = tick.min(end);
                    }
                } else {
                    let stands = ssg_eg::is_steady(ssg_eg, envelope);
                    let frames = if stands { end - start } else { 1 };
                    frame += frames;
                    if ssg_eg::clock(ssg_eg, &rates, envelope, inverted, frames) {
                        ramp(from..start, self.phase, s.step);
                        // The phase restarts in each of these frames.
                        (self.phase, from) = (0, frame - 1);
                    }
                    if stands && tick < end {
                        self.envelope.advance_stage(&rates);
                        let ticks = (end - tick).div_ceil(clock.divider());
                        tick += ticks * clock.divider();
                        count = count.wrapping_add(ticks as u32);
                    }
                }
                if frame == start || (frame == start + 1 && tick == start) {
                    // The tick in this frame steps the envelope.
                    frame = start + 1;
                    ssg_eg::tick(&rates, &mut self.envelope, count);
                    tick += clock.divider();
                    count = count.wrapping_add(1);
                }
                hold(start..frame, self, am);
            }
            ramp(from..end, self.phase, s.step);
            let frames = (end - from) as u32;
            self.phase = self.phase.wrapping_add(s.step.wrapping_mul(frames));
        }
    }
}

/// The rendering of one operator's block, with the envelope in steps.
struct Rendering<'a, const SHIFT: u32, O> {
    operator: &'a mut Operator,
    clock: &'a EnvelopeClock,
    segments: &'a [LfoSegment],
    tone: &'a mut Tone,
    is_off: O,
}

impl<const SHIFT: u32, O: Fn(u16) -> bool> Loop for Rendering<'_, SHIFT, O> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        const MAX: u16 = MAX_ATTENUATION;
        let Rendering {
            operator,
            clock,
            segments,
            tone: Tone { phase, attenuation },
            is_off,
        } = self;
        let total = operator.settings.total_level;
        if operator.settings.ssg_eg.is_on() {
            return operator.run_ssg_eg(
                clock,
                segments,
                |range, start, step| {
                    ramp(start, step, phase, range);
                },
                |range, operator, am| {
                    let level = match operator.envelope.attenuation {
                        off if is_off(off) => MAX,
                        level if operator.inverted => ssg_eg::inverted(level),
                        level => level,
                    };
                    fill_forward(attenuation, range, (level + total + am).min(MAX) << SHIFT);
                },
            );
        }
        operator.inverted = false;
        let frames = segments.iter().map(|s| s.frames).sum();
        let levels = Levels::<SHIFT, _> {
            attenuation: &mut *attenuation,
            total,
            is_off,
        };
        let rates = &operator.settings.rates;
        let attacked = operator.envelope.run(rates, clock, frames, levels);
        let mut start = 0;
        for s in segments {
            let end = start + s.frames;
            let mut from = start;
            if let Some(frame) = attacked.filter(|frame| (start..end).contains(frame)) {
                ramp(operator.phase, s.step, phase, start..frame);
                (operator.phase, from) = (0, frame);
            }
            operator.phase = ramp(operator.phase, s.step, phase, from..end);
            if s.am != 0 && operator.settings.am {
                for level in &mut attenuation[start..end] {
                    *level = (*level + (s.am << SHIFT)).min(MAX << SHIFT);
                }
            }
            start = end;
        }
    }
}

/// The array that receives the attenuation of an operator. `total` is added to the attenuation of
/// the envelope, and `is_off` returns whether this attenuation counts as silence.
struct Levels<'a, const SHIFT: u32, O> {
    attenuation: &'a mut [u16; BLOCK + BEYOND],
    total: u16,
    is_off: O,
}

impl<const SHIFT: u32, O: Fn(u16) -> bool> AttenuationSink for Levels<'_, SHIFT, O> {
    #[inline(always)]
    fn hold(&mut self, frames: Range<usize>, level: u16) {
        const MAX: u16 = MAX_ATTENUATION;
        let level = if (self.is_off)(level) { MAX } else { level };
        let level = (level + self.total).min(MAX) << SHIFT;
        fill_forward(self.attenuation, frames, level);
    }
}

/// Fills a range, and up to [`BEYOND`] frames after it.
#[inline(always)]
fn fill_forward(out: &mut [u16; BLOCK + BEYOND], range: Range<usize>, value: u16) {
    let mut at = range.start;
    while at < range.end {
        if let Some(lanes) = out[at..].first_chunk_mut::<BEYOND>() {
            *lanes = [value; BEYOND];
        }
        at += BEYOND;
    }
}

/// Writes the phases of a constant frequency to a range, and after it up to a whole vector.
///
/// Returns the last phase of the range.
#[inline(always)]
fn ramp(start: u32, step: u32, out: &mut [u16; BLOCK + BEYOND], range: Range<usize>) -> u32 {
    const LANES: usize = 16;
    let frames = range.len();
    let out = &mut out[range.start..][..frames.next_multiple_of(LANES)];
    // We shift the 20 bits of the phase to the top of the word. The shift below then leaves the
    // upper 10 of them. They fit into a signed number of 16 bits, so the compiler can narrow a
    // vector with one instruction.
    const UNUSED: u32 = 12;
    let mut phase = start << UNUSED;
    for slot in out {
        phase = phase.wrapping_add(step << UNUSED);
        *slot = (phase >> (10 + UNUSED)) as u16;
    }
    start.wrapping_add(step.wrapping_mul(frames as u32))
}
