//! Renders a song: all its chips, block by block, into one mix.
//!
//! Invariant: with the same [`Settings`], frame `n` of a song has the same bits. They do not depend
//! on the sizes of the blocks, on the thread, or on the songs that used the same [`Buffers`]
//! before.

mod frames;
mod split;
mod squares;
mod timebase;

use std::sync::Arc;

use crate::chips::bus::Bus;
use crate::chips::factory::{Part, parts};
use crate::chips::levels;
use crate::chips::selection::Selection;
use crate::error::Result;
use crate::format::{Instance, Song, TICKS_PER_SECOND};
use crate::mix::{Fade, Kernel, Quality};
use crate::sequence::Sequencer;
use frames::FrameVoice;
pub use split::{LOOKAHEAD, Lane, Scratch, SplitPlayer};
use squares::SquareVoice;
pub use timebase::Timebase;

/// The default gain of every song, -7 dB. With it, the loudest songs that we tested stay half a
/// decibel below full scale.
pub const DEFAULT_GAIN: f32 = 0.446_683_6;

/// The settings for playing songs.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The number of times to play a loop, at least 1. The song's own loop base and modifier apply
    /// on top of it.
    pub loops: u32,
    /// The length of the fade-out of a looping song after its last loop, in seconds.
    pub fade_seconds: f64,
    /// A factor on top of the song's own volume. The default is 1.
    pub volume: f32,
    /// The number of output frames per second, from 8,000 to 192,000.
    pub sample_rate: u32,
    /// The conversion from native frames to output frames.
    pub quality: Quality,
    /// The chips and voices to play.
    pub chips: Selection,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            loops: 2,
            fade_seconds: 5.0,
            volume: 1.0,
            sample_rate: TICKS_PER_SECOND,
            quality: Quality::BandLimited,
            chips: Selection::default(),
        }
    }
}

impl Settings {
    /// Returns the number of frames of `song`, and the number of faded frames at its end.
    pub fn frames(&self, song: &Song) -> (u64, u64) {
        let frames = |ticks: u64| {
            let frames = u128::from(ticks) * u128::from(self.sample_rate);
            u64::try_from(frames.div_ceil(u128::from(TICKS_PER_SECOND))).unwrap_or(u64::MAX)
        };
        let played = frames(song.ticks_with_loops(song.header.loops(self.loops)));
        let fade = match song.repeat() {
            Some(_) => (self.fade_seconds * f64::from(self.sample_rate)).round() as u64,
            None => 0,
        };
        (played.saturating_add(fade), fade)
    }

    fn gain(&self, song: &Song) -> f32 {
        DEFAULT_GAIN * self.volume * song.header.volume * levels::of_song(song)
    }
}

/// The scratch memory and resampling kernels of a job. They are reused from song to song.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    kernels: Kernels,
    native: Vec<[i32; 2]>,
    levels: Vec<[i32; 2]>,
}

/// The kernels that exist so far. Songs with chips of the same rates share them.
#[derive(Debug, Clone, Default)]
struct Kernels {
    quality: Quality,
    made: Vec<((u64, u64), Arc<Kernel>)>,
}

/// The maximum number of kernels that we keep. A song needs only a few rates.
const KERNELS_MAX: usize = 8;

impl Kernels {
    fn prepare(&mut self, quality: Quality) {
        if self.quality != quality {
            self.quality = quality;
            self.made.clear();
        }
    }

    fn get(&mut self, native: u64, output: u64) -> Arc<Kernel> {
        let made = self.made.iter().find(|made| made.0 == (native, output));
        if let Some((_, kernel)) = made {
            return kernel.clone();
        }
        if self.made.len() == KERNELS_MAX {
            self.made.remove(0);
        }
        let kernel = Arc::new(Kernel::new(self.quality, native, output));
        self.made.push(((native, output), kernel.clone()));
        kernel
    }
}

#[derive(Clone)]
enum PartVoice {
    Frames(FrameVoice),
    Squares(SquareVoice),
}

/// A playing song.
#[derive(Clone)]
pub struct Player<'s> {
    song: &'s Song,
    sequencer: Sequencer<'s>,
    /// The parts of the chips, each of which renders its own sound, in the order of the sequencer's
    /// subscribers.
    voices: Vec<PartVoice>,
    fade: Fade,
    /// The next frame of the song.
    frame: u64,
    /// The share of this frame that has been played already, in thousandths.
    part: u32,
    frames: u64,
    /// The number of song frames per output frame, in thousandths.
    tempo: u32,
}

/// The original tempo of a song.
pub const TEMPO: u32 = 1000;

impl<'s> Player<'s> {
    /// Creates a player at the start of `song`.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`](crate::Error::Unsupported) if no chip of the song is both supported
    ///   and selected.
    /// - [`Error::Malformed`](crate::Error::Malformed) if no chip can be played, and one of them
    ///   cannot run at its clock. If others can be played, such a chip is skipped.
    pub fn new(song: &'s Song, settings: &Settings, buffers: &mut Buffers) -> Result<Self> {
        let parts = settings.chips.of(parts(song)?)?;
        let gain = settings.gain(song);
        Ok(Player::of_parts(song, settings, buffers, (parts, gain)))
    }

