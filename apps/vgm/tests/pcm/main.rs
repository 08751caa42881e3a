//! The chips that play samples: notes of all of them, and the effects of their registers.

#[path = "arithmetic.rs"]
mod arithmetic;
#[path = "notes.rs"]
mod notes;
#[path = "opx.rs"]
mod opx;
#[path = "../streams/random.rs"]
#[allow(dead_code, reason = "the numbers here are indices")]
mod random;
#[path = "storm.rs"]
mod storm;
#[path = "tones.rs"]
mod tones;
#[path = "wavefront.rs"]
mod wavefront;
