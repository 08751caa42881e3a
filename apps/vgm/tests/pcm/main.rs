//! The chips that play samples: notes of all of them, and what each one's registers do.

#[path = "arithmetic.rs"]
mod arithmetic;
#[path = "notes.rs"]
mod notes;
#[path = "opx.rs"]
mod opx;
#[path = "storm.rs"]
mod storm;
#[path = "tones.rs"]
mod tones;
#[path = "wavefront.rs"]
mod wavefront;
