//! The header and the extra header: clocks, volumes, loop and flags.
//!
//! Invariant: no field is read from an offset at or after the start of the command data, which the
//! header itself gives. An old header is shorter than a new one. We must not take the commands
//! after an old header for the fields of a newer version. The same holds for an extra header, which
//! may lie where a newer version has fields.
//!
//! Source: VGM specification 1.71/1.72, "Header" and "Extra header".

use super::bytes::{u8_at, u16_at, u32_at};
use super::chip_id::{CHIPS, ChipId};
use super::container::unpack_front;
use crate::error::{Error, Result};

/// A chip of a song, which may have two chips of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance {
    /// The kind of chip.
    pub chip: ChipId,
    /// Whether this is the second chip of its kind in the song.
    pub second: bool,
}

impl Instance {
    /// Returns the index of this chip in a list with two places per kind of chip. It is below
    /// [`Instance::COUNT`].
    pub(crate) fn index(self) -> usize {
        self.chip as usize * 2 + usize::from(self.second)
    }

    /// The number of instances that a song can have.
    pub(crate) const COUNT: usize = CHIPS * 2;
}

/// A volume of the extra header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Volume {
    /// Replaces the chip's usual level. 256 is unity.
    Absolute(u16),
    /// Multiplies the chip's usual level. 256 is unity.
    Relative(u16),
}

/// The volume that the extra header gives to one chip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChipVolume {
    /// The chip of the song.
    pub instance: Instance,
    /// Whether the volume is for the paired half of the chip, for example the SSG of an OPN.
    pub paired: bool,
    /// The volume, which replaces or multiplies the usual level.
    pub volume: Volume,
}

/// The information that precedes the commands of a song.
#[derive(Debug, Clone)]
pub struct Header {
    /// The version in BCD. For example, 0x171 is version 1.71.
    pub version: u32,
    /// The number of samples at 44,100 Hz that the song claims to have. We do not rely on it.
    pub claimed_samples: u32,
    /// The offset of the loop's first command, in bytes from the start of the file.
    pub loop_offset: Option<usize>,
    /// The length of the loop that the song claims, in samples at 44,100 Hz.
    ///
    /// We do not rely on the value, except that 0 means that there is no loop.
    pub loop_samples: u32,
    /// The number of loops to subtract from the number that was requested.
    pub loop_base: i8,
    /// The factor for the number of requested loops, in sixteenths. 0 means 16.
    pub loop_modifier: u8,
    /// The offset of the commands, in bytes from the start of the file.
    pub data_offset: usize,
    /// The offset of the tags, in bytes from the start of the file.
    pub gd3_offset: Option<usize>,
    /// The factor of the volume modifier, 0.25 to 64.
    pub volume: f32,
    /// The chip volumes of the extra header.
    pub chip_volumes: Vec<ChipVolume>,
    /// The defects of the offset of the commands and of the extra header.
    ///
    /// If the offset has one, `data_offset` is the end of the header that songs of the version
    /// usually have.
    pub defects: Vec<String>,
    clocks: [u32; CHIPS],
    second_clocks: Vec<(ChipId, u32)>,
    fields: [u8; 0x100],
}

/// Reads the header from the first bytes of a file, plain or packed.
///
/// Returns `None` if there are not enough bytes for a header, or if it is malformed. The extra
/// header may be cut off.
pub fn peek(front: &[u8]) -> Option<Header> {
    // One byte more than the longest plain header, because at least one command must follow it.
    Header::parse(&unpack_front(front, 0x101)).ok()
}

/// The offset of the field that points to the extra header, and the end of that field.
const EXTRA: usize = 0xBC;
const EXTRA_END: usize = 0xC0;

const DUAL_BIT: u32 = 1 << 30;
const VARIANT_BIT: u32 = 1 << 31;

impl Header {
    /// Reads the header of a decompressed song.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotVgm`] if the magic is missing, and [`Error::Malformed`] if the song has
    /// no commands or fewer than 64 bytes.
    pub fn parse(song: &[u8]) -> Result<Header> {
        if song.is_empty() {
            return Err(Error::NotVgm("the file is empty".into()));
        }
        if !song.starts_with(b"Vgm ") {
            return Err(Error::NotVgm(
                "the file does not begin with \"Vgm \", and is not compressed with gzip, bzip2 or \
                 zstd"
                    .into(),
            ));
        }
        if song.len() < 0x40 {
            return Err(Error::malformed(
                song.len(),
                "the header of the song is cut short",
            ));
        }
        let version = u32_at(song, 0x08);
        let (data_offset, defect) = data_offset(song, version)?;
        let mut fields = [0; 0x100];
        let extra = match data_offset {
            ..EXTRA_END => None,
            _ => relative(song, EXTRA),
        };
        let end = extra.filter(|extra| *extra >= EXTRA_END);
        let readable = end.unwrap_or(0x100).min(data_offset).min(0x100);
        fields[..readable].copy_from_slice(&song[..readable]);

        let mut clocks = [0; CHIPS];
        for chip in ChipId::all() {
            clocks[chip as usize] = u32_at(&fields, chip.clock_offset());
        }
        if version < 0x110 {
            // The one FM clock of these versions applies to all three chips.
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
            defects: defect.into_iter().collect(),
            clocks,
            second_clocks: Vec::new(),
            fields,
        };
        header.read_extra(song);
        Ok(header)
    }

