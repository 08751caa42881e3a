//! The DC filter: removes the mean and frequencies below the range of hearing.

use super::Effect;

/// The frequency at which the filter attenuates by 3 dB.
const CORNER_HZ: f64 = 5.0;

/// A high-pass of 6 dB per octave for each side.
pub(super) struct DcFilter {
    /// The factor by which the output decays per frame.
    keep: f64,
    input: [f64; 2],
    output: [f64; 2],
}

impl DcFilter {
    pub(super) fn new(sample_rate: u32) -> Self {
        DcFilter {
            keep: (-std::f64::consts::TAU * CORNER_HZ / f64::from(sample_rate)).exp(),
            input: [0.0; 2],
            output: [0.0; 2],
        }
    }
}

impl Effect for DcFilter {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for frame in frames {
            for (side, sample) in frame.iter_mut().enumerate() {
                let now = f64::from(*sample);
                self.output[side] = now - self.input[side] + self.keep * self.output[side];
                self.input[side] = now;
                *sample = self.output[side] as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dc_filter_removes_the_mean_and_keeps_tones() {
        let tone = |at: usize| (at as f32 * 0.1).sin() * 0.4;
        let mut frames: Vec<_> = (0..88_200).map(|at| [0.5 + tone(at), 0.5]).collect();
        DcFilter::new(44_100).apply(&mut frames);
        let last = &frames[66_150..];
        let mean = last.iter().map(|frame| frame[0]).sum::<f32>() / last.len() as f32;
        let peak = last.iter().map(|frame| frame[0].abs()).fold(0.0, f32::max);
        assert!(mean.abs() < 1e-3, "{mean}");
        assert!((0.395..0.405).contains(&peak), "{peak}");
        assert!(last.iter().all(|frame| frame[1].abs() < 1e-3));
    }
}
