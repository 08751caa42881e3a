//! The algorithms of a channel, which connect its four operators. These are the inner loops.
//!
//! Operator 1 can modulate itself with its last two values, so its frames depend on each other. We
//! compute the first operators of several channels in parallel, because then the latency of one
//! hides the latency of the others. Everything else in a channel depends on the same frame only. It
//! is one loop whose algorithm is fixed at compile time.
//!
//! | algorithm | |
//! |---|---|
//! | 0 | 1 → 2 → 3 → 4 |
//! | 1 | (1 + 2) → 3 → 4 |
//! | 2 | (1 + (2 → 3)) → 4 |
//! | 3 | ((1 → 2) + 3) → 4 |
//! | 4 | (1 → 2) + (3 → 4) |
//! | 5 | (1 → 2) + (1 → 3) + (1 → 4) |
//! | 6 | (1 → 2) + 3 + 4 |
//! | 7 | 1 + 2 + 3 + 4 |
//!
//! Source: the YM2151 and YM2608 application manuals; operators are numbered in the order of their
//! computation.

use super::operator::{BLOCK, Tone};
use super::tables::{PERIOD, SIGN, SINE, VOLUME, Waveform};
use crate::simd::{self, Loop};

/// One value, 14 bits signed, for each frame of a block.
pub type Values = [i16; BLOCK];

/// The carriers of each algorithm. Operator 1 is bit 0.
pub const CARRIERS: [u8; 8] = [8, 8, 8, 8, 0b1010, 0b1110, 0b1110, 0b1111];

/// The way in which a chip reduces the width of an operator's value before adding it.
pub trait OutputWidth {
    /// The number of bits dropped from each operator.
    const DROPPED: u32;
    /// The largest sum of a channel, if the chip limits it.
    const LIMIT: Option<i32>;
}

/// OPM and OPN: the chip adds all 14 bits of each operator. The sum has no limit, because it has
/// room for four operators at their loudest.
#[derive(Clone)]
pub struct FullWidth;

impl OutputWidth for FullWidth {
    const DROPPED: u32 = 0;
    const LIMIT: Option<i32> = None;
}

/// OPNA and OPNB: each operator loses its lowest bit.
#[derive(Clone)]
pub struct ThirteenBits;

impl OutputWidth for ThirteenBits {
    const DROPPED: u32 = 1;
    const LIMIT: Option<i32> = None;
}

/// OPN2: each operator loses its five lowest bits, and the sum of a channel is limited.
#[derive(Clone)]
pub struct NineBits;

impl OutputWidth for NineBits {
    const DROPPED: u32 = 5;
    const LIMIT: Option<i32> = Some(256);
}

/// The number of frames that are added at once, even if fewer are needed.
const SUMMED: usize = 16;

/// The sum of channels over a block.
///
/// Left and right are separate arrays, so that we can add whole vectors. Most channels go to both
/// sides. We add these only once, to a third array.
#[derive(Clone)]
pub struct Sums {
    sides: [[i32; BLOCK]; 2],
    both: [i32; BLOCK],
    /// Whether any channel goes to one side only.
    apart: bool,
    /// The number of frames in use, rounded up to a whole vector.
    frames: usize,
}

impl Sums {
    /// Creates sums of `frames` frames, at most [`BLOCK`], that start from `base`.
    pub fn new(frames: usize, base: i32) -> Self {
        Self {
            sides: [[0; BLOCK]; 2],
            both: [base; BLOCK],
            apart: false,
            frames: frames.next_multiple_of(SUMMED).min(BLOCK),
        }
    }

    /// Adds a channel to the sides in `outputs`. `shape` is applied to each value.
    #[inline(always)]
    pub fn add(&mut self, outputs: [bool; 2], values: &Values, shape: impl Fn(i32) -> i32) {
        let sums = match outputs {
            [true, true] => &mut self.both,
            [true, false] => &mut self.sides[0],
            [false, true] => &mut self.sides[1],
            [false, false] => return,
        };
        self.apart |= outputs != [true; 2];
        simd::run(Addition {
            sums: &mut sums[..self.frames],
            values,
            shape,
        });
    }

    /// Overwrites the frames of a block. `shape` is applied to each sum.
    #[inline(always)]
    pub fn write(&self, block: &mut [[i32; 2]], shape: impl Fn(i32) -> i32) {
        let sums = self;
        simd::run(Output { sums, block, shape });
    }
}

struct Addition<'a, S> {
    sums: &'a mut [i32],
    values: &'a Values,
    shape: S,
}

impl<S: Fn(i32) -> i32> Loop for Addition<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, &value) in self.sums.iter_mut().zip(self.values) {
            *sum += (self.shape)(i32::from(value));
        }
    }
}

