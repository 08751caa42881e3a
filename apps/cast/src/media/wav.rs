//! WAV files that we read completely in order to loop them. The module `recording` writes WAV
//! files.
//!
//! Source: Microsoft/IBM, "Multimedia Programming Interface and Data Specifications 1.0", RIFF
//! WAVE, and EBU Tech 3306 (RF64).
//!
//! Samples of 24 bits keep their lower 8 bits in a list of their own, because all other formats
//! have 16 bits.
//!
//! Left out: formats other than PCM of 16 or 24 bits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum number of bytes that we read: an hour and a half of stereo. The limit keeps a wrong
/// path from filling the memory.
const BYTES_MAX: u64 = 1 << 30;

/// The error of reading or writing a WAV file.
#[derive(Debug)]
pub enum WavError {
    /// The operating system returned an error.
    Io(PathBuf, io::Error),
    /// The file is not a valid WAV file.
    Malformed(PathBuf, &'static str),
    /// The file is a WAV file of a kind that we cannot read.
    Unsupported(PathBuf, String),
}

impl fmt::Display for WavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WavError::Io(path, _) => write!(f, "cannot read or write {}", path.display()),
            WavError::Malformed(path, what) => {
                write!(f, "{} is not a WAV file: {what}", path.display())
            }
            WavError::Unsupported(path, what) => {
                write!(
                    f,
                    "cannot read {}: {what}, expected PCM of 16 or 24 bits",
                    path.display()
                )
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

/// A sound in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound {
    /// The number of frames per second.
    pub rate: u32,
    /// The number of channels, which is the number of samples per frame.
    pub channels: usize,
    /// The interleaved samples of all frames.
    pub samples: Vec<i16>,
    /// The lower 8 bits of each sample if the file has 24 bits per sample. Otherwise empty.
    pub low: Vec<u8>,
}

impl Sound {
    /// Reads a file. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a WAV file, has no samples, or is not
    /// PCM of 16 or 24 bits.
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
        let name = bytes.get(..4);
        let is_riff = name == Some(b"RIFF") || name == Some(b"RF64") || name == Some(b"BW64");
        if !is_riff || bytes.get(8..12) != Some(b"WAVE") {
            return Err(malformed("the file has no RIFF WAVE header"));
        }
        let format = chunk(bytes, b"fmt ").ok_or(malformed("the file has no format chunk"))?;
        // With tag 0xfffe, the chunk goes on with the positions of the channels, and has its real tag
        // at the beginning of the sub-format.
        let extended = format
            .get(24..26)
            .map(|tag| u16::from_le_bytes([tag[0], tag[1]]));
        let format: &[u8; 16] = format
            .first_chunk()
            .ok_or(malformed("the format chunk of the file is too short"))?;
        let word = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
        let (tag, channels, bits) = (word(0), usize::from(word(2)), word(14));
        let rate = u32::from_le_bytes([format[4], format[5], format[6], format[7]]);
        // A chunk that ends before its sub-format has no other tag, so we read it as PCM.
        let tag = if tag == 0xfffe {
            extended.unwrap_or(1)
        } else {
            tag
        };
        if tag != 1 || !(bits == 16 || bits == 24) || channels == 0 {
            let what = format!("format {tag} with {channels} channels of {bits} bits");
            return Err(Problem::Unsupported(what));
        }
        let data = chunk(bytes, b"data").ok_or(malformed("the file has no data chunk"))?;
        let sample_bytes = usize::from(bits / 8);
        let frame_bytes = sample_bytes * channels;
        let data = &data[..data.len() / frame_bytes * frame_bytes];
        let samples: Vec<i16> = data
            .chunks_exact(sample_bytes)
            .map(|sample| i16::from_le_bytes([sample[sample_bytes - 2], sample[sample_bytes - 1]]))
            .collect();
        let low = match bits {
            24 => data.iter().step_by(3).copied().collect(),
            _ => Vec::new(),
        };
        if samples.is_empty() || rate == 0 {
            return Err(malformed("the file has no samples"));
        }
        Ok(Sound {
            rate,
            channels,
            samples,
            low,
        })
    }

    /// Converts the sound to another number of channels. For one channel it averages all channels.
    /// Otherwise it repeats the first one.
    pub(crate) fn with_channels(self, channels: usize) -> Sound {
        if channels == self.channels {
            return self;
        }
        let frames = self.samples.chunks_exact(self.channels);
        let samples = match channels {
            1 => frames.map(average).collect(),
            _ => frames
                .flat_map(|frame| std::iter::repeat_n(frame[0], channels))
                .collect(),
        };
        let low = match (channels, self.low.is_empty()) {
            // An average of 16 bits is precise enough.
            (1, _) | (_, true) => Vec::new(),
            _ => {
                let frames = self.low.chunks_exact(self.channels);
                frames
                    .flat_map(|frame| std::iter::repeat_n(frame[0], channels))
                    .collect()
            }
        };
        Sound {
            channels,
            samples,
            low,
            ..self
        }
    }
}

