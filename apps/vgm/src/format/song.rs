//! A song: its header and tags, its commands walked once from end to end, its data banks unpacked.

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
    /// [`Error::Io`] if it is no file (a FIFO or a device could be waited for without end) or
    /// cannot be read; else as [`Song::parse`].
    pub fn read(path: &Path) -> Result<Song> {
        let mut packed = Vec::new();
        open(path)?
            .take(SONG_BYTES_MAX as u64 + 1)
            .read_to_end(&mut packed)?;
        Song::parse(packed)
    }

    /// Takes a song from memory: plain, gzip, bzip2 or zstd.
    ///
    /// Where players agree on what a damaged song means, it means that here, too, and
    /// [`Song::warnings`] tells it.
    ///
    /// # Errors
    ///
    /// [`Error::NotVgm`], [`Error::Malformed`] with the place and the reason, or
    /// [`Error::TooLarge`] beyond [`SONG_BYTES_MAX`] bytes.
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

    /// What is wrong with the song, though it can be played.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The decompressed song.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, to be kept by chips that read their memory in it.
    pub fn shared_bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
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

    /// Whether a chip is written to after the song's first wait, or fed by a stream: one that is not
    /// was at most set up.
    pub fn plays(&self, instance: Instance) -> bool {
        self.played[instance.index()]
    }

    /// The chips that the song has and writes to, in the header's order.
    pub fn chips(&self) -> impl Iterator<Item = Instance> {
        let instances = self.header.instances();
        instances.filter(|chip| self.writes(*chip) > 0)
    }
}

/// Opens a file; what is no file is refused before it is opened, for that may wait for a writer.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other(
            "is a FIFO, a socket or a device, not a file",
        ));
    }
    File::open(path)
}

/// The command that ends a song.
const END: u8 = 0x66;

/// One pass over the commands.
struct Walk {
    tick: u64,
    loop_tick: Option<u64>,
    end: usize,
    /// Why there is no command that ends the song, if there is none.
    missing_end: Option<String>,
    writes: Vec<u64>,
    played: Vec<bool>,
    banks: Banks,
    samples: Samples,
}

/// Which samples a song plays that it may not bring.
#[derive(Default)]
struct Samples {
    /// The drums of a YM2608, which no song can bring.
    drums: bool,
    /// Those of a YM2610: whether they are played, whether there are any.
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
                    // It is one, so what is wrong is that it does not fit.
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

    /// What to say of each chip that is written to though the header has no clock for it.
    fn writes_without_clock(&self, header: &Header) -> impl Iterator<Item = String> {
        let instances = ChipId::all().flat_map(|chip| {
            let instance = move |second| Instance { chip, second };
            [false, true].map(instance)
        });
        let clockless = instances.filter(|chip| header.clock(*chip).is_none());
        clockless.filter_map(|instance| {
            let name = header.name(instance.chip);
            let chip = match instance.second {
                false => format!("{name} in vain: the header gives it no clock"),
                true => format!("second {name} in vain: the header has none"),
            };
            match self.writes[instance.index()] {
                0 => None,
                1 => Some(format!("1 write to a {chip}")),
                writes => Some(format!("{writes} writes to a {chip}")),
            }
        })
    }

    /// What to say of samples that the song plays and does not bring.
    fn missing_samples(&self) -> impl Iterator<Item = String> {
        let Samples {
            drums,
            adpcm_a,
            adpcm_b,
        } = self.samples;
        let silent =
            |what| format!("the YM2610's {what} is silent: the song brings none of its samples");
        let of_chip = "the YM2608's drums are not those of the chip, whose ROM is not at hand";
        let warnings = [
            drums.then(|| of_chip.into()),
            (adpcm_a == [true, false]).then(|| silent("ADPCM-A")),
            (adpcm_b == [true, false]).then(|| silent("ADPCM-B")),
        ];
        warnings.into_iter().flatten()
    }

    /// The loop, if the song has one that begins at a command and lasts.
    fn repeat(&self, header: &Header, warnings: &mut Vec<String>) -> Option<Loop> {
        let offset = header.loop_offset?;
        let reason = match self.loop_tick {
            // A loop of no time would never let the song go on.
            Some(tick) if tick < self.tick && header.loop_samples != 0 => {
                return Some(Loop { offset, tick });
            }
            Some(_) => "the loop lasts no time".into(),
            None => format!(
                "the loop points to {offset:#x}, where no command begins (they lie from {:#x} to {:#x})",
                header.data_offset, self.end
            ),
        };
        warnings.push(format!("{reason}; the song does not loop"));
        None
    }
}

/// Where the commands end at the latest: at the tags if those lie behind them, else with the file.
fn data_end(song: &[u8], header: &Header) -> usize {
    let tags = header.gd3_offset.filter(|at| {
        *at > header.data_offset && song.get(*at..).is_some_and(|tag| tag.starts_with(b"Gd3 "))
    });
    tags.unwrap_or(song.len())
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
        for (at, reason) in [(3, "no command begins"), (50, "no command"), (5, "no time")] {
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
