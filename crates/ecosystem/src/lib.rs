//! Tests and examples of large crates on Creel.
//!
//! This package has no code of its own. See its README for what the tests check, and the folder
//! `examples` for programs that you can start from.
