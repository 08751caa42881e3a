//! The errors of this library, divided by what the caller can do about them.

use std::fmt;
use std::io;

/// Why a song could not be read or rendered.
#[derive(Debug)]
pub enum Error {
    /// The system could not read or write. Another folder or another attempt may help.
    Io(io::Error),
    /// The bytes are not a VGM song.
    NotVgm(String),
    /// The file is not an archive or a playlist of the expected kind, or it is damaged.
    BadList(String),
    /// The bytes are a VGM song, but the song is damaged.
    Malformed {
        /// The position of the defect, in bytes from the start of the decompressed song.
        offset: usize,
        /// A description of the defect.
        reason: String,
    },
    /// A song, a playlist or a sound file is larger than the limit of this library or of its
    /// format.
    TooLarge(String),
    /// The song is valid, but this library cannot play it, or cannot write it in the requested
    /// format.
    Unsupported(String),
}

/// A [`std::result::Result`] with the error type of this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an [`Error::Malformed`] at `offset` bytes from the start of the decompressed song.
    pub(crate) fn malformed(offset: usize, reason: impl Into<String>) -> Self {
        Error::Malformed {
            offset,
            reason: reason.into(),
        }
    }

    /// Returns whether the input is at fault, as opposed to the system.
    pub fn is_bad_data(&self) -> bool {
        !matches!(self, Error::Io(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::NotVgm(reason) => write!(f, "not a VGM song: {reason}"),
            Error::BadList(reason) => f.write_str(reason),
            Error::Malformed { offset, reason } => {
                write!(f, "damaged VGM song: {reason} (at byte {offset:#x})")
            }
            Error::TooLarge(reason) => write!(f, "too large: {reason}"),
            Error::Unsupported(reason) => write!(f, "not supported: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message is that of the inner error, so the cause is the inner error's cause.
            Error::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn no_message_contains_its_cause() {
        let error = Error::Io(io::ErrorKind::NotFound.into());
        assert!(error.source().is_none(), "{error}");
    }
}
