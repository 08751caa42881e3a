//! The file with the seed of the signing key.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// The seed of an Ed25519 key.
pub type Seed = [u8; 32];

/// Reads the seed of a key from its file of 64 hex digits.
///
/// If the file does not exist, this creates it with a random seed. Only its owner may read it. The
/// file appears under its name only when it is complete and on the disk, so that a crash leaves
/// either the whole key or none. If another process creates the file at the same time, both use the
/// same key.
///
/// # Errors
///
/// Returns the error of the file, or [`InvalidData`](ErrorKind::InvalidData) if it does not contain
/// 64 hex digits or if anybody could guess the key.
pub fn load_or_create(path: &Path) -> io::Result<Seed> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => match create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                parse(&fs::read_to_string(path)?)
            }
            created => created,
        },
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> io::Result<Seed> {
    let invalid = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let text = text.trim();
    if text.is_empty() {
        return Err(invalid(
            "the key file is empty. If it has never contained a key, delete it, and the next start \
             creates a new key",
        ));
    }
    let mut seed = [0; 32];
    hex::decode_to_slice(text, &mut seed)
        .map_err(|_| invalid("the file contains no key: expected 64 hex digits"))?;
    if is_weak(&seed) {
        return Err(invalid(
            "the key in the file is not random, so anybody could guess it and sign with it. Delete \
             the file, and the next start creates a random key",
        ));
    }
    Ok(seed)
}

/// Returns whether a seed is a placeholder or a pattern, and not random.
///
/// Of 32 random bytes, fewer than 16 are different with a probability below 10⁻¹⁶. A constant
/// difference between neighbours finds sequences such as 00 01 02.
fn is_weak(seed: &Seed) -> bool {
    let different: HashSet<u8> = seed.iter().copied().collect();
    let differences = seed.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    different.len() < 16 || differences.collect::<HashSet<u8>>().len() == 1
}

/// Creates the file with a random seed. Returns [`AlreadyExists`](ErrorKind::AlreadyExists) if the
/// file has appeared in the meantime.
fn create(path: &Path) -> io::Result<Seed> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // The temporary file has a random name, and only its owner may read it.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(format!("{}\n", hex::encode(seed)).as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    // The name must be on the disk, too. Otherwise, signatures could outlive their key.
    #[cfg(unix)]
    fs::File::open(folder)?.sync_all()?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_file_is_created_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let first = load_or_create(&path).unwrap();
        assert_eq!(load_or_create(&path).unwrap(), first);
        assert_eq!(create(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file remains"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn servers_that_start_together_use_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let seeds: Vec<Seed> = std::thread::scope(|scope| {
            let load = || load_or_create(&path).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(seeds.iter().all(|seed| *seed == seeds[0]));
    }

    #[test]
    fn invalid_and_weak_keys_are_rejected_and_say_why() {
        let sequence: Seed = std::array::from_fn(|index| index as u8);
        for (text, word) in [
            (String::new(), "empty"),
            ("\n".to_owned(), "empty"),
            ("zz".to_owned(), "64 hex digits"),
            ("0".repeat(62), "64 hex digits"),
            ("0".repeat(64), "not random"),
            ("f".repeat(64), "not random"),
            ("0123456789abcdef".repeat(4), "not random"),
            (hex::encode(sequence), "not random"),
        ] {
            let error = parse(&text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
