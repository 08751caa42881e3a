//! A common type for all chips, and parts of chips, that render native frames.

use std::ops::Range;

use super::Rate;
use super::es5503::Es5503;
use super::msm5205::Msm5205;
use super::okim6258::Okim6258;
use super::pcm::{self, PcmChip};
use super::streamed_writes::{StreamedWrite, render_streamed};
use super::y8950::Y8950;
use super::ym2151::Ym2151;
use super::ym2203::Ym2203;
use super::ym2413::Ym2413;
use super::ym2608::Ym2608;
use super::ym2610::Ym2610;
use super::ym2612::Ym2612;
use super::ym3526::Ym3526;
use super::ym3812::Ym3812;
use super::ymf262::Ymf262;
use super::ymz280b::Ymz280b;
use crate::format::{Command, Song, decode};
use crate::sequence::{Action, Event};

/// A chip that renders native frames.
#[derive(Clone)]
pub enum FrameChip {
    /// The OKI MSM6258.
    Okim6258(Okim6258),
    /// The YM2151.
    Ym2151(Box<Ym2151>),
    /// The FM of the YM2203.
    Ym2203(Box<Ym2203>),
    /// The YM2608 without its SSG.
    Ym2608(Box<Ym2608>),
    /// The YM2610 or YM2610B without its SSG.
    Ym2610(Box<Ym2610>),
    /// The YM2612 or YM3438.
    Ym2612(Box<Ym2612>),
    /// The YM2413 or VRC7.
    Ym2413(Box<Ym2413>),
    /// The YM3526.
    Ym3526(Box<Ym3526>),
    /// The YM3812.
    Ym3812(Box<Ym3812>),
    /// The Y8950.
    Y8950(Box<Y8950>),
    /// The YMF262.
    Ymf262(Box<Ymf262>),
    /// The ES5503.
    Es5503(Box<Es5503>),
    /// The MSM5205 or MSM6585.
    Msm5205(Box<Msm5205>),
    /// The YMZ280B.
    Ymz280b(Box<Ymz280b>),
    /// A chip that plays samples.
    Pcm(Box<dyn PcmChip>),
}

/// The highest rate of the MSM6258. Note that songs change its rate while they play.
const OKIM6258_MAX_RATE: Rate = Rate {
    frames: 15_625,
    seconds: 1,
};

impl FrameChip {
    /// Returns the current number of native frames per second.
    pub fn rate(&self) -> Rate {
        match self {
            FrameChip::Okim6258(chip) => chip.rate(),
            FrameChip::Ym2151(chip) => chip.rate(),
            FrameChip::Ym2203(chip) => chip.rate(),
            FrameChip::Ym2608(chip) => chip.rate(),
            FrameChip::Ym2610(chip) => chip.rate(),
            FrameChip::Ym2612(chip) => chip.rate(),
            FrameChip::Ym2413(chip) => chip.rate(),
            FrameChip::Ym3526(chip) => chip.rate(),
            FrameChip::Ym3812(chip) => chip.rate(),
            FrameChip::Y8950(chip) => chip.rate(),
            FrameChip::Ymf262(chip) => chip.rate(),
            FrameChip::Es5503(chip) => chip.rate(),
            FrameChip::Msm5205(chip) => chip.rate(),
            FrameChip::Ymz280b(chip) => chip.rate(),
            FrameChip::Pcm(chip) => chip.rate(),
        }
    }

    /// Returns the rate to resample from, which is the highest rate that we expect the chip to use.
    pub fn max_rate(&self) -> Rate {
        match self {
            FrameChip::Okim6258(chip) if chip.rate().hz() < OKIM6258_MAX_RATE.hz() => {
                OKIM6258_MAX_RATE
            }
            _ => self.rate(),
        }
    }

    /// Returns the index of the chip's lane that contains the writes for this part.
    pub fn lane(&self) -> usize {
        match self {
            FrameChip::Pcm(chip) => chip.lane(),
            _ => 0,
        }
    }

