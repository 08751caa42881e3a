//! One command of the stream: its effect and its length in bytes.
//!
//! Invariant: a command is returned only if all its bytes lie within the song. Commands of the
//! reserved ranges are skipped, because the specification gives their number of operands. Commands
//! that the specification does not define are an error, except for [`FILLER`], with which we
//! overwrite damaged bytes.
//!
//! Source: VGM specification 1.71/1.72, "Commands", "Dual Chip Support".

use std::ops::Range;

use super::bytes::{u16_at, u24_at, u32_at};
use super::chip_id::ChipId;
use super::header::Instance;
use crate::error::{Error, Result};

/// A write to a register of a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The chip of the song.
    pub instance: Instance,
    /// The chip's port, 0 or 1 for most chips. The stereo masks of the SN76489 and the AY8910 are
    /// port 1. Bit 1 is set for the second SN76489, which may be the right port of a T6W28.
    pub port: u8,
    /// The register, or the address for chips with memory.
    pub reg: u16,
    /// The value, which is a byte for most chips.
    pub value: u16,
}

/// The effect of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Wait for this number of samples at 44,100 Hz.
    Wait(u32),
    /// Write a register.
    Write(Write),
    /// Write the next byte of the YM2612's data bank to its DAC, then wait for this number of
    /// samples.
    DacWait(u32),
    /// Move the read position of the YM2612's data bank to this offset, in bytes.
    Seek(u32),
    /// Define a data block (command 67).
    Block(Block),
    /// Copy from a data bank into a chip's RAM.
    RamWrite(RamWrite),
    /// Control a stream (commands 90 to 95).
    Stream(StreamCommand),
    /// End the song.
    End,
    /// A reserved command, or one that does not affect the sound.
    Nothing,
}

/// Command 67: a data block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The kind of data: 00–3F stream, 40–7E packed stream, 7F table, 80–BF ROM, C0–FF RAM.
    pub kind: u8,
    /// Whether the block is for the second chip.
    pub second: bool,
    /// The range of the block's bytes in the song.
    pub data: Range<usize>,
}

/// Command 68: a copy from a data bank into a chip's RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RamWrite {
    /// The kind of the data bank, as in [`Block::kind`].
    pub kind: u8,
    /// Whether the copy is for the second chip.
    pub second: bool,
    /// The source offset in the bank, in bytes.
    pub from: u32,
    /// The destination address in the chip's RAM, in bytes.
    pub to: u32,
    /// The number of bytes to copy.
    pub length: u32,
}

/// Commands 90 to 95. `id` is the number of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the specification's operands")]
pub enum StreamCommand {
    /// Select the register that the stream writes.
    Setup { id: u8, chip: u8, port: u8, reg: u8 },
    /// Select the bank that the stream reads, and the step and the start within it.
    Data {
        id: u8,
        bank: u8,
        step: u8,
        base: u8,
    },
    /// Set the number of writes per second.
    Frequency { id: u8, hz: u32 },
    /// Start the stream at a byte of the bank.
    Start {
        id: u8,
        offset: u32,
        mode: u8,
        length: u32,
    },
    /// Stop the stream. The id 0xFF stops all streams.
    Stop { id: u8 },
    /// Start the stream at a block of the bank.
    StartBlock { id: u8, block: u16, flags: u8 },
}

/// A byte that the specification does not define, and that we skip.
///
/// When we read a song, we overwrite bytes that are not commands with this byte. Otherwise, we
/// would have to remember where they are while we play the song.
pub const FILLER: u8 = 0x00;

/// Decodes the command at `offset` of `song`, and returns it with the offset of the next one.
///
/// # Errors
///
/// Returns [`Error::Malformed`] if the song ends within the command, or if the byte at `offset`
/// does not begin a command.
pub fn decode(song: &[u8], offset: usize, version: u32) -> Result<(Command, usize)> {
    let Some(&code) = song.get(offset) else {
        return Err(cut(offset));
    };
    if code == FILLER {
        return Ok((Command::Nothing, offset + 1));
    }
    let length = 1 + operands(code, version).ok_or_else(|| {
        Error::malformed(
            offset,
            format!("{code:#04x} is not a command of the VGM format"),
        )
    })?;
    if song.len() - offset < length {
        return Err(cut(offset));
    }
    let ops = &song[offset + 1..offset + length];
    let next = offset + length;
    let command = match code {
        0x61 => Command::Wait(u32::from(u16_at(ops, 0))),
        0x62 => Command::Wait(735),
        0x63 => Command::Wait(882),
        0x70..=0x7F => Command::Wait(u32::from(code & 15) + 1),
        0x80..=0x8F => Command::DacWait(u32::from(code & 15)),
        0x66 => Command::End,
        0x67 => return block(song, offset, ops),
        0x68 => Command::RamWrite(ram_write(ops)),
        0x90..=0x95 => Command::Stream(stream(code, ops)),
        0xE0 => Command::Seek(u32_at(ops, 0)),
        _ => write(code, ops).map_or(Command::Nothing, Command::Write),
    };
    Ok((command, next))
}

