//! What the interface knows: the song that is heard, what its voices do, and where the user is.

use std::collections::VecDeque;
use std::sync::Arc;

use creel::channel::bounded::Receiver;
use creel_vgm::play::{MeterMode, PlayerEvent, TapBlock, Track, VoiceMeter};

use super::session::{PlayerSession, display_title};
use crate::cli::stderr::escape_control;

/// Levels fall by this factor a frame of the screen.
const LEVEL_DECAY: f32 = 0.76;
/// Frames of the screen for which a struck note shines.
const HIGHLIGHT_FRAMES: u8 = 4;
/// Frames of sound that the spectrum is made of.
pub const SPECTRUM_FRAMES: usize = 1024;

/// A voice as it is drawn.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    pub level: f32,
    pub note: Option<f32>,
    strikes: u8,
    /// Frames of the screen for which it still shines.
    pub highlight: u8,
    pub wave: Vec<f32>,
}

/// What the lower part of the screen is taken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlay {
    #[default]
    None,
    Help,
    Tags,
}

/// What is shown.
pub struct View {
    pub session: Arc<PlayerSession>,
    events: Receiver<PlayerEvent>,
    shown: Receiver<TapBlock>,
    /// Songs that are made but not heard yet, with their first blocks.
    upcoming: VecDeque<(u64, Arc<Track>)>,
    taps: VecDeque<TapBlock>,
    /// The song that is heard, with its first block.
    pub track: Option<(u64, Arc<Track>)>,
    pub lanes: Vec<Lane>,
    /// The last sound heard, left and right together.
    pub samples: VecDeque<f32>,
    /// The bands of the spectrum as they were drawn.
    pub bands: Vec<f32>,
    pub messages: Vec<String>,
    /// Songs that were heard since this was last emptied.
    pub heard_songs: Vec<Arc<Track>>,
    lost: bool,
    /// Whether all was played, and all that was told of it is shown.
    is_finished: bool,
    /// The voice that keys are about, and the first that is drawn.
    pub selected: usize,
    pub first_lane: usize,
    pub waves: bool,
    pub spectrum: bool,
    pub overlay: Overlay,
    /// Lines of what lies over the queue that were scrolled past.
    pub overlay_scroll: u16,
    /// Where in the list of songs the user is; none: where the song is.
    pub cursor: Option<usize>,
    /// What is looked for among the songs, while it is typed.
    pub search: Option<String>,
    /// Where things were drawn, for the mouse.
    pub areas: super::screen::Areas,
}

impl View {
    pub fn new(
        session: Arc<PlayerSession>,
        events: Receiver<PlayerEvent>,
        taps: Receiver<TapBlock>,
    ) -> Self {
        View {
            session,
            events,
            shown: taps,
            upcoming: VecDeque::new(),
            taps: VecDeque::new(),
            track: None,
            lanes: Vec::new(),
            samples: VecDeque::new(),
            bands: Vec::new(),
            messages: Vec::new(),
            heard_songs: Vec::new(),
            lost: false,
            is_finished: false,
            selected: 0,
            first_lane: 0,
            waves: false,
            spectrum: true,
            overlay: Overlay::None,
            overlay_scroll: 0,
            cursor: None,
            search: None,
            areas: Default::default(),
        }
    }

    /// Takes what was told since, and shows of it what is heard by now.
    pub fn update(&mut self) {
        let controls = &self.session.controls;
        // Before all that is looked at here: it is told before.
        self.is_finished = controls.is_drained() && controls.queued_ms() == 0;
        self.taps
            .extend(std::iter::from_fn(|| self.shown.try_recv().ok()));
        while let Ok(events) = self.events.try_recv() {
            match events {
                PlayerEvent::Started(serial, track) => self.upcoming.push_back((serial, track)),
                PlayerEvent::Failed(place, why) => {
                    let message = format!("{}: {why}", self.session.labels[place]);
                    self.session.now_playing().message = Some(message.clone());
                    self.messages.push(message);
                }
            }
        }
        let lost = self.session.controls.is_device_lost();
        if lost != self.lost {
            self.lost = lost;
            self.messages.push(match lost {
                true => "the sound device is gone; it is looked for".into(),
                false => "the sound device is back".into(),
            });
        }
        let serial = self.session.controls.serial();
        while self.upcoming.front().is_some_and(|begun| begun.0 <= serial) {
            self.show_track();
        }
        if !self.session.controls.is_paused() {
            for lane in &mut self.lanes {
                lane.level *= LEVEL_DECAY;
                lane.highlight = lane.highlight.saturating_sub(1);
            }
        }
        while self.taps.front().is_some_and(|tap| tap.serial <= serial) {
            let Some(tap) = self.taps.pop_front() else {
                break;
            };
            self.take(tap);
        }
    }

