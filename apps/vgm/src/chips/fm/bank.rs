//! The channels of an OPM or OPN chip, rendered in blocks.
//!
//! Invariant: after any sequence of blocks, each phase, envelope and feedback memory has the state
//! that clocking each operator frame by frame would produce. This holds for any block sizes, and
//! although we skip silent operators.

use super::algorithms::{
    CARRIERS, Feedback, OutputWidth, Values, render_algorithm, render_feedback,
    render_without_feedback,
};
use super::envelope::EnvelopeClock;
use super::operator::{BLOCK, LfoSegment, Operator, Pitch, Tone, key};
use super::tables::MAX_ATTENUATION;
use super::timer::TimerA;

/// The number of frames after which we look for silent channels even without a write.
const PREPARE_PERIOD: usize = 4097;

/// The differences between OPM and OPN after decoding the registers.
pub trait Family {
    /// Returns the phase step for the LFO's `pm` and the channel's `sensitivity`.
    fn phase_step(pitch: &Pitch, sensitivity: u8, pm: i16) -> u32;
    /// Returns the attenuation for the LFO's `am` and the channel's `sensitivity`.
    fn am_attenuation(am: u8, sensitivity: u8) -> u16;
}

/// A range of frames in which the LFO is constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLfoSegment {
    /// The number of frames in the range.
    pub frames: usize,
    /// The amplitude modulation, before the channel's sensitivity.
    pub am: u8,
    /// The phase modulation, before the channel's sensitivity.
    pub pm: i16,
}

/// Adds a segment, or extends the last one if the LFO has not changed.
pub fn push_segment(segments: &mut Vec<ChannelLfoSegment>, frames: usize, am: u8, pm: i16) {
    match segments.last_mut() {
        Some(last) if (last.am, last.pm) == (am, pm) => last.frames += frames,
        _ => segments.push(ChannelLfoSegment { frames, am, pm }),
    }
}

/// The decoded registers of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelSettings {
    /// The algorithm that connects the operators, 0 to 7.
    pub algorithm: u8,
    /// Whether the channel goes to the left and to the right output.
    pub outputs: [bool; 2],
    /// The depth of the LFO's phase modulation, 0 to 7. It is 0 if the LFO is off or has no depth.
    pub pm_sensitivity: u8,
    /// The depth of the LFO's amplitude modulation, 0 to 3.
    pub am_sensitivity: u8,
}

/// A channel of four operators.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// The decoded registers.
    pub settings: ChannelSettings,
    /// The operators in the order of computation.
    pub operators: [Operator; 4],
    /// The feedback memory of operator 1.
    pub feedback: Feedback,
    /// Whether the channel may be audible. It is updated when the chip samples its keys.
    active: bool,
}

/// The parameters of [`Bank::render`] for one block.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    /// The LFO during the block, as ranges of frames in which it is constant.
    pub lfo: &'a [ChannelLfoSegment],
    /// The channels that reach the outputs, one bit per channel. The others keep running.
    pub audible: u8,
    /// The sign of OPM's noise in each frame, if it replaces the last operator of the last channel.
    pub noise: Option<&'a [bool; BLOCK]>,
}

/// The channels with their common clocks and the buffers of a block.
#[derive(Clone)]
pub struct Bank<const CHANNELS: usize> {
    /// The channels.
    pub channels: [Channel; CHANNELS],
    /// Timer A, which can press keys.
    pub timer: TimerA,
    /// The clock of the envelopes.
    pub clock: EnvelopeClock,
    /// The channels that exist, one bit per channel. The operators of the others are not clocked.
    present: u8,
    /// The channels whose keys timer A presses, one bit per channel.
    csm: u8,
    written: bool,
    /// Whether timer A pressed keys at the end of the last block. They are released after a frame.
    csm_pressed: bool,
    to_prepare: usize,
    buffers: Buffers<CHANNELS>,
}

#[derive(Clone)]
struct Buffers<const CHANNELS: usize> {
    segments: Vec<LfoSegment>,
    /// The tones of the first operators. Those with feedback start at the front, the others at the
    /// back.
    tones: [Tone; CHANNELS],
    values: [Values; CHANNELS],
    lanes: [Feedback; CHANNELS],
    others: [Tone; 3],
    out: Values,
}

/// The computations that a channel needs in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Nothing is computed. The feedback memory keeps its last value.
    Masked,
    /// Nothing is computed. Operator 1 and the carriers are silent, and the feedback memory
    /// receives zeros.
    Silent,
    /// The carriers are silent. Only operator 1 is computed, because the feedback memory needs its
    /// values. The field is the index of its tone in the buffers.
    First(usize),
    /// All operators are computed. The field is the index of the tone of operator 1 in the buffers,
    /// or `None` if operator 1 is silent.
    Whole(Option<usize>),
}

static OFF: Tone = Tone::OFF;
static ZERO: Values = [0; BLOCK];