/// Returns whether a command begins at `offset`, or the data ends there.
///
/// The command may be cut off by the end of the data.
pub fn is_command(data: &[u8], offset: usize, version: u32) -> bool {
    data.get(offset)
        .is_none_or(|code| operands(*code, version).is_some())
}

/// Returns the number of operand bytes of a command, without the contents of a data block.
fn operands(code: u8, version: u32) -> Option<usize> {
    Some(match code {
        0x30..=0x3F | 0x4F | 0x50 | 0x94 => 1,
        0x40..=0x4E if version < 0x160 => 1,
        0x40..=0x4E | 0x51..=0x5F | 0x61 | 0xA0..=0xBF => 2,
        0x64 | 0xC0..=0xDF => 3,
        0x90 | 0x91 | 0x95 | 0xE0..=0xFF => 4,
        0x92 => 5,
        0x67 => 6,
        0x93 => 10,
        0x68 => 11,
        0x62 | 0x63 | 0x66 | 0x70..=0x8F => 0,
        _ => return None,
    })
}

fn cut(offset: usize) -> Error {
    Error::malformed(
        offset,
        "the song is cut short: it has no command for its end",
    )
}

/// Decodes a data block. Bit 31 of the size selects the second chip.
fn block(song: &[u8], offset: usize, ops: &[u8]) -> Result<(Command, usize)> {
    let size = u32_at(ops, 2);
    let start = offset + 1 + ops.len();
    let length = (size & 0x7FFF_FFFF) as usize;
    if song.len() - start < length {
        return Err(Error::malformed(
            offset,
            format!("a data block of {length} bytes reaches beyond the end of the song"),
        ));
    }
    let block = Block {
        kind: ops[1],
        second: size >> 31 != 0,
        data: start..start + length,
    };
    Ok((Command::Block(block), start + length))
}

fn ram_write(ops: &[u8]) -> RamWrite {
    RamWrite {
        kind: ops[1] & 0x7F,
        second: ops[1] & 0x80 != 0,
        from: u24_at(ops, 2),
        to: u24_at(ops, 5),
        length: match u24_at(ops, 8) {
            0 => 1 << 24,
            length => length,
        },
    }
}

fn stream(code: u8, ops: &[u8]) -> StreamCommand {
    let id = ops[0];
    match code {
        0x90 => StreamCommand::Setup {
            id,
            chip: ops[1],
            port: ops[2],
            reg: ops[3],
        },
        0x91 => StreamCommand::Data {
            id,
            bank: ops[1],
            step: ops[2],
            base: ops[3],
        },
        0x92 => StreamCommand::Frequency {
            id,
            hz: u32_at(ops, 1),
        },
        0x93 => StreamCommand::Start {
            id,
            offset: u32_at(ops, 1),
            mode: ops[5],
            length: u32_at(ops, 6),
        },
        0x94 => StreamCommand::Stop { id },
        _ => StreamCommand::StartBlock {
            id,
            block: u16_at(ops, 1),
            flags: ops[3],
        },
    }
}

/// The bit of the port that is set for the second SN76489.
pub const PSG_SECOND: u8 = 2;

/// The chip and the port of the Yamaha commands 51–5F, and of A1–AF for the second chips.
const YAMAHA: [(ChipId, u8); 15] = [
    (ChipId::Ym2413, 0),
    (ChipId::Ym2612, 0),
    (ChipId::Ym2612, 1),
    (ChipId::Ym2151, 0),
    (ChipId::Ym2203, 0),
    (ChipId::Ym2608, 0),
    (ChipId::Ym2608, 1),
    (ChipId::Ym2610, 0),
    (ChipId::Ym2610, 1),
    (ChipId::Ym3812, 0),
    (ChipId::Ym3526, 0),
    (ChipId::Y8950, 0),
    (ChipId::Ymz280b, 0),
    (ChipId::Ymf262, 0),
    (ChipId::Ymf262, 1),
];

