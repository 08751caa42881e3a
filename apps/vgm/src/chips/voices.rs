//! The voices of chips, and how some of them are silenced.
//!
//! Where voices act on each other (drums share phases, timers press keys) and in all chips with FM,
//! the chip plays all of them and leaves those out of its sum that are not heard. Elsewhere a voice
//! is silenced as a driver would do it, by what its chip is told: its keys are never pressed, or its
//! volume is 0, so that no chip knows of it.
//!
//! Invariant: a silenced voice moves no write in time; what is changed is changed where a write has
//! reached its chip.
//!
//! Left out on purpose: chips of one voice.
//!
//! Source: the registers at the heads of the chips' modules.

use crate::format::ChipId;

/// How many voices a chip has that can be told apart; 1 where they cannot.
///
/// ```
/// use creel_vgm::{chips::voices::count, format::ChipId};
///
/// assert_eq!(count(ChipId::Ym2612), 6);
/// assert_eq!(count(ChipId::Pwm), 1);
/// ```
pub fn count(chip: ChipId) -> u8 {
    match chip {
        ChipId::K007232 => 2,
        ChipId::Ay8910 => 3,
        ChipId::Sn76489
        | ChipId::GameBoy
        | ChipId::Pokey
        | ChipId::WonderSwan
        | ChipId::Mikey
        | ChipId::Okim6295
        | ChipId::K053260
        | ChipId::Ga20 => 4,
        ChipId::K051649 => 5,
        // The last of the YM2612 is also the DAC, the last of the NES the FDS.
        ChipId::Ym2612 | ChipId::NesApu | ChipId::Huc6280 | ChipId::Vsu | ChipId::Saa1099 => 6,
        // Three of FM, three of the SSG.
        ChipId::Ym2203 => 6,
        ChipId::Ym2151 | ChipId::Rf5c68 | ChipId::Rf5c164 | ChipId::K054539 | ChipId::Ymz280b => 8,
        // Nine, five drums; the Y8950's samples.
        ChipId::Ym2413 | ChipId::Ym3812 | ChipId::Ym3526 => 14,
        ChipId::Y8950 => 15,
        // Six of FM, three of the SSG, six of ADPCM-A, one of ADPCM-B.
        ChipId::Ym2608 | ChipId::Ym2610 => 16,
        ChipId::SegaPcm | ChipId::X1010 => 16,
        ChipId::Qsound => 19,
        // Eighteen, five drums.
        ChipId::Ymf262 => 23,
        ChipId::C140 => 24,
        ChipId::MultiPcm => 28,
        ChipId::Es5503 | ChipId::Es5506 | ChipId::C352 | ChipId::Scsp | ChipId::Ics2115 => 32,
        // Slot 1 of twelve groups, then slots 2 to 4.
        ChipId::Ymf271 => 48,
        // As the YMF262, and 24 of waves.
        ChipId::Ymf278b => 47,
        _ => 1,
    }
}

/// All voices of a chip, a bit each.
pub fn all(chip: ChipId) -> u64 {
    u64::MAX >> (64 - count(chip))
}

/// Keeps some of a chip's voices silent, by what the chip is told.
#[derive(Debug, Clone)]
pub struct Silencer {
    chip: ChipId,
    /// A bit a voice.
    silent: u64,
    /// What the chip was told to expect: a register, a voice, a phrase.
    latch: [u16; 2],
}

impl Silencer {
    /// Lets only the voices of `heard` be heard, a bit each, the first voice's the lowest; nothing
    /// if those are all.
    pub fn new(chip: ChipId, heard: u64) -> Option<Self> {
        let silent = !heard & all(chip);
        (silent != 0).then_some(Silencer {
            chip,
            silent,
            latch: [0; 2],
        })
    }

    fn is(&self, voice: u16) -> bool {
        self.silent.checked_shr(u32::from(voice)).unwrap_or(0) & 1 != 0
    }

