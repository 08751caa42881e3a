//! The chips that play samples, from memory that the song brings along.
//!
//! There are many, and they differ in all but this: they have registers, perhaps an address space
//! for memory, and a native rate. So here, and here alone, the shape of a chip is a trait.

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
    /// Native frames a second.
    fn rate(&self) -> Rate;

    /// Writes a register between two frames.
    fn write(&mut self, port: u8, reg: u16, value: u16);

    /// Leaves voices out of the sum, all but these, a bit each; returns whether it can.
    fn set_voice_mask(&mut self, _voices: u64) -> bool {
        false
    }

    /// Overwrites `out` with the next native frames, each side -32768 to 32767.
    fn render(&mut self, out: &mut [[i32; 2]]);

    /// The registers that may be handed over with a block, by [`PcmChip::render_streamed`].
    fn streamed_registers(&self) -> Range<u16> {
        0..0
    }

    /// As [`PcmChip::render`], with writes to these registers in between.
    fn render_streamed(&mut self, writes: &[StreamedWrite], out: &mut [[i32; 2]]) {
        let write = |chip: &mut Self, reg, value| chip.write(0, reg, value);
        render_streamed(self, writes, out, (write, |chip, out| chip.render(out)));
    }

    /// The memory that blocks of this kind are for, if the chip only reads it.
    fn rom(&mut self, _kind: u8) -> Option<&mut Rom> {
        None
    }

    /// Where in that memory the addresses of such blocks begin.
    fn rom_start(&self, _kind: u8) -> usize {
        0
    }

    /// Which of its chip's lanes it listens to.
    fn lane(&self) -> usize {
        0
    }

    /// Stores bytes in the chip's own memory, at an offset into what its registers have chosen.
    fn store(&mut self, _offset: usize, _bytes: &[u8]) {}
}

dyn_clone::clone_trait_object!(PcmChip);

/// Takes in the memory that the command at byte `offset` of the song brings.
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
            // A song's blocks were checked to have their heads: where they go.
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

/// Takes in a ROM block that lies at `block` in the song: the memory's size, where in it the rest
/// goes, and the rest. Places count from `base`.
pub fn add_rom_block(rom: &mut Rom, base: usize, song: &Song, block: Range<usize>) {
    // A song's blocks were checked to have heads, and to lie within what a chip can address.
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

/// Limits a sum of voices to what a native frame holds.
fn limit(out: &mut [[i32; 2]]) {
    for value in out.as_flattened_mut() {
        *value = (*value).clamp(-0x8000, 0x7FFF);
    }
}
