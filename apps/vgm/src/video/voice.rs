//! The waves of the voices: each voice of the song is rendered on its own, some pictures at a time.

use crate::chips::selection::Selection;
use crate::effects::{Chain, Effects};
use crate::error::Result;
use crate::format::Song;
use crate::render::{Buffers, Lane, Player, Settings};

use super::trigger::Trigger;

/// The number of frames that we render at a time.
const BLOCK: usize = 1024;

/// A voice of a song, with the part of its wave that the next pictures show.
pub struct Voice<'s> {
    player: Player<'s>,
    buffers: Buffers,
    chain: Chain,
    block: Vec<[f32; 2]>,
    trigger: Trigger,
    /// The wave around the next pictures, as the mean of left and right.
    wave: Vec<f32>,
    /// The frame of the song of the first sample in `wave`. It is negative at the start of the
    /// song, before which there is silence.
    first: i64,
    /// The factor by which we draw the wave larger.
    scale: f32,
    /// The place of the wave in each of the next pictures.
    views: Vec<View>,
}

/// The place of the wave in one picture.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The position in [`Voice::waves`] at the left edge.
    pub start: f64,
}

impl<'s> Voice<'s> {
    /// Creates a voice at the start of the song.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Player::new`].
    pub fn new(song: &'s Song, settings: &Settings, lane: Lane) -> Result<Self> {
        let mut own = settings.clone();
        own.chips = Selection {
            only: Some((lane.chip, Some(lane.voice))),
            // One copy of the chip is enough for a picture. Without `live`, the sound would be the
            // difference of two copies.
            live: true,
            ..settings.chips.clone()
        };
        let mut buffers = Buffers::default();
        let player = Player::new(song, &own, &mut buffers)?;
        let trigger = Trigger::new(settings.sample_rate);
        let margin = trigger.margin();
        Ok(Voice {
            player,
            buffers,
            // An oscilloscope also removes the mean. Otherwise the waves of some chips would lie
            // above the middle of their panels.
            chain: Chain::before_gain(&dc_filter_only(), settings.sample_rate),
            block: vec![[0.0; 2]; BLOCK],
            wave: vec![0.0; margin],
            first: -(margin as i64),
            trigger,
            scale: 1.0,
            views: Vec::new(),
        })
    }

    /// Returns the wave around the next pictures, and its place in each of them.
    pub fn waves(&self) -> (&[f32], &[View]) {
        (&self.wave, &self.views)
    }

    /// Renders the whole song and returns the size of the wave: the level that 19 of 20 pictures
    /// with sound do not exceed, or 0 if the voice is silent. Returns `None` if `go_on` returned
    /// false.
    pub fn measure(&mut self, step: usize, go_on: impl Fn() -> bool) -> Option<f32> {
        let mut peaks = Vec::new();
        self.wave.clear();
        while self.render_block() {
            while self.wave.len() >= step {
                peaks.extend(self.wave.drain(..step).map(f32::abs).reduce(f32::max));
            }
            if !go_on() {
                return None;
            }
        }
        peaks.retain(|peak| *peak > AUDIBLE);
        peaks.sort_by(f32::total_cmp);
        Some(peaks.get(peaks.len() * 19 / 20).copied().unwrap_or(0.0))
    }

    /// Sets the size of the wave, which [`measure`](Self::measure) returned, so that it fills its
    /// panel.
    pub fn set_size(&mut self, size: f32) {
        self.scale = FILLED / size.max(AUDIBLE);
    }

    /// Renders the wave for the next pictures, and finds the position in the wave at which each
    /// picture starts, so that the wave seems to stand still. `centres` are the frames of the song
    /// in the middle of the pictures, and `length` is the number of samples of a picture.
    pub fn advance(&mut self, centres: &[u64], length: f64) {
        let (Some(first), Some(last)) = (centres.first(), centres.last()) else {
            return;
        };
        let margin = self.trigger.margin().max(length as usize + 2) as i64;
        let until = *last as i64 + margin;
        while self.end() < until && self.render_block() {}
        let missing = usize::try_from(until - self.end()).unwrap_or(0);
        self.wave.resize(self.wave.len() + missing, 0.0);
        // Drop the part that no later picture needs.
        let unused = *first as i64 - margin - self.first;
        if unused > 0 {
            self.wave.drain(..unused as usize);
            self.first += unused;
        } else {
            let before = vec![0.0; unused.unsigned_abs() as usize];
            self.wave.splice(..0, before);
            self.first += unused;
        }
        self.views.clear();
        for centre in centres {
            let centre = (*centre as i64 - self.first) as usize;
            let place = centre as f64 + self.trigger.find(&self.wave, centre);
            self.views.push(View {
                start: place - length * 0.5,
            });
        }
    }

    fn end(&self) -> i64 {
        self.first + self.wave.len() as i64
    }

    /// Appends the next block to the wave. Returns false at the end of the song.
    fn render_block(&mut self) -> bool {
        let made = self.player.fill(&mut self.buffers, &mut self.block);
        let block = &mut self.block[..made];
        self.chain.apply(block);
        let scale = self.scale * 0.5;
        self.wave
            .extend(block.iter().map(|[left, right]| (left + right) * scale));
        made > 0
    }
}

/// The share of the panel's height that a wave fills.
const FILLED: f32 = 0.85;

/// The level below which a voice counts as silent: -70 dB.
const AUDIBLE: f32 = 0.000_316;

fn dc_filter_only() -> Effects {
    Effects {
        dc_filter: true,
        ..Effects::default()
    }
}