    /// The silent ones of eight voices, from `first` on.
    fn bits(&self, first: u32) -> u16 {
        (self.silent >> first) as u16 & 0xFF
    }

    /// What the chip is told instead of a write.
    pub fn pass(&mut self, port: u8, reg: u16, value: u16) -> u16 {
        let at = u16::from(port) << 8 | reg;
        match self.chip {
            ChipId::Ay8910 => self.ssg(at, value, 0),
            // Their SSG alone: FM and samples are left out by the chip itself.
            ChipId::Ym2203 => self.ssg(at, value, 3),
            ChipId::Ym2608 | ChipId::Ym2610 => self.ssg(at, value, 6),
            ChipId::Sn76489 | ChipId::Okim6295 | ChipId::Huc6280 | ChipId::MultiPcm => {
                self.latched(at, value)
            }
            chip => self.by_place(chip, at, value),
        }
    }

    /// Levels 0 of an SSG whose first voice is `first`.
    fn ssg(&self, at: u16, value: u16, first: u16) -> u16 {
        let silent = matches!(at, 8..=10) && self.is(at - 8 + first);
        if silent { 0 } else { value }
    }

    /// Chips that are told first what the next write is for.
    fn latched(&mut self, at: u16, value: u16) -> u16 {
        match (self.chip, at) {
            (ChipId::Sn76489, 0) => {
                if value & 0x80 != 0 {
                    self.latch[0] = value >> 4 & 7;
                }
                let silent = self.latch[0] & 1 != 0 && self.is(self.latch[0] >> 1);
                return if silent { value | 0x0F } else { value };
            }
            (ChipId::Okim6295, 0) if self.latch[0] != 0 => {
                self.latch[0] = 0;
                return value & !(self.bits(0) << 4 & 0xF0);
            }
            (ChipId::Okim6295, 0) => self.latch[0] = value & 0x80,
            (ChipId::Huc6280, 0) => self.latch[0] = value & 7,
            (ChipId::Huc6280, 4) if self.is(self.latch[0]) => return value & !0x80,
            (ChipId::MultiPcm, 1) => self.latch[0] = value & 0x1F,
            (ChipId::MultiPcm, 2) => self.latch[1] = value,
            // Each eighth number is no voice.
            (ChipId::MultiPcm, 0) if self.latch[1] == 4 && self.latch[0] & 7 != 7 => {
                let voice = self.latch[0] - (self.latch[0] >> 3);
                return if self.is(voice) { value & !0x80 } else { value };
            }
            _ => {}
        }
        value
    }

