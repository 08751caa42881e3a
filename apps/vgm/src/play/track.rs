//! A playing song: its player, copies of the player at earlier positions for seeking, the unmuted
//! voices, the tempo and the pitch.
//!
//! Invariant: at the original tempo and pitch, and if no voice was muted, the samples from a frame
//! on are the same bits. They do not depend on how playback reached that frame.

use std::collections::VecDeque;

use super::notes::NoteTracker;
use super::pitch::PitchShifter;
use super::{MeterMode, VOICES_MAX, VoiceMeter};
use crate::error::Result;
use crate::format::Song;
use crate::render::{Lane, Scratch, Settings, SplitPlayer, TEMPO};

/// The time between two copies of the player, which is longer for long songs. Rendering is hundreds
/// of times faster than real time. From the nearest copy, we can therefore usually reach a position
/// that was rendered before in about 10 ms. A seek beyond the last copy must render everything in
/// between.
const COPY_EVERY_SECONDS: u64 = 2;
/// The maximum number of copies. If there are more, we remove every other one.
const COPIES_MAX: usize = 256;
/// The number of blocks between two recent copies. We need recent copies when a voice is muted or
/// unmuted, because we then render the blocks ahead of the device again.
const RECENT_INTERVAL: usize = 5;
/// The maximum number of recent copies.
const RECENT_MAX: usize = 5;

/// A playing song with fast seeking.
pub struct SongPlayer<'s> {
    song: &'s Song,
    player: SplitPlayer<'s>,
    notes: NoteTracker<'s>,
    lanes: Vec<Lane>,
    /// Copies of the player in the order of their frames. The first is at the start.
    copies: Vec<SplitPlayer<'s>>,
    copy_every: u64,
    /// Recent copies in the order of their frames, all made after the last seek.
    recent: VecDeque<SplitPlayer<'s>>,
    blocks: usize,
    /// The unmuted voices, one bit per voice.
    voice_mask: u64,
    /// The tempo in thousandths.
    tempo: u32,
    pitch: PitchShifter,
    scratch: Scratch,
    sample_rate: u32,
}

impl<'s> SongPlayer<'s> {
    /// Creates a player at the start of the song. The voices that the settings select are unmuted.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`SplitPlayer::new`].
    pub fn new(song: &'s Song, settings: &Settings) -> Result<Self> {
        let mut whole = settings.clone();
        whole.chips = crate::chips::selection::Selection {
            live: true,
            ..Default::default()
        };
        let player = SplitPlayer::new(song, &whole)?;
        let lanes = player.lanes();
        let selected = lanes.iter().take(VOICES_MAX).enumerate();
        let selected = selected.filter(|(_, lane)| settings.chips.has_voice(lane.chip, lane.voice));
        let heard = selected.fold(0, |heard, (place, _)| heard | 1 << place);
        let rest = u64::MAX.checked_shl(lanes.len() as u32).unwrap_or(0);
        let mut playing = SongPlayer {
            song,
            copies: vec![player.clone()],
            player,
            notes: NoteTracker::new(song, settings.sample_rate),
            lanes,
            copy_every: COPY_EVERY_SECONDS * u64::from(settings.sample_rate),
            recent: VecDeque::new(),
            blocks: 0,
            voice_mask: u64::MAX,
            tempo: TEMPO,
            pitch: PitchShifter::default(),
            scratch: Scratch::default(),
            sample_rate: settings.sample_rate,
        };
        playing.set_voice_mask(heard | rest);
        Ok(playing)
    }

    /// Returns the names of the voices, in the order of their bits.
    pub fn voices(&self) -> Vec<String> {
        let lanes = self.lanes.iter().take(VOICES_MAX);
        lanes.map(|lane| lane.name(&self.song.header)).collect()
    }

    /// Returns the number of frames of the song.
    pub fn frames(&self) -> u64 {
        self.player.frames()
    }

    /// Returns the position of the next frame.
    pub fn frame(&self) -> u64 {
        self.player.frame()
    }

