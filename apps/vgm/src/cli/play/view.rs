//! What the interface knows: the song that is heard, its levels, the queue.

use std::collections::VecDeque;
use std::sync::Arc;

use creel_vgm::play::{Desk, News, Orders, Tap, Track, VOICES_MAX};

use super::Told;

/// Levels fall by this factor a frame of the screen.
const FALL: f32 = 0.85;

/// What is shown.
pub struct View {
    pub names: Vec<String>,
    pub desk: Arc<Desk>,
    pub orders: Orders,
    news: Told,
    /// Songs that are made but not heard yet, with their first blocks.
    begun: VecDeque<(u64, Arc<Track>)>,
    taps: VecDeque<Tap>,
    /// The song that is heard, with its first block.
    pub track: Option<(u64, Arc<Track>)>,
    pub levels: [f32; VOICES_MAX],
    pub heard: u64,
    /// The renderer's share of real time, in thousandths; a mean.
    pub load: f32,
    pub failed: usize,
    pub messages: Vec<String>,
    ended: bool,
    /// The voice that keys are about.
    pub selected: usize,
    pub forever: bool,
    pub shuffled: bool,
    pub repeat: creel_vgm::play::Repeat,
    pub help: bool,
}

impl View {
    pub fn new(
        names: Vec<String>,
        desk: Arc<Desk>,
        orders: Orders,
        news: Told,
        refused: usize,
    ) -> Self {
        View {
            names,
            desk,
            orders,
            news,
            begun: VecDeque::new(),
            taps: VecDeque::new(),
            track: None,
            levels: [0.0; VOICES_MAX],
            heard: u64::MAX,
            load: 0.0,
            failed: refused,
            messages: Vec::new(),
            ended: false,
            selected: 0,
            forever: false,
            shuffled: false,
            repeat: Default::default(),
            help: false,
        }
    }

    /// Takes what was told since, and shows of it what is heard by now.
    pub fn look(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Begun(serial, track) => {
                    self.ended = false;
                    self.begun.push_back((serial, track));
                }
                News::Made(tap) => self.taps.push_back(tap),
                News::Failed(place, why) => {
                    self.failed += 1;
                    self.messages.push(format!("{}: {why}", self.names[place]));
                }
                News::Ended => self.ended = true,
            }
        }
        let now = self.desk.serial();
        while self.begun.front().is_some_and(|begun| begun.0 <= now) {
            self.track = self.begun.pop_front();
            self.levels = [0.0; VOICES_MAX];
        }
        if !self.desk.is_paused() {
            self.levels.iter_mut().for_each(|level| *level *= FALL);
        }
        while self.taps.front().is_some_and(|tap| tap.serial <= now) {
            let Some(tap) = self.taps.pop_front() else {
                break;
            };
            for (level, peak) in self.levels.iter_mut().zip(tap.levels) {
                *level = level.max(peak);
            }
            self.heard = tap.heard;
            self.load += (tap.load as f32 - self.load) / 50.0;
        }
    }

    /// Whether all was played.
    pub fn is_over(&self) -> bool {
        let drained = self.begun.is_empty() && self.taps.is_empty();
        (self.ended && drained && self.desk.held_ms() == 0) || self.desk.is_ended()
    }

    /// The frame that is heard, and where that is in the song's loop: the second pass is 2.
    pub fn pass(&self) -> Option<u64> {
        let (start, length) = self.track.as_ref()?.1.looped?;
        let past = self.desk.frame().checked_sub(start)?;
        Some(past / length.max(1) + 1)
    }
}

/// What a song is called: its title and game, or its file.
pub fn title(track: &Track) -> String {
    let (title, game) = (&track.tags.track, &track.tags.game);
    match (title.is_empty(), game.is_empty()) {
        (true, true) => track.source.clone(),
        (true, false) => format!("{} ({game})", track.source),
        (false, true) => title.clone(),
        (false, false) => format!("{title} ({game})"),
    }
}
