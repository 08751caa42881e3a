//! The voices of chips, and how to mute some of them.
//!
//! There are two ways to mute a voice:
//!
//! - In some chips the voices affect each other. For example, drums share phases and timers press
//!   keys. Such a chip and all chips with FM play all voices and leave the muted ones out of their
//!   sum.
//! - In other chips we change the writes. A muted voice never gets its key pressed, or its volume
//!   is always 0. A driver could do the same, so the chip needs no support for it.
//!
//! Invariant: muting a voice does not move writes in time, because we change a write when it
//! reaches its chip.
//!
//! Voices can be muted and unmuted while a song plays. For this purpose the [`VoiceMuter`]
//! remembers the unchanged volumes and writes to the chip immediately. It also releases a key
//! immediately. However, it does not press a key again before the next note of the voice. For the
//! OKIM6295 and the MultiPCM it remembers nothing: there a change takes effect with the next note.
//!
//! We leave out chips with one voice on purpose.
//!
//! Source: the registers at the heads of the chips' modules.

use std::collections::BTreeMap;

use super::info::VoiceGroup;
use super::registry;
use crate::format::{ChipId, PSG_SECOND};

/// Returns the number of voices of a chip that can be muted separately, or 1 if they cannot be.
///
/// ```
/// use creel_vgm::{chips::voices::count, format::ChipId};
///
/// assert_eq!(count(ChipId::Ym2612), 6);
/// assert_eq!(count(ChipId::Pwm), 1);
/// ```
pub fn count(chip: ChipId) -> u8 {
    registry::of(chip).map_or(1, |info| info.voices.iter().map(VoiceGroup::count).sum())
}

/// Returns the name of a chip's voice, counted from 0. The name is its number if it has no other
/// name.
///
/// ```
/// use creel_vgm::{chips::voices::name, format::ChipId};
///
/// assert_eq!(name(ChipId::Ym2612, 5), "FM 6, DAC");
/// assert_eq!(name(ChipId::Qsound, 0), "1");
/// ```
pub fn name(chip: ChipId, voice: u8) -> String {
    let mut place = voice;
    for group in registry::of(chip).map_or(&[][..], |info| info.voices) {
        match group {
            VoiceGroup::Counted(kind, count) if place < *count => {
                return format!("{kind} {}", place + 1);
            }
            VoiceGroup::Named(names) if place < group.count() => {
                return names[usize::from(place)].to_owned();
            }
            _ => place = place.saturating_sub(group.count()),
        }
    }
    (voice + 1).to_string()
}

/// Returns all voices of a chip, one bit per voice.
pub fn all(chip: ChipId) -> u64 {
    u64::MAX >> (64 - count(chip))
}

/// The latch number of the SN76489's noise control register.
const PSG_NOISE_REGISTER: u16 = 6;

/// Mutes some voices of a chip by changing the writes to the chip.
#[derive(Debug, Clone)]
pub struct VoiceMuter {
    chip: ChipId,
    /// The muted voices, one bit per voice.
    silent_mask: u64,
    /// The state that the last writes selected for the next one: a register, a voice or a phrase.
    latch: [u16; 2],
    /// The latch of an SN76489 for each of its ports: the register and the byte. Only the T6W28
    /// uses both ports.
    psg_latches: [[u16; 2]; 2],
    /// The unchanged volumes and keys by port and register, if voices may be unmuted later.
    register_values: Option<BTreeMap<(u8, u16), u16>>,
}

/// A write to a chip: port, register, value.
pub type RegisterWrite = (u8, u16, u16);

/// The meaning of a write for the voices.
enum VoiceWrite {
    /// The volume of a voice. The fields are the voice and the value to write if the voice is
    /// muted.
    Volume(u16, u16),
    /// The key of a voice. The fields are the voice and the value to write if the voice is muted.
    Key(u16, u16),
    /// One bit for each of eight voices. The field is the value to write.
    Bits(u16),
}

