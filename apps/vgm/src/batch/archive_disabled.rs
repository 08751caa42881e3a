//! Replaces `archive.rs` if the feature `formats` is off. Opening an archive fails, so no song
//! comes from one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kind::Kind;
use crate::error::{Error, Result};

/// A song in an archive. This type has no values, because no archive can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The path of the song in the archive.
    pub place: PathBuf,
    never: Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Never {}

/// The contents of an archive.
pub struct Listed {
    /// The songs, ordered by name.
    pub songs: Vec<Packed>,
    /// Entries that may be music but are left out, with the reasons.
    pub left_out: Vec<(String, &'static str)>,
}

/// Returns an error, because the library was built without archives.
///
/// # Errors
///
/// Always returns [`Error::BadList`].
pub fn list(_: &Path, _: Kind, _: Option<Arc<[u8]>>) -> Result<Listed> {
    let reason = "archives need the feature `formats`, without which this program was built";
    Err(Error::BadList(reason.into()))
}

impl Packed {
    /// Cannot be called, because this type has no values.
    pub fn archive(&self) -> &Path {
        match self.never {}
    }

    /// Cannot be called, because this type has no values.
    ///
    /// # Errors
    ///
    /// Returns none.
    pub fn read(&self, _: u64) -> Result<Vec<u8>> {
        match self.never {}
    }

    /// Cannot be called, because this type has no values.
    ///
    /// # Errors
    ///
    /// Returns none.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        match self.never {}
    }
}

impl fmt::Display for Packed {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never {}
    }
}
