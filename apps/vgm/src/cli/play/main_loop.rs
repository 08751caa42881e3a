//! The main loops of the player: the interface in the terminal, and one line per song without it.

use std::time::Duration;

use anyhow::Context;
use creel_console::Interrupt;

use super::keys::{self, UiRequest};
use super::resume::PositionSaver;
use super::screen;
use super::terminal::Terminal;
use super::tty;
use super::view::{self, View};
use crate::cli::stderr::{escape_control, report, write_line};

/// The time between two frames of the screen while the player plays.
const FRAME: Duration = Duration::from_millis(50);
/// The time between two frames of the screen while the player is paused.
const FRAME_PAUSED: Duration = Duration::from_millis(500);
/// The time between two checks for new songs if there is no interface.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the interface until the end. Returns the request of the user, if the user ended it.
pub(super) fn interface(
    view: &mut View,
    interrupt: &Interrupt,
    saver: &mut PositionSaver,
    mouse: bool,
) -> anyhow::Result<Option<UiRequest>> {
    let mut terminal = Terminal::enter(mouse)
        .context("cannot set up the terminal. Use --plain to play without the interface")?;
    loop {
        view.update();
        if view.is_finished() || interrupt.requested() {
            return Ok(None);
        }
        saver.save_if_due(&view.session);
        view.request_metering();
        view.heard_songs.clear();
        match terminal.draw(|frame| screen::draw(frame, view)) {
            // The window of the terminal was closed.
            Err(error) if tty::is_closed(&error) => return Ok(None),
            drawn => drawn?,
        }
        let wait = if view.session.controls.is_paused() {
            FRAME_PAUSED
        } else {
            FRAME
        };
        let Some(request) = keys::next_event(terminal.keys(), wait, view)? else {
            continue;
        };
        match request {
            UiRequest::Quit => return Ok(Some(request)),
            UiRequest::Interrupt => {
                interrupt.request();
                return Ok(Some(request));
            }
            UiRequest::Redraw => terminal.invalidate()?,
            UiRequest::Suspend => {
                let paused = view.session.controls.is_paused();
                view.session.controls.pause(true);
                terminal.suspend()?;
                view.session.controls.pause(paused);
            }
        }
    }
}

/// Prints one line per song until the end.
pub(super) fn lines(
    view: &mut View,
    interrupt: &Interrupt,
    saver: &mut PositionSaver,
    quiet: bool,
) -> anyhow::Result<Option<UiRequest>> {
    loop {
        view.update();
        for track in view.heard_songs.drain(..).filter(|_| !quiet) {
            write_line(&view::title(&track));
        }
        for message in view.messages.drain(..) {
            report(&escape_control(&message));
        }
        if view.is_finished() || interrupt.requested() {
            return Ok(None);
        }
        saver.save_if_due(&view.session);
        std::thread::sleep(POLL_INTERVAL);
    }
}
