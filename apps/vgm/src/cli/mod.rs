//! The commands of the program: what is printed, and which exit code says how it went.

pub mod generate;
pub mod info;
pub mod render;
mod tally;