struct Output<'a, S> {
    sums: &'a Sums,
    block: &'a mut [[i32; 2]],
    shape: S,
}

impl<S: Fn(i32) -> i32> Loop for Output<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sums { sides, both, .. } = self.sums;
        if !self.sums.apart {
            for (frame, both) in self.block.iter_mut().zip(both) {
                *frame = [(self.shape)(*both); 2];
            }
            return;
        }
        let sides = sides[0].iter().zip(&sides[1]);
        for ((frame, both), (left, right)) in self.block.iter_mut().zip(both).zip(sides) {
            *frame = [(self.shape)(both + left), (self.shape)(both + right)];
        }
    }
}

/// Returns the value of one operator in one frame.
#[inline(always)]
pub fn tone(wave: &Waveform, phase: u16, modulation: i32, attenuation: u16) -> i32 {
    let index = (i32::from(phase) + modulation) as usize % PERIOD;
    let level = wave[index] + attenuation;
    i32::from(VOLUME[usize::from(level) % (2 * SIGN as usize)])
}

/// The feedback state of one channel's operator 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feedback {
    /// The last value and the one before.
    pub last: [i16; 2],
    /// The feedback level in the register, 0 to 7.
    pub level: u8,
}

/// Computes `frames` of operator 1 without feedback.
pub fn render_without_feedback(source: &Tone, frames: usize, out: &mut Values) {
    for (i, value) in out.iter_mut().enumerate().take(frames) {
        *value = tone(&SINE, source.phase[i], 0, source.attenuation[i]) as i16;
    }
}

/// Computes `frames` of the first operators of several channels in parallel.
pub fn render_feedback(
    lanes: &mut [Feedback],
    sources: &[Tone],
    frames: usize,
    out: &mut [Values],
) {
    let mut at = 0;
    while at < lanes.len() {
        let lanes = &mut lanes[at..];
        let (sources, out) = (&sources[at..], &mut out[at..]);
        at += match lanes.len() {
            8.. => feedback_lanes::<8>(lanes, sources, frames, out),
            7 => feedback_lanes::<7>(lanes, sources, frames, out),
            6 => feedback_lanes::<6>(lanes, sources, frames, out),
            5 => feedback_lanes::<5>(lanes, sources, frames, out),
            4 => feedback_lanes::<4>(lanes, sources, frames, out),
            3 => feedback_lanes::<3>(lanes, sources, frames, out),
            2 => feedback_lanes::<2>(lanes, sources, frames, out),
            _ => feedback_lanes::<1>(lanes, sources, frames, out),
        };
    }
}

fn feedback_lanes<const LANES: usize>(
    lanes: &mut [Feedback],
    sources: &[Tone],
    frames: usize,
    out: &mut [Values],
) -> usize {
    if let (Some(lanes), Some(sources), Some(out)) = (
        lanes.first_chunk_mut::<LANES>(),
        sources.first_chunk(),
        out.first_chunk_mut(),
    ) {
        simd::run(FeedBack {
            lanes,
            sources,
            frames,
            out,
        });
    }
    LANES
}

struct FeedBack<'a, const LANES: usize> {
    lanes: &'a mut [Feedback; LANES],
    sources: &'a [Tone; LANES],
    frames: usize,
    out: &'a mut [Values; LANES],
}

impl<const LANES: usize> Loop for FeedBack<'_, LANES> {
    type Output = ();

    #[expect(
        clippy::needless_range_loop,
        reason = "frame by frame across the lanes"
    )]
    #[inline(always)]
    fn run(self) {
        let FeedBack {
            lanes,
            sources,
            frames,
            out,
        } = self;
        let mut last = lanes.map(|lane| lane.last.map(i32::from));
        let shift = lanes.map(|lane| 10 - u32::from(lane.level & 7));
        for i in 0..frames.min(BLOCK) {
            for k in 0..LANES {
                let [new, old] = last[k];
                let (phase, attenuation) = (sources[k].phase[i], sources[k].attenuation[i]);
                let value = tone(&SINE, phase, (new + old) >> shift[k], attenuation);
                last[k] = [value, new];
                out[k][i] = value as i16;
            }
        }
        for (lane, last) in lanes.iter_mut().zip(last) {
            lane.last = last.map(|value| value as i16);
        }
    }
}

/// Computes `frames` of a channel from the values of its first operator and the tones of the other
/// three.
pub fn render_algorithm<W: OutputWidth>(
    algorithm: u8,
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) {
    #[cfg(target_arch = "x86_64")]
    if super::avx512::render_algorithm::<W>(algorithm, first, others, frames, out) {
        return;
    }
    render_algorithm_scalar::<W>(algorithm, first, others, frames, out);
}

