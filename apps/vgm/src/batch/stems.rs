//! Stems: one file per chip or per voice, instead of one per song.

use creel::Pool;

use super::{Cost, Plan, Unit, with_ending};
use crate::chips::factory::{missing, render_cost_ns};
use crate::chips::selection::Selection;
use crate::chips::voices::count;
use crate::error::Result;
use crate::format::Instance;
use crate::render::Settings;

/// A part of a song with a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stem {
    /// The chip of which the stem has the sound.
    pub chip: Instance,
    /// The voice of the chip, from 0, or `None` for all voices.
    pub voice: Option<u8>,
    /// Whether this is the first stem of its song.
    pub first: bool,
}

/// The kind of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StemKind {
    /// One stem per chip.
    Chips,
    /// One stem per voice, if the voices of the chip can be separated.
    Voices,
}

impl Plan {
    /// Replaces each song by one unit per chip or voice. It uses only chips that the song writes to
    /// and that the selection contains. It reads all songs on the pool. Songs that cannot be read,
    /// and songs without such a chip, stay in the plan as they are.
    pub fn split_into_stems(&mut self, apart: StemKind, selection: &Selection, pool: &Pool) {
        let stems = pool.map(&self.units, |unit| stems(unit, apart, selection));
        let units = std::mem::take(&mut self.units);
        for (unit, stems) in units.into_iter().zip(stems) {
            match stems {
                Ok(stems) if !stems.is_empty() => self.units.extend(stems),
                _ => self.units.push(unit),
            }
        }
        self.reject_duplicates();
    }
}

fn stems(unit: &Unit, apart: StemKind, selection: &Selection) -> Result<Vec<Unit>> {
    let song = unit.input.load()?;
    let missing = missing(&song);
    let chips = song.chips();
    let heard = chips.filter(|chip| selection.has(*chip) && !missing.contains(chip));
    let voices = |chip: Instance| match (apart, count(chip.chip)) {
        (StemKind::Chips, _) | (_, 1) => vec![(chip, None)],
        (StemKind::Voices, voices) => {
            let heard = (0..voices).filter(|voice| selection.has_voice(chip, *voice));
            heard.map(|voice| (chip, Some(voice))).collect()
        }
    };
    let stem = |(place, (chip, voice)): (usize, (Instance, Option<u8>))| {
        let stem = Stem {
            chip,
            voice,
            first: place == 0,
        };
        let suffix = stem.suffix(song.header.name(chip.chip));
        let extension = unit.output.extension().unwrap_or_default();
        let ending = format!("{suffix}.{}", extension.display());
        let output = with_ending(&unit.output, &ending);
        let cost = unit.claimed.saturating_mul(render_cost_ns(chip.chip));
        Unit {
            input: unit.input.clone(),
            output,
            claimed: unit.claimed,
            cost: Cost {
                whole: cost,
                longest_chip: cost,
            },
            order: unit.order,
            track: unit.track,
            stem: Some(stem),
        }
    };
    Ok(heard.flat_map(voices).enumerate().map(stem).collect())
}

impl Stem {
    /// Returns the text that follows the name of the song.
    fn suffix(&self, chip: &str) -> String {
        let second = if self.chip.second { " #2" } else { "" };
        let voice = self
            .voice
            .map_or(String::new(), |voice| format!(" voice {}", voice + 1));
        format!(" - {chip}{second}{voice}")
    }
}

impl Unit {
    /// Returns the settings with which to render this song or stem. They are the settings `all`,
    /// except that only the chip or the voice of a stem is audible.
    pub fn settings(&self, all: &Settings) -> Settings {
        let mut settings = all.clone();
        if let Some(stem) = self.stem {
            settings.chips.only = Some((stem.chip, stem.voice));
        }
        settings
    }

    /// Returns the name of the song, followed by that of the stem if this is one.
    pub fn name(&self) -> String {
        match self.stem {
            None => self.input.to_string(),
            Some(stem) => format!("{}{}", self.input, stem.suffix(stem.chip.chip.name())),
        }
    }
}
