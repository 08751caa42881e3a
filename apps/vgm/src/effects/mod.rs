//! The effects between the mix and a file: one chain in one order for every kind of file.
//!
//! ```text
//! mix ─► DC filter ─► equaliser ─► reverb ─► width ─► gain ─► volume ─► soft clipping ─► dither ─► samples
//!                                                      ▲
//!                               loudness or peak, measured over the whole song before
//! ```
//!
//! The volume belongs to the player and is part of the mix. If there is a gain, the volume follows
//! it, because otherwise the loudness measurement would cancel the volume.
//!
//! Invariant: the output depends on the frames before it and not on the block size. An effect that
//! you do not request does nothing, so without effects the bits are those of the mix.
//!
//! We leave out tails on purpose. A song has the same number of frames with and without reverb.

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

/// The effects to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// Whether to remove frequencies below 5 Hz.
    pub dc_filter: bool,
    /// The bands of the equaliser, which raise or lower frequencies.
    pub equalizer: Vec<Band>,
    /// The amount of reverb: 0 is none, and 1 is as loud as the song.
    pub reverb: f32,
    /// The stereo width: 0 is mono, 1 is unchanged, and the maximum is 2.
    pub width: f32,
    /// The target of loudness normalisation.
    pub loudness: Loudness,
    /// Whether to compress samples above 0.8 of full scale, so that none must be clipped.
    pub soft_clip: bool,
    /// Whether to add noise of one step, so that rounding to 8 or 16 bits does not cause
    /// distortion. It has no effect on samples with more bits.
    pub dither: bool,
}

impl Default for Effects {
    fn default() -> Self {
        Effects {
            dc_filter: true,
            equalizer: Vec::new(),
            reverb: 0.0,
            width: 1.0,
            loudness: Loudness::AsIs,
            soft_clip: false,
            dither: false,
        }
    }
}

/// One effect that processes one song.
trait Effect: Send {
    /// Changes the next frames in place.
    fn apply(&mut self, frames: &mut [[f32; 2]]);
}

/// The effects of one song, in the order in which they are applied.
pub struct Chain(Vec<Box<dyn Effect>>);

impl Chain {
    /// Creates the effects that precede the loudness measurement.
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

    /// Creates all effects, with the `gain` that was computed from the measurement.
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
    /// let effects = Effects { dc_filter: false, width: 0.0, ..Effects::default() };
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
        assert!(whole == pieces, "the block size must not change the output");
        assert!(whole.iter().flatten().all(|side| side.abs() < 1.001));
    }

    #[test]
    fn samples_stay_unchanged_without_effects() {
        let effects = Effects {
            dc_filter: false,
            ..Effects::default()
        };
        let mut frames = song(100);
        let mut chain = Chain::whole(&effects, 44_100, 1.0, SampleFormat::I16);
        assert!(chain.0.is_empty());
        chain.apply(&mut frames);
        assert!(frames == song(100));
    }
}