    /// Returns the unmuted voices, one bit per voice.
    pub fn voice_mask(&self) -> u64 {
        self.voice_mask
    }

    /// Sets the unmuted voices from the current position on, one bit per voice.
    pub fn set_voice_mask(&mut self, heard: u64) {
        self.voice_mask = heard;
        self.apply_settings();
    }

    /// Sets the tempo and the pitch from the current position on, in thousandths.
    pub fn set_tempo(&mut self, tempo: u32, pitch: u32) {
        self.tempo = tempo;
        self.pitch.set(pitch);
        self.apply_settings();
    }

    /// Sets the number of loops and the fade from the settings.
    pub fn set_length(&mut self, settings: &Settings) {
        let copies = self.copies.iter_mut().chain(&mut self.recent);
        for player in copies.chain([&mut self.player]) {
            player.set_length(self.song, settings);
        }
    }

    /// Applies the current voices and tempo to the player, which may be an older copy.
    fn apply_settings(&mut self) {
        let (lanes, heard) = (&self.lanes, self.voice_mask);
        self.player.set_voices(|lane| {
            let place = lanes.iter().position(|other| *other == lane);
            place.is_none_or(|place| place >= VOICES_MAX || heard >> place & 1 == 1)
        });
        self.player.set_tempo(self.pitch.tempo_within(self.tempo));
    }

    /// Renders the next frames. Returns their number, which is smaller than `out` at the end, and
    /// then 0.
    pub fn fill(&mut self, out: &mut [[f32; 2]]) -> usize {
        let frame = self.player.frame();
        let last = self.copies.last().map_or(0, SplitPlayer::frame);
        if frame >= last + self.copy_every {
            self.copies.push(self.player.clone());
            if self.copies.len() > COPIES_MAX {
                let mut place = 0;
                self.copies.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.copy_every *= 2;
            }
        }
        if self.blocks.is_multiple_of(RECENT_INTERVAL) {
            if self.recent.len() == RECENT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(self.player.clone());
        }
        self.blocks += 1;
        let player = &mut self.player;
        self.pitch.fill(out, |out| player.fill_here(out))
    }

    /// Seeks to a frame, or to the end if the song is shorter. It overwrites `scratch`.
    pub fn seek(&mut self, to: u64, scratch: &mut Vec<[f32; 2]>) {
        let to = self.start_seek(to);
        while self.advance_seek(to, scratch) {}
        self.finish_seek();
    }

    /// Starts a seek at the nearest copy before the frame, or at the current position if that is
    /// nearer. Returns the frame of the destination, which is at most the end of the song.
    pub(super) fn start_seek(&mut self, to: u64) -> u64 {
        let to = to.min(self.frames());
        let reached = |copies: &mut dyn DoubleEndedIterator<Item = &SplitPlayer<'s>>| {
            copies.rev().find(|copy| copy.frame() <= to).cloned()
        };
        let recent = reached(&mut self.recent.iter());
        let after = self.copies.partition_point(|copy| copy.frame() <= to);
        let kept = &self.copies[after.max(1) - 1];
        let nearest = match &recent {
            Some(recent) if recent.frame() >= kept.frame() => recent,
            _ => kept,
        };
        // If the current position is nearer than the copy, we continue from there.
        if self.frame() > to || self.frame() < nearest.frame() {
            self.player = nearest.clone();
            self.rebuild_notes();
        }
        self.recent.clear();
        self.pitch.reset();
        self.player.set_tempo(TEMPO);
        to
    }

    /// Advances a seek by a step of about a millisecond or less. Returns whether to continue.
    pub(super) fn advance_seek(&mut self, to: u64, scratch: &mut Vec<[f32; 2]>) -> bool {
        let frame = self.player.frame();
        if frame >= to {
            return false;
        }
        let left = usize::try_from(to - frame).unwrap_or(usize::MAX);
        scratch.resize(left.min(4096), [0.0; 2]);
        let last = self.copies.last().map_or(0, SplitPlayer::frame);
        if frame >= last + self.copy_every && self.copies.len() < COPIES_MAX {
            self.copies.push(self.player.clone());
        }
        self.player.fill_here(scratch) > 0
    }

    /// Ends a seek, and applies the current settings.
    pub(super) fn finish_seek(&mut self) {
        self.blocks = 0;
        self.apply_settings();
    }

    /// Restarts the tracking of notes from the start of the song. It takes about a thousandth of
    /// the time for rendering.
    fn rebuild_notes(&mut self) {
        self.notes = NoteTracker::new(self.song, self.sample_rate);
    }

    /// Measures the voices at the current position: their notes, and the sound of each of them in
    /// the next `frames` frames.
    pub fn meter_voices(&mut self, frames: usize) -> Vec<VoiceMeter> {
        self.notes.advance_to(self.player.frame());
        let mut seen = Vec::new();
        for &lane in self.lanes.iter().take(VOICES_MAX) {
            let mut wave = vec![0.0; frames];
            let made = self.player.render_voice(lane, &mut self.scratch, &mut wave);
            wave.truncate(made);
            seen.push(VoiceMeter {
                level: remove_dc(&mut wave),
                note: self.notes.of(lane),
                wave,
            });
        }
        seen
    }
}

