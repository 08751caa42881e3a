//! The common parts of Yamaha's FM synthesis in the OPM, OPN and OPL families.
//!
//! A chip is a bank of channels. A channel consists of a few connected operators. An operator has a
//! phase, which advances with the pitch, and an envelope, which attenuates the tone.
//!
//! The chips work frame by frame. We render all frames between two register writes as a block.
//! First we compute the phase and attenuation of each operator, which depend on nothing else. Then
//! we compute the tones of each channel.
//!
//! Invariant: the values are bit-exact with ymfm (BSD-3-Clause, Aaron Giles) at the native rate of
//! the chip, for any block sizes. The only exceptions are keys that [`timer`] A presses.

pub mod algorithms;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bank;
pub mod dac;
pub mod envelope;
pub mod operator;
pub mod opm_lfo;
pub mod opn;
pub mod ssg_eg;
pub mod tables;
pub mod timer;
