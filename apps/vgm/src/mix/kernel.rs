//! The coefficients of the resampler, by phase.
//!
//! | | pass band | stop band |
//! |---|---|---|
//! | band-limited, 55.5 kHz to 44.1 kHz | to 18.8 kHz, ±0.02 dB | from 25.3 kHz, -60 dB |
//! | band-limited, 62.5 kHz to 44.1 kHz | to 18.4 kHz, ±0.02 dB | from 25.7 kHz, -60 dB |
//! | band-limited, 15.6 kHz to 44.1 kHz | to 6.9 kHz, ±0.02 dB | from 8.7 kHz, -60 dB |
//! | linear | 1 dB down at 0.19 of the native rate | none |
//!
//! The band-limited kernel is a sinc with its cutoff at half the lower rate, under Kaiser's window
//! for 60 dB. Frequencies between the pass band and the stop band alias only to frequencies between
//! the pass band and half the output rate.
//!
//! Coefficients have 14 fraction bits, and they sum to exactly one in each phase. Phases are exact
//! if the ratio of the rates has at most 1024 of them. Otherwise we use the nearest of 1024 phases,
//! which causes an error below -70 dB at 10 kHz.
//!
//! Source: Kaiser, "Nonrecursive digital filter design using the I0-sinh window function" (1974).

use std::f64::consts::PI;

/// The interpolation between native frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Quality {
    /// A polyphase low-pass of at least 32 taps.
    #[default]
    BandLimited,
    /// A straight line between neighbours. It is meant for comparison, because it has no stop band
    /// and therefore aliases.
    Linear,
}

/// The value of one in the coefficients.
pub const ONE: i32 = 1 << 14;

/// The number of taps that are multiplied at once. The length of a band-limited kernel is a
/// multiple of it.
pub const CHUNK: usize = 32;

const PHASES_MAX: u64 = 1024;
/// The shape parameter of Kaiser's window for a stop band of 60 dB.
const BETA: f64 = 5.65;
/// The largest number of native frames per output frame for which a kernel of one chunk is steep
/// enough. Higher ratios need more chunks.
const RATIO_A_CHUNK: f64 = 1.5;
const CHUNKS_MAX: usize = 64;

/// A table of coefficients, with one row of taps per phase.
#[derive(Debug, Clone)]
pub struct Kernel {
    taps: usize,
    phases: u64,
    coefficients: Vec<i16>,
}

impl Kernel {
    /// Creates the kernel for `native` / `output` frames, a ratio in lowest terms.
    pub fn new(quality: Quality, native: u64, output: u64) -> Self {
        let ratio = native as f64 / output as f64;
        let taps = match quality {
            Quality::Linear => 2,
            Quality::BandLimited => {
                let chunks = (ratio / RATIO_A_CHUNK).ceil() as usize;
                CHUNK * chunks.clamp(1, CHUNKS_MAX)
            }
        };
        let phases = output.min(PHASES_MAX);
        let cutoff = (1.0 / ratio).min(1.0);
        let shape = |x: f64| match quality {
            Quality::Linear => (1.0 - x.abs()).max(0.0),
            Quality::BandLimited => cutoff * sinc(cutoff * x) * kaiser(2.0 * x / taps as f64),
        };
        // We need one more row, for positions that round up to the next frame.
        let rows = (0..=phases).map(|phase| row(taps, phase as f64 / phases as f64, shape));
        Kernel {
            taps,
            phases,
            coefficients: rows.flatten().collect(),
        }
    }

    /// Returns the number of native frames that contribute to one output frame.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Returns the number of phases between one native frame and the next.
    pub fn phases(&self) -> u64 {
        self.phases
    }

    /// Returns the coefficients of all phases, up to and including [`Kernel::phases`], in chunks of
    /// `TAPS`.
    pub fn rows<const TAPS: usize>(&self) -> &[[i16; TAPS]] {
        self.coefficients.as_chunks().0
    }

    /// Returns the coefficients of one phase.
    pub fn row(&self, phase: usize) -> &[i16] {
        &self.coefficients[phase * self.taps..][..self.taps]
    }
}

