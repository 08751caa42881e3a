//! The chips that play samples. Most of them read the samples from a memory, which the song fills.
//!
//! These chips differ in everything except three things: they have registers, often an address
//! space for memory, and a native rate. Therefore we use a trait for them.

mod awm;
pub mod c140;
pub mod c352;
mod envelope;
pub mod es550x;
pub mod ga20;
pub mod ics2115;
pub mod k053260;
pub mod k054539;
pub mod multipcm;
pub mod okim6295;
pub mod pwm;
pub mod qsound;
pub mod rf5c68;
mod sample;
pub mod scsp;
pub mod segapcm;
pub mod upd7759;
pub mod x1_010;
pub mod ymf271;
pub mod ymf278b;

use std::ops::Range;

use super::Rate;
use super::rom::Rom;
use super::streamed_writes::{StreamedWrite, render_streamed};
use crate::format::{Command, Song, decode};

/// A chip that plays samples.
pub trait PcmChip: Send + dyn_clone::DynClone {
    /// Returns the number of native frames per second.
    fn rate(&self) -> Rate;

    /// Writes a register between two frames.
    fn write(&mut self, port: u8, reg: u16, value: u16);

    /// Mutes all voices except those in `_voices`, one bit per voice. Returns whether the chip can
    /// do this.
    fn set_voice_mask(&mut self, _voices: u64) -> bool {
        false
    }

    /// Overwrites `out` with the next native frames, each side from -32768 to 32767.
    fn render(&mut self, out: &mut [[i32; 2]]);

    /// Returns the registers whose writes you may pass with a block to
    /// [`PcmChip::render_streamed`].
    fn streamed_registers(&self) -> Range<u16> {
        0..0
    }

    /// Renders as [`PcmChip::render`] does, with writes to these registers between the frames.
    fn render_streamed(&mut self, writes: &[StreamedWrite], out: &mut [[i32; 2]]) {
        let write = |chip: &mut Self, reg, value| chip.write(0, reg, value);
        render_streamed(self, writes, out, (write, |chip, out| chip.render(out)));
    }

    /// Returns the memory for blocks of this kind, if the chip only reads it.
    fn rom(&mut self, _kind: u8) -> Option<&mut Rom> {
        None
    }

    /// Returns the number that is added to the start addresses of blocks of this kind.
    fn rom_start(&self, _kind: u8) -> usize {
        0
    }

    /// Returns the index of the chip's lane that contains its writes.
    fn lane(&self) -> usize {
        0
    }

    /// Stores bytes in the chip's own memory.
    ///
    /// `_offset` counts from the start of the window that the registers of the chip select.
    fn store(&mut self, _offset: usize, _bytes: &[u8]) {}
}

dyn_clone::clone_trait_object!(PcmChip);

/// Loads the memory of the command at `offset` of the song, in bytes.
pub fn load(chip: &mut dyn PcmChip, song: &Song, offset: u32) {
    let command = decode(song.bytes(), offset as usize, song.header.version);
    match command {
        Ok((Command::Block(block), _)) => {
            if block.kind < 0xC0 {
                let base = chip.rom_start(block.kind);
                if let Some(rom) = chip.rom(block.kind) {
                    add_rom_block(rom, base, song, block.data);
                }
                return;
            }
            // The block begins with its start address. The sequencer has dropped blocks without
            // one.
            let (head, data) =
                song.bytes()[block.data].split_at(if block.kind < 0xE0 { 2 } else { 4 });
            let place = head
                .iter()
                .rfold(0, |place, byte| place << 8 | usize::from(*byte));
            chip.store(place, data);
        }
        Ok((Command::RamWrite(write), _)) => {
            let bank = song.bank(write.kind).map_or(&[][..], |bank| &bank.data);
            let from = (write.from as usize).min(bank.len());
            let end = (from + write.length as usize).min(bank.len());
            chip.store(write.to as usize, &bank[from..end]);
        }
        _ => {}
    }
}

/// Adds a ROM block at `block` of the song.
///
/// The block contains the size of the memory, the start address, and the data. Addresses count from
/// `base`.
pub fn add_rom_block(rom: &mut Rom, base: usize, song: &Song, block: Range<usize>) {
    // The sequencer has dropped blocks that have no start address, or that do not lie within the
    // memory that a chip can address.
    let start = &song.bytes()[block.start + 4..block.start + 8];
    let start = start
        .iter()
        .rfold(0, |start, byte| start << 8 | usize::from(*byte));
    rom.add_block(
        base + start,
        song.shared_bytes(),
        block.start + 8..block.end,
    );
}

/// Clips a sum of voices to the range of a native frame.
fn limit(out: &mut [[i32; 2]]) {
    for value in out.as_flattened_mut() {
        *value = (*value).clamp(-0x8000, 0x7FFF);
    }
}
