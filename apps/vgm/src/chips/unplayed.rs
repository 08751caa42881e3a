//! The parts of the format and of the chips that we know but do not play.
//!
//! A song that uses one of them gets a line in `not_played`, so that nothing is wrong in silence.
//! `tests/coverage/` uses each of them in a song, and lists them in `docs/design/vgm-coverage.md`.
//!
//! We do not list what makes no sound: timers, interrupts, status and reading back.

use crate::format::{ChipId, Header, Write};

/// A part of a chip that we do not play.
pub struct Unplayed {
    /// The chip that has the part.
    pub chip: ChipId,
    /// The name of the part.
    pub what: &'static str,
    /// The sign by which we recognise that a song uses the part.
    pub sign: Sign,
}

/// The sign by which we recognise that a song uses a part of a chip.
#[derive(Clone, Copy)]
pub enum Sign {
    /// The byte of the header at this offset has one of these bits.
    HeaderBits(usize, u8),
    /// The byte of the header at this offset has none of these values.
    HeaderValues(usize, &'static [u8]),
    /// A write to this port and to one of these registers, first and last, has one of these bits.
    Written {
        /// The port of the write.
        port: u8,
        /// The first and the last register.
        regs: (u16, u16),
        /// The bits, of which the value has at least one.
        bits: u16,
    },
    /// A write to one of the registers `first`, `first + step` and so on up to `last` has these
    /// values in the bits of the mask.
    Matches {
        /// The first register, the last one, and the distance between two of them.
        regs: (u16, u16, u16),
        /// The bits of the value that are compared.
        mask: u16,
        /// The values that these bits must have.
        value: u16,
    },
    /// An AY8930, which is a type in the header, switches to its expanded mode.
    Expanded,
}

const fn written(port: u8, reg: u16, bits: u16) -> Sign {
    let regs = (reg, reg);
    Sign::Written { port, regs, bits }
}

const fn matches(regs: (u16, u16, u16), mask: u16, value: u16) -> Sign {
    Sign::Matches { regs, mask, value }
}

const fn part(chip: ChipId, what: &'static str, sign: Sign) -> Unplayed {
    Unplayed { chip, what, sign }
}

/// The name of the analogue mixing of boards.
const JOINED_PINS: &str = "mixing of the three joined pins of the SSG (header flags 02, 04, 08)";
/// The name of the test bits of an OPL chip. Drivers set bit 5 of this register on every OPL chip.
const OPL_TEST: &str = "test bits (register 01)";
/// The name of the test bits of an OPN chip.
const OPN_TEST: &str = "test bits (register 21)";

/// Creates the entry of flags that the specification does not define.
const fn undefined_bits(chip: ChipId, what: &'static str, offset: usize, bits: u8) -> Unplayed {
    part(chip, what, Sign::HeaderBits(offset, bits))
}

/// Every part that we do not play.
pub const UNPLAYED: &[Unplayed] = &[
    undefined_bits(
        ChipId::Sn76489,
        "undefined flag (header 2B, bits 5 to 7)",
        0x2B,
        0xE0,
    ),
    part(
        ChipId::Sn76489,
        "width of the noise (header 2A)",
        Sign::HeaderValues(
            0x2A,
            &[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        ),
    ),
    undefined_bits(
        ChipId::Ym2203,
        "undefined flag (header 7A, bits 4 to 7)",
        0x7A,
        0xF0,
    ),
    undefined_bits(
        ChipId::Ym2608,
        "undefined flag (header 7B, bits 4 to 7)",
        0x7B,
        0xF0,
    ),
    undefined_bits(
        ChipId::Ay8910,
        "undefined flag (header 79, bits 5 to 7)",
        0x79,
        0xE0,
    ),
    undefined_bits(
        ChipId::Okim6258,
        "undefined flag (header 94, bits 4 to 7)",
        0x94,
        0xF0,
    ),
    undefined_bits(
        ChipId::K054539,
        "undefined flag (header 95, bits 3 to 7)",
        0x95,
        0xF8,
    ),
    undefined_bits(
        ChipId::Msm5205,
        "undefined flag (header D7, bits 3 to 7)",
        0xD7,
        0xF8,
    ),
    part(ChipId::Ym2413, "test register (0F)", written(0, 0x0F, 0xFF)),
    part(ChipId::Ym2612, OPN_TEST, written(0, 0x21, 0xFF)),
    part(
        ChipId::Ym2612,
        "test bits (register 2C) except for the DAC's ninth bit",
        written(0, 0x2C, 0xF7),
    ),
    part(
        ChipId::Ym2151,
        "test bits (register 01) except for the LFO's reset",
        written(0, 0x01, 0xFD),
    ),
    part(ChipId::Ym2203, OPN_TEST, written(0, 0x21, 0xFF)),
    part(ChipId::Ym2203, JOINED_PINS, Sign::HeaderBits(0x7A, 0x0E)),
    part(ChipId::Ym2608, OPN_TEST, written(0, 0x21, 0xFF)),
    part(ChipId::Ym2608, JOINED_PINS, Sign::HeaderBits(0x7B, 0x0E)),
    part(
        ChipId::Ym2608,
        "DAC data of the ADPCM-B (register 10E)",
        written(1, 0x0E, 0xFF),
    ),
    part(ChipId::Ym2610, OPN_TEST, written(0, 0x21, 0xFF)),
    part(ChipId::Ym3812, OPL_TEST, written(0, 0x01, 0xDF)),
    part(ChipId::Ym3526, OPL_TEST, written(0, 0x01, 0xDF)),
    part(ChipId::Y8950, OPL_TEST, written(0, 0x01, 0xDF)),
    part(
        ChipId::Y8950,
        "DAC data of the ADPCM-B (registers 15 to 17)",
        Sign::Written {
            port: 0,
            regs: (0x15, 0x17),
            bits: 0xFF,
        },
    ),
    part(ChipId::Ymf262, OPL_TEST, written(0, 0x01, 0xDF)),
    part(
        ChipId::Ymz280b,
        "external DSP (registers 80 to 82)",
        Sign::Written {
            port: 0,
            regs: (0x80, 0x82),
            bits: 0xFF,
        },
    ),
    part(
        ChipId::Ay8910,
        "type of the chip (header 78)",
        Sign::HeaderValues(0x78, &[0, 1, 2, 3, 0x10, 0x11, 0x12, 0x13]),
    ),
    part(ChipId::Ay8910, JOINED_PINS, Sign::HeaderBits(0x79, 0x0E)),
    part(
        ChipId::Ay8910,
        "expanded mode of the AY8930",
        Sign::Expanded,
    ),
    part(
        ChipId::K051649,
        "rotation of the waves (test register)",
        written(5, 0x00, 0xC0),
    ),
    part(
        ChipId::C140,
        "type of the board (header 96)",
        Sign::HeaderValues(0x96, &[0, 1, 2]),
    ),
    part(
        ChipId::Es5503,
        "amplitude modulation (mode 2 of oscillators with odd numbers)",
        matches((0xA1, 0xBF, 2), 0x07, 0x04),
    ),
    part(
        ChipId::K007232,
        "test mode of the pitch (registers 01 and 07, bit 4)",
        matches((0x01, 0x07, 6), 0x10, 0x10),
    ),
    part(
        ChipId::K007232,
        "test mode of the pitch (registers 01 and 07, bit 5)",
        matches((0x01, 0x07, 6), 0x20, 0x20),
    ),
    part(
        ChipId::Mikey,
        "clock of channel 0 by timer 7 (register 25)",
        matches((0x25, 0x25, 1), 0x07, 0x07),
    ),
    part(
        ChipId::Scsp,
        "inverted sign of samples (word 00, bit 9)",
        matches((0x00, 0x3E0, 0x20), 0x02, 0x02),
    ),
    part(
        ChipId::Scsp,
        "inverted bits of samples (word 00, bit 10)",
        matches((0x00, 0x3E0, 0x20), 0x04, 0x04),
    ),
    part(
        ChipId::Scsp,
        "link of the envelope to the loop (word 0A, bit 14)",
        matches((0x0A, 0x3EA, 0x20), 0x40, 0x40),
    ),
    part(
        ChipId::Pwm,
        "left channel on the right side (register 0, bit 1)",
        matches((0, 0, 1), 0x02, 0x02),
    ),
    part(
        ChipId::Pwm,
        "right channel on the left side (register 0, bit 3)",
        matches((0, 0, 1), 0x08, 0x08),
    ),
    part(
        ChipId::Pokey,
        "two-tone mode (register 0F, bit 3)",
        written(0, 0x0F, 0x08),
    ),
];

/// The chips for which bit 31 of the clock in the header has a meaning.
const VARIANTS: [ChipId; 12] = [
    ChipId::Sn76489,
    ChipId::Ym2413,
    ChipId::Ym2612,
    ChipId::Ym2610,
    ChipId::Ym3812,
    ChipId::NesApu,
    ChipId::Upd7759,
    ChipId::Okim6295,
    ChipId::K051649,
    ChipId::Es5506,
    ChipId::C352,
    ChipId::Msm5205,
];

/// Returns whether bit 31 of the clock of a chip has a meaning in this header.
///
/// For the SN76489, it has one together with bit 30 only.
pub fn knows_variant(header: &Header, chip: ChipId) -> bool {
    VARIANTS.contains(&chip) && (chip != ChipId::Sn76489 || header.is_t6w28())
}

/// The parts that a song uses and that we do not play, one bit per entry of [`UNPLAYED`].
#[derive(Clone, Debug, Default)]
pub struct Used(u64);

/// Ensures that [`Used`] has a bit for each part.
const _: () = assert!(UNPLAYED.len() <= 64);

/// The signs to look for in the writes to one chip: the bit of [`Used`] and the sign.
pub type Watched = Vec<(u32, Sign)>;

impl Used {
    /// Returns the signs to look for in the writes to a chip.
    pub fn watched(header: &Header, chip: ChipId) -> Watched {
        let parts = (0u32..).zip(UNPLAYED);
        let parts = parts.filter(|(_, part)| match part.sign {
            Sign::Written { .. } | Sign::Matches { .. } => part.chip == chip,
            Sign::Expanded => part.chip == chip && header.byte(0x78) == 3,
            Sign::HeaderBits(..) | Sign::HeaderValues(..) => false,
        });
        parts.map(|(bit, part)| (bit, part.sign)).collect()
    }

    /// Records the parts that a write uses.
    pub fn write(&mut self, watched: &Watched, write: &Write) {
        for (bit, sign) in watched {
            let uses = match sign {
                Sign::Written {
                    port,
                    regs: (first, last),
                    bits,
                } => {
                    write.port == *port
                        && (*first..=*last).contains(&write.reg)
                        && write.value & bits != 0
                }
                Sign::Matches {
                    regs: (first, last, step),
                    mask,
                    value,
                } => {
                    (*first..=*last).contains(&write.reg)
                        && (write.reg - first).is_multiple_of(*step)
                        && write.value & mask == *value
                }
                Sign::Expanded => write.reg == 0x0D && write.value & 0xE0 == 0xA0,
                Sign::HeaderBits(..) | Sign::HeaderValues(..) => false,
            };
            self.0 |= u64::from(uses) << bit;
        }
    }

    /// Returns a line for each part of a chip that a song uses and that we do not play.
    ///
    /// `has` returns whether the song writes to a chip.
    pub fn lines(&self, header: &Header, has: impl Fn(ChipId) -> bool) -> Vec<String> {
        let parts = UNPLAYED.iter().enumerate().filter(|(bit, part)| {
            let uses = match part.sign {
                Sign::HeaderBits(offset, bits) => header.byte(offset) & bits != 0,
                Sign::HeaderValues(offset, known) => !known.contains(&header.byte(offset)),
                Sign::Written { .. } | Sign::Matches { .. } | Sign::Expanded => {
                    self.0 >> bit & 1 != 0
                }
            };
            uses && has(part.chip)
        });
        let mut lines: Vec<_> = parts
            .map(|(_, part)| {
                let name = header.name(part.chip);
                format!("{name}: the {} is not played", part.what)
            })
            .collect();
        let unknown =
            |chip: &ChipId| header.is_variant(*chip) && has(*chip) && !knows_variant(header, *chip);
        lines.extend(ChipId::all().filter(unknown).map(|chip| {
            let name = header.name(chip);
            format!("{name}: bit 31 of the clock in the header has no meaning that we know")
        }));
        lines
    }
}
