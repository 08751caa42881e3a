//! The samples that the commands of a song refer to, to find those that the song does not contain.
//!
//! A sound that a stream cannot find in its bank is silent. Other players say nothing about it, and
//! the listener cannot know that something is missing.

use super::bank::Bank;
use super::chip_id::ChipId;
use super::command::{RamWrite, StreamCommand};
use super::header::{Header, Instance};
use crate::chips::registry;

/// The number of kinds of stream data.
const KINDS: usize = 0x40;

/// The largest number of streams and copies without effect that we describe.
const USELESS_MAX: usize = 8;

/// The data that a song needs from its banks.
pub(super) struct References {
    has_dac: bool,
    /// The read position of the next command 80 to 8F. It is `None` if the song has no YM2612, and
    /// from such a command until the next command E0, because only the first one matters.
    dac: Option<u32>,
    /// The smallest number of bytes that the bank of each kind of data must have for this song.
    /// `blocks` has the smallest number of its blocks.
    bytes: [u64; KINDS],
    blocks: [u16; KINDS],
    /// The streams that have been set up.
    streams: Vec<Target>,
    /// The descriptions of streams and copies that have no effect.
    useless: Vec<String>,
}

/// The chip and the data of a stream.
struct Target {
    id: u8,
    /// The number of the chip, as the command has it.
    number: u8,
    bank: Option<u8>,
}

impl References {
    /// Creates the references of a song without commands.
    pub(super) fn new(header: &Header) -> Self {
        let has_dac = exists(ChipId::Ym2612, false, header);
        References {
            has_dac,
            dac: has_dac.then_some(0),
            bytes: [0; KINDS],
            blocks: [0; KINDS],
            streams: Vec::new(),
            useless: Vec::new(),
        }
    }

    /// Records command E0, which sets the read position of the DAC data.
    pub(super) fn seek(&mut self, offset: u32) {
        self.dac = self.has_dac.then_some(offset);
    }

    /// Records one of the commands 80 to 8F, which writes a byte of the DAC data. Only the first
    /// one of the song and the first one after each command E0 matter, because many songs read some
    /// bytes beyond the end of a sample.
    #[inline]
    pub(super) fn dac_write(&mut self) {
        if let Some(offset) = self.dac.take() {
            self.byte(0, offset);
        }
    }

    /// Records command 68, which copies samples into the RAM of a chip.
    pub(super) fn copy(&mut self, write: &RamWrite, header: &Header) {
        let kind = write.kind;
        match registry::of_block(kind) {
            Some(chip) if exists(chip, write.second, header) => {
                self.byte(kind, write.from.saturating_add(write.length - 1));
            }
            Some(_) => {}
            None => self.useless(format!(
                "a copy of samples of kind {kind:#04x} has no effect: no chip has a RAM for them"
            )),
        }
    }

    /// Records one of the commands 90 to 95, which control a stream.
    pub(super) fn stream(&mut self, command: &StreamCommand, header: &Header) {
        match *command {
            StreamCommand::Setup { id, chip, .. } => match self.target(id) {
                Some(target) => target.number = chip,
                None => self.streams.push(Target {
                    id,
                    number: chip,
                    bank: None,
                }),
            },
            StreamCommand::Data { id, bank, .. } => {
                if let Some(target) = self.target(id) {
                    target.bank = Some(bank);
                }
            }
            StreamCommand::Start {
                id, offset, mode, ..
            } => {
                let Some(bank) = self.start(id, header) else {
                    return;
                };
                if mode & 0x0F > 3 {
                    self.useless(format!(
                        "a sample stream with the unknown length mode {:#04x} is not played",
                        mode & 0x0F
                    ));
                } else if offset != u32::MAX {
                    self.byte(bank, offset);
                }
            }
            StreamCommand::StartBlock { id, block, .. } => {
                if let Some(bank) = self.start(id, header) {
                    let blocks = &mut self.blocks[usize::from(bank)];
                    *blocks = (*blocks).max(block.saturating_add(1));
                }
            }
            _ => {}
        }
    }

    /// Records the start of a stream, and returns the kind of its data if it can be heard.
    fn start(&mut self, id: u8, header: &Header) -> Option<u8> {
        let target = self.target(id)?;
        let (number, bank) = (target.number, target.bank?);
        let Some(chip) = ChipId::from_number(number & 0x7F) else {
            self.useless(format!(
                "a sample stream to the unknown chip {number:#04x} is not played"
            ));
            return None;
        };
        if !exists(chip, number & 0x80 != 0, header) {
            return None;
        }
        if usize::from(bank) >= KINDS {
            self.useless(format!(
                "a sample stream from the unknown data bank {bank:#04x} is not played"
            ));
            return None;
        }
        Some(bank)
    }

    fn target(&mut self, id: u8) -> Option<&mut Target> {
        self.streams.iter_mut().find(|target| target.id == id)
    }

    fn useless(&mut self, line: String) {
        if self.useless.len() < USELESS_MAX && !self.useless.contains(&line) {
            self.useless.push(line);
        }
    }

    fn byte(&mut self, kind: u8, offset: u32) {
        let bytes = &mut self.bytes[usize::from(kind)];
        *bytes = (*bytes).max(u64::from(offset) + 1);
    }

