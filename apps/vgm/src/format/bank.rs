//! Data banks: the stream blocks of a song, unpacked and concatenated by kind.
//!
//! We fill the banks once, when the song is read. Playing therefore never unpacks data, and every
//! pass of the loop finds the same banks. A bank only grows at its end. A block in the middle of
//! the song therefore has the same offset as if we had added it when the player reaches it.
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

/// Returns whether the specification defines data blocks of this kind.
///
/// Packed blocks have the kinds of plain ones plus 0x40.
pub fn is_block_kind(kind: u8) -> bool {
    let is_stream = matches!(kind, 0x00..=0x08 | 0x40..=0x48 | 0x7F);
    let is_rom = matches!(kind, 0x80..=0x94 | 0x96);
    let is_ram = matches!(kind, 0xC0..=0xC2 | 0xE0 | 0xE1);
    is_stream || is_rom || is_ram
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

    /// Adds a block of kind 00 to 7F, and returns its defect, if it has one.
    ///
    /// We keep the values that can be unpacked. If there are none, the block is empty, so that the
    /// numbers of the later blocks stay the same.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooLarge`] if all banks together are larger than the largest song may be.
    pub fn add(&mut self, song: &[u8], block: &Block) -> Result<Option<String>, Error> {
        let data = &song[block.data.clone()];
        if block.kind == 0x7F {
            let (table, defect) = Table::parse(data);
            self.table = table;
            return Ok(defect);
        }
        let bank = &mut self.banks[usize::from(block.kind) % KINDS];
        let start = bank.data.len();
        let defect = if block.kind < 0x40 {
            bank.data.extend_from_slice(data);
            None
        } else {
            let room = SONG_BYTES_MAX - self.bytes;
            unpack(data, &self.table, room, &mut bank.data).err()
        };
        let end = bank.data.len();
        bank.blocks.push(start..end);
        self.bytes += end - start;
        if self.bytes > SONG_BYTES_MAX {
            let reason = format!(
                "the data banks of the song hold more than {} MiB",
                SONG_BYTES_MAX >> 20
            );
            return Err(Error::TooLarge(reason));
        }
        Ok(defect)
    }

    /// Returns the banks so far, indexed by kind.
    pub fn filled(&self) -> &[Bank] {
        &self.banks
    }

    /// Returns the banks, indexed by kind.
    pub fn finish(self) -> Vec<Bank> {
        self.banks
    }
}

impl Table {
    /// Reads a table and returns it with its defect, if it has one.
    fn parse(data: &[u8]) -> (Table, Option<String>) {
        let count = usize::from(u16_at(data, 4));
        let bits_out = u8_at(data, 2);
        let values = data.get(TABLE_HEADER..).unwrap_or_default();
        let values: Vec<u16> = if bits_out > 8 {
            values.chunks_exact(2).map(|pair| u16_at(pair, 0)).collect()
        } else {
            values.iter().map(|byte| u16::from(*byte)).collect()
        };
        let defect = (values.len() < count).then(|| {
            let found = values.len();
            format!("the decompression table has {found} values of the {count} that it claims")
        });
        let bits_in = u8_at(data, 3);
        let table = Table {
            bits_out,
            bits_in,
            values,
        };
        (table, defect)
    }