    /// Another song is heard, or the same with another length.
    fn show_track(&mut self) {
        let Some(begun) = self.upcoming.pop_front() else {
            return;
        };
        let is_same = self.track.as_ref().is_some_and(|track| {
            track.1.place == begun.1.place && track.1.voices == begun.1.voices
        });
        if !is_same {
            self.lanes = vec![Lane::default(); begun.1.voices.len()];
            (self.selected, self.first_lane) = (0, 0);
        }
        // Of the same song, only its length has changed, if it goes on.
        let goes_on = is_same && self.session.controls.frame() > 0;
        if !goes_on {
            self.heard_songs.push(Arc::clone(&begun.1));
        }
        self.session.set_title(begun.1.place, &begun.1.tags);
        self.session.now_playing().track = Some(Arc::clone(&begun.1));
        self.track = Some(begun);
    }

    fn take(&mut self, tap: TapBlock) {
        for (lane, meter) in self.lanes.iter_mut().zip(tap.voices) {
            let VoiceMeter { level, note, wave } = meter;
            // What was struck is told where its chip says it, and else by how it grows.
            let is_struck = match note.key_ons != lane.strikes {
                true => true,
                false => note.key_ons == 0 && level > 0.02 && level > lane.level * 2.5,
            };
            if is_struck {
                lane.highlight = HIGHLIGHT_FRAMES;
            }
            lane.strikes = note.key_ons;
            lane.level = lane.level.max(level);
            lane.note = note.hz;
            lane.wave = wave;
        }
        self.samples.extend(tap.mix);
        let too_many = self.samples.len().saturating_sub(SPECTRUM_FRAMES);
        self.samples.drain(..too_many);
        let mut now = self.session.now_playing();
        now.load += (tap.load as f32 - now.load) / 50.0;
    }

    /// Says what the renderer is to make for the screen.
    pub fn request_metering(&self) {
        let seeing = match (self.session.controls.is_paused(), self.waves) {
            (true, _) => MeterMode::Off,
            (_, true) => MeterMode::Waves,
            _ => MeterMode::Levels,
        };
        self.session.controls.set_meter_mode(seeing);
    }

    /// Whether all was played.
    pub fn is_finished(&self) -> bool {
        self.is_finished || self.session.controls.is_ended() || self.session.is_quitting()
    }

    /// Which songs are listed: all, or those that are looked for.
    pub fn filtered_songs(&self) -> Vec<usize> {
        let wanted = self.search.as_deref().unwrap_or("").to_lowercase();
        let names = self.session.labels.iter().enumerate();
        let is_wanted = |(place, name): &(usize, &String)| {
            if wanted.is_empty() {
                return true;
            }
            let title = self.session.title(*place).unwrap_or("");
            let text = format!("{title} {name}").to_lowercase();
            wanted.split_whitespace().all(|word| text.contains(word))
        };
        names.filter(is_wanted).map(|(place, _)| place).collect()
    }

    /// The place of the song that is heard.
    pub fn place(&self) -> usize {
        self.track.as_ref().map_or(0, |track| track.1.place)
    }

    /// Moves the cursor among the listed songs.
    pub fn move_cursor(&mut self, by: isize) {
        let listed = self.filtered_songs();
        let at = self.cursor.unwrap_or_else(|| self.place());
        let at = listed
            .iter()
            .position(|place| *place >= at)
            .unwrap_or(listed.len().saturating_sub(1));
        let to = at
            .saturating_add_signed(by)
            .min(listed.len().saturating_sub(1));
        self.cursor = listed.get(to).copied();
    }
}

/// What a song is called: its title and game, or its file.
pub fn title(track: &Track) -> String {
    let game = &track.tags.game;
    display_title(&track.tags).unwrap_or_else(|| match game.is_empty() {
        true => escape_control(&track.source),
        false => escape_control(&format!("{} ({game})", track.source)),
    })
}
