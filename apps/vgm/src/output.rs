//! One song to one sound file: written beside its place, synced, then renamed into it.
//!
//! Invariant: under its own name a file is whole or absent, whatever fails and whenever the process
//! is stopped.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::Song;
use crate::render::{Buffers, Player, Settings};
use crate::wav::Layout;

/// Output frames that are rendered, converted and written at a time.
pub const BLOCK_FRAMES: usize = 1024;

/// What a job renders with, made once and reused from song to song.
#[derive(Debug, Default)]
pub struct Job {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
    bytes: Vec<u8>,
}

/// What came of rendering a song.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was rendered: so many frames.
    Done(u64),
    /// Whoever was told of the progress asked to stop.
    Stopped,
}

impl Job {
    /// Renders `song` as the bytes of a sound file, header first, block after block into `sink`.
    ///
    /// `progress` is told the frames of each block and says whether to go on.
    ///
    /// # Errors
    ///
    /// As [`Player::new`]; [`Error::TooLarge`] if the file would pass 4 GiB; what `sink` fails with.
    pub fn render(
        &mut self,
        song: &Song,
        how: (&Settings, Layout),
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Outcome> {
        let (settings, layout) = how;
        let mut player = Player::new(song, settings, &mut self.buffers)?;
        sink(&layout.header(settings.sample_rate, player.frames())?)?;
        self.mix.resize(BLOCK_FRAMES, [0.0; 2]);
        loop {
            let frames = player.fill(&mut self.buffers, &mut self.mix);
            if frames == 0 {
                return Ok(Outcome::Done(player.frames()));
            }
            self.bytes.clear();
            layout.encode(&self.mix[..frames], &mut self.bytes);
            sink(&self.bytes)?;
            if !progress(frames as u64) {
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// Renders `song` to the file `path`, in a folder that exists.
    ///
    /// # Errors
    ///
    /// As [`Job::render`]. No file is left then, nor when it was stopped.
    pub fn render_file(
        &mut self,
        song: &Song,
        how: (&Settings, Layout),
        path: &Path,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Outcome> {
        let mut part = PartFile::create(path)?;
        let file = &mut part.file;
        let outcome = self.render(song, how, |bytes| file.write_all(bytes), progress)?;
        if let Outcome::Done(_) = outcome {
            part.publish(path)?;
        }
        Ok(outcome)
    }
}

/// A file under a passing name; removed unless it is published.
#[derive(Debug)]
struct PartFile {
    file: File,
    path: PathBuf,
    published: bool,
}

impl PartFile {
    fn create(path: &Path) -> Result<PartFile> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        let path = path.with_file_name(name);
        Ok(PartFile {
            file: File::create(&path)?,
            path,
            published: false,
        })
    }

    fn publish(mut self, path: &Path) -> Result<()> {
        self.file.sync_data().map_err(Error::Io)?;
        fs::rename(&self.path, path)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.published {
            // Nothing can be done if even this fails, and the first error is the one to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}
