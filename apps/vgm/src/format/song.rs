//! A song: its header and tags, its checked commands, and its unpacked data banks.
//!
//! We walk the commands once from end to end when we read the song.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::bank::{Bank, Banks};
use super::bytes::u32_at;
use super::chip_id::ChipId;
use super::command::{
    Block, Command, StreamCommand, Write, decode, frequent_wait, frequent_write, is_command,
};
use super::container::{SONG_BYTES_MAX, unpack};
use super::gd3::Gd3;
use super::header::{Header, Instance};
use crate::error::{Error, Result};

/// The unit of time of the format, in samples per second, whatever the output rate.
pub const TICKS_PER_SECOND: u32 = 44_100;

/// The place where a song repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The offset of the loop's first command, in bytes from the start of the song.
    pub offset: usize,
    /// The time at which the loop is first reached, in ticks.
    pub tick: u64,
}

/// A song that has been read completely and checked.
#[derive(Debug, Clone)]
pub struct Song {
    /// The header of the song.
    pub header: Header,
    /// The tags of the song, for example its title.
    pub tags: Gd3,
    bytes: Arc<Vec<u8>>,
    banks: Vec<Bank>,
    ticks: u64,
    repeat: Option<Loop>,
    writes: Vec<u64>,
    played: Vec<bool>,
    warnings: Vec<String>,
}

impl Song {
    /// Reads a song from a file, plain or packed.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if `path` cannot be read or is not a file. We reject FIFOs and
    /// devices, because reading them might never end. Other errors are those of [`Song::parse`].
    pub fn read(path: &Path) -> Result<Song> {
        let mut packed = Vec::new();
        open(path)?
            .take(SONG_BYTES_MAX as u64 + 1)
            .read_to_end(&mut packed)?;
        Song::parse(packed)
    }

    /// Reads a song from memory: plain, gzip, bzip2 or zstd.
    ///
    /// If players agree on the meaning of a damaged song, we play it in the same way, and
    /// [`Song::warnings`] describes the damage.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - [`Error::NotVgm`] if the bytes are not a VGM song.
    /// - [`Error::Malformed`] with the offset and the reason if the song is damaged.
    /// - [`Error::TooLarge`] if the song is larger than [`SONG_BYTES_MAX`] bytes.
    pub fn parse(packed: Vec<u8>) -> Result<Song> {
        let mut bytes = unpack(packed)?;
        let header = Header::parse(&bytes)?;
        let tags = Gd3::parse(&bytes, header.gd3_offset);
        let mut warnings = Vec::new();
        let walk = Walk::over(&bytes, &header)?;
        if let Some(reason) = &walk.missing_end {
            warnings.push(format!("{reason}; the song ends there"));
            bytes.truncate(walk.end);
            bytes.push(END);
        }
        warnings.extend(walk.writes_without_clock(&header));
        warnings.extend(walk.missing_samples());
        Ok(Song {
            repeat: walk.repeat(&header, &mut warnings),
            ticks: walk.tick,
            writes: walk.writes,
            played: walk.played,
            banks: walk.banks.finish(),
            header,
            tags,
            bytes: Arc::new(bytes),
            warnings,
        })
    }

    /// Returns the problems of the song that do not prevent playing it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the bytes of the decompressed song.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the decompressed song as a shared buffer.
    ///
    /// Chips keep the buffer, because they read their memory from it.
    pub fn shared_bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    /// Returns the data bank of a kind, 0 to 0x3F. Other kinds have no bank.
    pub fn bank(&self, kind: u8) -> Option<&Bank> {
        self.banks.get(usize::from(kind))
    }

    /// Returns the length of the song in ticks, with its loop played once.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns the loop, if the song has one.
    pub fn repeat(&self) -> Option<Loop> {
        self.repeat
    }

    /// Returns the length of the song in ticks if its loop is played `loops` times, without the
    /// fade.
    pub fn ticks_with_loops(&self, loops: u32) -> u64 {
        let length = self.repeat.map_or(0, |repeat| self.ticks - repeat.tick);
        self.ticks
            .saturating_add(length.saturating_mul(u64::from(loops.max(1) - 1)))
    }

    /// Returns the number of writes to a chip in one pass of the song.
    ///
    /// The writes of streams are not counted. However, setting up a stream for the chip counts as
    /// one write.
    pub fn writes(&self, instance: Instance) -> u64 {
        self.writes[instance.index()]
    }

    /// Returns whether a chip is written to after the first wait of the song, or by a stream.
    ///
    /// Otherwise the song only initialises the chip at most.
    pub fn plays(&self, instance: Instance) -> bool {
        self.played[instance.index()]
    }

    /// Returns the chips that the song has and writes to, in the order of the header.
    pub fn chips(&self) -> impl Iterator<Item = Instance> {
        let instances = self.header.instances();
        instances.filter(|chip| self.writes(*chip) > 0)
    }
}

