//! The errors of the crate, grouped by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The error of a machine that cannot be read, a text that cannot be parsed, or a mask that cannot
/// be set. Its message does not contain the error of the operating system, which
/// [`source`](std::error::Error::source) returns.
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
    /// A folder cannot be read. Check the path and its permissions.
    Unreadable {
        /// The path of the folder.
        path: PathBuf,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The folder describes no machine: neither `sys/devices/system/cpu` nor `proc` contains a CPU.
    NoMachine {
        /// The folder that was read.
        root: PathBuf,
        /// Notes on files that could not be used.
        notes: Vec<String>,
    },
    /// A text that the caller wrote has a mistake, for example a CPU list, a placement or a
    /// synthetic machine.
    Syntax {
        /// The kind of text that was expected, for example "CPU list".
        what: &'static str,
        /// The text, shortened to one line.
        text: String,
        /// The mistake in the text.
        reason: String,
    },
    /// A worker or thread cannot be placed on a set of PUs, because the set is empty or contains
    /// PUs that are not allowed.
    NotAllowed {
        /// The reason, with the PUs.
        reason: String,
    },
    /// The system reported an error when we read or set an affinity mask.
    Affinity(io::Error),
    /// The system does not have this feature.
    Unsupported(&'static str),
}

/// The maximum number of characters of a rejected text that an error repeats.
const SHOWN_CHARS_MAX: usize = 60;

impl Error {
    /// Creates an [`Error::Syntax`], and shortens the text and the reason.
    pub(crate) fn syntax(what: &'static str, text: &str, reason: impl AsRef<str>) -> Error {
        Error::Syntax {
            what,
            text: shown(text, SHOWN_CHARS_MAX),
            reason: shown(reason.as_ref(), 4 * SHOWN_CHARS_MAX),
        }
    }
}

/// Returns the first `chars_max` characters of a text in one line. Control characters are replaced.
pub(crate) fn shown(text: &str, chars_max: usize) -> String {
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
            Error::Unreadable { path, .. } => write!(f, "cannot read {}", path.display()),
            Error::NoMachine { root, notes } => {
                let root = root.display();
                write!(
                    f,
                    "{root} describes no machine (no CPU in sys/devices/system/cpu, proc/cpuinfo, \
                     proc/stat)"
                )?;
                notes.iter().try_for_each(|note| write!(f, "; {note}"))
            }
            Error::Syntax { what, text, reason } => {
                write!(f, "\"{text}\" is not a valid {what}: {reason}")
            }
            Error::NotAllowed { reason } => f.write_str(reason),
            Error::Affinity(_) => f.write_str("cannot read or set the affinity mask"),
            Error::Unsupported(what) => write!(f, "this system does not support {what}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn no_message_contains_its_cause() {
        let cause = || io::Error::other("the cause");
        let all = [
            Error::Unreadable {
                path: "folder".into(),
                source: cause(),
            },
            Error::NoMachine {
                root: "folder".into(),
                notes: vec!["a note".into()],
            },
            Error::syntax("CPU list", "x", "not a number"),
            Error::NotAllowed {
                reason: "no PUs".into(),
            },
            Error::Affinity(cause()),
            Error::Unsupported("affinity"),
        ];
        for error in all {
            let message = error.to_string();
            let with_cause = matches!(error, Error::Unreadable { .. } | Error::Affinity(_));
            assert!(!message.contains("the cause"), "{message}");
            assert_eq!(error.source().is_some(), with_cause, "{message}");
        }
    }
}