/// The variant of [`render_algorithm`] for any processor.
fn render_algorithm_scalar<W: OutputWidth>(
    algorithm: u8,
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) {
    let kernel = match algorithm & 7 {
        0 => output::<0, W>,
        1 => output::<1, W>,
        2 => output::<2, W>,
        3 => output::<3, W>,
        4 => output::<4, W>,
        5 => output::<5, W>,
        6 => output::<6, W>,
        _ => output::<7, W>,
    };
    kernel(first, others, frames, out);
}

fn output<const ALGORITHM: u8, W: OutputWidth>(
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) {
    for (i, result) in out.iter_mut().enumerate().take(frames) {
        let sum = route::<ALGORITHM, i32>(
            i32::from(first[i]),
            0,
            |operator, modulation| {
                let source = others[operator];
                let (phase, attenuation) = (source.phase[i], source.attenuation[i]);
                tone(&SINE, phase, modulation >> 1, attenuation)
            },
            |a, b| a + b,
            |sum, value| {
                let value = value >> W::DROPPED;
                match (sum, W::LIMIT) {
                    (None, _) => value,
                    (Some(sum), None) => sum + value,
                    (Some(sum), Some(limit)) => (sum + value).clamp(-limit - 1, limit),
                }
            },
        );
        *result = sum as i16;
    }
}

/// Returns the value of a channel whose operator 1 has the value `one`.
///
/// - `at` returns the value of operator 2, 3 or 4, which have the indices 0, 1 and 2, for its
///   modulation.
/// - `plus` adds modulations.
/// - `carry` adds a carrier to the sum.
///
/// This function is generic, because we use it for single frames and for vectors of frames.
#[inline(always)]
pub fn route<const ALGORITHM: u8, T: Copy>(
    one: T,
    zero: T,
    at: impl Fn(usize, T) -> T,
    plus: impl Fn(T, T) -> T,
    carry: impl Fn(Option<T>, T) -> T,
) -> T {
    let two = at(
        0,
        if matches!(ALGORITHM, 0 | 3..=6) {
            one
        } else {
            zero
        },
    );
    let into_three = match ALGORITHM {
        0 | 2 => two,
        1 => plus(one, two),
        5 => one,
        _ => zero,
    };
    let three = at(1, into_three);
    let into_four = match ALGORITHM {
        0 | 1 | 4 => three,
        2 => plus(one, three),
        3 => plus(two, three),
        5 => one,
        _ => zero,
    };
    let mut sum = carry(None, at(2, into_four));
    for (operator, value) in [one, two, three].into_iter().enumerate() {
        if CARRIERS[ALGORITHM as usize] >> operator & 1 != 0 {
            sum = carry(Some(sum), value);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::chips::fm::avx512;
    use crate::chips::fm::tables::MAX_ATTENUATION;

    fn same<W: OutputWidth>(sources: [&Tone; 3], first: &Values) {
        for algorithm in 0..8 {
            for frames in [1, 31, 32, 33, BLOCK] {
                let mut plain = [0; BLOCK];
                render_algorithm_scalar::<W>(algorithm, first, sources, frames, &mut plain);
                #[cfg(target_arch = "x86_64")]
                for any in avx512::render_with_each_kernel::<W>(algorithm, first, sources, frames) {
                    assert_eq!(any[..frames], plain[..frames], "{algorithm} {frames}");
                }
            }
        }
    }

    #[test]
    fn every_simd_kernel_matches_the_scalar_loop() {
        for seed in 0..200u32 {
            let noise = |n: usize| {
                let mixed = (n as u32 + seed * 4096).wrapping_mul(0x9E37_79B9);
                (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA6B) >> 16
            };
            let loudest = [0, 0x100, 0x3ff][seed as usize % 3];
            let tone = |k: usize| Tone {
                phase: std::array::from_fn(|i| noise(1000 * k + i) as u16),
                attenuation: std::array::from_fn(|i| {
                    let level = noise(1000 * k + 500 + i) as u16 & MAX_ATTENUATION;
                    level.min(loudest) << 2
                }),
            };
            let first = std::array::from_fn(|i| ((noise(i) as i32 - 0x8000) >> 2) as i16);
            let first = first.map(|value: i16| value.clamp(-8168, 8168));
            let tones = [tone(1), tone(2), tone(3)];
            let tones = tones.each_ref();
            same::<FullWidth>(tones, &first);
            same::<ThirteenBits>(tones, &first);
            same::<NineBits>(tones, &first);
        }
    }
}
