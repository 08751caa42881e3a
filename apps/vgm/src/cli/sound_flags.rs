//! Command-line flags for the sound: the format of the file, and the effects on the mix.

use std::time::Duration;

use clap::{Args, ValueEnum};
use creel_console::duration;
use creel_vgm::chips::selection::Selection;
use creel_vgm::effects::{Band, Effects, Loudness};
use creel_vgm::mix::{Quality, SampleFormat};
use creel_vgm::render::Settings;
use creel_vgm::wav::{Container, Layout};
use serde::{Deserialize, Serialize};

/// Flags for the sample format and the length of songs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sound")]
pub(super) struct SoundFlags {
    /// Play loops N times
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    loops: u32,
    /// Fade out looping songs for TIME
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", default_value = "5s", value_parser = duration::value_parser)]
    fade: Duration,
    /// Multiply the volume by F, after --normalize or --replay-gain
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    volume: f32,
    /// Write HZ frames per second
    #[arg(long, allow_negative_numbers = true, value_name = "HZ", default_value_t = 44_100, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    sample_rate: u32,
    /// Choose the filter R that converts the sample rates of the chips to the output rate
    #[arg(long, value_name = "R", value_enum, default_value_t)]
    resampler: Resampler,
    /// Write integer samples of BITS bits
    #[arg(long, value_name = "BITS", default_value = "16", value_parser = ["8", "16", "24", "32"])]
    bit_depth: String,
    /// Write floating-point samples
    #[arg(long, conflicts_with = "bit_depth")]
    float: bool,
    /// Write AU files instead of WAV
    #[arg(long, conflicts_with_all = ["raw", "flac"])]
    pub(super) au: bool,
    /// Write FLAC files instead of WAV: lossless compression, up to 24 bits and 96 kHz
    #[arg(long, conflicts_with_all = ["raw", "float"])]
    pub(super) flac: bool,
    /// Write only the samples instead of WAV: little-endian, signed, without a header
    #[arg(long)]
    raw: bool,
}

/// Flags for the effects on the mix.
#[derive(Args, Debug)]
#[command(next_help_heading = "Effects")]
pub(super) struct EffectFlags {
    /// Bring each song (track), or all songs of an output folder together (album), to -18 LUFS, but
    /// not beyond full scale. The program plays each song twice to measure it
    #[arg(long, value_name = "SCOPE", value_enum)]
    pub(super) replay_gain: Option<ReplayGain>,
    /// Write the ReplayGain of each song as tags, and leave its samples as they are. The program
    /// plays each song twice to measure it
    #[arg(long, conflicts_with = "replay_gain")]
    replay_gain_tags: bool,
    /// Bring the loudest sample of each song to full scale. The program plays each song twice
    #[arg(long, conflicts_with_all = ["replay_gain", "replay_gain_tags"])]
    normalize: bool,
    #[command(flatten)]
    tone: EffectOptions,
    /// Mask the rounding to 8 or 16 bits, by adding noise of one quantization step before it
    #[arg(long)]
    pub(super) dither: bool,
}

/// Flags for effects that do not depend on the whole song. `play` has them as well.
#[derive(Args, Debug)]
pub(super) struct EffectOptions {
    /// Compress loud samples (above -2 dB) smoothly instead of clipping them
    #[arg(long)]
    pub(super) soft_clip: bool,
    /// Keep the constant offset of the chips' outputs (DC). By default, a filter removes
    /// frequencies below 5 Hz, as the capacitors at the outputs of the boards do
    #[arg(long, overrides_with = "dc_filter")]
    pub(super) no_dc_filter: bool,
    /// Remove frequencies below 5 Hz. This is the default, and overrides a configuration file
    #[arg(long, hide = true, overrides_with = "no_dc_filter")]
    dc_filter: bool,
    /// Change the volume by DB decibels near HZ (HZ:DB, or HZ:DB:Q, where a larger Q makes the band
    /// narrower), below HZ (low:HZ:DB) or above HZ (high:HZ:DB). Repeat the flag for more bands
    #[arg(long, value_name = "BAND", value_parser = band, allow_hyphen_values = true)]
    pub(super) eq: Vec<String>,
    /// Add reverb of strength F, from 0 to 1
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 0.0, value_parser = one)]
    pub(super) reverb: f32,
    /// Set the stereo width: 0 is mono, 1 is unchanged, 2 is the maximum
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 1.0, value_parser = two)]
    pub(super) width: f32,
}

