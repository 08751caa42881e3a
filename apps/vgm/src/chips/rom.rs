//! The sample memory of a chip, which is read from the song itself.
//!
//! A song contains its memory in blocks with start addresses. Adding a block copies nothing,
//! because we only remember where it is in the song. We look at the blocks when the chip first
//! plays:
//!
//! - A single block is read in place.
//! - Several blocks are copied into one layout. Songs whose blocks have the same addresses and
//!   bytes share a layout, for example the songs of an album. The number of songs that play at the
//!   same time does not matter.
//!
//! Invariant: reading an address returns the byte of the last block that contains it, or 0 if there
//! is none. A block that is added after the chip has played costs time in proportion to its own
//! length. However, the first such block costs a copy of the whole memory.
//!
//! A chip that can write to its memory has its own copy from the first write on.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A block of the memory in a song.
#[derive(Clone, Debug)]
struct RomBlock {
    start: usize,
    song: Arc<Vec<u8>>,
    data: Range<usize>,
}

impl RomBlock {
    fn bytes(&self) -> &[u8] {
        &self.song[self.data.clone()]
    }

    fn places(&self) -> Range<usize> {
        self.start..self.start + self.data.len()
    }
}

/// Several blocks, copied to their addresses.
#[derive(Debug, Clone)]
struct Layout {
    start: usize,
    bytes: Vec<u8>,
    /// The addresses of the blocks, in the order of the song.
    places: Vec<Range<usize>>,
}

/// The layouts that are in use.
static LAYOUTS: Mutex<Vec<Weak<Layout>>> = Mutex::new(Vec::new());

impl Layout {
    /// Returns the layout of these blocks. Callers share one layout as long as at least one of them
    /// holds it.
    fn of(blocks: &[RomBlock]) -> Arc<Layout> {
        let mut layouts = LAYOUTS.lock().unwrap_or_else(PoisonError::into_inner);
        layouts.retain(|layout| layout.strong_count() > 0);
        let known = layouts
            .iter()
            .filter_map(Weak::upgrade)
            .find(|layout| layout.is_of(blocks));
        known.unwrap_or_else(|| {
            let layout = Arc::new(Layout::new(blocks));
            layouts.push(Arc::downgrade(&layout));
            layout
        })
    }

    fn new(blocks: &[RomBlock]) -> Layout {
        let places: Vec<_> = blocks.iter().map(RomBlock::places).collect();
        let start = places.iter().map(|place| place.start).min().unwrap_or(0);
        let end = places.iter().map(|place| place.end).max().unwrap_or(0);
        let mut bytes = vec![0; end - start];
        for block in blocks {
            bytes[block.start - start..][..block.data.len()].copy_from_slice(block.bytes());
        }
        Layout {
            start,
            bytes,
            places,
        }
    }

    /// Returns whether this is the layout of `blocks`.
    ///
    /// If a block was partly overwritten by a later one, this layout has lost its bytes, so the
    /// result is usually false. Such blocks get a new layout.
    fn is_of(&self, blocks: &[RomBlock]) -> bool {
        let same_places = self
            .places
            .iter()
            .cloned()
            .eq(blocks.iter().map(RomBlock::places));
        let at = |block: &RomBlock| &self.bytes[block.start - self.start..][..block.data.len()];
        same_places && blocks.iter().all(|block| at(block) == block.bytes())
    }
}

/// The place from which a memory is read.
#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Nowhere,
    Song(RomBlock),
    Shared(Arc<Layout>),
    /// A private copy from address 0, for a chip that received blocks after it had played.
    Own(Vec<u8>),
}

/// The sample memory of a chip.
///
/// ```
/// use std::sync::Arc;
/// use creel_vgm::chips::rom::Rom;
///
/// let song = Arc::new(vec![1, 2, 3, 4]);
/// let mut rom = Rom::default();
/// rom.add_block(0x100, song.clone(), 0..2);
/// rom.add_block(0x200, song, 2..4);
/// let read = rom.read();
/// assert_eq!([0x101, 0x102, 0x200].map(|at| read.byte(at)), [2, 0, 3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rom {
    source: Source,
    /// The blocks that were added since the chip last played.
    new: Vec<RomBlock>,
}

impl Rom {
    /// Creates a memory that contains these bytes from address 0 on.
    pub fn of(bytes: Vec<u8>) -> Rom {
        let data = 0..bytes.len();
        let mut rom = Rom::default();
        rom.add_block(0, Arc::new(bytes), data);
        rom
    }

    /// Adds a block whose bytes are at `data` in the song. Its first byte is at address `start`.
    pub fn add_block(&mut self, start: usize, song: Arc<Vec<u8>>, data: Range<usize>) {
        if !data.is_empty() {
            self.new.push(RomBlock { start, song, data });
        }
    }

