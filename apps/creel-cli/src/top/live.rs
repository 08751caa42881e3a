//! The live display: takes samples, draws them, and reacts to keys and the mouse.

use super::{
    child::ChildProgram,
    sampler::{Interval, Sampler},
    view::{self, Column, Scene, ViewOptions},
};
use anyhow::Result;
use creel_console::{
    Interrupt,
    screen::{Mouse, Screen},
};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use std::time::{Duration, Instant};

/// The longest time before the first drawing, in seconds.
const FIRST_S: f64 = 0.2;

/// The state of the display loop.
pub struct Live<'a> {
    pub program: &'a str,
    pub sampler: &'a mut Sampler,
    pub child: Option<&'a mut ChildProgram>,
    pub interval_s: f64,
    /// The time limit since the start, in seconds.
    pub until_s: Option<f64>,
    pub interrupt: &'a Interrupt,
}

/// The reason why the display has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The user has quit.
    Quit,
    /// The user has pressed Ctrl-C.
    Interrupted,
    /// The program has ended, the time is over, or a signal has arrived.
    Over,
}

/// Returns the height of the pane on a screen of this height.
pub fn pane_rows(height: u16) -> u16 {
    (height / 3).saturating_sub(1).max(1)
}

impl Live<'_> {
    /// Runs until the program ends, the time is over, or the user quits.
    pub fn run(&mut self) -> Result<End> {
        let screen = Screen::enter(Mouse::Reported)?;
        let mut options = ViewOptions::default();
        let mut interval = Interval::default();
        let mut drawn: Option<Instant> = None;
        loop {
            let alive = self.sampler.sample();
            let ended = self.child.as_mut().and_then(|child| child.ended());
            let over = self.until_s.is_some_and(|s| self.sampler.elapsed_s() >= s);
            if !alive || ended.is_some() || over || self.interrupt.requested() {
                return Ok(End::Over);
            }
            let due = match drawn {
                // A few samples are not enough for meaningful figures.
                None => self.sampler.elapsed_s() >= self.interval_s.min(FIRST_S),
                Some(at) => at.elapsed().as_secs_f64() >= self.interval_s,
            };
            if due && !options.paused {
                interval = self.sampler.interval();
            }
            let mut redraw = due;
            while event::poll(if redraw {
                Duration::ZERO
            } else {
                self.sampler.pause()
            })? {
                let event = event::read()?;
                match self.react(&event, &mut options, &interval) {
                    Some(()) => redraw = true,
                    None if is_interrupt(&event) => return Ok(End::Interrupted),
                    None => return Ok(End::Quit),
                }
            }
            if redraw {
                if due {
                    drawn = Some(Instant::now());
                }
                options.back = options
                    .back
                    .min(self.sampler.history.len().saturating_sub(1));
                let history = &self.sampler.history;
                let earlier = history.len().checked_sub(1 + options.back);
                let earlier = earlier.and_then(|at| history.get(at));
                let shown = earlier.map_or(&interval, |(earlier, _)| earlier);
                self.show(&screen, &options, shown)?;
            }
        }
    }

    fn scene<'s>(
        &'s self,
        options: &'s ViewOptions,
        interval: &'s Interval,
        width: usize,
    ) -> Scene<'s> {
        let child = self.child.as_ref();
        Scene {
            program: self.program,
            sampler: self.sampler,
            interval,
            options,
            output: child.and_then(|child| child.output(width)),
            ended: None,
        }
    }

    fn show(&self, screen: &Screen, options: &ViewOptions, interval: &Interval) -> Result<()> {
        let (width, height) = Screen::size();
        let (width, height) = (usize::from(width), usize::from(height));
        let scene = self.scene(options, interval, width);
        Ok(screen.show(&view::draw(&scene, width, height))?)
    }

    /// Reacts to an event. Returns `None` to quit.
    fn react(&self, event: &Event, options: &mut ViewOptions, interval: &Interval) -> Option<()> {
        match event {
            Event::Key(key) => return react_to_key(*key, options, interval.threads.len()),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => scroll(options, 3, interval.threads.len()),
                MouseEventKind::ScrollUp => scroll(options, -3, interval.threads.len()),
                MouseEventKind::Down(MouseButton::Left) => {
                    let (width, height) = Screen::size();
                    let scene = self.scene(options, interval, 1);
                    let titles = view::table_top(&scene, usize::from(height)) - 1;
                    let column = view::column_at(mouse.column.into(), width.into());
                    if let Some(column) = column.filter(|_| usize::from(mouse.row) == titles) {
                        sort(options, column);
                    }
                }
                _ => {}
            },
            Event::Resize(columns, rows) => {
                creel_console::keys::after_resize();
                if let Some(child) = &self.child {
                    child.resize(pane_rows(*rows), *columns);
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// Returns whether the event is Ctrl-C. On the display, Ctrl-C is a key and not a signal.
fn is_interrupt(event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

fn react_to_key(key: KeyEvent, options: &mut ViewOptions, threads: usize) -> Option<()> {
    const PAGE: isize = 10;
    if is_interrupt(&Event::Key(key)) {
        return None;
    }
    if options.help {
        options.help = false;
        return Some(());
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return None,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => options.help = true,
        KeyCode::Char('c') => sort(options, Column::Cpu),
        KeyCode::Char('w') => sort(options, Column::Waited),
        KeyCode::Char('s') => sort(options, Column::Sys),
        KeyCode::Char('n') => sort(options, Column::Name),
        KeyCode::Char('m') => sort(options, Column::Migrations),
        KeyCode::Char('v') => sort(options, Column::Voluntary),
        KeyCode::Char('i') => sort(options, Column::Involuntary),
        KeyCode::Char('p') => sort(options, Column::Pu),
        KeyCode::Char('t') => sort(options, Column::Thread),
        KeyCode::Char('r') => options.reversed = !options.reversed,
        KeyCode::Char('T') => options.tree = !options.tree,
        KeyCode::Char('P') => options.pools = !options.pools,
        KeyCode::Char('l') => options.lanes = !options.lanes,
        KeyCode::Char('o') => options.output = !options.output,
        KeyCode::Char(' ') => options.paused = !options.paused,
        KeyCode::Down => scroll(options, 1, threads),
        KeyCode::Up => scroll(options, -1, threads),
        KeyCode::PageDown => scroll(options, PAGE, threads),
        KeyCode::PageUp => scroll(options, -PAGE, threads),
        KeyCode::Home => options.scroll = 0,
        KeyCode::Left => options.back += 1,
        KeyCode::Right => options.back = options.back.saturating_sub(1),
        _ => {}
    }
    Some(())
}

fn sort(options: &mut ViewOptions, column: Column) {
    options.reversed = options.sort == column && !options.reversed;
    options.sort = column;
    options.scroll = 0;
}

fn scroll(options: &mut ViewOptions, lines: isize, threads: usize) {
    let to = options.scroll.saturating_add_signed(lines);
    options.scroll = to.min(threads.saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_match_the_help() {
        let mut options = ViewOptions::default();
        let mut press = |code| {
            let done = react_to_key(KeyEvent::new(code, KeyModifiers::NONE), &mut options, 5);
            done.map(|()| options.clone())
        };
        assert_eq!(press(KeyCode::Char('n')).unwrap().sort, Column::Name);
        assert!(
            press(KeyCode::Char('n')).unwrap().reversed,
            "pressing the key twice reverses the order"
        );
        assert!(press(KeyCode::Char('T')).unwrap().tree);
        assert_eq!(
            press(KeyCode::PageDown).unwrap().scroll,
            4,
            "scrolling stops at the last thread"
        );
        assert!(press(KeyCode::Char('?')).unwrap().help);
        assert!(
            !press(KeyCode::Char('q')).unwrap().help,
            "any key closes the help"
        );
        assert!(press(KeyCode::Char('q')).is_none());
    }
}
