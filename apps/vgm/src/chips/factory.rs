//! Creates the chips of one song, at the clocks that its header gives.
//!
//! A chip consists of *parts*. Most chips have one part, which renders either native frames or
//! steps at the output rate. The square waves of an OPN chip (its SSG) are a separate part, which
//! renders steps. Otherwise their many writes would split the blocks of the FM.
//!
//! [`levels`] computes the levels of the parts.

use super::ay8910::Ay8910;
use super::drums;
use super::es5503::Es5503;
use super::fm::opn::Prescaler;
use super::frame_chip::FrameChip;
use super::info::Create;
use super::levels;
use super::msm5205::Msm5205;
use super::nes::fds::Fds;
use super::okim6258::Okim6258;
use super::pcm::PcmChip;
use super::registry;
use super::sn76489::{Sn76489, Variant};
use super::square_chip::{SquareChip, SsgClock};
use super::step_chip::StepChip;
use super::t6w28::T6w28;
use super::voices;
use super::y8950::Y8950;
use super::ym2151::Ym2151;
use super::ym2203::Ym2203;
use super::ym2413::Ym2413;
use super::ym2608::Ym2608;
use super::ym2610::Ym2610;
use super::ym2612::Ym2612;
use super::ym3526::Ym3526;
use super::ym3812::Ym3812;
use super::ymf262::Ymf262;
use super::ymz280b::Ymz280b;
use crate::error::{Error, Result};
use crate::format::{ChipId, Header, Instance, Song, is_block_kind};
use crate::sequence::LANES;

/// A part of a chip and its level, which is the factor from one of its steps to full scale.
#[derive(Clone)]
pub enum Part {
    /// A part that renders native frames. It receives the chip's main lane, and its data lane if
    /// it has one. However, the wave part of an OPL4 receives only the second lane.
    Frames(FrameChip, f32),
    /// A part that renders square waves. It receives the lane with this index.
    Squares(SquareChip, usize, f32),
}

impl Part {
    /// Returns for each lane of the chip whether the part receives it.
    pub fn lanes(&self) -> [bool; LANES] {
        match self {
            Part::Frames(chip, _) => match chip.lane() {
                0 => [true, chip.has_data_lane()],
                _ => [false, true],
            },
            Part::Squares(_, lane, _) => std::array::from_fn(|place| place == *lane),
        }
    }

    /// Returns the voices of the chip that this part plays, one bit per voice.
    pub(crate) fn voices(&self, chip: ChipId) -> u64 {
        let all = voices::all(chip);
        let second = match chip {
            ChipId::Ym2203 => 0b111 << 3,
            ChipId::Ym2608 | ChipId::Ym2610 => 0b111 << 6,
            ChipId::Ymf278b => all & !0 << 23,
            _ => return all,
        };
        let is_second = match self {
            Part::Frames(chip, _) => chip.lane() == 1,
            Part::Squares(..) => true,
        };
        if is_second { second } else { all & !second }
    }
}

