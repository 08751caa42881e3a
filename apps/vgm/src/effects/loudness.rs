//! Loudness: measured over a whole song or album, to compute a gain.
//!
//! Invariant: the measurement of an album is the sum of the measurements of its songs, in any
//! order.
//!
//! A library applies the loudness filter and returns the loudness of blocks of 0.4 s. We count
//! these blocks in a histogram with steps of a tenth of a decibel. A measurement therefore takes 8
//! KB per song, and we can add the measurements of an album up.
//!
//! Source: ITU-R BS.1770 and EBU R 128 (the filter, the gates); ReplayGain 2.0 (-18 LUFS).

use ebur128::{EbuR128, Mode};

use super::Effect;
use crate::error::{Error, Result};

/// The target of loudness normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loudness {
    /// No normalisation.
    #[default]
    AsIs,
    /// The same loudness for each song.
    Track,
    /// The same loudness for each album. Its songs keep their loudness relative to each other.
    Album,
    /// Full scale for the loudest sample of each song.
    Peak,
    /// No normalisation, but the tags of the file have the gain.
    Tagged,
}

/// The target loudness of ReplayGain, in LUFS.
const TARGET_LUFS: f64 = -18.0;
/// The loudness below which a block counts as silence.
const SILENCE_LUFS: f64 = -70.0;
/// A block that is softer than the mean loudness by more than this counts as a pause.
const PAUSE_LU: f64 = 10.0;
/// The number of histogram steps per decibel, starting at silence.
const STEPS_DB: f64 = 10.0;
const STEPS: usize = 1000;
/// The number of tenths of a second in a block.
const HOPS_A_BLOCK: usize = 4;

/// The measurement of a song or of an album.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The number of blocks of each loudness.
    blocks: Vec<u64>,
    /// The peak of the absolute sample values. Full scale is 1.
    pub peak: f32,
}

impl Default for Measured {
    fn default() -> Self {
        Measured {
            blocks: vec![0; STEPS],
            peak: 0.0,
        }
    }
}

impl Measured {
    /// Adds the measurement of another song of the same album.
    pub fn add(&mut self, other: &Measured) {
        for (sum, count) in self.blocks.iter_mut().zip(&other.blocks) {
            *sum += count;
        }
        self.peak = self.peak.max(other.peak);
    }

    /// Returns the loudness in LUFS, or `None` for silence.
    pub fn lufs(&self) -> Option<f64> {
        let mean = self.mean_from(0)?;
        let gate = step_of(lufs_of(mean) - PAUSE_LU).unwrap_or(0);
        self.mean_from(gate).map(lufs_of)
    }

    /// Returns the mean power of the blocks whose step is at least `step`.
    fn mean_from(&self, step: usize) -> Option<f64> {
        let blocks = &self.blocks;
        let counted = || (step..STEPS).filter(move |step| blocks[*step] > 0);
        let count: u64 = counted().map(|step| blocks[step]).sum();
        let power: f64 = counted()
            .map(|step| power_of(step) * blocks[step] as f64)
            .sum();
        (count > 0).then(|| power / count as f64)
    }

    /// Returns the ReplayGain in dB and the peak, or `None` for silence.
    pub fn replay_gain(&self) -> Option<(f64, f32)> {
        Some((TARGET_LUFS - self.lufs()?, self.peak))
    }

    /// Returns the factor that brings the sound to the `wanted` loudness.
    ///
    /// For [`Loudness::AsIs`], [`Loudness::Tagged`] and silence, the factor is 1. Otherwise, it is
    /// limited so that no sample is clipped, unless soft clipping `bends` loud samples.
    pub fn gain(&self, wanted: Loudness, bends: bool) -> f32 {
        if self.peak <= 0.0 {
            return 1.0;
        }
        let whole = 1.0 / self.peak;
        match wanted {
            Loudness::AsIs | Loudness::Tagged => 1.0,
            Loudness::Peak => whole,
            Loudness::Track | Loudness::Album => {
                let Some(lufs) = self.lufs() else { return 1.0 };
                let gain = libm::exp10((TARGET_LUFS - lufs) / 20.0) as f32;
                if bends { gain } else { gain.min(whole) }
            }
        }
    }
}

fn step_of(lufs: f64) -> Option<usize> {
    let step = (lufs - SILENCE_LUFS) * STEPS_DB;
    (step >= 0.0).then(|| (step as usize).min(STEPS - 1))
}

/// Returns the power of a block in the middle of a step.
fn power_of(step: usize) -> f64 {
    let lufs = SILENCE_LUFS + (step as f64 + 0.5) / STEPS_DB;
    libm::exp10((lufs + 0.691) / 10.0)
}

fn lufs_of(power: f64) -> f64 {
    10.0 * libm::log10(power) - 0.691
}

/// Measures a song frame by frame.
pub struct Meter {
    filter: EbuR128,
    /// The number of frames in a tenth of a second. Blocks overlap by three quarters.
    hop: usize,
    /// The number of frames since the end of the last tenth of a second that was measured.
    since: usize,
    hops: usize,
    measured: Measured,
}

