//! The terminal in full-screen mode. Dropping [`Screen`] restores the terminal, also after a panic.

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

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// The usual style of the terminal.
    Plain,
    /// Bold text.
    Bold,
    /// Text with less contrast.
    Dim,
    /// Swapped colours.
    Bar,
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The text, which must not be wider than the screen.
    pub text: String,
    /// The style of the whole line.
    pub style: LineStyle,
}

/// Whether the terminal reports mouse events. If it does, the user cannot select text with the
/// mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mouse {
    /// The terminal reports mouse events.
    Reported,
    /// The terminal does not report mouse events.
    Ignored,
}

/// The terminal in full-screen mode, which is restored when this is dropped.
#[derive(Debug)]
pub struct Screen {
    mouse: Mouse,
}

impl Screen {
    /// Enters the full-screen mode.
    ///
    /// # Errors
    ///
    /// Returns the error of the terminal, which is then in its former mode.
    pub fn enter(mouse: Mouse) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on, dropping the value restores the terminal.
        let screen = Self { mouse };
        let mut out = io::stdout();
        execute!(out, EnterAlternateScreen, DisableLineWrap, Hide)?;
        if mouse == Mouse::Reported {
            execute!(out, EnableMouseCapture)?;
        }
        Ok(screen)
    }

    /// Returns the number of columns and lines.
    pub fn size() -> (u16, u16) {
        terminal::size().unwrap_or((80, 24))
    }

    /// Draws the lines over the previous ones.
    ///
    /// # Errors
    ///
    /// Returns the error of the terminal, for example if it was closed.
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
        let mut out = io::stdout();
        // We ignore the errors, because they mean that the terminal is closed.
        if self.mouse == Mouse::Reported {
            let _ = execute!(out, DisableMouseCapture);
        }
        let _ = execute!(out, Show, EnableLineWrap, LeaveAlternateScreen);
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
