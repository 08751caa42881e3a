//! The header and the extra header: clocks, volumes, loop, flags.
//!
//! Invariant: no field is read from beyond the start of the command data, wherever the header
//! says that is, so an old, short header never lends its neighbours' bytes to a newer field.
//!
//! Source: VGM specification 1.71/1.72, "Header" and "Extra header".

use super::bytes::{u8_at, u16_at, u32_at};
use super::chip_id::{CHIPS, ChipId};
use super::container::unpack_front;
use crate::error::{Error, Result};

/// One of the two instances of a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance {
    /// Which chip.
    pub chip: ChipId,
    /// Whether it is the second of its kind in the song.
    pub second: bool,
}

impl Instance {
    /// A dense number, below [`Instance::COUNT`].
    pub(crate) fn index(self) -> usize {
        self.chip as usize * 2 + usize::from(self.second)
    }

    /// How many instances there can be.
    pub(crate) const COUNT: usize = CHIPS * 2;
}

/// A volume of the extra header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Volume {
    /// Replaces the chip's usual level; 256 is unity.
    Absolute(u16),
    /// Multiplies the chip's usual level; 256 is unity.
    Relative(u16),
}

/// The volume that the extra header gives to one chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChipVolume {
    /// Which chip of the song.
    pub instance: Instance,
    /// Whether it is for the chip's other half, such as the SSG of an OPN.
    pub paired: bool,
    /// The volume.
    pub volume: Volume,
}

/// What a song says of itself before its commands begin.
#[derive(Debug, Clone)]
pub struct Header {
    /// The version in BCD: 0x171 is 1.71.
    pub version: u32,
    /// Samples at 44,100 Hz that the song claims to have; not trusted.
    pub claimed_samples: u32,
    /// Where the loop begins, in bytes from the start of the file.
    pub loop_offset: Option<usize>,
    /// How long the loop claims to be, in samples at 44,100 Hz; not trusted, but that 0 is no loop.
    pub loop_samples: u32,
    /// Loops fewer to play than asked for.
    pub loop_base: i8,
    /// Sixteenths of the loops asked for; 0 means 16.
    pub loop_modifier: u8,
    /// Where the commands begin, in bytes from the start of the file.
    pub data_offset: usize,
    /// Where the tags begin, in bytes from the start of the file.
    pub gd3_offset: Option<usize>,
    /// The factor of the volume modifier, 0.25 to 64.
    pub volume: f32,
    /// The chip volumes of the extra header.
    pub chip_volumes: Vec<ChipVolume>,
    clocks: [u32; CHIPS],
    second_clocks: Vec<(ChipId, u32)>,
    fields: [u8; 0x100],
}

/// The header in a file's first bytes, plain or packed, if they suffice; its extra part may be cut
/// off.
pub fn peek(front: &[u8]) -> Option<Header> {
    // A byte more than the longest plain header, for commands must follow.
    Header::parse(&unpack_front(front, 0x101)).ok()
}

const DUAL_BIT: u32 = 1 << 30;
const VARIANT_BIT: u32 = 1 << 31;

impl Header {
    /// Reads the header of a decompressed song.
    ///
    /// # Errors
    ///
    /// [`Error::NotVgm`] without the magic or with fewer than 64 bytes,
    /// [`Error::Malformed`] if the commands begin outside the file.
    pub fn parse(song: &[u8]) -> Result<Header> {
        if song.is_empty() {
            return Err(Error::NotVgm("the file is empty".into()));
        }
        if !song.starts_with(b"Vgm ") {
            return Err(Error::NotVgm(
                "it does not begin with \"Vgm \", nor is it gzip, bzip2 or zstd".into(),
            ));
        }
        if song.len() < 0x40 {
            return Err(Error::malformed(song.len(), "the header is cut short"));
        }
        let version = u32_at(song, 0x08);
        let data_offset = data_offset(song, version)?;
        let mut fields = [0; 0x100];
        let readable = data_offset.min(0x100);
        fields[..readable].copy_from_slice(&song[..readable]);

        let mut clocks = [0; CHIPS];
        for chip in ChipId::all() {
            clocks[chip as usize] = u32_at(&fields, chip.clock_offset());
        }
        if version < 0x110 {
            // The one FM clock of that time stood for all three chips.
            let fm = clocks[ChipId::Ym2413 as usize];
            clocks[ChipId::Ym2612 as usize] = fm;
            clocks[ChipId::Ym2151 as usize] = fm;
        }
        let mut header = Header {
            version,
            claimed_samples: u32_at(song, 0x18),
            loop_offset: relative(song, 0x1C),
            loop_samples: u32_at(song, 0x20),
            loop_base: fields[0x7E] as i8,
            loop_modifier: fields[0x7F],
            data_offset,
            gd3_offset: relative(song, 0x14),
            volume: volume_factor(fields[0x7C]),
            chip_volumes: Vec::new(),
            clocks,
            second_clocks: Vec::new(),
            fields,
        };
        header.read_extra(song);
        Ok(header)
    }

