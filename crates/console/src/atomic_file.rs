//! Files that appear under their final name only when they are complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest file name that common file systems accept.
const NAME_BYTES_MAX: usize = 255;

/// A file that we write under a temporary name next to its target, and rename when it is complete.
///
/// Until [`commit`](Self::commit), an existing file at the target stays as it is. If you drop the
/// file before, we remove the temporary file. It stays only if the process is killed. Its name ends
/// in `.part`. [`remove_abandoned`](Self::remove_abandoned) removes files that stayed.
///
/// ```
/// use creel_console::AtomicFile;
/// use std::io::Write;
///
/// let path = std::env::temp_dir().join(format!("creel-atomic-{}", std::process::id()));
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"all of it")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    renamed: bool,
}

impl AtomicFile {
    /// Creates the temporary file for `path`.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        loop {
            let partial = path.with_file_name(partial_name(path.file_name().unwrap_or_default()));
            // We never open an existing file. Therefore nobody can prepare a file under the name,
            // and two writers of one target never share a temporary file.
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&partial)
            {
                Ok(file) => {
                    // The lock shows other processes that this file is in use. We ignore an error,
                    // because some file systems have no locks.
                    let _ = file.try_lock();
                    return Ok(Self {
                        file,
                        partial,
                        path: path.to_owned(),
                        renamed: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system. The target is then unchanged.
    pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes)?;
        file.commit()
    }

    /// Removes the temporary files for these targets in one folder that killed processes have left.
    ///
    /// We keep files that another process writes, and files that were created just now. We ignore
    /// errors, because an abandoned file does no harm.
    pub fn remove_abandoned(folder: &Path, is_target: impl Fn(&OsStr) -> bool) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let target = target_name(&name);
            if target.is_some_and(&is_target) && is_abandoned(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Returns the temporary file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the temporary file, for another program that writes or reads it.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Syncs the file to disk and renames it to its target. The call blocks until the disk has the
    /// data.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system. The target is then unchanged.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()
    }

    /// Renames the file to its target and returns it, so that you can continue to write. We do not
    /// sync the file, because it is not complete.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system. The target is then unchanged.
    pub fn commit_growing(mut self) -> io::Result<File> {
        let file = self.file.try_clone()?;
        self.rename()?;
        Ok(file)
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(&self.partial, &self.path)?;
        self.renamed = true;
        Ok(())
    }
}

/// Returns the temporary name `NAME.RANDOM.part`, or a name without NAME if that would be too long.
fn partial_name(name: &OsStr) -> OsString {
    // The keys of a hasher come from the random numbers of the system, so nobody can predict the
    // name.
    let random = RandomState::new().build_hasher().finish();
    let mut partial = name.to_owned();
    let end = format!(".{random:016x}.part");
    if name.len() + end.len() > NAME_BYTES_MAX {
        partial.clear();
    }
    partial.push(end);
    partial
}

/// Returns the name of the target that a temporary name belongs to, or `None` if the name is not
/// that of a temporary file.
fn target_name(partial: &OsStr) -> Option<&OsStr> {
    let name = partial.to_str()?.strip_suffix(".part")?;
    let (target, random) = name.rsplit_once('.')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_random && !target.is_empty()).then_some(OsStr::new(target))
}

/// The age up to which a temporary file may belong to a process that has not locked it yet.
const YOUNG: Duration = Duration::from_millis(100);

fn is_abandoned(path: &Path) -> bool {
    let age = fs::symlink_metadata(path).and_then(|about| about.modified());
    let is_old = age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > YOUNG));
    is_old && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.renamed {
            // We ignore the error, because an incomplete file is useless, and the caller already
            // has the error that matters.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder for one test.
    fn folder(name: &str) -> PathBuf {
        let name = format!("creel-atomic-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn only_old_unlocked_files_of_the_targets_are_removed() {
        let folder = std::env::temp_dir().join(format!("creel-abandoned-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let old = std::time::SystemTime::now() - 2 * YOUNG;
        let leave = |name: &str| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_modified(old).unwrap();
        };
        leave("a.wav.0123456789abcdef.part");
        leave("b.wav.0123456789abcdef.part");
        leave("a.wav.part");
        leave("a.wav.0123.part");
        let in_use = AtomicFile::create(&folder.join("a.wav")).unwrap();
        in_use.file().set_modified(old).unwrap();
        let young = File::create(folder.join("a.wav.ffffffffffffffff.part")).unwrap();
        young
            .set_modified(std::time::SystemTime::now() + Duration::from_secs(60))
            .unwrap();
        drop(young);
        AtomicFile::remove_abandoned(&folder, |name| name == "a.wav");
        let has = |name: &str| folder.join(name).exists();
        assert!(!has("a.wav.0123456789abcdef.part"));
        assert!(has("b.wav.0123456789abcdef.part"), "another target");
        assert!(has("a.wav.part") && has("a.wav.0123.part"), "other names");
        assert!(in_use.partial.exists(), "a file in use");
        assert!(has("a.wav.ffffffffffffffff.part"), "a young file");
        drop(in_use);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_target_file_changes_only_on_commit() {
        let folder = folder("commit");
        let path = folder.join("file");
        fs::write(&path, "old").unwrap();
        let mut dropped = AtomicFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        let (first, mut second) = (
            AtomicFile::create(&path),
            AtomicFile::create(&path).unwrap(),
        );
        second.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        second.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        drop(first);
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            1,
            "no partial files"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_growing_file_is_written_after_its_rename() {
        let folder = folder("growing");
        let path = folder.join("file");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"header ").unwrap();
        let mut file = file.commit_growing().unwrap();
        file.write_all(b"body").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"header body");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_names_of_every_length_are_accepted() {
        let folder = folder("names");
        for length in [1, 200, 233, 234, 255] {
            let path = folder.join("n".repeat(length));
            AtomicFile::write(&path, b"x").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"x", "{length}");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 5);
        fs::remove_dir_all(folder).unwrap();
    }
}
