//! Output on stdout as text, JSON or CSV.
//!
//! All functions that write to stdout return the error of the stream. Therefore a closed pipe ends
//! a program quietly (see [`crate::exit_of`]), while `println!` would panic.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

/// The format of the data that a program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; it may change from version to version
    #[default]
    Text,
    /// For programs; fields keep their names and meanings
    Json,
    /// Rows with a header line, for spreadsheets
    Csv,
}

/// Writes text to stdout. ANSI styles in the text are stripped if [`crate::color`] forbids them.
///
/// # Errors
///
/// Returns the error of the stream.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a note to stderr, next to the data on stdout. ANSI styles are stripped as in [`text`]. We
/// ignore errors, because a note must not end a program.
pub fn note(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Returns the number of columns of the terminal, or `None` if stdout is not a terminal whose size
/// we can read. We can read it on Unix only.
pub fn columns() -> Option<usize> {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
        (size.ws_col > 0).then_some(size.ws_col.into())
    }
    #[cfg(not(unix))]
    None
}

/// Writes a value as indented JSON and a newline.
///
/// # Errors
///
/// Returns the error of the stream, or an error if JSON cannot represent the value.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

/// Writes a value as JSON on one line.
///
/// # Errors
///
/// Returns the error of the stream, or an error if JSON cannot represent the value.
pub fn json_line(value: &impl Serialize) -> io::Result<()> {
    // We write each line at once, so that lines of several processes on one pipe do not mix, unless
    // they are longer than the system writes at once (4 KiB on Linux).
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Writes rows as CSV. The header line holds the names of the fields of a row.
///
/// # Errors
///
/// Returns the error of the stream, or an error if a row has nested fields.
pub fn csv<R: Serialize>(rows: impl IntoIterator<Item = R>) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(io::stdout().lock());
    for row in rows {
        out.serialize(row).map_err(stream_error)?;
    }
    out.flush()
}

fn stream_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("cannot write a row as CSV: {other:?}")),
    }
}
