//! Files of the system, for example in `/proc`.
//!
//! In a container, these files can be anything. None of them may keep a program from starting, so
//! every read is bounded and never blocks.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The maximum size of a file. `/proc/cpuinfo` has about 1.5 KB per PU.
const BYTES_MAX: usize = 1 << 25;

/// Returns the text of a file. Bytes that are not UTF-8 are replaced.
///
/// # Errors
///
/// Returns the error of the system, or an error if the path is not a file or is longer than 32 MiB.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    // Opening a FIFO would block, and a device may be endless.
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
