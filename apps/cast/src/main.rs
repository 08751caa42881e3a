//! The program.
#![forbid(unsafe_code)]

fn main() {}
