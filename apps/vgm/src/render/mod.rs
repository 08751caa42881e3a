//! Playing a song: all its chips, block by block, into one mix.
//!
//! Invariant: frame `n` of a song has the same bits whatever the sizes of the blocks it is asked
//! for in, on whatever thread, and whatever was played with the same [`Buffers`] before.

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

/// What every song is scaled by unless told otherwise, -7 dB: what leaves the loudest songs at hand
/// room to full scale, with half a decibel to spare.
pub const DEFAULT_GAIN: f32 = 0.446_683_6;

/// How songs are played.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How often a loop is played, before the song's own loop base and modifier; at least 1.
    pub loops: u32,
    /// How long a song that loops fades out after that, in seconds.
    pub fade_seconds: f64,
    /// A factor on top of the song's own volume; 1 is the default.
    pub volume: f32,
    /// Frames a second to render, 8,000 to 192,000.
    pub sample_rate: u32,
    /// How native frames become output frames.
    pub quality: Quality,
    /// Which chips are heard.
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
    /// How many frames `song` has, and how many of them, at its end, are faded.
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

/// What a job keeps from song to song: scratch memory and resampling kernels.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    kernels: Kernels,
    native: Vec<[i32; 2]>,
    levels: Vec<[i32; 2]>,
}

/// The kernels made so far, for songs with chips of the same rates.
#[derive(Debug, Clone, Default)]
struct Kernels {
    quality: Quality,
    made: Vec<((u64, u64), Arc<Kernel>)>,
}

/// Kernels kept; a song has no more than a few rates.
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

/// A song being played.
#[derive(Clone)]
pub struct Player<'s> {
    song: &'s Song,
    sequencer: Sequencer<'s>,
    /// Each in the place it has among the sequencer's listeners.
    voices: Vec<PartVoice>,
    fade: Fade,
    /// The song's frame that comes next; of the next one, thousandths that have gone by.
    frame: u64,
    part: u32,
    frames: u64,
    /// Frames of the song a frame, in thousandths.
    tempo: u32,
}

/// A song's own tempo.
pub const TEMPO: u32 = 1000;

impl<'s> Player<'s> {
    /// A player at the start of `song`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) if none of the song's chips can be played or
    /// is selected,
    /// [`Error::Malformed`](crate::Error::Malformed) if a chip's clock is none it can run at.
    pub fn new(song: &'s Song, settings: &Settings, buffers: &mut Buffers) -> Result<Self> {
        let parts = settings.chips.of(parts(song)?)?;
        let gain = settings.gain(song);
        Ok(Player::of_parts(song, settings, buffers, (parts, gain)))
    }

    /// Whether there can be a player of `song`.
    ///
    /// # Errors
    ///
    /// As [`Player::new`].
    pub fn check(song: &Song, settings: &Settings) -> Result<()> {
        settings.chips.of(parts(song)?).map(drop)
    }

    /// A player of some of the song's parts, each scaled by a gain.
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
        // What comes before the first frame may set a chip's rate, so it comes first.
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
                        // Its writes wait for their turns, but its rate must be known.
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

    /// How many frames the song has in all, in its own tempo.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Lets the song go by faster by this factor from now on, in thousandths, 1 to 100,000; as high
    /// as ever. Its frames are still counted in its own tempo.
    fn set_tempo(&mut self, tempo: u32) {
        for voice in &mut self.voices {
            match voice {
                PartVoice::Frames(voice) => voice.set_tempo(tempo),
                PartVoice::Squares(voice) => voice.set_tempo(tempo),
            }
        }
        self.tempo = tempo;
    }

    /// Lets only these voices of a chip be heard from now on, a bit each: of a player of one part.
    fn set_voice_mask(&mut self, voices: u64) {
        for voice in &mut self.voices {
            match voice {
                PartVoice::Frames(voice) => voice.set_voice_mask(self.song, voices),
                PartVoice::Squares(voice) => voice.set_voice_mask(self.song, voices),
            }
        }
    }

    /// How many frames are left, in the tempo of now.
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

    /// Overwrites the front of `out` with the next frames, left and right, full scale at 1, and
    /// returns how many: fewer than asked for at the song's end, then none.
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
