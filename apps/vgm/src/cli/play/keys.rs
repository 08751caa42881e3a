//! What a key means.

use std::time::Duration;

use creel_vgm::play::{Order, Repeat};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::order;
use super::view::View;

/// What only the program's loop can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Suspend,
}

/// The keys, for the help.
pub const HELP: &[(&str, &str)] = &[
    ("space", "pause, go on"),
    ("n  p", "next song, previous song"),
    ("left  right", "5 seconds back, on (shift: 30)"),
    ("home", "this song's start"),
    ("up  down", "louder, quieter"),
    ("tab  j  k", "choose a voice"),
    ("1 to 9", "that voice is heard, or not"),
    ("m  s  a", "mute, solo the chosen voice; hear all"),
    ("l", "loop this song for ever, or not"),
    ("r", "repeat: off, all, one"),
    ("z", "shuffle"),
    ("?", "this help"),
    ("q", "quit"),
];

/// Waits for the next key, so long at most, and sends what it orders.
pub fn next(wait: Duration, view: &mut View) -> anyhow::Result<Option<Wish>> {
    if !event::poll(wait)? {
        return Ok(None);
    }
    // All that is there: a held key does not lag behind.
    loop {
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && let Some(wish) = pressed(key, view)?
        {
            return Ok(Some(wish));
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
    }
}

fn pressed(key: KeyEvent, view: &mut View) -> anyhow::Result<Option<Wish>> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let far = if key.modifiers.contains(KeyModifiers::SHIFT) {
        30_000
    } else {
        5_000
    };
    let voices = view.track.as_ref().map_or(0, |track| track.1.voices.len());
    match key.code {
        KeyCode::Char('c') if control => return Ok(Some(Wish::Quit)),
        KeyCode::Char('z') if control => return Ok(Some(Wish::Suspend)),
        _ if control => {}
        KeyCode::Char('q') => return Ok(Some(Wish::Quit)),
        KeyCode::Esc => view.help = false,
        KeyCode::Char('?' | 'h') => view.help ^= true,
        KeyCode::Char(' ') => view.desk.pause(!view.desk.is_paused()),
        KeyCode::Char('n') => order(view, Order::Next)?,
        KeyCode::Char('p') => order(view, Order::Previous)?,
        KeyCode::Left => order(view, Order::Seek(-far))?,
        KeyCode::Right => order(view, Order::Seek(far))?,
        KeyCode::Home => order(view, Order::SeekTo(0))?,
        KeyCode::Up | KeyCode::Char('+') => view.desk.set_volume(view.desk.volume() + 0.05),
        KeyCode::Down | KeyCode::Char('-') => view.desk.set_volume(view.desk.volume() - 0.05),
        KeyCode::Tab | KeyCode::Char('j') if voices > 0 => {
            view.selected = (view.selected + 1) % voices;
        }
        KeyCode::BackTab | KeyCode::Char('k') if voices > 0 => {
            view.selected = (view.selected + voices - 1) % voices;
        }
        KeyCode::Char(digit @ '1'..='9') => {
            order(view, Order::Toggle(digit as usize - '1' as usize))?;
        }
        KeyCode::Char('m') => order(view, Order::Toggle(view.selected))?,
        KeyCode::Char('s') => order(view, Order::Solo(view.selected))?,
        KeyCode::Char('a') => order(view, Order::HearAll)?,
        KeyCode::Char('l') => {
            view.forever ^= true;
            order(view, Order::LoopForever(view.forever))?;
        }
        KeyCode::Char('r') => {
            view.repeat = match view.repeat {
                Repeat::Off => Repeat::All,
                Repeat::All => Repeat::One,
                Repeat::One => Repeat::Off,
            };
            order(view, Order::Repeat(view.repeat))?;
        }
        KeyCode::Char('z') => {
            view.shuffled ^= true;
            order(view, Order::Shuffle(view.shuffled))?;
        }
        _ => {}
    }
    Ok(None)
}
