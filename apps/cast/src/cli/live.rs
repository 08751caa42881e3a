//! The live view of `receive --live`. It draws the current figures, and reacts to keys.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use creel_cast::receive::Live;
use creel_console::screen::{Mouse, Screen};
use creel_console::{Exit, Failure};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};

use super::live_view::{Row, View};

/// The time between two drawings, unless a key is pressed.
const INTERVAL: Duration = Duration::from_millis(500);
/// The number of rows by which a page key scrolls.
const PAGE: isize = 10;

/// The reason why the user has ended the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Quit,
    /// Ctrl-C, which is a key and not a signal here.
    Interrupted,
}

/// The identity of a stream across drawings.
type Identity = (u32, u16, SocketAddr);

/// The live view of a run.
#[derive(Debug)]
pub struct LiveView {
    live: Live,
    screen: Screen,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    view: View,
    begin: Instant,
    drawn: Option<Instant>,
    /// The time at which we last took figures from the run, which we do not do during a pause.
    sampled: Option<Instant>,
    rows: Vec<Row>,
    /// The number of packets of each stream when we last read the figures. A key redraws the
    /// screen, but does not read them again.
    packets: HashMap<Identity, u64>,
    end: Option<End>,
}

impl LiveView {
    /// Switches the terminal to full-screen mode.
    ///
    /// # Errors
    ///
    /// Returns an error if stdin or stdout is not a terminal, or if the mode cannot be switched.
    pub fn enter(live: Live) -> anyhow::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let text = "--live needs a terminal: use --streams-format for files and pipes";
            return Err(Failure::new(Exit::Usage, text).into());
        }
        let state = State {
            view: View::default(),
            begin: Instant::now(),
            drawn: None,
            sampled: None,
            rows: Vec::new(),
            packets: HashMap::new(),
            end: None,
        };
        Ok(LiveView {
            live,
            screen: Screen::enter(Mouse::Ignored)?,
            state: RefCell::new(state),
        })
    }

    /// Handles the keys that were pressed, and draws if it is time. Returns whether the user has
    /// ended the run.
    pub fn update(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        // A terminal that is closed ends the run.
        let updated = self.react(state);
        if updated.is_err() {
            state.end.get_or_insert(End::Quit);
        }
        state.end.is_some()
    }

    fn react(&self, state: &mut State) -> io::Result<()> {
        let now = Instant::now();
        let since = state.drawn.map(|drawn| now - drawn);
        let is_due = since.is_none_or(|since| since >= INTERVAL);
        let mut redraw = is_due;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) => state.press(key),
                Event::Resize(..) => creel_console::keys::after_resize(),
                _ => {}
            }
            redraw = true;
        }
        if is_due {
            state.drawn = Some(now);
            if !state.view.is_paused {
                let since = state.sampled.replace(now).map(|sampled| now - sampled);
                state.sample(&self.live, since.unwrap_or(INTERVAL));
            }
        }
        if redraw {
            let elapsed = now - state.begin;
            let (columns, lines) = Screen::size();
            let size = (columns.into(), lines.into());
            let lines = state.view.draw(&state.rows, elapsed, size);
            self.screen.show(&lines)?;
        }
        Ok(())
    }

    /// Restores the terminal, and returns why the user has ended the run, if so.
    pub fn leave(self) -> Option<End> {
        self.state.into_inner().end
    }
}

impl State {
    fn sample(&mut self, live: &Live, since: Duration) {
        let before = std::mem::take(&mut self.packets);
        let rows = live.streams().into_iter().map(|live| {
            let report = &live.report;
            let identity = (report.ssrc, report.port, report.from);
            self.packets.insert(identity, report.packets);
            Row::new(live, before.get(&identity).copied(), since)
        });
        self.rows = rows.collect();
    }

    fn press(&mut self, key: KeyEvent) {
        let rows = self.rows.len();
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.end = Some(End::Interrupted);
            return;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.end = Some(End::Quit),
            KeyCode::Right => self.view.select(1),
            KeyCode::Left => self.view.select(-1),
            KeyCode::Char('r') => self.view.reverse(),
            KeyCode::Char(' ') => self.view.is_paused = !self.view.is_paused,
            KeyCode::Down => self.view.scroll(1, rows),
            KeyCode::Up => self.view.scroll(-1, rows),
            KeyCode::PageDown => self.view.scroll(PAGE, rows),
            KeyCode::PageUp => self.view.scroll(-PAGE, rows),
            KeyCode::Home => self.view.scroll_to_begin(),
            _ => {}
        }
    }
}
