//! `creel-vgm serve`: a page to listen to an archive, for browsers on this machine.
//!
//! The index (`index.rs`) knows the songs, a desk a song that is open (`booth.rs`) makes its sound,
//! and the page asks for a tenth of a second at a time, as FLAC where the browser reads it: what it asks for next is made with the voices
//! that are heard by then.

mod booth;
mod index;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use creel::{Pool, Wait};
use creel_console::http::{self, Answer, Request};
use creel_console::{Common, Exit, Failure, Interrupt};
use serde_json::json;

use super::plain::tell;
use booth::Booths;
use index::Index;

/// Listen to an archive in a browser
///
/// The page is served on the loopback address only; its own address is printed. Interrupt to end.
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
        let index = Index::open(self.index.clone())?;
        let told = index.renew(&self.folders, &pool)?;
        let index = index.songs()?;
        if index.is_empty() {
            return Err(Failure::new(Exit::BadData, "there is no song").into());
        }
        if !common.quiet {
            tell(&format!(
                "{} songs, {} read anew, {} gone, {} not readable",
                index.len(),
                told.read,
                told.gone,
                told.failed
            ));
            tell(&format!("http://{}/", listener.local_addr()?));
        }
        let site = Arc::new(Site {
            booths: Booths::new(pool.handle()),
            index,
        });
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

/// What pages ask.
struct Site {
    index: Vec<index::Song>,
    booths: Booths,
}

impl Site {
    fn answer(&self, request: &Request) -> Answer {
        match request.path.as_str() {
            "/" => Answer::ok(
                "text/html; charset=utf-8",
                include_bytes!("page.html").to_vec(),
            ),
            "/songs" => self.songs(request),
            "/song" | "/sound" | "/lanes" | "/wav" | "/flac" => {
                let place = request.number("id").and_then(|id| usize::try_from(id).ok());
                match place.and_then(|place| Some((place, self.index.get(place)?))) {
                    None => Answer::refused("404 Not Found"),
                    Some((_, song)) if request.path == "/wav" => booth::wav(song, request),
                    Some((_, song)) if request.path == "/flac" => booth::flac(song, request),
                    Some((place, song)) => self.booths.answer(place, song, request),
                }
            }
            _ => Answer::refused("404 Not Found"),
        }
    }

    /// The songs that have all words that are looked for.
    fn songs(&self, request: &Request) -> Answer {
        let wanted = request.value("q").unwrap_or_default().to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let found = self.index.iter().enumerate();
        let mut found = found.filter(|(_, song)| words.iter().all(|word| song.text.contains(word)));
        let from = request.number("from").unwrap_or(0) as usize;
        let songs: Vec<_> = found
            .by_ref()
            .skip(from)
            .take(SONGS_AT_ONCE)
            .map(|(id, song)| json!({ "id": id, "song": song.entry }))
            .collect();
        let more = found.next().is_some();
        Answer::json(&json!({ "songs": songs, "more": more, "all": self.index.len() }))
    }
}