    /// Returns whether the chip's second lane contains data for [`FrameChip::render`].
    pub fn has_data_lane(&self) -> bool {
        matches!(self, FrameChip::Ym2612(_))
    }

    /// Returns the registers whose writes you may pass with a block to
    /// [`FrameChip::render_streamed`].
    ///
    /// None of these registers changes the rate of the chip.
    pub fn streamed_registers(&self) -> Range<u16> {
        match self {
            FrameChip::Okim6258(_) | FrameChip::Msm5205(_) => 1..3,
            FrameChip::Pcm(chip) => chip.streamed_registers(),
            _ => 0..0,
        }
    }

    /// Removes all voices from the output except those in `voices`, one bit per voice.
    ///
    /// For example, `0b101` keeps the first and the third voice.
    ///
    /// Returns false if the chip cannot do this. The caller must then use a
    /// [`VoiceMuter`](super::voices::VoiceMuter).
    pub fn set_voice_mask(&mut self, voices: u64) -> bool {
        match self {
            FrameChip::Ym2151(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym2203(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym2608(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym2610(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym2612(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym2413(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym3526(chip) => chip.set_voice_mask(voices),
            FrameChip::Ym3812(chip) => chip.set_voice_mask(voices),
            FrameChip::Y8950(chip) => chip.set_voice_mask(voices),
            FrameChip::Ymf262(chip) => chip.set_voice_mask(voices),
            FrameChip::Pcm(chip) => return chip.set_voice_mask(voices),
            FrameChip::Okim6258(_)
            | FrameChip::Es5503(_)
            | FrameChip::Msm5205(_)
            | FrameChip::Ymz280b(_) => return false,
        }
        true
    }

    /// Applies the writes among `events` that set the prescaler of a YM2203 or YM2608, before they
    /// are due. The player needs the rate before it renders the first frame.
    pub fn apply_initial_writes(&mut self, events: &[Event]) {
        if !matches!(self, FrameChip::Ym2203(_) | FrameChip::Ym2608(_)) {
            return;
        }
        for event in events {
            if let Action::Write {
                port: 0,
                reg: reg @ 0x2D..=0x2F,
                value,
            } = event.action
            {
                self.write(0, reg, value);
            }
        }
    }

    /// Applies an action between two native frames.
    pub fn apply(&mut self, song: &Song, action: Action) {
        match action {
            Action::Write { port, reg, value } => self.write(port, reg, value),
            Action::Memory(offset) => self.load(song, offset),
        }
    }

    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let (wide, reg, value) = ((reg, value), reg as u8, value as u8);
        match self {
            FrameChip::Pcm(chip) => chip.write(port, wide.0, wide.1),
            FrameChip::Okim6258(chip) => chip.write(port, reg, value),
            FrameChip::Ym2151(chip) => chip.write(port, reg, value),
            FrameChip::Ym2203(chip) => chip.write(port, reg, value),
            FrameChip::Ym2608(chip) => chip.write(port, reg, value),
            FrameChip::Ym2610(chip) => chip.write(port, reg, value),
            FrameChip::Ym2612(chip) => chip.write(port, reg, value),
            FrameChip::Ym2413(chip) => chip.write(port, reg, value),
            FrameChip::Ym3526(chip) => chip.write(port, reg, value),
            FrameChip::Ym3812(chip) => chip.write(port, reg, value),
            FrameChip::Y8950(chip) => chip.write(port, reg, value),
            FrameChip::Ymf262(chip) => chip.write(port, reg, value),
            FrameChip::Es5503(chip) => chip.write(port, reg, value),
            FrameChip::Msm5205(chip) => chip.write(port, reg, value),
            FrameChip::Ymz280b(chip) => chip.write(port, reg, value),
        }
    }

    /// Overwrites `out` with the next native frames.
    ///
    /// `data` contains the writes of the chip's data lane, each with the frame of `out` before
    /// which it takes effect.
    pub fn render(&mut self, data: &[(usize, u8)], out: &mut [[i32; 2]]) {
        match self {
            FrameChip::Okim6258(chip) => chip.render(out),
            FrameChip::Ym2151(chip) => chip.render(out),
            FrameChip::Ym2203(chip) => chip.render(out),
            FrameChip::Ym2608(chip) => chip.render(out),
            FrameChip::Ym2610(chip) => chip.render(out),
            FrameChip::Ym2612(chip) => chip.render_with_dac(data, out),
            FrameChip::Ym2413(chip) => chip.render(out),
            FrameChip::Ym3526(chip) => chip.render(out),
            FrameChip::Ym3812(chip) => chip.render(out),
            FrameChip::Y8950(chip) => chip.render(out),
            FrameChip::Ymf262(chip) => chip.render(out),
            FrameChip::Es5503(chip) => chip.render(out),
            FrameChip::Msm5205(chip) => chip.render(out),
            FrameChip::Ymz280b(chip) => chip.render(out),
            FrameChip::Pcm(chip) => chip.render(out),
        }
    }

    /// Renders as [`FrameChip::render`] does, with writes between the frames.
    ///
    /// The writes must be to registers in [`FrameChip::streamed_registers`].
    pub fn render_streamed(&mut self, writes: &[StreamedWrite], out: &mut [[i32; 2]]) {
        match self {
            FrameChip::Okim6258(chip) => {
                let write = |chip: &mut Okim6258, reg, value| chip.write(0, reg as u8, value as u8);
                render_streamed(chip, writes, out, (write, Okim6258::render));
            }
            FrameChip::Msm5205(chip) => {
                let write = |chip: &mut Msm5205, reg, value| chip.write(0, reg as u8, value as u8);
                render_streamed(chip.as_mut(), writes, out, (write, Msm5205::render));
            }
            FrameChip::Pcm(chip) => chip.render_streamed(writes, out),
            _ => {
                debug_assert!(
                    writes.is_empty(),
                    "only the chips above have streamed registers"
                );
                self.render(&[], out);
            }
        }
    }

    /// Loads the memory block whose command is at `offset` of the song, in bytes.
    fn load(&mut self, song: &Song, offset: u32) {
        if let FrameChip::Pcm(chip) = self {
            return pcm::load(chip.as_mut(), song, offset);
        }
        let command = decode(song.bytes(), offset as usize, song.header.version);
        let Ok((Command::Block(block), _)) = command else {
            return;
        };
        let rom = match (&mut *self, block.kind) {
            (FrameChip::Ym2610(chip), 0x82) => Some(chip.adpcm_a_mut()),
            (FrameChip::Ym2610(chip), 0x83) => Some(chip.adpcm_b_mut()),
            _ => None,
        };
        if let Some(rom) = rom {
            return pcm::add_rom_block(rom, 0, song, block.data);
        }
        let memory = match (self, block.kind) {
            (FrameChip::Ym2608(chip), 0x81) => chip.adpcm_b_mut(),
            (FrameChip::Y8950(chip), 0x88) => chip.adpcm_b_mut(),
            (FrameChip::Ymz280b(chip), 0x86) => chip.memory_mut(),
            (FrameChip::Es5503(chip), 0xE1) => chip.memory_mut(),
            _ => return,
        };
        // A ROM block begins with the size of the whole memory and the start address. A RAM block
        // begins with the start address only. The sequencer has dropped all blocks that do not lie
        // within the memory that a chip can address.
        let words = if block.kind < 0xC0 { 2 } else { 1 };
        let (head, data) = song.bytes()[block.data].split_at(4 * words);
        let place = head
            .last_chunk()
            .expect("a block must begin with its start address");
        let start = u32::from_le_bytes(*place) as usize;
        let end = start + data.len();
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[start..end].copy_from_slice(data);
    }
}