    /// Chips whose voices have registers of their own.
    fn by_place(&self, chip: ChipId, at: u16, value: u16) -> u16 {
        // The voice that a register is of, and what it is told if that is silent.
        let (voice, instead) = match (chip, at) {
            (ChipId::GameBoy, 0x02) => (0, 0),
            (ChipId::GameBoy, 0x07) => (1, 0),
            // The wave's DAC.
            (ChipId::GameBoy, 0x0A) => (2, 0),
            (ChipId::GameBoy, 0x11) => (3, 0),
            // A constant volume of 0; the triangle's counter at its end.
            (ChipId::NesApu, 0x00 | 0x04) => (at >> 2, value & 0xE0 | 0x10),
            (ChipId::NesApu, 0x08) => (2, value & 0x80),
            (ChipId::NesApu, 0x0C) => (3, value & 0xE0 | 0x10),
            (ChipId::NesApu, 0x11) => (4, 0),
            (ChipId::NesApu, 0x15) => (4, value & !0x10),
            (ChipId::NesApu, 0x20) => (5, 0x80),
            (ChipId::K051649, 0x200..=0x204) => (at - 0x200, 0),
            (ChipId::Pokey, 1 | 3 | 5 | 7) => (at >> 1, value & 0xF0),
            (ChipId::WonderSwan, 0x08..=0x0B) => (at - 8, 0),
            (ChipId::Vsu, _) if at & !0xF0 == 0x101 && at < 0x160 => (at >> 4 & 0xF, 0),
            (ChipId::Saa1099, 0..=5) => (at, 0),
            (ChipId::Mikey, 0x20..=0x3F) if matches!(at & 7, 0 | 2) => (at >> 3 & 3, 0),
            // The board's.
            (ChipId::K007232, 0x10..=0x13) => (at >> 1 & 1, 0),
            (ChipId::Es5503, 0x40..=0x5F) => (at - 0x40, 0),
            (ChipId::SegaPcm, _) if at < 0x80 && matches!(at & 7, 2 | 3) => (at >> 3, 0),
            (ChipId::Rf5c68 | ChipId::Rf5c164, 8) => return value | self.bits(0),
            (ChipId::K053260, 0x28) => return value & !(self.bits(0) & 0xF),
            (ChipId::K054539, 0x214 | 0x22C) => return value & !self.bits(0),
            (ChipId::C140, _) if at < 0x180 && at & 0xF < 2 => (at >> 4, 0),
            (ChipId::C352, _) if at < 0x100 && at & 7 < 2 => (at >> 3, 0),
            (ChipId::Qsound, _) if at < 0x80 && at & 7 == 6 => (at >> 3, 0),
            (ChipId::Qsound, 0xCD | 0xD1 | 0xD5) => (16 + (at - 0xCD) / 4, 0),
            (ChipId::Ga20, _) if at & 7 == 5 => (at >> 3, 0),
            (ChipId::X1010, _) if at < 0x80 && at & 7 == 0 => (at >> 3, value & !1),
            (ChipId::Ymz280b, _) if at < 0x20 && at & 3 == 1 => (at >> 2, value & !0x80),
            // The waves of an OPL4.
            (ChipId::Ymf278b, 0x268..=0x27F) => (at - 0x268 + 23, value & !0x80),
            // The direct level, in the high byte of a word.
            (ChipId::Scsp, _) if at < 0x400 && at & 0x1F == 0x16 => (at >> 5, value & 0x1F),
            // What is sent to the effects, in the low byte of another.
            (ChipId::Scsp, _) if at < 0x400 && at & 0x1F == 0x15 => (at >> 5, value & !7),
            _ => return value,
        };
        if self.is(voice) { instead } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of writes (address, value) where the voices of `silent` are.
    fn passed(chip: ChipId, silent: u64, writes: &[(u16, u16)]) -> Vec<u16> {
        let latch = [0; 2];
        let mut silencer = Silencer {
            chip,
            silent,
            latch,
        };
        let writes = writes.iter();
        let passed = writes.map(|(at, value)| silencer.pass((at >> 8) as u8, at & 0xFF, *value));
        passed.collect()
    }

    #[test]
    fn keys_and_volumes_of_the_silent_alone_are_changed() {
        let ssg = passed(ChipId::Ym2608, 1 << 7, &[(8, 15), (9, 15), (0x109, 15)]);
        assert_eq!(ssg, [15, 0, 15]);
        // A latched volume, and its data; the tone of the same channel.
        let psg = passed(
            ChipId::Sn76489,
            2,
            &[(0, 0xB3), (0, 0x05), (0, 0xA3), (0, 0x05)],
        );
        assert_eq!(psg, [0xBF, 0x0F, 0xA3, 0x05]);
        let oki = passed(ChipId::Okim6295, 1, &[(0, 0x85), (0, 0x30), (0, 0x30)]);
        assert_eq!(oki, [0x85, 0x20, 0x30]);
    }

    #[test]
    fn without_silence_nothing_is_changed() {
        for chip in ChipId::all() {
            let writes: Vec<_> = (0..0x800u16)
                .map(|at| (at, at.wrapping_mul(37) & 0xFF))
                .collect();
            let passed = passed(chip, 0, &writes);
            for (write, passed) in writes.iter().zip(passed) {
                assert_eq!(passed, write.1, "{} at {:x}", chip.name(), write.0);
            }
        }
    }
}
