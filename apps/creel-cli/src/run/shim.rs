//! The preload library of `--shim`, which is inside of this program.
//!
//! The dynamic loader needs a file. We keep one in the cache folder of the user, because this
//! process becomes the program and cannot remove a temporary file afterwards. Another user must not
//! be able to replace the file. We therefore use it only if it belongs to this user, nobody else
//! may write to it, and it has the contents that we expect.

use creel_console::AtomicFile;
use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The library. It is empty if this platform cannot build it.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcreel_shim.so"));

const NAME: &str = "libcreel_shim.so";

/// Returns the path of the library, or the reason why we cannot provide it. The program starts in
/// both cases.
pub fn library() -> Result<PathBuf, String> {
    if LIBRARY.is_empty() {
        return beside().ok_or_else(|| {
            format!(
                "--shim has no effect: this build of creel does not contain the library, and there \
                 is no {NAME} in the folder of creel"
            )
        });
    }
    let mut reasons = Vec::new();
    for folder in folders() {
        match installed(&folder) {
            Ok(file) => return Ok(file),
            Err(error) => reasons.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(format!(
        "--shim has no effect: cannot write the library ({}). Set XDG_CACHE_HOME to a folder in \
         which only you may write",
        reasons.join("; ")
    ))
}

/// Returns the library in the folder of this program, or in the `lib` folder next to that folder.
fn beside() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let folder = own.parent()?;
    let mut places = [folder.join(NAME), folder.join("../lib").join(NAME)].into_iter();
    places.find(|place| place.exists())
}

/// Returns the folders in which we may keep the library. The best one is first.
fn folders() -> Vec<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let runtime = absolute("XDG_RUNTIME_DIR");
    // All users share the folder for temporary files, so the name contains the id of the user.
    // Another user may still create a folder with this name, but `installed` rejects that folder.
    let user = nix::unistd::getuid();
    let temporary = env::temp_dir().join(format!("creel-{user}"));
    let own = [cache, runtime].into_iter().flatten();
    own.map(|folder| folder.join("creel"))
        .chain([temporary])
        .collect()
}

/// Returns the library in a folder. Writes it first if it is not there.
fn installed(folder: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    if !is_private(&folder.symlink_metadata()?) || folder.is_symlink() {
        return Err(io::Error::other("another user may write to this folder"));
    }
    // Each version has a name of its own, because a running program may use an older one.
    let file = folder.join(format!("{:016x}-{NAME}", digest(LIBRARY)));
    let is_ours = || {
        let data = file.symlink_metadata()?;
        Ok::<_, io::Error>(data.is_file() && is_private(&data) && fs::read(&file)? == LIBRARY)
    };
    if !is_ours().unwrap_or(false) {
        AtomicFile::write(&file, LIBRARY)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Returns whether only this user, or root, may change a file.
fn is_private(data: &fs::Metadata) -> bool {
    data.uid() == nix::unistd::getuid().as_raw() && data.mode() & 0o022 == 0
}

/// Returns the FNV-1a hash of the contents. It only gives each version a file name of its own.
/// `installed` compares the full contents, so a collision cannot load the wrong library.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_library_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("creel");
        let file = installed(&cache).unwrap();
        assert_eq!(fs::read(&file).unwrap(), LIBRARY);
        fs::write(&file, "changed").unwrap();
        assert_eq!(installed(&cache).unwrap(), file);
        assert_eq!(fs::read(&file).unwrap(), LIBRARY);
    }

    #[test]
    fn folders_that_others_can_write_and_symlinks_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(installed(&open).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(installed(&link).is_err());
    }
}