/// The chips of the commands B0–BF.
const BYTE_CHIPS: [ChipId; 16] = [
    ChipId::Rf5c68,
    ChipId::Rf5c164,
    ChipId::Pwm,
    ChipId::GameBoy,
    ChipId::NesApu,
    ChipId::MultiPcm,
    ChipId::Upd7759,
    ChipId::Okim6258,
    ChipId::Okim6295,
    ChipId::Huc6280,
    ChipId::K053260,
    ChipId::Pokey,
    ChipId::WonderSwan,
    ChipId::Saa1099,
    ChipId::Es5506,
    ChipId::Ga20,
];

/// The chips of the commands C0–C8, which have a 16-bit address or value and a byte.
const WORD_CHIPS: [ChipId; 9] = [
    ChipId::SegaPcm,
    ChipId::Rf5c68,
    ChipId::Rf5c164,
    ChipId::MultiPcm,
    ChipId::Qsound,
    ChipId::Scsp,
    ChipId::WonderSwan,
    ChipId::Vsu,
    ChipId::X1010,
];

/// The chips of the commands D0–D6. D0–D5 have a port, a register and a byte. D6 has a register and
/// a word.
const PORT_CHIPS: [ChipId; 7] = [
    ChipId::Ymf278b,
    ChipId::Ymf271,
    ChipId::K051649,
    ChipId::K054539,
    ChipId::C140,
    ChipId::Es5503,
    ChipId::Es5506,
];

/// The layouts of the operands of frequent write commands. Nearly all writes of songs have one of
/// them.
#[derive(Clone, Copy)]
enum Shape {
    /// The command is not a frequent write.
    Other,
    /// A register and a value. The fields are the chip, the port and whether it is the second chip.
    Named(ChipId, u8, bool),
    /// A register and a value, where bit 7 of the register selects the second chip.
    Marked(ChipId),
    /// A register of 4 bits and a value of 12 bits.
    Pwm,
    /// A value for an SN76489. The field is whether it is the second chip.
    Psg(bool),
    /// One bit for the second chip, a register of 3 bits and a value of 4 bits.
    Msm5205,
}

static SHAPES: [Shape; 256] = shapes();

const fn shapes() -> [Shape; 256] {
    let mut shapes = [Shape::Other; 256];
    let mut at = 0;
    while at < 15 {
        let (chip, port) = YAMAHA[at];
        shapes[0x51 + at] = Shape::Named(chip, port, false);
        shapes[0xA1 + at] = Shape::Named(chip, port, true);
        at += 1;
    }
    at = 0;
    while at < 16 {
        shapes[0xB0 + at] = Shape::Marked(BYTE_CHIPS[at]);
        at += 1;
    }
    shapes[0xA0] = Shape::Marked(ChipId::Ay8910);
    shapes[0xB2] = Shape::Pwm;
    shapes[0x50] = Shape::Psg(false);
    shapes[0x30] = Shape::Psg(true);
    shapes[0x32] = Shape::Msm5205;
    shapes
}

/// Returns the length in ticks if a wait of 1 to 16 ticks is at `offset`.
///
/// Such a command is one byte long. The result is that of [`decode`], but we get it faster.
#[inline(always)]
pub fn frequent_wait(song: &[u8], offset: usize) -> Option<u64> {
    let code = song.get(offset)?;
    (code >> 4 == 7).then_some(u64::from(code & 15) + 1)
}

/// The number of bytes of a write to the PWM.
pub const PWM_BYTES: usize = 3;

/// Returns the register and the value if there is a write to the PWM at `offset`.
///
/// Most commands of songs for the 32X are such writes. Therefore, we look for them first.
#[inline(always)]
pub fn pwm_write(song: &[u8], offset: usize) -> Option<(u16, u16)> {
    match *song.get(offset..)?.first_chunk()? {
        [0xB2, reg, value] => Some((u16::from(reg >> 4), u16::from_be_bytes([reg & 15, value]))),
        _ => None,
    }
}

