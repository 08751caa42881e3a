//! The flags of how songs sound: what kind of file, and what is done to the mix.

use clap::{Args, ValueEnum};
use creel_vgm::chips::selection::Selection;
use creel_vgm::effects::{Band, Effects, Loudness};
use creel_vgm::mix::{Quality, SampleFormat};
use creel_vgm::render::Settings;
use creel_vgm::wav::{Container, Layout};
use serde::{Deserialize, Serialize};

/// How it should sound.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sound")]
pub(super) struct SoundFlags {
    /// How often loops are played
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    loops: u32,
    /// How long songs that loop fade out, in seconds
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    fade: f64,
    /// A factor on the loudness, on top of what --normalize or --replay-gain bring it to
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    volume: f32,
    /// Frames a second
    #[arg(long, allow_negative_numbers = true, value_name = "HZ", default_value_t = 44_100, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    sample_rate: u32,
    /// How native frames become output frames
    #[arg(long, value_name = "R", value_enum, default_value_t)]
    resampler: Resampler,
    /// Bits of a sample
    #[arg(long, value_name = "BITS", default_value = "16", value_parser = ["8", "16", "24", "32"])]
    bit_depth: String,
    /// Floating-point samples
    #[arg(long, conflicts_with = "bit_depth")]
    float: bool,
    /// AU files instead of WAV
    #[arg(long, conflicts_with_all = ["raw", "flac"])]
    pub(super) au: bool,
    /// FLAC files instead of WAV: packed without loss, up to 24 bits and 96 kHz
    #[arg(long, conflicts_with_all = ["raw", "float"])]
    pub(super) flac: bool,
    /// Samples alone instead of WAV: little-endian, signed
    #[arg(long)]
    raw: bool,
}

/// What is done to the mix.
#[derive(Args, Debug)]
#[command(next_help_heading = "Effects")]
pub(super) struct EffectFlags {
    /// Bring songs (track) or the songs of each output folder together (album) to -18 LUFS, at most
    /// to full scale; each song is played twice
    #[arg(long, value_name = "WHOSE", value_enum)]
    pub(super) replay_gain: Option<ReplayGain>,
    /// Bring each song's loudest sample to full scale; each song is played twice
    #[arg(long, conflicts_with = "replay_gain")]
    normalize: bool,
    #[command(flatten)]
    tone: EffectOptions,
    /// Add noise of one step before rounding to 8 or 16 bits
    #[arg(long)]
    pub(super) dither: bool,
}

/// Effects that need not know the whole song.
#[derive(Args, Debug)]
pub(super) struct EffectOptions {
    /// Bend what is beyond full scale instead of cutting it
    #[arg(long)]
    pub(super) soft_clip: bool,
    /// Take away what lies below 5 Hz
    #[arg(long)]
    pub(super) dc_filter: bool,
    /// A band of the equaliser: HZ:DB, HZ:DB:Q, low:HZ:DB or high:HZ:DB; may be given often
    #[arg(long, value_name = "BAND", value_parser = band, allow_hyphen_values = true)]
    pub(super) eq: Vec<String>,
    /// Add so much of a hall, 0 to 1
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 0.0, value_parser = one)]
    pub(super) reverb: f32,
    /// How far the sides are apart: 0 mono, 1 as they are, at most 2
    #[arg(long, allow_negative_numbers = true, value_name = "F", default_value_t = 1.0, value_parser = two)]
    pub(super) width: f32,
}

impl EffectOptions {
    /// The effects; others are as without flags.
    pub(super) fn effects(&self) -> Effects {
        Effects {
            dc_filter: self.dc_filter,
            // They were read before.
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

/// A band, as it was written.
fn band(text: &str) -> std::result::Result<String, String> {
    text.parse::<Band>().map(|_| text.to_owned())
}

/// Whose loudness is measured.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReplayGain {
    /// Each song's
    Track,
    /// That of all songs of a folder
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
                (true, _) => Loudness::Peak,
                (_, Some(whose)) => whose.loudness(),
                _ => Loudness::AsIs,
            },
            dither: self.dither,
            ..self.tone.effects()
        }
    }
}

/// The resamplers by their names.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Resampler {
    /// A polyphase low-pass filter
    #[default]
    BandLimited,
    /// A straight line between neighbours
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

pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 3600".into()),
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
        _ => Err(format!("not a factor from 0 to {most}")),
    }
}

impl SoundFlags {
    pub(super) fn settings(&self, chips: Selection) -> Settings {
        Settings {
            loops: self.loops,
            fade_seconds: self.fade,
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

    /// Why no such file can be, if it cannot.
    pub(super) fn refused(&self) -> Option<&'static str> {
        if !self.flac {
            None
        } else if self.bit_depth == "32" {
            Some("--flac: 32 bits do not fit; 8, 16 and 24 do")
        } else if self.sample_rate > 96_000 {
            Some("--flac: at most 96000 frames a second")
        } else {
            None
        }
    }
}
