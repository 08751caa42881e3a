//! Tests that run the program: its output, the inputs that it rejects, and its exit codes.

mod damaged;
mod files;
mod harness;
mod inputs;
mod listings;
mod stopped;