/// Returns the taps for a point `fraction` of the way from the middle tap to the next one.
///
/// We add the rounding error of the sum to the largest tap, so that the taps sum to exactly
/// [`ONE`].
fn row(taps: usize, fraction: f64, shape: impl Fn(f64) -> f64) -> Vec<i16> {
    let middle = (taps / 2 - 1) as f64;
    let exact: Vec<f64> = (0..taps)
        .map(|tap| shape(tap as f64 - middle - fraction))
        .collect();
    let sum: f64 = exact.iter().sum();
    let mut row: Vec<i16> = exact
        .iter()
        .map(|value| (value / sum * f64::from(ONE)).round() as i16)
        .collect();
    let rounded: i32 = row.iter().map(|value| i32::from(*value)).sum();
    let largest = taps / 2 - 1 + usize::from(fraction > 0.5);
    row[largest] += (ONE - rounded) as i16;
    row
}

fn sinc(x: f64) -> f64 {
    let angle = PI * x;
    if angle.abs() < 1e-9 {
        1.0
    } else {
        libm::sin(angle) / angle
    }
}

/// Returns Kaiser's window, which is 0 outside -1 to 1. It is not normalised.
fn kaiser(x: f64) -> f64 {
    let inside = 1.0 - x * x;
    if inside <= 0.0 {
        return 0.0;
    }
    let half = BETA * inside.sqrt() / 2.0;
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1.. {
        let factor = half / f64::from(n);
        term *= factor * factor;
        sum += term;
        if term < 1e-12 * sum {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the response of a whole kernel, all phases together, at `cycles` per native frame,
    /// in dB.
    fn response_db(kernel: &Kernel, cycles: f64) -> f64 {
        let phases = kernel.phases();
        let middle = (kernel.taps() / 2 - 1) as f64;
        let (mut re, mut im) = (0.0, 0.0);
        for phase in 0..phases {
            for (tap, value) in kernel.row(phase as usize).iter().enumerate() {
                let x = tap as f64 - middle - phase as f64 / phases as f64;
                let angle = 2.0 * PI * cycles * x;
                re += f64::from(*value) * angle.cos();
                im += f64::from(*value) * angle.sin();
            }
        }
        let unit = f64::from(ONE) * phases as f64;
        20.0 * (re.hypot(im) / unit).log10()
    }

    #[test]
    fn kernel_bands_match_the_documented_table() {
        for (native_hz, native, output, pass, stop) in [
            (55_555.6, 5000, 3969, 18_800.0, 25_300.0),
            (62_500.0, 625, 441, 18_400.0, 25_700.0),
            (15_625.0, 625, 1764, 6_900.0, 8_700.0),
        ] {
            let kernel = Kernel::new(Quality::BandLimited, native, output);
            for step in 0..50 {
                let hz = pass * f64::from(step) / 49.0;
                let db = response_db(&kernel, hz / native_hz);
                assert!(db.abs() < 0.02, "{native_hz}: {db:.3} dB at {hz:.0} Hz");
            }
            for step in 0..200 {
                let hz = stop + f64::from(step) * native_hz / 40.0;
                let db = response_db(&kernel, hz / native_hz);
                assert!(db < -60.0, "{native_hz}: {db:.1} dB at {hz:.0} Hz");
            }
        }
    }

    #[test]
    fn kernel_phases_sum_to_one_and_cannot_overflow() {
        for (native, output) in [(625, 441), (5000, 3969), (625, 1764), (7, 1), (1, 9)] {
            for quality in [Quality::BandLimited, Quality::Linear] {
                let kernel = Kernel::new(quality, native, output);
                for phase in 0..=kernel.phases() {
                    let row = kernel.row(phase as usize);
                    let sum: i32 = row.iter().map(|value| i32::from(*value)).sum();
                    let size: i64 = row.iter().map(|value| i64::from(value.abs())).sum();
                    assert_eq!(sum, ONE);
                    assert!(size * 32768 < i64::from(i32::MAX), "{native}/{output}");
                }
            }
        }
    }
}