/// Shifts the wave so that the middle between its highest and lowest sample is 0. Returns the
/// distance of the highest sample from the middle. Some chips need this, because their output
/// swings between 0 and a level and settles only slowly.
fn remove_dc(wave: &mut [f32]) -> f32 {
    let low = wave.iter().copied().fold(f32::MAX, f32::min);
    let high = wave.iter().copied().fold(f32::MIN, f32::max);
    if low > high {
        return 0.0;
    }
    let middle = (low + high) / 2.0;
    wave.iter_mut().for_each(|sample| *sample -= middle);
    high - middle
}

/// Decides when to measure the voices: as often as the screen can show, but with at most 3 % of the
/// time.
#[derive(Debug, Default)]
pub(super) struct MeterSchedule {
    /// The number of blocks until the next measurement.
    rest: u64,
}

impl MeterSchedule {
    /// The minimum number of blocks between two measurements.
    const METER_INTERVAL_MIN: u64 = 5;

    /// Returns whether to measure at this block.
    pub(super) fn is_due(&mut self, seeing: MeterMode) -> bool {
        self.rest = self.rest.saturating_sub(1);
        seeing != MeterMode::Off && self.rest == 0
    }

    /// Records the duration of a measurement and of a block, both in nanoseconds.
    pub(super) fn record_cost(&mut self, ns: u128, block_ns: u128) {
        self.rest = Self::METER_INTERVAL_MIN.max((ns * 100 / 3 / block_ns.max(1)) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::CARRIED;

    #[test]
    fn seeking_gives_the_same_samples_as_playing() {
        let settings = Settings {
            loops: 8,
            ..Settings::default()
        };
        for carried in CARRIED.iter().take(3) {
            let song = Song::parse(carried.packed.to_vec()).unwrap();
            let mut playing = SongPlayer::new(&song, &settings).unwrap();
            let mut scratch = Vec::new();
            let mut out = vec![[0.0; 2]; 441];
            let mut at = |playing: &mut SongPlayer<'_>, frame| {
                playing.seek(frame, &mut scratch);
                assert_eq!(playing.frame(), frame.min(playing.frames()));
                let made = playing.fill(&mut out);
                out[..made].to_vec()
            };
            let end = playing.frames();
            let first: Vec<_> = (0..4).map(|n| at(&mut playing, n * end / 5 + 7)).collect();
            for n in (0..4).rev() {
                let again = at(&mut playing, n * end / 5 + 7);
                assert!(first[n as usize] == again, "{}, {n}", carried.name);
            }
            assert!(at(&mut playing, end + 5).is_empty());
            assert!(playing.copies.len() > 1, "{}", carried.name);
        }
    }
}
