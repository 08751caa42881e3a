//! Files below a root folder: the running system's `/`, or a captured copy of one.
//!
//! Invariant: every read is bounded in size and never waits, whatever the tree holds (a FIFO, a
//! device, a loop of links). An absent file is no error; one that is there and unreadable is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::types::{CpuSet, Error};

/// The folder of the PUs, of which several readers ask.
pub(crate) const CPU: &str = "sys/devices/system/cpu";

/// A file of sysfs holds a page at most; lists and masks of large machines a few.
const FILE_BYTES_MAX: usize = 1 << 20;
/// `/proc/cpuinfo` tells some 1.5 KB a PU.
const LONG_FILE_BYTES_MAX: usize = 1 << 25;

/// The files below a root.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// # Errors
    ///
    /// [`Error::Unreadable`] when the root is no readable folder.
    pub(crate) fn open(root: &Path) -> Result<Tree, Error> {
        fs::read_dir(root).map_err(|source| Error::Unreadable {
            path: root.into(),
            source,
        })?;
        Ok(Tree { root: root.into() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file whose name inside the tree may begin with a slash.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.join(file.trim_start_matches('/'))
    }

    /// The file's text without NULs, line ends and blanks around it; `None` when it is not there.
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>, Error> {
        self.read(file, FILE_BYTES_MAX)
    }

    /// As [`Tree::text`], for files of many lines.
    pub(crate) fn long_text(&self, file: &str) -> Result<Option<String>, Error> {
        self.read(file, LONG_FILE_BYTES_MAX)
    }

    /// A CPU list (`0-3,8`); `None` when the file is not there.
    pub(crate) fn list(&self, file: &str) -> Result<Option<CpuSet>, Error> {
        let Some(text) = self.text(file)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|error: Error| error.in_file(self.path(file)))
    }

    /// A CPU mask (`0000ffff`), or else the list beside it; `None` when neither is there.
    pub(crate) fn mask_or_list(&self, mask: &str, list: &str) -> Result<Option<CpuSet>, Error> {
        match self.text(mask)?.filter(|text| !text.is_empty()) {
            Some(text) => CpuSet::parse_mask(&text)
                .map(Some)
                .map_err(|error| error.in_file(self.path(mask))),
            None => self.list(list),
        }
    }

    /// A whole number; `None` when the file is not there or holds something else (kernels write
    /// `<unknown>` for what a driver does not tell).
    pub(crate) fn number(&self, file: &str) -> Result<Option<i64>, Error> {
        Ok(self.text(file)?.and_then(|text| text.parse().ok()))
    }

    /// The numbers N for which `folder` has an entry `prefixN`, ascending.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Result<Vec<usize>, Error> {
        let mut numbers: Vec<usize> = self
            .names(folder)?
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .filter(|&number| number <= CpuSet::INDEX_MAX)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// The names of the folders in a folder, links to folders not counted.
    pub(crate) fn folders(&self, folder: &str) -> Result<Vec<String>, Error> {
        let is_folder = |name: &String| {
            let path = self.path(folder).join(name);
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
        };
        Ok(self.names(folder)?.into_iter().filter(is_folder).collect())
    }

    /// The names in a folder; none when it is not there.
    fn names(&self, folder: &str) -> Result<Vec<String>, Error> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(source) => return Err(Error::Unreadable { path, source }),
        };
        entries
            .take(CpuSet::INDEX_MAX)
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()
            .map_err(|source| Error::Unreadable { path, source })
    }

    fn read(&self, file: &str, bytes_max: usize) -> Result<Option<String>, Error> {
        let path = self.path(file);
        match read_bounded(&path, bytes_max) {
            Ok(bytes) if bytes.len() > bytes_max => Err(Error::Malformed {
                path,
                reason: format!("longer than {bytes_max} bytes"),
            }),
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Ok(Some(
                    text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
                        .to_string(),
                ))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }
}

/// Not there, or hidden from this user, or told by nobody: the file says nothing.
fn is_absent(error: &io::Error) -> bool {
    let told_by_nobody = matches!(error.raw_os_error(), Some(code) if NO_ANSWER.contains(&code));
    told_by_nobody
        || matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
        )
}

/// What a kernel attribute answers when its driver has nothing to tell.
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

/// Up to one byte more than `bytes_max`, in as few calls as a short file needs.
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

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // A FIFO without a writer would block the open; so it reads as empty.
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
