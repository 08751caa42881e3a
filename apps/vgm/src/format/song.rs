//! A song: its header and tags, its commands walked once from end to end, its data banks unpacked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::bank::{Bank, Banks};
use super::bytes::u32_at;
use super::chip_id::ChipId;
use super::command::{Block, Command, StreamCommand, decode};
use super::container::{SONG_BYTES_MAX, unpack};
use super::gd3::Gd3;
use super::header::{Header, Instance};
use crate::error::{Error, Result};

/// The unit of time of the format: samples a second, whatever rate is rendered.
pub const TICKS_PER_SECOND: u32 = 44_100;

/// Where a song repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The first command of the loop, in bytes from the start of the song.
    pub offset: usize,
    /// When it is first reached, in ticks.
    pub tick: u64,
}

/// A song that has been read whole and checked.
#[derive(Debug, Clone)]
pub struct Song {
    /// What the song says of itself.
    pub header: Header,
    /// What it is called.
    pub tags: Gd3,
    bytes: Vec<u8>,
    banks: Vec<Bank>,
    ticks: u64,
    repeat: Option<Loop>,
    writes: Vec<u64>,
}

impl Song {
    /// Reads a song from a file, plain or packed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read; else as [`Song::parse`].
    pub fn read(path: &Path) -> Result<Song> {
        let mut packed = Vec::new();
        let file = File::open(path)?;
        file.take(SONG_BYTES_MAX as u64 + 1)
            .read_to_end(&mut packed)?;
        Song::parse(packed)
    }

    /// Takes a song from memory: plain, gzip, bzip2 or zstd.
    ///
    /// # Errors
    ///
    /// [`Error::NotVgm`], [`Error::Malformed`] with the place and the reason, or
    /// [`Error::TooLarge`] beyond [`SONG_BYTES_MAX`] bytes.
    pub fn parse(packed: Vec<u8>) -> Result<Song> {
        let bytes = unpack(packed)?;
        let header = Header::parse(&bytes)?;
        let tags = Gd3::parse(&bytes, header.gd3_offset);
        let walk = Walk::over(&bytes, &header)?;
        Ok(Song {
            repeat: walk.repeat(&header)?,
            ticks: walk.tick,
            writes: walk.writes,
            banks: walk.banks.finish(),
            header,
            tags,
            bytes,
        })
    }

    /// The decompressed song.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The data bank of a kind, 0 to 0x3F; other kinds have none.
    pub fn bank(&self, kind: u8) -> Option<&Bank> {
        self.banks.get(usize::from(kind))
    }

    /// How long the song is when its loop is played once, in ticks.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Where it repeats, if it does.
    pub fn repeat(&self) -> Option<Loop> {
        self.repeat
    }

    /// How long the song is when its loop is played `loops` times, in ticks, fade not counted.
    pub fn ticks_with_loops(&self, loops: u32) -> u64 {
        let length = self.repeat.map_or(0, |repeat| self.ticks - repeat.tick);
        self.ticks
            .saturating_add(length.saturating_mul(u64::from(loops.max(1) - 1)))
    }

    /// How many writes one chip gets in one pass, those of streams not counted; a stream set up for
    /// it counts as one.
    pub fn writes(&self, instance: Instance) -> u64 {
        self.writes[instance.index()]
    }

    /// The chips that the song has and writes to, in the header's order.
    pub fn chips(&self) -> impl Iterator<Item = Instance> {
        let instances = self.header.instances();
        instances.filter(|chip| self.writes(*chip) > 0)
    }
}

/// One pass over the commands.
struct Walk {
    tick: u64,
    loop_tick: Option<u64>,
    end: usize,
    writes: Vec<u64>,
    banks: Banks,
}

