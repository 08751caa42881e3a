//! A progress bar on stderr.
//!
//! We draw nothing with `-q`, or if stderr is not a terminal. The bar counts units even if it is
//! hidden, so your program does not have to distinguish the two cases.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar over a known number of units. Threads can share it by reference.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar over `total` units. `units` is a plural noun, for example "songs". The bar is
    /// hidden if `quiet` is set or if stderr is not a terminal.
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

    /// Creates a bar that shows the percentage only, for units that mean nothing to a user. With a
    /// message of up to 30 columns, the line fits into 60 columns.
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
        // The bar draws itself regularly, so that the remaining time keeps falling while one long
        // unit is running.
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar }
    }

    /// Adds `units` to the number of finished units.
    pub fn advance(&self, units: u64) {
        self.bar.inc(units);
    }

    /// Returns the number of finished units.
    pub fn done(&self) -> u64 {
        self.bar.position()
    }

    /// Sets the total, for example after an estimate has become exact.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Adds `units` to the total, for work that turned out to be necessary.
    pub fn add(&self, units: u64) {
        self.bar.inc_length(units);
    }

    /// Sets the text right of the bar, for example the current unit or a rate.
    pub fn set_message(&self, message: impl Into<Cow<'static, str>>) {
        self.bar.set_message(message);
    }

    /// Prints a line on stderr above the bar, for example a warning. It prints the line even if the
    /// bar is hidden.
    pub fn println(&self, line: &str) {
        self.suspend(|| {
            // If stderr is closed, there is no place left to report an error to.
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }

    /// Hides the bar while `print` runs, for other output on the same terminal.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the bar from the terminal, as dropping it does.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        // We remove the bar, because an unfinished one must not stay on the terminal above an error
        // message.
        self.bar.finish_and_clear();
    }
}
