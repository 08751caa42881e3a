//! One song to one sound file: written beside its place, synced, then renamed into it.
//!
//! Invariant: under its own name a file is whole or absent, whatever fails and whenever the process
//! is stopped. Rendering and publishing are two steps, so that a job need not wait for the disk.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crate::effects::{Chain, Effects, Loudness, Measured, Meter};
use crate::error::{Error, Result};
use crate::flac::Flac;
use crate::format::{Gd3, Song};
use crate::mix::SampleFormat;
use crate::render::{Buffers, Player, Settings, SplitPlayer};
use crate::wav::{Container, Layout};
use creel::Pool;
use creel_console::AtomicFile;

/// Output frames that are rendered, converted and written at a time.
pub const BLOCK_FRAMES: usize = 1024;

/// The same where several workers render a song: a millisecond or more between two meetings.
const SPLIT_FRAMES: usize = 16 << 10;

/// Bytes that are gathered before they are written: a call to the system for each block would cost
/// as much as converting it.
const WRITE_BYTES: usize = 64 << 10;

/// As many bytes as file systems take for a file's name.
pub const NAME_BYTES_MAX: usize = 255;

/// What a job renders with, made once and reused from song to song.
#[derive(Debug, Default)]
pub struct Job {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
    bytes: Vec<u8>,
}

/// How songs become files.
#[derive(Clone, Copy)]
pub struct OutputSettings<'a> {
    /// How they are played.
    pub settings: &'a Settings,
    /// What the file is like.
    pub layout: Layout,
    /// What is done to the mix.
    pub effects: &'a Effects,
    /// The gain of what it belongs to, an album or a song of stems; else it is measured where the
    /// effects ask for one.
    pub gain: Option<f32>,
    /// The pool on which each song's chips are rendered, a chip a worker; the calling thread
    /// renders all of them if there is none.
    pub split: Option<&'a Pool>,
}

/// What came of rendering a song.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All of it was rendered.
    Done(Finished),
    /// Whoever was told of the progress asked to stop.
    Cancelled,
}

/// How long and how loud a song has become.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Extent {
    /// How many frames it has.
    pub frames: u64,
    /// The loudest sample before it was made to fit the file; full scale is 1.
    pub peak: f32,
    /// How many samples lie beyond full scale, roundings not counted. Whole numbers are cut there.
    pub clipped: u64,
}

/// Full scale; what is beyond it by no more than a step of 16 bits is rounding.
const FULL_SCALE: f32 = 1.0 + 1.0 / 32_768.0;
/// Samples that are looked at together.
const LANES: usize = 16;

impl Extent {
    fn add(&mut self, frames: &[[f32; 2]]) {
        self.frames += frames.len() as u64;
        // Lanes that know nothing of each other, so that the loop is vectorized.
        let (lanes, rest) = frames.as_flattened().as_chunks::<LANES>();
        let mut peaks = [0.0f32; LANES];
        for sides in lanes {
            for (peak, side) in peaks.iter_mut().zip(sides) {
                let size = side.abs();
                *peak = if size > *peak { size } else { *peak };
            }
        }
        let peak = peaks.iter().chain(rest);
        let peak = peak.fold(0.0f32, |peak, side| peak.max(side.abs()));
        self.peak = self.peak.max(peak);
        if peak > FULL_SCALE {
            let sides = frames.as_flattened().iter();
            self.clipped += sides.filter(|side| side.abs() > FULL_SCALE).count() as u64;
        }
    }

    /// Whether nothing of it is left in such samples but zeros, or `dithered`, nothing but dither.
    pub fn is_silent(&self, samples: SampleFormat, dithered: bool) -> bool {
        let step = match samples {
            SampleFormat::F32 => 0.0,
            samples => 1.0 / (1u32 << (8 * samples.bytes() - 1)) as f32,
        };
        self.peak <= if dithered { step } else { step / 2.0 }
    }
}

/// What is known of a song at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// How long and how loud it is.
    pub extent: Extent,
    /// What belongs in the place of the file's first bytes; often nothing.
    pub beginning: Vec<u8>,
}

/// Frames on their way to a kind of file.
enum Writer {
    Plain(Layout, Vec<u8>),
    Flac(Box<Flac>),
}

