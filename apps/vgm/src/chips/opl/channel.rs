//! A channel of two operators, and how to run its operators through a block.

use super::waves::WAVES;
use crate::chips::fm::algorithms::Feedback;
use crate::chips::fm::envelope::EnvelopeClock;
use crate::chips::fm::operator::{LfoSegment, Operator, Pitch, Tone};
use crate::chips::fm::tables::Waveform;

static OFF: Tone = Tone::OFF;

/// The current role of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A channel with its own two operators.
    #[default]
    Pair,
    /// A channel with four operators: its own and those of the channel three numbers higher.
    Four,
    /// A channel whose operators belong to the channel three numbers lower.
    Lent,
    /// Channel 6 in rhythm mode.
    BassDrum,
    /// Channel 7 in rhythm mode.
    HatAndSnare,
    /// Channel 8 in rhythm mode.
    TomAndCymbal,
}

/// A channel of two operators.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The operators with their registers.
    pub operators: [Operator; 2],
    /// The waveforms of the operators.
    pub waves: [&'static Waveform; 2],
    /// Whether the LFO modulates the pitch of each operator.
    pub vibrato: [bool; 2],
    /// The feedback memory of operator 1.
    pub feedback: Feedback,
    /// The connection bit: whether operator 1 is added instead of modulating operator 2.
    pub additive: bool,
    /// The outputs of the channel, one bit per output.
    pub outputs: u8,
    /// The current role of the channel.
    pub role: Role,
    /// Whether the channel may be audible. It is updated when the chip samples its keys.
    pub active: bool,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            operators: Default::default(),
            waves: [&WAVES[0]; 2],
            vibrato: [false; 2],
            feedback: Feedback::default(),
            additive: false,
            outputs: 0,
            role: Role::Pair,
            active: false,
        }
    }
}

/// The frames of a block and the values that are constant in it.
#[derive(Clone)]
pub struct Block {
    /// The number of frames.
    pub frames: usize,
    /// The attenuation that the LFO adds.
    pub am: u16,
    /// The vibrato, -8 to 8.
    pub pm: i32,
    /// The clock of the envelopes at the start of the block.
    pub clock: EnvelopeClock,
}

impl Block {
    fn segment(&self, channel: &Channel, k: usize) -> LfoSegment {
        let pitch = &channel.operators[k].settings.pitch;
        let pm = if channel.vibrato[k] { self.pm } else { 0 };
        LfoSegment {
            frames: self.frames,
            step: phase_step(pitch, pm),
            am: self.am,
        }
    }

    /// Renders operator `k` of a channel into `tone`.
    pub fn render(&self, channel: &mut Channel, k: usize, tone: &mut Tone) {
        let segment = self.segment(channel, k);
        channel.operators[k].render(&self.clock, &[segment], tone);
    }

    /// Renders operator `k` of a channel into `tone` and returns it, or returns a silent tone.
    pub fn tone<'a>(&self, channel: &mut Channel, k: usize, tone: &'a mut Tone) -> &'a Tone {
        if channel.operators[k].is_silent() {
            self.skip(channel, k);
            &OFF
        } else {
            self.render(channel, k, tone);
            tone
        }
    }

    /// Advances operator `k` of a channel without computing a tone.
    pub fn skip(&self, channel: &mut Channel, k: usize) {
        let segment = self.segment(channel, k);
        channel.operators[k].skip(&self.clock, &[segment]);
    }
}

/// Returns the phase step of a pitch with vibrato. The pitch has a block of 3 bits and a number of
/// 10.
fn phase_step(pitch: &Pitch, pm: i32) -> u32 {
    let block_freq = u32::from(pitch.block_freq);
    let number = (block_freq & 0x3ff) << 2;
    let bend = (pm * (block_freq >> 7 & 7) as i32) >> 1;
    let number = number.wrapping_add_signed(bend) & 0xfff;
    let step = number << (block_freq >> 10 & 7) >> 2;
    (step * u32::from(pitch.multiple)) >> 1
}
