//! A WAV file that we write while a stream arrives, and that is valid at any time.
//!
//! Each chunk of samples goes to its own position. Late samples are therefore in their place,
//! duplicates are there once, and lost samples are silence. The file should begin with the earliest
//! of the first chunks, so we hold back the first [`FIRST_CHUNKS`] of them and sort them.
//!
//! We update the header once per second of sound, and it covers only samples that we have written.
//! If the program is killed, the recording is complete except for the last second.
//!
//! A recording above 4 GiB is an RF64 file.
//!
//! Source: EBU Tech 3306 (RF64).

use super::wav::WavError;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The number of bytes of the header. It has a chunk of [`SIZES_BYTES`] that is junk until the file
/// needs it for sizes of 64 bits.
pub(crate) const HEADER_BYTES: u64 = 80;
const SIZES_BYTES: u32 = 28;
/// The maximum number of bytes of sound. It is far beyond any disk, and keeps sums within 64 bits.
const BYTES_MAX: u64 = 1 << 60;
/// The number of chunks that we hold back at the beginning.
const FIRST_CHUNKS: usize = 32;
/// The number of bytes that we collect before we write them.
const WRITE_BYTES: usize = 1 << 15;

/// The layout of the samples in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number of frames per second.
    pub(crate) rate: u32,
    pub(crate) channels: u16,
    /// The number of bytes per sample: 2 or 3.
    pub(crate) sample_bytes: u16,
}

impl Layout {
    fn frame_bytes(self) -> u64 {
        u64::from(self.channels) * u64::from(self.sample_bytes)
    }

    /// Returns the header of a file with `bytes` bytes of sound. Below 4 GiB it is a RIFF file,
    /// which every program reads, and above it is an RF64 file.
    pub(crate) fn header(self, bytes: u64) -> [u8; HEADER_BYTES as usize] {
        let mut header = Vec::with_capacity(HEADER_BYTES as usize);
        let riff = HEADER_BYTES - 8 + bytes + bytes % 2;
        let frames = bytes / self.frame_bytes().max(1);
        let (name, sizes, riff_32, data_32) = match (u32::try_from(riff), u32::try_from(bytes)) {
            (Ok(riff), Ok(data)) => (b"RIFF", b"JUNK", riff, data),
            _ => (b"RF64", b"ds64", u32::MAX, u32::MAX),
        };
        header.extend(name);
        header.extend(riff_32.to_le_bytes());
        header.extend(b"WAVE");
        header.extend(sizes);
        header.extend(SIZES_BYTES.to_le_bytes());
        if sizes == b"ds64" {
            for size in [riff, bytes, frames] {
                header.extend(size.to_le_bytes());
            }
            header.extend([0; 4]);
        } else {
            header.extend([0; SIZES_BYTES as usize]);
        }
        let frame_bytes = self.frame_bytes() as u32;
        header.extend(b"fmt ");
        header.extend(16_u32.to_le_bytes());
        header.extend(1_u16.to_le_bytes());
        header.extend(self.channels.to_le_bytes());
        header.extend(self.rate.to_le_bytes());
        header.extend(self.rate.saturating_mul(frame_bytes).to_le_bytes());
        header.extend((frame_bytes as u16).to_le_bytes());
        header.extend((self.sample_bytes * 8).to_le_bytes());
        header.extend(b"data");
        header.extend(data_32.to_le_bytes());
        header.try_into().unwrap_or([0; HEADER_BYTES as usize])
    }
}

/// A WAV file that is being written.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: File,
    layout: Layout,
    /// The first chunks, until we know which of them is the earliest.
    first_chunks: Option<Vec<(i64, Vec<u8>)>>,
    /// The frame at which the file begins.
    base: i64,
    /// Bytes that we have not written yet, and their offset after the header.
    buffer: Vec<u8>,
    buffer_start: u64,
    /// The number of bytes up to the last sample.
    end: u64,
    /// The number of bytes that the header states.
    header_bytes: u64,
}

impl Recording {
    /// Creates a file at `path`. It replaces an existing file atomically. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created.
    pub(crate) fn create(path: &Path, layout: Layout) -> Result<Self, WavError> {
        let begun = creel_console::AtomicFile::create(path).and_then(|mut file| {
            file.write_all(&layout.header(0))?;
            file.commit_growing()
        });
        Ok(Recording {
            path: path.into(),
            file: begun.map_err(|error| WavError::Io(path.into(), error))?,
            layout,
            first_chunks: Some(Vec::with_capacity(FIRST_CHUNKS)),
            base: 0,
            buffer: Vec::new(),
            buffer_start: 0,
            end: 0,
            header_bytes: 0,
        })
    }

    /// Writes interleaved samples, little-endian, at the position of a frame. Samples before the
    /// beginning of the file are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written. Samples that were written before stay in the
    /// file.
    pub(crate) fn put(&mut self, frame: i64, bytes: &[u8]) -> Result<(), WavError> {
        if let Some(first_chunks) = &mut self.first_chunks {
            first_chunks.push((frame, bytes.to_vec()));
            if first_chunks.len() < FIRST_CHUNKS {
                return Ok(());
            }
            return self.write_first_chunks();
        }
        self.write(frame, bytes)
    }

