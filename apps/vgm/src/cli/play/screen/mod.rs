//! The screen: the song, the position, one lane per voice, the spectrum, the queue and a status
//! line. It adapts to any size of the terminal.

mod lanes;
mod spectrum;
mod style;

use creel_vgm::play::{Repeat, Track};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Wrap};

use super::keys::HELP;
use super::session::{frame_in_length, loop_pass, total_frames};
use super::view::{Overlay, View, title};
use crate::cli::stderr::escape_control;
use style::{Role, Style, style_of};

/// The areas of the screen in which its parts were drawn. A mouse click is compared with them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Areas {
    /// The bar that shows the position in the song.
    pub bar: Rect,
    pub lanes: Rect,
    pub rows_a_lane: u16,
    pub queue: Rect,
    /// The index of the first drawn song among the listed songs.
    pub first_song: usize,
}

const SPECTRUM_ROWS: u16 = 4;
/// The maximum number of rows of a lane.
const ROWS_A_LANE_MAX: u16 = 4;
/// The minimum number of columns of a path after a title.
const NAME_COLUMNS_MIN: usize = 12;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let height = frame.area().height;
    let voices = view.lanes.len() as u16;
    let head = if height >= 12 { 3 } else { 1 };
    let rest = height.saturating_sub(head + 2);
    // While the user browses the songs, the list gets more room.
    let browses = view.search.is_some() || view.cursor.is_some();
    view.spectrum_rows_missing = (voices + SPECTRUM_ROWS + 3).saturating_sub(rest);
    let spectrum = if view.spectrum && !browses && view.spectrum_rows_missing == 0 {
        SPECTRUM_ROWS
    } else {
        0
    };
    // The queue keeps three rows, unless the voices would then have fewer than three.
    let room = rest.saturating_sub(spectrum + 3).max(rest.min(3));
    let room = if browses { room.min(rest / 3) } else { room };
    let rows_a_lane = match (view.waves, voices) {
        (true, 1..) => (room / voices).clamp(1, ROWS_A_LANE_MAX),
        _ => 1,
    };
    let rows = Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(1),
        Constraint::Length((voices * rows_a_lane).min(room)),
        Constraint::Length(spectrum),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [head, place, lanes, spectrum, queue, foot] = rows.areas(frame.area());
    view.areas = Areas {
        lanes,
        rows_a_lane,
        queue,
        ..Areas::default()
    };
    frame.render_widget(Paragraph::new(header(view)), head);
    frame.render_widget(Paragraph::new(position(view, place)), place);
    frame.render_widget(
        Paragraph::new(lanes::lines(view, lanes, rows_a_lane)),
        lanes,
    );
    frame.render_widget(Paragraph::new(spectrum::lines(view, spectrum)), spectrum);
    frame.render_widget(Paragraph::new(songs(view, queue)), queue);
    frame.render_widget(Paragraph::new(status_line(view)), foot);
    match view.overlay {
        Overlay::None => {}
        Overlay::Help => {
            view.overlay_scroll = draw_overlay(frame, " keys ", help(), view.overlay_scroll)
        }
        Overlay::Tags => {
            view.overlay_scroll = draw_overlay(frame, " tags ", tags(view), view.overlay_scroll)
        }
    }
}

fn header(view: &View) -> Vec<Line<'static>> {
    let Some((_, track)) = &view.track else {
        let waiting = view.messages.last().cloned();
        return vec![Line::from(escape_control(
            &waiting.unwrap_or_else(|| "...".into()),
        ))];
    };
    let tags = &track.tags;
    let known = [&tags.system, &tags.author, &tags.date];
    let known: Vec<String> = known
        .into_iter()
        .filter(|text| !text.is_empty())
        .map(|text| escape_control(text))
        .collect();
    let third = match (view.messages.last(), track.missing.is_empty()) {
        (Some(message), _) => message.clone(),
        (_, false) => format!("not played: {}", track.missing.join(", ")),
        _ => chips(track),
    };
    let third_role = if view.messages.is_empty() && track.missing.is_empty() {
        style_of(Role::Faint)
    } else {
        style_of(Role::Warning)
    };
    vec![
        Line::from(Span::styled(
            title(track),
            style_of(Role::Title).add_modifier(Modifier::BOLD),
        )),
        Line::from(known.join(", ")),
        Line::from(Span::styled(escape_control(&third), third_role)),
    ]
}

