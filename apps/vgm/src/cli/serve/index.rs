//! The index of an archive: what each song says about itself, kept from one start to the next.
//!
//! Invariant: a song is read again only if its file's size or time has changed, and what has gone
//! from the folders goes from the index.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, anyhow};
use creel::Pool;
use creel_vgm::batch::{Source, find};
use creel_vgm::format::TICKS_PER_SECOND;
use redb::{Database, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

/// Absolute path to an [`Entry`] in JSON.
const SONGS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("songs-1");
/// Songs that are read between two writes.
const AT_ONCE: usize = 256;

/// What is known of a song.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Entry {
    pub path: String,
    pub title: String,
    pub game: String,
    pub system: String,
    pub author: String,
    pub chips: String,
    pub seconds: f64,
    /// Why it cannot be read, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of the file: nanoseconds since 1970, and bytes.
    stamp: (u64, u64),
}

/// A song that can be played, and what is looked through in search of it.
pub struct Song {
    pub entry: Entry,
    pub text: String,
}

/// The store.
pub struct Index {
    database: Database,
}

/// What was done to bring it up to date.
#[derive(Debug, Default)]
pub struct Renewed {
    pub read: usize,
    pub gone: usize,
    pub failed: usize,
}

impl Index {
    /// Opens the store, or makes it.
    pub fn open(path: Option<PathBuf>) -> anyhow::Result<Index> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = || {
            let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
            Some(cache.join("creel-vgm/index.redb"))
        };
        let path = path
            .or_else(usual)
            .context("there is no home folder; name a file by --index")?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let database = Database::create(&path).with_context(|| path.display().to_string())?;
        Ok(Index { database })
    }

    /// Reads what is new in these folders, and forgets what is not there any more.
    pub fn renew(&self, folders: &[PathBuf], pool: &Pool) -> anyhow::Result<Renewed> {
        let mut files = Vec::new();
        for folder in folders {
            let folder = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
            for (source, _) in find(&[folder], true).songs {
                // What lies in archives is left to `play`.
                if let Source::File(path) = source
                    && let Some(stamp) = stamp(&path)
                {
                    files.push((path, stamp));
                }
            }
        }
        let known: Vec<Entry> = self.all()?;
        let fresh: HashSet<(&str, (u64, u64))> = known
            .iter()
            .map(|entry| (entry.path.as_str(), entry.stamp))
            .collect();
        let here: HashSet<&str> = files.iter().filter_map(|(path, _)| path.to_str()).collect();
        let is_new = |file: &&(PathBuf, (u64, u64))| {
            file.0
                .to_str()
                .is_some_and(|path| !fresh.contains(&(path, file.1)))
        };
        let new: Vec<_> = files.iter().filter(is_new).collect();
        let gone: Vec<&str> = known.iter().map(|entry| entry.path.as_str()).collect();
        let gone: Vec<&str> = gone
            .into_iter()
            .filter(|path| !here.contains(path))
            .collect();
        let mut renewed = Renewed {
            read: new.len(),
            gone: gone.len(),
            ..Renewed::default()
        };
        for files in new.chunks(AT_ONCE) {
            let entries = pool.map(files, |_, (path, stamp)| Entry::read(path, *stamp));
            let write = self.database.begin_write()?;
            {
                let mut table = write.open_table(SONGS)?;
                for entry in &entries {
                    table.insert(entry.path.as_str(), serde_json::to_vec(entry)?.as_slice())?;
                }
            }
            write.commit()?;
        }
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(SONGS)?;
            for path in gone {
                table.remove(path)?;
            }
        }
        write.commit()?;
        renewed.failed = self
            .all()?
            .iter()
            .filter(|entry| entry.error.is_some())
            .count();
        Ok(renewed)
    }

    fn all(&self) -> anyhow::Result<Vec<Entry>> {
        let read = self.database.begin_read()?;
        let table = match read.open_table(SONGS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut all = Vec::new();
        for row in table.iter()? {
            let bytes = row?.1;
            // Of another version, it is read anew.
            all.extend(serde_json::from_slice::<Entry>(bytes.value()).ok());
        }
        Ok(all)
    }

    /// The songs that can be played, by their paths.
    pub fn songs(&self) -> anyhow::Result<Vec<Song>> {
        let all = self
            .all()?
            .into_iter()
            .filter(|entry| entry.error.is_none());
        let song = |entry: Entry| {
            let text = [
                &entry.title,
                &entry.game,
                &entry.system,
                &entry.author,
                &entry.chips,
                &entry.path,
            ];
            let text = text.map(|text| text.to_lowercase()).join("\n");
            Song { entry, text }
        };
        Ok(all.map(song).collect())
    }
}

fn stamp(path: &Path) -> Option<(u64, u64)> {
    let data = fs::metadata(path).ok()?;
    let time = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((time.as_nanos() as u64, data.len()))
}

impl Entry {
    fn read(path: &Path, stamp: (u64, u64)) -> Entry {
        let mut entry = Entry {
            path: path.to_string_lossy().into_owned(),
            title: String::new(),
            game: String::new(),
            system: String::new(),
            author: String::new(),
            chips: String::new(),
            seconds: 0.0,
            error: None,
            stamp,
        };
        let song = Source::File(path.into())
            .load()
            .map_err(|error| anyhow!(error));
        match song {
            Err(error) => entry.error = Some(error.to_string()),
            Ok(song) => {
                let tags = song.tags.either();
                let chips: Vec<_> = song.chips().map(|it| song.header.name(it.chip)).collect();
                entry.chips = chips.join(", ");
                entry.seconds = song.ticks() as f64 / f64::from(TICKS_PER_SECOND);
                (entry.title, entry.game) = (tags.track, tags.game);
                (entry.system, entry.author) = (tags.system, tags.author);
            }
        }
        entry
    }
}