    fn write_first_chunks(&mut self) -> Result<(), WavError> {
        let mut first_chunks = self.first_chunks.take().unwrap_or_default();
        first_chunks.sort_by_key(|(frame, _)| *frame);
        self.base = first_chunks.first().map_or(0, |(frame, _)| *frame);
        let mut written = Ok(());
        for (frame, bytes) in first_chunks {
            written = written.and_then(|()| self.write(frame, &bytes));
        }
        written
    }

    fn write(&mut self, frame: i64, bytes: &[u8]) -> Result<(), WavError> {
        let frame_bytes = self.layout.frame_bytes();
        let (before, frame) = match frame - self.base {
            at @ ..0 => (at.unsigned_abs().saturating_mul(frame_bytes), 0),
            at => (0, at as u64),
        };
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(before..).filter(|rest| !rest.is_empty()) else {
            return Ok(());
        };
        let error = |error| WavError::Io(self.path.clone(), error);
        let at = frame.checked_mul(frame_bytes).unwrap_or(BYTES_MAX);
        let end = at + bytes.len() as u64;
        if end > BYTES_MAX {
            return Err(error(io::ErrorKind::FileTooLarge.into()));
        }
        if at != self.buffer_start + self.buffer.len() as u64 || self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
            self.buffer_start = at;
        }
        self.buffer.extend_from_slice(bytes);
        self.end = self.end.max(end);
        if self.end - self.header_bytes >= u64::from(self.layout.rate) * frame_bytes {
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
        let header = self.layout.header(bytes);
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
    /// Returns an error if the file cannot be written. The file is then valid up to the error, or
    /// up to an earlier point if the header cannot be repaired.
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
        let frame = self.layout.frame_bytes().max(1);
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

    /// Returns the layout of 16-bit samples.
    fn layout(rate: u32, channels: u16) -> Layout {
        Layout {
            rate,
            channels,
            sample_bytes: 2,
        }
    }

    fn bytes_of(samples: &[i16]) -> Vec<u8> {
        samples.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

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
        let mut recording = Recording::create(&scratch.0, layout(8_000, 2)).unwrap();
        let chunk = |n: i64| -> Vec<i16> { (0..20).map(|i| (n * 20 + i) as i16).collect() };
        // Chunks have ten frames. The earliest chunk does not arrive first, chunk 5 is lost, and
        // chunk 7 arrives twice.
        let mut order: Vec<i64> = vec![1, 0, 2, 3, 4, 7, 6, 7];
        order.extend(8..60);
        order.swap(20, 50);
        for n in order {
            recording.put(1_000 + n * 10, &bytes_of(&chunk(n))).unwrap();
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
        let mut recording = Recording::create(&scratch.0, layout(8_000, 1)).unwrap();
        for n in 0..200 {
            recording.put(n * 160, &bytes_of(&[n as i16; 160])).unwrap();
            // If the process were killed now, the file would have these bytes.
            let bytes = fs::read(&scratch.0).unwrap();
            let header_bytes = u32::from_le_bytes([bytes[76], bytes[77], bytes[78], bytes[79]]);
            assert!(header_bytes as usize + 80 <= bytes.len());
            let behind = (n + 1) * 320 - i64::from(header_bytes);
            assert!(behind <= 2 * 8_000 + 320, "{behind} bytes behind");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn create_fails_for_an_unwritable_path() {
        let error =
            Recording::create(Path::new("/proc/creel/none.wav"), layout(8_000, 1)).unwrap_err();
        assert!(
            error.to_string().contains("/proc/creel/none.wav"),
            "{error}"
        );
    }

    #[test]
    fn a_file_above_4_gib_is_rf64_and_can_be_read() {
        let layout = layout(48_000, 2);
        assert_eq!(layout.header(1_000)[..4], *b"RIFF");
        let most = u64::from(u32::MAX) - HEADER_BYTES;
        assert_eq!(layout.header(most)[..4], *b"RIFF");
        let large = layout.header(5 << 30);
        assert_eq!((&large[..4], &large[12..16]), (&b"RF64"[..], &b"ds64"[..]));
        assert_eq!(large[28..36], (5_u64 << 30).to_le_bytes());
        assert_eq!(large[76..], u32::MAX.to_le_bytes());
        // The sizes apply to a small file as well.
        let scratch = Scratch::new("rf64");
        let mut bytes = large.to_vec();
        bytes[28..36].copy_from_slice(&8_u64.to_le_bytes());
        bytes.extend(bytes_of(&[1, 2, 3, 4]));
        bytes.extend(b"LIST\x04\0\0\0text");
        fs::write(&scratch.0, bytes).unwrap();
        assert_eq!(Sound::read(&scratch.0).unwrap().samples, [1, 2, 3, 4]);
    }

    #[test]
    fn samples_beyond_4_gib_are_written_at_their_positions() {
        let scratch = Scratch::new("huge");
        let mut recording = Recording::create(&scratch.0, layout(192_000, 8)).unwrap();
        let far = (5_i64 << 30) / 16;
        for n in 0..40 {
            recording.put(n * 10, &[1; 160]).unwrap();
        }
        // The hole takes no space on the disk.
        recording.put(far, &[2; 160]).unwrap();
        recording.finish().unwrap();
        let mut file = File::open(&scratch.0).unwrap();
        let mut head = [0; 4];
        io::Read::read_exact(&mut file, &mut head).unwrap();
        let len = file.metadata().unwrap().len();
        assert_eq!((&head, len), (b"RF64", HEADER_BYTES + (5 << 30) + 160));
    }
}
