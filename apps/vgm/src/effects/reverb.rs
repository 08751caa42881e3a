//! Reverb: the sound of a hall, made with delays that feed back.
//!
//! Each side has four comb filters with damped feedback, followed by two all-pass filters that
//! diffuse the echoes. The delays of the two sides differ a little, because this makes the hall
//! sound wide.
//!
//! Source: Schroeder, "Natural sounding artificial reverberation" (1962); Moorer, "About this
//! reverberation business" (1979).

use super::Effect;

/// The delays of the comb filters in ms. No two of them have a simple ratio, so that their echoes
/// rarely coincide.
const COMBS_MS: [f64; 4] = [29.7, 37.1, 41.1, 43.7];
/// The delays of the all-pass filters in ms.
const SMEARS_MS: [f64; 2] = [5.0, 1.7];
/// The amount by which the delays of the right side are longer.
const SPREAD_MS: f64 = 0.52;
/// The time in which an echo decays by 60 dB.
const SECONDS: f64 = 1.6;
/// The weight of the previous sample in the damped feedback. A hall absorbs high frequencies.
const DAMP: f32 = 0.3;
const SMEAR: f32 = 0.7;
/// The level below which a sample becomes 0, because arithmetic with subnormal numbers is slow.
const SILENCE: f32 = 1e-15;

/// A ring buffer of samples.
struct Delay {
    samples: Vec<f32>,
    at: usize,
}

impl Delay {
    fn new(ms: f64, sample_rate: u32) -> Self {
        let length = (ms * f64::from(sample_rate) / 1000.0).round() as usize;
        Delay {
            samples: vec![0.0; length.max(1)],
            at: 0,
        }
    }

    fn oldest(&self) -> f32 {
        self.samples[self.at]
    }

    fn replace(&mut self, sample: f32) {
        self.samples[self.at] = sample;
        self.at = if self.at + 1 == self.samples.len() {
            0
        } else {
            self.at + 1
        };
    }
}

/// A comb filter: a delay whose output feeds back into it.
struct Comb {
    delay: Delay,
    feed: f32,
    soft: f32,
}

impl Comb {
    fn next(&mut self, sample: f32) -> f32 {
        let out = self.delay.oldest();
        self.soft = out + (self.soft - out) * DAMP;
        if self.soft.abs() < SILENCE {
            self.soft = 0.0;
        }
        self.delay.replace(sample + self.soft * self.feed);
        out
    }
}

/// One side of the hall.
struct Side {
    combs: [Comb; 4],
    smears: [Delay; 2],
}

impl Side {
    fn new(spread_ms: f64, sample_rate: u32) -> Self {
        let comb = |ms: f64| Comb {
            delay: Delay::new(ms + spread_ms, sample_rate),
            feed: libm::exp10(-3.0 * ms / 1000.0 / SECONDS) as f32,
            soft: 0.0,
        };
        Side {
            combs: COMBS_MS.map(comb),
            smears: SMEARS_MS.map(|ms| Delay::new(ms + spread_ms, sample_rate)),
        }
    }

    fn next(&mut self, sample: f32) -> f32 {
        let mut sum = 0.0;
        for comb in &mut self.combs {
            sum += comb.next(sample);
        }
        for delay in &mut self.smears {
            let old = delay.oldest();
            let fed = sum + old * SMEAR;
            delay.replace(fed);
            sum = old - fed * SMEAR;
        }
        // The four comb filters together are about as loud as their input.
        sum * 0.25
    }
}

/// The hall for both sides.
pub(super) struct Reverb {
    amount: f32,
    sides: [Side; 2],
}

impl Reverb {
    /// Creates a hall. At an `amount` of 1 it is as loud as the song.
    pub(super) fn new(amount: f32, sample_rate: u32) -> Self {
        Reverb {
            amount,
            sides: [0.0, SPREAD_MS].map(|spread| Side::new(spread, sample_rate)),
        }
    }
}

impl Effect for Reverb {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for frame in frames {
            let middle = (frame[0] + frame[1]) * 0.5;
            for (sample, side) in frame.iter_mut().zip(&mut self.sides) {
                *sample += self.amount * side.next(middle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverb_decays_and_differs_between_channels() {
        let mut frames = vec![[0.0; 2]; 3 * 44_100];
        frames[0] = [1.0; 2];
        Reverb::new(1.0, 44_100).apply(&mut frames);
        let power = |from: usize| -> f64 {
            let part = &frames[from..from + 4410];
            part.iter().map(|frame| f64::from(frame[0]).powi(2)).sum()
        };
        assert!(power(2205) > 1e-4, "the reverb must be audible");
        let fall_db = 10.0 * (power(2205) / power(2205 + 35_280)).log10();
        // The decay is 60 dB in 1.6 s, and faster at high frequencies.
        assert!((27.0..50.0).contains(&fall_db), "{fall_db} dB in 0.8 s");
        assert!(power(3 * 44_100 - 4410) < 1e-8);
        assert!(frames[1..].iter().any(|frame| frame[0] != frame[1]));
        assert_eq!(frames[0], [1.0; 2], "the dry signal must stay unchanged");
    }
}