impl VoiceMuter {
    /// Creates a muter for all voices except those in `heard`, one bit per voice.
    ///
    /// The lowest bit is the first voice. Returns `None` if no voice is muted.
    pub fn new(chip: ChipId, heard: u64) -> Option<Self> {
        let muter = VoiceMuter::adjustable(chip, heard);
        (muter.silent_mask != 0).then_some(VoiceMuter {
            register_values: None,
            ..muter
        })
    }

    /// Creates a muter whose voices can change later. You must pass all writes from the start of
    /// the song to it.
    pub fn adjustable(chip: ChipId, heard: u64) -> Self {
        VoiceMuter {
            chip,
            silent_mask: !heard & all(chip),
            latch: [0; 2],
            psg_latches: [[0; 2]; 2],
            register_values: Some(BTreeMap::new()),
        }
    }

    /// Mutes all voices except those in `heard` from now on, and returns the writes that achieve
    /// this.
    pub fn set_voice_mask(&mut self, heard: u64) -> Vec<RegisterWrite> {
        let before = self.silent_mask;
        self.silent_mask = !heard & all(self.chip);
        let mut writes = Vec::new();
        for (&(port, reg), &value) in self.register_values.iter().flatten() {
            let as_silent = |silent| {
                let muter = VoiceMuter {
                    silent_mask: silent,
                    register_values: None,
                    ..*self
                };
                muter.masked_value(port, reg, value)
            };
            let (was, now) = (as_silent(before), as_silent(self.silent_mask));
            let pressed = matches!(self.classify(port, reg, value), Some(VoiceWrite::Key(..)))
                && before & !self.silent_mask != 0;
            if was != now && !pressed {
                self.push_write((port, reg, now), &mut writes);
            }
        }
        writes
    }

    /// Adds a write, together with the writes before and after it that a chip with latches needs.
    fn push_write(&self, (port, reg, value): RegisterWrite, writes: &mut Vec<RegisterWrite>) {
        match self.chip {
            ChipId::Sn76489 => {
                // `reg` is the number of the latch, which contains the channel and whether it is
                // the volume.
                writes.push((port, 0, 0x80 | reg << 4 | value & 0xF));
                let [place, byte] = self.psg_latches[psg_half(port)];
                let volume = self
                    .register_values
                    .as_ref()
                    .and_then(|values| values.get(&(port, place)));
                match volume {
                    // We restore the latch with the current volume and not with the one that was
                    // latched.
                    Some(&volume) => {
                        let volume = self.masked_value(port, place, volume) & 0xF;
                        writes.push((port, 0, 0x80 | place << 4 | volume));
                    }
                    // Latching this register would restart the noise. We do not restore the latch,
                    // because `filter_latched` adds it to later writes.
                    None if place == PSG_NOISE_REGISTER => {}
                    None => writes.push((port, 0, byte)),
                }
            }
            ChipId::Huc6280 => {
                let voice = reg >> 8;
                writes.extend([(0, 0, voice), (0, 4, value), (0, 0, self.latch[0])]);
            }
            _ => writes.push((port, reg, value)),
        }
    }

    fn is_silent(&self, voice: u16) -> bool {
        self.silent_mask.checked_shr(u32::from(voice)).unwrap_or(0) & 1 != 0
    }

    /// Returns which of the eight voices from `first` on are muted.
    fn silent_bits(&self, first: u32) -> u16 {
        (self.silent_mask >> first) as u16 & 0xFF
    }

    /// Returns the value to write to the chip instead of `value`.
    pub fn filter(&mut self, port: u8, reg: u16, value: u16) -> u16 {
        match self.chip {
            ChipId::Sn76489 if port & 1 == 0 && reg == 0 => self.filter_psg(port, value),
            ChipId::Sn76489 => value,
            ChipId::Okim6295 | ChipId::Huc6280 | ChipId::MultiPcm => {
                self.filter_latched(u16::from(port) << 8 | reg, value)
            }
            _ => {
                if self.register_values.is_some() && self.classify(port, reg, value).is_some() {
                    self.remember((port, reg), value);
                }
                self.masked_value(port, reg, value)
            }
        }
    }