    /// Returns the clock of one chip of the song in Hz, if the song has that chip.
    pub fn clock(&self, instance: Instance) -> Option<u32> {
        let raw = self.clocks[instance.chip as usize];
        let own = raw & !(DUAL_BIT | VARIANT_BIT);
        if own == 0 || (instance.second && raw & DUAL_BIT == 0) {
            return None;
        }
        if instance.second && instance.chip == ChipId::Sn76489 && self.is_t6w28() {
            return None;
        }
        let extra = self
            .second_clocks
            .iter()
            .find(|(chip, _)| instance.second && *chip == instance.chip);
        Some(extra.map_or(own, |(_, clock)| *clock))
    }

    /// Returns the chips that have a clock in the header, in the order of the header.
    pub fn instances(&self) -> impl Iterator<Item = Instance> {
        ChipId::all()
            .flat_map(|chip| [false, true].map(|second| Instance { chip, second }))
            .filter(|chip| self.clock(*chip).is_some())
    }

    /// Returns the chip that receives the writes to `instance`.
    ///
    /// A T6W28 is one chip. The format describes it as two SN76489.
    pub fn receiver(&self, instance: Instance) -> Instance {
        Instance {
            second: instance.second && !(instance.chip == ChipId::Sn76489 && self.is_t6w28()),
            ..instance
        }
    }

    /// Returns whether the two SN76489 of the song are a T6W28, which has both flag bits.
    ///
    /// Bit 31 has no meaning without bit 30.
    pub fn is_t6w28(&self) -> bool {
        let bits = DUAL_BIT | VARIANT_BIT;
        self.clocks[ChipId::Sn76489 as usize] & bits == bits
    }

    /// Returns whether bit 31 of the chip's clock is set, which selects a variant of the chip.
    ///
    /// For example, the variant is a YM2610B instead of a YM2610, a NES with an FDS, or two YM3812
    /// that are panned left and right.
    pub fn is_variant(&self, chip: ChipId) -> bool {
        self.clocks[chip as usize] & VARIANT_BIT != 0
    }

    /// Returns the name printed on a chip of the song. Note that variants share a place in the
    /// header.
    pub fn name(&self, chip: ChipId) -> &'static str {
        match (chip, self.is_variant(chip)) {
            (ChipId::Ym2610, true) => "YM2610B",
            (ChipId::Ym2612, true) => "YM3438 (OPN2C)",
            (ChipId::Ym2413, true) => "VRC7",
            (ChipId::Sn76489, true) if self.is_t6w28() => "T6W28",
            (ChipId::NesApu, true) => "NESAPU + FDS",
            (ChipId::K051649, true) => "K052539",
            (ChipId::Es5506, false) => "ES5505",
            (ChipId::C140, _) if self.byte(0x96) == 2 => "C219",
            (ChipId::Ay8910, _) if self.byte(0x78) & 0x10 != 0 => "YM2149",
            _ => chip.name(),
        }
    }

    /// Returns a flag byte of the header, or 0 if the header ends before it.
    ///
    /// The offsets are those of the specification. For example, 0x2B are the SN76489 flags, 0x78 is
    /// the AY8910 type and 0x94 are the OKIM6258 flags.
    pub fn byte(&self, offset: usize) -> u8 {
        u8_at(&self.fields, offset)
    }

    /// Returns a 16-bit field of the header, or 0 if the header ends before it.
    pub fn word(&self, offset: usize) -> u16 {
        u16_at(&self.fields, offset)
    }

    /// Returns a 32-bit field of the header, or 0 if the header ends before it.
    pub fn long(&self, offset: usize) -> u32 {
        u32_at(&self.fields, offset)
    }

    /// Returns how often to play the loop if `asked` times were requested. The result is at least
    /// 1.
    pub fn loops(&self, asked: u32) -> u32 {
        let modifier = match self.loop_modifier {
            0 => 16,
            modifier => u64::from(modifier),
        };
        let scaled = (u64::from(asked) * modifier + 8) / 16;
        let loops = i128::from(scaled) - i128::from(self.loop_base);
        u32::try_from(loops.max(1)).unwrap_or(u32::MAX)
    }

    /// Reads the extra header, and records its defects.
    fn read_extra(&mut self, song: &[u8]) {
        let Some(base) = relative(&self.fields, EXTRA) else {
            return;
        };
        let size = u32_at(song, base);
        if base.saturating_add(4) > song.len() || size < 4 {
            let reason = match song.get(base) {
                Some(_) => format!("claims to have {size} bytes"),
                None => format!("begins at {base:#x}, outside the song"),
            };
            self.defects.push(format!("the extra header {reason}"));
            return;
        }
        let mut defects = Vec::new();
        let mut list = |name: &str, at: usize, needed: u32, entry: usize| {
            let distance = u32_at(song, at) as usize;
            if size < needed || distance == 0 {
                return None;
            }
            let start = at + distance;
            let bytes = usize::from(u8_at(song, start)) * entry;
            if song.len() <= start.saturating_add(bytes) {
                defects.push(format!(
                    "the extra header's {name} at {start:#x} reach beyond the end of the song"
                ));
            }
            Some(start)
        };
        if let Some(start) = list("clocks", base + 4, 8, 5) {
            for entry in entries::<5>(song, start) {
                if let Some(chip) = ChipId::from_number(entry[0]) {
                    let clock = u32_at(entry, 1) & !(DUAL_BIT | VARIANT_BIT);
                    if clock != 0 {
                        self.second_clocks.push((chip, clock));
                    }
                }
            }
        }
        if let Some(start) = list("volumes", base + 8, 12, 4) {
            self.chip_volumes = entries::<4>(song, start).filter_map(chip_volume).collect();
        }
        self.defects.append(&mut defects);
    }
}

