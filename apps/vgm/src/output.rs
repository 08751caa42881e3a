//! One song to one sound file: written beside its place, synced, then renamed into it.
//!
//! Invariant: under its own name a file is whole or absent, whatever fails and whenever the process
//! is stopped. Rendering and publishing are two steps, so that a job need not wait for the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::Song;
use crate::render::{Buffers, Player, Settings, SplitPlayer};
use crate::wav::Layout;
use creel::Pool;

/// Output frames that are rendered, converted and written at a time.
pub const BLOCK_FRAMES: usize = 1024;

/// The same where several workers render a song: a millisecond or more between two meetings.
const SPLIT_FRAMES: usize = 16 << 10;

/// Bytes that are gathered before they are written: a call to the system for each block would cost
/// as much as converting it.
const WRITE_BYTES: usize = 64 << 10;

/// What a job renders with, made once and reused from song to song.
#[derive(Debug, Default)]
pub struct Job {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
    bytes: Vec<u8>,
}

/// How songs become files.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// How they are played.
    pub settings: &'a Settings,
    /// What the file is like.
    pub layout: Layout,
    /// The pool on which each song's chips are rendered, a chip a worker; the calling thread
    /// renders all of them if there is none.
    pub split: Option<&'a Pool>,
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
        how: How<'_>,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Outcome> {
        let How {
            settings, layout, ..
        } = how;
        let mut player = match how.split {
            Some(pool) => Playing::Split(SplitPlayer::new(song, settings)?, pool),
            None => {
                let player = Player::new(song, settings, &mut self.buffers)?;
                Playing::Alone(Box::new(player))
            }
        };
        let (header, trailer) = layout.around(settings.sample_rate, player.frames(), &song.tags)?;
        sink(&header)?;
        self.mix.resize(player.block_frames(), [0.0; 2]);
        self.bytes.clear();
        loop {
            let frames = player.fill(&mut self.buffers, &mut self.mix);
            layout.encode(&self.mix[..frames], &mut self.bytes);
            if frames == 0 || self.bytes.len() >= WRITE_BYTES {
                sink(&self.bytes)?;
                self.bytes.clear();
            }
            if frames == 0 {
                sink(&trailer)?;
                return Ok(Outcome::Done(player.frames()));
            }
            if !progress(frames as u64) {
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// Renders `song` for the file `path`, in a folder that exists; the file appears when it is
    /// published. None if it was stopped.
    ///
    /// # Errors
    ///
    /// As [`Job::render`]. No file is left then, nor when it was stopped.
    pub fn render_file(
        &mut self,
        song: &Song,
        how: How<'_>,
        path: &Path,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Option<Rendered>> {
        let mut rendered = Rendered::create(path)?;
        let file = &mut rendered.file;
        let outcome = self.render(song, how, |bytes| file.write_all(bytes), progress)?;
        Ok(match outcome {
            Outcome::Done(frames) => {
                rendered.frames = frames;
                Some(rendered)
            }
            Outcome::Stopped => None,
        })
    }
}

/// A song being played, by one thread or by several.
enum Playing<'a> {
    Alone(Box<Player<'a>>),
    Split(SplitPlayer<'a>, &'a Pool),
}

impl Playing<'_> {
    fn frames(&self) -> u64 {
        match self {
            Playing::Alone(player) => player.frames(),
            Playing::Split(player, _) => player.frames(),
        }
    }

    /// Output frames a call.
    fn block_frames(&self) -> usize {
        match self {
            Playing::Alone(_) => BLOCK_FRAMES,
            Playing::Split(..) => SPLIT_FRAMES,
        }
    }

    fn fill(&mut self, buffers: &mut Buffers, out: &mut [[f32; 2]]) -> usize {
        match self {
            Playing::Alone(player) => player.fill(buffers, out),
            Playing::Split(player, pool) => player.fill(pool, out),
        }
    }
}

/// A sound file written under a passing name; removed unless it is published.
#[derive(Debug)]
pub struct Rendered {
    file: File,
    part: PathBuf,
    path: PathBuf,
    frames: u64,
    published: bool,
}

impl Rendered {
    fn create(path: &Path) -> Result<Rendered> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        let part = path.with_file_name(name);
        Ok(Rendered {
            file: File::create(&part)?,
            part,
            path: path.into(),
            frames: 0,
            published: false,
        })
    }

    /// How many frames it has.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Brings the file to the disk and gives it its name. Blocks until the disk has it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; no file is left then.
    pub fn publish(mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::Io)?;
        fs::rename(&self.part, &self.path)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Rendered {
    fn drop(&mut self) {
        if !self.published {
            // Nothing can be done if even this fails, and the first error is the one to tell.
            let _ = fs::remove_file(&self.part);
        }
    }
}