    /// Returns the values if the table fits a block that was packed from `bits_out` to `bits_in`
    /// bits.
    fn values_checked(&self, bits_out: u8, bits_in: u8) -> Result<&[u16], String> {
        if self.bits_out != bits_out || self.bits_in != bits_in || self.values.is_empty() {
            return Err(
                "cannot decompress a block of samples: the song has no table for it before it"
                    .into(),
            );
        }
        Ok(&self.values)
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
///
/// # Errors
///
/// Returns the defect of the block. We append the values that could be unpacked. If the codes end
/// early, zeros take the place of the other values, so that later blocks keep their offsets.
fn unpack(data: &[u8], table: &Table, room: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let Some(packed) = data.get(PACKED_HEADER..) else {
        return Err("a compressed block of samples is shorter than its header".into());
    };
    let length = u32_at(data, 1) as usize;
    let (bits_out, bits_in) = (u8_at(data, 5), u8_at(data, 6));
    if !(1..=16).contains(&bits_out) || !(1..=16).contains(&bits_in) {
        return Err(format!(
            "cannot decompress a block of samples from {bits_in} bits to {bits_out} bits"
        ));
    }
    let claim = || {
        let bytes = packed.len();
        format!("a compressed block of {bytes} bytes claims a decompressed size of {length} bytes")
    };
    if length > room {
        return Err(claim());
    }
    let start = u16_at(data, 8);
    let method = match (u8_at(data, 0), u8_at(data, 7)) {
        (0, 0) => Method::Copy(start),
        (0, 1) => Method::ShiftLeft(start, u32::from(bits_out.saturating_sub(bits_in))),
        (0, 2) => Method::Table(table.values_checked(bits_out, bits_in)?),
        (1, _) => Method::Dpcm(table.values_checked(bits_out, bits_in)?),
        (kind, sub) => {
            return Err(format!(
                "cannot decompress a block of samples: unknown compression method {kind}.{sub}"
            ));
        }
    };
    let width = if bits_out > 8 { 2 } else { 1 };
    let end = out.len() + length;
    let mask = (0xFFFF_u16) >> (16 - bits_out);
    let mut sum = start;
    let mut outside = 0;
    let mut look_up = |values: &[u16], code: u16| {
        let value = values.get(usize::from(code));
        outside += u32::from(value.is_none());
        value.copied().unwrap_or(0)
    };
    for code in Codes::new(packed, bits_in).take(length / width) {
        let value = match &method {
            Method::Copy(add) => code.wrapping_add(*add),
            Method::ShiftLeft(add, shift) => (code << shift).wrapping_add(*add),
            Method::Table(values) => look_up(values, code),
            Method::Dpcm(deltas) => {
                sum = sum.wrapping_add(look_up(deltas, code)) & mask;
                sum
            }
        };
        out.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    let is_short = out.len() + width <= end;
    out.resize(end, 0);
    match outside {
        _ if is_short => Err(claim()),
        0 => Ok(()),
        _ => Err(format!(
            "{outside} codes of a compressed block are not in its table"
        )),
    }
}

/// An iterator over codes of `width` bits, starting with the highest bit of each byte.
///
/// A code of more than 8 bits consists of a piece of 8 bits, which are its low bits, and a piece
/// with the other bits. Codes of at most 8 bits have one piece.
struct Codes<'d> {
    data: &'d [u8],
    /// The next bit of `data`.
    next: usize,
    width: usize,
}

impl<'d> Codes<'d> {
    fn new(data: &'d [u8], width: u8) -> Self {
        Codes {
            data,
            next: 0,
            width: usize::from(width),
        }
    }

    /// Returns the next piece of at most 8 bits.
    fn piece(&mut self, bits: usize) -> Option<u16> {
        let (at, shift) = (self.next / 8, self.next % 8);
        let ends_here = shift + bits <= 8;
        let low = match self.data.get(at + 1) {
            Some(byte) => *byte,
            None if ends_here => 0,
            None => return None,
        };
        let pair = u16::from_be_bytes([*self.data.get(at)?, low]);
        self.next += bits;
        Some(pair << shift >> (16 - bits))
    }
}

impl Iterator for Codes<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let low = self.piece(self.width.min(8))?;
        match self.width.saturating_sub(8) {
            0 => Some(low),
            bits => Some(low | self.piece(bits)? << 8),
        }
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

    /// Returns the data of bank 0 and the defects of the blocks.
    fn unpacked_with_defects(blocks: &[(u8, Vec<u8>)]) -> (Vec<u8>, Vec<String>) {
        let mut banks = Banks::new();
        let mut defects = Vec::new();
        for (kind, data) in blocks {
            defects.extend(banks.add(data, &block(*kind, data)).unwrap());
        }
        (banks.finish().swap_remove(0).data, defects)
    }

    fn unpacked(blocks: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let (data, defects) = unpacked_with_defects(blocks);
        assert!(defects.is_empty(), "{defects:?}");
        data
    }

    /// Packs codes as the specification's tools do: pieces of at most 8 bits, low piece first.
    fn codes(values: &[u16], width: usize) -> Vec<u8> {
        let mut bits = Vec::new();
        for value in values {
            let mut first = 0;
            while first < width {
                let piece = (width - first).min(8);
                bits.extend((first..first + piece).rev().map(|bit| value >> bit & 1));
                first += piece;
            }
        }
        let byte = |bits: &[u16]| (0..8).fold(0, |byte, at| byte << 1 | bits.get(at).unwrap_or(&0));
        bits.chunks(8).map(|bits| byte(bits) as u8).collect()
    }

    fn words(bytes: &[u8]) -> Vec<u16> {
        bytes.chunks_exact(2).map(|pair| u16_at(pair, 0)).collect()
    }

    #[test]
    fn wide_codes_are_stored_in_pieces_with_the_low_piece_first() {
        for width in 9..=16u8 {
            let mask = 0xFFFF >> (16 - width);
            let values: Vec<u16> = (0..23u16).map(|n| n.wrapping_mul(9_973) & mask).collect();
            let data = codes(&values, usize::from(width));
            let block = |kind, out, start| {
                let length = 2 * values.len() as u32;
                vec![(0x40, packed(kind, [out, width], start, length, &data))]
            };
            let copied = unpacked(&block([0, 0], 16, 3));
            let expected: Vec<u16> = values.iter().map(|value| value.wrapping_add(3)).collect();
            assert_eq!(words(&copied), expected, "copying {width} bits");
            let shifted = unpacked(&block([0, 1], 16, 1));
            let expected: Vec<u16> = values
                .iter()
                .map(|value| (value << (16 - width)).wrapping_add(1))
                .collect();
            assert_eq!(words(&shifted), expected, "shifting {width} bits");
            if width > 12 {
                continue;
            }
            let entries: Vec<u16> = (0..1 << width).map(|n: u16| n.wrapping_mul(77)).collect();
            let mut table = vec![0, 0, 16, width];
            table.extend((entries.len() as u16).to_le_bytes());
            table.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
            let with_table = |kind| [vec![(0x7F, table.clone())], block(kind, 16, 5)].concat();
            let looked_up: Vec<u16> = values
                .iter()
                .map(|value| entries[usize::from(*value)])
                .collect();
            let by_table = unpacked(&with_table([0, 2]));
            assert_eq!(words(&by_table), looked_up, "table of {width} bits");
            let sums = looked_up.iter().scan(5u16, |sum, delta| {
                *sum = sum.wrapping_add(*delta);
                Some(*sum)
            });
            let dpcm = unpacked(&with_table([1, 0]));
            assert_eq!(words(&dpcm), sums.collect::<Vec<_>>(), "DPCM of {width}");
        }
    }

    #[test]
    fn narrow_codes_unpack_to_wide_values() {
        let values = [0, 1, 0x1F, 0x15, 7];
        let data = codes(&values, 5);
        let copy = unpacked(&[(0x40, packed([0, 0], [12, 5], 0x100, 10, &data))]);
        assert_eq!(words(&copy), values.map(|value| value + 0x100));
        let shift = unpacked(&[(0x40, packed([0, 1], [12, 5], 0, 10, &data))]);
        assert_eq!(words(&shift), values.map(|value| value << 7));
    }

    #[test]
    fn packed_block_that_ends_early_keeps_its_length() {
        let short = packed([0, 0], [8, 4], 0, 6, &[0x12, 0x34]);
        let blocks = [(0x40, short), (0, vec![9])];
        let (data, defects) = unpacked_with_defects(&blocks);
        assert_eq!(data, [1, 2, 3, 4, 0, 0, 9]);
        assert_eq!(defects.len(), 1, "{defects:?}");
    }

    #[test]
    fn codes_outside_the_table_are_a_defect() {
        let table = vec![0, 2, 8, 2, 2, 0, 10, 20];
        let by_table = packed([0, 2], [8, 2], 0, 4, &[0b0001_1011]);
        let (data, defects) = unpacked_with_defects(&[(0x7F, table), (0x40, by_table)]);
        assert_eq!(data, [10, 20, 0, 0]);
        assert!(defects[0].starts_with("2 codes"), "{defects:?}");
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
    fn packed_values_are_copied_or_shifted_and_get_the_offset_added() {
        let copy = packed([0, 0], [8, 4], 0x10, 4, &[0x12, 0x3F]);
        assert_eq!(unpacked(&[(0x40, copy)]), [0x11, 0x12, 0x13, 0x1F]);
        let shift = packed(
            [0, 1],
            [8, 6],
            1,
            4,
            &[0b0000_0100, 0b0010_0000, 0b1111_1111],
        );
        assert_eq!(unpacked(&[(0x40, shift)]), [5, 9, 13, 0xFD]);
    }

    #[test]
    fn table_compression_requires_a_table() {
        let table = vec![0, 2, 8, 2, 4, 0, 10, 20, 30, 250];
        let by_table = packed([0, 2], [8, 2], 0, 4, &[0b0001_1011]);
        let dpcm = packed([1, 0], [8, 2], 100, 4, &[0b0001_1011]);
        assert_eq!(
            unpacked_with_defects(&[(0x40, by_table.clone())]).1.len(),
            1
        );
        let blocks = [(0x7F, table.clone()), (0x40, by_table)];
        assert_eq!(unpacked(&blocks), [10, 20, 30, 250]);
        let blocks = [(0x7F, table), (0x40, dpcm)];
        assert_eq!(unpacked(&blocks), [110, 130, 160, 154]);
    }

    #[test]
    fn packed_block_with_impossible_attributes_is_empty() {
        let bomb = packed([0, 0], [8, 1], 0, u32::MAX, &[0; 8]);
        let wide = packed([0, 0], [17, 1], 0, 2, &[0; 8]);
        let unknown = packed([2, 0], [8, 1], 0, 2, &[0; 8]);
        for block in [bomb, wide, unknown, vec![0; 9]] {
            let (data, defects) = unpacked_with_defects(&[(0x40, block)]);
            assert_eq!((data.len(), defects.len()), (0, 1), "{defects:?}");
        }
    }
}