/// Returns the entries of `N` bytes in a counted list. Entries that reach beyond the song are left
/// out.
fn entries<const N: usize>(song: &[u8], start: usize) -> impl Iterator<Item = &[u8]> {
    let count = usize::from(u8_at(song, start));
    let rest = song.get(start.saturating_add(1)..).unwrap_or(&[]);
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

/// Returns the offset of the commands, and the defect of the header's offset if it has one.
fn data_offset(song: &[u8], version: u32) -> Result<(usize, Option<String>)> {
    let offset = match relative(song, 0x34) {
        Some(offset) if version >= 0x150 => offset,
        _ => 0x40,
    };
    if (0x40..song.len()).contains(&offset) {
        return Ok((offset, None));
    }
    let usual = match version {
        ..0x151 => 0x40,
        0x151..0x161 => 0x80,
        0x161..0x171 => 0xC0,
        _ => 0x100,
    };
    let defect = format!(
        "the commands begin at {offset:#x}, outside the song of {:#x} bytes",
        song.len()
    );
    if usual >= song.len() {
        return Err(Error::malformed(0x34, defect));
    }
    Ok((usual, Some(defect)))
}

/// Returns the target of an offset that counts from its own position, or `None` for 0.
fn relative(bytes: &[u8], at: usize) -> Option<usize> {
    match u32_at(bytes, at) {
        0 => None,
        distance => Some(at + distance as usize),
    }
}

/// Returns 2^(modifier / 32).
///
/// The modifier -63 means -64, and bytes above 192 are negative.
fn volume_factor(byte: u8) -> f32 {
    let steps = match i32::from(byte) {
        0xC1 => -64,
        steps if steps > 0xC0 => steps - 0x100,
        steps => steps,
    };
    libm::exp2f(steps as f32 / 32.0)
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
    fn the_header_ends_where_the_extra_header_begins() {
        let mut song = song();
        song[0xBC] = 4;
        song[0xC0] = 8;
        song[0xDC..0xE0].copy_from_slice(&24_192_000u32.to_le_bytes());
        let header = Header::parse(&song).unwrap();
        assert_eq!(header.clock(first(ChipId::WonderSwan)), None);
        assert_eq!(header.clock(first(ChipId::C352)), None);
        assert!(header.defects.is_empty(), "{:?}", header.defects);
    }

    #[test]
    fn damaged_extra_headers_are_reported() {
        // The offset of the extra header, its size, the offset of the volumes and their number.
        for (offset, size, volumes, count, defect) in [
            (0x14, 12, 4, 1, ""),
            (0x14, 4, 4, 1, ""),
            (0x7000, 12, 4, 1, "outside the song"),
            (0x14, 2, 4, 1, "claims to have 2 bytes"),
            (0x14, 12, 0x7000, 1, "volumes at 0x70d8"),
            (0x14, 12, 4, 200, "volumes at 0xdc"),
        ] {
            let mut song = song();
            song[0xBC..0xC0].copy_from_slice(&u32::to_le_bytes(offset));
            song[0xD0] = size;
            song[0xD8..0xDC].copy_from_slice(&u32::to_le_bytes(volumes));
            song[0xDC] = count;
            song[0x34] = 0xDC;
            let defects = Header::parse(&song).unwrap().defects;
            match defect {
                "" => assert!(defects.is_empty(), "{defects:?}"),
                _ => assert!(defects[0].contains(defect), "{defect}: {defects:?}"),
            }
        }
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
