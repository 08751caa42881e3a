//! The channels of an OPL chip, rendered in blocks.
//!
//! Invariant: after any sequence of blocks, each phase, envelope and feedback memory has the state
//! that clocking each operator frame by frame would produce. This holds for any block sizes, and
//! although we skip silent operators.

use super::algorithms::{
    Family, First, Lane, Values, render_feedback, render_four, render_pair, render_without_feedback,
};
use super::channel::{Block, Channel, Role};
use super::lfo::{Lfo, Noise};
use super::rhythm;
use super::waves::WAVES;
use crate::chips::fm::algorithms::Feedback;
use crate::chips::fm::envelope::EnvelopeClock;
use crate::chips::fm::operator::{BLOCK, Tone, key};
use crate::chips::fm::timer::TimerA;

/// The number of frames after which we look for silent channels even without a write.
const PREPARE_PERIOD: usize = 4097;

/// The channels with their common clocks and the buffers of a block.
#[derive(Clone)]
pub struct Bank<const CHANNELS: usize> {
    /// The channels.
    pub channels: [Channel; CHANNELS],
    /// Timer A, which can press keys.
    pub timer: TimerA,
    /// The LFO.
    pub lfo: Lfo,
    /// The voices that reach the outputs. Muted voices play on.
    pub voice_mask: VoiceMask,
    noise: Noise,
    clock: EnvelopeClock,
    /// Whether the LFO modulates any operator.
    modulated: bool,
    written: bool,
    /// Whether timer A pressed keys at the end of the last block. They are released after a frame.
    csm_pressed: bool,
    to_prepare: usize,
    buffers: Buffers<CHANNELS>,
}

/// The voices that reach the outputs, one bit per voice.
#[derive(Clone, Copy, Debug)]
pub struct VoiceMask {
    /// The channels, when they do not play drums.
    pub channels: u32,
    /// The drums, as in the rhythm register.
    pub drums: u8,
}

impl VoiceMask {
    /// All voices.
    pub const ALL: VoiceMask = VoiceMask {
        channels: u32::MAX,
        drums: 31,
    };

    /// Splits the voices of a chip into `channels` channels and the drums.
    pub fn of_voices(voices: u64, channels: u32) -> VoiceMask {
        VoiceMask {
            channels: voices as u32 & ((1 << channels) - 1),
            drums: (voices >> channels) as u8 & 31,
        }
    }

    fn drum(self, bit: u8) -> bool {
        self.drums >> bit & 1 != 0
    }
}

#[derive(Clone)]
struct Buffers<const CHANNELS: usize> {
    /// The tones of the first operators. Those with feedback start at the front, the others at the
    /// back.
    tones: [Tone; CHANNELS],
    lanes: [Lane; CHANNELS],
    firsts: [First; CHANNELS],
    /// The tones of the other operators of a channel.
    others: [Tone; 3],
    /// The tones of the operators in rhythm mode.
    drums: [Tone; 5],
    halves: [u16; BLOCK],
    noise: [u16; BLOCK],
    out: Values,
}

/// The computations that a channel needs in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing is computed. The feedback memory keeps its last value.
    Still,
    /// The channel is silent. Only operator 1 is computed, because the feedback memory needs its
    /// values. The field is the index of its tone in the buffers, or `None` if all its values are
    /// 0.
    First(Option<usize>),
    /// All operators are computed. The field is the index of the tone of operator 1 in the buffers,
    /// or `None` if all its values are 0.
    Whole(Option<usize>),
}

/// The channel and the operator of each tone in the buffer of drums.
const DRUMS: [(usize, usize); 5] = [(6, 1), (7, 0), (7, 1), (8, 0), (8, 1)];

static ZERO: First = First::ZERO;

