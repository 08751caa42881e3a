//! The state of a player that the interface, the output on stderr, the remote control and MPRIS
//! share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use creel_vgm::format::Gd3;
use creel_vgm::play::{Command, CommandSender, PlayerControls, Repeat, Track};
use serde::Serialize;

use crate::cli::stderr::escape_control;

/// A running player.
pub struct PlayerSession {
    pub controls: Arc<PlayerControls>,
    pub commands: CommandSender,
    /// The names of the songs, by their positions in the queue.
    pub labels: Vec<String>,
    /// The titles and games of the songs that have been read so far.
    titles: Vec<OnceLock<String>>,
    /// The number of paths that were rejected.
    refused: usize,
    /// Whether the user asked to quit. `Relaxed` is enough, because no data depends on it.
    quit: AtomicBool,
    now: Mutex<NowPlaying>,
}

/// The latest events of the player.
#[derive(Default)]
pub struct NowPlaying {
    pub track: Option<Arc<Track>>,
    /// The mean time that the renderer takes, in thousandths of real time.
    pub load: f32,
    pub message: Option<String>,
}

impl PlayerSession {
    pub fn new(
        controls: Arc<PlayerControls>,
        commands: CommandSender,
        names: Vec<String>,
        refused: usize,
    ) -> Self {
        PlayerSession {
            controls,
            commands,
            titles: vec![OnceLock::new(); names.len()],
            labels: names,
            refused,
            quit: AtomicBool::new(false),
            now: Mutex::default(),
        }
    }

    /// Locks the latest events. Callers hold the lock only briefly. The renderer and the sink never
    /// take it, because they must not wait.
    pub fn now_playing(&self) -> MutexGuard<'_, NowPlaying> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_quitting(&self) -> bool {
        self.quit.load(Relaxed)
    }

    pub fn quit(&self) {
        self.quit.store(true, Relaxed);
    }

    /// Returns the title of a song, with its game, if its tags have been read and have a title.
    pub fn title(&self, place: usize) -> Option<&str> {
        let title = self.titles.get(place)?.get()?;
        (!title.is_empty()).then_some(title)
    }

    /// Stores the title of a song.
    pub fn set_title(&self, place: usize, tags: &Gd3) {
        if let Some(title) = self.titles.get(place) {
            // If the song already has a title, it is the same one.
            let _ = title.set(display_title(tags).unwrap_or_default());
        }
    }

    /// Returns the number of songs that could not be played and of paths that were rejected.
    pub fn failed(&self) -> usize {
        self.refused + self.controls.failed() as usize
    }

    /// Sends a command to the renderer.
    ///
    /// # Errors
    ///
    /// Fails if the channel is full, unless the player has ended. A full channel is a defect of the
    /// program, so we report it to the user.
    pub fn send(&self, command: Command) -> Result<(), String> {
        if self.commands.send(command) || self.controls.is_ended() {
            Ok(())
        } else {
            Err("the renderer does not accept commands".into())
        }
    }

    /// Returns the status of the player.
    pub fn status(&self) -> Status {
        let controls = &self.controls;
        let now = self.now_playing();
        let track = now.track.as_deref();
        let rate = f64::from(controls.sample_rate());
        let seconds = |frames: u64| (frames as f64 / rate * 1000.0).round() / 1000.0;
        let (gaps, gap_us) = controls.underruns();
        let (stalls, stall_us) = controls.device_stalls();
        let tag = |get: fn(&Track) -> &String| {
            track.map_or(String::new(), |track| escape_control(get(track)))
        };
        let voice = |(place, name): (usize, &String)| Voice {
            name: escape_control(name),
            audible: controls.voice_mask() >> place.min(63) & 1 == 1,
        };
        Status {
            schema: creel_console::SCHEMA,
            state: match (controls.is_drained(), controls.is_paused()) {
                (true, _) => "ended",
                (_, true) => "paused",
                _ if controls.is_seeking() => "seeking",
                _ => "playing",
            },
            queue_position: track.map(|track| track.place + 1),
            songs: self.labels.len(),
            source: tag(|track| &track.source),
            title: tag(|track| &track.tags.track),
            game: tag(|track| &track.tags.game),
            system: tag(|track| &track.tags.system),
            author: tag(|track| &track.tags.author),
            position_s: seconds(controls.frame()),
            length_s: track.and_then(|track| track.frames).map(seconds),
            pass: track.and_then(|track| loop_pass(track, controls.frame())),
            volume_percent: (controls.volume() * 100.0).round() as u32,
            tempo_percent: f64::from(controls.tempo()) / 10.0,
            pitch_percent: f64::from(controls.pitch()) / 10.0,
            loop_forever: controls.loops_forever(),
            repeat: match controls.repeat() {
                Repeat::Off => "off",
                Repeat::All => "all",
                Repeat::One => "one",
            },
            shuffle: controls.is_shuffled(),
            voices: track.map_or(Vec::new(), |track| {
                track.voices.iter().enumerate().map(voice).collect()
            }),
            device_lost: controls.is_device_lost(),
            buffer_ms: controls.queued_ms(),
            underruns: gaps,
            underrun_ms: gap_us as f64 / 1000.0,
            device_stalls: stalls,
            device_stall_ms: stall_us as f64 / 1000.0,
            render_percent: f64::from((now.load * 10.0).round()) / 100.0,
            command_latency_ms: controls.command_latency_us() as f64 / 1000.0,
            failed: self.failed(),
            message: now.message.as_deref().map(escape_control),
        }
    }
}

/// Returns the title of a song, with the game if the tags have one. Returns `None` if the tags have
/// no title.
pub fn display_title(tags: &Gd3) -> Option<String> {
    let (title, game) = (&tags.track, &tags.game);
    match (title.is_empty(), game.is_empty()) {
        (true, _) => None,
        (_, true) => Some(escape_control(title)),
        (_, false) => Some(escape_control(&format!("{title} ({game})"))),
    }
}

/// Returns the pass of the loop at a frame, from 1. Returns `None` before the loop.
pub fn loop_pass(track: &Track, frame: u64) -> Option<u64> {
    let (start, length) = track.looped?;
    Some(frame.checked_sub(start)? / length.max(1) + 1)
}

/// Returns the length of a song in frames. For an endless song, this is the end of its first pass.
pub fn total_frames(track: &Track) -> Option<u64> {
    let pass = || track.looped.map(|(start, length)| start + length);
    track.frames.or_else(pass)
}

/// Returns the position of a frame within [`total_frames`].
pub fn frame_in_length(track: &Track, frame: u64) -> u64 {
    match track.looped {
        Some((start, length)) if track.frames.is_none() && frame > start => {
            start + (frame - start) % length.max(1)
        }
        _ => frame,
    }
}

/// The status, as `ctl status --json` prints it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    schema: u32,
    state: &'static str,
    queue_position: Option<usize>,
    songs: usize,
    source: String,
    title: String,
    game: String,
    system: String,
    author: String,
    position_s: f64,
    length_s: Option<f64>,
    pass: Option<u64>,
    volume_percent: u32,
    tempo_percent: f64,
    pitch_percent: f64,
    loop_forever: bool,
    repeat: &'static str,
    shuffle: bool,
    voices: Vec<Voice>,
    device_lost: bool,
    buffer_ms: u64,
    underruns: u64,
    underrun_ms: f64,
    device_stalls: u64,
    device_stall_ms: f64,
    render_percent: f64,
    command_latency_ms: f64,
    failed: usize,
    message: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Voice {
    name: String,
    audible: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-ctl-status", schemars::schema_for!(Status));
    }
}
