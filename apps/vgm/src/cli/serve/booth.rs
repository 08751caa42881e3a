//! A song that is open: a task holds it and makes what is asked for.
//!
//! A page asks for some frames from a place on, with the voices that are to be heard. Where it goes on
//! from what it asked for last, that costs what it lasts; elsewhere the next copy is gone on from.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use creel::Handle;
use creel::channel::ring;
use creel_console::http::{Answer, Request};
use creel_vgm::batch::Source;
use creel_vgm::format::{Gd3, Song as Vgm};
use creel_vgm::play::{Playing, VOICES_MAX, note_name};
use creel_vgm::render::{Buffers, Player, Settings};
use creel_vgm::wav::{Container, Layout};
use serde_json::{Value, json};

use super::index::Song;

/// Songs that are open at once; the one that was asked longest ago is closed.
const OPEN_MAX: usize = 8;
/// Frames that are given at once, at most: a second and a half.
const FRAMES_MAX: u64 = 65_536;
/// The picture of a song has so many places.
const PLACES: u64 = 400;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const RAW: Layout = Layout {
    container: Container::Raw,
    samples: creel_vgm::mix::SampleFormat::I16,
};

/// What is asked of a booth.
enum Asked {
    /// What it is.
    Song,
    /// So many frames from a frame on, of these voices.
    Sound(u64, u64, u64),
    /// How loud each voice is, all along.
    Lanes,
}

enum Made {
    Json(Value),
    Bytes(Vec<u8>),
}

type Letter = (Asked, Sender<Result<Made, String>>);

/// The songs that are open.
pub struct Booths {
    pool: Handle,
    open: Mutex<HashMap<usize, (ring::Sender<Letter>, Instant)>>,
}

impl Booths {
    pub fn new(pool: Handle) -> Self {
        Booths {
            pool,
            open: Mutex::new(HashMap::new()),
        }
    }

    /// Answers a request about a song.
    pub fn answer(&self, place: usize, song: &Song, request: &Request) -> Answer {
        let asked = match request.path.as_str() {
            "/song" => Asked::Song,
            "/lanes" => Asked::Lanes,
            _ => Asked::Sound(
                request.number("at").unwrap_or(0),
                request.number("frames").unwrap_or(4410).min(FRAMES_MAX),
                request.number("heard").unwrap_or(u64::MAX),
            ),
        };
        let (reply, answer) = channel();
        let booth = self.booth(place, &song.entry.path);
        if booth.try_send((asked, reply)).is_err() {
            return Answer::refused("503 Service Unavailable");
        }
        match answer.recv_timeout(PATIENCE) {
            Ok(Ok(Made::Json(value))) => Answer::json(&value),
            Ok(Ok(Made::Bytes(bytes))) => Answer::ok("application/octet-stream", bytes),
            Ok(Err(error)) => Answer::json(&json!({ "error": error })),
            Err(_) => Answer::refused("503 Service Unavailable"),
        }
    }

    fn booth(&self, place: usize, path: &str) -> ring::Sender<Letter> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((booth, used)) = open.get_mut(&place) {
            *used = Instant::now();
            return booth.clone();
        }
        if open.len() >= OPEN_MAX {
            let oldest = open
                .iter()
                .min_by_key(|booth| booth.1.1)
                .map(|booth| *booth.0);
            oldest.map(|place| open.remove(&place));
        }
        let (sender, letters) = ring::channel(32);
        self.pool.spawn(keep(PathBuf::from(path), letters));
        open.insert(place, (sender.clone(), Instant::now()));
        sender
    }
}