enum Problem {
    Malformed(&'static str),
    Unsupported(String),
}

fn average(frame: &[i16]) -> i16 {
    let sum: i64 = frame.iter().map(|&sample| i64::from(sample)).sum();
    (sum / frame.len() as i64) as i16
}

/// Returns the body of the first chunk with this name. If the file ends within the chunk, the rest
/// is missing.
fn chunk<'a>(bytes: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let mut rest = bytes.get(12..)?;
    // The first chunk of an RF64 file has the size of the data.
    let large = rest
        .strip_prefix(b"ds64")
        .and_then(|sizes| sizes.get(12..20)?.try_into().ok())
        .map(|size| usize::try_from(u64::from_le_bytes(size)).unwrap_or(usize::MAX));
    loop {
        let head: &[u8; 8] = rest.first_chunk()?;
        let mut size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = &rest[8..];
        if size == u32::MAX as usize
            && let Some(large) = large
        {
            size = large;
        }
        if head[..4] == name[..] {
            return Some(&body[..size.min(body.len())]);
        }
        // Chunks begin at even offsets.
        rest = body.get(size.checked_add(size & 1)?..)?;
    }
}

/// Plays a sound in an endless loop.
#[derive(Debug, Clone)]
pub struct Looped {
    sound: std::sync::Arc<Sound>,
    at: usize,
}

impl Looped {
    /// Creates a loop that starts at the beginning of the sound.
    pub fn new(sound: std::sync::Arc<Sound>) -> Self {
        Looped { sound, at: 0 }
    }

    /// Appends the lower 8 bits of the next `count` samples, if the sound has them.
    pub fn fill_low(&self, count: usize, low: &mut Vec<u8>) {
        let all = &self.sound.low;
        if !all.is_empty() {
            low.extend((0..count).map(|n| all[(self.at + n) % all.len()]));
        }
    }

    /// Skips `samples` samples.
    pub fn skip(&mut self, samples: u64) {
        let len = self.sound.samples.len() as u64;
        self.at = ((self.at as u64 + samples % len) % len) as usize;
    }

    /// Fills `samples` with the next samples.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn stereo_files_and_odd_sized_chunks_are_read() {
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        bytes.extend([1, 0, 2, 0, 0x44, 0xac, 0, 0, 0, 0, 0, 0, 4, 0, 16, 0]);
        bytes.extend(b"data\xff\xff\0\0");
        bytes.extend([10, 0, 20, 0, 0, 0x80, 0, 0x80, 7]);
        let sound = Sound::parse(&bytes).ok().unwrap();
        let samples = vec![10, 20, i16::MIN, i16::MIN];
        assert_eq!(
            (sound.rate, sound.channels, &sound.samples),
            (44_100, 2, &samples)
        );
        assert_eq!(sound.clone().with_channels(1).samples, [15, i16::MIN]);
        assert_eq!(
            sound.with_channels(1).with_channels(3).samples,
            [15, 15, 15, i16::MIN, i16::MIN, i16::MIN]
        );
    }

    #[test]
    fn files_of_24_bits_are_read() {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        bytes.extend([1, 0, 1, 0, 0x80, 0xbb, 0, 0, 0, 0, 0, 0, 3, 0, 24, 0]);
        bytes.extend(b"data\x06\0\0\0");
        bytes.extend([9, 0x34, 0x12, 255, 0xff, 0xff]);
        let sound = Sound::parse(&bytes).ok().unwrap();
        assert_eq!((sound.rate, sound.channels), (48_000, 1));
        assert_eq!((sound.samples, sound.low), (vec![0x1234, -1], vec![9, 255]));
    }

    #[test]
    fn only_pcm_is_read_from_an_extensible_format() {
        let file = |tag: u8| {
            let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x28\0\0\0".to_vec();
            bytes.extend([0xfe, 0xff, 1, 0, 0x80, 0xbb, 0, 0, 0, 0, 0, 0, 2, 0, 16, 0]);
            bytes.extend([22, 0, 16, 0, 4, 0, 0, 0, tag, 0, 0, 0, 0, 0, 0x10, 0]);
            bytes.extend([0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71]);
            bytes.extend(b"data\x04\0\0\0\x01\0\x02\0");
            Sound::parse(&bytes)
        };
        assert_eq!(file(1).ok().unwrap().samples, [1, 2]);
        // 3 is floating point.
        assert!(matches!(file(3), Err(Problem::Unsupported(_))));
    }

    #[test]
    fn malformed_wav_is_rejected_without_a_panic() {
        let layout = super::super::recording::Layout {
            rate: 44_100,
            channels: 1,
            sample_bytes: 2,
        };
        let mut whole = layout.header(8).to_vec();
        whole.extend([1, 0, 2, 0, 3, 0, 4, 0]);
        for len in 0..=whole.len() {
            let parsed = Sound::parse(&whole[..len]);
            assert_eq!(parsed.is_ok(), len >= 82, "{len} bytes");
        }
        for at in 0..80 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = Sound::parse(&bytes);
            }
        }
        let error = Sound::read(Path::new("none.wav")).unwrap_err();
        assert!(error.to_string().contains("none.wav"));
    }

    #[test]
    fn a_looped_sound_wraps_without_a_gap() {
        let sound = Arc::new(Sound {
            rate: 44_100,
            channels: 1,
            samples: (0..7).collect(),
            low: (10..17).collect(),
        });
        let mut looped = Looped::new(sound);
        let mut samples = [0; 30];
        let (first, second) = samples.split_at_mut(11);
        looped.fill(first);
        let mut low = Vec::new();
        looped.fill_low(5, &mut low);
        assert_eq!(low, [14, 15, 16, 10, 11]);
        looped.fill(second);
        assert!(
            samples
                .iter()
                .enumerate()
                .all(|(n, &s)| s == (n % 7) as i16)
        );
    }
}
