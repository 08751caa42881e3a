//! The algorithms of a channel, which connect its operators. These are the inner loops.
//!
//! | operators | algorithm | |
//! |---|---|---|
//! | 2 | 0 | 1 → 2 |
//! | 2 | 1 | 1 + 2 |
//! | 4 | 0 | 1 → 2 → 3 → 4 |
//! | 4 | 1 | 1 + (2 → 3 → 4) |
//! | 4 | 2 | (1 → 2) + (3 → 4) |
//! | 4 | 3 | 1 + (2 → 3) + 4 |
//!
//! Operator 1 can modulate itself with its last two values, so its frames depend on each other. We
//! compute the first operators of several channels in parallel.
//!
//! Source: YM3812 and YMF262 application manuals.

use crate::chips::fm::algorithms::{Feedback, tone};
use crate::chips::fm::operator::{BLOCK, Tone};
use crate::chips::fm::tables::Waveform;

/// One value, 14 bits signed, for each frame of a block.
pub type Values = [i16; BLOCK];

/// The differences between the chips after decoding the registers.
pub trait Family {
    /// Whether the output of an operator reaches the operator that it modulates one frame later.
    const DELAY: bool;
    /// The number of bits dropped from each operator before the sum.
    const DROPPED: u32;
    /// The largest sum of two operators. The smallest is `-LIMIT - 1`.
    const LIMIT: i32;
    /// The operator whose phase is combined with that of channel 8's second operator for the hi-hat
    /// and the cymbal. It is counted from the second operator of channel 6.
    const HAT_PHASE: usize;
}

/// The values of an operator 1, preceded by the last value before the block.
#[derive(Clone, Debug)]
pub struct First([i16; BLOCK + 1]);

impl First {
    /// Values that are all zeros.
    pub const ZERO: Self = Self([0; BLOCK + 1]);

    /// Returns the values of the block.
    pub fn values(&self) -> &Values {
        self.0
            .last_chunk()
            .expect("the array must be one longer than a block")
    }

    /// Returns the values of the block as the chip's operator 2 receives them.
    pub fn received<F: Family>(&self) -> &Values {
        if F::DELAY {
            self.0
                .first_chunk()
                .expect("the array must be one longer than a block")
        } else {
            self.values()
        }
    }

    /// Returns the last value of a block of `frames`, and the one before.
    pub fn last(&self, frames: usize) -> [i16; 2] {
        [self.0[frames], self.0[frames - 1]]
    }
}

/// The parameters of an operator 1 to be computed.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// The waveform.
    pub wave: &'static Waveform,
    /// The feedback memory and the feedback level.
    pub feedback: Feedback,
}

/// Computes the frames from `from` to `frames` of an operator 1 without feedback.
pub fn render_without_feedback(
    lane: &Lane,
    source: &Tone,
    from: usize,
    frames: usize,
    out: &mut First,
) {
    out.0[0] = lane.feedback.last[0];
    for i in from..frames.min(BLOCK) {
        out.0[i + 1] = tone(lane.wave, source.phase[i], 0, source.attenuation[i]) as i16;
    }
}

/// Computes `frames` of several first operators with feedback in parallel.
pub fn render_feedback(lanes: &[Lane], sources: &[Tone], frames: usize, out: &mut [First]) {
    let mut at = 0;
    while at < lanes.len() {
        let (lanes, sources, out) = (&lanes[at..], &sources[at..], &mut out[at..]);
        at += match lanes.len() {
            4.. => feedback_lanes::<4>(lanes, sources, frames, out),
            3 => feedback_lanes::<3>(lanes, sources, frames, out),
            2 => feedback_lanes::<2>(lanes, sources, frames, out),
            _ => feedback_lanes::<1>(lanes, sources, frames, out),
        };
    }
}

fn feedback_lanes<const LANES: usize>(
    lanes: &[Lane],
    sources: &[Tone],
    frames: usize,
    out: &mut [First],
) -> usize {
    let (Some(lanes), Some(sources), Some(out)) = (
        lanes.first_chunk::<LANES>(),
        sources.first_chunk::<LANES>(),
        out.first_chunk_mut::<LANES>(),
    ) else {
        return LANES;
    };
    let mut last = lanes.map(|lane| lane.feedback.last.map(i32::from));
    let shift = lanes.map(|lane| 10 - u32::from(lane.feedback.level & 7));
    for k in 0..LANES {
        out[k].0[0] = lanes[k].feedback.last[0];
    }
    for i in 0..frames.min(BLOCK) {
        for k in 0..LANES {
            let [new, old] = last[k];
            let (phase, attenuation) = (sources[k].phase[i], sources[k].attenuation[i]);
            let value = tone(lanes[k].wave, phase, (new + old) >> shift[k], attenuation);
            last[k] = [value, new];
            out[k].0[i + 1] = value as i16;
        }
    }
    LANES
}

/// Computes `frames` of operator 2. `first` modulates it, or is added to it if `additive` is set.
pub fn render_pair<F: Family>(
    additive: bool,
    first: &Values,
    (wave, second): (&Waveform, &Tone),
    frames: usize,
    out: &mut Values,
) {
    let at = |i: usize, by: i16| {
        tone(
            wave,
            second.phase[i],
            i32::from(by >> 1),
            second.attenuation[i],
        ) >> F::DROPPED
    };
    if additive {
        for i in 0..frames.min(BLOCK) {
            out[i] = (first[i] >> F::DROPPED) + at(i, 0) as i16;
        }
    } else {
        for i in 0..frames.min(BLOCK) {
            out[i] = at(i, first[i]) as i16;
        }
    }
}

/// Computes `frames` of a channel of four operators from the values of its first operator and the
/// waveforms and tones of the others.
pub fn render_four<F: Family>(
    algorithm: u8,
    first: &Values,
    others: [(&Waveform, &Tone); 3],
    frames: usize,
    out: &mut Values,
) {
    let kernel = match algorithm & 3 {
        0 => four_connected::<0, F>,
        1 => four_connected::<1, F>,
        2 => four_connected::<2, F>,
        _ => four_connected::<3, F>,
    };
    kernel(first, others, frames, out);
}

fn four_connected<const ALGORITHM: u8, F: Family>(
    first: &Values,
    others: [(&Waveform, &Tone); 3],
    frames: usize,
    out: &mut Values,
) {
    let at = |operator: usize, i: usize, by: i32| {
        let (wave, source) = others[operator];
        tone(wave, source.phase[i], by >> 1, source.attenuation[i])
    };
    for i in 0..frames.min(BLOCK) {
        let one = i32::from(first[i]);
        let two = at(0, i, if matches!(ALGORITHM, 0 | 2) { one } else { 0 });
        let three = at(1, i, if ALGORITHM == 2 { 0 } else { two });
        let four = at(2, i, if ALGORITHM == 3 { 0 } else { three });
        let parallel = match ALGORITHM {
            0 => 0,
            1 => one,
            2 => two,
            _ => (one >> F::DROPPED) + (three >> F::DROPPED),
        };
        let parallel = if ALGORITHM == 3 {
            parallel
        } else {
            parallel >> F::DROPPED
        };
        out[i] = (parallel + (four >> F::DROPPED)) as i16;
    }
}