    /// The clock of one chip of the song in Hz, if the song has that chip.
    pub fn clock(&self, instance: Instance) -> Option<u32> {
        let raw = self.clocks[instance.chip as usize];
        let own = raw & !(DUAL_BIT | VARIANT_BIT);
        if own == 0 || (instance.second && raw & DUAL_BIT == 0) {
            return None;
        }
        let extra = self
            .second_clocks
            .iter()
            .find(|(chip, _)| instance.second && *chip == instance.chip);
        Some(extra.map_or(own, |(_, clock)| *clock))
    }

    /// The chips that it has a clock for, in its order.
    pub fn instances(&self) -> impl Iterator<Item = Instance> {
        ChipId::all()
            .flat_map(|chip| [false, true].map(|second| Instance { chip, second }))
            .filter(|chip| self.clock(*chip).is_some())
    }

    /// Bit 31 of the chip's clock: YM2610B instead of YM2610, an FDS beside a NES, a T6W28, two YM3812
    /// of which one is left and one right.
    pub fn is_variant(&self, chip: ChipId) -> bool {
        self.clocks[chip as usize] & VARIANT_BIT != 0
    }

    /// What is printed on a chip of the song, where variants share a place in the header.
    pub fn name(&self, chip: ChipId) -> &'static str {
        match (chip, self.is_variant(chip)) {
            (ChipId::Ym2610, true) => "YM2610B",
            (ChipId::Ym2612, true) => "YM3438 (OPN2C)",
            (ChipId::Ym2413, true) => "VRC7",
            (ChipId::Sn76489, true) => "T6W28",
            (ChipId::NesApu, true) => "NESAPU + FDS",
            (ChipId::K051649, true) => "K052539",
            (ChipId::Es5506, false) => "ES5505",
            (ChipId::C140, _) if self.byte(0x96) == 2 => "C219",
            (ChipId::Ay8910, _) if self.byte(0x78) & 0x10 != 0 => "YM2149",
            _ => chip.name(),
        }
    }

    /// A flag byte of the header, 0 if the header ends before it.
    ///
    /// Offsets are the specification's: 0x2B SN76489 flags, 0x78 AY8910 type, 0x94 OKIM6258.
    pub fn byte(&self, offset: usize) -> u8 {
        u8_at(&self.fields, offset)
    }

    /// A 16-bit field of the header, 0 if the header ends before it.
    pub fn word(&self, offset: usize) -> u16 {
        u16_at(&self.fields, offset)
    }

    /// A 32-bit field of the header, 0 if the header ends before it.
    pub fn long(&self, offset: usize) -> u32 {
        u32_at(&self.fields, offset)
    }

    /// How often to play the loop when `asked` times were asked for: at least once.
    pub fn loops(&self, asked: u32) -> u32 {
        let modifier = match self.loop_modifier {
            0 => 16,
            modifier => u64::from(modifier),
        };
        let scaled = (u64::from(asked) * modifier + 8) / 16;
        let loops = i128::from(scaled) - i128::from(self.loop_base);
        u32::try_from(loops.max(1)).unwrap_or(u32::MAX)
    }

    fn read_extra(&mut self, song: &[u8]) {
        let Some(base) = relative(&self.fields, 0xBC) else {
            return;
        };
        let size = u32_at(song, base);
        let list = |at: usize, needed: u32| {
            let start = at + u32_at(song, at) as usize;
            (size >= needed && start > at && start < song.len()).then_some(start)
        };
        if let Some(start) = list(base.saturating_add(4), 8) {
            for entry in entries::<5>(song, start) {
                if let Some(chip) = ChipId::from_number(entry[0]) {
                    let clock = u32_at(entry, 1) & !(DUAL_BIT | VARIANT_BIT);
                    if clock != 0 {
                        self.second_clocks.push((chip, clock));
                    }
                }
            }
        }
        if let Some(start) = list(base.saturating_add(8), 12) {
            self.chip_volumes = entries::<4>(song, start).filter_map(chip_volume).collect();
        }
    }
}

