//! The parts of the format and of the chips that we know but do not play.
//!
//! A song that uses one of them gets a line in `not_played`, so that the user knows what is
//! missing. `tests/coverage/` uses each of them in a song, and lists them in
//! `docs/design/vgm-coverage.md`.
//!
//! We do not list what makes no sound: timers, interrupts, status and reading back.

use crate::format::{ChipId, Header, Instance, Write};

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
    /// We call the function after each write to the chip, and it returns true if the song uses the
    /// part. The commands are an example of such a song.
    Together(fn(&Registers, &Write) -> bool, &'static [u8]),
}

const fn written(port: u8, reg: u16, bits: u16) -> Sign {
    let regs = (reg, reg);
    Sign::Written { port, regs, bits }
}

const fn matches(regs: (u16, u16, u16), mask: u16, value: u16) -> Sign {
    Sign::Matches { regs, mask, value }
}

/// The ports and the registers that [`Registers`] can hold.
const PORTS: usize = 8;
const REGS: usize = 0x100;

/// The values that a song has written to the registers of a chip.
///
/// Signs of several registers need them.
pub struct Registers(Vec<Option<u16>>);

impl Registers {
    fn new() -> Self {
        Registers(vec![None; PORTS * REGS])
    }

    fn write(&mut self, write: &Write) {
        let place = usize::from(write.port) * REGS + usize::from(write.reg);
        if usize::from(write.reg) < REGS
            && let Some(register) = self.0.get_mut(place)
        {
            *register = Some(write.value);
        }
    }

    /// Returns the value of a register, or `None` if the song has not written to it.
    pub fn get(&self, port: u8, reg: u16) -> Option<u16> {
        self.0[usize::from(port) * REGS + usize::from(reg)]
    }

    /// Returns whether a register has one of these bits.
    fn has(&self, port: u8, reg: u16, bits: u16) -> bool {
        self.get(port, reg).is_some_and(|value| value & bits != 0)
    }
}

const fn part(chip: ChipId, what: &'static str, sign: Sign) -> Unplayed {
    Unplayed { chip, what, sign }
}

/// The name of the analogue mixing of boards.
const JOINED_PINS: &str = "mixing of the three joined pins of the SSG (header flags 02, 04, 08)";
/// The name of the test bits of an OPL chip. Many drivers set bit 5 of this register on every OPL
/// chip, so we do not count bit 5 as a test bit.
const OPL_TEST: &str = "test bits (register 01)";
/// The name of the test bits of an OPN chip.
const OPN_TEST: &str = "test bits (register 21)";

/// The name of the outputs of an OPL3 that boards do not connect.
const REAR_OUTPUTS: &str =
    "output C or D of voices that are not on output A or B (registers C0 to C8)";

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
        ChipId::Ymf262,
        REAR_OUTPUTS,
        Sign::Together(
            rear_only,
            &[0x5F, 0x05, 0x01, 0x5E, 0xC0, 0x40, 0x5E, 0xB0, 0x20],
        ),
    ),
    part(
        ChipId::Ymf278b,
        REAR_OUTPUTS,
        Sign::Together(
            rear_only,
            &[
                0xD0, 1, 0x05, 0x01, 0xD0, 1, 0xC8, 0x90, 0xD0, 1, 0xB8, 0x20,
            ],
        ),
    ),
    part(
        ChipId::Ymf271,
        "samples in a slot of an FM voice (wave 7)",
        Sign::Together(
            samples_in_fm,
            &[0xD1, 6, 0, 1, 0xD1, 3, 0xB0, 7, 0xD1, 1, 0x00, 1],
        ),
    ),
    part(
        ChipId::Ymf271,
        "outputs 3 and 4, for slots that are silent on outputs 1 and 2",
        Sign::Together(
            outputs_3_and_4_only,
            &[
                0xD1, 6, 0, 3, 0xD1, 0, 0xD0, 0xFF, 0xD1, 0, 0xE0, 0x0F, 0xD1, 0, 0x00, 1,
            ],
        ),
    ),
    part(
        ChipId::Qsound,
        "filters other than the initial ones (registers DA to DD)",
        Sign::Together(
            other_filters,
            &[0xC4, 0x0D, 0x53, 0xDA, 0xC4, 0x00, 0x39, 0xE3],
        ),
    ),
    part(
        ChipId::Qsound,
        "second mode (register E3)",
        Sign::Together(
            |_, write| write.reg == 0xE3 && matches!(write.value, 0x61A | 0x04F | 0x6B2),
            &[0xC4, 0x06, 0x1A, 0xE3],
        ),
    ),
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
        ChipId::NesApu,
        "wave of the FDS, which the header does not have (registers 20 to 7F)",
        Sign::Together(
            |_, write| write.reg == 0x20 && (write.value & 0x40 != 0 || write.value & 0xBF > 0x80),
            &[0xB4, 0x20, 0xA0],
        ),
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

