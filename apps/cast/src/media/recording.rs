//! A WAV file that we write while a stream arrives, and that is valid at any time.
//!
//! Each chunk of samples goes to its own position. Late samples are therefore in their place,
//! duplicates are there once, and lost samples are silence. The file should begin with the earliest
//! of the first chunks, so we hold back the first [`FIRST_CHUNKS`] of them and sort them.
//!
//! We update the header once per second of sound, and it covers only samples that we have written.
//! If the program is killed, the recording is complete except for the last second.
//!
//! Left out: files above 4 GiB. A recording ends there.

use super::wav::WavError;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const HEADER_BYTES: u64 = 44;
/// The maximum number of bytes of sound in a file.
const BYTES_MAX: u64 = u32::MAX as u64 - HEADER_BYTES;
/// The number of chunks that we hold back at the beginning.
const FIRST_CHUNKS: usize = 32;
/// The number of bytes that we collect before we write them.
const WRITE_BYTES: usize = 1 << 15;

/// Returns the header of a file with `bytes` bytes of sound.
pub(crate) fn header(rate: u32, channels: u16, bytes: u32) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..4].copy_from_slice(b"RIFF");
    header[4..8].copy_from_slice(&(bytes + 36).to_le_bytes());
    header[8..16].copy_from_slice(b"WAVEfmt ");
    header[16..20].copy_from_slice(&16_u32.to_le_bytes());
    header[20..22].copy_from_slice(&1_u16.to_le_bytes());
    header[22..24].copy_from_slice(&channels.to_le_bytes());
    header[24..28].copy_from_slice(&rate.to_le_bytes());
    header[28..32].copy_from_slice(&(rate * u32::from(channels) * 2).to_le_bytes());
    header[32..34].copy_from_slice(&(channels * 2).to_le_bytes());
    header[34..36].copy_from_slice(&16_u16.to_le_bytes());
    header[36..40].copy_from_slice(b"data");
    header[40..].copy_from_slice(&bytes.to_le_bytes());
    header
}

/// A WAV file that is being written.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: File,
    rate: u32,
    channels: u16,
    /// The first chunks, until we know which of them is the earliest.
    first_chunks: Option<Vec<(i64, Vec<i16>)>>,
    /// The frame at which the file begins.
    base: i64,
    /// Bytes that we have not written yet, and their offset after the header.
    buffer: Vec<u8>,
    buffer_start: u64,
    /// The number of bytes up to the last sample, and the number that the header states.
    end: u64,
    header_bytes: u64,
}

impl Recording {
    /// Creates a file at `path`. It replaces an existing file atomically. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created.
    pub(crate) fn create(path: &Path, rate: u32, channels: u16) -> Result<Self, WavError> {
        let begun = creel_console::AtomicFile::create(path).and_then(|mut file| {
            file.write_all(&header(rate, channels, 0))?;
            file.commit_growing()
        });
        Ok(Recording {
            path: path.into(),
            file: begun.map_err(|error| WavError::Io(path.into(), error))?,
            rate,
            channels,
            first_chunks: Some(Vec::with_capacity(FIRST_CHUNKS)),
            base: 0,
            buffer: Vec::new(),
            buffer_start: 0,
            end: 0,
            header_bytes: 0,
        })
    }

    /// Writes interleaved samples at the position of a frame. Samples before the beginning of the
    /// file are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written or would exceed 4 GiB. Samples that were
    /// written before stay in the file.
    pub(crate) fn put(&mut self, frame: i64, samples: &[i16]) -> Result<(), WavError> {
        if let Some(first_chunks) = &mut self.first_chunks {
            first_chunks.push((frame, samples.to_vec()));
            if first_chunks.len() < FIRST_CHUNKS {
                return Ok(());
            }
            return self.write_first_chunks();
        }
        self.write(frame, samples)
    }

    fn write_first_chunks(&mut self) -> Result<(), WavError> {
        let mut first_chunks = self.first_chunks.take().unwrap_or_default();
        first_chunks.sort_by_key(|(frame, _)| *frame);
        self.base = first_chunks.first().map_or(0, |(frame, _)| *frame);
        let mut written = Ok(());
        for (frame, samples) in first_chunks {
            written = written.and_then(|()| self.write(frame, &samples));
        }
        written
    }