/// Returns the write at `offset` and its length in bytes if it is one of the frequent writes. At
/// least three bytes of the song must be left at `offset`, including the command itself.
///
/// The result is that of [`decode`], but we get it faster.
#[inline(always)]
pub fn frequent_write(song: &[u8], offset: usize) -> Option<(Write, usize)> {
    let [code, reg, value] = *song.get(offset..)?.first_chunk()?;
    shaped(SHAPES[usize::from(code)], reg, value)
}

/// Returns the write of a command with this layout, and the length of the command in bytes.
///
/// `value` is ignored if the command has only two bytes.
#[inline(always)]
fn shaped(shape: Shape, reg: u8, value: u8) -> Option<(Write, usize)> {
    let (chip, port, second, reg) = match shape {
        Shape::Other => return None,
        Shape::Named(chip, port, second) => (chip, port, second, reg),
        Shape::Marked(chip) => (chip, 0, reg >> 7 != 0, reg & 0x7F),
        Shape::Pwm => {
            let value = u16::from_be_bytes([reg & 15, value]);
            return Some((to((ChipId::Pwm, false), 0, reg >> 4, value), 3));
        }
        Shape::Psg(second) => {
            let value = u16::from(reg);
            let port = if second { PSG_SECOND } else { 0 };
            return Some((to((ChipId::Sn76489, second), port, 0, value), 2));
        }
        Shape::Msm5205 => {
            let chip = (ChipId::Msm5205, reg >> 7 != 0);
            return Some((to(chip, 0, reg >> 4 & 7, u16::from(reg & 15)), 2));
        }
    };
    Some((to((chip, second), port, reg, u16::from(value)), 3))
}

#[inline(always)]
fn to((chip, second): (ChipId, bool), port: u8, reg: u8, value: u16) -> Write {
    Write {
        instance: Instance { chip, second },
        port,
        reg: u16::from(reg),
        value,
    }
}

fn write(code: u8, ops: &[u8]) -> Option<Write> {
    let shape = SHAPES[usize::from(code)];
    if let Some((write, _)) = shaped(shape, ops[0], ops.get(1).copied().unwrap_or(0)) {
        return Some(write);
    }
    let to = |chip, second, port, reg, value| to((chip, second), port, reg, u16::from(value));
    Some(match code {
        0x4F => to(ChipId::Sn76489, false, 1, 0, ops[0]),
        0x3F => to(ChipId::Sn76489, true, PSG_SECOND | 1, 0, ops[0]),
        // The panning of the three channels. If bit 6 is set, it is for the SSG of a YM2203.
        0x31 if ops[0] & 0x40 == 0 => to(ChipId::Ay8910, ops[0] >> 7 != 0, 1, 0, ops[0] & 0x3F),
        0x40 if ops.len() == 2 => to(ChipId::Mikey, ops[0] >> 7 != 0, 0, ops[0] & 0x7F, ops[1]),
        0x41 if ops.len() == 2 => to(ChipId::K007232, ops[0] >> 7 != 0, 0, ops[0] & 0x7F, ops[1]),
        0x42 if ops.len() == 2 => to(ChipId::K005289, ops[0] >> 7 != 0, 0, ops[0] & 0x7F, ops[1]),
        0x44 if ops.len() == 2 => to(ChipId::Ics2115, ops[0] >> 7 != 0, 0, ops[0] & 0x7F, ops[1]),
        0x43 if ops.len() == 2 => to(ChipId::Msm5232, ops[0] >> 7 != 0, 0, ops[0] & 0x7F, ops[1]),
        // An address with its high byte first. The port distinguishes the memory of the WonderSwan
        // from its registers.
        0xC6 => to(
            ChipId::WonderSwan,
            ops[0] >> 7 != 0,
            1 + (ops[0] & 0x7F),
            ops[1],
            ops[2],
        ),
        0xC7 => to(ChipId::Vsu, ops[0] >> 7 != 0, ops[0] & 0x7F, ops[1], ops[2]),
        0xC0..=0xC8 => word_write(code, ops),
        0xD6 => Write {
            instance: Instance {
                chip: ChipId::Es5506,
                second: ops[0] >> 7 != 0,
            },
            port: 1,
            reg: u16::from(ops[0] & 0x7F),
            value: u16::from_be_bytes([ops[1], ops[2]]),
        },
        0xD0..=0xD6 => {
            let chip = PORT_CHIPS[usize::from(code & 15)];
            to(chip, ops[0] >> 7 != 0, ops[0] & 0x7F, ops[1], ops[2])
        }
        0xE1 => Write {
            instance: Instance {
                chip: ChipId::C352,
                second: ops[0] >> 7 != 0,
            },
            port: 0,
            reg: u16::from_be_bytes([ops[0] & 0x7F, ops[1]]),
            value: u16::from_be_bytes([ops[2], ops[3]]),
        },
        _ => return None,
    })
}

