//! Converts native frames of one chip to output frames and adds them directly to the mix.

use std::sync::Arc;

use super::kernel::{CHUNK, Kernel, ONE};
use crate::simd;

/// The number of output frames whose positions are computed before their sums.
const PLACES: usize = 64;

/// The position of an output frame.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The index of the first chunk of coefficients of the output frame's phase.
    row: u32,
    /// The first of the native frames that contribute to the output frame, as an index into the
    /// held frames.
    at: u32,
}

/// Resamples the frames of one chip, and holds only native frames that later output frames need.
///
/// Output frame `k` lies at native frame `k × native / output`. The position is exact, because we
/// keep it as a whole number and an integer fraction. The kernel is centred on the position, so it
/// causes no delay. Before the first native frame there is silence.
#[derive(Debug, Clone)]
pub struct Resampler {
    kernel: Arc<Kernel>,
    /// The number of native frames to advance per output frame: `step`, and `step_part` of `parts`.
    step: usize,
    step_part: u64,
    parts: u64,
    /// The number of phases of the kernel per part, times 2^64, or 0 if each part is a phase.
    phases_a_part: u64,
    /// The index of the only tap that is not 0, if each output frame is a copy of a native one.
    same: Option<usize>,
    /// The position of the next output frame between two native frames, in `parts` of a native
    /// frame.
    part: u64,
    /// The native frames, starting with the first one that the next output frame needs.
    left: Vec<i16>,
    right: Vec<i16>,
    /// The number of held native frames that are known to be silent, counted from the last.
    silent: usize,
    /// The number of held native frames with equal sides, counted from the last.
    alike: usize,
}

impl Resampler {
    /// Creates a resampler that advances `native / output` native frames per output frame, a ratio
    /// in lowest terms.
    ///
    /// # Panics
    ///
    /// Panics if either number is 0.
    pub fn new(kernel: Arc<Kernel>, native: u64, output: u64) -> Self {
        assert!(native > 0 && output > 0, "rates must be above 0");
        let phases = kernel.phases();
        let history = kernel.taps() / 2 - 1;
        let alone = |row: &[i16]| row.iter().filter(|tap| **tap != 0).count() == 1;
        Resampler {
            same: (native == output && alone(kernel.row(0))).then_some(history),
            step: (native / output) as usize,
            step_part: native % output,
            parts: output,
            phases_a_part: if phases == output {
                0
            } else {
                ((u128::from(phases) << 64) / u128::from(output)) as u64
            },
            part: 0,
            left: vec![0; history],
            right: vec![0; history],
            silent: history,
            alike: history,
            kernel,
        }
    }

    /// Returns the number of native frames to push before `frames` output frames can be mixed.
    pub fn wanted(&self, frames: usize) -> usize {
        let Some(last) = frames.checked_sub(1) else {
            return 0;
        };
        let (whole, _) = self.place(last);
        let (next, _) = self.place(frames);
        (whole + self.kernel.taps())
            .max(next)
            .saturating_sub(self.left.len())
    }

    /// Adds native frames. We clip values beyond 16 bits, as most converters of the chips do.
    pub fn push(&mut self, frames: &[[i32; 2]]) {
        let narrow = |value: i32| value.clamp(-0x8000, 0x7FFF) as i16;
        let held = self.left.len();
        self.left.resize(held + frames.len(), 0);
        self.right.resize(held + frames.len(), 0);
        let sides = self.left[held..].iter_mut().zip(&mut self.right[held..]);
        let (mut bits, mut differences) = (0, 0);
        for ((left, right), frame) in sides.zip(frames) {
            (*left, *right) = (narrow(frame[0]), narrow(frame[1]));
            bits |= frame[0] | frame[1];
            differences |= frame[0] ^ frame[1];
        }
        let counted = |none, before: usize| if none { before + frames.len() } else { 0 };
        self.silent = counted(bits == 0, self.silent);
        self.alike = counted(differences == 0, self.alike);
    }

    /// Adds the next `mix.len()` output frames to `mix`. `gain` is the level of a native step in
    /// the mix, divided by [`ONE`].
    ///
    /// # Panics
    ///
    /// Panics if fewer native frames were pushed than [`Resampler::wanted`] returned.
    pub fn mix(&mut self, gain: f32, mix: &mut [[f32; 2]]) {
        let start = if self.silent >= self.left.len() {
            self.skip(mix.len())
        } else {
            match self.kernel.taps() {
                _ if self.same.is_some() => self.copy(gain, mix),
                2 => self.sum::<2>(gain, mix),
                _ => self.sum::<CHUNK>(gain, mix),
            }
        };
        self.left.drain(..start);
        self.right.drain(..start);
        self.silent = self.silent.min(self.left.len());
        self.alike = self.alike.min(self.left.len());
    }