    /// Checks that `song` can be played.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Player::new`].
    pub fn check(song: &Song, settings: &Settings) -> Result<()> {
        settings.chips.of(parts(song)?).map(drop)
    }

    /// Creates a player for some parts of the song, scaled by a gain.
    fn of_parts(
        song: &'s Song,
        settings: &Settings,
        buffers: &mut Buffers,
        (parts, gain): (Vec<(Instance, Part)>, f32),
    ) -> Self {
        let kernels = &mut buffers.kernels;
        kernels.prepare(settings.quality);
        let rate = settings.sample_rate;
        let listeners = parts.iter().map(|(chip, part)| (*chip, part.lanes()));
        let mut sequencer = Sequencer::new(song, listeners);
        // The first writes may set the rate of a chip, so we need them before we create the parts.
        sequencer.advance(1);
        let mut voices = Vec::new();
        for (listener, (instance, part)) in parts.into_iter().enumerate() {
            let queues = sequencer.queues(listener);
            let heard = (instance.chip, settings.chips.voice_sum(instance, &part));
            voices.push(match part {
                Part::Frames(chip, level) => {
                    let lane = chip.lane();
                    let bus = Bus::of(instance.chip).filter(|_| lane == 0);
                    let mut chips = frames::ChipSum::new(&chip, heard);
                    if bus.is_some() {
                        // The bus delays the writes, but we must know the rate now.
                        chips.apply_initial_writes(queues[lane].pending());
                    } else {
                        queues[lane].take_all(|action| chips.apply(song, action));
                    }
                    let way = (rate, &mut *kernels);
                    PartVoice::Frames(FrameVoice::new(chips, bus, gain * level, way))
                }
                Part::Squares(chip, lane, level) => {
                    let mut chips = squares::ChipSum::new(&chip, heard);
                    queues[lane].take_all(|action| chips.apply(song, action));
                    PartVoice::Squares(SquareVoice::new(chips, lane, gain * level, rate))
                }
            });
        }
        let (frames, faded) = settings.frames(song);
        Player {
            song,
            sequencer,
            voices,
            fade: Fade::over_last(faded, frames),
            frame: 0,
            part: 0,
            frames,
            tempo: TEMPO,
        }
    }

    /// Returns the number of frames of the song at its original tempo.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Sets the tempo from now on, in thousandths from 1 to 100,000. The pitch does not change.
    /// Frames of the song are still counted at its original tempo.
    fn set_tempo(&mut self, tempo: u32) {
        for voice in &mut self.voices {
            match voice {
                PartVoice::Frames(voice) => voice.set_tempo(tempo),
                PartVoice::Squares(voice) => voice.set_tempo(tempo),
            }
        }
        self.tempo = tempo;
    }

    /// Sets the unmuted voices from now on, one bit per voice of a chip. The player must play only
    /// one part of one chip (see [`Part`]), because every part gets the same bits.
    fn set_voice_mask(&mut self, voices: u64) {
        for voice in &mut self.voices {
            match voice {
                PartVoice::Frames(voice) => voice.set_voice_mask(self.song, voices),
                PartVoice::Squares(voice) => voice.set_voice_mask(self.song, voices),
            }
        }
    }

    /// Returns the number of remaining output frames at the current tempo.
    fn left(&self) -> usize {
        let left = self.frames.saturating_sub(self.frame);
        let left = match self.tempo {
            TEMPO => left,
            tempo => u64::try_from(u128::from(left) * 1000 / u128::from(tempo)).unwrap_or(u64::MAX),
        };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    fn pass(&mut self, frames: usize) {
        let passed = frames as u64 * u64::from(self.tempo) + u64::from(self.part);
        self.frame += passed / 1000;
        self.part = (passed % 1000) as u32;
    }

    /// Overwrites the beginning of `out` with the next frames (left and right, where 1 is full
    /// scale). Returns their number, which is smaller than `out` at the end of the song, and then
    /// 0.
    pub fn fill(&mut self, buffers: &mut Buffers, out: &mut [[f32; 2]]) -> usize {
        let length = out.len().min(self.left());
        let mix = &mut out[..length];
        mix.fill([0.0; 2]);
        let needed = self.voices.iter_mut().map(|voice| match voice {
            PartVoice::Frames(voice) => voice.tick_needed(length),
            PartVoice::Squares(voice) => voice.tick_needed(length),
        });
        self.sequencer.advance(needed.max().unwrap_or(0));
        for (listener, voice) in self.voices.iter_mut().enumerate() {
            let queues = self.sequencer.queues(listener);
            match voice {
                PartVoice::Frames(voice) => voice.mix(self.song, queues, &mut buffers.native, mix),
                PartVoice::Squares(voice) => voice.mix(self.song, queues, &mut buffers.levels, mix),
            }
        }
        self.fade.apply(self.frame, mix);
        self.pass(length);
        length
    }
}
