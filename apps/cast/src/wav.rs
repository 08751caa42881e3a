//! WAV files: read whole to be looped, written so that a half-written file is never left behind.
//!
//! Only 16-bit PCM; several channels are read as their average, because the streams are mono.
//!
//! Source: Microsoft/IBM, "Multimedia Programming Interface and Data Specifications 1.0", RIFF
//! WAVE.
//!
//! Left out: other sample formats and files above 4 GiB (15 hours mono).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What is read at most: an hour and a half of stereo, so that a wrong path does not fill
/// the memory.
const BYTES_MAX: u64 = 1 << 30;

/// Why a WAV file could not be read or written.
#[derive(Debug)]
pub enum WavError {
    /// The system's error.
    Io(PathBuf, io::Error),
    /// Not what the format's description says.
    Malformed(PathBuf, &'static str),
    /// Sound, but not of a kind that this module reads.
    Unsupported(PathBuf, String),
}

impl fmt::Display for WavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WavError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            WavError::Malformed(path, what) => {
                write!(f, "{}: not a WAV file: {what}", path.display())
            }
            WavError::Unsupported(path, what) => {
                write!(f, "{}: {what}; 16-bit PCM is read", path.display())
            }
        }
    }
}

impl std::error::Error for WavError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WavError::Io(_, error) => Some(error),
            WavError::Malformed(..) | WavError::Unsupported(..) => None,
        }
    }
}

/// A sound in memory, mono.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    /// The samples.
    pub samples: Vec<i16>,
}

impl Sound {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not WAV, holds no sample, or is not 16-bit PCM.
    pub fn read(path: &Path) -> Result<Sound, WavError> {
        let io = |error| WavError::Io(path.into(), error);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(io)?;
        file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
        Self::parse(&bytes).map_err(|problem| match problem {
            Problem::Malformed(what) => WavError::Malformed(path.into(), what),
            Problem::Unsupported(what) => WavError::Unsupported(path.into(), what),
        })
    }

    fn parse(bytes: &[u8]) -> Result<Sound, Problem> {
        let malformed = Problem::Malformed;
        if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
            return Err(malformed("no RIFF WAVE header"));
        }
        let format = chunk(bytes, b"fmt ").ok_or(malformed("no format"))?;
        let format: &[u8; 16] = format.first_chunk().ok_or(malformed("a short format"))?;
        let word = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
        let (tag, channels, bits) = (word(0), usize::from(word(2)), word(14));
        let rate = u32::from_le_bytes([format[4], format[5], format[6], format[7]]);
        // 0xfffe only says that more follows about the channels' places.
        if !(tag == 1 || tag == 0xfffe) || bits != 16 || channels == 0 {
            let what = format!("format {tag} with {channels} channels of {bits} bits");
            return Err(Problem::Unsupported(what));
        }
        let data = chunk(bytes, b"data").ok_or(malformed("no data"))?;
        let samples: Vec<i16> = data
            .chunks_exact(2 * channels)
            .map(|frame| average(frame, channels))
            .collect();
        if samples.is_empty() || rate == 0 {
            return Err(malformed("no sample in it"));
        }
        Ok(Sound { rate, samples })
    }
}

enum Problem {
    Malformed(&'static str),
    Unsupported(String),
}

fn average(frame: &[u8], channels: usize) -> i16 {
    let sum: i64 = frame
        .chunks_exact(2)
        .map(|pair| i64::from(i16::from_le_bytes([pair[0], pair[1]])))
        .sum();
    (sum / channels as i64) as i16
}

/// The first chunk of that name; cut off where the file ends before it does.
fn chunk<'a>(bytes: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let mut rest = bytes.get(12..)?;
    loop {
        let head: &[u8; 8] = rest.first_chunk()?;
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = &rest[8..];
        if head[..4] == name[..] {
            return Some(&body[..size.min(body.len())]);
        }
        // Chunks begin at even places.
        rest = body.get(size.checked_add(size & 1)?..)?;
    }
}

/// Plays a sound again and again.
#[derive(Debug, Clone)]
pub struct Looped {
    sound: std::sync::Arc<Sound>,
    at: usize,
}

impl Looped {
    /// From the sound's begin.
    pub fn new(sound: std::sync::Arc<Sound>) -> Self {
        Looped { sound, at: 0 }
    }

    /// The next samples.
    pub fn fill(&mut self, samples: &mut [i16]) {
        let sound = &self.sound.samples;
        let mut rest = samples;
        while !rest.is_empty() {
            let run = rest.len().min(sound.len() - self.at);
            rest[..run].copy_from_slice(&sound[self.at..self.at + run]);
            self.at = (self.at + run) % sound.len();
            rest = &mut rest[run..];
        }
    }
}

/// Writes a mono WAV file beside its final place, and moves it there when it is finished.
///
/// Dropped before [`finish`](Self::finish), it removes what it wrote.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    part: PathBuf,
    /// None once finished.
    file: Option<BufWriter<File>>,
    rate: u32,
    bytes: u32,
}

impl Writer {
    const HEADER_BYTES: u32 = 44;