impl Walk {
    fn over(song: &[u8], header: &Header) -> Result<Walk> {
        let mut walk = Walk {
            tick: 0,
            loop_tick: None,
            end: 0,
            writes: vec![0; Instance::COUNT],
            banks: Banks::new(),
        };
        let mut offset = header.data_offset;
        loop {
            if header.loop_offset == Some(offset) {
                walk.loop_tick = Some(walk.tick);
            }
            let (command, next) = decode(song, offset, header.version)?;
            match command {
                Command::End => break,
                Command::Wait(ticks) => walk.tick += u64::from(ticks),
                Command::DacWait(ticks) => {
                    walk.tick += u64::from(ticks);
                    walk.count(ChipId::Ym2612, false);
                }
                Command::Write(write) => walk.writes[write.instance.index()] += 1,
                Command::Stream(StreamCommand::Setup { chip, .. }) => {
                    if let Some(id) = ChipId::from_number(chip & 0x7F) {
                        walk.count(id, chip & 0x80 != 0);
                    }
                }
                Command::Block(block) if block.kind < 0x80 => walk.banks.add(song, &block)?,
                Command::Block(block) => check_memory(song, &block)?,
                _ => {}
            }
            offset = next;
        }
        walk.end = offset;
        Ok(walk)
    }

    fn count(&mut self, chip: ChipId, second: bool) {
        self.writes[Instance { chip, second }.index()] += 1;
    }

    /// The loop, if the song has one that lasts; a loop that points nowhere is an error.
    fn repeat(&self, header: &Header) -> Result<Option<Loop>> {
        let Some(offset) = header.loop_offset else {
            return Ok(None);
        };
        let Some(tick) = self.loop_tick else {
            return Err(Error::malformed(
                0x1C,
                format!(
                    "the loop points to {offset:#x}, where no command begins (they lie from {:#x} to {:#x})",
                    header.data_offset, self.end
                ),
            ));
        };
        // A loop of no time would never let the song go on: it is none.
        Ok((tick < self.tick).then_some(Loop { offset, tick }))
    }
}

/// The largest memory of any chip of the format, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// A memory image must lie within what a chip can address.
fn check_memory(song: &[u8], block: &Block) -> Result<()> {
    let data = &song[block.data.clone()];
    let (head, start) = match block.kind {
        0x80..=0xBF => (8, u32_at(data, 4) as usize),
        0xC0..=0xDF => (2, 0),
        _ => (4, u32_at(data, 0) as usize),
    };
    if data.len() < head || start.saturating_add(data.len() - head) > MEMORY_MAX {
        return Err(Error::malformed(
            block.data.start,
            format!(
                "a memory block of {} bytes at {start:#x} fits no chip",
                data.len()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song(commands: &[u8], loop_at: Option<usize>) -> Result<Song> {
        let mut bytes = vec![0; 0x40];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x50, 0x01]);
        bytes[0x34] = 0x0C;
        bytes[0x0C..0x10].copy_from_slice(&3_579_545u32.to_le_bytes());
        if let Some(at) = loop_at {
            bytes[0x1C] = (0x40 + at - 0x1C) as u8;
        }
        bytes.extend(commands);
        Song::parse(bytes)
    }

    #[test]
    fn ticks_are_the_sum_of_all_waits() {
        let song = song(
            &[0x61, 2, 1, 0x62, 0x63, 0x70, 0x8F, 0x50, 0x9F, 0x66],
            None,
        )
        .unwrap();
        assert_eq!(song.ticks(), 258 + 735 + 882 + 1 + 15);
        let chips: Vec<_> = song.chips().map(|chip| chip.chip).collect();
        assert_eq!(chips, [ChipId::Sn76489]);
    }

    #[test]
    fn loops_repeat_only_what_follows_the_loop_point() {
        let commands = [0x70, 0x73, 0x50, 0, 0x75, 0x66];
        let song = song(&commands, Some(1)).unwrap();
        assert_eq!(
            song.repeat(),
            Some(Loop {
                offset: 0x41,
                tick: 1
            })
        );
        assert_eq!(song.ticks_with_loops(1), 11);
        assert_eq!(song.ticks_with_loops(3), 31);
        assert_eq!(song.ticks_with_loops(0), 11);
    }

    #[test]
    fn a_loop_must_point_to_a_command_and_last() {
        let commands = [0x70, 0x73, 0x50, 0, 0x75, 0x66];
        assert!(song(&commands, Some(3)).is_err(), "an operand");
        assert!(song(&commands, Some(50)).is_err(), "outside");
        assert_eq!(song(&commands, Some(5)).unwrap().repeat(), None);
    }

    #[test]
    fn a_song_without_an_end_is_cut() {
        let error = song(&[0x62, 0x50], None).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
        assert!(song(&[], None).is_err());
    }
}
