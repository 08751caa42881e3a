//! The crate's errors, split by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a machine could not be read, a text not understood, or a mask not set.
///
/// ```
/// use creel_topology::Machine;
///
/// let error = Machine::synthetic("cores:4").unwrap_err();
/// assert!(error.to_string().contains("cores"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder is there but could not be read: check the path and its rights.
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the system or of a captured tree says something impossible: the data are bad.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder describes no machine: no CPU in `sys/devices/system/cpu` nor in `proc`.
    NoMachine {
        /// The folder that was read.
        root: PathBuf,
    },
    /// A text that the caller wrote (a CPU list, a placement, a synthetic machine) has a mistake.
    Syntax {
        /// What the text was meant to be, e.g. "CPU list".
        what: &'static str,
        /// The text, shortened to a line.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No worker can sit there: an empty set, or PUs outside the allowed ones.
    NotAllowed {
        /// Which PUs, and why not.
        reason: String,
    },
    /// The system refused a mask, or to tell it.
    Affinity(io::Error),
    /// The system has no such service.
    Unsupported(&'static str),
}

/// How much of a rejected text an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 60;

impl Error {
    pub(crate) fn syntax(what: &'static str, text: &str, reason: impl AsRef<str>) -> Error {
        Error::Syntax {
            what,
            text: shown(text, SHOWN_CHARS_MAX),
            reason: shown(reason.as_ref(), 4 * SHOWN_CHARS_MAX),
        }
    }

    /// The same mistake, found in a file: the data are bad, not the caller's text.
    pub(crate) fn in_file(self, path: PathBuf) -> Error {
        match self {
            Error::Syntax { what, text, reason } => Error::Malformed {
                path,
                reason: format!("\"{text}\" is no {what}: {reason}"),
            },
            other => other,
        }
    }
}

/// A text that fits a line of a terminal, whatever it held.
fn shown(text: &str, chars_max: usize) -> String {
    let printable = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let mut shown: String = text.chars().take(chars_max).map(printable).collect();
    if text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Malformed { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::NoMachine { root } => write!(
                f,
                "{}: describes no machine (no CPU in sys/devices/system/cpu, proc/cpuinfo, proc/stat)",
                root.display()
            ),
            Error::Syntax { what, text, reason } => {
                write!(f, "\"{text}\" is no {what}: {reason}")
            }
            Error::NotAllowed { reason } => f.write_str(reason),
            Error::Affinity(source) => write!(f, "affinity mask: {source}"),
            Error::Unsupported(what) => write!(f, "this system has no {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreadable { source, .. } | Error::Affinity(source) => Some(source),
            _ => None,
        }
    }
}
