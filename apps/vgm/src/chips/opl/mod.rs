//! The common parts of the OPL family: OPL, OPL2, OPL3 and the OPLL.
//!
//! The family has channels of two operators, and on the OPL3 also of four. It has one to eight
//! waveforms, one LFO with fixed speeds, and a rhythm mode in which three channels become five
//! drums. Operators, envelopes and tables are those of [`fm`](super::fm).
//!
//! The invariant of `fm` also holds for the OPL family: the values are bit-exact with ymfm
//! (BSD-3-Clause, Aaron Giles) at the native rate, for any block sizes, except for keys that timer
//! A presses.

pub mod algorithms;
pub mod bank;
pub mod channel;
pub mod lfo;
pub mod registers;
pub mod rhythm;
pub mod waves;
