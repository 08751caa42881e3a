//! Which of a song's chips are heard, and which of their voices.
//!
//! Invariant: what is not heard is still counted in the song's level, so that stems add up to the
//! song, and muting a chip leaves the others as loud as they were.

use std::fmt;
use std::str::FromStr;

use super::checked::CHIPS;
use super::set::Part;
use super::voices::count;
use crate::error::{Error, Result};
use crate::format::{ChipId, Instance};

/// A chip by its name, in both or in one of its instances, with all or with one of its voices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    chip: ChipId,
    second: Option<bool>,
    /// Counted from 0.
    voice: Option<u8>,
}

impl Name {
    fn is(&self, instance: Instance, voice: u8) -> bool {
        self.chip == instance.chip
            && self.second.is_none_or(|second| second == instance.second)
            && self.voice.is_none_or(|own| own == voice)
    }
}

impl FromStr for Name {
    type Err = String;

    /// Reads a chip's name as `creel-vgm chips` has it, whatever its case; `#1` or `#2` behind it is
    /// one of two, and `:3` its third voice.
    ///
    /// ```
    /// use creel_vgm::chips::selection::Name;
    ///
    /// assert_eq!("ym2610b".parse::<Name>(), "YM2610".parse());
    /// assert!("YM2612#2:6".parse::<Name>().is_ok());
    /// assert!("YM2612:7".parse::<Name>().is_err());
    /// assert!("SID".parse::<Name>().is_err());
    /// ```
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (chip, voice) = match text.split_once(':') {
            None => (text, None),
            Some((chip, voice)) => (chip, Some(voice)),
        };
        let (name, second) = match chip.split_once('#') {
            None => (chip, None),
            Some((name, "1")) => (name, Some(false)),
            Some((name, "2")) => (name, Some(true)),
            Some(_) => return Err("behind # stands 1 or 2".into()),
        };
        let wanted = letters(name);
        let is = |name: &str| letters(name) == wanted;
        let row = CHIPS
            .iter()
            .find(|row| row.name.split(", ").any(is) || is(row.chip.name()));
        let row = row.ok_or("no chip that is played; `creel-vgm chips` lists them")?;
        let voices = count(row.chip);
        let place = |voice: &str| {
            let number = voice
                .parse()
                .ok()
                .filter(|voice| (1..=voices).contains(voice));
            number.ok_or_else(|| format!("its voices are 1 to {voices}"))
        };
        let voice = voice.map(place).transpose()?;
        Ok(Name {
            chip: row.chip,
            second,
            voice: voice.map(|voice: u8| voice - 1),
        })
    }
}

/// What of a name tells chips apart.
fn letters(name: &str) -> String {
    let name = name.split('(').next().unwrap_or_default();
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = match self.second {
            None => "",
            Some(false) => "#1",
            Some(true) => "#2",
        };
        let voice = self
            .voice
            .map_or(String::new(), |voice| format!(":{}", voice + 1));
        write!(f, "{}{second}{voice}", self.chip.name())
    }
}

/// What is heard of a chip: some of its voices, perhaps without others.
///
/// One voice for itself is what the chip plays up to that voice, without what it plays up to the one
/// before. So the voices of any chip add up to it, whatever its converter rounds, bends or cuts off:
/// each is what it adds to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// A bit a voice.
    pub voices: u64,
    /// Those of them whose sound is taken off again.
    pub before: Option<u64>,
}

/// Which chips are heard; all by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// These are not.
    pub mute: Vec<Name>,
    /// If there are any, only these are.
    pub solo: Vec<Name>,
    /// Of those, this chip alone, or one of its voices.
    pub only: Option<(Instance, Option<u8>)>,
}

impl Selection {
    /// Whether something of a chip is heard.
    pub fn has(&self, instance: Instance) -> bool {
        (0..count(instance.chip)).any(|voice| self.has_voice(instance, voice))
    }

    /// Whether a voice of a chip, counted from 0, is heard.
    pub fn has_voice(&self, instance: Instance, voice: u8) -> bool {
        let named = |names: &[Name]| names.iter().any(|name| name.is(instance, voice));
        let is_only = |(chip, own): (Instance, Option<u8>)| {
            chip == instance && own.is_none_or(|own| own == voice)
        };
        (self.solo.is_empty() || named(&self.solo))
            && !named(&self.mute)
            && self.only.is_none_or(is_only)
    }

    /// What is heard of a chip.
    pub(crate) fn heard(&self, instance: Instance) -> Heard {
        let all = (0..count(instance.chip)).filter(|voice| {
            let whole = Selection {
                only: None,
                ..self.clone()
            };
            whole.has_voice(instance, *voice)
        });
        let all = all.fold(0u64, |heard, voice| heard | 1 << voice);
        match self.only {
            Some((chip, Some(voice))) if chip == instance => {
                let before = all & ((1 << voice) - 1);
                Heard {
                    voices: before | all & 1 << voice,
                    before: (before != 0).then_some(before),
                }
            }
            _ => Heard {
                voices: all,
                before: None,
            },
        }
    }

    /// The parts that are heard.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if there are none.
    pub(crate) fn of(&self, parts: Vec<(Instance, Part)>) -> Result<Vec<(Instance, Part)>> {
        let adds = |(instance, part): &(Instance, Part)| match self.heard(*instance) {
            // What both have is taken off again.
            Heard {
                voices,
                before: Some(before),
            } => part.voices(instance.chip) & (voices ^ before) != 0,
            heard => heard.voices != 0,
        };
        let heard = parts.into_iter();
        let heard = heard.filter(|part| self.has(part.0) && adds(part));
        let heard: Vec<_> = heard.collect();
        if heard.is_empty() {
            let reason = "of the chips that may be heard it has none";
            return Err(Error::Unsupported(reason.into()));
        }
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_listed_is_understood() {
        for row in CHIPS {
            for name in row.name.split(", ").chain([row.chip.name()]) {
                let name: Name = name.parse().unwrap();
                assert_eq!(name.chip, row.chip, "{name}");
            }
        }
    }

    #[test]
    fn solo_mute_and_instance_select() {
        let of = |chip, second| Instance { chip, second };
        let names = |text: &str| vec![text.parse().unwrap()];
        let psg = [of(ChipId::Sn76489, false), of(ChipId::Sn76489, true)];
        let fm = of(ChipId::Ym2612, false);
        let mute = Selection {
            mute: names("sn-76489#2"),
            ..Selection::default()
        };
        assert_eq!(
            [psg[0], psg[1], fm].map(|it| mute.has(it)),
            [true, false, true]
        );
        let solo = Selection {
            solo: names("SN76489"),
            ..mute
        };
        assert_eq!(
            [psg[0], psg[1], fm].map(|it| solo.has(it)),
            [true, false, false]
        );
    }
}
