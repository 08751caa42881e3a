//! The mix: the level of each chip compared with the others, and the level of a whole song.
//!
//! The level of a chip is a product of two numbers:
//!
//! - Its *scale* converts from the steps of our core to the convention of the format. In this
//!   convention one FM operator at its loudest reaches a quarter of full scale. The steps of our
//!   core are those of the core that we compare it with.
//! - Its *volume* is the value that players agree on and songs expect. It has the unit of the extra
//!   header, in which 256 is unity. The extra header replaces or scales the volume of the chip or
//!   of its SSG.
//!
//! We scale a song as a whole by a power of two, from 1/64 to 64. Each chip has a *weight*, which
//! is its volume times its share. For an OPN or a YMF278B, we add the volume of the SSG or of the
//! FM. The power of two brings the sum of the weights above 1.5 and up to 3. A chip that the song
//! only initialises does not count, unless this holds for all its chips.
//!
//! Source: VGM specification 1.71, "Chip Volume Header"; the volumes that VGMPlay and libvgm use;
//! the scales from tones rendered by libvgm (`tests/balance.rs`, docs/design/vgm.md).

use super::info::{Level, SSG_SCALE};
use super::registry;
use crate::format::{ChipId, Header, Instance, Song, Volume};

/// The full scale of a native frame.
const FULL_SCALE: f32 = 32768.0;

/// The volume of the SSG of an OPN chip.
const SSG_VOLUME: u16 = 0x80;

fn level_of(chip: ChipId) -> Level {
    // A chip that we cannot play also counts towards the level of the song, with these values.
    registry::of(chip).map_or(Level::new(1.0, 0x100, 1.0), |info| info.level)
}

/// Returns the factor from a native step of a chip, without its SSG or other paired half, to full
/// scale.
pub fn of_chip(header: &Header, instance: Instance) -> f32 {
    let Level { scale, volume, .. } = level_of(instance.chip);
    scale * chip_volume(header, instance, false, volume) / FULL_SCALE
}

/// Returns the factor from a step of the SSG of an OPN chip to full scale.
pub fn of_ssg(header: &Header, instance: Instance) -> f32 {
    SSG_SCALE * chip_volume(header, instance, true, SSG_VOLUME) / FULL_SCALE
}

/// Returns the factor from a step of the FM of a YMF278B to full scale. The scale is that of a
/// YMF262.
pub fn of_opl4_fm(header: &Header, instance: Instance) -> f32 {
    let Level { scale, .. } = level_of(ChipId::Ymf262);
    scale * chip_volume(header, instance, true, 0x100) / FULL_SCALE
}

/// Returns the factor for all levels of a song.
pub fn of_song(song: &Song) -> f32 {
    let sum = |only_played: bool| -> f32 {
        let chips = song.chips();
        chips
            .filter(|chip| !only_played || song.plays(*chip))
            .map(|chip| weight(&song.header, chip))
            .sum()
    };
    // A song may make all its writes before its first wait. None of its chips then counts as
    // playing, so we use the weights of all its chips.
    let sum = [sum(true), sum(false)].into_iter().find(|sum| *sum > 0.0);
    sum.map_or(1.0, |sum| {
        libm::exp2f(libm::log2f(3.0 / sum).floor().clamp(-6.0, 6.0))
    })
}

fn weight(header: &Header, instance: Instance) -> f32 {
    if instance.chip == ChipId::Ym3812 && instance.second && header.is_variant(instance.chip) {
        // The two chips are panned left and right, so their weights do not add up.
        return 0.0;
    }
    let Level { volume, share, .. } = level_of(instance.chip);
    let paired = match instance.chip {
        ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610 => {
            chip_volume(header, instance, true, SSG_VOLUME)
        }
        ChipId::Ymf278b => chip_volume(header, instance, true, 0x100),
        _ => 0.0,
    };
    chip_volume(header, instance, false, volume) * share + paired
}

/// Returns the volume of a chip of a song, or of its paired half if `paired` is set. 1 is unity.
fn chip_volume(header: &Header, instance: Instance, paired: bool, usual: u16) -> f32 {
    let given = header
        .chip_volumes
        .iter()
        .find(|volume| volume.instance == instance && volume.paired == paired);
    let volume = match given.map(|volume| volume.volume) {
        None => f32::from(usual),
        Some(Volume::Absolute(volume)) => f32::from(volume),
        Some(Volume::Relative(factor)) => f32::from(usual) * f32::from(factor) / 256.0,
    };
    volume / 256.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the factor of a song that has a C140 and, if `with_fm` is set, also a YM2151. The
    /// song writes to them after its first wait, so that they count.
    fn factor(with_fm: bool) -> f32 {
        let mut bytes = vec![0; 0x100];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x71, 0x01]);
        bytes[0x34] = 0xCC;
        bytes[0xA8..0xAC].copy_from_slice(&21_390u32.to_le_bytes());
        bytes.extend([0x62, 0xD4, 0, 0, 0x80]);
        if with_fm {
            bytes[0x30..0x34].copy_from_slice(&3_579_545u32.to_le_bytes());
            bytes.extend([0x54, 0x08, 0x78]);
        }
        bytes.extend([0x62, 0x66]);
        of_song(&Song::parse(bytes).unwrap())
    }

    #[test]
    fn both_halves_of_a_ymf278b_have_a_weight() {
        let mut bytes = vec![0; 0x100];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x71, 0x01]);
        bytes[0x34] = 0xCC;
        bytes[0x60..0x64].copy_from_slice(&33_868_800u32.to_le_bytes());
        bytes.extend([0x62, 0xD0, 0, 0, 0, 0x62, 0x66]);
        assert_eq!(of_song(&Song::parse(bytes).unwrap()), 1.0);
    }

    #[test]
    fn songs_of_a_c140_have_the_level_of_libvgm() {
        assert_eq!([factor(false), factor(true)], [2.0, 1.0]);
    }
}
