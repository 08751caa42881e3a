//! The samples that a song plays and the samples that it contains, to find chips that stay silent
//! because the song lacks their memory.
//!
//! We recognise that a song plays samples by the writes that start a voice. Songs often initialise
//! a chip that they do not use, and they need no samples for it.

use super::chip_id::ChipId;
use super::command::{Block, RamWrite, Write};
use super::header::{Header, Instance};
use crate::chips::registry;

/// A part of a chip that plays samples, and the data that can contain these samples.
struct Need {
    chip: ChipId,
    /// The name of the part, which is empty if it is the whole chip.
    part: &'static str,
    /// The kinds of the data blocks and of the copies into RAM that contain such samples.
    kinds: &'static [u8],
}

const fn need(chip: ChipId, part: &'static str, kinds: &'static [u8]) -> Need {
    Need { chip, part, kinds }
}

/// The indices in [`NEEDS`] of entries that `write_with_samples` sets by name.
const ADPCM_A: usize = 0;
const ADPCM_B: usize = 1;
const OPNA_ADPCM_B: usize = 2;
const Y8950_ADPCM_B: usize = 3;
const RF5C68: usize = 4;
const RF5C164: usize = 5;

#[rustfmt::skip]
const NEEDS: [Need; 26] = [
    need(ChipId::Ym2610, "ADPCM-A", &[0x82]),
    need(ChipId::Ym2610, "ADPCM-B", &[0x83]),
    need(ChipId::Ym2608, "ADPCM-B", &[0x81]),
    need(ChipId::Y8950, "ADPCM-B", &[0x88]),
    need(ChipId::Rf5c68, "", &[0xC0, 0x01]),
    need(ChipId::Rf5c164, "", &[0xC1, 0x02]),
    need(ChipId::SegaPcm, "", &[0x80]),
    need(ChipId::Ymf278b, "wave part", &[0x84, 0x87]),
    need(ChipId::Ymz280b, "", &[0x86]),
    need(ChipId::MultiPcm, "", &[0x89]),
    need(ChipId::Upd7759, "", &[0x8A]),
    need(ChipId::Okim6295, "", &[0x8B]),
    need(ChipId::K054539, "", &[0x8C]),
    need(ChipId::C140, "", &[0x8D]),
    need(ChipId::K053260, "", &[0x8E]),
    need(ChipId::Qsound, "", &[0x8F]),
    need(ChipId::Es5506, "", &[0x90]),
    need(ChipId::X1010, "sample part", &[0x91]),
    need(ChipId::C352, "", &[0x92]),
    need(ChipId::Ga20, "", &[0x93]),
    need(ChipId::K007232, "", &[0x94]),
    need(ChipId::Ics2115, "", &[0x96]),
    need(ChipId::Scsp, "", &[0xE0, 0x06]),
    need(ChipId::Es5503, "", &[0xE1]),
    need(ChipId::Ymf271, "sample part", &[0x85]),
    need(ChipId::NesApu, "DMC", &[0xC2, 0x07]),
];

const NES_DMC: usize = 25;

/// Returns the index in [`NEEDS`] of a chip that has only one entry.
fn only_need(chip: ChipId) -> Option<usize> {
    NEEDS.iter().position(|need| need.chip == chip)
}

const YM2608: Instance = Instance {
    chip: ChipId::Ym2608,
    second: false,
};

/// The loss of a song that plays the drums of a YM2608.
const REPLACED_DRUMS: &str =
    "the YM2608's drums are replacements, because its ROM is not available";

/// The samples that a song plays and contains.
#[derive(Default)]
pub(super) struct Samples {
    /// Whether the song plays the drums of a YM2608. No song can contain their samples.
    drums: bool,
    /// Whether the song plays samples and whether it contains any, one bit per entry of [`NEEDS`],
    /// for the first and for the second chip.
    played: [u32; 2],
    contained: [u32; 2],
    /// Whether the DMC of each NES has a length. Some programs enable it and never use it.
    dmc_has_length: [bool; 2],
}

impl Samples {
    /// Records a write that may start a voice which plays samples, or that stores samples.
    #[inline(always)]
    pub(super) fn write(&mut self, write: &Write) {
        // Most writes go to chips without samples.
        match write.instance.chip {
            ChipId::Sn76489
            | ChipId::Ym2413
            | ChipId::Ym2612
            | ChipId::Ym2151
            | ChipId::Ym2203
            | ChipId::Ym3812
            | ChipId::Ym3526
            | ChipId::Ymf262
            | ChipId::Pwm
            | ChipId::Ay8910
            | ChipId::GameBoy => {}
            ChipId::NesApu if !matches!(write.reg, 0x13 | 0x15) => {}
            _ => self.write_with_samples(write),
        }
    }