    fn remember(&mut self, place: (u8, u16), value: u16) {
        if let Some(values) = &mut self.register_values {
            values.insert(place, value);
        }
    }

    fn masked_value(&self, port: u8, reg: u16, value: u16) -> u16 {
        match self.classify(port, reg, value) {
            Some(VoiceWrite::Volume(voice, instead) | VoiceWrite::Key(voice, instead))
                if self.is_silent(voice) =>
            {
                instead
            }
            Some(VoiceWrite::Bits(instead)) => instead,
            _ => value,
        }
    }

    /// Returns the meaning of a write for the voices. For chips with latches, `reg` is a register
    /// number that [`VoiceMuter::filter_latched`] computes.
    fn classify(&self, port: u8, reg: u16, value: u16) -> Option<VoiceWrite> {
        let at = u16::from(port) << 8 | reg;
        match self.chip {
            ChipId::Ay8910 => ssg(at, 0),
            // We handle only the SSG of these chips here. The chips themselves mute FM and samples.
            ChipId::Ym2203 => ssg(at, 3),
            ChipId::Ym2608 | ChipId::Ym2610 => ssg(at, 6),
            ChipId::Sn76489 => Some(VoiceWrite::Volume(reg >> 1, value | 0x0F)),
            ChipId::Huc6280 => Some(VoiceWrite::Volume(reg >> 8, value & !0x80)),
            chip => self.classify_by_address(chip, at, value),
        }
    }

    /// Filters a byte to an SN76489 or T6W28.
    fn filter_psg(&mut self, port: u8, value: u16) -> u16 {
        let half = psg_half(port);
        if value & 0x80 != 0 {
            self.psg_latches[half] = [value >> 4 & 7, value];
        }
        let place = self.psg_latches[half][0];
        if place == PSG_NOISE_REGISTER {
            // The register has four bits, so a byte that latches it has the same effect as a byte
            // of data. We always pass a byte that latches it.
            return 0x80 | PSG_NOISE_REGISTER << 4 | value & 0x0F;
        }
        if place & 1 == 0 {
            return value;
        }
        self.remember((port, place), value & 0x0F);
        let passed = self.masked_value(port, place, value);
        let byte = &mut self.psg_latches[half][1];
        *byte = *byte & 0xF0 | passed & 0x0F;
        passed
    }

    /// Filters a write to a chip in which the meaning of a write depends on earlier ones. On the
    /// HuC6280 and MultiPCM, earlier writes select the voice or the register. On the OKIM6295, the
    /// first of two bytes selects a sample, and the second one selects its voices.
    fn filter_latched(&mut self, at: u16, value: u16) -> u16 {
        match (self.chip, at) {
            (ChipId::Okim6295, 0) if self.latch[0] != 0 => {
                self.latch[0] = 0;
                return value & !(self.silent_bits(0) << 4 & 0xF0);
            }
            (ChipId::Okim6295, 0) => self.latch[0] = value & 0x80,
            (ChipId::Huc6280, 0) => self.latch[0] = value & 7,
            (ChipId::Huc6280, 4) => {
                let place = self.latch[0] << 8 | 4;
                self.remember((0, place), value);
                return self.masked_value(0, place, value);
            }
            (ChipId::MultiPcm, 1) => self.latch[0] = value & 0x1F,
            (ChipId::MultiPcm, 2) => self.latch[1] = value,
            // The numbers 7, 15, 23 and 31 have no voice.
            (ChipId::MultiPcm, 0) if self.latch[1] == 4 && self.latch[0] & 7 != 7 => {
                let voice = self.latch[0] - (self.latch[0] >> 3);
                return if self.is_silent(voice) {
                    value & !0x80
                } else {
                    value
                };
            }
            _ => {}
        }
        value
    }

