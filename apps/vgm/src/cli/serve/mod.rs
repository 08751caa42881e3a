//! `creel-vgm serve`: a page to listen to an archive, for browsers on this machine.
//!
//! The index (`index.rs`) knows the songs, a session a song that is open (`song_session.rs`) makes its sound,
//! and the page asks for a tenth of a second at a time, as FLAC where the browser reads it: what it asks for next is made with the voices
//! that are heard by then.

mod index;
mod song_session;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use creel::{Pool, Wait};
use creel_console::http::{self, Answer, Request};
use creel_console::{Common, Exit, Failure, Interrupt};
use serde_json::json;

use super::stderr::report;
use index::{Index, Song};
use song_session::SongSessions;

/// Listen to an archive in a browser
///
/// The page is served on the loopback address only; its own address is printed. Interrupt to end.
///
/// What is added to the folders meanwhile is there when the page is opened again.
///
/// Exit codes: 2 usage, 65 there is no song, 75 the port is in use, 130 interrupted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm serve ~/music
          then open the address that it prints
  creel-vgm serve ~/music archive.zip --port 8000")]
pub struct Serve {
    /// Folders of songs, archives (zip, 7z), and folders of these
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The port; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 7881)]
    port: u16,
    /// Where the index is kept [default: $XDG_CACHE_HOME/creel-vgm/index.redb]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
    /// Workers that read songs and make sound
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = creel_console::knobs::jobs)]
    jobs: usize,
}

/// Songs that a page is told of at once.
const SONGS_AT_ONCE: usize = 200;

/// How soon the folders are looked through again for who opens the page.
const RESCAN_INTERVAL: Duration = Duration::from_secs(2);

impl Serve {
    /// Serves until interrupted.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        // The port first: who has to choose another should not wait for an index.
        let listener = http::listen(self.port)?;
        let pool = Pool::builder()
            .name("serve")
            .workers(self.jobs)
            .wait(Wait::Park)
            .build()
            .context("cannot make the pool")?;
        let pool = Arc::new(pool);
        let index = Index::open(self.index.clone())?;
        let renewed = index.refresh(&self.folders, &pool)?;
        if renewed.songs.is_empty() {
            return Err(Failure::new(Exit::BadData, "there is no song").into());
        }
        if !common.quiet {
            report(&format!(
                "{} songs, {} read anew, {} gone, {} not readable",
                renewed.songs.len(),
                renewed.read,
                renewed.gone,
                renewed.failed
            ));
            report(&format!("http://{}/", listener.local_addr()?));
        }
        let site = Arc::new(Site {
            sessions: SongSessions::new(pool.handle()),
            songs: RwLock::default(),
            index,
            folders: self.folders.clone(),
            pool,
            looked: Mutex::new(Instant::now()),
        });
        site.take(renewed.songs);
        std::thread::Builder::new()
            .name("page".into())
            .spawn(move || http::serve(&listener, move |request| site.answer(request)))?;
        while !interrupt.requested() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        interrupt.check()?;
        Ok(Exit::Done)
    }
}

/// A song of a site: its place there is what pages call it by, so it keeps it.
struct KnownSong {
    song: Arc<Song>,
    /// Whether it was there when somebody looked last.
    is_here: bool,
}

/// What pages ask.
struct Site {
    songs: RwLock<Vec<KnownSong>>,
    sessions: SongSessions,
    index: Index,
    folders: Vec<PathBuf>,
    pool: Arc<Pool>,
    /// When the folders were looked through last.
    looked: Mutex<Instant>,
}

impl Site {
    /// Takes what is in the folders now: what is new comes behind what is known.
    fn take(&self, found: Vec<Song>) {
        let mut songs = self.songs.write().unwrap_or_else(PoisonError::into_inner);
        let places = songs.iter_mut().enumerate().map(|(place, known)| {
            known.is_here = false;
            (known.song.entry.path.clone(), place)
        });
        let places: HashMap<String, usize> = places.collect();
        for song in found {
            let place = places.get(&song.entry.path).copied();
            let known = KnownSong {
                song: Arc::new(song),
                is_here: true,
            };
            match place {
                Some(place) => songs[place] = known,
                None => songs.push(known),
            }
        }
    }