/// Keeps a song open for as long as somebody may ask.
async fn keep(path: PathBuf, letters: ring::Receiver<Letter>) {
    let settings = Settings::default();
    let song = Source::File(path).load().map_err(|error| error.to_string());
    let (mut failed, mut playing) = (None, None);
    match &song {
        Err(error) => failed = Some(error.clone()),
        Ok(song) => match Playing::new(song, &settings) {
            Ok(it) => playing = Some((song, it)),
            Err(error) => failed = Some(error.to_string()),
        },
    }
    let mut scratch = Vec::new();
    while let Ok((asked, reply)) = letters.recv().await {
        let made = match (&mut playing, &failed) {
            (Some((song, playing)), _) => Ok(make(asked, song, playing, &settings, &mut scratch)),
            (None, error) => Err(error.clone().unwrap_or_default()),
        };
        // Who asked may have gone.
        let _ = reply.send(made);
    }
}

fn make(
    asked: Asked,
    song: &Vgm,
    playing: &mut Playing<'_>,
    settings: &Settings,
    scratch: &mut Vec<[f32; 2]>,
) -> Made {
    match asked {
        Asked::Song => Made::Json(json!({
            "frames": playing.frames(),
            "rate": settings.sample_rate,
            "voices": playing.voices(),
            "notes": song.tags.notes,
        })),
        Asked::Sound(at, frames, heard) => {
            if playing.frame() != at {
                playing.seek(at, scratch);
            }
            if playing.heard() != heard {
                playing.hear(heard);
            }
            let mut out = vec![[0.0; 2]; frames as usize];
            let made = playing.fill(&mut out);
            let mut bytes = Vec::new();
            RAW.encode(&out[..made], &mut bytes);
            Made::Bytes(bytes)
        }
        Asked::Lanes => Made::Json(lanes(song, settings)),
    }
}

/// The levels of the voices at places all along the song, of 255, and their notes.
fn lanes(song: &Vgm, settings: &Settings) -> Value {
    let Ok(mut playing) = Playing::new(song, settings) else {
        return json!({});
    };
    let voices = playing.voices().len().min(VOICES_MAX);
    let (mut levels, mut notes) = (vec![Vec::new(); voices], vec![Vec::new(); voices]);
    let (frames, mut scratch) = (playing.frames(), Vec::new());
    for place in 0..PLACES {
        playing.seek(frames * place / PLACES, &mut scratch);
        for (voice, seen) in playing.look(256).into_iter().enumerate() {
            // 60 dB of them, as in the terminal.
            let share = (1.0 + seen.level.max(1e-6).log10() / 3.0).clamp(0.0, 1.0);
            levels[voice].push((share * 255.0) as u8);
            notes[voice].push(seen.note.hz.map_or(String::new(), note_name));
        }
    }
    json!({ "levels": levels, "notes": notes })
}

/// The whole song as a WAV file, made as it is sent.
pub fn wav(song: &Song, request: &Request) -> Answer {
    let loaded = Source::File(song.entry.path.clone().into()).load();
    let Ok(song) = loaded else {
        return Answer::refused("404 Not Found");
    };
    let song = Arc::new(song);
    let settings = Settings::default();
    let frames = settings.frames(&song).0;
    let header = Layout::default().around(settings.sample_rate, frames, &Gd3::default());
    let Ok((header, _)) = header else {
        return Answer::refused("413 Content Too Large");
    };
    let each = Layout::default().frame_bytes() as u64;
    let length = header.len() as u64 + frames * each;
    let range = request.range(length);
    let (first, end) = range.unwrap_or((0, length));
    let body = move |out: &mut dyn Write| {
        let mut buffers = Buffers::default();
        let mut player =
            Player::new(&song, &settings, &mut buffers).map_err(std::io::Error::other)?;
        let (mut at, mut bytes, mut block) = (0, header, vec![[0.0; 2]; 4096]);
        while at < end {
            let here = at..at + bytes.len() as u64;
            let from = first.clamp(here.start, here.end) - at;
            let to = end.clamp(here.start, here.end) - at;
            out.write_all(&bytes[from as usize..to as usize])?;
            at = here.end;
            let made = player.fill(&mut buffers, &mut block);
            bytes.clear();
            Layout::default().encode(&block[..made], &mut bytes);
            if made == 0 {
                break;
            }
        }
        Ok(())
    };
    Answer::stream("audio/wav", length, range, Box::new(body))
}
