//! Test signals that are cheap enough for hundreds of streams on one core, and exact over hours.
//!
//! The phase is a 64-bit fraction of a cycle. Each sample adds the same step to it, and it wraps
//! instead of growing. An old stream is therefore almost as exact as a new one. The only error is
//! that the step is rounded to 2⁻⁶⁴ of a cycle. After a day of 44,100 samples per second, the phase
//! is off by at most 2·10⁻¹⁰ cycles.
//!
//! We do not compute a sine for each sample. Instead, we compute one exact point, derive a row of
//! [`LANES`] points from it, and rotate the whole row from step to step. After at most [`ROWS`]
//! rotations we compute the next exact point, so that rounding errors do not add up. The lanes of a
//! row do not depend on each other, which lets the compiler use vector instructions.
//!
//! Left out: band limiting. Square and saw alias, which does not matter for a test signal.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

/// The number of points that are rotated at once. It fits the registers of SSE2.
const LANES: usize = 8;
/// The number of rows between two exact points. The rounding error of this many rotations in `f32`
/// stays below half a step of 16 bits.
const ROWS: usize = 32;

/// The shape of a test signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// A sine wave.
    #[default]
    Sine,
    /// Is at the highest value in one half of each cycle, and at the lowest value in the other
    /// half.
    Square,
    /// Rises from the lowest to the highest value in each cycle.
    Saw,
    /// Rises and falls at a constant slope.
    Triangle,
    /// White noise. The frequency is the seed, so the same frequency gives the same noise.
    Noise,
    /// Zeros.
    Silence,
}

