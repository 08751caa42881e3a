//! The index of a collection of songs. It keeps the tags, the length and the chips of each song
//! from one start of the server to the next.
//!
//! Invariant: a file is read again only if its size or modification time has changed, or if its
//! entry in the index cannot be parsed. A file that no longer exists is removed from the index. The
//! songs in a zip or 7z file belong to that file.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::panic;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use creel::Pool;
use creel_console::{Exit, Failure};
use creel_vgm::batch::{Source, files_below, songs_of};
use creel_vgm::format::TICKS_PER_SECOND;
use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableTable, StorageError, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::cli::stderr::report;

/// Maps the bytes of the absolute path of a file to a [`Row`] in JSON.
const FILES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("files-1");
/// The number of files that are read between two writes to the database.
const AT_ONCE: usize = 256;

/// A file of the index: its state when it was read, and its songs.
#[derive(Debug, Deserialize, Serialize)]
struct Row {
    /// The modification time in nanoseconds since 1970, and the size in bytes.
    stamp: (u64, u64),
    songs: Vec<Entry>,
}

/// The information about a song in the index.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Entry {
    /// The path of the file, followed by the path inside it if it is an archive.
    pub path: String,
    pub title: String,
    pub game: String,
    pub system: String,
    pub author: String,
    pub chips: String,
    pub seconds: f64,
    /// The reason if the song cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A song that can be played, and its text for the search.
pub struct Song {
    pub entry: Entry,
    pub text: String,
    file: PathBuf,
}

impl Song {
    fn new((entry, file): (Entry, PathBuf)) -> Song {
        let text = [
            &entry.title,
            &entry.game,
            &entry.system,
            &entry.author,
            &entry.chips,
            &entry.path,
        ];
        let text = text.map(|text| text.to_lowercase()).join("\n");
        Song { entry, text, file }
    }

    /// Returns the source of the song, or `None` if its file cannot be read or no longer contains
    /// the song. This opens the archive if the song is in one.
    pub fn source(&self) -> Option<Source> {
        let songs = songs_of(&self.file).ok()?;
        songs
            .into_iter()
            .find(|song| song.to_string() == self.entry.path)
    }
}

/// The index, in a database file.
pub struct Index {
    database: Database,
    /// The name of the file, for error messages.
    name: String,
}

/// The first bytes of a redb database.
const MAGIC: &[u8] = b"redb\x1a\n\xa9\r\n";

/// Returns whether we may overwrite `path`: it does not exist, or it begins like a redb database,
/// even if it is cut short. Any other file may belong to the user.
fn is_index_or_new(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(of) if !of.is_file() => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    }
    let mut head = Vec::new();
    let file = File::open(path)?;
    file.take(MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(MAGIC.starts_with(&head))
}

/// Opens a database and checks all of it. redb panics if the file is cut short, so we catch the
/// panic and return it as `Err(None)`.
fn open_checked(path: &Path) -> Result<Database, Option<DatabaseError>> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let opened = panic::catch_unwind(|| {
        let mut database = Database::create(path)?;
        database.check_integrity()?;
        Ok(database)
    });
    panic::set_hook(hook);
    opened.map_or(Err(None), |opened| opened.map_err(Some))
}

/// The result of updating the index. The numbers count songs, and `songs` has all songs that can be
/// played, ordered by path.
#[derive(Default)]
pub struct Refresh {
    pub songs: Vec<Song>,
    pub read: usize,
    pub gone: usize,
    pub failed: usize,
}

