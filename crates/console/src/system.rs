//! Files of the system, for example in `/proc`.
//!
//! In a container, these files can be anything. None of them may keep a program from starting, so
//! every read is bounded and never blocks.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The maximum size of a file. `/proc/cpuinfo` has about 1.5 KB per PU.
const BYTES_MAX: usize = 1 << 25;

/// Returns the text of a file. Bytes that are not UTF-8 are replaced.
///
/// # Errors
///
/// Returns the error of the system, or an error if the path is not a file or is longer than 32 MiB.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    // We open regular files only, because opening a FIFO would block, and a device may be endless.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the path is not that of a file",
        ));
    }
    let mut bytes = Vec::new();
    let limit = BYTES_MAX as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "the file is longer than 32 MiB",
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the file of this program, to start it a second time.
///
/// On Linux, the standard library reads the path from `/proc`, which a container may lack. In this
/// case, we search for the name by which the program was started, as a shell does. A relative name
/// counts from the working directory, so call this before you change it.
///
/// # Errors
///
/// Returns the error of the system if it does not know the path and the search finds no file.
pub fn own_program() -> io::Result<PathBuf> {
    env::current_exe().or_else(|error| {
        let name = env::args_os().next();
        name.and_then(|name| find_program(&name, env::var_os("PATH").as_deref()))
            .ok_or(error)
    })
}

/// Returns whether `/proc` shows the processes under the ids by which this process knows them. It
/// does not if it is not mounted, or if it belongs to another PID namespace.
pub fn shows_processes() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.and_then(|own| own.to_str()?.parse().ok()) == Some(std::process::id())
}

/// Searches for a program as a shell does: in the folders of `path` if the name has no folder.
fn find_program(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 {
        return name.is_file().then(|| name.into());
    }
    let mut files = env::split_paths(path?).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn endless_files_are_rejected() {
        assert!(text("/dev/zero").is_err());
        assert!(text("/no/such/file").is_err());
        assert!(text("/").is_err());
    }

    #[test]
    fn programs_are_found_as_by_a_shell() {
        let own = env::current_exe().unwrap();
        let (folder, name) = (own.parent().unwrap(), own.file_name().unwrap());
        let path = env::join_paths([Path::new("/no/such/folder"), folder]).unwrap();
        assert_eq!(find_program(name, Some(&path)), Some(own.clone()));
        assert_eq!(find_program(own.as_os_str(), None), Some(own.clone()));
        assert_eq!(find_program(name, None), None);
        assert_eq!(
            find_program(OsStr::new("./no-such-program"), Some(&path)),
            None
        );
    }

    #[test]
    fn huge_files_are_rejected() {
        let name = format!("creel-console-huge-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::create_new(&path).unwrap();
        file.set_len(BYTES_MAX as u64 + 1).unwrap();
        let huge = text(&path).is_err();
        file.set_len(3).unwrap();
        let short = text(&path).map(|text| text.len());
        fs::remove_file(&path).unwrap();
        assert!(huge);
        assert_eq!(short.unwrap(), 3);
    }
}