    /// Returns a view of the current memory.
    #[inline]
    pub fn read(&mut self) -> Reader<'_> {
        if !self.new.is_empty() {
            self.settle();
        }
        let (start, bytes) = match &self.source {
            Source::Nowhere => (0, &[][..]),
            Source::Song(block) => (block.start, block.bytes()),
            Source::Shared(layout) => (layout.start, &layout.bytes[..]),
            Source::Own(bytes) => (0, &bytes[..]),
        };
        Reader { start, bytes }
    }

    /// Writes a byte. Only few chips can do this.
    pub fn write(&mut self, address: usize, value: u8) {
        self.add_block(address, Arc::new(vec![value]), 0..1);
        self.settle();
    }

    fn settle(&mut self) {
        let mut new = std::mem::take(&mut self.new);
        let old = std::mem::take(&mut self.source);
        self.source = match old {
            Source::Nowhere if new.len() == 1 => Source::Song(new.remove(0)),
            Source::Nowhere => Source::Shared(Layout::of(&new)),
            Source::Song(block) => patched(Vec::new(), [block].iter().chain(&new)),
            Source::Shared(layout) => {
                let mut bytes = vec![0; layout.start];
                bytes.extend_from_slice(&layout.bytes);
                patched(bytes, new.iter())
            }
            Source::Own(bytes) => patched(bytes, new.iter()),
        };
    }
}

fn patched<'p>(mut bytes: Vec<u8>, blocks: impl Iterator<Item = &'p RomBlock>) -> Source {
    for block in blocks {
        let places = block.places();
        bytes.resize(bytes.len().max(places.end), 0);
        bytes[places].copy_from_slice(block.bytes());
    }
    Source::Own(bytes)
}

/// A view of a memory, which is valid until a block is added.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'r> {
    start: usize,
    bytes: &'r [u8],
}

impl Reader<'_> {
    /// Returns whether no block was added.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the byte at an address, or 0 if there is none.
    #[inline]
    pub fn byte(self, address: u32) -> u8 {
        let place = (address as usize).wrapping_sub(self.start);
        self.bytes.get(place).copied().unwrap_or(0)
    }

    /// Returns the byte at an address as a signed sample.
    #[inline]
    pub fn signed(self, address: u32) -> i32 {
        i32::from(self.byte(address) as i8)
    }

    /// Returns the signed 16-bit sample at an address, low byte first.
    #[inline]
    pub fn word_le(self, address: u32) -> i32 {
        let bytes = [self.byte(address), self.byte(address.wrapping_add(1))];
        i32::from(i16::from_le_bytes(bytes))
    }

    /// Returns the signed 16-bit sample at an address, high byte first.
    #[inline]
    pub fn word_be(self, address: u32) -> i32 {
        let bytes = [self.byte(address), self.byte(address.wrapping_add(1))];
        i32::from(i16::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rom(blocks: &[(usize, &[u8])]) -> Rom {
        let mut rom = Rom::default();
        for (start, bytes) in blocks {
            rom.add_block(*start, Arc::new(bytes.to_vec()), 0..bytes.len());
        }
        rom
    }

    fn shared(rom: &Rom) -> &Arc<Layout> {
        match &rom.source {
            Source::Shared(layout) => layout,
            other => panic!("not shared: {other:?}"),
        }
    }

    #[test]
    fn single_rom_block_is_read_in_place() {
        let song = Arc::new(vec![9, 8, 7, 6]);
        let mut rom = Rom::default();
        rom.add_block(0x10, song.clone(), 1..3);
        assert!(
            matches!(rom.source, Source::Nowhere),
            "blocks must not be read before the chip plays"
        );
        let read = rom.read();
        assert_eq!(
            [0x0F, 0x10, 0x11, 0x12].map(|at| read.byte(at)),
            [0, 8, 7, 0]
        );
        assert_eq!(read.bytes.as_ptr(), song[1..].as_ptr());
    }

    #[test]
    fn songs_with_equal_blocks_share_one_layout() {
        let blocks: [(usize, &[u8]); 2] = [(0x21, &[1, 2]), (0x28, &[3])];
        let (mut one, mut same) = (rom(&blocks), rom(&blocks));
        let mut other = rom(&[(0x21, &[1, 2]), (0x28, &[4])]);
        for rom in [&mut one, &mut same, &mut other] {
            rom.read();
        }
        assert!(Arc::ptr_eq(shared(&one), shared(&same)));
        assert!(!Arc::ptr_eq(shared(&one), shared(&other)));
        assert_eq!(other.read().byte(0x28), 4);
    }

    #[test]
    fn later_rom_block_overrides_earlier_one() {
        let mut rom = rom(&[(4, &[1, 1, 1]), (5, &[2])]);
        let bytes = |rom: &mut Rom| [3, 4, 5, 6, 7].map(|at| rom.read().byte(at));
        assert_eq!(bytes(&mut rom), [0, 1, 2, 1, 0]);
        rom.add_block(6, Arc::new(vec![3, 3]), 0..2);
        assert_eq!(bytes(&mut rom), [0, 1, 2, 3, 3]);
        rom.add_block(3, Arc::new(vec![4]), 0..1);
        assert_eq!(bytes(&mut rom), [4, 1, 2, 3, 3]);
    }
}
