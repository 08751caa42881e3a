//! The terminal in full-screen mode. Dropping [`Screen`] restores the terminal, also after a panic.

use super::view::{Line, LineStyle};
use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{DisableMouseCapture, EnableMouseCapture},
    execute, queue,
    style::{Attribute, Print, SetAttribute},
    terminal::{
        self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen,
        LeaveAlternateScreen,
    },
};
use std::io::{self, Write};

/// The terminal in full-screen mode, which is restored when this is dropped.
pub struct Screen;

impl Screen {
    pub fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on, dropping the value restores the terminal.
        let screen = Self;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            EnableMouseCapture,
            DisableLineWrap,
            Hide
        )?;
        Ok(screen)
    }

    /// Returns the number of columns and lines.
    pub fn size() -> (u16, u16) {
        terminal::size().unwrap_or((80, 24))
    }

    /// Draws the lines over the previous ones.
    pub fn show(&self, lines: &[Line]) -> io::Result<()> {
        put(&mut io::stdout().lock(), lines)
    }
}

fn put(out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    for (y, line) in lines.iter().enumerate() {
        let style = match line.style {
            LineStyle::Plain => Attribute::Reset,
            LineStyle::Bold => Attribute::Bold,
            LineStyle::Dim => Attribute::Dim,
            LineStyle::Bar => Attribute::Reverse,
        };
        queue!(
            out,
            MoveTo(0, y as u16),
            // We clear the line before the text. After a text of the full width, terminals would
            // clear its last character.
            Clear(ClearType::UntilNewLine),
            SetAttribute(style),
            Print(&line.text),
            SetAttribute(Attribute::Reset)
        )?;
    }
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        // We ignore the error, because it means that the terminal is closed.
        let _ = execute!(
            io::stdout(),
            Show,
            EnableLineWrap,
            DisableMouseCapture,
            LeaveAlternateScreen
        );
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cleared_before_the_text() {
        let line = Line {
            text: "whole width".into(),
            style: LineStyle::Bold,
        };
        let mut out = Vec::new();
        put(&mut out, &[line]).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (before, behind) = out.split_once("whole width").unwrap();
        assert!(
            before.contains("\x1b[K") && !behind.contains("\x1b[K"),
            "{out:?}"
        );
    }
}