    #[inline(never)]
    fn write_with_samples(&mut self, write: &Write) {
        let Write {
            instance,
            port,
            reg,
            value,
        } = *write;
        let address = u16::from(port) << 8 | reg & 0xFF;
        let chip = usize::from(instance.second);
        let (all_played, all_contained) = (&mut self.played[chip], &mut self.contained[chip]);
        let starts = match instance.chip {
            ChipId::Ym2610 => {
                let a = address == 0x100 && value & 0x80 == 0 && value & 0x3F != 0;
                let b = address == 0x010 && value & 0x80 != 0;
                *all_played |= u32::from(a) << ADPCM_A | u32::from(b) << ADPCM_B;
                return;
            }
            ChipId::Ym2608 => {
                self.drums |= address == 0x010 && value & 0x80 == 0 && value & 0x3F != 0;
                let b = address == 0x100 && value & 0xE0 == 0xA0;
                *all_played |= u32::from(b) << OPNA_ADPCM_B;
                *all_contained |= u32::from(address == 0x108) << OPNA_ADPCM_B;
                return;
            }
            ChipId::Y8950 => {
                let b = reg == 0x07 && value & 0xE0 == 0xA0;
                *all_played |= u32::from(b) << Y8950_ADPCM_B;
                *all_contained |= u32::from(reg == 0x0F) << Y8950_ADPCM_B;
                return;
            }
            ChipId::Rf5c68 | ChipId::Rf5c164 => {
                let bit = match instance.chip {
                    ChipId::Rf5c68 => RF5C68,
                    _ => RF5C164,
                };
                // On an RF5C68 or RF5C164, a write to port 1 stores a byte in the memory.
                *all_contained |= u32::from(port == 1) << bit;
                *all_played |= u32::from(port == 0 && reg == 8 && value & 0xFF != 0xFF) << bit;
                return;
            }
            ChipId::NesApu => {
                let has_length = &mut self.dmc_has_length[chip];
                *has_length |= reg == 0x13 && value != 0;
                let starts = reg == 0x15 && value & 0x10 != 0 && *has_length;
                *all_played |= u32::from(starts) << NES_DMC;
                return;
            }
            ChipId::SegaPcm => reg & 0x87 == 0x86 && value & 1 == 0,
            ChipId::Ymf278b => port == 2 && (0x68..0x80).contains(&reg) && value & 0x80 != 0,
            ChipId::Ymz280b => reg < 0x20 && reg & 3 == 1 && value & 0x80 != 0,
            ChipId::MultiPcm => port == 0 && reg == 0 && value & 0x80 != 0,
            ChipId::Upd7759 => reg == 1 && value != 0,
            ChipId::Okim6295 => reg == 0 && value & 0x80 != 0,
            ChipId::K054539 => address == 0x214 && value != 0,
            ChipId::C140 => address < 0x180 && reg & 15 == 5 && value & 0x80 != 0,
            ChipId::K053260 => reg == 0x28 && value & 0x0F != 0,
            ChipId::Qsound => reg < 0x80 && reg & 7 == 6 && value != 0,
            // A voice of an ES5506 plays only if its step is not 0, so we look for writes of a
            // step. Port 1 is the ES5505, which receives words instead of bytes.
            ChipId::Es5506 if port == 1 => reg == 1 && value != 0,
            ChipId::Es5506 => matches!(reg, 6 | 7) && value != 0,
            // On an ICS2115, we count the high byte of any register as the start of a voice.
            ChipId::Ics2115 => reg == 3,
            // On an X1-010, bit 1 selects a wave instead of a sample.
            ChipId::X1010 => reg < 0x80 && reg & 7 == 0 && value & 3 == 1,
            // On a C352, bit 4 selects noise instead of a sample.
            ChipId::C352 => reg < 0x100 && reg & 7 == 3 && value & 0x4010 == 0x4000,
            ChipId::Ga20 => reg & 7 == 6 && value & 2 != 0,
            ChipId::K007232 => matches!(reg, 0x05 | 0x0B),
            ChipId::Scsp => reg < 0x400 && reg & 0x1F == 0 && value & 0x18 == 0x18,
            // On a YMF271, we look for writes to the end address of a sample.
            ChipId::Ymf271 => port == 4 && (0x30..0x60).contains(&reg) && value != 0,
            ChipId::Es5503 => (0xA0..0xC0).contains(&reg) && value & 1 == 0,
            _ => false,
        };
        if starts && let Some(bit) = only_need(instance.chip) {
            *all_played |= 1 << bit;
        }
    }

    /// Records a data block for the memory of a chip.
    pub(super) fn block(&mut self, block: &Block) {
        self.contains(block.kind, block.second);
    }

    /// Records a copy into RAM, which may contain samples.
    pub(super) fn copy(&mut self, copy: &RamWrite) {
        self.contains(copy.kind, copy.second);
    }

    fn contains(&mut self, kind: u8, second: bool) {
        let contained = &mut self.contained[usize::from(second)];
        for (bit, need) in NEEDS.iter().enumerate() {
            *contained |= u32::from(need.kinds.contains(&kind)) << bit;
        }
    }

    /// Returns a line for each chip that is silent, because the song plays samples that it does not
    /// contain, and a line if the song plays samples that we replace.
    pub(super) fn missing(&self, header: &Header) -> Vec<String> {
        let needs = NEEDS.iter().enumerate();
        let needs = needs.flat_map(|need| [false, true].map(|second| (need, second)));
        let missing = needs.filter(|((bit, need), second)| {
            let (chip, second) = (need.chip, *second);
            // A CPU feeds the uPD7759 in slave mode, for which it needs no memory.
            let is_fed = chip == ChipId::Upd7759 && header.is_variant(chip);
            let place = usize::from(second);
            let is_played = self.played[place] & !self.contained[place] & 1 << bit != 0;
            is_played
                && !is_fed
                && header.clock(Instance { chip, second }).is_some()
                && registry::of(chip).is_some()
        });
        let line = |((_, need), second): ((usize, &Need), bool)| {
            let name = header.name(need.chip);
            let which = if second { "second " } else { "" };
            let part = match need.part {
                "" => String::new(),
                part => format!("'s {part}"),
            };
            format!("the {which}{name}{part} is silent: the song contains no samples for it")
        };
        let replaced = self.drums && header.clock(YM2608).is_some();
        missing
            .map(line)
            .chain(replaced.then(|| REPLACED_DRUMS.into()))
            .collect()
    }
}
