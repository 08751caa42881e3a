//! A song under way: its player, copies of it at earlier moments, which voices are heard, in which
//! tempo and at which pitch.
//!
//! Invariant: what is played from a frame on has the same bits however it was come to, in the song's
//! own tempo and at its own pitch.

use std::collections::VecDeque;

use super::notes::NoteTracker;
use super::pitch::PitchShifter;
use super::{MeterMode, VOICES_MAX, VoiceMeter};
use crate::error::Result;
use crate::format::Song;
use crate::render::{Lane, Scratch, Settings, SplitPlayer, TEMPO};

/// A copy of the player is kept every so many seconds: from one, a song is played hundreds of times
/// faster than it sounds, so any moment is at hand within some 10 ms.
const COPY_EVERY_SECONDS: u64 = 2;
/// Copies of one song, at most; when there are more, every other one goes.
const COPIES_MAX: usize = 256;
/// Copies of the last moments, so many blocks apart: what is made ahead is made anew when voices come
/// or go.
const RECENT_INTERVAL: usize = 5;
const RECENT_MAX: usize = 5;

/// A song under way, that any moment of can be gone to.
pub struct SongPlayer<'s> {
    song: &'s Song,
    player: SplitPlayer<'s>,
    notes: NoteTracker<'s>,
    lanes: Vec<Lane>,
    /// In the order of their frames; the first is the start.
    copies: Vec<SplitPlayer<'s>>,
    copy_every: u64,
    /// In the order of their frames, all after the last seek.
    recent: VecDeque<SplitPlayer<'s>>,
    blocks: usize,
    /// Bit by voice.
    voice_mask: u64,
    /// In thousandths.
    tempo: u32,
    pitch: PitchShifter,
    scratch: Scratch,
    sample_rate: u32,
}

impl<'s> SongPlayer<'s> {
    /// At the start; of the voices, those are heard that the settings select.
    ///
    /// # Errors
    ///
    /// As [`SplitPlayer::new`].
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

    /// The names of the voices, by their bits.
    pub fn voices(&self) -> Vec<String> {
        let lanes = self.lanes.iter().take(VOICES_MAX);
        lanes.map(|lane| lane.name(&self.song.header)).collect()
    }

    /// How many frames it has.
    pub fn frames(&self) -> u64 {
        self.player.frames()
    }

    /// The frame that comes next.
    pub fn frame(&self) -> u64 {
        self.player.frame()
    }

    /// Which voices are heard, a bit each.
    pub fn voice_mask(&self) -> u64 {
        self.voice_mask
    }

    /// Lets these voices be heard from here on, a bit each.
    pub fn set_voice_mask(&mut self, heard: u64) {
        self.voice_mask = heard;
        self.apply_settings();
    }

    /// Goes on in this tempo and at this pitch, in thousandths.
    pub fn set_tempo(&mut self, tempo: u32, pitch: u32) {
        self.tempo = tempo;
        self.pitch.set(pitch);
        self.apply_settings();
    }

    /// Plays the loop as often as these settings say.
    pub fn set_length(&mut self, settings: &Settings) {
        let copies = self.copies.iter_mut().chain(&mut self.recent);
        for player in copies.chain([&mut self.player]) {
            player.set_length(self.song, settings);
        }
    }

    /// Brings the player, perhaps a copy of an earlier moment, to what holds now.
    fn apply_settings(&mut self) {
        let (lanes, heard) = (&self.lanes, self.voice_mask);
        self.player.set_voices(|lane| {
            let place = lanes.iter().position(|other| *other == lane);
            place.is_none_or(|place| place >= VOICES_MAX || heard >> place & 1 == 1)
        });
        self.player.set_tempo(self.pitch.tempo_within(self.tempo));
    }

    /// The next frames; fewer at the end, then none.
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

    /// Goes to a frame, or to the end if there is none such; `scratch` is overwritten.
    pub fn seek(&mut self, to: u64, scratch: &mut Vec<[f32; 2]>) {
        let to = self.start_seek(to);
        while self.advance_seek(to, scratch) {}
        self.finish_seek();
    }

    /// Begins to go to a frame: is at the nearest copy before it; returns which frame that will be.
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
        // Going on from where it is costs less than from a copy further back.
        if self.frame() > to || self.frame() < nearest.frame() {
            self.player = nearest.clone();
            self.rebuild_notes();
        }
        self.recent.clear();
        self.pitch.reset();
        self.player.set_tempo(TEMPO);
        to
    }

    /// Goes some way to a frame, which takes a millisecond or less; whether there is more of it.
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

    /// Goes on from here as was ordered.
    pub(super) fn finish_seek(&mut self) {
        self.blocks = 0;
        self.apply_settings();
    }

    /// The notes are walked from the start: it takes a thousandth of what rendering takes.
    fn rebuild_notes(&mut self) {
        self.notes = NoteTracker::new(self.song, self.sample_rate);
    }

    /// What the voices play here, for who looks at them: their notes, and what of each would be heard
    /// in the next `frames` frames.
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

/// Brings the middle between the highest and the lowest sample to 0, for chips whose pins swing
/// between 0 and a level take their time for that; returns how far they are from it.
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

/// Says when voices are looked at: as often as is worth drawing, but for no more than three hundredths
/// of the time.
#[derive(Debug, Default)]
pub(super) struct MeterSchedule {
    rest: u64,
}

impl MeterSchedule {
    /// At least so many blocks lie between two looks.
    const METER_INTERVAL_MIN: u64 = 5;

    /// Whether this block is looked at.
    pub(super) fn is_due(&mut self, seeing: MeterMode) -> bool {
        self.rest = self.rest.saturating_sub(1);
        seeing != MeterMode::Off && self.rest == 0
    }

    /// One took so long, in nanoseconds, and blocks last so long.
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