    /// Begins a file at `path`, of `rate` samples a second. Blocks.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn create(path: &Path, rate: u32) -> Result<Self, WavError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let begun = File::create(&part).and_then(|file| {
            let mut file = BufWriter::new(file);
            file.write_all(&[0; Self::HEADER_BYTES as usize])?;
            Ok(file)
        });
        Ok(Writer {
            path: path.into(),
            file: Some(begun.map_err(|error| WavError::Io(part.clone(), error))?),
            part,
            rate,
            bytes: 0,
        })
    }

    /// Appends samples. Blocks when its buffer is full.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or would exceed 4 GiB.
    pub fn write(&mut self, samples: impl IntoIterator<Item = i16>) -> Result<(), WavError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let write = || -> io::Result<()> {
            for sample in samples {
                if self.bytes > u32::MAX - Self::HEADER_BYTES - 2 {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                file.write_all(&sample.to_le_bytes())?;
                self.bytes += 2;
            }
            Ok(())
        };
        write().map_err(|error| WavError::Io(self.part.clone(), error))
    }

    /// Completes the header, syncs, and moves the file to its place. Blocks.
    ///
    /// # Errors
    ///
    /// If one of that fails; nothing is left behind then.
    pub fn finish(mut self) -> Result<(), WavError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let header = self.header();
        let done = file
            .into_inner()
            .map_err(|error| error.into_error())
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&header)?;
                file.sync_all()?;
                fs::rename(&self.part, &self.path)
            });
        done.map_err(|error| {
            let _ = fs::remove_file(&self.part);
            WavError::Io(self.path.clone(), error)
        })
    }

    fn header(&self) -> [u8; Self::HEADER_BYTES as usize] {
        let mut header = [0; Self::HEADER_BYTES as usize];
        header[..4].copy_from_slice(b"RIFF");
        header[4..8].copy_from_slice(&(self.bytes + 36).to_le_bytes());
        header[8..16].copy_from_slice(b"WAVEfmt ");
        header[16..20].copy_from_slice(&16_u32.to_le_bytes());
        header[20..22].copy_from_slice(&1_u16.to_le_bytes());
        header[22..24].copy_from_slice(&1_u16.to_le_bytes());
        header[24..28].copy_from_slice(&self.rate.to_le_bytes());
        header[28..32].copy_from_slice(&(self.rate * 2).to_le_bytes());
        header[32..34].copy_from_slice(&2_u16.to_le_bytes());
        header[34..36].copy_from_slice(&16_u16.to_le_bytes());
        header[36..40].copy_from_slice(b"data");
        header[40..].copy_from_slice(&self.bytes.to_le_bytes());
        header
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nobody is left to tell; a leftover `.part` file does no harm.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A folder of this test's own, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("creel-cast-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = Folder::new("round-trip");
        let path = folder.0.join("a.wav");
        let samples: Vec<i16> = (-500..500).map(|n| n * 60).collect();
        let mut writer = Writer::create(&path, 44_100).unwrap();
        writer.write(samples.iter().copied()).unwrap();
        assert!(!path.exists(), "not before it is whole");
        writer.finish().unwrap();
        let sound = Sound::read(&path).unwrap();
        assert_eq!(
            sound,
            Sound {
                rate: 44_100,
                samples
            }
        );
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn an_abandoned_file_leaves_nothing() {
        let folder = Folder::new("abandoned");
        let mut writer = Writer::create(&folder.0.join("a.wav"), 8_000).unwrap();
        writer.write([1, 2, 3]).unwrap();
        drop(writer);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }

    #[test]
    fn stereo_and_odd_chunks_are_read() {
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        bytes.extend([1, 0, 2, 0, 0x44, 0xac, 0, 0, 0, 0, 0, 0, 4, 0, 16, 0]);
        bytes.extend(b"data\xff\xff\0\0");
        bytes.extend([10, 0, 20, 0, 0, 0x80, 0, 0x80, 7]);
        let sound = Sound::parse(&bytes).ok().unwrap();
        assert_eq!(
            sound,
            Sound {
                rate: 44_100,
                samples: vec![15, i16::MIN]
            }
        );
    }

    #[test]
    fn what_is_not_wav_is_refused_without_a_panic() {
        let folder = Folder::new("refused");
        let path = folder.0.join("a.wav");
        let mut writer = Writer::create(&path, 44_100).unwrap();
        writer.write([1, 2, 3, 4]).unwrap();
        writer.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..=whole.len() {
            let parsed = Sound::parse(&whole[..len]);
            assert_eq!(parsed.is_ok(), len >= 46, "{len} bytes");
        }
        for at in 0..44 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = Sound::parse(&bytes);
            }
        }
        let error = Sound::read(&folder.0.join("none.wav")).unwrap_err();
        assert!(error.to_string().contains("none.wav"));
    }

    #[test]
    fn a_looped_sound_has_no_seam() {
        let sound = Arc::new(Sound {
            rate: 44_100,
            samples: (0..7).collect(),
        });
        let mut looped = Looped::new(sound);
        let mut samples = [0; 30];
        let (first, second) = samples.split_at_mut(11);
        looped.fill(first);
        looped.fill(second);
        assert!(
            samples
                .iter()
                .enumerate()
                .all(|(n, &s)| s == (n % 7) as i16)
        );
    }
}