impl<const CHANNELS: usize> Default for Bank<CHANNELS> {
    fn default() -> Self {
        let lane = Lane {
            wave: &WAVES[0],
            feedback: Feedback::default(),
        };
        Self {
            channels: std::array::from_fn(|_| Channel::default()),
            timer: TimerA::default(),
            lfo: Lfo::default(),
            voice_mask: VoiceMask::ALL,
            noise: Noise::default(),
            clock: EnvelopeClock::new(1),
            modulated: false,
            written: true,
            csm_pressed: false,
            to_prepare: PREPARE_PERIOD,
            buffers: Buffers {
                tones: [Tone::OFF; CHANNELS],
                lanes: [lane; CHANNELS],
                firsts: [First::ZERO; CHANNELS],
                others: [Tone::OFF; 3],
                drums: [Tone::OFF; 5],
                halves: [0; BLOCK],
                noise: [0; BLOCK],
                out: [0; BLOCK],
            },
        }
    }
}

impl<const CHANNELS: usize> Bank<CHANNELS> {
    /// Marks the bank as changed. You must call this for every register write to the FM part.
    pub fn mark_written(&mut self) {
        self.written = true;
    }

    /// Presses or releases the keys of one `source`. Operator 1 is bit 0.
    pub fn set_keys(&mut self, channel: usize, source: u8, operators: u8) {
        let role = self.channels[channel].role;
        if role == Role::Lent {
            return;
        }
        let lent = if role == Role::Four {
            Some(channel + 3)
        } else {
            None
        };
        for (i, channel) in [Some(channel), lent].into_iter().flatten().enumerate() {
            for (k, operator) in self.channels[channel].operators.iter_mut().enumerate() {
                operator.set_key(source, operators >> (2 * i + k) & 1 != 0);
            }
        }
    }

    /// Sets the five keys of the rhythm register. Pass 0 if rhythm mode is off.
    pub fn set_drum_keys(&mut self, keys: u8) {
        let bit = |n: u8| keys >> n & 1;
        self.set_keys(6, key::RHYTHM, 3 * bit(4));
        self.set_keys(7, key::RHYTHM, bit(0) | bit(3) << 1);
        self.set_keys(8, key::RHYTHM, bit(2) | bit(1) << 1);
    }

