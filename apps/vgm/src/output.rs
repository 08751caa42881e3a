//! Renders one song to one sound file. We write a temporary file next to the final one, sync it,
//! and rename it.
//!
//! Invariant: a file with its final name is always complete, even if something fails or the process
//! is killed. Rendering and publishing are two steps, so that a job does not have to wait for the
//! disk.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crate::effects::{Chain, Effects, Loudness, Measured, Meter};
use crate::error::{Error, Result};
use crate::flac::Flac;
use crate::format::{Song, TICKS_PER_SECOND};
use crate::mix::SampleFormat;
use crate::render::{Buffers, Player, Settings, SplitPlayer};
use crate::tags::FileTags;
use crate::wav::{Container, Layout};
use creel::Pool;
use creel_console::AtomicFile;

/// The number of output frames that we render and convert at a time.
pub const BLOCK_FRAMES: usize = 1024;

/// The number of frames per block if several workers share a song. A block then usually takes a
/// millisecond or more, so that synchronizing the workers costs little.
const SPLIT_FRAMES: usize = 16 << 10;

/// The number of bytes that we collect before we write them, because a system call for each block
/// would cost as much as converting it.
const WRITE_BYTES: usize = 64 << 10;

/// The maximum size of a file name in bytes on common file systems.
pub const NAME_BYTES_MAX: usize = 255;

/// The buffers of a job. They are reused from song to song.
#[derive(Debug, Default)]
pub struct Job {
    buffers: Buffers,
    mix: Vec<[f32; 2]>,
    bytes: Vec<u8>,
}

/// The settings for rendering a song to a file.
#[derive(Clone, Copy)]
pub struct OutputSettings<'a> {
    /// The settings for playing the song.
    pub settings: &'a Settings,
    /// The format of the file.
    pub layout: Layout,
    /// The effects on the mix.
    pub effects: &'a Effects,
    /// The gain of the album, or of the song to which a stem belongs. If it is `None`, we measure
    /// the song first for [`Loudness::Track`] and [`Loudness::Peak`], and [`Loudness::Album`] has
    /// no effect.
    pub gain: Option<f32>,
    /// The number of the song in its folder, for the tags.
    pub track: Option<usize>,
    /// The pool whose workers render the parts of the song's chips, each part on one worker. If it
    /// is `None`, the calling thread renders all chips.
    pub split: Option<&'a Pool>,
}

/// The outcome of rendering a song.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The whole song was rendered.
    Done(Finished),
    /// The progress callback asked to stop.
    Cancelled,
}

/// The length and the loudness of a rendered song.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Extent {
    /// The number of frames.
    pub frames: u64,
    /// The loudest sample before the conversion to the format of the file, where 1 is full scale.
    pub peak: f32,
    /// The number of samples beyond full scale, apart from rounding errors. Integer formats clip
    /// these samples.
    pub clipped: u64,
}

/// Full scale, plus one step of 16 bits to allow for rounding errors.
const FULL_SCALE: f32 = 1.0 + 1.0 / 32_768.0;
/// The number of samples that are processed together.
const LANES: usize = 16;

impl Extent {
    fn add(&mut self, frames: &[[f32; 2]]) {
        self.frames += frames.len() as u64;
        // The lanes are independent, so that the compiler can vectorize the loop.
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

    /// Returns whether all samples of this format would be 0. If `dithered` is set, the samples may
    /// also consist of dither noise only.
    pub fn is_silent(&self, samples: SampleFormat, dithered: bool) -> bool {
        let step = match samples {
            SampleFormat::F32 => 0.0,
            samples => 1.0 / (1u32 << (8 * samples.bytes() - 1)) as f32,
        };
        self.peak <= if dithered { step } else { step / 2.0 }
    }
}

/// The result of a rendered song.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The length and the loudness.
    pub extent: Extent,
    /// The bytes that must replace the first bytes of the file. Often there are none.
    pub beginning: Vec<u8>,
}

/// Encodes frames in the format of a file.
enum Writer {
    Plain(Layout, Vec<u8>),
    Flac(Box<Flac>),
}

