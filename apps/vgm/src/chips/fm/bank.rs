//! The channels of an OPM or OPN chip, rendered block by block.
//!
//! The invariant: after any sequence of blocks every phase, envelope and
//! feedback memory is what clocking each operator frame by frame would have
//! left, however the blocks were cut and whatever was skipped for silence.

use super::algorithms::{
    CARRIERS, Feedback, OutputWidth, Values, render_algorithm, render_feedback,
    render_without_feedback,
};
use super::envelope::EnvelopeClock;
use super::operator::{BLOCK, LfoSegment, Operator, Pitch, Tone, key};
use super::tables::MAX_ATTENUATION;
use super::timer::TimerA;

/// Frames after which the chip looks at its keys though nothing was written.
///
/// It decides when the keys of a CSM trigger are let go. Source: ymfm.
const PREPARE_PERIOD: usize = 4097;

/// What differs between OPM and OPN once the registers are decoded.
pub trait Family {
    /// The phase step at the LFO's `pm` under the channel's `sensitivity`.
    fn phase_step(pitch: &Pitch, sensitivity: u8, pm: i16) -> u32;
    /// The attenuation of the LFO's `am` under the channel's `sensitivity`.
    fn am_attenuation(am: u8, sensitivity: u8) -> u16;
}

/// A stretch of frames in which the LFO stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLfoSegment {
    /// How many frames.
    pub frames: usize,
    /// Amplitude modulation, before the channel's sensitivity.
    pub am: u8,
    /// Phase modulation, before the channel's sensitivity.
    pub pm: i16,
}

/// Adds a stretch, or makes the last one longer if the LFO is where it was.
pub fn push_segment(stretches: &mut Vec<ChannelLfoSegment>, frames: usize, am: u8, pm: i16) {
    match stretches.last_mut() {
        Some(last) if (last.am, last.pm) == (am, pm) => last.frames += frames,
        _ => stretches.push(ChannelLfoSegment { frames, am, pm }),
    }
}

/// A channel's registers, decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelSettings {
    /// How its operators are connected, 0 to 7.
    pub algorithm: u8,
    /// Whether it goes to the left and to the right output.
    pub outputs: [bool; 2],
    /// How much the LFO moves its frequency, 0 to 7; 0 where the LFO has no depth.
    pub pm_sensitivity: u8,
    /// How much the LFO moves its level, 0 to 3.
    pub am_sensitivity: u8,
}

/// A channel of four operators.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// Its registers.
    pub settings: ChannelSettings,
    /// Its operators in the order of computation.
    pub operators: [Operator; 4],
    /// The memory of operator 1.
    pub feedback: Feedback,
    /// Whether it may be heard; as of the last look at the keys.
    active: bool,
}

/// What the caller of [`Bank::render`] decides for one block.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// The LFO over the block's frames.
    pub lfo: &'a [ChannelLfoSegment],
    /// Which channels reach the outputs; the others keep running.
    pub audible: u8,
    /// OPM's noise in place of the last channel's last operator: the sign of each frame.
    pub noise: Option<&'a [bool; BLOCK]>,
}

/// The channels with their shared clocks and the buffers of a block.
#[derive(Clone)]
pub struct Bank<const CHANNELS: usize> {
    /// The channels.
    pub channels: [Channel; CHANNELS],
    /// Timer A.
    pub timer: TimerA,
    /// The envelopes' clock.
    pub clock: EnvelopeClock,
    /// Which channels exist; the others' memories are not even clocked.
    present: u8,
    /// Which channels timer A presses.
    csm: u8,
    written: bool,
    to_prepare: usize,
    buffers: Buffers<CHANNELS>,
}

#[derive(Clone)]
struct Buffers<const CHANNELS: usize> {
    stretches: Vec<LfoSegment>,
    /// Operators 1: those with feedback from the front, the others from the back.
    tones: [Tone; CHANNELS],
    values: [Values; CHANNELS],
    lanes: [Feedback; CHANNELS],
    others: [Tone; 3],
    out: Values,
}

/// What is to be computed of a channel in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Nothing; the feedback memory stands still.
    Masked,
    /// Operator 1 gives zeros, and so do the carriers.
    Silent,
    /// Operator 1 in this slot, for its memory; the carriers are silent.
    First(usize),
    /// All of it; operator 1 in this slot or silent.
    Whole(Option<usize>),
}

static OFF: Tone = Tone::OFF;
static ZERO: Values = [0; BLOCK];

