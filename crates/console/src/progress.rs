//! A progress bar on stderr, and silence where nobody watches.
//!
//! Nothing is drawn when stderr is no terminal or with `-q`; the counting goes on, so the
//! program does not have to know.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over a known number of units; may be shared between threads by reference.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over `total` of `units` (a plural noun, such as "songs"); hidden when `quiet` or
    /// when stderr is no terminal.
    ///
    /// ```
    /// use creel_console::Progress;
    ///
    /// let progress = Progress::new(61, "songs", false);
    /// progress.advance(1);
    /// assert_eq!(progress.done(), 1);
    /// progress.finish();
    /// ```
    pub fn new(total: u64, units: &str, quiet: bool) -> Self {
        Progress::drawn(
            total,
            &format!("{{bar:24}} {{human_pos}}/{{human_len}} {units}  {{eta}} left  {{wide_msg}}"),
            quiet,
        )
    }

    /// A bar that tells the percentage alone, for units that say nothing to a reader; with a message
    /// of up to 30 columns it fits into 60.
    pub fn share(total: u64, quiet: bool) -> Self {
        Progress::drawn(
            total,
            "{bar:12} {percent:>3} % {eta:>3} left  {wide_msg}",
            quiet,
        )
    }

    fn drawn(total: u64, template: &str, quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
        // The estimate must go on falling while one long unit is under way.
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar }
    }

    /// Counts `units` more as done.
    pub fn advance(&self, units: u64) {
        self.bar.inc(units);
    }

    /// How many units are done.
    pub fn done(&self) -> u64 {
        self.bar.position()
    }

    /// Corrects the total, where it was an estimate.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Adds to the total what turned out to be needed beside it.
    pub fn add(&self, units: u64) {
        self.bar.inc_length(units);
    }

    /// The text right of the bar: what is under way, or a rate.
    pub fn set_message(&self, message: impl Into<Cow<'static, str>>) {
        self.bar.set_message(message);
    }

    /// Prints a line on stderr above the bar, drawn or not: warnings and failed units.
    pub fn println(&self, line: &str) {
        self.suspend(|| {
            // Nobody is left to tell when stderr itself is closed.
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }

    /// Runs `print` with the bar taken off the terminal, for output that shares it.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the bar; so does dropping it.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        // A half-drawn bar must not stay above an error message.
        self.bar.finish_and_clear();
    }
}