    /// Returns the meaning of a write for chips whose voices have separate registers.
    fn classify_by_address(&self, chip: ChipId, at: u16, value: u16) -> Option<VoiceWrite> {
        let volume = |voice, instead| Some(VoiceWrite::Volume(voice, instead));
        let key = |voice, instead| Some(VoiceWrite::Key(voice, instead));
        match (chip, at) {
            (ChipId::GameBoy, 0x02) => volume(0, 0),
            (ChipId::GameBoy, 0x07) => volume(1, 0),
            // The wave channel is silent while its DAC is off.
            (ChipId::GameBoy, 0x0A) => volume(2, 0),
            (ChipId::GameBoy, 0x11) => volume(3, 0),
            // A constant volume of 0 for the pulses and the noise, and an expired counter for the
            // triangle.
            (ChipId::NesApu, 0x00 | 0x04) => volume(at >> 2, value & 0xE0 | 0x10),
            (ChipId::NesApu, 0x08) => volume(2, value & 0x80),
            (ChipId::NesApu, 0x0C) => volume(3, value & 0xE0 | 0x10),
            (ChipId::NesApu, 0x11) => volume(4, 0),
            (ChipId::NesApu, 0x15) => key(4, value & !0x10),
            (ChipId::NesApu, 0x20) => volume(5, 0x80),
            (ChipId::K051649, 0x200..=0x204) => volume(at - 0x200, 0),
            (ChipId::Pokey, 1 | 3 | 5 | 7) => volume(at >> 1, value & 0xF0),
            (ChipId::WonderSwan, 0x08..=0x0B) => volume(at - 8, 0),
            (ChipId::Vsu, _) if at & !0xF0 == 0x101 && at < 0x160 => volume(at >> 4 & 0xF, 0),
            (ChipId::Saa1099, 0..=5) => volume(at, 0),
            (ChipId::Mikey, 0x20..=0x3F) if matches!(at & 7, 0 | 2) => volume(at >> 3 & 3, 0),
            // The volumes are not on the chip but on its board.
            (ChipId::K007232, 0x10..=0x13) => volume(at >> 1 & 1, 0),
            (ChipId::Es5503, 0x40..=0x5F) => volume(at - 0x40, 0),
            (ChipId::SegaPcm, _) if at < 0x80 && matches!(at & 7, 2 | 3) => volume(at >> 3, 0),
            (ChipId::Rf5c68 | ChipId::Rf5c164, 8) => {
                Some(VoiceWrite::Bits(value | self.silent_bits(0)))
            }
            (ChipId::K053260, 0x28) => Some(VoiceWrite::Bits(value & !(self.silent_bits(0) & 0xF))),
            (ChipId::K054539, 0x214 | 0x22C) => {
                Some(VoiceWrite::Bits(value & !self.silent_bits(0)))
            }
            (ChipId::C140, _) if at < 0x180 && at & 0xF < 2 => volume(at >> 4, 0),
            (ChipId::C352, _) if at < 0x100 && at & 7 < 2 => volume(at >> 3, 0),
            (ChipId::Qsound, _) if at < 0x80 && at & 7 == 6 => volume(at >> 3, 0),
            (ChipId::Qsound, 0xCD | 0xD1 | 0xD5) => volume(16 + (at - 0xCD) / 4, 0),
            (ChipId::Ga20, _) if at & 7 == 5 => volume(at >> 3, 0),
            (ChipId::X1010, _) if at < 0x80 && at & 7 == 0 => key(at >> 3, value & !1),
            (ChipId::Ymz280b, _) if at < 0x20 && at & 3 == 1 => key(at >> 2, value & !0x80),
            // The wave voices of an OPL4.
            (ChipId::Ymf278b, 0x268..=0x27F) => key(at - 0x268 + 23, value & !0x80),
            // The level of the direct output, in the high byte of word 16h.
            (ChipId::Scsp, _) if at < 0x400 && at & 0x1F == 0x16 => volume(at >> 5, value & 0x1F),
            // The send level to the effects, in the low byte of another word.
            (ChipId::Scsp, _) if at < 0x400 && at & 0x1F == 0x15 => volume(at >> 5, value & !7),
            _ => None,
        }
    }
}

