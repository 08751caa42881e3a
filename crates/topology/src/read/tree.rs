//! Files below a root folder: the `/` of the running system, or a captured copy of one.
//!
//! Invariants:
//!
//! - Reading never fails. If a file exists and we cannot use it, its value is unknown. A note says
//!   so, unless that is usual, for example if the user may not read the file. A program must start
//!   even if `/sys` and `/proc` contain nonsense.
//! - Every read is bounded in size and never blocks, even if the tree contains a FIFO, a device or
//!   a loop of links. The whole tree is bounded too, because a hostile tree has many files.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::types::{CpuSet, Error};

/// The folder of the PUs, which several readers use.
pub(crate) const CPU: &str = "sys/devices/system/cpu";

/// The maximum size of a file. A sysfs file usually has at most one page. The lists and masks of
/// large machines have a few pages.
const FILE_BYTES_MAX: usize = 1 << 17;
/// The maximum size of a long file. `/proc/cpuinfo` has about 1.5 KB per PU.
const LONG_FILE_BYTES_MAX: usize = 1 << 25;
/// The maximum work for a whole tree, in units of one byte read. Each file or entry of a folder
/// counts as [`ACCESS`] bytes. A machine with 2,048 PUs needs less than a fifth of it.
const WORK_MAX: usize = 1 << 28;
/// The work of opening a file or reading an entry of a folder, in units of one byte read.
const ACCESS: usize = 256;
/// The maximum number of notes. We need a limit, because one cause may spoil thousands of files.
const NOTES_MAX: usize = 16;

/// The files below a root folder, and notes on those that we could not use.
pub(crate) struct Tree {
    root: PathBuf,
    /// The process whose limits we read, or `None` for the one that the tree calls `self`.
    process: Option<u32>,
    work_left: Cell<usize>,
    notes: RefCell<Vec<String>>,
}

impl Tree {
    /// Opens a tree. The root may be missing.
    pub(crate) fn open(root: &Path, process: Option<u32>) -> Tree {
        Tree {
            root: root.into(),
            process,
            work_left: Cell::new(WORK_MAX),
            notes: RefCell::default(),
        }
    }