    fn write(&mut self, frame: i64, samples: &[i16]) -> Result<(), WavError> {
        let channels = usize::from(self.channels);
        let (before, frame) = match frame - self.base {
            at @ ..0 => (at.unsigned_abs() as usize * channels, 0),
            at => (0, at as u64),
        };
        let Some(samples) = samples.get(before..).filter(|rest| !rest.is_empty()) else {
            return Ok(());
        };
        let at = frame * channels as u64 * 2;
        let end = at + samples.len() as u64 * 2;
        let error = |error| WavError::Io(self.path.clone(), error);
        if end > BYTES_MAX {
            return Err(error(io::ErrorKind::FileTooLarge.into()));
        }
        if at != self.buffer_start + self.buffer.len() as u64 || self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
            self.buffer_start = at;
        }
        self.buffer
            .extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        self.end = self.end.max(end);
        if self.end - self.header_bytes >= u64::from(self.rate) * channels as u64 * 2 {
            self.update_header()?;
        }
        Ok(())
    }

    /// Writes the collected bytes.
    fn flush(&mut self) -> Result<(), WavError> {
        let buffer = std::mem::take(&mut self.buffer);
        let at = HEADER_BYTES + self.buffer_start;
        let written = self
            .file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.write_all(&buffer));
        self.buffer_start += buffer.len() as u64;
        self.buffer = buffer;
        self.buffer.clear();
        written.map_err(|error| WavError::Io(self.path.clone(), error))
    }

    /// Makes the header cover all samples.
    fn update_header(&mut self) -> Result<(), WavError> {
        self.flush()?;
        self.write_header(self.end)
    }

    fn write_header(&mut self, bytes: u64) -> Result<(), WavError> {
        let header = header(self.rate, self.channels, bytes as u32);
        let written = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(&header));
        self.header_bytes = bytes;
        written.map_err(|error| WavError::Io(self.path.clone(), error))
    }

    /// Completes the file and syncs it to disk. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written. The file is then valid up to the error.
    pub(crate) fn finish(mut self) -> Result<(), WavError> {
        let written = match self.first_chunks {
            Some(_) => self.write_first_chunks(),
            None => Ok(()),
        };
        let finished = written.and_then(|()| self.update_header());
        if finished.is_err() {
            self.repair_header();
            return finished;
        }
        self.file
            .sync_all()
            .map_err(|error| WavError::Io(self.path.clone(), error))
    }

    /// Repairs the header after an error, so that it matches the samples in the file.
    pub(crate) fn repair_header(&mut self) {
        let len = self.file.metadata().map_or(0, |found| found.len());
        let frame = u64::from(self.channels) * 2;
        let bytes = len.saturating_sub(HEADER_BYTES).min(BYTES_MAX);
        // If this fails as well, the file keeps the previous header, which is still valid. We have
        // already reported the first error.
        let _ = self.write_header(bytes / frame * frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::wav::Sound;
    use std::fs;

    /// A file of one test, which the test removes at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("creel-cast-{name}-{}.wav", std::process::id());
            Scratch(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn reordered_and_duplicate_chunks_are_written_at_their_positions() {
        let scratch = Scratch::new("places");
        let mut recording = Recording::create(&scratch.0, 8_000, 2).unwrap();
        let chunk = |n: i64| -> Vec<i16> { (0..20).map(|i| (n * 20 + i) as i16).collect() };
        // Chunks have ten frames. The earliest chunk does not arrive first, chunk 5 is lost, and
        // chunk 7 arrives twice.
        let mut order: Vec<i64> = vec![1, 0, 2, 3, 4, 7, 6, 7];
        order.extend(8..60);
        order.swap(20, 50);
        for n in order {
            recording.put(1_000 + n * 10, &chunk(n)).unwrap();
        }
        recording.finish().unwrap();
        let read_back = Sound::read(&scratch.0).unwrap();
        assert_eq!((read_back.rate, read_back.channels), (8_000, 2));
        let expected: Vec<i16> = (0..60)
            .flat_map(|n| if n == 5 { vec![0; 20] } else { chunk(n) })
            .collect();
        assert_eq!(read_back.samples, expected);
    }

    #[test]
    fn a_recording_is_a_valid_file_at_any_time() {
        let scratch = Scratch::new("killed");
        let mut recording = Recording::create(&scratch.0, 8_000, 1).unwrap();
        for n in 0..200 {
            recording.put(n * 160, &[n as i16; 160]).unwrap();
            // This is what a kill would leave behind.
            let bytes = fs::read(&scratch.0).unwrap();
            let header_bytes = u32::from_le_bytes([bytes[40], bytes[41], bytes[42], bytes[43]]);
            assert!(header_bytes as usize + 44 <= bytes.len());
            let behind = (n + 1) * 320 - i64::from(header_bytes);
            assert!(behind <= 2 * 8_000 + 320, "{behind} bytes behind");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn create_fails_for_an_unwritable_path() {
        let error = Recording::create(Path::new("/proc/creel/none.wav"), 8_000, 1).unwrap_err();
        assert!(
            error.to_string().contains("/proc/creel/none.wav"),
            "{error}"
        );
    }
}
