//! A device that writes the sound to a WAV file, as fast as it is rendered.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::Device;
use crate::tags::FileTags;
use crate::wav::Layout;

/// A 16-bit WAV file. Its header is updated after each second and at the end, so that the file
/// stays valid if the player crashes.
#[derive(Debug)]
pub struct WavFile {
    file: BufWriter<File>,
    rate: u32,
    frames: u64,
    reported_frames: u64,
    bytes: Vec<u8>,
}

impl WavFile {
    /// Creates the file, or replaces an existing one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written.
    pub fn create(path: &Path, rate: u32) -> io::Result<Self> {
        let mut made = WavFile {
            file: BufWriter::new(File::create(path)?),
            rate,
            frames: 0,
            reported_frames: 0,
            bytes: Vec::new(),
        };
        made.write_header()?;
        Ok(made)
    }

    /// Writes the header again for the current length.
    fn write_header(&mut self) -> io::Result<()> {
        let around = Layout::default().around(self.rate, self.frames, &FileTags::default());
        let (header, _) = around.map_err(io::Error::other)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.seek(SeekFrom::End(0))?;
        self.reported_frames = self.frames;
        Ok(())
    }
}

impl Device for WavFile {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        self.bytes.clear();
        Layout::default().encode(frames, &mut self.bytes);
        self.file.write_all(&self.bytes)?;
        self.frames += frames.len() as u64;
        if self.frames - self.reported_frames >= u64::from(self.rate) {
            self.write_header()?;
        }
        Ok(frames.len())
    }

    fn queued_frames(&mut self) -> usize {
        0
    }

    fn is_permanently_lost(&self) -> bool {
        true
    }

    fn finish(&mut self, _is_heard: bool) -> io::Result<()> {
        self.write_header()?;
        self.file.flush()
    }
}
