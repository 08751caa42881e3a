//! Which of a song's chips are heard, and which of their voices.
//!
//! Invariant: what is not heard is still counted in the song's level, so that stems add up to the
//! song, and muting a chip leaves the others as loud as they were.

use std::fmt;
use std::str::FromStr;

use super::factory::Part;
use super::registry::CHIPS;
use super::voices::{all, count};
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

/// What is heard of a part of a chip: what it plays of its first voices, so many of them, and what
/// of that is taken off again.
///
/// A voice for itself is what the chip plays up to that voice, without what it plays up to the one
/// before. So the voices of any chip add up to it, whatever its converter rounds, bends or cuts off:
/// each is what it adds to those before it. Several voices are the sum of each for itself, of which
/// neighbours cancel: all voices are the chip as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VoiceSum {
    /// Sets of voices, a bit each, whose sound is added.
    pub added: Vec<u64>,
    /// Those whose sound is taken off.
    pub subtracted: Vec<u64>,
    /// Whether voices may come and go while the song plays; then one set is added.
    pub adjustable: bool,
}

impl VoiceSum {
    /// The voices of `heard`, a bit each, of a part that makes those of `part` and of a chip that has
    /// `all`.
    fn of(heard: u64, part: u64, all: u64) -> VoiceSum {
        // What the part does not make is none of its concern.
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

/// As many bits as are given, the lowest.
fn low_bits(count: u32) -> u64 {
    !u64::MAX.checked_shl(count).unwrap_or(0)
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
    /// Whether voices may come and go while the song plays.
    pub live: bool,
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

    /// The voices of a chip that are heard, a bit each.
    fn voices(&self, instance: Instance) -> u64 {
        let heard = (0..count(instance.chip)).filter(|voice| self.has_voice(instance, *voice));
        heard.fold(0, |voices, voice| voices | 1 << voice)
    }

    /// What is heard of a part of a chip.
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

    /// The parts that are heard.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if none of them is.
    pub(crate) fn of(&self, parts: Vec<(Instance, Part)>) -> Result<Vec<(Instance, Part)>> {
        let is_heard = |(instance, part): &(Instance, Part)| {
            self.voices(*instance) & part.voices(instance.chip) != 0
        };
        let has_some = !parts.is_empty();
        let heard: Vec<_> = parts.into_iter().filter(is_heard).collect();
        if heard.is_empty() && has_some {
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
    fn every_listed_chip_name_parses() {
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

    #[test]
    fn voice_sums_cancel_between_neighbours() {
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
        // Of a part that makes the voices 1, 2, 5 and 6, the second and third are neighbours.
        assert_eq!(
            sum(0b01_1110, 0b11_0011, 0b11_1111),
            of(&[0b01_1111], &[0b00_1101])
        );
        assert_eq!(sum(0b00_1100, 0b11_0011, 0b11_1111), of(&[], &[]));
    }
}