    /// Applies the written registers and returns the number of frames in the next block, at most
    /// `wanted`.
    ///
    /// You must call this before each block.
    pub fn begin(&mut self, wanted: usize) -> usize {
        if self.written || self.to_prepare == 0 {
            self.prepare();
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
        let to_lfo = if self.modulated {
            self.lfo.frames_to_change()
        } else {
            BLOCK
        };
        wanted
            .min(BLOCK)
            .min(self.to_prepare)
            .min(to_key)
            .min(to_lfo)
    }

    fn prepare(&mut self) {
        self.modulated = false;
        for channel in &mut self.channels {
            channel.active = false;
            for (operator, vibrato) in channel.operators.iter_mut().zip(channel.vibrato) {
                channel.active |= operator.prepare();
                self.modulated |= vibrato || operator.settings.am;
            }
        }
        for i in 0..CHANNELS {
            if self.channels[i].role == Role::Four {
                self.channels[i].active |= self.channels[i + 3].active;
            }
        }
        self.written = false;
        self.to_prepare = PREPARE_PERIOD;
    }

    /// Renders a block with the number of frames that [`begin`](Self::begin) returned.
    ///
    /// Calls `sink` with the outputs and the values of each channel that may be audible.
    pub fn render<F: Family>(&mut self, frames: usize, mut sink: impl FnMut(u8, &Values)) {
        let block = Block {
            frames,
            am: self.lfo.am(),
            pm: self.lfo.pm(),
            clock: self.clock,
        };
        let plans = self.render_first(&block);
        if self.channels[6].role == Role::BassDrum {
            self.render_drums::<F>(&block);
        } else {
            self.noise.skip(frames);
        }
        for (i, plan) in plans.into_iter().enumerate() {
            if self.render_others::<F>(i, plan, &block) {
                sink(self.outputs(i), &self.buffers.out);
            }
        }
        self.end(frames);
    }

    /// Renders the first operators of all channels and updates their feedback memories.
    ///
    /// Only in these operators can a frame depend on the previous ones, because of the feedback.
    fn render_first(&mut self, block: &Block) -> [Plan; CHANNELS] {
        let frames = block.frames;
        let (mut front, mut back) = (0, CHANNELS);
        let mut plans = [Plan::Still; CHANNELS];
        for (i, plan) in plans.iter_mut().enumerate() {
            *plan = self.plan(i);
            let channel = &mut self.channels[i];
            match channel.role {
                Role::Lent | Role::HatAndSnare | Role::TomAndCymbal => continue,
                Role::Pair | Role::Four | Role::BassDrum => {}
            }
            let (Plan::First(slot @ Some(_)) | Plan::Whole(slot @ Some(_))) = plan else {
                block.skip(channel, 0);
                continue;
            };
            let at = if channel.feedback.level != 0 {
                front += 1;
                front - 1
            } else {
                back -= 1;
                back
            };
            *slot = Some(at);
            block.render(channel, 0, &mut self.buffers.tones[at]);
            self.buffers.lanes[at] = Lane {
                wave: channel.waves[0],
                feedback: channel.feedback,
            };
        }
        let Buffers {
            tones,
            lanes,
            firsts,
            ..
        } = &mut self.buffers;
        render_feedback(
            &lanes[..front],
            &tones[..front],
            frames,
            &mut firsts[..front],
        );
        for (channel, plan) in self.channels.iter_mut().zip(plans) {
            if let Plan::Whole(Some(slot)) | Plan::First(Some(slot)) = plan
                && slot >= back
            {
                // If the channel is silent and operator 1 has no feedback, we need only the last
                // two values, for the feedback memory.
                let from = if matches!(plan, Plan::First(_)) {
                    frames.saturating_sub(2)
                } else {
                    0
                };
                render_without_feedback(
                    &lanes[slot],
                    &tones[slot],
                    from,
                    frames,
                    &mut firsts[slot],
                );
            }
            channel.feedback.last = match plan {
                Plan::Still => [channel.feedback.last[0]; 2],
                Plan::First(slot) | Plan::Whole(slot) => {
                    slot.map_or([0; 2], |slot| firsts[slot].last(frames))
                }
            };
        }
        plans
    }

    /// Returns the outputs of channel `i`, one bit per output, or 0 if the channel is muted.
    fn outputs(&self, i: usize) -> u8 {
        let heard = match self.channels[i].role {
            Role::BassDrum => self.voice_mask.drum(4),
            Role::HatAndSnare | Role::TomAndCymbal => true,
            Role::Pair | Role::Four | Role::Lent => self.voice_mask.channels >> i & 1 != 0,
        };
        if heard { self.channels[i].outputs } else { 0 }
    }

    /// Returns the computations that channel `i` needs. The caller replaces the index in the
    /// result, because it depends on the channels before this one.
    fn plan(&self, i: usize) -> Plan {
        let channel = &self.channels[i];
        if !channel.active {
            return Plan::Still;
        }
        let silent = |i: usize, k: usize| self.channels[i].operators[k].is_silent();
        // The last values of a silent operator 1 may not have reached operator 2 yet.
        let first_is_zero = silent(i, 0) && channel.feedback.last == [0; 2];
        let heard = match channel.role {
            Role::Pair => !silent(i, 1) || (channel.additive && !first_is_zero),
            Role::BassDrum => !silent(i, 1),
            Role::Four => {
                let (first, second) = (channel.additive, self.channels[i + 3].additive);
                !silent(i + 3, 1)
                    || (first && !first_is_zero)
                    || (second && !first && !silent(i, 1))
                    || (second && first && !silent(i + 3, 0))
            }
            Role::Lent | Role::HatAndSnare | Role::TomAndCymbal => return Plan::Still,
        };
        let slot = if first_is_zero { None } else { Some(0) };
        if heard && self.outputs(i) != 0 {
            Plan::Whole(slot)
        } else {
            Plan::First(slot)
        }
    }

    /// Renders the remaining operators of channel `i` into the buffer `out`.
    ///
    /// Returns whether the channel may be audible.
    fn render_others<F: Family>(&mut self, i: usize, plan: Plan, block: &Block) -> bool {
        match (self.channels[i].role, plan) {
            (Role::Lent, _) => false,
            (Role::Pair, Plan::Whole(slot)) => self.render_pair::<F>(i, slot, block),
            (Role::Four, Plan::Whole(slot)) => self.render_four::<F>(i, slot, block),
            (Role::Pair, _) => {
                block.skip(&mut self.channels[i], 1);
                false
            }
            (Role::Four, _) => {
                for (channel, k) in [(i, 1), (i + 3, 0), (i + 3, 1)] {
                    block.skip(&mut self.channels[channel], k);
                }
                false
            }
            _ => self.connect_drums::<F>(i, plan, block.frames),
        }
    }

    fn render_pair<F: Family>(&mut self, i: usize, slot: Option<usize>, block: &Block) -> bool {
        let channel = &mut self.channels[i];
        let buffers = &mut self.buffers;
        let first = slot.map_or(&ZERO, |slot| &buffers.firsts[slot]);
        let tone = block.tone(channel, 1, &mut buffers.others[0]);
        let (additive, second) = (channel.additive, (channel.waves[1], tone));
        let first = first.received::<F>();
        render_pair::<F>(additive, first, second, block.frames, &mut buffers.out);
        true
    }

    fn render_four<F: Family>(&mut self, i: usize, slot: Option<usize>, block: &Block) -> bool {
        let [channel, _, _, partner] = &mut self.channels[i..i + 4] else {
            return false;
        };
        let buffers = &mut self.buffers;
        let first = slot.map_or(&ZERO, |slot| &buffers.firsts[slot]);
        let [second, third, fourth] = &mut buffers.others;
        let sources = [
            (channel.waves[1], block.tone(channel, 1, second)),
            (partner.waves[0], block.tone(partner, 0, third)),
            (partner.waves[1], block.tone(partner, 1, fourth)),
        ];
        let algorithm = u8::from(channel.additive) | u8::from(partner.additive) << 1;
        render_four::<F>(
            algorithm,
            first.values(),
            sources,
            block.frames,
            &mut buffers.out,
        );
        true
    }

    /// Renders all drum operators except the first one of the bass drum.
    ///
    /// We render silent ones as well, because the phases of the drums affect each other.
    fn render_drums<F: Family>(&mut self, block: &Block) {
        let Buffers {
            drums,
            halves,
            noise,
            ..
        } = &mut self.buffers;
        for (drum, (channel, k)) in drums.iter_mut().zip(DRUMS) {
            block.render(&mut self.channels[channel], k, drum);
        }
        rhythm::halves(&drums[F::HAT_PHASE], &drums[4], block.frames, halves);
        self.noise.run(block.frames, noise);
    }

    fn connect_drums<F: Family>(&mut self, i: usize, plan: Plan, frames: usize) -> bool {
        let (heard, outputs) = (self.voice_mask, self.outputs(i));
        let channel = &self.channels[i];
        let Buffers {
            firsts,
            drums,
            halves,
            noise,
            out,
            ..
        } = &mut self.buffers;
        let pair_of = |first: usize, bits: [u8; 2]| {
            let heard = |k: usize| if heard.drum(bits[k]) { -1 } else { 0 };
            [
                (channel.waves[0], &drums[first], heard(0)),
                (channel.waves[1], &drums[first + 1], heard(1)),
            ]
        };
        match (channel.role, plan) {
            (Role::HatAndSnare, _) => {
                rhythm::hat_and_snare::<F>(pair_of(1, [0, 3]), (halves, noise), frames, out);
            }
            (Role::TomAndCymbal, _) => {
                rhythm::tom_and_cymbal::<F>(pair_of(3, [2, 1]), halves, frames, out);
            }
            (_, Plan::Whole(slot)) => {
                let first = slot
                    .filter(|_| !channel.additive)
                    .map_or(&ZERO, |slot| &firsts[slot]);
                render_pair::<F>(
                    false,
                    first.values(),
                    (channel.waves[1], &drums[0]),
                    frames,
                    out,
                );
                rhythm::bass_drum(out, frames);
            }
            _ => return false,
        }
        channel.active && outputs != 0
    }

    fn end(&mut self, frames: usize) {
        self.clock.advance(frames);
        self.lfo.advance(frames);
        self.to_prepare -= frames;
        if self.timer.advance(frames) {
            for channel in 0..CHANNELS {
                self.set_keys(channel, key::CSM, 15);
            }
            self.written = true;
            self.csm_pressed = true;
        }
    }
}
