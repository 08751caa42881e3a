//! Data banks: the stream blocks of a song, unpacked and concatenated by kind.
//!
//! We fill the banks once, when the song is read. Playing therefore never unpacks data, and every
//! pass of the loop finds the same banks. A block in the middle of the song has the same offset as
//! if it had been added when it is reached, because a bank only grows at its end.
//!
//! Source: VGM specification 1.71, "Data blocks".

use std::ops::Range;

use super::bytes::{u8_at, u16_at, u32_at};
use super::command::Block;
use super::container::SONG_BYTES_MAX;
use crate::error::Error;

/// The data of one kind, in bytes.
#[derive(Debug, Clone, Default)]
pub struct Bank {
    /// All blocks of the kind, one after another.
    pub data: Vec<u8>,
    /// The range of each block in `data`.
    pub blocks: Vec<Range<usize>>,
}

/// The decompression table of command 67 7F.
#[derive(Debug, Default)]
struct Table {
    bits_out: u8,
    bits_in: u8,
    values: Vec<u16>,
}

/// All banks of a song while it is being read.
#[derive(Debug)]
pub struct Banks {
    banks: Vec<Bank>,
    table: Table,
    bytes: usize,
}

/// The number of kinds of stream data.
const KINDS: usize = 0x40;
/// The number of bytes of attributes before the packed data.
const PACKED_HEADER: usize = 10;
const TABLE_HEADER: usize = 6;

impl Banks {
    /// Creates banks without data.
    pub fn new() -> Self {
        Banks {
            banks: vec![Bank::default(); KINDS],
            table: Table::default(),
            bytes: 0,
        }
    }

    /// Adds a block of kind 00 to 7F.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Malformed`] if packed data does not match its attributes, and
    /// [`Error::TooLarge`] if all banks together are larger than the largest song may be.
    pub fn add(&mut self, song: &[u8], block: &Block) -> Result<(), Error> {
        let data = &song[block.data.clone()];
        let at = block.data.start;
        if block.kind == 0x7F {
            self.table = Table::parse(data).ok_or_else(|| {
                Error::malformed(
                    at,
                    "the decompression table is shorter than its size field says",
                )
            })?;
            return Ok(());
        }
        let bank = &mut self.banks[usize::from(block.kind) % KINDS];
        let start = bank.data.len();
        if block.kind < 0x40 {
            bank.data.extend_from_slice(data);
        } else {
            unpack(
                data,
                &self.table,
                SONG_BYTES_MAX - self.bytes,
                &mut bank.data,
            )
            .map_err(|reason| Error::malformed(at, reason))?;
        }
        let end = bank.data.len();
        bank.blocks.push(start..end);
        self.bytes += end - start;
        if self.bytes > SONG_BYTES_MAX {
            let reason = format!("its data banks hold more than {} MiB", SONG_BYTES_MAX >> 20);
            return Err(Error::TooLarge(reason));
        }
        Ok(())
    }

    /// Returns the banks, indexed by kind.
    pub fn finish(self) -> Vec<Bank> {
        self.banks
    }
}

impl Table {
    fn parse(data: &[u8]) -> Option<Table> {
        let count = usize::from(u16_at(data, 4));
        let bits_out = u8_at(data, 2);
        let wide = bits_out > 8;
        let values = data.get(TABLE_HEADER..)?;
        let values: Vec<u16> = if wide {
            values.chunks_exact(2).map(|pair| u16_at(pair, 0)).collect()
        } else {
            values.iter().map(|byte| u16::from(*byte)).collect()
        };
        (values.len() >= count).then(|| Table {
            bits_out,
            bits_in: u8_at(data, 3),
            values,
        })
    }
}