/// Returns whether a voice of a YMF262 or of the FM of a YMF278B sounds on output C or D, but not
/// on the output of the same side that boards connect, which is A or B.
fn rear_only(registers: &Registers, write: &Write) -> bool {
    let is_drum = write.reg == 0xBD && write.port == 0;
    let is_channel = matches!(write.reg & 0xF0, 0xB0 | 0xC0) && write.reg & 15 < 9;
    if write.port > 1 || !registers.has(1, 0x05, 0x01) || !(is_drum || is_channel) {
        return false;
    }
    let plays = |channel: u16| {
        let drums = registers.get(0, 0xBD).unwrap_or(0) & 0x3F;
        let strikes = write.port == 0 && channel >= 6 && drums > 0x20;
        let outputs = registers.get(write.port, 0xC0 | channel).unwrap_or(0) >> 4;
        let rear = outputs >> 2 & !outputs & 3 != 0;
        rear && (strikes || registers.has(write.port, 0xB0 | channel, 0x20))
    };
    match is_drum {
        true => (6..9).any(plays),
        false => plays(write.reg & 15),
    }
}

/// Returns the slots of a YMF271 that play together as an FM voice, one bit per slot. `mode` is the
/// mode of their group.
fn fm_slots(mode: u16) -> u8 {
    match mode & 3 {
        0 | 1 => 0b1111,
        2 => 0b0111,
        _ => 0,
    }
}

/// Returns whether the key of a slot of a YMF271 is pressed. Slots that play together have the key
/// of the first one. We also count a slot's own key.
fn is_pressed(registers: &Registers, mode: u16, group: u16, slot: u8) -> bool {
    let first = match mode & 3 {
        0 => 0,
        1 => slot & 1,
        2 if slot < 3 => 0,
        _ => slot,
    };
    registers.has(first, group, 1) || registers.has(slot, group, 1)
}

/// Returns the mode of the group of a YMF271 that a write belongs to, and the slots of the group
/// whose keys are pressed, one bit per slot.
fn pressed_slots(registers: &Registers, write: &Write) -> (u16, u8) {
    let group = write.reg & 15;
    let mode = registers.get(6, group).unwrap_or(0);
    let pressed = (0..4).filter(|slot| is_pressed(registers, mode, group, *slot));
    match write.port {
        0..=3 => (mode, pressed.fold(0, |slots, slot| slots | 1 << slot)),
        _ => (mode, 0),
    }
}

/// Returns whether a pressed slot of a YMF271 is an operator that plays samples instead of a wave.
fn samples_in_fm(registers: &Registers, write: &Write) -> bool {
    if !matches!(write.reg & 0xF0, 0x00 | 0xB0) {
        return false;
    }
    let (mode, pressed) = pressed_slots(registers, write);
    let operators = pressed & fm_slots(mode);
    let wave = |slot: u8| registers.get(slot, 0xB0 | write.reg & 15).unwrap_or(0) & 7;
    (0..4).any(|slot| operators >> slot & 1 != 0 && wave(slot) == 7)
}