impl Writer {
    /// A writer of so many frames, and the file's header.
    fn new(layout: Layout, rate: u32, frames: u64, tags: &Gd3) -> Result<(Writer, Vec<u8>)> {
        if layout.container == Container::Flac {
            let flac = Flac::new(layout.samples, rate, frames)?;
            let header = flac.header(tags);
            return Ok((Writer::Flac(Box::new(flac)), header));
        }
        let (header, trailer) = layout.around(rate, frames, tags)?;
        Ok((Writer::Plain(layout, trailer), header))
    }

    /// Appends frames to `bytes` as the file holds them, or holds them back.
    fn push(&mut self, frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        match self {
            Writer::Plain(layout, _) => layout.encode(frames, bytes),
            Writer::Flac(flac) => flac.push(frames, bytes),
        }
    }

    /// Appends what the file ends with; gives what it should begin with instead of what it does.
    fn finish(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        match self {
            Writer::Plain(_, trailer) => {
                bytes.append(trailer);
                Vec::new()
            }
            Writer::Flac(flac) => flac.finish(bytes),
        }
    }
}

/// Whether a song can be played with these settings and fits such a file.
///
/// # Errors
///
/// As [`Job::render`], but for what a sink fails with.
pub fn check(song: &Song, settings: &Settings, layout: Layout) -> Result<()> {
    Player::check(song, settings)?;
    let (frames, _) = settings.frames(song);
    Writer::new(layout, settings.sample_rate, frames, &song.tags).map(drop)
}

impl Job {
    /// Renders `song` as the bytes of a sound file, header first, block after block into `sink`.
    /// Where the effects ask for a loudness, it is played twice, first to be measured.
    ///
    /// `progress` is told the frames of each block and says whether to go on.
    ///
    /// # Errors
    ///
    /// As [`Player::new`]; [`Error::TooLarge`] if the file would pass 4 GiB; [`Error::Unsupported`]
    /// if its format does not hold such samples; what `sink` fails with.
    pub fn render(
        &mut self,
        song: &Song,
        how: OutputSettings<'_>,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Outcome> {
        let OutputSettings {
            settings, layout, ..
        } = how;
        let gain = match (how.gain, how.effects.loudness) {
            (_, Loudness::AsIs) => 1.0,
            // What was measured had the volume, which so is no more; it counts behind the gain.
            (Some(gain), _) => gain * settings.volume,
            (None, Loudness::Album) => 1.0,
            (None, wanted) => match self.measure(song, how, || progress(0))? {
                Some(measured) => measured.gain(wanted, how.effects.soft_clip) * settings.volume,
                None => return Ok(Outcome::Cancelled),
            },
        };
        let mut player = self.player(song, how)?;
        let rate = settings.sample_rate;
        let mut chain = Chain::whole(how.effects, rate, gain, layout.samples);
        let (mut writer, header) = Writer::new(layout, rate, player.frames(), &song.tags)?;
        let mut extent = Extent::default();
        sink(&header)?;
        self.mix.resize(player.block_frames(), [0.0; 2]);
        self.bytes.clear();
        loop {
            let frames = player.fill(&mut self.buffers, &mut self.mix);
            let mix = &mut self.mix[..frames];
            chain.apply(mix);
            extent.add(mix);
            writer.push(mix, &mut self.bytes);
            if frames == 0 {
                let beginning = writer.finish(&mut self.bytes);
                sink(&self.bytes)?;
                return Ok(Outcome::Done(Finished { extent, beginning }));
            }
            if self.bytes.len() >= WRITE_BYTES {
                sink(&self.bytes)?;
                self.bytes.clear();
            }
            if !progress(frames as u64) {
                return Ok(Outcome::Cancelled);
            }
        }
    }