/// Returns the names of the chips, which are the first words of the names of their voices.
fn chips(track: &Track) -> String {
    let mut chips: Vec<&str> = Vec::new();
    for voice in &track.voices {
        let chip = voice.split(' ').next().unwrap_or(voice);
        if !chips.contains(&chip) {
            chips.push(chip);
        }
    }
    chips.join(", ")
}

fn clock(frames: u64, rate: u32) -> String {
    let seconds = frames / u64::from(rate);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn position(view: &mut View, area: Rect) -> Line<'static> {
    let controls = &view.session.controls;
    let (rate, now) = (controls.sample_rate(), controls.frame());
    let track = view.track.as_ref().map(|track| track.1.as_ref());
    let total = track.and_then(|track| track.frames);
    let end = total.map_or("endless".into(), |frames| clock(frames, rate));
    let pass = track.and_then(|track| loop_pass(track, now));
    let pass = pass.map_or(String::new(), |pass| format!(" loop {pass}"));
    let fades = track.is_some_and(|track| {
        let from = track
            .frames
            .map(|frames| frames.saturating_sub(track.faded));
        from.is_some_and(|from| now >= from && track.faded > 0)
    });
    let fade = if fades { " fade" } else { "" };
    let pause = match (controls.is_paused(), controls.is_seeking()) {
        (true, _) => " paused",
        (_, true) => " seeking",
        _ => "",
    };
    let (left, right) = (clock(now, rate), format!("{end}{pass}{fade}{pause}"));
    let room = usize::from(area.width).saturating_sub(left.len() + right.len() + 2);
    let share = track.and_then(|track| {
        let length = total_frames(track)?;
        Some(frame_in_length(track, now) as f64 / length.max(1) as f64)
    });
    let share = share.unwrap_or(0.0);
    let done = (share.min(1.0) * room as f64) as usize;
    view.areas.bar = Rect::new(
        area.x + left.len() as u16 + 1,
        area.y,
        room as u16,
        area.height,
    );
    let glyphs = style::glyphs();
    Line::from(vec![
        Span::raw(format!("{left} ")),
        Span::styled(glyphs.full.repeat(done), style_of(Role::Good)),
        Span::styled(glyphs.empty.repeat(room - done), style_of(Role::Faint)),
        Span::raw(format!(" {right}")),
    ])
}

fn songs(view: &mut View, area: Rect) -> Vec<Line<'static>> {
    let (at, listed) = (view.place(), view.filtered_songs());
    let rows = usize::from(area.height);
    let cursor = view.cursor.unwrap_or(at);
    let here = listed
        .iter()
        .position(|place| *place >= cursor)
        .unwrap_or(0);
    let first = here
        .saturating_sub(rows / 2)
        .min(listed.len().saturating_sub(rows));
    view.areas.first_song = first;
    if listed.is_empty() && rows > 0 {
        return vec![Line::from("no song matches")];
    }
    let line = |place: &usize| {
        let mut style = if *place == at {
            style_of(Role::Title)
        } else {
            Style::new()
        };
        if view.cursor == Some(*place) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let number = format!("{:>4}  ", place + 1);
        let title = view.session.title(*place);
        let mut room = usize::from(area.width).saturating_sub(number.len());
        let mut spans = vec![Span::styled(number, style)];
        if let Some(title) = title {
            let title = Span::styled(format!("{title}  "), style);
            room = room.saturating_sub(title.width());
            spans.push(title);
        }
        // If the song has a title, a few characters of its path would not help.
        if title.is_none() || room >= NAME_COLUMNS_MIN {
            let style = title.map_or(style, |_| style_of(Role::Faint));
            spans.push(Span::styled(
                elide_front(&view.session.labels[*place], room),
                style,
            ));
        }
        Line::from(spans)
    };
    listed.iter().skip(first).take(rows).map(line).collect()
}

/// Returns the end of a path in up to `columns` columns. The end is what distinguishes it from
/// other paths.
fn elide_front(path: &str, columns: usize) -> String {
    if Span::raw(path).width() <= columns {
        return path.to_owned();
    }
    let cut = if style::is_unicode() { "\u{2026}" } else { "<" };
    let fits = |from: &usize| Span::raw(&path[*from..]).width() < columns;
    let from = path.char_indices().map(|(at, _)| at).find(fits);
    format!("{cut}{}", &path[from.unwrap_or(path.len())..])
}

