//! What a program says on stdout: text, JSON or CSV.
//!
//! All writers give the stream's error back, so that a closed pipe ends a program quietly
//! ([`crate::exit`]) where `println!` would panic.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

/// The form of a program's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; may change from version to version.
    #[default]
    Text,
    /// For programs: fields keep their names and meanings.
    Json,
    /// Rows with a header line, for spreadsheets.
    Csv,
}

/// Writes text that may carry ANSI styles, stripped where [`crate::color`] says so.
///
/// # Errors
///
/// The stream's.
pub fn text(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes text that may carry ANSI styles to stderr, where what is beside the data goes. Whether
/// somebody reads it is nobody's concern.
pub fn note(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// How many columns the terminal has that stdout is.
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
/// The stream's, or that of a value that JSON cannot hold.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

/// Writes a value as JSON on a line of its own.
///
/// # Errors
///
/// The stream's, or that of a value that JSON cannot hold.
pub fn json_line(value: &impl Serialize) -> io::Result<()> {
    // One write a line, so that lines of several processes on one pipe do not mix.
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Writes rows as CSV; the header line is the names of a row's fields.
///
/// # Errors
///
/// The stream's, or that of a row that is not flat.
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
        other => io::Error::other(format!("a row that CSV cannot hold: {other:?}")),
    }
}
