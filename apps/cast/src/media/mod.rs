//! What streams carry: sound, its formats and codecs, and files of it.

pub(crate) mod codec;
pub(crate) mod dtmf;
pub(crate) mod format;
pub(crate) mod playout;
pub(crate) mod recording;
pub(crate) mod tone;
pub(crate) mod wav;
