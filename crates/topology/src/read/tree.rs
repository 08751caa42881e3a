//! Files below a root folder: the `/` of the running system, or a captured copy of one.
//!
//! Invariant: every read is bounded in size and never blocks, even if the tree contains a FIFO, a
//! device or a loop of links. A missing file is not an error. A file that exists and cannot be read
//! is one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::types::{CpuSet, Error};

/// The folder of the PUs, which several readers use.
pub(crate) const CPU: &str = "sys/devices/system/cpu";

/// The maximum size of a file. A sysfs file has at most a page, and lists and masks of large
/// machines have a few.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a long file. `/proc/cpuinfo` has about 1.5 KB per PU.
const LONG_FILE_BYTES_MAX: usize = 1 << 25;

/// The files below a root folder.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Opens a tree.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unreadable`] if the root is not a readable folder.
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

    /// Returns the path of a file. Its name inside the tree may begin with a slash.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.join(file.trim_start_matches('/'))
    }

    /// Returns the text of a file without NULs and whitespace around it, or `None` if the file is
    /// missing.
    pub(crate) fn text(&self, file: &str) -> Result<Option<String>, Error> {
        self.read(file, FILE_BYTES_MAX)
    }

    /// Returns the text of a file like [`Tree::text`], with a higher limit for files with many
    /// lines.
    pub(crate) fn long_text(&self, file: &str) -> Result<Option<String>, Error> {
        self.read(file, LONG_FILE_BYTES_MAX)
    }

    /// Reads a CPU list (`0-3,8`). Returns `None` if the file is missing.
    pub(crate) fn list(&self, file: &str) -> Result<Option<CpuSet>, Error> {
        let Some(text) = self.text(file)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|error: Error| error.in_file(self.path(file)))
    }

    /// Reads a CPU mask (`0000ffff`), or a list if there is no mask. Returns `None` if both are
    /// missing.
    pub(crate) fn mask_or_list(&self, mask: &str, list: &str) -> Result<Option<CpuSet>, Error> {
        match self.text(mask)?.filter(|text| !text.is_empty()) {
            Some(text) => CpuSet::parse_mask(&text)
                .map(Some)
                .map_err(|error| error.in_file(self.path(mask))),
            None => self.list(list),
        }
    }

    /// Reads a whole number. Returns `None` if the file is missing or contains something else. For
    /// example, kernels write `<unknown>` if a driver does not report a value.
    pub(crate) fn number(&self, file: &str) -> Result<Option<i64>, Error> {
        Ok(self.text(file)?.and_then(|text| text.parse().ok()))
    }

    /// Returns the numbers N for which `folder` has an entry `prefixN`, in ascending order.
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

    /// Returns the names of the folders in a folder. Links to folders do not count.
    pub(crate) fn folders(&self, folder: &str) -> Result<Vec<String>, Error> {
        let is_folder = |name: &String| {
            let path = self.path(folder).join(name);
            fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
        };
        Ok(self.names(folder)?.into_iter().filter(is_folder).collect())
    }

    /// Returns the names in a folder. The list is empty if the folder is missing.
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

    /// Reads a file of at most `bytes_max` bytes.
    fn read(&self, file: &str, bytes_max: usize) -> Result<Option<String>, Error> {
        let path = self.path(file);
        match read_bounded(&path, bytes_max) {
            Ok(bytes) if bytes.len() > bytes_max => Err(Error::Malformed {
                path,
                reason: format!("the file is longer than {bytes_max} bytes"),
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

/// Reads up to one byte more than `bytes_max`, in as few calls as a short file needs.
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