/// Returns the index of an SN76489's port in `psg_latches`.
fn psg_half(port: u8) -> usize {
    usize::from(port & PSG_SECOND != 0)
}

/// Returns the meaning of a write to an SSG whose first voice has the number `first`.
fn ssg(at: u16, first: u16) -> Option<VoiceWrite> {
    matches!(at, 8..=10).then(|| VoiceWrite::Volume(at - 8 + first, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the filtered values of writes (address, value) with the voices of `silent` muted.
    fn passed(chip: ChipId, silent: u64, writes: &[(u16, u16)]) -> Vec<u16> {
        let latch = [0; 2];
        let mut muter = VoiceMuter {
            chip,
            silent_mask: silent,
            latch,
            psg_latches: [latch; 2],
            register_values: None,
        };
        let writes = writes.iter();
        let passed = writes.map(|(at, value)| muter.filter((at >> 8) as u8, at & 0xFF, *value));
        passed.collect()
    }

    #[test]
    fn muter_changes_only_muted_voices() {
        let ssg = passed(ChipId::Ym2608, 1 << 7, &[(8, 15), (9, 15), (0x109, 15)]);
        assert_eq!(ssg, [15, 0, 15]);
        // A latched volume and its data, then the tone of the same channel.
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
    fn unmuting_restores_the_volume() {
        let mut psg = VoiceMuter::adjustable(ChipId::Sn76489, !0);
        for value in [0x93, 0xB2, 0x85] {
            assert_eq!(psg.filter(0, 0, value), value);
        }
        // The volume of the second channel is written, and the previous latch is restored.
        assert_eq!(psg.set_voice_mask(!2), [(0, 0, 0xBF), (0, 0, 0x85)]);
        assert_eq!(
            [psg.filter(0, 0, 0xB7), psg.filter(0, 0, 0x84)],
            [0xBF, 0x84]
        );
        assert_eq!(psg.set_voice_mask(!0), [(0, 0, 0xB7), (0, 0, 0x84)]);
        // The latch is restored with the current volume and not with the latched one.
        psg.filter(0, 0, 0xB1);
        assert_eq!(psg.set_voice_mask(!2), [(0, 0, 0xBF), (0, 0, 0xBF)]);
        assert_eq!(psg.set_voice_mask(!0), [(0, 0, 0xB1), (0, 0, 0xB1)]);
        // The noise does not restart, and later data still goes to the noise register.
        psg.filter(0, 0, 0xE4);
        assert_eq!(psg.set_voice_mask(!2), [(0, 0, 0xBF)]);
        assert_eq!(psg.filter(0, 0, 0x05), 0xE5);
        let mut ssg = VoiceMuter::adjustable(ChipId::Ym2608, !0);
        ssg.filter(0, 9, 12);
        assert_eq!(ssg.set_voice_mask(!(1 << 7)), [(0, 9, 0)]);
        assert_eq!(ssg.set_voice_mask(!0), [(0, 9, 12)]);
        // A key is released, but not pressed again.
        let mut pcm = VoiceMuter::adjustable(ChipId::Ymz280b, !0);
        pcm.filter(0, 1, 0x80);
        assert_eq!(pcm.set_voice_mask(!1), [(0, 1, 0)]);
        assert_eq!(pcm.set_voice_mask(!0), []);
        let mut huc = VoiceMuter::adjustable(ChipId::Huc6280, !0);
        for write in [(0, 2), (4, 0x9F), (0, 5)] {
            huc.filter(0, write.0, write.1);
        }
        assert_eq!(huc.set_voice_mask(!4), [(0, 0, 2), (0, 4, 0x1F), (0, 0, 5)]);
    }

    #[test]
    fn muter_without_muted_voices_passes_all_writes() {
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
