//! The error type of all programs.

use crate::media::wav::WavError;
use creel::BuildError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a run gave no result.
#[derive(Debug)]
pub enum Error {
    /// A context could not be made.
    Pool(BuildError),
    /// A socket could not be opened: what for, and why.
    Socket(String, io::Error),
    /// A sound could not be read or written.
    Wav(WavError),
    /// Another file could not be read or written.
    File(PathBuf, io::Error),
    /// A file is not what it should be.
    Malformed(PathBuf, String),
    /// What is asked for cannot be.
    Plan(String),
    /// The run was given up.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pool(error) => error.fmt(f),
            Error::Socket(what, error) => write!(f, "{what}: {error}"),
            Error::Wav(error) => error.fmt(f),
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Malformed(path, what) => write!(f, "{}: {what}", path.display()),
            Error::Plan(what) => f.write_str(what),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Socket(_, error) | Error::File(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Error::Pool(error)
    }
}

impl From<WavError> for Error {
    fn from(error: WavError) -> Self {
        Error::Wav(error)
    }
}