const SHAPES: [(&str, Shape); 6] = [
    ("sine", Shape::Sine),
    ("square", Shape::Square),
    ("saw", Shape::Saw),
    ("triangle", Shape::Triangle),
    ("noise", Shape::Noise),
    ("silence", Shape::Silence),
];

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SHAPES.iter().find(|(name, _)| *name == text);
        found.map(|&(_, shape)| shape).ok_or_else(|| {
            let names: Vec<&str> = SHAPES.iter().map(|&(name, _)| name).collect();
            format!(
                "unknown shape `{text}`: expected one of {}",
                names.join(", ")
            )
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = SHAPES.iter().find(|(_, shape)| shape == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// An endless test signal.
///
/// ```
/// use creel_cast::{Shape, Tone};
///
/// let mut tone = Tone::new(Shape::Sine, 440.0, 44_100);
/// let mut buffer = [0_i16; 441];
/// tone.fill(&mut buffer);
/// assert_eq!(buffer[0], 0);
/// assert!(buffer.iter().any(|&sample| sample > 26_000));
/// ```
#[derive(Debug, Clone)]
pub struct Tone {
    shape: Shape,
    /// The fraction of the cycle, in units of 2⁻⁶⁴.
    phase: u64,
    step: u64,
    level: f32,
    rotations: Rotations,
}

/// The constants by which the rows of a sine are computed.
#[derive(Debug, Clone)]
struct Rotations {
    /// The cosine and sine of 0, 1, … steps. They rotate the first point of a row to each point of
    /// the row.
    row: [(f32, f32); LANES],
    /// The cosine and sine of `LANES` steps. They rotate a row to the next one.
    row_rotation: (f32, f32),
}

impl Rotations {
    fn new(step: u64) -> Self {
        let at = |n: u64| {
            let angle = radians(step.wrapping_mul(n));
            (angle.cos() as f32, angle.sin() as f32)
        };
        let mut row = [(1.0, 0.0); LANES];
        for (n, point) in (0..).zip(&mut row) {
            *point = at(n);
        }
        Rotations {
            row,
            row_rotation: at(LANES as u64),
        }
    }
}

impl Tone {
    /// The level of a new tone, −1.9 dB of full scale, which keeps players from clipping.
    const LEVEL: f32 = 0.8 * i16::MAX as f32;

    /// Creates a signal of `frequency` Hz at `rate` samples per second, beginning at phase zero.
    /// Frequencies of half the rate or more alias.
    pub fn new(shape: Shape, frequency: f64, rate: u32) -> Self {
        let step = step(frequency, rate);
        Tone {
            shape,
            phase: if shape == Shape::Noise {
                frequency.to_bits()
            } else {
                0
            },
            step,
            level: Self::LEVEL,
            rotations: Rotations::new(step),
        }
    }

    /// Skips `samples` samples without computing them.
    pub fn skip(&mut self, samples: u64) {
        let step = if self.shape == Shape::Noise {
            NOISE_STEP
        } else {
            self.step
        };
        self.phase = self.phase.wrapping_add(step.wrapping_mul(samples));
    }

    /// Fills `samples` with the next samples.
    pub fn fill(&mut self, samples: &mut [i16]) {
        match self.shape {
            Shape::Sine => self.fill_sine(samples),
            Shape::Square => self.each(samples, |phase| if phase >> 63 == 0 { 1.0 } else { -1.0 }),
            Shape::Saw => self.each(samples, signed),
            Shape::Triangle => self.each(samples, |phase| {
                1.0 - 2.0 * signed(phase.wrapping_sub(1 << 62)).abs()
            }),
            Shape::Noise => self.fill_noise(samples),
            Shape::Silence => samples.fill(0),
        }
    }

    fn fill_sine(&mut self, samples: &mut [i16]) {
        for chunk in samples.chunks_mut(LANES * ROWS) {
            let angle = radians(self.phase);
            let (sin, cos) = (angle.sin() as f32, angle.cos() as f32);
            let mut x = [0.0; LANES];
            let mut y = [0.0; LANES];
            for lane in 0..LANES {
                let (c, s) = self.rotations.row[lane];
                x[lane] = self.level * (cos * c - sin * s);
                y[lane] = self.level * (sin * c + cos * s);
            }
            let (c, s) = self.rotations.row_rotation;
            let mut rows = chunk.chunks_exact_mut(LANES);
            for row in &mut rows {
                for lane in 0..LANES {
                    row[lane] = rounded(y[lane]);
                    let rotated = x[lane] * c - y[lane] * s;
                    y[lane] = x[lane] * s + y[lane] * c;
                    x[lane] = rotated;
                }
            }
            for (sample, y) in rows.into_remainder().iter_mut().zip(y) {
                *sample = rounded(y);
            }
            self.phase = self
                .phase
                .wrapping_add(self.step.wrapping_mul(chunk.len() as u64));
        }
    }

    fn each(&mut self, samples: &mut [i16], value: impl Fn(u64) -> f32) {
        for sample in samples {
            *sample = rounded(self.level * value(self.phase));
            self.phase = self.phase.wrapping_add(self.step);
        }
    }

    fn fill_noise(&mut self, samples: &mut [i16]) {
        for sample in samples {
            *sample = rounded(self.level * signed(mixed(self.phase)));
            self.phase = self.phase.wrapping_add(NOISE_STEP);
        }
    }
}

/// Returns the cycles per sample, modulo one, rounded to 2⁻⁶⁴. We use integers, because the 2⁻⁵³ of
/// an `f64` would add up to an audible phase error within days.
fn step(frequency: f64, rate: u32) -> u64 {
    // Frequencies below zero or above 4 GHz are of no use, so we clamp them. The product is exact.
    let scaled = (frequency.clamp(0.0, 2f64.powi(32)) * 2f64.powi(32)) as u128;
    let rate = u128::from(rate.max(1));
    ((scaled << 32).saturating_add(rate / 2) / rate) as u64
}

/// Returns the fraction of a cycle as an angle in −π..=π.
fn radians(phase: u64) -> f64 {
    phase as i64 as f64 * (TAU / 2f64.powi(64))
}

/// Returns the fraction of a cycle as a value in −1..1, which is zero at the beginning of the
/// cycle.
fn signed(phase: u64) -> f32 {
    (phase as i64 >> 32) as f32 * (1.0 / 2f32.powi(31))
}

/// Rounds to the nearest integer with a single addition. It works for values that fit 16 bits,
/// because after the addition one unit is the last bit of the `f32`'s mantissa.
fn rounded(value: f32) -> i16 {
    const UNIT_IN_LAST_PLACE: f32 = 12_582_912.0;
    (value + UNIT_IN_LAST_PLACE).to_bits() as i16
}

/// The step of splitmix64, which is the fraction of the golden ratio.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
const NOISE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    const RATE: u32 = 44_100;
    const BUFFER_SAMPLES: usize = 441;

    /// Computes sample `n` of a sine from its exact phase, by integer arithmetic.
    fn exact(hertz: u64, n: u64) -> f64 {
        let rate = u64::from(RATE);
        let cycle = (hertz * n % rate) as f64 / rate as f64;
        f64::from(Tone::LEVEL) * (TAU * cycle).sin()
    }

    #[test]
    fn a_sine_is_accurate_to_one_step_after_a_day() {
        for hertz in [1, 440, 997, 10_007, 22_000] {
            let tone = Tone::new(Shape::Sine, hertz as f64, RATE);
            for start in [0, 86_400 * u64::from(RATE) + 7] {
                let mut tone = tone.clone();
                tone.skip(start);
                let mut n = start;
                let mut buffer = [0; BUFFER_SAMPLES];
                for _ in 0..50 {
                    tone.fill(&mut buffer);
                    for sample in buffer {
                        let error = f64::from(sample) - exact(hertz, n);
                        assert!(error.abs() <= 0.55, "{hertz} Hz, sample {n}: {error}");
                        n += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn skipping_samples_equals_filling_a_buffer() {
        for (_, shape) in SHAPES {
            let mut filled = Tone::new(shape, 1234.5, RATE);
            let mut skipped = filled.clone();
            filled.fill(&mut [0; 1000]);
            skipped.skip(1000);
            let (mut a, mut b) = ([0; 600], [0; 600]);
            filled.fill(&mut a);
            skipped.fill(&mut b);
            assert_eq!(a, b, "{shape}");
        }
    }

    #[test]
    fn each_shape_has_its_waveform() {
        let period = |shape| {
            let mut samples = [0_i16; 100];
            Tone::new(shape, f64::from(RATE) / 100.0, RATE).fill(&mut samples);
            samples
        };
        let top = Tone::LEVEL as i16;
        let square = period(Shape::Square);
        assert!(square[..49].iter().all(|&s| (s - top).abs() <= 1));
        assert!(square[51..].iter().all(|&s| (s + top).abs() <= 1));
        assert!(period(Shape::Saw)[..49].is_sorted());
        let triangle = period(Shape::Triangle);
        assert!(triangle[..25].is_sorted());
        assert!((triangle[25] - top).abs() <= 2 && (triangle[75] + top).abs() <= 2);
        let noise = period(Shape::Noise);
        assert!(noise.iter().any(|&s| s > top / 2) && noise.iter().any(|&s| s < -top / 2));
        assert_eq!(period(Shape::Silence), [0; 100]);
    }

    #[test]
    fn shapes_round_trip_through_text() {
        for (_, shape) in SHAPES {
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        assert!("sinus".parse::<Shape>().is_err());
    }
}