/// The way to compute an unpacked value from a packed one.
enum Method<'t> {
    Copy(u16),
    ShiftLeft(u16, u32),
    Table(&'t [u16]),
    Dpcm(&'t [u16]),
}

/// Unpacks `data` and appends the result to `out`, at most `room` bytes.
fn unpack(data: &[u8], table: &Table, room: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let Some(packed) = data.get(PACKED_HEADER..) else {
        return Err("a packed block is shorter than its attributes".into());
    };
    let length = u32_at(data, 1) as usize;
    let (bits_out, bits_in) = (u8_at(data, 5), u8_at(data, 6));
    if !(1..=16).contains(&bits_out) || !(1..=bits_out).contains(&bits_in) {
        return Err(format!(
            "cannot unpack a block from {bits_in} bits to {bits_out}"
        ));
    }
    let width = if bits_out > 8 { 2 } else { 1 };
    let values = length / width;
    if length > room || packed.len() * 8 / usize::from(bits_in) < values {
        return Err(format!(
            "a packed block of {} bytes claims to unpack to {length} bytes",
            packed.len()
        ));
    }
    let start = u16_at(data, 8);
    let method = match (u8_at(data, 0), u8_at(data, 7)) {
        (0, 0) => Method::Copy(start),
        (0, 1) => Method::ShiftLeft(start, u32::from(bits_out - bits_in)),
        (0, 2) => Method::Table(table.values_checked(bits_out, bits_in)?),
        (1, _) => Method::Dpcm(table.values_checked(bits_out, bits_in)?),
        (kind, sub) => {
            return Err(format!(
                "cannot unpack a block: unknown method {kind}.{sub}"
            ));
        }
    };
    let mask = (0xFFFF_u16) >> (16 - bits_out);
    let mut sum = start;
    let bits = Bits {
        data: packed,
        next: 0,
        width: usize::from(bits_in),
    };
    for code in bits.take(values) {
        let value = match &method {
            Method::Copy(add) => code.wrapping_add(*add),
            Method::ShiftLeft(add, shift) => (code << shift).wrapping_add(*add),
            Method::Table(values) => values[usize::from(code)],
            Method::Dpcm(deltas) => {
                sum = sum.wrapping_add(deltas[usize::from(code)]) & mask;
                sum
            }
        };
        out.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    Ok(())
}

impl Table {
    /// Returns the values if the table fits a block that was packed from `bits_out` to `bits_in`
    /// bits.
    fn values_checked(&self, bits_out: u8, bits_in: u8) -> Result<&[u16], String> {
        if self.bits_out != bits_out || self.bits_in != bits_in || self.values.len() < 1 << bits_in
        {
            return Err("cannot unpack a block: no table for it was given before".into());
        }
        Ok(&self.values)
    }
}

/// An iterator over codes of `width` bits, starting with the highest bit of each byte.
struct Bits<'d> {
    data: &'d [u8],
    next: usize,
    width: usize,
}

impl Iterator for Bits<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let mut code = 0;
        for bit in self.next..self.next + self.width {
            let byte = *self.data.get(bit / 8)?;
            code = code << 1 | u16::from(byte >> (7 - bit % 8) & 1);
        }
        self.next += self.width;
        Some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u8, data: &[u8]) -> Block {
        Block {
            kind,
            second: false,
            data: 0..data.len(),
        }
    }

    fn packed(kind: [u8; 2], bits: [u8; 2], start: u16, length: u32, data: &[u8]) -> Vec<u8> {
        let mut block = vec![kind[0]];
        block.extend(length.to_le_bytes());
        block.extend([bits[0], bits[1], kind[1]]);
        block.extend(start.to_le_bytes());
        block.extend(data);
        block
    }

    fn unpacked(blocks: &[(u8, Vec<u8>)]) -> Result<Vec<u8>, Error> {
        let mut banks = Banks::new();
        for (kind, data) in blocks {
            banks.add(data, &block(*kind, data))?;
        }
        Ok(banks.finish().swap_remove(0).data)
    }

    #[test]
    fn blocks_of_a_kind_are_concatenated() {
        let mut banks = Banks::new();
        banks.add(&[1, 2, 3], &block(0, &[1, 2, 3])).unwrap();
        banks.add(&[4], &block(0, &[4])).unwrap();
        let bank = &banks.finish()[0];
        assert_eq!(bank.data, [1, 2, 3, 4]);
        assert_eq!(bank.blocks, [0..3, 3..4]);
    }

    #[test]
    fn packed_bits_are_copied_or_shifted_with_offset() {
        let copy = packed([0, 0], [8, 4], 0x10, 4, &[0x12, 0x3F]);
        assert_eq!(unpacked(&[(0x40, copy)]).unwrap(), [0x11, 0x12, 0x13, 0x1F]);
        let shift = packed(
            [0, 1],
            [8, 6],
            1,
            4,
            &[0b0000_0100, 0b0010_0000, 0b1111_1111],
        );
        assert_eq!(unpacked(&[(0x40, shift)]).unwrap(), [5, 9, 13, 0xFD]);
    }

    #[test]
    fn table_compression_requires_a_table() {
        let table = vec![0, 2, 8, 2, 4, 0, 10, 20, 30, 250];
        let by_table = packed([0, 2], [8, 2], 0, 4, &[0b0001_1011]);
        let dpcm = packed([1, 0], [8, 2], 100, 4, &[0b0001_1011]);
        assert!(unpacked(&[(0x40, by_table.clone())]).is_err());
        let blocks = [(0x7F, table.clone()), (0x40, by_table)];
        assert_eq!(unpacked(&blocks).unwrap(), [10, 20, 30, 250]);
        let blocks = [(0x7F, table), (0x40, dpcm)];
        assert_eq!(unpacked(&blocks).unwrap(), [110, 130, 160, 154]);
    }

    #[test]
    fn truncated_packed_block_is_an_error() {
        let bomb = packed([0, 0], [8, 1], 0, u32::MAX, &[0; 8]);
        assert!(unpacked(&[(0x40, bomb)]).is_err());
        let wide = packed([0, 0], [17, 1], 0, 2, &[0; 8]);
        assert!(unpacked(&[(0x40, wide)]).is_err());
        assert!(unpacked(&[(0x40, vec![0; 9])]).is_err());
    }
}
