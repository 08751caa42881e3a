//! Colour, decided once for stdout, stderr and clap's own messages.
//!
//! `auto` colours a terminal unless `NO_COLOR` is set. The streams of [`crate::output`] strip
//! what the choice forbids, so the code that prints never asks.
//!
//! Source: <https://no-color.org>.

use clap::ColorChoice;

/// Applies `--color` to all streams of the process.
pub fn apply(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}