/// A counted list of entries of `N` bytes, as many as lie within the song.
fn entries<const N: usize>(song: &[u8], start: usize) -> impl Iterator<Item = &[u8]> {
    let count = usize::from(u8_at(song, start));
    let rest = song.get(start + 1..).unwrap_or(&[]);
    rest.chunks_exact(N).take(count)
}

fn chip_volume(entry: &[u8]) -> Option<ChipVolume> {
    let chip = ChipId::from_number(entry[0] & 0x7F)?;
    let value = u16_at(entry, 2);
    Some(ChipVolume {
        instance: Instance {
            chip,
            second: entry[1] & 1 != 0,
        },
        paired: entry[0] & 0x80 != 0,
        volume: if value & 0x8000 == 0 {
            Volume::Absolute(value)
        } else {
            Volume::Relative(value & 0x7FFF)
        },
    })
}

fn data_offset(song: &[u8], version: u32) -> Result<usize> {
    let offset = match relative(song, 0x34) {
        Some(offset) if version >= 0x150 => offset,
        _ => 0x40,
    };
    if offset < 0x40 || offset >= song.len() {
        return Err(Error::malformed(
            0x34,
            format!(
                "the commands begin at {offset:#x}, outside the song of {:#x} bytes",
                song.len()
            ),
        ));
    }
    Ok(offset)
}

/// An offset that counts from its own place; 0 means none.
fn relative(bytes: &[u8], at: usize) -> Option<usize> {
    match u32_at(bytes, at) {
        0 => None,
        distance => Some(at + distance as usize),
    }
}

/// 2^(modifier / 32), where -63 stands for -64 and everything above 192 is negative.
fn volume_factor(byte: u8) -> f32 {
    let steps = match i32::from(byte) {
        0xC1 => -64,
        steps if steps > 0xC0 => steps - 0x100,
        steps => steps,
    };
    (steps as f32 / 32.0).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song() -> Vec<u8> {
        let mut song = vec![0; 0x140];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x71, 0x01]);
        song[0x34] = 0xCC;
        song[0x30..0x34].copy_from_slice(&4_000_000u32.to_le_bytes());
        song
    }

    fn first(chip: ChipId) -> Instance {
        Instance {
            chip,
            second: false,
        }
    }

    #[test]
    fn header_fields_beyond_the_data_are_ignored() {
        let mut song = song();
        song[0x74..0x78].copy_from_slice(&1_789_750u32.to_le_bytes());
        assert_eq!(
            Header::parse(&song).unwrap().clock(first(ChipId::Ay8910)),
            Some(1_789_750)
        );
        song[0x34] = 0x0C;
        let header = Header::parse(&song).unwrap();
        assert_eq!(header.clock(first(ChipId::Ay8910)), None);
        assert_eq!(header.clock(first(ChipId::Ym2151)), Some(4_000_000));
    }

    #[test]
    fn extra_header_sets_second_chip_clock() {
        let mut song = song();
        song[0x33] |= 0x40;
        let second = Instance {
            chip: ChipId::Ym2151,
            second: true,
        };
        assert_eq!(Header::parse(&song).unwrap().clock(second), Some(4_000_000));
        song[0xBC] = 4;
        song[0xC0] = 12;
        song[0xC4] = 8;
        song[0xC8] = 10;
        song[0xCC..0xD2].copy_from_slice(&[1, 3, 0x40, 0x42, 0x0F, 0]);
        song[0xD2..0xD7].copy_from_slice(&[1, 3, 1, 0x80, 0x80]);
        let header = Header::parse(&song).unwrap();
        assert_eq!(header.clock(second), Some(1_000_000));
        assert_eq!(header.chip_volumes.len(), 1);
        assert_eq!(header.chip_volumes[0].volume, Volume::Relative(0x80));
    }

    #[test]
    fn volume_modifier_ranges_from_a_quarter_to_64() {
        assert_eq!(volume_factor(0), 1.0);
        assert_eq!(volume_factor(0xC1), 0.25);
        assert_eq!(volume_factor(0xC0), 64.0);
        assert_eq!(volume_factor(0xE0), 0.5);
    }

    #[test]
    fn loop_modifier_scales_loops_to_at_least_one() {
        let mut song = song();
        assert_eq!(Header::parse(&song).unwrap().loops(2), 2);
        song[0x7F] = 0x20;
        song[0x7E] = 1;
        assert_eq!(Header::parse(&song).unwrap().loops(2), 3);
        song[0x7E] = 100;
        assert_eq!(Header::parse(&song).unwrap().loops(2), 1);
    }
}
