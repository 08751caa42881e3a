//! The picture that is kept open: looks, draws, and does what keys and mouse say.

use super::{
    LOOK_EVERY,
    screen::Screen,
    started::Started,
    view::{self, Choice, Column, Scene},
    watch::{Stretch, Watch},
};
use anyhow::Result;
use creel_console::Interrupt;
use creel_topology::{Budget, Machine};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use std::time::{Duration, Instant};

/// After how long the first picture is drawn, at the latest.
const FIRST_S: f64 = 0.2;

/// What the loop works with.
pub struct Live<'a> {
    pub program: &'a str,
    pub watch: &'a mut Watch,
    pub started: Option<&'a mut Started>,
    pub interval_s: f64,
    /// When to stop at the latest.
    pub until_s: Option<f64>,
    pub interrupt: &'a Interrupt,
}

/// How the user's look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user has seen enough.
    Quit,
    /// And has said so by Ctrl-C.
    Interrupted,
    /// The program has ended, or the time is over.
    Over,
}

/// The lines that a program's pane has on a screen of this height.
pub fn pane_rows(height: u16) -> u16 {
    (height / 3).saturating_sub(1).max(1)
}

impl Live<'_> {
    /// Until the program ends, the time is over, or the user has seen enough.
    pub fn run(&mut self) -> Result<End> {
        let screen = Screen::enter()?;
        let mut choice = Choice::default();
        let mut interval = Stretch::default();
        let mut drawn: Option<Instant> = None;
        loop {
            let alive = self.watch.look();
            let ended = self.started.as_mut().and_then(|started| started.ended());
            let over = self.until_s.is_some_and(|s| self.watch.elapsed_s() >= s);
            if !alive || ended.is_some() || over || self.interrupt.requested() {
                return Ok(End::Over);
            }
            let due = match drawn {
                // A stretch of a few looks tells nothing yet.
                None => self.watch.elapsed_s() >= self.interval_s.min(FIRST_S),
                Some(at) => at.elapsed().as_secs_f64() >= self.interval_s,
            };
            if due && !choice.paused {
                // A quota may have been set or lifted.
                if let Ok(machine) = Machine::detect_cores() {
                    self.watch.usable = Budget::of(&machine).workers();
                }
                interval = self.watch.interval();
            }
            let mut redraw = due;
            while event::poll(if redraw { Duration::ZERO } else { LOOK_EVERY })? {
                let event = event::read()?;
                match self.react(&event, &mut choice, &interval) {
                    Some(()) => redraw = true,
                    None if is_interrupt(&event) => return Ok(End::Interrupted),
                    None => return Ok(End::Quit),
                }
            }
            if redraw {
                if due {
                    drawn = Some(Instant::now());
                }
                self.show(&screen, &choice, &interval)?;
            }
        }
    }

    fn scene<'s>(&'s self, choice: &'s Choice, interval: &'s Stretch, width: usize) -> Scene<'s> {
        let started = self.started.as_ref();
        Scene {
            program: self.program,
            watch: self.watch,
            interval,
            choice,
            output: started.and_then(|started| started.output(width)),
            ended: None,
        }
    }

    fn show(&self, screen: &Screen, choice: &Choice, interval: &Stretch) -> Result<()> {
        let (width, height) = Screen::size();
        let (width, height) = (usize::from(width), usize::from(height));
        let scene = self.scene(choice, interval, width);
        Ok(screen.show(&view::draw(&scene, width, height))?)
    }

    /// Does what an event says; `None` to quit.
    fn react(&self, event: &Event, choice: &mut Choice, interval: &Stretch) -> Option<()> {
        match event {
            Event::Key(key) => return react_to_key(*key, choice, interval.threads.len()),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => scroll(choice, 3, interval.threads.len()),
                MouseEventKind::ScrollUp => scroll(choice, -3, interval.threads.len()),
                MouseEventKind::Down(MouseButton::Left) => {
                    let (width, height) = Screen::size();
                    let scene = self.scene(choice, interval, 1);
                    let titles = view::table_top(&scene, usize::from(height)) - 1;
                    let column = view::column_at(mouse.column.into(), width.into());
                    if let Some(column) = column.filter(|_| usize::from(mouse.row) == titles) {
                        sort(choice, column);
                    }
                }
                _ => {}
            },
            Event::Resize(columns, rows) => {
                creel_console::keys::after_resize();
                if let Some(started) = &self.started {
                    started.resize(pane_rows(*rows), *columns);
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// In the picture Ctrl-C is a key and no signal.
fn is_interrupt(event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

fn react_to_key(key: KeyEvent, choice: &mut Choice, threads: usize) -> Option<()> {
    const PAGE: isize = 10;
    if is_interrupt(&Event::Key(key)) {
        return None;
    }
    if choice.help {
        choice.help = false;
        return Some(());
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return None,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => choice.help = true,
        KeyCode::Char('c') => sort(choice, Column::Cpu),
        KeyCode::Char('w') => sort(choice, Column::Waited),
        KeyCode::Char('s') => sort(choice, Column::Sys),
        KeyCode::Char('n') => sort(choice, Column::Name),
        KeyCode::Char('m') => sort(choice, Column::Migrations),
        KeyCode::Char('v') => sort(choice, Column::Voluntary),
        KeyCode::Char('i') => sort(choice, Column::Involuntary),
        KeyCode::Char('p') => sort(choice, Column::Pu),
        KeyCode::Char('t') => sort(choice, Column::Thread),
        KeyCode::Char('r') => choice.reversed = !choice.reversed,
        KeyCode::Char('T') => choice.tree = !choice.tree,
        KeyCode::Char('P') => choice.pools = !choice.pools,
        KeyCode::Char('l') => choice.lanes = !choice.lanes,
        KeyCode::Char('o') => choice.output = !choice.output,
        KeyCode::Char(' ') => choice.paused = !choice.paused,
        KeyCode::Down => scroll(choice, 1, threads),
        KeyCode::Up => scroll(choice, -1, threads),
        KeyCode::PageDown => scroll(choice, PAGE, threads),
        KeyCode::PageUp => scroll(choice, -PAGE, threads),
        KeyCode::Home => choice.scroll = 0,
        _ => {}
    }
    Some(())
}

fn sort(choice: &mut Choice, column: Column) {
    choice.reversed = choice.sort == column && !choice.reversed;
    choice.sort = column;
    choice.scroll = 0;
}

fn scroll(choice: &mut Choice, lines: isize, threads: usize) {
    let to = choice.scroll.saturating_add_signed(lines);
    choice.scroll = to.min(threads.saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let mut choice = Choice::default();
        let mut press = |code| {
            let done = react_to_key(KeyEvent::new(code, KeyModifiers::NONE), &mut choice, 5);
            done.map(|()| choice.clone())
        };
        assert_eq!(press(KeyCode::Char('n')).unwrap().sort, Column::Name);
        assert!(
            press(KeyCode::Char('n')).unwrap().reversed,
            "twice turns it round"
        );
        assert!(press(KeyCode::Char('T')).unwrap().tree);
        assert_eq!(
            press(KeyCode::PageDown).unwrap().scroll,
            4,
            "no further than the last"
        );
        assert!(press(KeyCode::Char('?')).unwrap().help);
        assert!(
            !press(KeyCode::Char('q')).unwrap().help,
            "any key leaves the help"
        );
        assert!(press(KeyCode::Char('q')).is_none());
    }
}
