//! A common type for all chips, and parts of chips, that play square waves.

use super::Rate;
use super::ay8910::Ay8910;
use super::fm::opn::Prescaler;
use super::sn76489::Sn76489;
use super::ssg::Ssg;
use super::step_chip::StepChip;
use super::t6w28::T6w28;
use crate::blep::{Sides, StereoBlep};
use crate::format::{Command, Song, decode};
use crate::sequence::Action;

/// A chip that plays square waves.
#[derive(Clone)]
pub enum SquareChip {
    /// The AY-3-8910 and its variants.
    Ay8910(Box<Ay8910>),
    /// The SN76489 and its variants.
    Sn76489(Box<Sn76489>),
    /// The T6W28.
    T6w28(Box<T6w28>),
    /// The SSG of an OPN chip.
    Ssg(Box<Ssg>, SsgClock),
    /// Any chip that reports its output as steps.
    Steps(Box<dyn StepChip>),
}

/// The clock of an SSG.
#[derive(Debug, Clone, Copy)]
pub struct SsgClock {
    /// The clock of the whole chip in Hz.
    pub clock_hz: u32,
    /// The number of clocks per tick at a prescaler of 1.
    pub divider: u64,
    /// The prescaler of the chip. The prescaler of the YM2610 is fixed.
    pub prescaler: Prescaler,
}

impl SquareChip {
    /// Returns the number of ticks per second. Steps are placed at these ticks.
    pub fn rate(&self) -> Rate {
        match self {
            SquareChip::Ay8910(chip) => chip.rate(),
            SquareChip::Sn76489(chip) => chip.rate(),
            SquareChip::T6w28(chip) => chip.rate(),
            SquareChip::Ssg(_, clock) => Rate {
                frames: u64::from(clock.clock_hz),
                seconds: clock.divider * u64::from(clock.prescaler.ssg()),
            },
            SquareChip::Steps(chip) => chip.rate(),
        }
    }

    /// Returns the cutoff frequency of the low-pass on the chip's board, if it has one.
    pub fn low_pass_hz(&self) -> Option<u32> {
        match self {
            SquareChip::Steps(chip) => chip.low_pass_hz(),
            _ => None,
        }
    }

    /// Replaces tones with a half period of at most `period` ticks by their mean.
    pub fn set_inaudible_period(&mut self, period: u32) {
        match self {
            SquareChip::Ay8910(chip) => chip.set_inaudible_period(period),
            SquareChip::Sn76489(chip) => chip.set_inaudible_period(period),
            SquareChip::T6w28(chip) => chip.set_inaudible_period(period),
            SquareChip::Ssg(chip, _) => chip.set_inaudible_period(period),
            SquareChip::Steps(chip) => chip.set_inaudible_period(2 * period),
        }
    }

    /// Applies an action between two ticks.
    pub fn apply(&mut self, song: &Song, action: Action) {
        let (port, reg, value) = match action {
            Action::Write { port, reg, value } => (port, reg, value),
            Action::Memory(offset) => return self.load(song, offset),
        };
        let (reg, value) = (reg as u8, value as u8);
        match self {
            SquareChip::Ay8910(chip) if port == 1 => chip.set_stereo(value),
            SquareChip::Ay8910(chip) => chip.write(port, reg, value),
            SquareChip::Sn76489(chip) => chip.write(port, reg, value),
            SquareChip::T6w28(chip) => chip.write(port, reg, value),
            SquareChip::Ssg(chip, clock) => {
                clock.prescaler.select(port, reg);
                chip.write(reg, value);
            }
            SquareChip::Steps(chip) => chip.write(port, reg, value),
        }
    }

    /// Loads the memory of the command at `offset` of the song, in bytes.
    fn load(&mut self, song: &Song, offset: u32) {
        let SquareChip::Steps(chip) = self else {
            return;
        };
        let command = decode(song.bytes(), offset as usize, song.header.version);
        match command {
            // Blocks of lower kinds are data for streams and not memory.
            Ok((Command::Block(block), _)) if block.kind >= 0x80 => {
                // `head` is the number of bytes before the data, which contain the start address.
                // The sequencer has dropped blocks without them.
                let data = &song.bytes()[block.data];
                let place = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| data[at + n]));
                let (head, start) = match block.kind {
                    0x80..=0xBF => (8, place(4)),
                    0xC0..=0xDF => (2, u32::from(u16::from_le_bytes([data[0], data[1]]))),
                    _ => (4, place(0)),
                };
                chip.load(block.kind, start as usize, &data[head..]);
            }
            Ok((Command::RamWrite(write), _)) => {
                let bank = song.bank(write.kind).map_or(&[][..], |bank| &bank.data);
                let from = bank.len().min(write.from as usize);
                let end = bank.len().min(from + write.length as usize);
                chip.load(write.kind, write.to as usize, &bank[from..end]);
            }
            _ => {}
        }
    }

    /// Runs `ticks` ticks and adds their steps to `blep`.
    pub fn run(&mut self, ticks: u32, blep: &mut StereoBlep) {
        match self {
            SquareChip::Ay8910(chip) => chip.run(ticks, |tick, sides, delta| {
                blep.step(tick, sides, delta);
            }),
            SquareChip::Sn76489(chip) => chip.run(ticks, |tick, sides, delta| {
                blep.step(tick, sides, delta);
            }),
            SquareChip::T6w28(chip) => chip.run(ticks, |tick, sides, delta| {
                blep.step(tick, sides, delta);
            }),
            SquareChip::Ssg(chip, _) => chip.run(ticks, |tick, _, delta| {
                blep.step(tick, Sides::Both, delta);
            }),
            SquareChip::Steps(chip) => chip.run(ticks, blep),
        }
    }
}