fn status_line(view: &View) -> Line<'static> {
    if let Some(text) = &view.search {
        let (found, all) = (view.filtered_songs().len(), view.session.labels.len());
        let text = escape_control(text);
        return Line::from(format!(
            "/{text}_   {found} of {all}, enter plays, esc cancels"
        ));
    }
    let controls = &view.session.controls;
    let (underruns, us) = controls.underruns();
    let underruns = match underruns {
        0 => "no underruns".into(),
        1 => format!("1 underrun, {} ms", us / 1000),
        _ => format!("{underruns} underruns, {} ms", us / 1000),
    };
    let stalls = match controls.device_stalls() {
        (0, _) => String::new(),
        (_, us) => format!("  device stalled {} ms", us / 1000),
    };
    let device = if controls.is_device_lost() {
        "device lost".into()
    } else {
        format!("buffer {} ms", controls.queued_ms())
    };
    let mut modes = String::new();
    let percent = |name: &str, value: u32| match value {
        1000 => String::new(),
        value => format!(" {name} {}%", f64::from(value) / 10.0),
    };
    modes.push_str(&percent("tempo", controls.tempo()));
    modes.push_str(&percent("pitch", controls.pitch()));
    modes.push_str(if controls.loops_forever() {
        " loop"
    } else {
        ""
    });
    modes.push_str(if controls.is_shuffled() {
        " shuffle"
    } else {
        ""
    });
    modes.push_str(match controls.repeat() {
        Repeat::Off => "",
        Repeat::All => " repeat",
        Repeat::One => " repeat one",
    });
    Line::from(format!(
        "vol {:.0}%{modes}  ? help  q quit  {device}  {underruns}{stalls}  render {:.1}%",
        controls.volume() * 100.0,
        view.session.now_playing().load / 10.0
    ))
}

fn help() -> Vec<Line<'static>> {
    let line = |(keys, meaning): &(&str, &str)| Line::from(format!(" {keys:11} {meaning}"));
    HELP.iter().map(line).collect()
}

fn tags(view: &View) -> Vec<Line<'static>> {
    let Some((_, track)) = &view.track else {
        return Vec::new();
    };
    let tags = &track.tags;
    let mut lines = Vec::new();
    for (name, text) in [
        ("title", &tags.track),
        ("", &tags.track_native),
        ("game", &tags.game),
        ("", &tags.game_native),
        ("system", &tags.system),
        ("author", &tags.author),
        ("", &tags.author_native),
        ("date", &tags.date),
        ("by", &tags.converted_by),
        ("file", &track.source),
    ] {
        if !text.is_empty() {
            lines.push(Line::from(format!("{name:7} {}", escape_control(text))));
        }
    }
    if !tags.notes.is_empty() {
        lines.push(Line::default());
        lines.extend(
            tags.notes
                .lines()
                .map(|line| Line::from(escape_control(line))),
        );
    }
    lines
}

/// Draws a box over the middle of the screen. `scrolled` is the number of lines by which its text
/// is scrolled. Returns this number, limited so that scrolling stops at the last line.
fn draw_overlay(
    frame: &mut Frame<'_>,
    name: &'static str,
    lines: Vec<Line<'static>>,
    scrolled: u16,
) -> u16 {
    let area = frame.area();
    let widest = lines.iter().map(Line::width).max().unwrap_or(0) as u16;
    let width = (widest + 4).max(20).min(area.width);
    // Lines are wrapped between words, so a line may need one row more than its width suggests.
    let columns = usize::from(width.saturating_sub(2)).max(1);
    let rows = |line: &Line<'_>| line.width().div_ceil(columns).max(1);
    let rows: usize = lines
        .iter()
        .map(|line| rows(line) + usize::from(line.width() > columns))
        .sum();
    let all = u16::try_from(rows + 2).unwrap_or(u16::MAX);
    let height = all.min(area.height);
    let scrolled = scrolled.min(all - height);
    let place = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    let mut block = Block::bordered().title(name);
    if !style::is_unicode() {
        block = block
            .border_type(BorderType::Plain)
            .border_set(style::ASCII_BORDER);
    }
    let text = Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .scroll((scrolled, 0));
    frame.render_widget(Clear, place);
    frame.render_widget(text.block(block), place);
    scrolled
}
