//! The configuration file: defaults for the flags of `play`, and settings for single songs.
//!
//! Invariant: a flag takes precedence over the general settings of the file. A `[[song]]` section
//! takes precedence over both. If several sections match a song, later ones take precedence, except
//! that their lists of muted and solo voices are joined.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use creel_console::duration::DURATION_MAX;
use creel_console::{Exit, Failure};
use creel_vgm::batch::Source;
use creel_vgm::chips::selection::Name;
use creel_vgm::effects::{Band, Effects};
use creel_vgm::render::Settings;
use glob::Pattern;
use serde::{Deserialize, Serialize};

use super::After;
use super::sinks::{SINKS, is_sink};
use crate::cli::sound_flags::{ReplayGain, Resampler};

/// The contents of the file. Settings that the file does not name are `None` or empty.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    pub sink: Option<String>,
    pub jobs: Option<usize>,
    pub recurse: Option<bool>,
    pub shuffle: Option<bool>,
    pub repeat: Option<After>,
    pub loops: Option<u32>,
    /// The length of the fade in seconds.
    pub fade: Option<f64>,
    pub volume: Option<u16>,
    pub sample_rate: Option<u32>,
    pub resampler: Option<Resampler>,
    pub replay_gain: Option<ReplayGain>,
    pub dc_filter: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eq: Vec<String>,
    pub reverb: Option<f32>,
    pub width: Option<f32>,
    pub soft_clip: Option<bool>,
    pub resume: Option<bool>,
    pub mouse: Option<bool>,
    pub mpris: Option<bool>,
    pub listen: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub song: Vec<SongRule>,
}

/// A `[[song]]` section: settings for all songs whose path matches.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a [[song]] section"
)]
pub struct SongRule {
    /// A glob that must match the whole path, or the part of it after any `/`.
    #[serde(rename = "match")]
    pub matches: String,
    pub loops: Option<u32>,
    pub fade: Option<f64>,
    pub volume: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mute: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solo: Vec<String>,
}

/// The compiled `[[song]]` sections of the file.
#[derive(Debug, Default)]
pub struct SongRules(Vec<CompiledRule>);

#[derive(Debug)]
struct CompiledRule {
    whole: Pattern,
    end: Pattern,
    of: SongRule,
    mute: Vec<Name>,
    solo: Vec<Name>,
}

/// Returns the default path: `$XDG_CONFIG_HOME/creel-vgm/config.toml`, or the same below
/// `~/.config` if the variable is not set.
fn default_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some(folder.join("creel-vgm/config.toml"))
}

impl Config {
    /// Reads the file `named`, or the default file if it exists.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is malformed. The error names the file, the line if it
    /// is known, and the reason.
    pub fn read(named: Option<&Path>) -> anyhow::Result<Config> {
        let Some(path) = named.map(PathBuf::from).or_else(default_path) else {
            return Ok(Config::default());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => {
                return Ok(Config::default());
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read the configuration {}", path.display()));
            }
        };
        let config = Config::parse(&text);
        config
            .map_err(|why| Failure::new(Exit::BadData, format!("{}: {why}", path.display())).into())
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            format!("line {line}: {}", plain_error(error.message()))
        })?;
        let from_to = |name: &str, value: Option<f64>, least: f64, most: f64| match value {
            Some(value) if !(least..=most).contains(&value) => Err(format!(
                "{name} = {value}: expected a number from {least} to {most}"
            )),
            _ => Ok(()),
        };
        let within = |name: &str, value, most| from_to(name, value, 0.0, most);
        from_to("jobs", config.jobs.map(|jobs| jobs as f64), 1.0, 1024.0)?;
        let rate = config.sample_rate.map(f64::from);
        from_to("sample-rate", rate, 8000.0, 192_000.0)?;
        if let Some(sink) = config.sink.as_deref().filter(|name| !is_sink(name)) {
            return Err(format!("sink = {sink:?}: unknown sink, {SINKS}"));
        }
        let of_all = (config.loops, config.fade, config.volume);
        let of_songs = config
            .song
            .iter()
            .map(|song| (song.loops, song.fade, song.volume));
        for (loops, fade, volume) in of_songs.chain([of_all]) {
            within("loops", loops.map(f64::from), 1000.0)?;
            within("fade", fade, DURATION_MAX.as_secs_f64())?;
            within("volume", volume.map(f64::from), 400.0)?;
        }
        within("reverb", config.reverb.map(f64::from), 1.0)?;
        within("width", config.width.map(f64::from), 2.0)?;
        for band in &config.eq {
            band.parse::<Band>()
                .map_err(|error| format!("eq: {band:?}: {error}"))?;
        }
        SongRules::new(&config.song).map_err(|error| error.to_string())?;
        Ok(config)
    }
}

/// Returns an error of the TOML library with Rust's type names replaced by plain words.
fn plain_error(message: &str) -> String {
    let mut text = message.replace('\n', " ");
    for (rust, plain) in [
        ("u16", "a whole number from 0 on"),
        ("u32", "a whole number from 0 on"),
        ("usize", "a whole number from 0 on"),
        ("f32", "a number"),
        ("f64", "a number"),
        ("a boolean", "true or false"),
        ("a string", "text in quotes"),
        ("path string", "text in quotes"),
        ("a sequence", "a list in brackets"),
        ("struct Config", "a table"),
    ] {
        text = text.replace(&format!("expected {rust}"), &format!("expected {plain}"));
    }
    text
}

