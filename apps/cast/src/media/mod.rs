//! The content of streams: sounds, formats, codecs and sound files.

pub(crate) mod codec;
pub(crate) mod conceal;
pub(crate) mod dtmf;
pub(crate) mod format;
pub(crate) mod playout;
pub(crate) mod recording;
pub(crate) mod redundancy;
mod stretch;
pub(crate) mod tone;
pub(crate) mod wav;