impl<const CHANNELS: usize> Bank<CHANNELS> {
    /// A bank after reset, of which the channels in `present` exist.
    pub fn new(present: u8, csm: u8) -> Self {
        Self {
            channels: std::array::from_fn(|_| Channel::default()),
            timer: TimerA::default(),
            clock: EnvelopeClock::new(3),
            present,
            csm,
            written: true,
            to_prepare: PREPARE_PERIOD,
            buffers: Buffers {
                stretches: Vec::with_capacity(BLOCK),
                tones: [Tone::OFF; CHANNELS],
                values: [ZERO; CHANNELS],
                lanes: [Feedback::default(); CHANNELS],
                others: [Tone::OFF; 3],
                out: ZERO,
            },
        }
    }

    /// To be called with every register write that reaches the FM part.
    pub fn mark_written(&mut self) {
        self.written = true;
    }

    /// Whether something was written since the last block.
    pub fn is_written(&self) -> bool {
        self.written
    }

    /// Presses or lets go the keys of a channel, operator 1 in bit 0.
    pub fn set_keys(&mut self, channel: usize, operators: u8) {
        for (i, operator) in self.channels[channel].operators.iter_mut().enumerate() {
            operator.set_key(key::NORMAL, operators >> i & 1 != 0);
        }
    }

    /// Takes up what was written and says how many frames, at most `wanted`,
    /// the next block may have. To be called before each block.
    pub fn begin(&mut self, wanted: usize) -> usize {
        if self.written || self.to_prepare == 0 {
            for (i, channel) in self.channels.iter_mut().enumerate() {
                if self.present >> i & 1 != 0 {
                    channel.active = false;
                    for operator in &mut channel.operators {
                        channel.active |= operator.prepare();
                    }
                }
            }
            self.written = false;
            self.to_prepare = PREPARE_PERIOD;
        }
        let to_key = self
            .timer
            .frames_to_key()
            .map_or(BLOCK, |frames| frames as usize);
        wanted.min(BLOCK).min(self.to_prepare).min(to_key)
    }

    /// Renders a block of as many frames as [`begin`](Self::begin) gave; calls
    /// `sink` with the settings and the values of each channel that may be heard.
    pub fn render<F: Family, W: OutputWidth>(
        &mut self,
        block: Block<'_>,
        mut sink: impl FnMut(&ChannelSettings, &Values),
    ) {
        let frames = block.lfo.iter().map(|stretch| stretch.frames).sum();
        let plans = self.render_first::<F>(&block, frames);
        for (i, plan) in plans.into_iter().enumerate() {
            let noise = block.noise.filter(|_| i + 1 == CHANNELS);
            let Plan::Whole(slot) = plan else {
                if self.present >> i & 1 != 0 {
                    self.skip_others::<F>(i, block.lfo);
                }
                continue;
            };
            let heard = self.render_others::<F>(i, block.lfo, noise.is_some());
            let Buffers {
                values,
                others,
                out,
                ..
            } = &mut self.buffers;
            let tone = |k: usize| {
                if heard >> k & 1 != 0 {
                    &others[k]
                } else {
                    &OFF
                }
            };
            let fourth = if noise.is_some() { &OFF } else { tone(2) };
            let first = slot.map_or(&ZERO, |slot| &values[slot]);
            let settings = &self.channels[i].settings;
            render_algorithm::<W>(
                settings.algorithm,
                first,
                [tone(0), tone(1), fourth],
                frames,
                out,
            );
            if let Some(signs) = noise {
                add_noise(&signs[..frames], &others[2], out);
            }
            sink(settings, out);
        }
        self.end(frames);
    }

    /// Renders the first operators of all channels, which is where frames
    /// depend on each other, and keeps their memories.
    fn render_first<F: Family>(&mut self, block: &Block<'_>, frames: usize) -> [Plan; CHANNELS] {
        let (mut front, mut back) = (0, CHANNELS);
        let plans = std::array::from_fn(|i| {
            if self.present >> i & 1 == 0 {
                return Plan::Masked;
            }
            let has_noise = block.noise.is_some() && i + 1 == CHANNELS;
            let channel = &mut self.channels[i];
            let plan = channel.plan(block.audible >> i & 1 != 0, has_noise, || {
                if channel.feedback.level != 0 {
                    front += 1;
                    front - 1
                } else {
                    back -= 1;
                    back
                }
            });
            let Buffers {
                stretches,
                tones,
                lanes,
                ..
            } = &mut self.buffers;
            channel.stretch::<F>(0, block.lfo, stretches);
            let first = &mut channel.operators[0];
            match plan {
                Plan::First(slot) | Plan::Whole(Some(slot)) => {
                    first.render(&self.clock, stretches, &mut tones[slot]);
                    lanes[slot] = channel.feedback;
                }
                _ => first.skip(&self.clock, stretches),
            }
            plan
        });
        let Buffers {
            tones,
            values,
            lanes,
            ..
        } = &mut self.buffers;
        render_feedback(
            &mut lanes[..front],
            &tones[..front],
            frames,
            &mut values[..front],
        );
        for (tone, values) in tones[back..].iter().zip(&mut values[back..]) {
            render_without_feedback(tone, frames, values);
        }
        for (channel, plan) in self.channels.iter_mut().zip(plans) {
            let last = channel.feedback.last[0];
            let given = |values: &Values| match frames {
                1 => [values[0], last],
                _ => [values[frames - 1], values[frames - 2]],
            };
            channel.feedback.last = match plan {
                Plan::Masked => [last; 2],
                Plan::Silent | Plan::Whole(None) => given(&ZERO),
                Plan::First(slot) | Plan::Whole(Some(slot)) => given(&self.buffers.values[slot]),
            };
        }
        plans
    }

