//! The parts of a command line that all Creel programs share: flags, exit codes, output formats,
//! tables and progress bars.
//!
//! Programs print and exit through this crate, so that you find the same habits in all of them.
//! Libraries do neither.
//!
//! ```no_run
//! use clap::Parser;
//! use creel_console::{Common, Exit, args, conclude};
//!
//! /// Counts things
//! #[derive(Parser)]
//! #[command(name = "count", version)]
//! struct Cli {
//!     #[command(flatten)]
//!     common: Common,
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let cli: Cli = args::parse();
//!     cli.common.apply();
//!     conclude("count", Ok(Exit::Done))
//! }
//! ```
#![forbid(unsafe_code)]

pub mod args;
mod atomic_file;
pub mod color;
pub mod document;
pub mod documented;
pub mod duration;
pub mod energy;
mod exit;
pub mod files;
pub mod http;
mod interrupt;
pub mod keys;
pub mod knobs;
pub mod machine;
pub mod output;
pub mod plot;
mod progress;
pub mod quota;
#[cfg(feature = "screen")]
pub mod screen;
pub mod system;
mod table;

pub use args::{Common, Verbose};
pub use atomic_file::AtomicFile;
pub use document::{Document, SCHEMA};
pub use exit::{Exit, Failure, conclude, conclude_by_signal, exit_of, report, with_causes};
pub use interrupt::{Interrupt, is_ignored};
pub use knobs::Knobs;
pub use output::Format;
pub use progress::Progress;
pub use table::{Align, Table};
