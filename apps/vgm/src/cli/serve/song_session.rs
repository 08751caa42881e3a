//! Open songs. Each has a task that keeps the song and renders the requested frames.
//!
//! A page requests some frames at a position, together with the mask of its unmuted voices. If the
//! request continues the previous one, we only render these frames. Otherwise, we first seek, which
//! continues from the nearest saved copy of the player.

use std::collections::HashMap;
use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use creel::Pool;
use creel::channel::bounded;
use creel_console::http::{Answer, Request};
use creel_vgm::FileTags;
use creel_vgm::batch::Source;
use creel_vgm::flac::Flac;
use creel_vgm::format::Song as Vgm;
use creel_vgm::play::{SongPlayer, VOICES_MAX, note_name};
use creel_vgm::render::{Buffers, Player, Settings};
use creel_vgm::wav::{Container, Layout};
use serde_json::{Value, json};

use super::index::Song;

/// The maximum number of open songs. If there are more, we close the least recently used one.
const SESSIONS_MAX: usize = 8;
/// The maximum number of frames in an answer: a second and a half.
const FRAMES_MAX: u64 = 65_536;
/// The maximum number of frames of a FLAC file, which we keep in memory: an hour.
const FLAC_FRAMES_MAX: u64 = 3600 * 44_100;
/// The number of points in the overview of a song.
const OVERVIEW_POINTS: u64 = 400;
/// The number of frames that we render for the wave at each point of the overview.
const WAVE_FRAMES: usize = 1024;
/// The longest time that a request waits for the answer of a session.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// The error for a song whose file no longer exists.
const NOT_FOUND: &str = "the file no longer exists";
const RAW_LAYOUT: Layout = Layout {
    container: Container::Raw,
    samples: creel_vgm::mix::SampleFormat::I16,
};

/// A request to a session.
enum Query {
    /// The length, the voices and the notes of the song.
    Song,
    /// Some frames.
    Sound(FrameRange),
    /// The wave and the level of each voice over the whole song.
    Overview,
}

/// A range of frames of a song.
struct FrameRange {
    at: u64,
    frames: u64,
    /// The unmuted voices, one bit per voice.
    voice_mask: u64,
    /// Whether to answer with a FLAC file and not with plain samples.
    flac: bool,
}

enum Reply {
    Json(Value),
    Bytes(&'static str, Vec<u8>),
}

type Message = (Query, Sender<Result<Reply, String>>);

/// The open songs.
pub struct SongSessions {
    pool: Pool,
    open: Mutex<OpenSessions>,
}

/// Sessions by the position of their song in the list, each with the time of its last request.
type OpenSessions = HashMap<usize, (bounded::Sender<Message>, Instant)>;

impl SongSessions {
    pub fn new(pool: Pool) -> Self {
        SongSessions {
            pool,
            open: Mutex::new(HashMap::new()),
        }
    }

    /// Answers a request about a song.
    pub fn answer(&self, place: usize, song: &Song, request: &Request) -> Answer {
        let query = match request.path.as_str() {
            "/song" => Query::Song,
            "/lanes" => Query::Overview,
            _ => Query::Sound(FrameRange {
                at: request.number("at").unwrap_or(0),
                frames: request.number("frames").unwrap_or(4096).min(FRAMES_MAX),
                voice_mask: request.number("heard").unwrap_or(u64::MAX),
                flac: request.value("as").as_deref() == Some("flac"),
            }),
        };
        let (reply, answer) = channel();
        let Some(session) = self.session(place, song) else {
            return Answer::json(&json!({ "error": NOT_FOUND }));
        };
        if session.try_send((query, reply)).is_err() {
            return Answer::refused("503 Service Unavailable");
        }
        match answer.recv_timeout(REPLY_TIMEOUT) {
            Ok(Ok(Reply::Json(value))) => Answer::json(&value),
            Ok(Ok(Reply::Bytes(kind, bytes))) => Answer::ok(kind, bytes),
            Ok(Err(error)) => Answer::json(&json!({ "error": error })),
            Err(_) => Answer::refused("503 Service Unavailable"),
        }
    }

