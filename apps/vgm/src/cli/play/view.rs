//! The state of the interface: the current song, its voices, and the position of the user's cursor.

use std::collections::VecDeque;
use std::sync::Arc;

use creel::channel::bounded::Receiver;
use creel_vgm::play::{MeterMode, PlayerEvent, TapBlock, Track, VoiceMeter};

use super::session::{PlayerSession, display_title};
use crate::cli::stderr::escape_control;

/// The factor by which levels fall with each frame of the screen.
const LEVEL_DECAY: f32 = 0.76;
/// The number of screen frames for which a new note is highlighted.
const HIGHLIGHT_FRAMES: u8 = 4;
/// The number of sound frames from which the spectrum is computed.
pub const SPECTRUM_FRAMES: usize = 1024;

/// The state of one voice on the screen.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    pub level: f32,
    pub note: Option<f32>,
    strikes: u8,
    /// The number of screen frames for which the note is still highlighted.
    pub highlight: u8,
    pub wave: Vec<f32>,
}

/// A box that covers the middle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlay {
    #[default]
    None,
    Help,
    Tags,
}

/// The state of the interface.
pub struct View {
    pub session: Arc<PlayerSession>,
    events: Receiver<PlayerEvent>,
    shown: Receiver<TapBlock>,
    /// Songs that are rendered but not audible yet, with the serial numbers of their first blocks.
    upcoming: VecDeque<(u64, Arc<Track>)>,
    taps: VecDeque<TapBlock>,
    /// The audible song, with the serial number of its first block.
    pub track: Option<(u64, Arc<Track>)>,
    pub lanes: Vec<Lane>,
    /// The latest audible samples, with left and right mixed.
    pub samples: VecDeque<f32>,
    /// The bands of the spectrum as they were last drawn.
    pub bands: Vec<f32>,
    pub messages: Vec<String>,
    /// Songs that started since this list was last emptied.
    pub heard_songs: Vec<Arc<Track>>,
    lost: bool,
    /// Whether the queue has been played, and all its events have been shown.
    is_finished: bool,
    /// The voice that keys act on.
    pub selected: usize,
    /// The first voice that is drawn.
    pub first_lane: usize,
    pub waves: bool,
    pub spectrum: bool,
    /// The number of rows that the screen lacks to show the spectrum.
    pub spectrum_rows_missing: u16,
    pub overlay: Overlay,
    /// The number of lines by which the overlay is scrolled.
    pub overlay_scroll: u16,
    /// The cursor in the list of songs. `None` means that it follows the current song.
    pub cursor: Option<usize>,
    /// The search text, while the user types it.
    pub search: Option<String>,
    /// The areas in which the parts of the screen were drawn, for mouse clicks.
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
            spectrum_rows_missing: 0,
            overlay: Overlay::None,
            overlay_scroll: 0,
            cursor: None,
            search: None,
            areas: Default::default(),
        }
    }

    /// Reads new events, and shows those whose sound is audible by now.
    pub fn update(&mut self) {
        let controls = &self.session.controls;
        // We read this before the events, because the renderer sends all events before it is
        // drained.
        self.is_finished = controls.is_drained() && controls.queued_ms() == 0;
        self.taps
            .extend(std::iter::from_fn(|| self.shown.try_recv().ok()));
        while let Ok(events) = self.events.try_recv() {
            match events {
                PlayerEvent::Started(serial, track) => self.upcoming.push_back((serial, track)),
                PlayerEvent::Failed(place, why) => {
                    let message = format!("cannot play {}: {why}", self.session.labels[place]);
                    self.session.now_playing().message = Some(message.clone());
                    self.messages.push(message);
                }
            }
        }
        let lost = self.session.controls.is_device_lost();
        if lost != self.lost {
            self.lost = lost;
            self.messages.push(match lost {
                true => "the sound device disappeared. The player is looking for it".into(),
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

    /// Shows the next song. It may also be the same song with another length.
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
        // If the same song continues, only its length has changed.
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
            // Some chips report new notes. For the others, we detect a new note by its rising
            // level.
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

    /// Requests the measurements that the screen needs from the renderer.
    pub fn request_metering(&self) {
        let seeing = match (self.session.controls.is_paused(), self.waves) {
            (true, _) => MeterMode::Off,
            (_, true) => MeterMode::Waves,
            _ => MeterMode::Levels,
        };
        self.session.controls.set_meter_mode(seeing);
    }

    /// Returns whether the player has finished.
    pub fn is_finished(&self) -> bool {
        self.is_finished || self.session.controls.is_ended() || self.session.is_quitting()
    }

    /// Returns the listed songs: all of them, or those that match the search.
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

    /// Returns the position of the audible song in the queue.
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

/// Returns the title of a song, or its file if it has no title, with the game if the tags have one.
pub fn title(track: &Track) -> String {
    let game = &track.tags.game;
    display_title(&track.tags).unwrap_or_else(|| match game.is_empty() {
        true => escape_control(&track.source),
        false => escape_control(&format!("{} ({game})", track.source)),
    })
}
