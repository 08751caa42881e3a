//! Keys and mouse clicks of the interface.

use std::time::Duration;

use ratatui::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent,
    MouseEventKind,
};
use ratatui::layout::{Position, Rect};

use super::action::{Action, Change};
use super::session::total_frames;
use super::tty::{self, Tty};
use super::view::{Overlay, View};

/// A request that only the main loop of the program can handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UiRequest {
    Quit,
    /// End the player as a signal would.
    Interrupt,
    Suspend,
    /// Redraw everything, because a resize may have erased what was drawn.
    Redraw,
}

/// The keys and their meanings, for the help.
pub const HELP: &[(&str, &str)] = &[
    ("space", "pause, continue"),
    ("n  p", "next song, previous song"),
    ("left right", "5 s back, forward (shift: 30 s)"),
    ("home", "start of the song"),
    ("up down", "louder, quieter"),
    ("tab  j  k", "select a voice"),
    ("1 to 9", "mute or unmute that voice"),
    ("m  s  a", "mute, solo the voice; unmute all"),
    ("l  r  z", "endless loop; repeat; shuffle"),
    ("[  ]", "slower, faster"),
    ("{  }", "lower, higher"),
    ("=", "original tempo and pitch"),
    ("v  f", "waves or levels; spectrum"),
    ("t", "tags and notes of the song"),
    ("/", "search for a song; enter plays it"),
    ("pgup pgdn", "browse the songs; enter plays"),
    ("?  h  q", "this help; quit"),
    ("mouse", "voice: mute, right: solo; bar: seek"),
];

/// Waits for the next key for up to `wait`, and handles it. Returns a request if the main loop must
/// act.
pub fn next_event(
    terminal: &Tty,
    wait: Duration,
    view: &mut View,
) -> anyhow::Result<Option<UiRequest>> {
    if tty::wait_for_input(terminal, wait)? {
        return Ok(Some(UiRequest::Quit));
    }
    if !event::poll(Duration::ZERO)? {
        return Ok(None);
    }
    // We handle all pending events, so that a held key does not lag behind.
    loop {
        let request = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => handle_key(key, view),
            Event::Mouse(mouse) => {
                handle_click(mouse, view);
                None
            }
            Event::Resize(..) => {
                creel_console::keys::after_resize();
                Some(UiRequest::Redraw)
            }
            _ => None,
        };
        if request.is_some() {
            return Ok(request);
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
    }
}

/// Performs an action, and shows a message if that is not possible.
fn handle_event(view: &mut View, action: Action) {
    if let Err(why) = action.apply(&view.session) {
        view.messages.push(why);
    }
}

fn handle_key(key: KeyEvent, view: &mut View) -> Option<UiRequest> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return Some(UiRequest::Interrupt),
        KeyCode::Char('z') if control && tty::HAS_JOB_CONTROL => return Some(UiRequest::Suspend),
        _ if control => return None,
        _ => {}
    }
    if view.search.is_some() {
        handle_search_key(key.code, view);
        return None;
    }
    if view.overlay != Overlay::None && handle_overlay_key(key.code, view) {
        return None;
    }
    if handle_list_key(key.code, view) || handle_view_key(key.code, view) {
        return None;
    }
    let far = match key.modifiers.contains(KeyModifiers::SHIFT) {
        true => 30_000,
        false => 5_000,
    };
    let action = match key.code {
        KeyCode::Char('q') => return Some(UiRequest::Quit),
        KeyCode::Char(' ') => Action::Pause(None),
        KeyCode::Char('n') => Action::Next,
        KeyCode::Char('p') => Action::Previous,
        KeyCode::Left => Action::Seek(-far),
        KeyCode::Right => Action::Seek(far),
        KeyCode::Home => Action::SeekTo(0),
        KeyCode::Up | KeyCode::Char('+') => Action::Volume(Change::By(5.0)),
        KeyCode::Down | KeyCode::Char('-') => Action::Volume(Change::By(-5.0)),
        KeyCode::Char(digit @ '1'..='9') => Action::Toggle(digit as usize - '1' as usize),
        KeyCode::Char('m') => Action::Toggle(view.selected),
        KeyCode::Char('s') => Action::Solo(view.selected),
        KeyCode::Char('a') => Action::UnmuteAll,
        KeyCode::Char('l') => Action::LoopForever(None),
        KeyCode::Char('r') => Action::Repeat(None),
        KeyCode::Char('z') => Action::Shuffle(None),
        KeyCode::Char('[') => Action::Tempo(Change::By(-5.0)),
        KeyCode::Char(']') => Action::Tempo(Change::By(5.0)),
        KeyCode::Char('{') => Action::Pitch(Change::By(-5.0)),
        KeyCode::Char('}') => Action::Pitch(Change::By(5.0)),
        KeyCode::Char('=') => {
            handle_event(view, Action::Tempo(Change::To(100.0)));
            Action::Pitch(Change::To(100.0))
        }
        _ => return None,
    };
    handle_event(view, action);
    None
}