    /// Renders operators 2 to 4; returns which of them may be heard.
    fn render_others<F: Family>(
        &mut self,
        channel: usize,
        lfo: &[ChannelLfoSegment],
        noise: bool,
    ) -> u8 {
        let channel = &mut self.channels[channel];
        let Buffers {
            stretches, others, ..
        } = &mut self.buffers;
        let mut heard = 0;
        for (k, tone) in others.iter_mut().enumerate() {
            channel.stretch::<F>(k + 1, lfo, stretches);
            let operator = &mut channel.operators[k + 1];
            if noise && k == 2 {
                operator.render_raw(&self.clock, stretches, tone);
            } else if operator.is_silent() {
                operator.skip(&self.clock, stretches);
            } else {
                operator.render(&self.clock, stretches, tone);
                heard |= 1 << k;
            }
        }
        heard
    }

    fn skip_others<F: Family>(&mut self, channel: usize, lfo: &[ChannelLfoSegment]) {
        let channel = &mut self.channels[channel];
        let stretches = &mut self.buffers.stretches;
        for k in 1..4 {
            channel.stretch::<F>(k, lfo, stretches);
            channel.operators[k].skip(&self.clock, stretches);
        }
    }

    fn end(&mut self, frames: usize) {
        self.clock.advance(frames);
        self.to_prepare -= frames;
        if self.timer.advance(frames) {
            for (i, channel) in self.channels.iter_mut().enumerate() {
                if self.csm >> i & 1 != 0 {
                    channel
                        .operators
                        .iter_mut()
                        .for_each(|o| o.set_key(key::CSM, true));
                }
            }
            self.written = true;
        }
    }
}

impl Channel {
    fn plan(&self, audible: bool, noise: bool, slot: impl FnOnce() -> usize) -> Plan {
        if !audible || !self.active {
            return Plan::Masked;
        }
        let silent = self.operators.each_ref().map(Operator::is_silent);
        let carriers = CARRIERS[usize::from(self.settings.algorithm & 7)];
        let heard = (0..4).any(|k| carriers >> k & 1 != 0 && !silent[k]) || noise;
        match (heard && self.settings.outputs != [false; 2], silent[0]) {
            (true, true) => Plan::Whole(None),
            (true, false) => Plan::Whole(Some(slot())),
            (false, true) => Plan::Silent,
            (false, false) => Plan::First(slot()),
        }
    }

    /// The LFO's stretches as operator `k` of this channel sees them.
    fn stretch<F: Family>(&self, k: usize, lfo: &[ChannelLfoSegment], out: &mut Vec<LfoSegment>) {
        let ChannelSettings {
            pm_sensitivity,
            am_sensitivity,
            ..
        } = self.settings;
        let settings = &self.operators[k].settings;
        let step = |pm| F::phase_step(&settings.pitch, pm_sensitivity, pm);
        out.clear();
        let (mut pm, mut now) = (0, settings.step);
        if pm_sensitivity == 0 && (!settings.am || am_sensitivity == 0) {
            // The LFO does not reach it.
            let frames = lfo.iter().map(|stretch| stretch.frames).sum();
            let (step, am) = (now, 0);
            return out.push(LfoSegment { frames, step, am });
        }
        for stretch in lfo {
            if pm_sensitivity != 0 && stretch.pm != pm {
                (pm, now) = (stretch.pm, step(stretch.pm));
            }
            let am = match settings.am {
                true => F::am_attenuation(stretch.am, am_sensitivity),
                false => 0,
            };
            match out.last_mut() {
                Some(last) if (last.step, last.am) == (now, am) => last.frames += stretch.frames,
                _ => out.push(LfoSegment {
                    frames: stretch.frames,
                    step: now,
                    am,
                }),
            }
        }
    }
}

/// Adds OPM's noise: the envelope itself, linear, with a random sign.
fn add_noise(signs: &[bool], tone: &Tone, out: &mut Values) {
    for ((value, &negative), attenuation) in out.iter_mut().zip(signs).zip(tone.attenuation) {
        let level = ((attenuation ^ MAX_ATTENUATION) << 1) as i16;
        *value += if negative { -level } else { level };
    }
}