/// Opens a file.
///
/// We reject anything else before opening it, because opening a FIFO may wait for a writer forever.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other(
            "is not a file but a FIFO, a socket or a device",
        ));
    }
    File::open(path)
}

/// The command that ends a song.
const END: u8 = 0x66;

/// The result of one pass over the commands.
struct Walk {
    tick: u64,
    loop_tick: Option<u64>,
    end: usize,
    /// The reason why the command that ends the song is missing, if it is.
    missing_end: Option<String>,
    writes: Vec<u64>,
    played: Vec<bool>,
    banks: Banks,
    samples: Samples,
}

/// The samples that a song plays and the samples that it contains.
#[derive(Default)]
struct Samples {
    /// Whether the song plays the drums of a YM2608. No song can contain their samples.
    drums: bool,
    /// For ADPCM-A and ADPCM-B of a YM2610: whether the song plays samples, and whether it contains
    /// any.
    adpcm_a: [bool; 2],
    adpcm_b: [bool; 2],
}

impl Samples {
    #[inline(always)]
    fn write(&mut self, write: &Write) {
        let keys = write.value & 0x80 == 0 && write.value & 0x3F != 0;
        match (write.instance.chip, write.port, write.reg) {
            (ChipId::Ym2608, 0, 0x10) => self.drums |= keys,
            (ChipId::Ym2610, 1, 0x00) => self.adpcm_a[0] |= keys,
            (ChipId::Ym2610, 0, 0x10) => self.adpcm_b[0] |= write.value & 0x80 != 0,
            _ => {}
        }
    }

    fn block(&mut self, kind: u8) {
        self.adpcm_a[1] |= kind == 0x82;
        self.adpcm_b[1] |= kind == 0x83;
    }
}

impl Walk {
    fn over(song: &[u8], header: &Header) -> Result<Walk> {
        let mut walk = Walk {
            tick: 0,
            loop_tick: None,
            end: 0,
            missing_end: None,
            writes: vec![0; Instance::COUNT],
            played: vec![false; Instance::COUNT],
            banks: Banks::new(),
            samples: Samples::default(),
        };
        let data = &song[..data_end(song, header)];
        let mut offset = header.data_offset;
        loop {
            if header.loop_offset == Some(offset) {
                walk.loop_tick = Some(walk.tick);
            }
            if let Some(ticks) = frequent_wait(data, offset) {
                walk.tick += ticks;
                offset += 1;
                continue;
            }
            if let Some((write, length)) = frequent_write(data, offset) {
                walk.write(&write);
                offset += length;
                continue;
            }
            let (command, next) = match decode(data, offset, header.version) {
                Ok(decoded) => decoded,
                Err(Error::Malformed { reason, .. })
                    if is_command(data, offset, header.version) =>
                {
                    // The byte begins a command, so the error is that the command does not fit into
                    // the data.
                    walk.missing_end = Some(format!("{reason} (at byte {offset:#x})"));
                    break;
                }
                Err(error) => return Err(error),
            };
            match command {
                Command::End => break,
                Command::Wait(ticks) => walk.tick += u64::from(ticks),
                Command::DacWait(ticks) => {
                    walk.tick += u64::from(ticks);
                    walk.count(ChipId::Ym2612, false);
                }
                Command::Write(write) => walk.write(&write),
                Command::Stream(StreamCommand::Setup { chip, .. }) => {
                    if let Some(id) = ChipId::from_number(chip & 0x7F) {
                        walk.count(id, chip & 0x80 != 0);
                    }
                }
                Command::Block(block) if block.kind < 0x80 => walk.banks.add(song, &block)?,
                Command::Block(block) => {
                    check_memory(song, &block)?;
                    walk.samples.block(block.kind);
                }
                _ => {}
            }
            offset = next;
        }
        walk.end = offset;
        Ok(walk)
    }

    #[inline(always)]
    fn write(&mut self, write: &Write) {
        let index = write.instance.index();
        self.writes[index] += 1;
        self.played[index] |= self.tick > 0;
        self.samples.write(write);
    }

    fn count(&mut self, chip: ChipId, second: bool) {
        let index = Instance { chip, second }.index();
        self.writes[index] += 1;
        self.played[index] = true;
    }

    /// Returns a warning for each chip that is written to although the header has no clock for it.
    fn writes_without_clock(&self, header: &Header) -> impl Iterator<Item = String> {
        let instances = ChipId::all().flat_map(|chip| {
            let instance = move |second| Instance { chip, second };
            [false, true].map(instance)
        });
        let clockless = instances.filter(|chip| header.clock(*chip).is_none());
        clockless.filter_map(|instance| {
            let name = header.name(instance.chip);
            let chip = match instance.second {
                false => format!("{name} ignored: the header has no clock for it"),
                true => format!("second {name} ignored: the header has no second one"),
            };
            match self.writes[instance.index()] {
                0 => None,
                1 => Some(format!("1 write to a {chip}")),
                writes => Some(format!("{writes} writes to a {chip}")),
            }
        })
    }

