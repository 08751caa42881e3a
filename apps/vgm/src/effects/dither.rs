//! Dither: adds noise of about one step of the file's samples before rounding.
//!
//! Rounding then causes noise instead of distortion of soft notes.
//!
//! Source: Lipshitz, Wannamaker and Vanderkooy, "Quantization and dither" (1992): triangular noise
//! of two steps from end to end.

use super::Effect;
use crate::mix::SampleFormat;

/// Adds noise to each sample.
pub(super) struct Dither {
    /// One step of the file's samples.
    step: f32,
    /// The state of the noise generator. Every file starts with the same state, so that rendering a
    /// song twice gives the same bits.
    random: u64,
}

impl Dither {
    /// Creates dither for files with these samples.
    ///
    /// Returns `None` if the samples are so fine that rounding is inaudible.
    pub(super) fn of(samples: SampleFormat) -> Option<Self> {
        let bits = match samples {
            SampleFormat::I8 => 8,
            SampleFormat::I16 => 16,
            SampleFormat::I24 | SampleFormat::I32 | SampleFormat::F32 => return None,
        };
        Some(Dither {
            step: 1.0 / (1u32 << (bits - 1)) as f32,
            random: 0x9E37_79B9_7F4A_7C15,
        })
    }

    /// Returns noise from -1 to 1, in which values near 0 are the most frequent.
    fn noise(&mut self) -> f32 {
        // Marsaglia's xorshift. We use its upper bits because they are more random.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let [a, b] = [self.random >> 40, (self.random >> 16) & 0xFF_FFFF];
        (a as f32 - b as f32) / (1 << 24) as f32
    }
}

impl Effect for Dither {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for side in frames.as_flattened_mut() {
            *side += self.noise() * self.step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::to_i16;

    #[test]
    fn dither_preserves_a_third_of_a_step_on_average() {
        let third = 1.0 / 32768.0 / 3.0;
        let mut frames = vec![[third; 2]; 100_000];
        Dither::of(SampleFormat::I16).unwrap().apply(&mut frames);
        let samples = frames.as_flattened().iter().map(|side| to_i16(*side));
        let mean = samples.clone().map(f64::from).sum::<f64>() / 200_000.0;
        assert!((mean - 1.0 / 3.0).abs() < 0.01, "{mean}");
        assert!(samples.into_iter().all(|sample| (-1..=1).contains(&sample)));
        assert!(Dither::of(SampleFormat::F32).is_none());
    }
}