impl EffectOptions {
    /// Returns whether to use the DC filter, or `None` if no flag says it.
    pub(super) fn dc_filter(&self) -> Option<bool> {
        match (self.dc_filter, self.no_dc_filter) {
            (false, false) => None,
            (on, _) => Some(on),
        }
    }

    /// Returns these effects. All other effects keep their defaults.
    pub(super) fn effects(&self) -> Effects {
        Effects {
            dc_filter: !self.no_dc_filter,
            // The argument parser has already checked the bands, so none is lost here.
            equalizer: self
                .eq
                .iter()
                .filter_map(|band| band.parse().ok())
                .collect(),
            reverb: self.reverb,
            width: self.width,
            soft_clip: self.soft_clip,
            ..Effects::default()
        }
    }
}

/// Checks an equaliser band, and returns its text.
fn band(text: &str) -> std::result::Result<String, String> {
    text.parse::<Band>().map(|_| text.to_owned())
}

/// The scope of ReplayGain: the songs that share one gain.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReplayGain {
    /// Each song has a gain of its own
    Track,
    /// All songs of a folder share one gain
    Album,
}

impl ReplayGain {
    pub(super) fn loudness(self) -> Loudness {
        match self {
            ReplayGain::Track => Loudness::Track,
            ReplayGain::Album => Loudness::Album,
        }
    }
}

impl EffectFlags {
    pub(super) fn effects(&self) -> Effects {
        Effects {
            loudness: match (self.normalize, self.replay_gain) {
                _ if self.replay_gain_tags => Loudness::Tagged,
                (true, _) => Loudness::Peak,
                (_, Some(whose)) => whose.loudness(),
                _ => Loudness::AsIs,
            },
            dither: self.dither,
            ..self.tone.effects()
        }
    }
}

/// The resamplers that the user can choose.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Resampler {
    /// A polyphase low-pass filter
    #[default]
    BandLimited,
    /// Linear interpolation
    Linear,
}

impl Resampler {
    pub(super) fn quality(self) -> Quality {
        match self {
            Resampler::BandLimited => Quality::BandLimited,
            Resampler::Linear => Quality::Linear,
        }
    }
}

fn factor(text: &str) -> std::result::Result<f32, String> {
    up_to(100, text)
}

fn one(text: &str) -> std::result::Result<f32, String> {
    up_to(1, text)
}

fn two(text: &str) -> std::result::Result<f32, String> {
    up_to(2, text)
}

fn up_to(most: u8, text: &str) -> std::result::Result<f32, String> {
    match text.parse() {
        Ok(factor) if (0.0..=f32::from(most)).contains(&factor) => Ok(factor),
        _ => Err(format!("expected a number from 0 to {most}")),
    }
}

impl SoundFlags {
    pub(super) fn settings(&self, chips: Selection) -> Settings {
        Settings {
            loops: self.loops,
            fade_seconds: self.fade.as_secs_f64(),
            volume: self.volume,
            sample_rate: self.sample_rate,
            quality: self.resampler.quality(),
            chips,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        let samples = match (self.float, self.bit_depth.as_str()) {
            (true, _) => SampleFormat::F32,
            (_, "8") => SampleFormat::I8,
            (_, "24") => SampleFormat::I24,
            (_, "32") => SampleFormat::I32,
            _ => SampleFormat::I16,
        };
        let container = match (self.au, self.flac, self.raw) {
            (true, ..) => Container::Au,
            (_, true, _) => Container::Flac,
            (_, _, true) => Container::Raw,
            _ => Container::Wav,
        };
        Layout { container, samples }
    }

    /// Returns the reason why a file with these settings is not possible, if there is one.
    pub(super) fn refused(&self) -> Option<&'static str> {
        if !self.flac {
            None
        } else if self.bit_depth == "32" {
            Some("cannot write FLAC with 32 bits: use --bit-depth 8, 16 or 24")
        } else if self.sample_rate > 96_000 {
            Some("cannot write FLAC with more than 96000 frames per second: lower --sample-rate")
        } else {
            None
        }
    }
}
