//! A backend of ratatui that never queries the terminal. A query would block if the terminal is
//! stopped, and delay the interface if it is far away.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// A backend that reports a fixed cursor position. This is correct, because the cursor is hidden
/// and only this backend moves it.
pub struct NoCursorQuery<W: Write>(CrosstermBackend<W>);

impl<W: Write> NoCursorQuery<W> {
    pub fn new(out: W) -> Self {
        NoCursorQuery(CrosstermBackend::new(out))
    }
}

impl<W: Write> Backend for NoCursorQuery<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    /// Does nothing, because our own code shows the cursor when it restores the terminal. Ratatui
    /// would also show it when it is dropped. If the terminal is gone, that fails, and ratatui
    /// would report the failure on a stderr that is gone as well.
    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}