    /// Adds native frames to `mix` if each output frame is a copy of a native one. Returns the
    /// start of the next output frame.
    ///
    /// The bits are those that the sum of the products would have.
    fn copy(&self, gain: f32, mix: &mut [[f32; 2]]) -> usize {
        let from = self.same.unwrap_or(0);
        let sides = self.left[from..].iter().zip(&self.right[from..]);
        for (out, (left, right)) in mix.iter_mut().zip(sides) {
            out[0] += (i32::from(*left) * ONE) as f32 * gain;
            out[1] += (i32::from(*right) * ONE) as f32 * gain;
        }
        mix.len()
    }

    /// Advances without mixing, and returns the start of the next output frame.
    fn skip(&mut self, frames: usize) -> usize {
        let (at, part) = self.place(frames);
        self.part = part;
        at
    }

    /// Returns the position of the output frame `frames` after the next one, as an index into the
    /// held native frames and a part.
    fn place(&self, frames: usize) -> (usize, u64) {
        let narrow = self.step_part.checked_mul(frames as u64);
        let (whole, part) = match narrow.and_then(|parts| parts.checked_add(self.part)) {
            Some(parts) => (parts / self.parts, parts % self.parts),
            None => {
                let parts = u128::from(self.part) + frames as u128 * u128::from(self.step_part);
                let all = u128::from(self.parts);
                ((parts / all) as u64, (parts % all) as u64)
            }
        };
        (frames * self.step + whole as usize, part)
    }

    /// Adds the sums of products to `mix`, and returns the start of the next output frame.
    fn sum<const CHUNK: usize>(&mut self, gain: f32, mix: &mut [[f32; 2]]) -> usize {
        let mono = self.alike >= self.left.len();
        let chunks = self.kernel.taps() / CHUNK;
        let mut at = 0;
        for mix in mix.chunks_mut(PLACES) {
            let mut places = [Place::default(); PLACES];
            for place in &mut places[..mix.len()] {
                place.row = (self.phase(self.part) * chunks) as u32;
                place.at = at as u32;
                at += self.step;
                self.part += self.step_part;
                if self.part >= self.parts {
                    self.part -= self.parts;
                    at += 1;
                }
            }
            let places = &places[..mix.len()];
            if mono {
                let sums = self.sums::<CHUNK, 1>([&self.left], places);
                for (out, [sum]) in mix.iter_mut().zip(sums) {
                    let sample = sum as f32 * gain;
                    out[0] += sample;
                    out[1] += sample;
                }
            } else {
                let sums = self.sums::<CHUNK, 2>([&self.left, &self.right], places);
                let both = mix.as_flattened_mut().iter_mut();
                for (out, sum) in both.zip(sums.as_flattened()) {
                    *out += *sum as f32 * gain;
                }
            }
        }
        at
    }

    /// Returns the sums of each side's products at each of `places`, which are at most [`PLACES`].
    fn sums<const CHUNK: usize, const SIDES: usize>(
        &self,
        sides: [&[i16]; SIDES],
        places: &[Place],
    ) -> [[i32; SIDES]; PLACES] {
        let rows = self.kernel.rows::<CHUNK>();
        let mut sums = [[0; SIDES]; PLACES];
        for chunk in 0..self.kernel.taps() / CHUNK {
            let (rows, sides) = (&rows[chunk..], sides.map(|side| &side[chunk * CHUNK..]));
            let rows = |place: usize| {
                let place = &places[place];
                let frames = sides.map(|side| {
                    let frames = side[place.at as usize..].first_chunk();
                    frames.expect("every tap must have a native frame")
                });
                (&rows[place.row as usize], frames)
            };
            simd::add_products(rows, &mut sums[..places.len()]);
        }
        sums
    }