    /// Looks through the folders again, unless somebody has just done so or does.
    fn rescan(&self) {
        let Ok(mut looked) = self.looked.try_lock() else {
            return;
        };
        if looked.elapsed() < RESCAN_INTERVAL {
            return;
        }
        match self.index.refresh(&self.folders, &self.pool) {
            Ok(renewed) => self.take(renewed.songs),
            Err(error) => report(&format!("{error:#}")),
        }
        *looked = Instant::now();
    }

    fn song(&self, place: usize) -> Option<Arc<Song>> {
        let songs = self.songs.read().unwrap_or_else(PoisonError::into_inner);
        songs.get(place).map(|known| Arc::clone(&known.song))
    }

    fn answer(&self, request: &Request) -> Answer {
        match request.path.as_str() {
            "/" => Answer::ok(
                "text/html; charset=utf-8",
                include_bytes!("page.html").to_vec(),
            ),
            "/songs" => self.songs(request),
            "/folders" => self.folders(),
            "/song" | "/sound" | "/lanes" | "/wav" | "/flac" => {
                let place = request.number("id").and_then(|id| usize::try_from(id).ok());
                match place.and_then(|place| Some((place, self.song(place)?))) {
                    None => Answer::refused("404 Not Found"),
                    Some((_, song)) if request.path == "/wav" => song_session::wav(&song, request),
                    Some((_, song)) if request.path == "/flac" => {
                        song_session::flac(&song, request)
                    }
                    Some((place, song)) => self.sessions.answer(place, &song, request),
                }
            }
            _ => Answer::refused("404 Not Found"),
        }
    }

    /// The folders and archives that songs lie in, each with how many.
    fn folders(&self) -> Answer {
        let songs = self.songs.read().unwrap_or_else(PoisonError::into_inner);
        let mut folders = BTreeMap::new();
        for known in songs.iter().filter(|known| known.is_here) {
            if let Some((folder, _)) = known.song.entry.path.rsplit_once('/') {
                *folders.entry(folder.to_owned()).or_insert(0) += 1;
            }
        }
        let folder = |(folder, songs): (String, u64)| json!({ "folder": folder, "songs": songs });
        let folders: Vec<_> = folders.into_iter().map(folder).collect();
        Answer::json(&json!({ "folders": folders }))
    }

    /// The songs that have all words that are looked for.
    fn songs(&self, request: &Request) -> Answer {
        // A folder's, or an archive's, and what lies below it.
        let below = request.value("in").unwrap_or_default();
        let below = format!("{}/", below.trim_end_matches('/'));
        let is_below = |path: &str| below == "/" || path.starts_with(&below);
        let wanted = request.value("q").unwrap_or_default().to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let from = request.number("from").unwrap_or(0) as usize;
        if from == 0 && words.is_empty() {
            self.rescan();
        }
        let songs = self.songs.read().unwrap_or_else(PoisonError::into_inner);
        let here = songs.iter().enumerate().filter(|(_, known)| known.is_here);
        let all = here.clone().count();
        let mut found = here
            .map(|(id, known)| (id, &known.song))
            .filter(|(_, song)| is_below(&song.entry.path))
            .filter(|(_, song)| words.iter().all(|word| song.text.contains(word)));
        let listed: Vec<_> = found
            .by_ref()
            .skip(from)
            .take(SONGS_AT_ONCE)
            .map(|(id, song)| json!({ "id": id, "song": song.entry }))
            .collect();
        let more = found.next().is_some();
        Answer::json(&json!({ "songs": listed, "more": more, "all": all }))
    }
}