impl<const CHANNELS: usize> Bank<CHANNELS> {
    /// Creates a bank in its state after reset. The channels in `present` exist, and `csm` are the
    /// channels whose keys timer A presses.
    pub fn new(present: u8, csm: u8) -> Self {
        Self {
            channels: std::array::from_fn(|_| Channel::default()),
            timer: TimerA::default(),
            clock: EnvelopeClock::new(3),
            present,
            csm,
            written: true,
            csm_pressed: false,
            to_prepare: PREPARE_PERIOD,
            buffers: Buffers {
                segments: Vec::with_capacity(BLOCK),
                tones: [Tone::OFF; CHANNELS],
                values: [ZERO; CHANNELS],
                lanes: [Feedback::default(); CHANNELS],
                others: [Tone::OFF; 3],
                out: ZERO,
            },
        }
    }

    /// Marks the bank as changed. You must call this for every register write to the FM part.
    pub fn mark_written(&mut self) {
        self.written = true;
    }

    /// Presses or releases the keys of a channel. Operator 1 is bit 0.
    pub fn set_keys(&mut self, channel: usize, operators: u8) {
        for (i, operator) in self.channels[channel].operators.iter_mut().enumerate() {
            operator.set_key(key::NORMAL, operators >> i & 1 != 0);
        }
    }

    /// Applies the written registers and returns the number of frames in the next block, at most
    /// `wanted`.
    ///
    /// You must call this before each block.
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
        if std::mem::take(&mut self.csm_pressed) {
            // The next block begins with the release of these keys.
            self.written = true;
            return wanted.min(1);
        }
        let to_key = self
            .timer
            .frames_to_key()
            .map_or(BLOCK, |frames| frames as usize);
        wanted.min(BLOCK).min(self.to_prepare).min(to_key)
    }

    /// Renders a block with the number of frames that [`begin`](Self::begin) returned.
    ///
    /// Calls `sink` with the settings and the values of each channel that may be audible.
    pub fn render<F: Family, W: OutputWidth>(
        &mut self,
        block: Block<'_>,
        mut sink: impl FnMut(&ChannelSettings, &Values),
    ) {
        let frames = block.lfo.iter().map(|segment| segment.frames).sum();
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

    /// Renders the first operators of all channels and updates their feedback memories.
    ///
    /// Only these operators have frames that depend on each other.
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
                segments,
                tones,
                lanes,
                ..
            } = &mut self.buffers;
            channel.lfo_segments::<F>(0, block.lfo, segments);
            let first = &mut channel.operators[0];
            match plan {
                Plan::First(slot) | Plan::Whole(Some(slot)) => {
                    first.render(&self.clock, segments, &mut tones[slot]);
                    lanes[slot] = channel.feedback;
                }
                _ => first.skip(&self.clock, segments),
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

    /// Renders operators 2 to 4 and returns which of them may be audible.
    fn render_others<F: Family>(
        &mut self,
        channel: usize,
        lfo: &[ChannelLfoSegment],
        noise: bool,
    ) -> u8 {
        let channel = &mut self.channels[channel];
        let Buffers {
            segments, others, ..
        } = &mut self.buffers;
        let mut heard = 0;
        for (k, tone) in others.iter_mut().enumerate() {
            channel.lfo_segments::<F>(k + 1, lfo, segments);
            let operator = &mut channel.operators[k + 1];
            if noise && k == 2 {
                operator.render_raw(&self.clock, segments, tone);
            } else if operator.is_silent() {
                operator.skip(&self.clock, segments);
            } else {
                operator.render(&self.clock, segments, tone);
                heard |= 1 << k;
            }
        }
        heard
    }

    fn skip_others<F: Family>(&mut self, channel: usize, lfo: &[ChannelLfoSegment]) {
        let channel = &mut self.channels[channel];
        let segments = &mut self.buffers.segments;
        for k in 1..4 {
            channel.lfo_segments::<F>(k, lfo, segments);
            channel.operators[k].skip(&self.clock, segments);
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
            self.csm_pressed = true;
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

    /// Computes the LFO segments for operator `k` of this channel.
    fn lfo_segments<F: Family>(
        &self,
        k: usize,
        lfo: &[ChannelLfoSegment],
        out: &mut Vec<LfoSegment>,
    ) {
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
            // The LFO does not affect this operator.
            let frames = lfo.iter().map(|segment| segment.frames).sum();
            let (step, am) = (now, 0);
            return out.push(LfoSegment { frames, step, am });
        }
        for segment in lfo {
            if pm_sensitivity != 0 && segment.pm != pm {
                (pm, now) = (segment.pm, step(segment.pm));
            }
            let am = match settings.am {
                true => F::am_attenuation(segment.am, am_sensitivity),
                false => 0,
            };
            match out.last_mut() {
                Some(last) if (last.step, last.am) == (now, am) => last.frames += segment.frames,
                _ => out.push(LfoSegment {
                    frames: segment.frames,
                    step: now,
                    am,
                }),
            }
        }
    }
}

/// Adds OPM's noise, which is the linear envelope with a random sign.
fn add_noise(signs: &[bool], tone: &Tone, out: &mut Values) {
    for ((value, &negative), attenuation) in out.iter_mut().zip(signs).zip(tone.attenuation) {
        let level = ((attenuation ^ MAX_ATTENUATION) << 1) as i16;
        *value += if negative { -level } else { level };
    }
}
