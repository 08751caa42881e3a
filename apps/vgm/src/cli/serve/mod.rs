//! `creel-vgm serve`: a web page that plays an archive of songs, for browsers on this machine.
//!
//! - The index (`index.rs`) lists the songs.
//! - Each open song has a session (`song_session.rs`) that renders its sound.
//! - The page requests about a tenth of a second at a time, as FLAC if the browser supports it. We
//!   render each request with the voices that are unmuted at that time, so that muting works at
//!   once.

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

/// Play an archive of songs in a browser
///
/// The program prints the address of the page, which only browsers on this machine can open. Press
/// Ctrl-C to stop the server. To see new files in the folders, open the page again.
///
/// Exit codes: 2 wrong usage, 65 no songs were found, 75 the port is in use, 130 interrupted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm serve ~/music                   # then open the address that it prints
  creel-vgm serve ~/music archive.zip --port 8000")]
pub struct Serve {
    /// Serve the songs of these folders and archives (zip, 7z), including all subfolders
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Listen on PORT; 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 7881)]
    port: u16,
    /// Keep the index of the songs in FILE, so that the next start reads only files that have
    /// changed [default: $XDG_CACHE_HOME/creel-vgm/index.redb]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
    /// Use N workers to read songs and render sound
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = creel_console::knobs::jobs)]
    jobs: usize,
}

/// The maximum number of songs in one answer.
const SONGS_AT_ONCE: usize = 200;

/// The minimum time between two scans of the folders. Opening the page starts a scan.
const RESCAN_INTERVAL: Duration = Duration::from_secs(2);

impl Serve {
    /// Serves until interrupted.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
        // We open the port first, so that the user does not wait for the index before learning that
        // the port is in use.
        let listener = http::listen(self.port)?;
        let pool = Pool::builder()
            .name("serve")
            .workers(self.jobs)
            .wait(Wait::Park)
            .build()
            .context("cannot start the pool")?;
        let pool = Arc::new(pool);
        let index = Index::open(self.index.clone())?;
        let renewed = index.refresh(&self.folders, &pool)?;
        if renewed.songs.is_empty() {
            let message = "nothing to serve: the folders and archives contain no songs that can be \
                           read";
            return Err(Failure::new(Exit::BadData, message).into());
        }
        if !common.quiet {
            report(&format!(
                "{} songs, {} read, {} removed, {} not readable",
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

/// A song of the site. Pages identify a song by its position in the list, so it keeps its position
/// even if its file disappears.
struct KnownSong {
    song: Arc<Song>,
    /// Whether the last scan found the song.
    is_here: bool,
}

/// The server's state, which answers the requests of pages.
struct Site {
    songs: RwLock<Vec<KnownSong>>,
    sessions: SongSessions,
    index: Index,
    folders: Vec<PathBuf>,
    pool: Arc<Pool>,
    /// The time of the last scan of the folders.
    looked: Mutex<Instant>,
}

/// The icon of the page: a square wave.
const ICON: &[u8] = br##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 11V5h5v6h5V5h4" fill="none" stroke="#3a8" stroke-width="2"/></svg>"##;

impl Site {
    /// Updates the list with the songs that a scan found. New songs are appended to the known ones.
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

    /// Scans the folders again, unless another request is doing so or has just done so.
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
        // The page only reads, so no other method is needed.
        if request.method != "GET" {
            return Answer::refused("405 Method Not Allowed");
        }
        match request.path.as_str() {
            // The page names the first path. Browsers also request the second one on their own.
            "/favicon.svg" | "/favicon.ico" => Answer::ok("image/svg+xml", ICON.to_vec()),
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

    /// Lists the folders and archives that contain songs, each with the number of its songs.
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

    /// Lists the songs that match all words of the search.
    fn songs(&self, request: &Request) -> Answer {
        // We list only the songs in this folder or archive, and below it. By default, we list all
        // songs.
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
