//! Yamaha's FM synthesis: what the OPM, OPN and OPL families share.
//!
//! A chip is a bank of channels; a channel is a few connected operators; an
//! operator is a phase that runs at the pitch and an envelope that attenuates
//! it. The chips work frame by frame. Here a block of frames between two
//! register writes is rendered at once: first each operator's phase and
//! attenuation, which depend on nothing else, then each channel's tones.
//!
//! The invariant: the values are those of ymfm (BSD-3-Clause, Aaron Giles) at
//! the chip's native rate, bit by bit, whatever the blocks.

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
