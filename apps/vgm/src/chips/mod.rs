//! The sound chips, each in a file with its register map on top.

pub mod ssg;