    /// Returns a description of the data that the song refers to and does not contain.
    pub(super) fn missing(&self, banks: &[Bank]) -> Vec<String> {
        let mut lines = self.useless.clone();
        for (kind, bank) in banks.iter().enumerate() {
            let (bytes, blocks) = (bank.data.len(), bank.blocks.len());
            let (byte, block) = (self.bytes[kind], self.blocks[kind]);
            if byte > bytes as u64 {
                lines.push(format!(
                    "samples of kind {kind:#04x} from byte {:#x} are missing: the song has {bytes} \
                     bytes of them",
                    byte - 1
                ));
            }
            if usize::from(block) > blocks {
                lines.push(format!(
                    "block {} of the samples of kind {kind:#04x} is missing: the song has {blocks} \
                     of them",
                    block - 1
                ));
            }
        }
        lines
    }
}

/// Returns whether the header has a clock for a chip.
fn exists(chip: ChipId, second: bool, header: &Header) -> bool {
    header.clock(Instance { chip, second }).is_some()
}

#[cfg(test)]
mod tests {
    use crate::format::Song;

    /// Returns the losses of a YM2612 song with four samples and these commands.
    fn losses(commands: &[u8]) -> Vec<String> {
        let mut bytes = vec![0; 0x40];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x60, 0x01]);
        bytes[0x34] = 0x0C;
        bytes[0x2C..0x30].copy_from_slice(&7_670_454u32.to_le_bytes());
        bytes.extend([0x67, 0x66, 0, 4, 0, 0, 0, 10, 11, 12, 13]);
        bytes.extend(commands);
        bytes.push(0x66);
        Song::parse(bytes).unwrap().losses().to_vec()
    }

    /// A stream that writes every byte of bank 0 to the DAC.
    const STREAM: [u8; 10] = [0x90, 0, 2, 0, 0x2A, 0x91, 0, 0, 1, 0];
    /// The command that starts the stream and plays the first three bytes.
    const START: [u8; 11] = [0x93, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0];

    /// A stream to the PWM, which the song does not have.
    const PWM: [u8; 10] = [0x90, 0, 0x11, 0, 2, 0x91, 0, 3, 1, 0];

    /// Returns a stream that is set up and started, with one byte replaced.
    fn replaced(at: usize, value: u8) -> Vec<u8> {
        let mut commands = [&STREAM[..], &START].concat();
        commands[at] = value;
        commands
    }

    /// Returns a copy into RAM of `length` bytes from `from` on.
    fn copy(kind: u8, from: u8, length: u8) -> Vec<u8> {
        vec![0x68, 0x66, kind, from, 0, 0, 0, 0, 0, length, 0, 0]
    }

    #[test]
    fn copies_beyond_the_data_are_reported() {
        let losses = |second: u8, from, length| {
            let mut bytes = vec![0; 0x80];
            bytes[..4].copy_from_slice(b"Vgm ");
            bytes[8..10].copy_from_slice(&[0x51, 0x01]);
            bytes[0x34] = 0x4C;
            bytes[0x40..0x44].copy_from_slice(&12_500_000u32.to_le_bytes());
            bytes.extend([0x67, 0x66, 1, 4, 0, 0, 0, 10, 11, 12, 13]);
            bytes.extend(copy(1 | second, from, length));
            bytes.extend([0x71, 0x66]);
            Song::parse(bytes).unwrap().losses().to_vec()
        };
        assert!(losses(0, 0, 4).is_empty() && losses(0, 3, 1).is_empty());
        assert!(losses(0, 1, 4)[0].contains("from byte 0x4"));
        assert!(losses(0, 0, 0)[0].contains("from byte 0xffffff"));
        // There is no second chip, so the copy does not matter.
        assert!(losses(0x80, 1, 4).is_empty());
    }

    #[test]
    fn samples_that_the_song_does_not_contain_are_reported() {
        let start = |offset: u8| [0x93, 0, offset, 0, 0, 0, 1, 3, 0, 0, 0];
        for (commands, expected) in [
            (vec![0x81, 0x81, 0x81, 0x81, 0x81, 0x81], ""),
            (vec![0xE0, 3, 0, 0, 0, 0x81], ""),
            (vec![0xE0, 4, 0, 0, 0, 0x71], ""),
            (vec![0xE0, 4, 0, 0, 0, 0x81], "from byte 0x4"),
            ([&STREAM[..], &start(3)].concat(), ""),
            ([&STREAM[..], &start(4)].concat(), "from byte 0x4"),
            ([&STREAM[..], &[0x95, 0, 0, 0, 0]].concat(), ""),
            ([&STREAM[..], &[0x95, 0, 1, 0, 0]].concat(), "block 1"),
            ([&PWM[..], &[0x95, 0, 1, 0, 0]].concat(), "write to a PWM"),
            (vec![0x95, 0, 9, 0, 0], ""),
            (replaced(2, 0x70), "unknown chip 0x70"),
            (replaced(7, 0x40), "unknown data bank 0x40"),
            (replaced(16, 4), "unknown length mode 0x04"),
            (replaced(16, 0x82), ""),
            (copy(0, 0, 4), "samples of kind 0x00 has no effect"),
            (copy(1, 0, 1), ""),
        ] {
            let losses = losses(&[&commands[..], &[0x71]].concat());
            match expected {
                "" => assert!(losses.is_empty(), "{commands:x?}: {losses:?}"),
                _ => assert!(losses[0].contains(expected), "{commands:x?}: {losses:?}"),
            }
        }
    }
}
