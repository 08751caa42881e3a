//! The error type that all commands share.

use crate::media::wav::WavError;
use creel::BuildError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a run has no result.
#[derive(Debug)]
pub enum Error {
    /// A context could not be created.
    Pool(BuildError),
    /// A socket could not be used. The text states what could not be done.
    Socket(String, io::Error),
    /// A WAV file could not be read or written.
    Wav(WavError),
    /// Another file could not be read or written.
    File(PathBuf, io::Error),
    /// A capture is malformed. The text states what is wrong with it.
    Malformed(PathBuf, String),
    /// The plan is impossible to carry out. The text states why.
    Plan(String),
    /// The run was interrupted.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pool(error) => error.fmt(f),
            Error::Socket(what, error) => write!(f, "{what}: {error}"),
            Error::Wav(error) => error.fmt(f),
            Error::File(path, error) => {
                write!(f, "cannot read or write {}: {error}", path.display())
            }
            Error::Malformed(path, what) => {
                write!(f, "cannot read {} as a capture: {what}", path.display())
            }
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