    /// Returns the phase nearest to a part.
    fn phase(&self, part: u64) -> usize {
        if self.phases_a_part == 0 {
            return part as usize;
        }
        let place = u128::from(part) * u128::from(self.phases_a_part);
        ((place + (1 << 63)) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::kernel::{ONE, Quality};

    const RATIO: (u64, u64) = (5000, 3969);

    fn resampler(quality: Quality, ratio: (u64, u64)) -> Resampler {
        let kernel = Arc::new(Kernel::new(quality, ratio.0, ratio.1));
        Resampler::new(kernel, ratio.0, ratio.1)
    }

    /// Returns output frames of a signal, rendered in blocks of `block`.
    fn run(
        quality: Quality,
        ratio: (u64, u64),
        block: usize,
        signal: impl Fn(usize) -> i32,
    ) -> Vec<[f32; 2]> {
        let mut resampler = resampler(quality, ratio);
        let mut out = vec![[0.0; 2]; 3000];
        let mut at = 0;
        for mix in out.chunks_mut(block) {
            let wanted = resampler.wanted(mix.len());
            let native: Vec<_> = (at..at + wanted).map(|n| [signal(n), -signal(n)]).collect();
            at += wanted;
            resampler.push(&native);
            resampler.mix(1.0 / ONE as f32, mix);
        }
        out
    }

    #[test]
    fn resampler_preserves_the_phase_of_a_sine() {
        let sine = |x: f64| 20_000.0 * (x * 0.05).sin();
        for (quality, ratio, error) in [
            (Quality::BandLimited, RATIO, 30.0),
            (Quality::BandLimited, (625, 441), 30.0),
            (Quality::BandLimited, (625, 1764), 30.0),
            (Quality::BandLimited, (40, 7), 60.0),
            (Quality::Linear, RATIO, 40.0),
        ] {
            let out = run(quality, ratio, 256, |n| sine(n as f64).round() as i32);
            for (k, frame) in out.iter().enumerate().skip(200) {
                let expected = sine(k as f64 * ratio.0 as f64 / ratio.1 as f64);
                let got = f64::from(frame[0]);
                assert!((got - expected).abs() < error, "{k}: {got} {expected}");
                assert_eq!(frame[1], -frame[0]);
            }
        }
    }

    #[test]
    fn equal_rates_copy_frames_unchanged() {
        let noise = |n: usize| ((n as u32).wrapping_mul(0x9E37_79B9) >> 17) as i32 - 0x4000;
        for quality in [Quality::BandLimited, Quality::Linear] {
            let copied = run(quality, (1, 1), 256, noise);
            assert!(
                (0..)
                    .zip(&copied)
                    .all(|(n, frame)| frame[0] == noise(n) as f32)
            );
            let mut summed = resampler(quality, (1, 1));
            assert!(summed.same.take().is_some());
            let native: Vec<_> = (0..summed.wanted(900)).map(|n| [noise(n); 2]).collect();
            let mut out = vec![[0.0; 2]; 900];
            summed.push(&native);
            summed.mix(1.0 / ONE as f32, &mut out);
            assert!(out.iter().zip(&copied).all(|(a, b)| a[0] == b[0]));
        }
    }

    #[test]
    fn mono_fast_path_matches_stereo() {
        let sine = |n: usize| (9_000.0 * (n as f64 * 0.07).sin()) as i32;
        let mut both = resampler(Quality::BandLimited, RATIO);
        let mut left = resampler(Quality::BandLimited, RATIO);
        let (mut mono, mut stereo) = (vec![[0.0; 2]; 900], vec![[0.0; 2]; 900]);
        let frames: Vec<_> = (0..both.wanted(900)).map(|n| [sine(n); 2]).collect();
        both.push(&frames);
        left.push(&frames.iter().map(|frame| [frame[0], 0]).collect::<Vec<_>>());
        both.mix(1.0, &mut mono);
        left.mix(1.0, &mut stereo);
        for (mono, stereo) in mono.iter().zip(&stereo) {
            assert_eq!((mono[0], mono[1]), (stereo[0], stereo[0]));
        }
    }

    #[test]
    fn output_is_independent_of_block_size() {
        let noise = |n: usize| ((n as u32).wrapping_mul(0x9E37_79B9) >> 17) as i32 - 0x4000;
        let burst = |n: usize| if n % 1000 < 300 { noise(n) } else { 0 };
        for ratio in [RATIO, (625, 441), (625, 1764), (3, 1), (1, 1)] {
            for quality in [Quality::BandLimited, Quality::Linear] {
                let whole = run(quality, ratio, 3000, burst);
                for block in [1, 7, 256, 1024] {
                    assert!(
                        run(quality, ratio, block, burst) == whole,
                        "{block} {ratio:?}"
                    );
                }
            }
        }
    }
}
