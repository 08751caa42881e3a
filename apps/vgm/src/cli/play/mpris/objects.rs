//! The two D-Bus interfaces of the player.

use std::collections::HashMap;
use std::sync::Arc;

use creel_vgm::play::{Repeat, TEMPO_RANGE};
use zbus::fdo::{Error, Result};
use zbus::interface;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::{ObjectPath, Value};

use super::state::State;
use crate::cli::play::action::{Action, Change};
use crate::cli::play::session::PlayerSession;

/// The interface of the program.
pub struct Program(pub Arc<PlayerSession>);

#[interface(name = "org.mpris.MediaPlayer2")]
impl Program {
    fn raise(&self) {}

    fn quit(&self) {
        self.0.quit();
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn can_quit(&self) -> bool {
        true
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn can_raise(&self) -> bool {
        false
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn has_track_list(&self) -> bool {
        false
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn identity(&self) -> &str {
        "creel-vgm"
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn supported_uri_schemes(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn supported_mime_types(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The interface of the player.
pub struct Player(pub Arc<PlayerSession>);

impl Player {
    fn send(&self, action: Action) -> Result<()> {
        action.apply(&self.0).map_err(Error::Failed)
    }

    fn set(&self, action: Action) -> zbus::Result<()> {
        action.apply(&self.0).map_err(zbus::Error::Failure)
    }
}

#[interface(name = "org.mpris.MediaPlayer2.Player")]
impl Player {
    fn next(&self) -> Result<()> {
        self.send(Action::Next)
    }

    fn previous(&self) -> Result<()> {
        self.send(Action::Previous)
    }

    fn pause(&self) -> Result<()> {
        self.send(Action::Pause(Some(true)))
    }

    fn play_pause(&self) -> Result<()> {
        if State::of(&self.0).status == "Playing" {
            return self.pause();
        }
        self.play()
    }

    /// Pauses the song at its start, because the player has no other stopped state.
    fn stop(&self) -> Result<()> {
        self.send(Action::Pause(Some(true)))?;
        self.send(Action::SeekTo(0))
    }

    fn play(&self) -> Result<()> {
        if self.0.controls.is_drained() {
            self.send(Action::Jump(0))?;
        }
        self.send(Action::Pause(Some(false)))
    }

    fn seek(&self, offset_us: i64) -> Result<()> {
        self.send(Action::Seek(offset_us / 1000))
    }

    fn set_position(&self, song: ObjectPath<'_>, position_us: i64) -> Result<()> {
        // The specification asks us to ignore a song that is not the current one, and a position
        // beyond the end.
        let now = State::of(&self.0).metadata;
        let is_within = now.length_us.is_none_or(|length| position_us <= length);
        match u64::try_from(position_us) {
            Ok(us) if is_within && now.track_id() == song => self.send(Action::SeekTo(us / 1000)),
            _ => Ok(()),
        }
    }

    fn open_uri(&self, _uri: &str) -> Result<()> {
        let message = "cannot open another song, because the queue cannot change after the player \
                       has started";
        Err(Error::NotSupported(message.into()))
    }

    #[zbus(signal)]
    pub async fn seeked(emitter: &SignalEmitter<'_>, position_us: i64) -> zbus::Result<()>;

    #[zbus(property)]
    fn playback_status(&self) -> &str {
        State::of(&self.0).status
    }

    #[zbus(property)]
    fn loop_status(&self) -> &str {
        State::of(&self.0).loops
    }

    #[zbus(property)]
    fn set_loop_status(&self, status: String) -> zbus::Result<()> {
        let repeat = match status.as_str() {
            "None" => Repeat::Off,
            "Track" => Repeat::One,
            "Playlist" => Repeat::All,
            _ => {
                return Err(zbus::Error::Failure(format!(
                    "unknown loop status {status}"
                )));
            }
        };
        self.set(Action::Repeat(Some(repeat)))
    }

    #[zbus(property)]
    fn rate(&self) -> f64 {
        State::of(&self.0).rate
    }

    #[zbus(property)]
    fn set_rate(&self, rate: f64) -> zbus::Result<()> {
        // The specification defines a rate of 0 as a pause.
        if rate == 0.0 {
            return self.set(Action::Pause(Some(true)));
        }
        self.set(Action::Tempo(Change::To(rate as f32 * 100.0)))
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn minimum_rate(&self) -> f64 {
        f64::from(*TEMPO_RANGE.start()) / 1000.0
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn maximum_rate(&self) -> f64 {
        f64::from(*TEMPO_RANGE.end()) / 1000.0
    }

    #[zbus(property)]
    fn shuffle(&self) -> bool {
        State::of(&self.0).shuffle
    }

    #[zbus(property)]
    fn set_shuffle(&self, shuffle: bool) -> zbus::Result<()> {
        self.set(Action::Shuffle(Some(shuffle)))
    }

    #[zbus(property)]
    fn volume(&self) -> f64 {
        State::of(&self.0).volume
    }

    #[zbus(property)]
    fn set_volume(&self, volume: f64) -> zbus::Result<()> {
        if volume.is_nan() {
            return Err(zbus::Error::Failure("the volume is not a number".into()));
        }
        self.set(Action::Volume(Change::To(volume as f32 * 100.0)))
    }

    #[zbus(property)]
    fn metadata(&self) -> HashMap<&'static str, Value<'static>> {
        State::of(&self.0).metadata.to_dict()
    }

    #[zbus(property(emits_changed_signal = "false"))]
    fn position(&self) -> i64 {
        State::of(&self.0).position_us
    }

    #[zbus(property)]
    fn can_go_next(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn can_go_previous(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn can_play(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn can_pause(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn can_seek(&self) -> bool {
        true
    }

    #[zbus(property(emits_changed_signal = "const"))]
    fn can_control(&self) -> bool {
        true
    }
}