impl Meter {
    /// Creates a meter for stereo frames.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`] if the library does not support the sample rate.
    pub fn new(sample_rate: u32) -> Result<Meter> {
        let filter = EbuR128::new(2, sample_rate, Mode::M)
            .map_err(|error| Error::Unsupported(format!("cannot measure the loudness: {error}")))?;
        Ok(Meter {
            filter,
            hop: sample_rate as usize / 10,
            since: 0,
            hops: 0,
            measured: Measured::default(),
        })
    }

    /// Measures the next frames.
    pub fn push(&mut self, mut frames: &[[f32; 2]]) {
        for side in frames.as_flattened() {
            self.measured.peak = self.measured.peak.max(side.abs());
        }
        while !frames.is_empty() {
            let (now, later) = frames.split_at(frames.len().min(self.hop - self.since));
            let taken = self.filter.add_frames_f32(now.as_flattened());
            taken.expect("the meter must accept a tenth of a second of stereo frames");
            self.since += now.len();
            frames = later;
            if self.since == self.hop {
                self.since = 0;
                self.hops += 1;
                self.count();
            }
        }
    }

    /// Counts the block that ends here, if it is complete.
    fn count(&mut self) {
        let lufs = self
            .filter
            .loudness_momentary()
            .unwrap_or(f64::NEG_INFINITY);
        if let Some(step) = step_of(lufs).filter(|_| self.hops >= HOPS_A_BLOCK) {
            self.measured.blocks[step] += 1;
        }
    }

    /// Returns the measurement. A song that is shorter than one block counts as one block of its
    /// length.
    pub fn measured(mut self) -> Measured {
        if self.hops < HOPS_A_BLOCK {
            let frames = (self.hops * self.hop + self.since) as u64;
            let whole_ms = frames * 1000 / u64::from(self.filter.rate());
            let lufs = self.filter.loudness_window(whole_ms.max(1) as u32);
            if let Some(step) = lufs.ok().and_then(step_of) {
                self.measured.blocks[step] += 1;
            }
        }
        self.measured
    }
}

/// Multiplies every sample by a factor.
pub(super) struct Gain(pub(super) f32);

impl Effect for Gain {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for side in frames.as_flattened_mut() {
            *side *= self.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sine of 997 Hz on both sides, `seconds` long.
    fn tone(level: f32, seconds: usize) -> Vec<[f32; 2]> {
        let turn = std::f32::consts::TAU * 997.0 / 48_000.0;
        (0..48_000 * seconds)
            .map(|at| [level * (turn * (at % 48_000) as f32).sin(); 2])
            .collect()
    }

    fn measured(songs: &[&[[f32; 2]]]) -> Measured {
        let mut meter = Meter::new(48_000).unwrap();
        for song in songs {
            for block in song.chunks(1000) {
                meter.push(block);
            }
        }
        meter.measured()
    }

    #[test]
    fn tone_has_the_bs1770_reference_loudness() {
        // BS.1770: 0 dB FS on one side is -3.01 LKFS. Both sides together are 3.01 dB louder.
        let (loud, silence) = (tone(0.1, 5), vec![[0.0; 2]; 480_000]);
        for songs in [vec![&loud[..]], vec![&loud, &silence, &loud]] {
            let lufs = measured(&songs).lufs().unwrap();
            assert!((lufs + 20.0).abs() < 0.2, "{lufs}");
        }
        assert_eq!(measured(&[&silence]).lufs(), None);
        assert_eq!(measured(&[&silence]).gain(Loudness::Track, false), 1.0);
    }

    #[test]
    fn loudness_matches_ebur128() {
        let (loud, soft) = (tone(0.3, 4), tone(0.08, 6));
        let mut whole = EbuR128::new(2, 48_000, Mode::I).unwrap();
        for song in [&loud, &soft] {
            whole.add_frames_f32(song.as_flattened()).unwrap();
        }
        let ours = measured(&[&loud, &soft]).lufs().unwrap();
        let theirs = whole.loudness_global().unwrap();
        assert!((ours - theirs).abs() < 0.1, "{ours} and {theirs}");
    }

    #[test]
    fn song_shorter_than_a_block_is_measured_whole() {
        let loud = tone(0.1, 1);
        for frames in [19_000, 9_600, 4_801, 480] {
            let lufs = measured(&[&loud[..frames]]).lufs().unwrap();
            assert!((lufs + 20.0).abs() < 1.0, "{frames} frames: {lufs}");
        }
        assert_eq!(measured(&[&loud[..0]]).lufs(), None);
    }

    #[test]
    fn gain_reaches_the_target_without_clipping() {
        let loud = measured(&[&tone(0.5, 3)]);
        let gain = loud.gain(Loudness::Track, false);
        assert!((20.0 * gain.log10() + 12.0).abs() < 0.2, "{gain}");
        assert_eq!(loud.gain(Loudness::Peak, false), 1.0 / loud.peak);
        // Soft on average, with one sample at full scale.
        let mut clicks = tone(0.01, 3);
        clicks[7] = [1.0; 2];
        let clicks = measured(&[&clicks]);
        assert_eq!(clicks.gain(Loudness::Track, false), 1.0);
        assert!(clicks.gain(Loudness::Track, true) > 5.0);
        let mut album = loud.clone();
        album.add(&measured(&[&tone(0.005, 3)]));
        assert!(
            (album.lufs().unwrap() - loud.lufs().unwrap()).abs() < 0.2,
            "the gate must exclude the soft song"
        );
        assert_eq!(album.peak, loud.peak);
    }
}
