//! What can go wrong with a song, split by what the caller can do about it.

use std::fmt;
use std::io;

/// Why a song could not be read or rendered.
#[derive(Debug)]
pub enum Error {
    /// The system refused to read or write; another folder or a retry may help.
    Io(io::Error),
    /// The bytes are not a VGM song at all.
    NotVgm(String),
    /// An archive or a playlist that is damaged, or none at all.
    BadList(String),
    /// It is a VGM song, but a damaged one.
    Malformed {
        /// Where in the decompressed song, in bytes from its start.
        offset: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The song is larger than this library's bounds allow.
    TooLarge(String),
    /// A sound song that this library cannot play.
    Unsupported(String),
}

/// A [`std::result::Result`] of this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A [`Error::Malformed`] at `offset` bytes from the start of the decompressed song.
    pub(crate) fn malformed(offset: usize, reason: impl Into<String>) -> Self {
        Error::Malformed {
            offset,
            reason: reason.into(),
        }
    }

    /// Whether the song itself is at fault, rather than the system.
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
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}
