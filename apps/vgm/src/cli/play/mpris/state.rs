//! The state of the player in the terms of MPRIS, and the changes of it.

use std::collections::HashMap;
use std::time::Instant;

use creel_vgm::play::{Repeat, Track};
use zbus::object_server::InterfaceRef;
use zbus::zvariant::{ObjectPath, Value};

use super::objects::Player;
use crate::cli::play::session::PlayerSession;
use crate::cli::stderr::escape_control;

/// If the position differs from the expected position by more than this number of microseconds, we
/// report a jump.
const JUMP_US: i64 = 500_000;

/// The metadata of a song in the terms of MPRIS.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metadata {
    /// The position of the song in the queue.
    place: Option<usize>,
    pub length_us: Option<i64>,
    title: String,
    game: String,
    author: String,
    system: String,
}

/// The state whose changes we send.
#[derive(Debug, Clone)]
pub struct State {
    pub status: &'static str,
    pub loops: &'static str,
    pub rate: f64,
    pub shuffle: bool,
    pub volume: f64,
    pub metadata: Metadata,
    pub position_us: i64,
    /// The time at which this state was read.
    at: Instant,
}

impl State {
    pub fn of(session: &PlayerSession) -> State {
        let controls = &session.controls;
        let now = session.now_playing();
        let us = |frames: u64| (frames as f64 * 1e6 / f64::from(controls.sample_rate())) as i64;
        State {
            status: match (
                controls.is_drained() || now.track.is_none(),
                controls.is_paused(),
            ) {
                (false, false) => "Playing",
                (false, true) if controls.frame() > 0 => "Paused",
                _ => "Stopped",
            },
            loops: match controls.repeat() {
                Repeat::Off => "None",
                Repeat::All => "Playlist",
                Repeat::One => "Track",
            },
            rate: f64::from(controls.tempo()) / 1000.0,
            shuffle: controls.is_shuffled(),
            volume: f64::from(controls.volume()),
            metadata: now
                .track
                .as_deref()
                .map_or_else(Metadata::default, |track| {
                    Metadata::of(track, track.frames.map(us))
                }),
            position_us: us(controls.frame()),
            at: Instant::now(),
        }
    }

    /// Sends a signal for each property that differs from `was`.
    pub async fn emit_changes(
        &self,
        was: &State,
        player: &InterfaceRef<Player>,
    ) -> zbus::Result<()> {
        let (it, to) = (player.get().await, player.signal_emitter());
        if self.metadata != was.metadata {
            it.metadata_changed(to).await?;
        }
        if self.status != was.status {
            it.playback_status_changed(to).await?;
        }
        if self.loops != was.loops {
            it.loop_status_changed(to).await?;
        }
        if self.rate != was.rate {
            it.rate_changed(to).await?;
        }
        if self.shuffle != was.shuffle {
            it.shuffle_changed(to).await?;
        }
        if self.volume != was.volume {
            it.volume_changed(to).await?;
        }
        if self.metadata.place == was.metadata.place && self.has_jumped(was) {
            Player::seeked(to, self.position_us).await?;
        }
        Ok(())
    }

    fn has_jumped(&self, was: &State) -> bool {
        let mut passed = 0.0;
        if was.status == "Playing" {
            passed = (self.at - was.at).as_micros() as f64 * was.rate;
        }
        let expected = was.position_us + passed as i64;
        // The player may have been paused or resumed in between, so any position between the two
        // limits is normal.
        let (low, high) = (was.position_us.min(expected), was.position_us.max(expected));
        !(low - JUMP_US..=high + JUMP_US).contains(&self.position_us)
    }
}

impl Metadata {
    fn of(track: &Track, length_us: Option<i64>) -> Metadata {
        let tags = &track.tags;
        let title = if tags.track.is_empty() {
            let name = track.source.rsplit('/').next();
            name.unwrap_or_default()
        } else {
            &tags.track
        };
        Metadata {
            place: Some(track.place),
            length_us,
            title: escape_control(title),
            game: escape_control(&tags.game),
            author: escape_control(&tags.author),
            system: escape_control(&tags.system),
        }
    }

    /// Returns the ID of the song on the bus.
    pub fn track_id(&self) -> ObjectPath<'static> {
        let place = self.place.map_or(0, |place| place + 1);
        ObjectPath::from_string_unchecked(format!("/creel_vgm/song/{place}"))
    }

    /// Returns the metadata as a dictionary. Unknown values are left out.
    pub fn to_dict(&self) -> HashMap<&'static str, Value<'static>> {
        let mut words = HashMap::new();
        if self.place.is_none() {
            return words;
        }
        words.insert("mpris:trackid", Value::from(self.track_id()));
        if let Some(length) = self.length_us {
            words.insert("mpris:length", Value::from(length));
        }
        let text = |text: &String| (!text.is_empty()).then(|| Value::from(text.clone()));
        let list = |text: &String| (!text.is_empty()).then(|| Value::from(vec![text.clone()]));
        let optional = [
            ("xesam:title", text(&self.title)),
            ("xesam:album", text(&self.game)),
            ("xesam:artist", list(&self.author)),
            ("xesam:comment", list(&self.system)),
        ];
        words.extend(
            optional
                .into_iter()
                .filter_map(|(key, it)| Some((key, it?))),
        );
        words
    }
}