    /// Plays `song` and measures it as it would be without a gain; none once `go_on` says no.
    ///
    /// # Errors
    ///
    /// As [`Player::new`] and [`Meter::new`].
    pub fn measure(
        &mut self,
        song: &Song,
        how: OutputSettings<'_>,
        go_on: impl Fn() -> bool,
    ) -> Result<Option<Measured>> {
        let rate = how.settings.sample_rate;
        let mut meter = Meter::new(rate)?;
        let mut player = self.player(song, how)?;
        let mut chain = Chain::before_gain(how.effects, rate);
        self.mix.resize(player.block_frames(), [0.0; 2]);
        loop {
            let frames = player.fill(&mut self.buffers, &mut self.mix);
            if frames == 0 {
                return Ok(Some(meter.measured()));
            }
            chain.apply(&mut self.mix[..frames]);
            meter.push(&self.mix[..frames]);
            if !go_on() {
                return Ok(None);
            }
        }
    }

    fn player<'s>(&mut self, song: &'s Song, how: OutputSettings<'s>) -> Result<AnyPlayer<'s>> {
        Ok(match how.split {
            Some(pool) => AnyPlayer::Split(SplitPlayer::new(song, how.settings)?, pool),
            None => {
                let player = Player::new(song, how.settings, &mut self.buffers)?;
                AnyPlayer::Alone(Box::new(player))
            }
        })
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
        how: OutputSettings<'_>,
        path: &Path,
        progress: impl Fn(u64) -> bool,
    ) -> Result<Option<TemporaryFile>> {
        let mut rendered = TemporaryFile::create(path)?;
        let file = &mut rendered.file;
        let outcome = self.render(song, how, |bytes| file.write_all(bytes), progress)?;
        Ok(match outcome {
            Outcome::Done(finished) => {
                rendered.extent = finished.extent;
                rendered.file.seek(SeekFrom::Start(0))?;
                rendered.file.write_all(&finished.beginning)?;
                Some(rendered)
            }
            Outcome::Cancelled => None,
        })
    }
}

/// A song being played, by one thread or by several.
enum AnyPlayer<'a> {
    Alone(Box<Player<'a>>),
    Split(SplitPlayer<'a>, &'a Pool),
}

impl AnyPlayer<'_> {
    fn frames(&self) -> u64 {
        match self {
            AnyPlayer::Alone(player) => player.frames(),
            AnyPlayer::Split(player, _) => player.frames(),
        }
    }

    /// Output frames a call.
    fn block_frames(&self) -> usize {
        match self {
            AnyPlayer::Alone(_) => BLOCK_FRAMES,
            AnyPlayer::Split(..) => SPLIT_FRAMES,
        }
    }

    fn fill(&mut self, buffers: &mut Buffers, out: &mut [[f32; 2]]) -> usize {
        match self {
            AnyPlayer::Alone(player) => player.fill(buffers, out),
            AnyPlayer::Split(player, pool) => player.fill(pool, out),
        }
    }
}

/// A sound file written under a passing name; removed unless it is published.
#[derive(Debug)]
pub struct TemporaryFile {
    file: AtomicFile,
    extent: Extent,
}

impl TemporaryFile {
    fn create(path: &Path) -> Result<TemporaryFile> {
        Ok(TemporaryFile {
            file: AtomicFile::create(path)?,
            extent: Extent::default(),
        })
    }

    /// How long and how loud it is.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Brings the file to the disk and gives it its name. Blocks until the disk has it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; no file is left then.
    pub fn publish(self) -> Result<()> {
        self.file.commit().map_err(Error::Io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_reports_silence_and_clipping() {
        let of = |blocks: &[&[[f32; 2]]]| {
            let mut extent = Extent::default();
            blocks.iter().for_each(|block| extent.add(block));
            extent
        };
        let loud = of(&[&[[0.5, -1.25]], &[[1.0, 1.5], [0.0; 2]]]);
        let expected = Extent {
            frames: 3,
            peak: 1.5,
            clipped: 2,
        };
        assert_eq!(loud, expected);
        let half_a_step = of(&[&[[0.5 / 32_768.0, 0.0]]]);
        assert!(half_a_step.is_silent(SampleFormat::I16, false));
        assert!(!half_a_step.is_silent(SampleFormat::I24, false));
        assert!(!half_a_step.is_silent(SampleFormat::F32, false));
        let one = of(&[&[[1.0 / 32_768.0; 2]]]);
        assert!(one.is_silent(SampleFormat::I16, true) && !one.is_silent(SampleFormat::I16, false));
        assert!(of(&[]).is_silent(SampleFormat::F32, false));
    }
}
