//! Symbols and colours that the terminal supports. Without Unicode, everything is ASCII. With
//! NO_COLOR, nothing is coloured. We use shades only if COLORTERM says that the terminal has them.

use std::env;
use std::sync::OnceLock;

use ratatui::style::Color;
pub use ratatui::style::Style;
use ratatui::symbols::border;

/// The symbols of which the screen consists.
pub struct Glyphs {
    pub full: &'static str,
    pub empty: &'static str,
    /// Bars of the heights 0 to 8.
    pub heights: [&'static str; 9],
    pub note_on: &'static str,
}

const UNICODE: Glyphs = Glyphs {
    full: "█",
    empty: "─",
    heights: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    note_on: "●",
};

const ASCII: Glyphs = Glyphs {
    full: "#",
    empty: "-",
    heights: [" ", "_", ".", ".", ":", ":", "|", "|", "#"],
    note_on: "*",
};

/// The border of boxes on terminals without Unicode.
pub const ASCII_BORDER: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether the locale is UTF-8 and the terminal can show it. The console of Linux has only
/// a few hundred glyphs, so we use ASCII there.
pub fn is_unicode() -> bool {
    static UNICODE: OnceLock<bool> = OnceLock::new();
    *UNICODE.get_or_init(|| {
        let locale = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"));
        let locale = locale.map(|locale| locale.to_ascii_lowercase().replace('-', ""));
        let is_console = set("TERM").is_some_and(|term| term == "linux");
        !is_console && locale.is_some_and(|locale| locale.contains("utf8"))
    })
}

pub fn glyphs() -> &'static Glyphs {
    if is_unicode() { &UNICODE } else { &ASCII }
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Title,
    Good,
    Warning,
    Faint,
    NoteOn,
}

#[derive(Clone, Copy, PartialEq)]
enum Colors {
    None,
    Sixteen,
    All,
}

fn colors() -> Colors {
    static COLORS: OnceLock<Colors> = OnceLock::new();
    *COLORS.get_or_init(|| {
        let depth = set("COLORTERM").unwrap_or_default();
        if set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb") {
            Colors::None
        } else if depth == "truecolor" || depth == "24bit" {
            Colors::All
        } else {
            Colors::Sixteen
        }
    })
}

pub fn style_of(role: Role) -> Style {
    if colors() == Colors::None {
        return Style::new();
    }
    Style::new().fg(match role {
        Role::Title => Color::Cyan,
        Role::Good => Color::Green,
        Role::Warning => Color::Yellow,
        Role::Faint => Color::DarkGray,
        Role::NoteOn => Color::LightRed,
    })
}

/// Returns a shade for a loudness from 0 (soft) to 1 (loud).
pub fn shade(loud: f32) -> Style {
    match colors() {
        Colors::None => Style::new(),
        Colors::Sixteen if loud > 0.9 => style_of(Role::Warning),
        Colors::Sixteen => style_of(Role::Good),
        Colors::All => {
            let mix = |from: f32, to: f32| (from + (to - from) * loud.clamp(0.0, 1.0)) as u8;
            Style::new().fg(Color::Rgb(
                mix(40.0, 250.0),
                mix(150.0, 200.0),
                mix(160.0, 60.0),
            ))
        }
    }
}