/// Handles a key during a search.
fn handle_search_key(key: KeyCode, view: &mut View) {
    match key {
        KeyCode::Esc => (view.search, view.cursor) = (None, None),
        KeyCode::Enter => {
            let found = view
                .cursor
                .or_else(|| view.filtered_songs().first().copied());
            (view.search, view.cursor) = (None, None);
            if let Some(place) = found {
                handle_event(view, Action::Jump(place));
            }
        }
        KeyCode::Up => view.move_cursor(-1),
        KeyCode::Down => view.move_cursor(1),
        KeyCode::Backspace | KeyCode::Char(_) => {
            if let Some(text) = &mut view.search {
                match key {
                    KeyCode::Char(c) => text.push(c),
                    _ => {
                        text.pop();
                    }
                }
            }
            view.cursor = view.filtered_songs().first().copied();
        }
        _ => {}
    }
}

/// Handles a key that scrolls the overlay. Returns whether it was such a key.
fn handle_overlay_key(key: KeyCode, view: &mut View) -> bool {
    let by = match key {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -5,
        KeyCode::PageDown => 5,
        _ => return false,
    };
    view.overlay_scroll = view.overlay_scroll.saturating_add_signed(by);
    true
}

/// Handles a key that moves through the songs or closes the overlay. Returns whether it was such a
/// key.
fn handle_list_key(key: KeyCode, view: &mut View) -> bool {
    let rows = view.areas.queue.height.max(2) as isize - 1;
    match key {
        KeyCode::PageUp => view.move_cursor(-rows),
        KeyCode::PageDown => view.move_cursor(rows),
        KeyCode::Enter => {
            if let Some(place) = view.cursor.take() {
                handle_event(view, Action::Jump(place));
            }
        }
        // The overlay would hide the results.
        KeyCode::Char('/') => (view.search, view.overlay) = (Some(String::new()), Overlay::None),
        KeyCode::Esc => (view.overlay, view.cursor) = (Overlay::None, None),
        _ => return false,
    }
    true
}

/// Handles a key that changes the view. Returns whether it was such a key.
fn handle_view_key(key: KeyCode, view: &mut View) -> bool {
    let voices = view.lanes.len();
    let show = |view: &mut View, over| {
        view.overlay = if view.overlay == over {
            Overlay::None
        } else {
            over
        };
        view.overlay_scroll = 0;
    };
    match key {
        KeyCode::Char('?' | 'h') => show(view, Overlay::Help),
        KeyCode::Char('t') => show(view, Overlay::Tags),
        KeyCode::Char('v') => view.waves ^= true,
        KeyCode::Char('f') => {
            view.spectrum ^= true;
            let rows = view.spectrum_rows_missing;
            if rows > 0 {
                let message = format!("the spectrum needs a terminal with {rows} more rows");
                view.messages.push(message);
            }
        }
        KeyCode::Tab | KeyCode::Char('j') if voices > 0 => {
            view.selected = (view.selected + 1) % voices;
        }
        KeyCode::BackTab | KeyCode::Char('k') if voices > 0 => {
            view.selected = (view.selected + voices - 1) % voices;
        }
        _ => return false,
    }
    true
}

fn handle_click(mouse: MouseEvent, view: &mut View) {
    let at = Position::new(mouse.column, mouse.row);
    // Returns the row of an area in which the click is.
    let row = |area: Rect| area.contains(at).then(|| usize::from(at.y - area.y));
    if view.overlay != Overlay::None {
        match mouse.kind {
            MouseEventKind::ScrollUp => view.overlay_scroll = view.overlay_scroll.saturating_sub(3),
            MouseEventKind::ScrollDown => {
                view.overlay_scroll = view.overlay_scroll.saturating_add(3)
            }
            _ => {}
        }
        return;
    }
    let (areas, over_queue) = (view.areas, row(view.areas.queue).is_some());
    match mouse.kind {
        MouseEventKind::ScrollUp if over_queue => view.move_cursor(-3),
        MouseEventKind::ScrollDown if over_queue => view.move_cursor(3),
        MouseEventKind::ScrollUp => handle_event(view, Action::Volume(Change::By(5.0))),
        MouseEventKind::ScrollDown => handle_event(view, Action::Volume(Change::By(-5.0))),
        MouseEventKind::Down(MouseButton::Left) if areas.bar.contains(at) => {
            let length = view.track.as_ref().and_then(|track| total_frames(&track.1));
            if let Some(frames) = length {
                let rate = u64::from(view.session.controls.sample_rate());
                let share = f64::from(at.x - areas.bar.x) / f64::from(areas.bar.width.max(1));
                let ms = (frames * 1000 / rate) as f64 * share;
                handle_event(view, Action::SeekTo(ms as u64));
            }
        }
        MouseEventKind::Down(button) => {
            if let Some(row) = row(areas.lanes) {
                let lane = view.first_lane + row / usize::from(areas.rows_a_lane.max(1));
                if lane < view.lanes.len() {
                    view.selected = lane;
                    match button {
                        MouseButton::Left => handle_event(view, Action::Toggle(lane)),
                        MouseButton::Right => handle_event(view, Action::Solo(lane)),
                        MouseButton::Middle => handle_event(view, Action::UnmuteAll),
                    }
                }
            } else if let Some(row) = row(areas.queue)
                && let Some(place) = view.filtered_songs().get(areas.first_song + row)
            {
                handle_event(view, Action::Jump(*place));
                (view.search, view.cursor) = (None, None);
            }
        }
        _ => {}
    }
}
