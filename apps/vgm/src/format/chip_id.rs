//! The chips that a VGM header names, in the order of the header.
//!
//! Stream set-ups and the extra header number the chips in the same order.

/// A sound chip of the VGM format.
///
/// The value `as u8` is the number that stands for the chip in streams and in the extra header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the name printed on the chip")]
pub enum ChipId {
    Sn76489,
    Ym2413,
    Ym2612,
    Ym2151,
    SegaPcm,
    Rf5c68,
    Ym2203,
    Ym2608,
    Ym2610,
    Ym3812,
    Ym3526,
    Y8950,
    Ymf262,
    Ymf278b,
    Ymf271,
    Ymz280b,
    Rf5c164,
    Pwm,
    Ay8910,
    GameBoy,
    NesApu,
    MultiPcm,
    Upd7759,
    Okim6258,
    Okim6295,
    K051649,
    K054539,
    Huc6280,
    C140,
    K053260,
    Pokey,
    Qsound,
    Scsp,
    WonderSwan,
    Vsu,
    Saa1099,
    Es5503,
    Es5506,
    X1010,
    C352,
    Ga20,
    Mikey,
    K007232,
    K005289,
    Msm5205,
    Msm5232,
    Bsmt2000,
    Ics2115,
}

/// The number of chips that the format knows.
pub const CHIPS: usize = 48;

/// Every chip with its name and the offset of its clock in the header.
///
/// Source: VGM specification 1.72, "Header".
const TABLE: [(ChipId, &str, usize); CHIPS] = [
    (ChipId::Sn76489, "SN76489", 0x0C),
    (ChipId::Ym2413, "YM2413", 0x10),
    (ChipId::Ym2612, "YM2612", 0x2C),
    (ChipId::Ym2151, "YM2151", 0x30),
    (ChipId::SegaPcm, "SegaPCM", 0x38),
    (ChipId::Rf5c68, "RF5C68", 0x40),
    (ChipId::Ym2203, "YM2203", 0x44),
    (ChipId::Ym2608, "YM2608", 0x48),
    (ChipId::Ym2610, "YM2610", 0x4C),
    (ChipId::Ym3812, "YM3812", 0x50),
    (ChipId::Ym3526, "YM3526", 0x54),
    (ChipId::Y8950, "Y8950", 0x58),
    (ChipId::Ymf262, "YMF262", 0x5C),
    (ChipId::Ymf278b, "YMF278B", 0x60),
    (ChipId::Ymf271, "YMF271", 0x64),
    (ChipId::Ymz280b, "YMZ280B", 0x68),
    (ChipId::Rf5c164, "RF5C164", 0x6C),
    (ChipId::Pwm, "PWM", 0x70),
    (ChipId::Ay8910, "AY8910", 0x74),
    (ChipId::GameBoy, "GameBoy", 0x80),
    (ChipId::NesApu, "NESAPU", 0x84),
    (ChipId::MultiPcm, "MultiPCM", 0x88),
    (ChipId::Upd7759, "uPD7759", 0x8C),
    (ChipId::Okim6258, "OKIM6258", 0x90),
    (ChipId::Okim6295, "OKIM6295", 0x98),
    (ChipId::K051649, "K051649", 0x9C),
    (ChipId::K054539, "K054539", 0xA0),
    (ChipId::Huc6280, "HuC6280", 0xA4),
    (ChipId::C140, "C140", 0xA8),
    (ChipId::K053260, "K053260", 0xAC),
    (ChipId::Pokey, "Pokey", 0xB0),
    (ChipId::Qsound, "QSound", 0xB4),
    (ChipId::Scsp, "SCSP", 0xB8),
    (ChipId::WonderSwan, "WonderSwan", 0xC0),
    (ChipId::Vsu, "VSU", 0xC4),
    (ChipId::Saa1099, "SAA1099", 0xC8),
    (ChipId::Es5503, "ES5503", 0xCC),
    (ChipId::Es5506, "ES5506", 0xD0),
    (ChipId::X1010, "X1-010", 0xD8),
    (ChipId::C352, "C352", 0xDC),
    (ChipId::Ga20, "GA20", 0xE0),
    (ChipId::Mikey, "Mikey", 0xE4),
    (ChipId::K007232, "K007232", 0xE8),
    (ChipId::K005289, "K005289", 0xEC),
    (ChipId::Msm5205, "MSM5205", 0xF0),
    (ChipId::Msm5232, "MSM5232", 0xF4),
    (ChipId::Bsmt2000, "BSMT2000", 0xF8),
    (ChipId::Ics2115, "ICS2115", 0xFC),
];

impl ChipId {
    /// Returns every chip in the order of the header.
    pub fn all() -> impl Iterator<Item = ChipId> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the chip with this number in a stream set-up or in the extra header, if there is
    /// one.
    pub fn from_number(number: u8) -> Option<ChipId> {
        TABLE.get(usize::from(number)).map(|row| row.0)
    }

    /// Returns the name printed on the chip.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns the offset of this chip's clock in the header, in bytes.
    pub(crate) fn clock_offset(self) -> usize {
        TABLE[self as usize].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chip_table_is_sorted_by_number() {
        for (number, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, number, "{}", row.1);
        }
        assert_eq!(ChipId::from_number(48), None);
    }
}
