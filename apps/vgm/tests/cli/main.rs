//! The program from outside: what it writes, what it refuses, and how it ends.

mod damaged;
mod files;
mod harness;
mod inputs;
mod listings;
mod stopped;