    /// Adds a note, unless the same note exists already or there are too many notes.
    pub(crate) fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < NOTES_MAX && !notes.contains(&note) {
            notes.push(note);
        }
    }

    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }

    /// Returns the path of a file. Its name inside the tree may begin with a slash.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        let file = file.trim_start_matches('/');
        let own = file.strip_prefix("proc/self/");
        match (self.process, own) {
            // The other process may see other mounts, but we read its control groups through the
            // mounts of this process.
            (Some(_), Some("mountinfo" | "mounts")) => self.root.join(file),
            (Some(process), Some(own)) => self.root.join(format!("proc/{process}/{own}")),
            _ => self.root.join(file),
        }
    }

    /// Returns whether a folder exists.
    pub(crate) fn is_folder(&self, folder: &str) -> bool {
        self.spend(ACCESS) && self.path(folder).is_dir()
    }

    /// Returns the text of a file without NULs and whitespace around it, or `None` if the file is
    /// missing or unusable.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        self.read(file, FILE_BYTES_MAX)
    }

    /// Returns the text of a file like [`Tree::text`], with a higher limit for files with many
    /// lines.
    pub(crate) fn long_text(&self, file: &str) -> Option<String> {
        self.read(file, LONG_FILE_BYTES_MAX)
    }

    /// Returns the text of the file of a limit. Unlike [`Tree::text`], this also notes that the
    /// user may not read the file, because the limit still applies to the program.
    pub(crate) fn limit_text(&self, file: &str) -> Option<String> {
        let text = self.text(file);
        let path = self.path(file);
        if text.is_none()
            && let Err(error) = open(&path)
            && error.kind() == ErrorKind::PermissionDenied
        {
            self.note(format!(
                "cannot read {}: {error}: the limit in it is hidden",
                path.display()
            ));
        }
        text
    }

    /// Reads a CPU list (`0-3,8`). Returns `None` if the file is missing or contains something
    /// else.
    pub(crate) fn list(&self, file: &str) -> Option<CpuSet> {
        self.valid(file, self.text(file)?.parse())
    }

    /// Reads a CPU mask (`0000ffff`), or a list if there is no usable mask.
    pub(crate) fn mask_or_list(&self, mask: &str, list: &str) -> Option<CpuSet> {
        let text = self.text(mask).filter(|text| !text.is_empty());
        text.and_then(|text| self.valid(mask, CpuSet::parse_mask(&text)))
            .or_else(|| self.list(list))
    }

    /// Returns a parsed value, or notes that the file is malformed.
    pub(crate) fn valid<T>(&self, file: &str, parsed: Result<T, Error>) -> Option<T> {
        parsed
            .map_err(|error| self.note(format!("{}: {error}", self.path(file).display())))
            .ok()
    }

    /// Reads a whole number. Returns `None` if the file is missing or contains something else. For
    /// example, kernels write `<unknown>` if a driver does not report a value.
    pub(crate) fn number(&self, file: &str) -> Option<i64> {
        self.text(file)?.parse().ok()
    }

    /// Returns the numbers N for which `folder` has an entry `prefixN`, in ascending order.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self
            .names(folder)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .filter(|&number| number <= CpuSet::INDEX_MAX)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns the names of the folders in a folder. Links to folders do not count.
    pub(crate) fn folders(&self, folder: &str) -> Vec<String> {
        let is_folder = |name: &String| {
            let path = self.path(folder).join(name);
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
        };
        self.names(folder).into_iter().filter(is_folder).collect()
    }

    /// Returns the names in a folder. The list is empty if the folder cannot be read, or if the
    /// work for the tree has reached its limit.
    fn names(&self, folder: &str) -> Vec<String> {
        if !self.spend(ACCESS) {
            return Vec::new();
        }
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => {
                self.note_unreadable(&path, &error);
                return Vec::new();
            }
        };
        let name = |entry: io::Result<fs::DirEntry>| match entry {
            Ok(entry) => Some(entry.file_name().to_string_lossy().into_owned()),
            Err(error) => {
                self.note_unreadable(&path, &error);
                None
            }
        };
        entries
            .take(CpuSet::INDEX_MAX)
            .take_while(|_| self.spend(ACCESS))
            .map_while(name)
            .collect()
    }

    /// Reads a file of at most `bytes_max` bytes.
    fn read(&self, file: &str, bytes_max: usize) -> Option<String> {
        if !self.spend(ACCESS) {
            return None;
        }
        let path = self.path(file);
        match read_bounded(&path, bytes_max) {
            Ok(bytes) if bytes.len() > bytes_max => {
                self.spend(bytes_max);
                self.note(format!(
                    "{}: the file is longer than {bytes_max} bytes",
                    path.display()
                ));
                None
            }
            Ok(bytes) => {
                self.spend(bytes.len());
                let text = String::from_utf8_lossy(&bytes);
                Some(
                    text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
                        .to_string(),
                )
            }
            Err(error) => {
                self.note_unreadable(&path, &error);
                None
            }
        }
    }

    /// Takes some of the work that is left for the tree. Returns whether any was left.
    fn spend(&self, work: usize) -> bool {
        let left = self.work_left.get();
        if left == 0 {
            self.note(format!(
                "{} has too many or too large files: creel has not read all of them",
                self.root.display()
            ));
        }
        self.work_left.set(left.saturating_sub(work));
        left > 0
    }

    /// Notes that a file cannot be read, unless that is usual.
    fn note_unreadable(&self, path: &Path, error: &io::Error) {
        if !is_absent(error) {
            self.note(format!("cannot read {}: {error}", path.display()));
        }
    }
}

/// Returns whether we treat a file with this error as missing: it does not exist, this user may not
/// see it, or the driver has no value.
fn is_absent(error: &io::Error) -> bool {
    let has_no_value = matches!(error.raw_os_error(), Some(code) if NO_ANSWER.contains(&code));
    has_no_value
        || matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
        )
}

/// The errors that a kernel attribute returns if its driver has no value.
#[cfg(unix)]
const NO_ANSWER: &[i32] = &[
    libc::ENODEV,
    libc::ENXIO,
    libc::EINVAL,
    libc::EIO,
    libc::EOPNOTSUPP,
    libc::EBUSY,
];
#[cfg(not(unix))]
const NO_ANSWER: &[i32] = &[];

/// Reads at most `bytes_max` plus 4,096 bytes. A file that is shorter than 4,096 bytes needs only
/// two calls, and the second one finds its end.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut start = [0; 4096];
    let mut bytes = Vec::new();
    loop {
        let count = file.read(&mut start)?;
        bytes.extend_from_slice(&start[..count]);
        if count == 0 || bytes.len() > bytes_max {
            return Ok(bytes);
        }
    }
}

/// Opens a file for reading without blocking.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Opening a FIFO without a writer would block. With this flag it reads as empty.
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
