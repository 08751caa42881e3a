//! The VGM format: containers, header, tags, commands and data banks.
//!
//! This module reads songs and does not play them.
//!
//! Invariant: reading a song never panics and never reads outside its bytes, whatever these are.
//! Memory stays within a small multiple of [`SONG_BYTES_MAX`]. Once a [`Song`] exists, you can rely
//! on two facts:
//!
//! - Every command in it decodes.
//! - Its loop, if it has one, begins at a command and lasts at least one sample.
//!
//! Source: VGM specification 1.50 to 1.72 (vgmrips.net/wiki/VGM_Specification).

mod bank;
mod bytes;
mod chip_id;
mod command;
mod container;
mod gd3;
mod header;
mod references;
mod samples;
mod song;
mod walk;

pub use bank::{Bank, is_block_kind};
pub use chip_id::ChipId;
pub use command::{Block, Command, RamWrite, StreamCommand, Write, decode};
pub(crate) use command::{PSG_SECOND, PWM_BYTES, frequent_wait, frequent_write, pwm_write};
pub use container::SONG_BYTES_MAX;
pub use gd3::Gd3;
pub use header::{ChipVolume, Header, Instance, Volume, peek};
pub(crate) use song::open;
pub use song::{Loop, Song, TICKS_PER_SECOND};
pub(crate) use walk::misplaced;