    /// Returns warnings about samples that the song plays but does not contain.
    fn missing_samples(&self) -> impl Iterator<Item = String> {
        let Samples {
            drums,
            adpcm_a,
            adpcm_b,
        } = self.samples;
        let silent =
            |what| format!("the YM2610's {what} is silent: the song contains no samples for it");
        let of_chip = "the YM2608's drums are replacements, because its ROM is not available";
        let warnings = [
            drums.then(|| of_chip.into()),
            (adpcm_a == [true, false]).then(|| silent("ADPCM-A")),
            (adpcm_b == [true, false]).then(|| silent("ADPCM-B")),
        ];
        warnings.into_iter().flatten()
    }

    /// Returns the loop, if the song has one that begins at a command and has a duration.
    fn repeat(&self, header: &Header, warnings: &mut Vec<String>) -> Option<Loop> {
        let offset = header.loop_offset?;
        let reason = match self.loop_tick {
            // If the loop had no duration, the song would never advance.
            Some(tick) if tick < self.tick && header.loop_samples != 0 => {
                return Some(Loop { offset, tick });
            }
            Some(_) => "the loop has no duration".into(),
            None => format!(
                "the loop points to {offset:#x}, where no command begins (commands: {:#x} to {:#x})",
                header.data_offset, self.end
            ),
        };
        warnings.push(format!("{reason}; the song does not loop"));
        None
    }
}

/// Returns the offset at which the commands must end: at the tags if these follow the commands,
/// otherwise at the end of the file.
fn data_end(song: &[u8], header: &Header) -> usize {
    let tags = header.gd3_offset.filter(|at| {
        *at > header.data_offset && song.get(*at..).is_some_and(|tag| tag.starts_with(b"Gd3 "))
    });
    tags.unwrap_or(song.len())
}

/// The largest memory of any chip of the format, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// Checks that a memory image lies within the address space of a chip.
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
                "a memory block of {} bytes at {start:#x} is outside the memory of any chip",
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
            bytes[0x20] = 1;
        }
        bytes.extend(commands);
        Song::parse(bytes)
    }

    #[test]
    fn song_ticks_are_the_sum_of_waits() {
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
    fn only_the_loop_is_repeated() {
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
    fn invalid_or_empty_loop_is_ignored() {
        let commands = [0x70, 0x73, 0x50, 0, 0x75, 0x66];
        for (at, reason) in [
            (3, "no command begins"),
            (50, "no command"),
            (5, "no duration"),
        ] {
            let song = song(&commands, Some(at)).unwrap();
            assert_eq!(song.repeat(), None, "{at}");
            assert!(song.warnings()[0].contains(reason), "{:?}", song.warnings());
        }
        let whole = song(&commands, Some(1)).unwrap();
        assert!(whole.warnings().is_empty());
        let mut bytes = whole.bytes().to_vec();
        bytes[0x20..0x24].fill(0);
        let none = Song::parse(bytes).unwrap();
        assert_eq!((none.repeat(), none.warnings().len()), (None, 1));
    }

    #[test]
    fn writes_to_a_chip_without_clock_warn_once() {
        let commands = [
            0x54, 8, 0, 0x54, 8, 0x78, 0x30, 0x9F, 0x50, 0x9F, 0x62, 0x66,
        ];
        let song = song(&commands, None).unwrap();
        let warnings = song.warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].starts_with("1 write to a second SN76489"),
            "{warnings:?}"
        );
        assert!(
            warnings[1].starts_with("2 writes to a YM2151 "),
            "{warnings:?}"
        );
    }

    #[test]
    fn song_without_end_command_ends_with_its_data() {
        for (commands, ticks) in [
            (&[0x62][..], 735),
            (&[0x62, 0x50], 735),
            (&[0x70, 0x67, 0x66], 1),
        ] {
            let song = song(commands, None).unwrap();
            assert_eq!(song.ticks(), ticks);
            assert!(
                song.warnings()[0].contains("cut short"),
                "{:?}",
                song.warnings()
            );
        }
        assert!(song(&[], None).is_err());
        assert!(song(&[0x62, 0x05], None).is_err(), "not a command");
    }

    #[test]
    fn song_without_end_command_ends_at_its_tags() {
        let mut bytes = song(&[0x62, 0x66], None).unwrap().bytes().to_vec();
        bytes.pop();
        bytes[0x14] = (bytes.len() - 0x14) as u8;
        let tags = Gd3 {
            track: "Weft".into(),
            ..Gd3::default()
        };
        bytes.extend(tags.to_bytes());
        let song = Song::parse(bytes).unwrap();
        assert_eq!((song.ticks(), song.warnings().len()), (735, 1));
        assert_eq!(song.tags.track, "Weft");
    }
}