impl Writer {
    /// Creates a writer for this number of frames. Also returns the header of the file.
    fn new(layout: Layout, rate: u32, frames: u64, tags: &FileTags) -> Result<(Writer, Vec<u8>)> {
        if layout.container == Container::Flac {
            let flac = Flac::new(layout.samples, rate, frames)?;
            let header = flac.header(tags);
            return Ok((Writer::Flac(Box::new(flac)), header));
        }
        let (header, trailer) = layout.around(rate, frames, tags)?;
        Ok((Writer::Plain(layout, trailer), header))
    }

    /// Encodes frames and appends them to `bytes`. It may keep some frames until a block is full.
    fn push(&mut self, frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        match self {
            Writer::Plain(layout, _) => layout.encode(frames, bytes),
            Writer::Flac(flac) => flac.push(frames, bytes),
        }
    }

    /// Appends the end of the file. Returns the bytes that must replace the first bytes of the
    /// file.
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

/// Checks that a song can be played with these settings and fits in a file of this format.
///
/// # Errors
///
/// Returns the same errors as [`Job::render`], except those of the sink.
pub fn check(song: &Song, settings: &Settings, layout: Layout) -> Result<()> {
    Player::check(song, settings)?;
    let (frames, _) = settings.frames(song);
    let tags = file_tags(song, settings, None);
    Writer::new(layout, settings.sample_rate, frames, &tags).map(drop)
}

/// Returns the tags of a song's file without its ReplayGain.
fn file_tags(song: &Song, settings: &Settings, track: Option<usize>) -> FileTags {
    let frame = |tick: u64| {
        let frames = u128::from(tick) * u128::from(settings.sample_rate);
        frames.div_ceil(u128::from(TICKS_PER_SECOND)) as u64
    };
    let loop_frames = song.repeat().map(|repeat| {
        let start = frame(repeat.tick);
        (start, frame(song.ticks()) - start)
    });
    FileTags {
        names: song.tags.clone(),
        track,
        loop_frames,
        replay_gain: None,
    }
}

impl Job {
    /// Renders `song` and passes the bytes of a sound file to `sink`, beginning with the header. We
    /// play the song twice if we must measure it first: for [`Loudness::Tagged`], and without a
    /// gain also for [`Loudness::Track`] and [`Loudness::Peak`].
    ///
    /// `progress` receives the number of rendered frames of each block, which is 0 for a measured
    /// block. It returns whether to continue.
    ///
    /// # Errors
    ///
    /// - The errors of [`Player::new`].
    /// - [`Error::TooLarge`] if the file would exceed 4 GiB.
    /// - [`Error::Unsupported`] if the format does not support the samples.
    /// - The errors of `sink`.
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
        let mut tags = file_tags(song, settings, how.track);
        let gain = match (how.gain, how.effects.loudness) {
            (_, Loudness::AsIs) => 1.0,
            (_, Loudness::Tagged) => match self.measure(song, how, || progress(0))? {
                Some(measured) => {
                    tags.replay_gain = measured.replay_gain();
                    1.0
                }
                None => return Ok(Outcome::Cancelled),
            },
            // The measurement includes the volume, so the gain would cancel it. We therefore apply
            // the volume again after the gain.
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
        let (mut writer, header) = Writer::new(layout, rate, player.frames(), &tags)?;
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

    /// Plays `song` and measures it without a gain. Returns `None` if `go_on` returned false.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Player::new`] and [`Meter::new`].
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

    /// Renders `song` to a temporary file for `path`, whose folder must exist. The file gets its
    /// name when you [publish](TemporaryFile::publish) it. Returns `None` if `progress` asked to
    /// stop.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Job::render`], or [`Error::Io`] if the file cannot be created or
    /// written. If it fails or stops, it removes the temporary file.
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

/// A playing song, on one thread or on several.
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

    /// Returns the number of output frames per call of `fill`.
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

/// A sound file with a temporary name. It is removed when dropped, unless it was published.
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

    /// Returns the length and the loudness.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Syncs the file to the disk and renames it. It blocks until the disk has the data.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Io`] if this fails. The temporary file is then removed.
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