/// Decodes C0 to C8: a byte and a word, which is an address except for the QSound and the MultiPCM.
fn word_write(code: u8, ops: &[u8]) -> Write {
    let (low_first, high_first) = (u16_at(ops, 0), u16::from_be_bytes([ops[0], ops[1]]));
    let byte = u16::from(ops[2]);
    let (port, second, reg, value) = match code {
        0xC0 => (0, low_first >> 15 != 0, low_first & 0x7FFF, byte),
        // All 16 bits are the address, so there is no bit left to select a second chip.
        0xC1 | 0xC2 => (1, false, low_first, byte),
        0xC3 => (
            1,
            ops[0] >> 7 != 0,
            u16::from(ops[0] & 0x7F),
            u16_at(ops, 1),
        ),
        0xC4 => (0, false, byte, high_first),
        _ => (0, high_first >> 15 != 0, high_first & 0x7FFF, byte),
    };
    Write {
        instance: Instance {
            chip: WORD_CHIPS[usize::from(code & 15)],
            second,
        },
        port,
        reg,
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the operand counts with a second list, which we took from the specification.
    #[test]
    fn operand_counts_match_the_specification() {
        for code in 0..=255u8 {
            let expected = match code {
                0x00..=0x2F | 0x60 | 0x65 | 0x69..=0x6F | 0x96..=0x9F => None,
                0x30..=0x3F | 0x4F | 0x50 => Some(1),
                0x40..=0x4E | 0x51..=0x5F => Some(2),
                0x61 => Some(2),
                0x62 | 0x63 | 0x66 => Some(0),
                0x64 => Some(3),
                0x67 => Some(6),
                0x68 => Some(11),
                0x70..=0x8F => Some(0),
                0x90 | 0x91 | 0x95 => Some(4),
                0x92 => Some(5),
                0x93 => Some(10),
                0x94 => Some(1),
                0xA0..=0xBF => Some(2),
                0xC0..=0xDF => Some(3),
                0xE0..=0xFF => Some(4),
            };
            assert_eq!(operands(code, 0x171), expected, "{code:#04x}");
        }
        assert_eq!(operands(0x41, 0x151), Some(1));
    }

    #[test]
    fn truncated_commands_are_errors() {
        for code in (0..=255u8).filter(|code| operands(*code, 0x171).is_some()) {
            let whole = 1 + operands(code, 0x171).unwrap();
            let mut song = vec![0; whole];
            song[0] = code;
            for length in 0..whole {
                assert!(decode(&song[..length], 0, 0x171).is_err(), "{code:#04x}");
            }
            assert!(decode(&song, 0, 0x171).is_ok(), "{code:#04x}");
        }
    }

    #[test]
    fn second_chip_is_selected_by_command_or_bit_7() {
        let write = |bytes: &[u8]| match decode(bytes, 0, 0x171).unwrap().0 {
            Command::Write(write) => write,
            other => panic!("{other:?}"),
        };
        let second = |chip| Instance { chip, second: true };
        assert_eq!(write(&[0xA3, 0x28, 1]).instance, second(ChipId::Ym2612));
        assert_eq!(write(&[0xA3, 0x28, 1]).port, 1);
        assert_eq!(write(&[0xA0, 0x87, 1]).instance, second(ChipId::Ay8910));
        assert_eq!(write(&[0xA0, 0x87, 1]).reg, 7);
        assert_eq!(write(&[0x30, 0x87]).instance, second(ChipId::Sn76489));
        assert_eq!(
            write(&[0xC0, 0x00, 0x80, 5]).instance,
            second(ChipId::SegaPcm)
        );
    }

    #[test]
    fn data_block_has_its_range_and_chip() {
        let mut song = vec![0x67, 0x66, 0x82, 4, 0, 0, 0x80, 1, 2, 3, 4, 0x66];
        let (command, next) = decode(&song, 0, 0x171).unwrap();
        let block = Block {
            kind: 0x82,
            second: true,
            data: 7..11,
        };
        assert_eq!((command, next), (Command::Block(block), 11));
        song[3] = 6;
        assert!(decode(&song, 0, 0x171).is_err());
    }
}