    /// Returns the session of a song, and opens it if necessary. Returns `None` if the song no
    /// longer exists.
    fn session(&self, place: usize, song: &Song) -> Option<bounded::Sender<Message>> {
        if let Some((session, used)) = self.open().get_mut(&place) {
            *used = Instant::now();
            return Some(session.clone());
        }
        // Opening an archive may take time. We do it without the lock, so that requests for other
        // songs do not wait.
        let source = song.source()?;
        let mut open = self.open();
        if let Some((session, _)) = open.get(&place) {
            return Some(session.clone());
        }
        if open.len() >= SESSIONS_MAX {
            let oldest = open
                .iter()
                .min_by_key(|session| session.1.1)
                .map(|session| *session.0);
            oldest.map(|place| open.remove(&place));
        }
        let (sender, messages) = bounded::channel(32);
        self.pool.spawn(run_session(source, messages));
        open.insert(place, (sender.clone(), Instant::now()));
        Some(sender)
    }

    fn open(&self) -> MutexGuard<'_, OpenSessions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a song open until its session is closed.
async fn run_session(source: Source, messages: bounded::Receiver<Message>) {
    let settings = Settings::default();
    let song = source.load().map_err(|error| error.to_string());
    let (mut failed, mut playing) = (None, None);
    match &song {
        Err(error) => failed = Some(error.clone()),
        Ok(song) => match SongPlayer::new(song, &settings) {
            Ok(it) => playing = Some((song, it)),
            Err(error) => failed = Some(error.to_string()),
        },
    }
    let mut scratch = Vec::new();
    while let Ok((query, reply)) = messages.recv().await {
        let result = match (&mut playing, &failed) {
            (Some((song, playing)), _) => Ok(handle(query, song, playing, &settings, &mut scratch)),
            (None, error) => Err(error.clone().unwrap_or_default()),
        };
        // We ignore an error, because the request may have timed out.
        let _ = reply.send(result);
    }
}

fn handle(
    query: Query,
    song: &Vgm,
    playing: &mut SongPlayer<'_>,
    settings: &Settings,
    scratch: &mut Vec<[f32; 2]>,
) -> Reply {
    match query {
        Query::Song => Reply::Json(json!({
            "frames": playing.frames(),
            "rate": settings.sample_rate,
            "voices": playing.voices(),
            "notes": song.tags.notes,
        })),
        Query::Sound(piece) => {
            if playing.frame() != piece.at {
                playing.seek(piece.at, scratch);
            }
            if playing.voice_mask() != piece.voice_mask {
                playing.set_voice_mask(piece.voice_mask);
            }
            let mut out = vec![[0.0; 2]; piece.frames as usize];
            let filled = playing.fill(&mut out);
            out.truncate(filled);
            encode(&out, settings.sample_rate, piece.flac)
        }
        Query::Overview => Reply::Json(overview(song, settings)),
    }
}

/// Encodes frames for a browser. Without frames, the answer is empty even if FLAC is requested.
fn encode(frames: &[[f32; 2]], rate: u32, flac: bool) -> Reply {
    let mut bytes = Vec::new();
    if flac
        && !frames.is_empty()
        && let Ok(mut flac) = Flac::new(RAW_LAYOUT.samples, rate, frames.len() as u64)
    {
        write_flac(
            &mut flac,
            &mut bytes,
            &FileTags::default(),
            |flac, bytes| {
                flac.push(frames, bytes);
            },
        );
        return Reply::Bytes("audio/flac", bytes);
    }
    RAW_LAYOUT.encode(frames, &mut bytes);
    Reply::Bytes("application/octet-stream", bytes)
}

/// Writes a FLAC file with the frames that `push` adds.
fn write_flac(
    flac: &mut Flac,
    bytes: &mut Vec<u8>,
    tags: &FileTags,
    push: impl FnOnce(&mut Flac, &mut Vec<u8>),
) {
    bytes.extend(flac.header(tags));
    push(flac, bytes);
    let beginning = flac.finish(bytes);
    bytes[..beginning.len()].copy_from_slice(&beginning);
}

/// Returns the overview of a song: at each point, the lowest and highest sample (full scale is
/// 127), the levels of the voices (from 0 to 255) and their notes.
fn overview(song: &Vgm, settings: &Settings) -> Value {
    let Ok(mut playing) = SongPlayer::new(song, settings) else {
        return json!({});
    };
    let voices = playing.voices().len().min(VOICES_MAX);
    let (mut levels, mut notes) = (vec![Vec::new(); voices], vec![Vec::new(); voices]);
    let (frames, mut scratch, mut wave) = (playing.frames(), Vec::new(), Vec::new());
    let mut block = vec![[0.0; 2]; WAVE_FRAMES];
    for place in 0..OVERVIEW_POINTS {
        playing.seek(frames * place / OVERVIEW_POINTS, &mut scratch);
        for (voice, seen) in playing.meter_voices(256).into_iter().enumerate() {
            // The scale covers 60 dB, as in the terminal.
            let share = (1.0 + libm::log10f(seen.level.max(1e-6)) / 3.0).clamp(0.0, 1.0);
            levels[voice].push((share * 255.0) as u8);
            notes[voice].push(seen.note.hz.map_or(String::new(), note_name));
        }
        let filled = playing.fill(&mut block);
        let of_127 = |sample: f32| (sample.clamp(-1.0, 1.0) * 127.0) as i8;
        let middle = block[..filled]
            .iter()
            .map(|[left, right]| (left + right) * 0.5);
        wave.push((
            of_127(middle.clone().fold(0.0, f32::min)),
            of_127(middle.fold(0.0, f32::max)),
        ));
    }
    json!({ "wave": wave, "levels": levels, "notes": notes })
}

/// Answers with the whole song as a FLAC file. We encode it before we answer, because its size is
/// not known before.
pub fn flac(song: &Song, request: &Request) -> Answer {
    let Some(Ok(song)) = song.source().map(|source| source.load()) else {
        return Answer::refused("404 Not Found");
    };
    let settings = Settings::default();
    if settings.frames(&song).0 > FLAC_FRAMES_MAX {
        return Answer::refused("413 Content Too Large");
    }
    let mut buffers = Buffers::default();
    let player = Player::new(&song, &settings, &mut buffers);
    let flac = Flac::new(
        RAW_LAYOUT.samples,
        settings.sample_rate,
        settings.frames(&song).0,
    );
    let (Ok(mut player), Ok(mut flac)) = (player, flac) else {
        return Answer::refused("404 Not Found");
    };
    let mut bytes = Vec::new();
    write_flac(
        &mut flac,
        &mut bytes,
        &song.tags.clone().into(),
        |flac, bytes| {
            let mut block = vec![[0.0; 2]; 4096];
            loop {
                let filled = player.fill(&mut buffers, &mut block);
                flac.push(&block[..filled], bytes);
                if filled == 0 {
                    return;
                }
            }
        },
    );
    let length = bytes.len() as u64;
    let range = request.range(length);
    let (first, end) = range.unwrap_or((0, length));
    let body = move |out: &mut dyn Write| out.write_all(&bytes[first as usize..end as usize]);
    Answer::stream("audio/flac", length, range, Box::new(body))
}

/// Answers with the whole song as a WAV file, which is rendered while it is sent.
pub fn wav(song: &Song, request: &Request) -> Answer {
    let Some(Ok(song)) = song.source().map(|source| source.load()) else {
        return Answer::refused("404 Not Found");
    };
    let song = Arc::new(song);
    let settings = Settings::default();
    let frames = settings.frames(&song).0;
    let header = Layout::default().around(settings.sample_rate, frames, &FileTags::default());
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
            let filled = player.fill(&mut buffers, &mut block);
            bytes.clear();
            Layout::default().encode(&block[..filled], &mut bytes);
            if filled == 0 {
                break;
            }
        }
        Ok(())
    };
    Answer::stream("audio/wav", length, range, Box::new(body))
}
