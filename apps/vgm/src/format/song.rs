//! A song: its header and tags, its checked commands, and its unpacked data banks.
//!
//! We walk the commands once from end to end when we read the song, see [`walk`](super::walk).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::bank::Bank;
use super::container::{SONG_BYTES_MAX, unpack};
use super::gd3::Gd3;
use super::header::{Header, Instance};
use super::walk::Walk;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// The unit of time of the format, in samples per second, whatever the output rate.
pub const TICKS_PER_SECOND: u32 = 44_100;

/// The newest version of the format that we know, in BCD.
const NEWEST_VERSION: u32 = 0x172;

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
    blocks: Vec<u8>,
    warnings: Vec<String>,
    losses: Vec<String>,
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
    /// We read a damaged song as far as we can. [`Song::warnings`] describes the damage, and
    /// [`Song::losses`] the part of it that may be audible.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - [`Error::NotVgm`] if the bytes are not a VGM song.
    /// - [`Error::Malformed`] with the offset and the reason if the song has nothing to play before
    ///   its first damage.
    /// - [`Error::TooLarge`] if the song or its unpacked data banks are larger than
    ///   [`SONG_BYTES_MAX`] bytes.
    pub fn parse(packed: Vec<u8>) -> Result<Song> {
        let unpacked = unpack(packed)?;
        let mut bytes = unpacked.bytes;
        let header = Header::parse(&bytes)?;
        let tags = Gd3::parse(&bytes, header.gd3_offset);
        let defect_of_tags = Gd3::defect(&bytes, header.gd3_offset);
        let mut walk = Walk::over(&mut bytes, &header)?;
        let mut warnings = Vec::new();
        let repeat = walk.repeat(&header, &mut warnings);
        let container = unpacked
            .defect
            .map(|defect| format!("{defect}, so its end is missing"));
        let mut losses: Vec<_> = container
            .into_iter()
            .chain(header.defects.clone())
            .collect();
        losses.append(&mut walk.losses);
        warnings.splice(0..0, losses.iter().cloned());
        warnings.extend(walk.writes_without_clock(&header, false));
        warnings.extend(defect_of_tags);
        if header.version > NEWEST_VERSION {
            let (major, minor) = (header.version >> 8, header.version & 0xFF);
            warnings.push(format!(
                "the song has version {major:x}.{minor:02x} of the VGM format, but this program \
                 knows only versions up to 1.72"
            ));
        }
        Ok(Song {
            repeat,
            ticks: walk.tick,
            writes: walk.writes,
            played: walk.played,
            banks: walk.banks.finish(),
            blocks: walk.blocks,
            header,
            tags,
            bytes: Arc::new(bytes),
            warnings,
            losses,
        })
    }

    /// Returns the problems of the song that do not prevent playing it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the warnings about parts of the song that we do not play. The song is damaged, lacks
    /// samples or a clock, or uses a part of a chip that we do not support.
    pub fn losses(&self) -> &[String] {
        &self.losses
    }

    /// Returns the kinds of the data blocks and of the copies into RAM, in ascending order.
    pub fn block_kinds(&self) -> &[u8] {
        &self.blocks
    }

    /// Returns the bytes of the decompressed song. Damaged bytes between its commands are 0.
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

    /// Returns whether the song writes to a chip after its first wait or by commands 80 to 8F, or
    /// sets up a stream for the chip.
    ///
    /// If not, the song at most initialises the chip.
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
/// We reject FIFOs, sockets and devices before we open them, because opening a FIFO may wait for a
/// writer forever.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other(
            "the path is not a file but a FIFO, a socket or a device",
        ));
    }
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ChipId;

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
            warnings[0].starts_with("2 writes to a YM2151 "),
            "{warnings:?}"
        );
        // This one is silence, so nothing is lost.
        assert!(
            warnings[1].starts_with("1 write to a second SN76489"),
            "{warnings:?}"
        );
        assert_eq!(song.losses(), &warnings[..1]);
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
                song.losses()[0].contains("cut short"),
                "{:?}",
                song.losses()
            );
            assert_eq!(song.warnings(), song.losses());
        }
        assert!(song(&[], None).is_err());
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
