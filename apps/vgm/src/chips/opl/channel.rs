//! A channel of two operators, and how one of them is run through a block.

use super::waves::WAVES;
use crate::chips::fm::algorithms::Feedback;
use crate::chips::fm::envelope::EnvelopeClock;
use crate::chips::fm::operator::{LfoSegment, Operator, Pitch, Tone};
use crate::chips::fm::tables::Waveform;

static OFF: Tone = Tone::OFF;

/// What a channel is at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Two operators of its own.
    #[default]
    Pair,
    /// Four operators: its own and those of the channel three further.
    Four,
    /// Without operators: they belong to the channel three before.
    Lent,
    /// Rhythm mode, channel 6.
    BassDrum,
    /// Rhythm mode, channel 7.
    HatAndSnare,
    /// Rhythm mode, channel 8.
    TomAndCymbal,
}

/// A channel of two operators.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The operators with their registers.
    pub operators: [Operator; 2],
    /// Their waveforms.
    pub waves: [&'static Waveform; 2],
    /// Whether the LFO moves their pitch.
    pub vibrato: [bool; 2],
    /// The memory of operator 1.
    pub feedback: Feedback,
    /// The connection bit: operator 1 is added, not modulating.
    pub additive: bool,
    /// Which outputs it goes to, a bit each.
    pub outputs: u8,
    /// What it is at present.
    pub role: Role,
    /// Whether it may be heard; as of the last look at the keys.
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

/// The frames of a block and what stands still in it.
#[derive(Clone)]
pub struct Block {
    /// How many frames.
    pub frames: usize,
    /// The attenuation that the LFO adds.
    pub am: u16,
    /// The vibrato, -8 to 8.
    pub pm: i32,
    /// The envelopes' clock at its start.
    pub clock: EnvelopeClock,
}

impl Block {
    fn stretch(&self, channel: &Channel, k: usize) -> LfoSegment {
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
        let stretch = self.stretch(channel, k);
        channel.operators[k].render(&self.clock, &[stretch], tone);
    }

    /// What may be heard of operator `k` of a channel, rendered into `tone`.
    pub fn tone<'a>(&self, channel: &mut Channel, k: usize, tone: &'a mut Tone) -> &'a Tone {
        if channel.operators[k].is_silent() {
            self.skip(channel, k);
            &OFF
        } else {
            self.render(channel, k, tone);
            tone
        }
    }

    /// Moves operator `k` of a channel on without a tone.
    pub fn skip(&self, channel: &mut Channel, k: usize) {
        let stretch = self.stretch(channel, k);
        channel.operators[k].skip(&self.clock, &[stretch]);
    }
}

/// The phase step of a pitch, of a block of 3 bits and a number of 10, under the vibrato.
fn phase_step(pitch: &Pitch, pm: i32) -> u32 {
    let block_freq = u32::from(pitch.block_freq);
    let number = (block_freq & 0x3ff) << 2;
    let bend = (pm * (block_freq >> 7 & 7) as i32) >> 1;
    let number = number.wrapping_add_signed(bend) & 0xfff;
    let step = number << (block_freq >> 10 & 7) >> 2;
    (step * u32::from(pitch.multiple)) >> 1
}