/// Returns whether a pressed slot of a YMF271 is silent on outputs 1 and 2 but not on 3 and 4.
fn outputs_3_and_4_only(registers: &Registers, write: &Write) -> bool {
    if !matches!(write.reg & 0xF0, 0x00 | 0xD0 | 0xE0) {
        return false;
    }
    let (mode, pressed) = pressed_slots(registers, write);
    let is_silent = |slot: u8, reg: u16| {
        // Slots that play together share these registers.
        let first = if mode & 3 == 1 { slot & 1 } else { 0 };
        let together = fm_slots(mode) >> slot & 1 != 0;
        let own = registers.get(slot, reg | write.reg & 15);
        let shared = registers.get(first, reg | write.reg & 15);
        own.or(shared.filter(|_| together))
            .map(|levels| levels & 0xFF == 0xFF)
    };
    (0..4).any(|slot| {
        let levels = [0xD0, 0xE0].map(|reg| is_silent(slot, reg));
        pressed >> slot & 1 != 0 && levels == [Some(true), Some(false)]
    })
}

/// Returns whether a QSound loads filters other than the initial ones.
fn other_filters(registers: &Registers, write: &Write) -> bool {
    let differs = |(reg, initial): (u16, u16)| {
        registers
            .get(0, reg)
            .is_some_and(|address| address != initial)
    };
    write.reg == 0xE3
        && write.value == 0x039
        && [(0xDA, 0xDB2), (0xDC, 0xE11)].into_iter().any(differs)
}

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

/// The signs to look for in the writes to one kind of chip.
#[derive(Default)]
pub struct Watched {
    /// The bits of [`Used`] and the signs.
    signs: Vec<(u32, Sign)>,
    /// The registers of the first and of the second chip, if a sign needs them.
    registers: Option<[Registers; 2]>,
}

impl Watched {
    /// Returns whether there are no signs to look for.
    pub fn is_empty(&self) -> bool {
        self.signs.is_empty()
    }

    /// Returns the parts that a write uses.
    pub fn write(&mut self, write: &Write) -> Used {
        let mut used = 0;
        let registers = self.registers.as_mut();
        let registers = registers.map(|all| &mut all[usize::from(write.instance.second)]);
        let registers = registers.map(|registers| {
            registers.write(write);
            &*registers
        });
        for (bit, sign) in &self.signs {
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
                Sign::Together(uses, _) => {
                    registers.is_some_and(|registers| uses(registers, write))
                }
                Sign::HeaderBits(..) | Sign::HeaderValues(..) => false,
            };
            used |= u64::from(uses) << bit;
        }
        Used(used)
    }
}

impl Used {
    /// Returns the signs to look for in the writes to a chip.
    pub fn watched(header: &Header, chip: ChipId) -> Watched {
        let parts = (0u32..).zip(UNPLAYED);
        let parts = parts.filter(|(_, part)| match part.sign {
            Sign::Written { .. } | Sign::Matches { .. } | Sign::Together(..) => part.chip == chip,
            Sign::Expanded => part.chip == chip && header.byte(0x78) == 3,
            Sign::HeaderBits(..) | Sign::HeaderValues(..) => false,
        });
        // The parts of a NES with an FDS are played.
        let parts = parts.filter(|_| chip != ChipId::NesApu || !header.is_variant(chip));
        let signs: Vec<_> = parts.map(|(bit, part)| (bit, part.sign)).collect();
        let first = Instance {
            chip,
            second: false,
        };
        let together = |(_, sign): &(u32, Sign)| matches!(sign, Sign::Together(..));
        // Without a clock, the chip does not play at all.
        let needs_registers = header.clock(first).is_some() && signs.iter().any(together);
        Watched {
            registers: needs_registers.then(|| [0; 2].map(|_| Registers::new())),
            signs,
        }
    }

    /// Adds parts.
    pub fn add(&mut self, other: &Used) {
        self.0 |= other.0;
    }

    /// Returns a line for each part of a chip that a song uses and that we do not play, and for
    /// each chip whose bit 31 of the clock we do not know.
    ///
    /// `has` returns whether the song writes to a chip.
    pub fn lines(&self, header: &Header, has: impl Fn(ChipId) -> bool) -> Vec<String> {
        let parts = UNPLAYED.iter().enumerate().filter(|(bit, part)| {
            let uses = match part.sign {
                Sign::HeaderBits(offset, bits) => header.byte(offset) & bits != 0,
                Sign::HeaderValues(offset, known) => !known.contains(&header.byte(offset)),
                Sign::Written { .. }
                | Sign::Matches { .. }
                | Sign::Together(..)
                | Sign::Expanded => self.0 >> bit & 1 != 0,
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
