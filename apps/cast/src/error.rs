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
            Error::Socket(what, _) => f.write_str(what),
            Error::Wav(error) => error.fmt(f),
            Error::File(path, _) => write!(f, "cannot read or write {}", path.display()),
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
            // The messages are those of the inner errors, so the causes are theirs as well.
            Error::Pool(error) => error.source(),
            Error::Wav(error) => error.source(),
            Error::Malformed(..) | Error::Plan(_) | Error::Interrupted => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn no_message_contains_its_cause() {
        let cause = || io::Error::other("the cause");
        let observe = BuildError::Observe(std::sync::Arc::new(cause()));
        for error in [
            Error::Pool(observe),
            Error::Socket("cannot open port 1".into(), cause()),
            Error::Wav(WavError::Io("a.wav".into(), cause())),
            Error::File("a.pcap".into(), cause()),
        ] {
            let message = error.to_string();
            assert!(!message.contains("the cause"), "{message}");
            let source = error.source().map(ToString::to_string);
            assert_eq!(source.as_deref(), Some("the cause"), "{message}");
        }
        let malformed = Error::Wav(WavError::Malformed("a.wav".into(), "no data"));
        assert!(malformed.source().is_none());
    }
}
