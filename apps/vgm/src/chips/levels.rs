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

use crate::format::{ChipId, Header, Instance, Song, Volume};

/// Full scale of a native frame.
const FULL_SCALE: f32 = 32768.0;

/// How loud a kind of chip is.
struct Level {
    /// From a native step of our core to one of the convention.
    scale: f32,
    /// The usual volume; 256 is unity.
    volume: u16,
    /// How much of a whole song a chip at unity is held for.
    share: f32,
}

const fn level(scale: f32, volume: u16, share: f32) -> Level {
    Level {
        scale,
        volume,
        share,
    }
}

/// The square waves of AY-3-8910 and OPN chips: three channels at their loudest make 1.5 of full
/// scale in the core, and half of that here.
const SSG_SCALE: f32 = 0.5;

/// The volume of the SSG of an OPN chip.
const SSG_VOLUME: u16 = 0x80;

fn level_of(chip: ChipId) -> Level {
    match chip {
        ChipId::Sn76489 => level(1.0, 0x80, 1.0),
        // The core takes the mean of nine channels.
        ChipId::Ym2413 => level(9.0 / 16.0, 0x200, 0.5),
        // The core takes the mean of six channels of 14 bits.
        ChipId::Ym2612 => level(1.5, 0x100, 1.0),
        // The core drops a bit, so that the sum fits its converter.
        ChipId::Ym2608 | ChipId::Ym2610 => level(2.0, 0x80, 1.0),
        ChipId::Ym3526 | ChipId::Ym3812 | ChipId::Y8950 => level(1.0, 0x100, 2.0),
        // The core keeps a bit more than that of the YM3812.
        ChipId::Ymf262 => level(0.5, 0x100, 2.0),
        ChipId::Ay8910 => level(SSG_SCALE, 0x100, 2.0),
        ChipId::Okim6258 => level(1.0, 0x1C0, 2.0),
        // The core drops two bits, so that eight loud voices fit.
        ChipId::SegaPcm => level(4.0, 0x180, 1.0),
        ChipId::Rf5c68 => level(1.0, 0xB0, 1.0),
        ChipId::Rf5c164 => level(1.0, 0x80, 2.0),
        // The core keeps a bit less, so that eight voices fit.
        ChipId::Ymz280b => level(2.0, 0x98, 2.0),
        ChipId::Pwm => level(1.0, 0xE0, 1.0),
        // The core's four channels fill its scale; the machine's are twice as loud.
        ChipId::GameBoy => level(2.0, 0xC0, 4.0),
        // The core's full scale is the mixer's.
        ChipId::NesApu => level(1.0, 0x100, 2.0),
        // What follows: the scales that make a tone as loud as libvgm's.
        ChipId::K051649 => level(3.2, 0xA0, 1.6),
        ChipId::Huc6280 => level(0.72, 0x100, 1.0),
        ChipId::Pokey => level(1.45, 0x100, 1.0),
        ChipId::Vsu => level(2.0, 0x100, 1.0),
        ChipId::Saa1099 => level(1.07, 0x100, 1.0),
        ChipId::Mikey => level(0.94, 0x100, 2.0),
        ChipId::Msm5205 => level(1.0, 0x100, 2.0),
        ChipId::Es5503 => level(1.0, 0x40, 8.0),
        // As SegaPCM: four voices fit.
        ChipId::Okim6295 => level(4.0, 0x100, 2.0),
        ChipId::Ymf278b => level(0.707, 0x100, 1.0),
        ChipId::K053260 => level(2.0, 0x100, 1.0),
        // The core drops two bits.
        ChipId::Qsound => level(4.0, 0x100, 1.0),
        // A volume of 15 is 546 / 256.
        ChipId::X1010 => level(546.0 / 512.0, 0x100, 1.0),
        ChipId::MultiPcm => level(4.0, 0x40, 4.0),
        ChipId::Upd7759 => level(1.0, 0x11E, 1.0),
        ChipId::C140 => level(1.0, 0x156, 2.0),
        ChipId::Scsp => level(4.0, 0x20, 8.0),
        // The core drops three bits, so that all voices fit.
        ChipId::C352 => level(8.0, 0x40, 8.0),
        // One voice at its loudest makes 20 bits; the core drops six, players' cores four.
        ChipId::Es5506 => level(4.0, 0x20, 16.0),
        // A voice in the middle is as loud as libvgm's, which hardly pans.
        ChipId::Ics2115 => level(8.0, 0x40, 4.0),
        ChipId::Ga20 => level(1.0, 0x280, 1.0),
        _ => level(1.0, 0x100, 1.0),
    }
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