/// Creates all parts of a song that can be played, in the order of the song's chips.
///
/// # Errors
///
/// If no chip that the song writes to can be played, returns [`Error::Malformed`] if one of them
/// cannot run at its clock, and otherwise [`Error::Unsupported`].
pub fn parts(song: &Song) -> Result<Vec<(Instance, Part)>> {
    let (mut all, mut refused) = (Vec::new(), None);
    for instance in song.chips() {
        match chip_parts(&song.header, instance) {
            Ok(parts) => all.extend(parts.into_iter().map(|part| (instance, part))),
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    // A song that has chips but does not write to them is silent, and this is not an error.
    let is_silent = song.chips().next().is_none() && song.header.instances().next().is_some();
    if all.is_empty() && !is_silent {
        return Err(refused.unwrap_or_else(|| no_chip(song)));
    }
    Ok(all)
}

/// Returns the chips that a song writes to but that cannot be played. It also returns a BSMT2000 if
/// the header has a clock for one.
///
/// ```
/// use creel_vgm::{chips::factory::missing, demo::CARRIED, format::Song};
///
/// let song = Song::parse(CARRIED[0].packed.to_vec())?;
/// assert!(missing(&song).is_empty());
/// # Ok::<(), creel_vgm::Error>(())
/// ```
pub fn missing(song: &Song) -> Vec<Instance> {
    let is_missing = |instance: &Instance| {
        chip_parts(&song.header, *instance).map_or(true, |parts| parts.is_empty())
    };
    // The format has no command for this chip that we know, so it is never written to.
    let bsmt2000 = Instance {
        chip: ChipId::Bsmt2000,
        second: false,
    };
    let unwritten = song.header.clock(bsmt2000).map(|_| bsmt2000);
    song.chips().filter(is_missing).chain(unwritten).collect()
}

/// Returns a description of each thing in the song that is not played, apart from missing chips and
/// damage.
pub fn unsupported(song: &Song) -> Vec<String> {
    let clocks = song.chips().filter_map(|chip| {
        let reason = match chip_parts(&song.header, chip).err()? {
            Error::Malformed { reason, .. } => reason,
            error => error.to_string(),
        };
        Some(format!("{reason}, so the chip is not played"))
    });
    let kinds = song
        .block_kinds()
        .iter()
        .filter(|kind| !is_block_kind(**kind));
    let blocks =
        kinds.map(|kind| format!("data blocks of the unknown type {kind:#04x} are ignored"));
    clocks.chain(blocks).collect()
}

fn no_chip(song: &Song) -> Error {
    let name = |instance: Instance| song.header.name(instance.chip);
    let names: Vec<_> = song.chips().map(name).collect();
    Error::Unsupported(if names.is_empty() {
        "the header has no clock for any chip".into()
    } else {
        format!(
            "none of the song's chips can be played: {}",
            names.join(", ")
        )
    })
}

/// Returns the approximate time that a chip takes to render a frame, in ns. We use it only for
/// estimates.
///
/// Source: our measurements with the built-in songs on a Cascade Lake at 2.5 GHz.
pub fn render_cost_ns(chip: ChipId) -> u64 {
    registry::of(chip).map_or(0, |info| info.cost_ns)
}

/// Returns the range of clocks that we accept for a chip, in Hz.
///
/// The range extends from a tenth of the slowest clock in use to more than the fastest one. Outside
/// of it, a song would not advance, or rendering a second would take minutes.
fn clock_range_hz(chip: ChipId) -> std::ops::RangeInclusive<u32> {
    match chip {
        // Old songs give the native rate of these chips instead of their clock.
        ChipId::C140 | ChipId::Scsp | ChipId::K054539 => 4_000..=40_000_000,
        ChipId::Qsound => 100_000..=100_000_000,
        _ => 100_000..=40_000_000,
    }
}

/// Creates the parts of one chip of a song. There are none if the chip cannot be played.
fn chip_parts(header: &Header, instance: Instance) -> Result<Vec<Part>> {
    let Some(clock_hz) = header.clock(instance) else {
        return Ok(Vec::new());
    };
    let chip = instance.chip;
    let level = levels::of_chip(header, instance);
    let mut parts = Vec::new();
    match chip {
        ChipId::Ay8910 => {
            let chip = Ay8910::new(clock_hz, header.byte(0x78), header.byte(0x79));
            parts.push(Part::Squares(SquareChip::Ay8910(Box::new(chip)), 0, level));
        }
        ChipId::Sn76489 if header.is_t6w28() => {
            let chip = T6w28::new(clock_hz, sn76489_variant(header));
            parts.push(Part::Squares(SquareChip::T6w28(Box::new(chip)), 0, level));
        }
        ChipId::Sn76489 => {
            let chip = Sn76489::new(clock_hz, sn76489_variant(header));
            parts.push(Part::Squares(SquareChip::Sn76489(Box::new(chip)), 0, level));
        }
        _ => {
            let mut frames = frame_chip(header, chip, clock_hz);
            if let Some(FrameChip::Ym3812(frames)) = &mut frames
                && header.is_variant(chip)
            {
                // The two chips of a sound card, one for each side.
                frames.set_sides([!instance.second, instance.second]);
            }
            parts.extend(frames.map(|frames| Part::Frames(frames, level)));
            let steps = step_chip(chip, clock_hz).map(SquareChip::Steps);
            parts.extend(steps.map(|steps| Part::Squares(steps, 0, level)));
            if chip == ChipId::NesApu && header.is_variant(chip) {
                let fds = SquareChip::Steps(Box::new(Fds::new(clock_hz)));
                parts.push(Part::Squares(fds, 0, level));
            }
        }
    }
    if chip == ChipId::Ymf278b {
        let fm = Ymf262::new_opl4(clock_hz);
        let level = levels::of_opl4_fm(header, instance);
        parts.push(Part::Frames(FrameChip::Ymf262(Box::new(fm)), level));
    }
    parts.extend(ssg(header, instance, clock_hz));
    if !parts.is_empty() && !clock_range_hz(chip).contains(&clock_hz) {
        let reason = format!("the {} cannot run at {clock_hz} Hz", header.name(chip));
        return Err(Error::malformed(chip.clock_offset(), reason));
    }
    Ok(parts)
}

/// Creates the part of a chip that renders native frames.
fn frame_chip(header: &Header, chip: ChipId, clock_hz: u32) -> Option<FrameChip> {
    let variant = header.is_variant(chip);
    Some(match chip {
        ChipId::Okim6258 => FrameChip::Okim6258(Okim6258::new(clock_hz, header.byte(0x94))),
        ChipId::Ym2151 => FrameChip::Ym2151(Box::new(Ym2151::new(clock_hz))),
        ChipId::Ym2203 => FrameChip::Ym2203(Box::new(Ym2203::new(clock_hz))),
        ChipId::Ym2608 => {
            let mut chip = Ym2608::new(clock_hz);
            let drums = drums::rom();
            let all = 0..drums.len();
            chip.rhythm_rom_mut().add_block(0, drums, all);
            FrameChip::Ym2608(Box::new(chip))
        }
        ChipId::Ym2610 if variant => FrameChip::Ym2610(Box::new(Ym2610::new_b(clock_hz))),
        ChipId::Ym2610 => FrameChip::Ym2610(Box::new(Ym2610::new(clock_hz))),
        ChipId::Ym2612 if variant => FrameChip::Ym2612(Box::new(Ym2612::new_3438(clock_hz))),
        ChipId::Ym2612 => FrameChip::Ym2612(Box::new(Ym2612::new(clock_hz))),
        ChipId::Ym2413 if variant => FrameChip::Ym2413(Box::new(Ym2413::new_vrc7(clock_hz))),
        ChipId::Ym2413 => FrameChip::Ym2413(Box::new(Ym2413::new(clock_hz))),
        ChipId::Ym3526 => FrameChip::Ym3526(Box::new(Ym3526::new(clock_hz))),
        ChipId::Ym3812 => FrameChip::Ym3812(Box::new(Ym3812::new(clock_hz))),
        ChipId::Y8950 => FrameChip::Y8950(Box::new(Y8950::new(clock_hz))),
        ChipId::Ymf262 => FrameChip::Ymf262(Box::new(Ymf262::new(clock_hz))),
        ChipId::Es5503 => FrameChip::Es5503(Box::new(Es5503::new(clock_hz, header.byte(0xD4)))),
        ChipId::Msm5205 => {
            FrameChip::Msm5205(Box::new(Msm5205::new(clock_hz, header.byte(0xD7), variant)))
        }
        ChipId::Ymz280b => FrameChip::Ymz280b(Box::new(Ymz280b::new(clock_hz))),
        _ => FrameChip::Pcm(pcm_chip(header, chip, clock_hz)?),
    })
}

/// Creates a chip that plays samples.
pub fn pcm_chip(header: &Header, chip: ChipId, clock_hz: u32) -> Option<Box<dyn PcmChip>> {
    match &registry::of(chip)?.create {
        Create::Samples(create) => Some(create(header, clock_hz)),
        _ => None,
    }
}

/// Creates a chip that reports its output as steps.
fn step_chip(chip: ChipId, clock_hz: u32) -> Option<Box<dyn StepChip>> {
    match &registry::of(chip)?.create {
        Create::Steps(create) => Some(create(clock_hz)),
        _ => None,
    }
}

/// Creates the SSG of an OPN chip.
fn ssg(header: &Header, instance: Instance, clock_hz: u32) -> Option<Part> {
    let divider = match instance.chip {
        ChipId::Ym2203 => 4,
        ChipId::Ym2608 | ChipId::Ym2610 => 8,
        _ => return None,
    };
    let clock = SsgClock {
        clock_hz,
        divider,
        prescaler: Prescaler::default(),
    };
    let chip = SquareChip::Ssg(Box::default(), clock);
    Some(Part::Squares(chip, 1, levels::of_ssg(header, instance)))
}

/// Returns the variant of the SN76489 in the header. Sega's variant has the values that are missing
/// or invalid.
fn sn76489_variant(header: &Header) -> Variant {
    let (taps, width) = (header.word(0x28), header.byte(0x2A));
    let usual = Variant::SEGA;
    Variant {
        taps: if taps == 0 { usual.taps } else { taps },
        width: match width {
            2..=16 => width,
            _ => usual.width,
        },
        flags: header.byte(0x2B),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn missing_fields_of_the_sn76489_get_the_values_of_sega() {
        let variant = |taps: u8, width: u8, flags: u8| {
            let mut song = vec![0; 0x101];
            song[..4].copy_from_slice(b"Vgm ");
            song[0x28] = taps;
            (song[0x2A], song[0x2B]) = (width, flags);
            let variant = sn76489_variant(&Header::parse(&song).unwrap());
            (variant.taps, variant.width, variant.flags)
        };
        assert_eq!(variant(0, 0, 2), (9, 16, 2));
        assert_eq!(variant(6, 0, 8), (6, 16, 8));
        assert_eq!(variant(0, 15, 1), (9, 15, 1));
        assert_eq!(variant(6, 17, 1), (6, 16, 1));
    }

    #[test]
    fn old_songs_give_the_rate_of_the_k054539_instead_of_its_clock() {
        let rate = |clock_hz: u32| {
            let mut song = vec![0; 0x101];
            song[..4].copy_from_slice(b"Vgm ");
            song[8..10].copy_from_slice(&[0x61, 0x01]);
            song[0x34] = 0xCC;
            song[0xA0..0xA4].copy_from_slice(&clock_hz.to_le_bytes());
            let header = Header::parse(&song).unwrap();
            let (chip, second) = (ChipId::K054539, false);
            match &chip_parts(&header, Instance { chip, second }).unwrap()[..] {
                [Part::Frames(chip, _)] => chip.rate().hz(),
                parts => panic!("{} parts", parts.len()),
            }
        };
        assert_eq!(rate(48_000), rate(18_432_000));
    }

    #[test]
    fn exactly_the_supported_chips_are_listed() {
        for chip in ChipId::all() {
            let mut song = vec![0; 0x101];
            song[..4].copy_from_slice(b"Vgm ");
            song[8..10].copy_from_slice(&[0x72, 0x01]);
            song[0x34] = 0xCC;
            song[chip.clock_offset()..][..4].copy_from_slice(&4_000_000u32.to_le_bytes());
            let header = Header::parse(&song).unwrap();
            let second = false;
            let parts = chip_parts(&header, Instance { chip, second }).unwrap();
            let listed = registry::of(chip).is_some();
            assert_eq!(!parts.is_empty(), listed, "{}", chip.name());
            assert_eq!(render_cost_ns(chip) > 0, listed, "{}", chip.name());
        }
    }
}