impl Config {
    /// Returns the effects that apply to all songs.
    pub fn effects(&self) -> Effects {
        Effects {
            dc_filter: self.dc_filter != Some(false),
            // `parse` has already checked the bands, so none is lost here.
            equalizer: self
                .eq
                .iter()
                .filter_map(|band| band.parse().ok())
                .collect(),
            reverb: self.reverb.unwrap_or(0.0),
            width: self.width.unwrap_or(1.0),
            soft_clip: self.soft_clip == Some(true),
            ..Effects::default()
        }
    }
}

impl SongRules {
    /// Compiles the `[[song]]` sections of a file.
    ///
    /// # Errors
    ///
    /// Fails if a glob or the name of a chip or voice is invalid.
    pub fn new(songs: &[SongRule]) -> anyhow::Result<SongRules> {
        let rule = |of: &SongRule| {
            let glob = |text: &str| {
                Pattern::new(text).map_err(|error| anyhow!("match = {:?}: {error}", of.matches))
            };
            let names = |names: &[String]| {
                let name = |name: &String| {
                    name.parse::<Name>()
                        .map_err(|error| anyhow!("{name:?}: {error}"))
                };
                names.iter().map(name).collect::<anyhow::Result<Vec<_>>>()
            };
            Ok(CompiledRule {
                whole: glob(&of.matches)?,
                end: glob(&format!("*/{}", of.matches))?,
                mute: names(&of.mute)?,
                solo: names(&of.solo)?,
                of: of.clone(),
            })
        };
        songs
            .iter()
            .map(rule)
            .collect::<anyhow::Result<_>>()
            .map(SongRules)
    }

    /// Returns the settings of a song: `settings`, changed by all sections that match the song.
    pub fn of(&self, source: &Source, settings: &Settings) -> Settings {
        let (path, mut settings) = (source.to_string(), settings.clone());
        let matching = self
            .0
            .iter()
            .filter(|rule| rule.whole.matches(&path) || rule.end.matches(&path));
        for rule in matching {
            if let Some(loops) = rule.of.loops {
                settings.loops = loop_count(loops);
            }
            if let Some(fade) = rule.of.fade {
                settings.fade_seconds = fade;
            }
            if let Some(volume) = rule.of.volume {
                settings.volume = f32::from(volume) / 100.0;
            }
            settings.chips.mute.extend(&rule.mute);
            settings.chips.solo.extend(&rule.solo);
        }
        settings
    }
}

/// Converts a number of loops from the user, for which 0 means endless.
pub fn loop_count(loops: u32) -> u32 {
    if loops == 0 { u32::MAX } else { loops }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rules_take_precedence_and_mutes_accumulate() {
        let text = "loops = 3\n[[song]]\nmatch = \"boss*.vgz\"\nvolume = 50\nmute = [\"YM2612:6\"]\n\
                    [[song]]\nmatch = \"*/game/*\"\nvolume = 60\nloops = 0\nmute = [\"SN76489\"]";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.loops, Some(3));
        let rules = SongRules::new(&config.song).unwrap();
        let of = |path: &str| rules.of(&Source::File(path.into()), &Settings::default());
        let both = of("/music/game/boss 1.vgz");
        assert_eq!(
            (both.volume, both.loops, both.chips.mute.len()),
            (0.6, u32::MAX, 2)
        );
        let one = of("boss.vgz");
        assert_eq!((one.volume, one.loops, one.chips.mute.len()), (0.5, 2, 1));
        assert_eq!(of("other.vgz"), Settings::default());
        // Serializing the configuration and reading it back gives the same configuration.
        let again = toml::to_string(&config).unwrap();
        assert_eq!(
            toml::to_string(&Config::parse(&again).unwrap()).unwrap(),
            again
        );
    }

    #[test]
    fn config_errors_name_the_line() {
        for (text, why) in [
            ("loops = 1\nloop = 2", "line 2: unknown field `loop`"),
            (
                "volume = 401",
                "volume = 401: expected a number from 0 to 400",
            ),
            ("fade = -1", "fade = -1"),
            ("[[song]]\nloops = 1", "missing field `match`"),
            ("[[song]]\nmatch = \"a[\"", "match = \"a[\""),
            (
                "[[song]]\nmatch = \"a\"\nmute = [\"SID\"]",
                "\"SID\": unknown chip",
            ),
            ("repeat = \"some\"", "line 1: unknown variant `some`"),
            ("jobs = 0", "jobs = 0: expected a number from 1 to 1024"),
            (
                "sample-rate = 1",
                "sample-rate = 1: expected a number from 8000 to 192000",
            ),
            (
                "sink = \"foo\"",
                "sink = \"foo\": unknown sink, use one of auto",
            ),
            (
                "sink = \"wav:\"",
                "sink = \"wav:\": unknown sink, use one of auto",
            ),
            ("volume = \"x\"", "expected a whole number"),
            ("volume = 70000", "expected a whole number"),
            ("fade = true", "expected a number"),
            ("eq = 5", "expected a list in brackets"),
            ("sink = 5", "expected text in quotes"),
            ("shuffle = 1", "expected true or false"),
            ("song = 1", "expected a list in brackets"),
            ("song = [1]", "expected a [[song]] section"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
