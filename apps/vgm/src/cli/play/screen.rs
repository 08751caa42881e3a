//! The picture: the song, its place, a lane a voice, the queue, and what the sound does.

use std::env;
use std::sync::OnceLock;

use creel_vgm::play::Repeat;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::keys::HELP;
use super::view::{View, title};

/// The signs of bars: done, left.
fn signs() -> (&'static str, &'static str) {
    static UNICODE: OnceLock<bool> = OnceLock::new();
    let unicode = *UNICODE.get_or_init(|| {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL")
            .or_else(|| set("LC_CTYPE"))
            .or_else(|| set("LANG"));
        locale.is_some_and(|locale| {
            locale
                .to_ascii_lowercase()
                .replace('-', "")
                .contains("utf8")
        })
    });
    if unicode { ("█", "─") } else { ("#", "-") }
}

fn color(color: Color) -> Style {
    static COLORS: OnceLock<bool> = OnceLock::new();
    let colors = COLORS.get_or_init(|| env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()));
    if *colors {
        Style::new().fg(color)
    } else {
        Style::new()
    }
}

/// Draws all of it, in whatever room there is.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let voices = view.track.as_ref().map_or(0, |track| track.1.voices.len()) as u16;
    let rows = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Length(voices.min(frame.area().height.saturating_sub(8)) + 1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [head, place, lanes, queue, foot] = rows.areas(frame.area());
    frame.render_widget(Paragraph::new(header(view)), head);
    frame.render_widget(Paragraph::new(position(view, place.width)), place);
    frame.render_widget(Paragraph::new(voice_lanes(view, lanes)), lanes);
    frame.render_widget(Paragraph::new(songs(view, queue)), queue);
    frame.render_widget(Paragraph::new(state(view)), foot);
    if view.help {
        help(frame);
    }
}

fn header(view: &View) -> Vec<Line<'_>> {
    let Some((_, track)) = &view.track else {
        return vec![Line::from("…")];
    };
    let tags = &track.tags;
    let known = [&tags.system, &tags.author, &tags.date];
    let known: Vec<&str> = known
        .into_iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let third = match (track.missing.is_empty(), view.messages.last()) {
        (false, _) => format!("not played: {}", track.missing.join(", ")),
        (_, Some(message)) => message.clone(),
        _ => String::new(),
    };
    vec![
        Line::from(Span::styled(
            title(track),
            color(Color::Cyan).add_modifier(Modifier::BOLD),
        )),
        Line::from(known.join(", ")),
        Line::from(Span::styled(third, color(Color::Yellow))),
    ]
}

fn clock(frames: u64, rate: u32) -> String {
    let seconds = frames / u64::from(rate);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn position(view: &View, width: u16) -> Line<'static> {
    let (rate, now) = (view.desk.sample_rate(), view.desk.frame());
    let total = view.track.as_ref().and_then(|track| track.1.frames);
    let end = total.map_or("for ever".into(), |frames| clock(frames, rate));
    let pass = view
        .pass()
        .map_or(String::new(), |pass| format!(" loop {pass}"));
    let pause = if view.desk.is_paused() { " paused" } else { "" };
    let (left, right) = (clock(now, rate), format!("{end}{pass}{pause}"));
    let room = usize::from(width).saturating_sub(left.len() + right.len() + 2);
    let share = total
        .map_or(0.0, |total| now as f64 / total.max(1) as f64)
        .min(1.0);
    let done = (share * room as f64) as usize;
    let (full, empty) = signs();
    Line::from(vec![
        Span::raw(format!("{left} ")),
        Span::styled(full.repeat(done), color(Color::Green)),
        Span::raw(empty.repeat(room - done)),
        Span::raw(format!(" {right}")),
    ])
}

/// How far a bar goes for a level: 60 dB of them.
fn share_of(level: f32) -> f32 {
    (1.0 + 20.0 * level.max(1e-6).log10() / 60.0).clamp(0.0, 1.0)
}

fn voice_lanes(view: &View, area: Rect) -> Vec<Line<'static>> {
    let Some((_, track)) = &view.track else {
        return Vec::new();
    };
    let longest = track
        .voices
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let room = usize::from(area.width).saturating_sub(longest + 8);
    let lane = |(place, name): (usize, &String)| {
        let heard = view.heard >> place.min(63) & 1 == 1;
        let bar = (share_of(view.levels.get(place).copied().unwrap_or(0.0)) * room as f32) as usize;
        let style = match (heard, bar * 10 > room * 9) {
            (false, _) => color(Color::DarkGray),
            (_, true) => color(Color::Yellow),
            _ => color(Color::Green),
        };
        let chosen = if place == view.selected { ">" } else { " " };
        let mute = if heard { " " } else { "M" };
        Line::from(vec![
            Span::raw(format!("{chosen}{:>2} {name:longest$} {mute} ", place + 1)),
            Span::styled(signs().0.repeat(bar), style),
        ])
    };
    track.voices.iter().enumerate().map(lane).collect()
}

fn songs(view: &View, area: Rect) -> Vec<Line<'_>> {
    let at = view.track.as_ref().map_or(0, |track| track.1.place);
    let rows = usize::from(area.height);
    let first = at
        .saturating_sub(rows / 2)
        .min(view.names.len().saturating_sub(rows));
    let songs = view.names.iter().enumerate().skip(first).take(rows);
    songs
        .map(|(place, name)| {
            let style = if place == at {
                color(Color::Cyan)
            } else {
                Style::new()
            };
            Line::from(Span::styled(format!("{:>4}  {name}", place + 1), style))
        })
        .collect()
}

fn state(view: &View) -> Line<'static> {
    let (gaps, us) = view.desk.gaps();
    let gaps = match gaps {
        0 => "no gaps".into(),
        _ => format!("{gaps} gaps, {} ms", us / 1000),
    };
    let device = if view.desk.is_lost() {
        "device lost".into()
    } else {
        format!("buffer {} ms", view.desk.held_ms())
    };
    let mut modes = String::new();
    modes.push_str(if view.forever { " loop" } else { "" });
    modes.push_str(if view.shuffled { " shuffle" } else { "" });
    modes.push_str(match view.repeat {
        Repeat::Off => "",
        Repeat::All => " repeat",
        Repeat::One => " repeat one",
    });
    Line::from(format!(
        "vol {:.0} %  {device}  {gaps}  render {:.1} %{modes}  ? help  q quit",
        view.desk.volume() * 100.0,
        view.load / 10.0
    ))
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (50.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, what)| Line::from(format!("  {keys:12} {what}")))
        .collect();
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(lines).block(ratatui::widgets::Block::bordered().title(" keys ")),
        place,
    );
}
