//! What is done to the mix on its way to a file: one chain, in one order, for every kind of file.
//!
//! ```text
//! mix ─► DC filter ─► equaliser ─► reverb ─► width ─► gain ─► volume ─► soft clipping ─► dither ─► samples
//!                                                      ▲
//!                               loudness or peak, measured over the whole song before
//! ```
//!
//! The volume is the player's own, and part of the mix; it comes behind the gain where there is one,
//! so that it is not measured away.
//!
//! Invariant: what comes out depends on the frames before it and not on how they were cut into
//! blocks. What is not asked for is not done: without effects the bits are those of the mix.
//!
//! Left out on purpose: tails. A song has the same number of frames with and without reverb.

mod clip;
mod dc;
mod dither;
mod equalizer;
mod loudness;
mod reverb;
mod width;

pub use equalizer::Band;
pub use loudness::{Loudness, Measured, Meter};

use crate::mix::SampleFormat;

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Takes away what lies below 5 Hz.
    pub dc_filter: bool,
    /// Louder and softer by frequency.
    pub equalizer: Vec<Band>,
    /// How much of a hall is added: 0 none, 1 as loud as the song.
    pub reverb: f32,
    /// How far the sides are apart: 0 mono, 1 as they are, at most 2.
    pub width: f32,
    /// What the loudness is brought to.
    pub loudness: Loudness,
    /// Bends what would be beyond full scale instead of cutting it.
    pub soft_clip: bool,
    /// Noise of one step, so that what is rounded away leaves no distortion.
    pub dither: bool,
}

impl Default for Effects {
    fn default() -> Self {
        Effects {
            dc_filter: false,
            equalizer: Vec::new(),
            reverb: 0.0,
            width: 1.0,
            loudness: Loudness::AsIs,
            soft_clip: false,
            dither: false,
        }
    }
}

/// One effect at work on one song.
trait Effect: Send {
    /// Changes the next frames in place.
    fn apply(&mut self, frames: &mut [[f32; 2]]);
}

/// The effects of one song, in their order.
pub struct Chain(Vec<Box<dyn Effect>>);

impl Chain {
    /// What comes before the loudness is measured.
    pub fn before_gain(effects: &Effects, sample_rate: u32) -> Chain {
        let mut chain: Vec<Box<dyn Effect>> = Vec::new();
        if effects.dc_filter {
            chain.push(Box::new(dc::DcFilter::new(sample_rate)));
        }
        for band in &effects.equalizer {
            chain.push(Box::new(equalizer::Filter::new(*band, sample_rate)));
        }
        if effects.reverb > 0.0 {
            chain.push(Box::new(reverb::Reverb::new(effects.reverb, sample_rate)));
        }
        if effects.width != 1.0 {
            chain.push(Box::new(width::Width(effects.width)));
        }
        Chain(chain)
    }

    /// All, with the gain that was found.
    pub fn whole(effects: &Effects, sample_rate: u32, gain: f32, samples: SampleFormat) -> Chain {
        let mut chain = Chain::before_gain(effects, sample_rate).0;
        if gain != 1.0 {
            chain.push(Box::new(loudness::Gain(gain)));
        }
        if effects.soft_clip {
            chain.push(Box::new(clip::SoftClip));
        }
        if effects.dither
            && let Some(dither) = dither::Dither::of(samples)
        {
            chain.push(Box::new(dither));
        }
        Chain(chain)
    }

    /// Changes the next frames in place.
    ///
    /// ```
    /// use creel_vgm::effects::{Chain, Effects};
    /// use creel_vgm::mix::SampleFormat;
    ///
    /// let effects = Effects { width: 0.0, ..Effects::default() };
    /// let mut frames = [[0.5, -0.25]];
    /// Chain::whole(&effects, 44_100, 2.0, SampleFormat::I16).apply(&mut frames);
    /// assert_eq!(frames, [[0.25, 0.25]]);
    /// ```
    pub fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for effect in &mut self.0 {
            effect.apply(frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Effects {
        Effects {
            dc_filter: true,
            equalizer: vec!["300:6:2".parse().unwrap(), "high:5000:-9".parse().unwrap()],
            reverb: 0.3,
            width: 1.5,
            loudness: Loudness::Peak,
            soft_clip: true,
            dither: true,
        }
    }

    fn song(frames: usize) -> Vec<[f32; 2]> {
        let at = |at: usize| (at as f32 * 0.05).sin() * 0.7;
        (0..frames)
            .map(|place| [at(place), at(place * 3)])
            .collect()
    }

    #[test]
    fn effects_are_independent_of_block_size() {
        let (mut whole, mut pieces) = (song(20_000), song(20_000));
        let chain = || Chain::whole(&all(), 44_100, 1.7, SampleFormat::I16);
        chain().apply(&mut whole);
        let mut chain = chain();
        for (length, piece) in pieces.chunks_mut(617).enumerate() {
            let (a, b) = piece.split_at_mut(length % piece.len());
            chain.apply(a);
            chain.apply(b);
        }
        assert!(whole == pieces, "blocks show");
        assert!(whole.iter().flatten().all(|side| side.abs() < 1.001));
    }

    #[test]
    fn no_effects_leave_samples_unchanged() {
        let (mut frames, effects) = (song(100), Effects::default());
        let mut chain = Chain::whole(&effects, 44_100, 1.0, SampleFormat::I16);
        assert!(chain.0.is_empty());
        chain.apply(&mut frames);
        assert!(frames == song(100));
    }
}
