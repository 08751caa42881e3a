//! Replaces `flac.rs` if the feature `formats` is off. Creating a file always fails.

use crate::error::{Error, Result};
use crate::mix::SampleFormat;
use crate::tags::FileTags;

/// A FLAC file being written. This type has no values, because creating a file fails.
pub enum Flac {}

impl Flac {
    /// Returns an error, because the library was built without FLAC.
    ///
    /// # Errors
    ///
    /// Always returns [`Error::Unsupported`].
    pub fn new(_: SampleFormat, _: u32, _: u64) -> Result<Flac> {
        let reason = "FLAC, because this program was built without the feature `formats`";
        Err(Error::Unsupported(reason.into()))
    }

    /// Cannot be called, because this type has no values.
    pub fn header(&self, _: &FileTags) -> Vec<u8> {
        match *self {}
    }

    /// Cannot be called, because this type has no values.
    pub fn push(&mut self, _: &[[f32; 2]], _: &mut Vec<u8>) {
        match *self {}
    }

    /// Cannot be called, because this type has no values.
    pub fn finish(&mut self, _: &mut Vec<u8>) -> Vec<u8> {
        match *self {}
    }
}
