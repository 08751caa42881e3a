//! The terminal in full-screen mode. Dropping [`Screen`] restores the terminal, also after a panic.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use crossterm::{execute, queue};

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    /// Whether the line is shown with swapped colours.
    pub is_bar: bool,
}

/// The terminal in full-screen mode, which is restored when this is dropped.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    pub fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on, dropping the value restores the terminal.
        let screen = Screen(());
        execute!(io::stdout(), EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(screen)
    }

    /// Returns the number of columns and lines.
    pub fn size() -> (usize, usize) {
        let (columns, lines) = terminal::size().unwrap_or((80, 24));
        (columns.into(), lines.into())
    }

    /// Draws the lines over the previous ones.
    pub fn show(&self, lines: &[Line]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (y, line) in lines.iter().enumerate() {
            let style = if line.is_bar {
                Attribute::Reverse
            } else {
                Attribute::Reset
            };
            queue!(
                out,
                MoveTo(0, y as u16),
                // We clear the line before the text. After a text of the full width, terminals
                // would clear its last character.
                Clear(ClearType::UntilNewLine),
                SetAttribute(style),
                Print(&line.text),
                SetAttribute(Attribute::Reset)
            )?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // We ignore the errors, because they mean that the terminal is closed.
        let _ = execute!(io::stdout(), Show, EnableLineWrap, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
