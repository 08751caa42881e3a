//! The mix: how loud each chip is beside the others, and a song as a whole.
//!
//! A chip's level is a product of two numbers. Its *scale* leads from the steps of our core, which
//! are those of the core that it is compared with, to the format's convention, by which one FM
//! operator at its loudest makes a quarter of full scale. Its *volume* is what players agree that
//! songs expect, in the unit of the extra header: 256 is unity. The extra header replaces or scales
//! the volume, of the chip itself or of its SSG.
//!
//! A song as a whole is scaled by the power of two that brings the *weights* of its chips, volume
//! times share, above 1.5 and up to 3. A chip that the song only sets up weighs nothing.
//!
//! Source: VGM specification 1.71, "Chip Volume Header"; the volumes that VGMPlay and libvgm use;
//! the scales from tones rendered by libvgm (`tests/balance.rs`, docs/design/vgm.md).

use super::info::{Level, SSG_SCALE};
use super::registry;
use crate::format::{ChipId, Header, Instance, Song, Volume};

/// Full scale of a native frame.
const FULL_SCALE: f32 = 32768.0;

/// The volume of the SSG of an OPN chip.
const SSG_VOLUME: u16 = 0x80;

fn level_of(chip: ChipId) -> Level {
    // A chip that is not played has a weight all the same.
    registry::of(chip).map_or(Level::new(1.0, 0x100, 1.0), |info| info.level)
}

/// The factor from a native step of a chip's own half to full scale.
pub fn of_chip(header: &Header, instance: Instance) -> f32 {
    let Level { scale, volume, .. } = level_of(instance.chip);
    scale * chip_volume(header, instance, false, volume) / FULL_SCALE
}

/// The factor from a step of the SSG of an OPN chip to full scale.
pub fn of_ssg(header: &Header, instance: Instance) -> f32 {
    SSG_SCALE * chip_volume(header, instance, true, SSG_VOLUME) / FULL_SCALE
}

/// The factor from a step of the FM of a YMF278B to full scale: as that of a YMF262.
pub fn of_opl4_fm(header: &Header, instance: Instance) -> f32 {
    let Level { scale, .. } = level_of(ChipId::Ymf262);
    scale * chip_volume(header, instance, true, 0x100) / FULL_SCALE
}

/// The factor on all levels of a song.
pub fn of_song(song: &Song) -> f32 {
    let sum = |only_played: bool| -> f32 {
        let chips = song.chips();
        chips
            .filter(|chip| !only_played || song.plays(*chip))
            .map(|chip| weight(&song.header, chip))
            .sum()
    };
    // A song that does all it does at once is as loud as what it sets up.
    let sum = [sum(true), sum(false)].into_iter().find(|sum| *sum > 0.0);
    sum.map_or(1.0, |sum| {
        (3.0 / sum).log2().floor().clamp(-6.0, 6.0).exp2()
    })
}

fn weight(header: &Header, instance: Instance) -> f32 {
    if instance.chip == ChipId::Ym3812 && instance.second && header.is_variant(instance.chip) {
        // One is left and one right: they do not add up.
        return 0.0;
    }
    let Level { volume, share, .. } = level_of(instance.chip);
    let ssg = match instance.chip {
        ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610 => {
            chip_volume(header, instance, true, SSG_VOLUME)
        }
        _ => 0.0,
    };
    chip_volume(header, instance, false, volume) * share + ssg
}

/// The volume of a chip of a song, or of its other half if `paired`: 1 is unity.
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
