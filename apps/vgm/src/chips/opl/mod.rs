//! What the OPL family shares: OPL, OPL2, OPL3 and the OPLL.
//!
//! Channels of two operators (on OPL3 also of four), waveforms other than the
//! sine, one LFO of fixed speeds, and a rhythm mode in which three channels
//! become five drums. Operators, envelopes and tables are those of
//! [`fm`](super::fm).
//!
//! The invariant is the same: ymfm's values (BSD-3-Clause, Aaron Giles) at the
//! native rate, bit by bit, whatever the blocks.

pub mod algorithms;
pub mod bank;
pub mod channel;
pub mod lfo;
pub mod registers;
pub mod rhythm;
pub mod waves;
