//! The selection of the audible chips of a song, and of their audible voices.
//!
//! Invariant: muted chips and voices still count towards the song's level. Stems therefore add up
//! to the song, and muting a chip does not change the level of the others.

use std::fmt;
use std::str::FromStr;

use super::factory::Part;
use super::registry::CHIPS;
use super::voices::{all, count};
use crate::error::{Error, Result};
use crate::format::{ChipId, Instance};

/// A name for a chip: both instances or one of them, and all voices or one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    chip: ChipId,
    second: Option<bool>,
    /// The voice, counted from 0.
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

    /// Parses the name of a chip as `creel-vgm chips` prints it, in upper or lower case.
    ///
    /// The suffix `#1` or `#2` selects one of two instances, and `:3` selects the third voice.
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
            Some(_) => return Err("expected 1 or 2 after #".into()),
        };
        let wanted = letters(name);
        let is = |name: &str| letters(name) == wanted;
        let row = CHIPS
            .iter()
            .find(|row| row.name.split(", ").any(is) || is(row.chip.name()));
        let row = row.ok_or("unknown chip: run `creel-vgm chips` to list all chips")?;
        let voices = count(row.chip);
        let place = |voice: &str| {
            let number = voice
                .parse()
                .ok()
                .filter(|voice| (1..=voices).contains(voice));
            number.ok_or_else(|| format!("the chip has no voice of this number: use 1 to {voices}"))
        };
        let voice = voice.map(place).transpose()?;
        Ok(Name {
            chip: row.chip,
            second,
            voice: voice.map(|voice: u8| voice - 1),
        })
    }
}

/// Returns the letters and digits of a name in lower case, up to a parenthesis.
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

/// The audible output of a part of a chip, as a sum of renderings with different sets of voices.
///
/// A single voice is the output of all voices up to this one, minus the output of the voices before
/// it. For example, voice 3 is the output of voices 1 to 3, minus that of voices 1 and 2. We do not
/// render a voice alone, because the converter of a chip may round, distort or clip. Voices that
/// were rendered alone would then not add up to the chip.
///
/// Several voices are the sum of single voices, in which the terms of neighbours cancel. For
/// example, voices 3 and 4 are the output of voices 1 to 4, minus that of voices 1 and 2. The sum
/// of all voices is the chip itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VoiceSum {
    /// The sets of voices whose output is added, one bit per voice.
    pub added: Vec<u64>,
    /// The sets of voices whose output is subtracted.
    pub subtracted: Vec<u64>,
    /// Whether voices may be muted while the song plays. In this case exactly one set is added.
    pub adjustable: bool,
}

impl VoiceSum {
    /// Returns the sum for the voices `heard`, one bit per voice.
    ///
    /// The part plays the voices `part`, and the whole chip has the voices `all`.
    fn of(heard: u64, part: u64, all: u64) -> VoiceSum {
        // Bits of voices that this part does not play stay set, because they do not affect it.
        let up_to = |voice: u32| (part & low_bits(voice)) | (all & !part);
        let (mut sum, mut was_heard) = (VoiceSum::default(), false);
        let voices = (0..u64::BITS).filter(|voice| part >> voice & 1 != 0);
        for voice in voices {
            let is_heard = heard >> voice & 1 != 0;
            if is_heard && !was_heard && part & low_bits(voice) != 0 {
                sum.subtracted.push(up_to(voice));
            } else if was_heard && !is_heard {
                sum.added.push(up_to(voice));
            }
            was_heard = is_heard;
        }
        if was_heard {
            sum.added.push(all);
        }
        sum
    }
}

/// Returns a number with the lowest `count` bits set.
fn low_bits(count: u32) -> u64 {
    !u64::MAX.checked_shl(count).unwrap_or(0)
}

/// The audible chips. By default all chips are audible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The chips and voices that are muted.
    pub mute: Vec<Name>,
    /// If the list is not empty, only these chips and voices are audible.
    pub solo: Vec<Name>,
    /// If set, only this chip or one of its voices is audible.
    pub only: Option<(Instance, Option<u8>)>,
    /// Whether voices may be muted while the song plays.
    pub live: bool,
}

impl Selection {
    /// Returns whether any voice of a chip is audible.
    pub fn has(&self, instance: Instance) -> bool {
        (0..count(instance.chip)).any(|voice| self.has_voice(instance, voice))
    }

    /// Returns whether a voice of a chip, counted from 0, is audible.
    pub fn has_voice(&self, instance: Instance, voice: u8) -> bool {
        let named = |names: &[Name]| names.iter().any(|name| name.is(instance, voice));
        let is_only = |(chip, own): (Instance, Option<u8>)| {
            chip == instance && own.is_none_or(|own| own == voice)
        };
        (self.solo.is_empty() || named(&self.solo))
            && !named(&self.mute)
            && self.only.is_none_or(is_only)
    }

    /// Returns the audible voices of a chip, one bit per voice.
    fn voices(&self, instance: Instance) -> u64 {
        let heard = (0..count(instance.chip)).filter(|voice| self.has_voice(instance, *voice));
        heard.fold(0, |voices, voice| voices | 1 << voice)
    }

    /// Returns the audible output of a part of a chip.
    pub(crate) fn voice_sum(&self, instance: Instance, part: &Part) -> VoiceSum {
        let (chip, voices) = (instance.chip, self.voices(instance));
        if self.live {
            return VoiceSum {
                added: vec![voices],
                adjustable: true,
                ..Default::default()
            };
        }
        VoiceSum::of(voices, part.voices(chip), all(chip))
    }

    /// Returns the audible parts.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`] if there are parts but none of them is audible.
    pub(crate) fn of(&self, parts: Vec<(Instance, Part)>) -> Result<Vec<(Instance, Part)>> {
        let is_heard = |(instance, part): &(Instance, Part)| {
            self.voices(*instance) & part.voices(instance.chip) != 0
        };
        let has_some = !parts.is_empty();
        let heard: Vec<_> = parts.into_iter().filter(is_heard).collect();
        if heard.is_empty() && has_some {
            let reason = "the song has none of the selected chips";
            return Err(Error::Unsupported(reason.into()));
        }
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_chip_name_parses() {
        for row in CHIPS {
            for name in row.name.split(", ").chain([row.chip.name()]) {
                let name: Name = name.parse().unwrap();
                assert_eq!(name.chip, row.chip, "{name}");
            }
        }
    }

    #[test]
    fn mute_and_solo_apply_to_one_instance_or_both() {
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

    #[test]
    fn prefix_sums_of_neighbouring_voices_cancel() {
        let sum = |heard, part, all| {
            let heard = VoiceSum::of(heard, part, all);
            (heard.added, heard.subtracted)
        };
        let of = |added: &[u64], taken_off: &[u64]| (added.to_vec(), taken_off.to_vec());
        assert_eq!(sum(0b11_1111, 0b11_1111, 0b11_1111), of(&[0b11_1111], &[]));
        assert_eq!(sum(0b100, 0b11_1111, 0b11_1111), of(&[0b111], &[0b11]));
        assert_eq!(
            sum(0b11_0101, 0b11_1111, 0b11_1111),
            of(&[0b1, 0b111, 0b11_1111], &[0b11, 0b1111])
        );
        // The part plays the voices 1, 2, 5 and 6, so its second and third voices are neighbours.
        assert_eq!(
            sum(0b01_1110, 0b11_0011, 0b11_1111),
            of(&[0b01_1111], &[0b00_1101])
        );
        assert_eq!(sum(0b00_1100, 0b11_0011, 0b11_1111), of(&[], &[]));
    }
}
