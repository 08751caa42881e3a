//! Whether output has colours. The program decides this once for stdout, stderr and the messages of
//! clap.
//!
//! `auto` uses colour on a terminal unless `NO_COLOR` is set. The streams of [`crate::output`]
//! strip colours that the choice forbids. Therefore you can print colours without checking.
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
