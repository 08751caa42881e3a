//! Any chip, or part of one, that renders native frames.

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

/// One chip that renders native frames, whichever it is.
#[derive(Clone)]
pub enum FrameChip {
    /// The OKI MSM6258.
    Okim6258(Okim6258),
    /// The YM2151.
    Ym2151(Box<Ym2151>),
    /// The FM of the YM2203.
    Ym2203(Box<Ym2203>),
    /// The YM2608 but its SSG.
    Ym2608(Box<Ym2608>),
    /// The YM2610 or YM2610B but its SSG.
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
    /// A chip of samples.
    Pcm(Box<dyn PcmChip>),
}

/// The fastest that the MSM6258 is run at; songs change its rate as they play.
const OKIM6258_MAX_RATE: Rate = Rate {
    frames: 15_625,
    seconds: 1,
};

impl FrameChip {
    /// The native frames a second it makes now.
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

    /// The native frames a second to resample from: the highest that its rate is expected to take.
    pub fn max_rate(&self) -> Rate {
        match self {
            FrameChip::Okim6258(chip) if chip.rate().hz() < OKIM6258_MAX_RATE.hz() => {
                OKIM6258_MAX_RATE
            }
            FrameChip::Es5503(chip) if chip.rate().hz() < chip.max_rate().hz() => chip.max_rate(),
            _ => self.rate(),
        }
    }

    /// Which of its chip's lanes has its writes.
    pub fn lane(&self) -> usize {
        match self {
            FrameChip::Pcm(chip) => chip.lane(),
            _ => 0,
        }
    }

    /// Whether the chip's second lane is data for [`FrameChip::render`].
    pub fn has_data_lane(&self) -> bool {
        matches!(self, FrameChip::Ym2612(_))
    }

    /// The registers whose writes may be handed over with a block, by [`FrameChip::render_streamed`]:
    /// none of them changes the chip's rate.
    pub fn streamed_registers(&self) -> Range<u16> {
        match self {
            FrameChip::Okim6258(_) | FrameChip::Msm5205(_) => 1..3,
            FrameChip::Pcm(chip) => chip.streamed_registers(),
            _ => 0..0,
        }
    }

    /// Leaves voices out of the sum, all but these, a bit each; returns whether it can, or wants
    /// them to be silenced by a [`VoiceMuter`](super::voices::Silencer).
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

    /// Takes of the song's first writes those that set its rate, before their turns come.
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

    /// Does what an event asks for, between two native frames.
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

    /// Overwrites `out` with the next native frames; `data` has the writes of the chip's data lane,
    /// each with the frame of `out` before which it takes effect.
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

    /// As [`FrameChip::render`], with writes to the registers of [`FrameChip::streamed_registers`] in between.
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
                debug_assert!(writes.is_empty(), "no other chip says that it takes any");
                self.render(&[], out);
            }
        }
    }

    /// Takes in the memory block whose command lies at byte `offset` of the song.
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
        // The block's first words are the size of the whole memory and the place in it; a song's
        // blocks were checked to lie within what a chip can address.
        // Of a RAM's, the first word is the place.
        let words = if block.kind < 0xC0 { 2 } else { 1 };
        let (head, data) = song.bytes()[block.data].split_at(4 * words);
        let place = head.last_chunk().expect("a word at least");
        let start = u32::from_le_bytes(*place) as usize;
        let end = start + data.len();
        if memory.len() < end {
            memory.resize(end, 0);
        }
        memory[start..end].copy_from_slice(data);
    }
}