impl Index {
    /// Opens the index, or creates it.
    pub fn open(path: Option<PathBuf>) -> anyhow::Result<Index> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = || {
            let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?;
            Some(cache.join("creel-vgm/index.redb"))
        };
        let path = path
            .or_else(usual)
            .context("cannot find a place for the index: set HOME, or pass a file to --index")?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| {
                format!("cannot create the folder of the index {}", folder.display())
            })?;
        }
        let name = path.display().to_string();
        let cannot_open = || format!("cannot open the index {name}");
        if !is_index_or_new(&path).with_context(cannot_open)? {
            let message = format!(
                "{name} is not an index, so it is not overwritten. Pass another file to --index"
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let broken = match open_checked(&path) {
            Ok(database) => return Ok(Index { database, name }),
            Err(Some(DatabaseError::DatabaseAlreadyOpen)) => {
                report(&format!(
                    "another server is using the index {name}, so this server does not save its \
                     own index. Use --index to save it in another file"
                ));
                let memory = Database::builder().create_with_backend(InMemoryBackend::new());
                return Ok(Index {
                    database: memory?,
                    name,
                });
            }
            Err(Some(DatabaseError::Storage(StorageError::Io(error))))
                if error.kind() != ErrorKind::InvalidData =>
            {
                return Err(error).with_context(cannot_open);
            }
            Err(Some(error)) => error.to_string(),
            Err(None) => "it is damaged".into(),
        };
        // We can rebuild the index from the songs, so nothing is lost.
        report(&format!(
            "cannot use the index {name} ({broken}), so it is rebuilt"
        ));
        fs::remove_file(&path).with_context(cannot_open)?;
        let database = Database::create(&path).with_context(cannot_open)?;
        Ok(Index { database, name })
    }

    /// Reads new and changed files in these folders. It removes all files that no longer exist from
    /// the index, also those of other folders.
    pub fn refresh(&self, folders: &[PathBuf], pool: &Pool) -> anyhow::Result<Refresh> {
        self.renewed(folders, pool)
            .with_context(|| format!("cannot update the index {}", self.name))
    }

    fn renewed(&self, folders: &[PathBuf], pool: &Pool) -> anyhow::Result<Refresh> {
        let mut files = Vec::new();
        for folder in folders {
            let folder = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
            // The argument may also be a single file.
            let below = match folder.is_dir() {
                true => files_below(&folder),
                false => vec![folder],
            };
            files.extend(
                below
                    .into_iter()
                    .filter_map(|file| Some((stamp(&file)?, file))),
            );
        }
        let known: HashMap<PathBuf, Row> = self.all()?.into_iter().collect();
        let here: HashSet<&Path> = files.iter().map(|(_, path)| path.as_path()).collect();
        let gone: Vec<_> = known
            .iter()
            .filter(|(path, _)| !here.contains(path.as_path()) && !path.exists())
            .collect();
        let is_known = |(stamp, path): &&((u64, u64), PathBuf)| {
            known.get(path).is_some_and(|row| row.stamp == *stamp)
        };
        let new: Vec<_> = files.iter().filter(|file| !is_known(file)).collect();
        let mut renewed = Refresh {
            gone: gone.iter().map(|(_, row)| row.songs.len()).sum(),
            ..Refresh::default()
        };
        for files in new.chunks(AT_ONCE) {
            let rows = pool.map(files, |(stamp, path)| Row {
                stamp: *stamp,
                songs: read(path),
            });
            let write = self.database.begin_write()?;
            {
                let mut table = write.open_table(FILES)?;
                for ((_, path), row) in files.iter().zip(&rows) {
                    renewed.read += row.songs.len();
                    table.insert(key(path), serde_json::to_vec(row)?.as_slice())?;
                }
            }
            write.commit()?;
        }
        if !gone.is_empty() {
            let write = self.database.begin_write()?;
            {
                let mut table = write.open_table(FILES)?;
                for (path, _) in gone {
                    table.remove(key(path))?;
                }
            }
            write.commit()?;
        }
        // We return only the songs of these folders, although the index may have others.
        let all = self.all()?.into_iter();
        let all = all.filter(|(path, _)| here.contains(path.as_path()));
        let all =
            all.flat_map(|(file, row)| row.songs.into_iter().map(move |it| (it, file.clone())));
        let (songs, failed): (Vec<_>, Vec<_>) = all.partition(|(entry, _)| entry.error.is_none());
        renewed.failed = failed.len();
        renewed.songs = songs.into_iter().map(Song::new).collect();
        Ok(renewed)
    }

    fn all(&self) -> anyhow::Result<Vec<(PathBuf, Row)>> {
        let read = self.database.begin_read()?;
        let table = match read.open_table(FILES) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut all = Vec::new();
        for row in table.iter()? {
            let (path, bytes) = row?;
            // A row that another version wrote may not parse. We skip it, so its file is read
            // again.
            let row = serde_json::from_slice(bytes.value()).ok();
            all.extend(path_of(path.value()).zip(row));
        }
        Ok(all)
    }
}

fn key(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Returns the path of a key.
#[cfg(unix)]
fn path_of(key: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(std::ffi::OsStr::from_bytes(key).into())
}

/// Returns the path of a key, or `None` if it is not valid Unicode.
#[cfg(not(unix))]
fn path_of(key: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(key).ok().map(PathBuf::from)
}

fn stamp(path: &Path) -> Option<(u64, u64)> {
    let data = fs::metadata(path).ok()?;
    let time = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((time.as_nanos() as u64, data.len()))
}

/// Returns the songs of a file. If it cannot be read, the only entry has the reason.
fn read(file: &Path) -> Vec<Entry> {
    match songs_of(file) {
        Ok(songs) => songs.iter().map(Entry::read).collect(),
        Err(error) => vec![Entry {
            path: file.display().to_string(),
            error: Some(error.to_string()),
            ..Entry::default()
        }],
    }
}

impl Entry {
    fn read(source: &Source) -> Entry {
        let mut entry = Entry {
            path: source.to_string(),
            ..Entry::default()
        };
        match source.load() {
            Err(error) => entry.error = Some(error.to_string()),
            Ok(song) => {
                let tags = song.tags.with_fallback();
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
