//! The lanes. Each lane shows the name of a voice, its note, a mark for a new note, and its level
//! or its wave.

use creel_vgm::play::note_name;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::view::{Lane, View};
use super::style::{self, Role, Style, style_of};

/// Returns the length of the bar for a level, from 0 to 1. The bar covers 60 dB.
fn bar_fraction(level: f32) -> f32 {
    (1.0 + 20.0 * libm::log10f(level.max(1e-6)) / 60.0).clamp(0.0, 1.0)
}

/// Returns the lanes that fit, including the selected one.
pub fn lines(view: &mut View, area: Rect, rows: u16) -> Vec<Line<'static>> {
    let Some((_, track)) = &view.track else {
        return Vec::new();
    };
    let fit = usize::from(area.height / rows.max(1)).max(1);
    let last = view.lanes.len().saturating_sub(fit);
    view.first_lane = view
        .first_lane
        .clamp((view.selected + 1).saturating_sub(fit), view.selected)
        .min(last);
    let (names, heard_voices) = (&track.voices, view.session.controls.voice_mask());
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    // On a narrow screen, we show only the beginning of the names.
    let width = longest.min((usize::from(area.width) / 3).max(8));
    let room = usize::from(area.width).saturating_sub(width + 12);
    let mut lines = Vec::new();
    let shown = view.lanes.iter().zip(names).enumerate();
    for (place, (lane, name)) in shown.skip(view.first_lane).take(fit) {
        let heard = heard_voices >> place.min(63) & 1 == 1;
        let chosen = if place == view.selected { ">" } else { " " };
        let mute = if heard { " " } else { "M" };
        let note = lane.note.map_or(String::new(), note_name);
        let struck = if lane.highlight > 0 {
            style::glyphs().note_on
        } else {
            " "
        };
        let name: String = name.chars().take(width).collect();
        let faint = if heard {
            Style::new()
        } else {
            style_of(Role::Faint)
        };
        let mut first = vec![
            Span::styled(
                format!("{chosen}{:>2} {name:width$} {mute} {note:4}", place + 1),
                faint,
            ),
            Span::styled(struck, style_of(Role::NoteOn)),
        ];
        if !view.waves {
            let share = bar_fraction(lane.level);
            let bar = style::glyphs().full.repeat((share * room as f32) as usize);
            let style = if heard { style::shade(share) } else { faint };
            first.push(Span::styled(bar, style));
            lines.push(Line::from(first));
            continue;
        }
        let style = if heard {
            style::shade(bar_fraction(lane.level))
        } else {
            faint
        };
        let mut first = Some(first);
        for row in wave(lane, room, usize::from(rows)) {
            let mut line = first
                .take()
                .unwrap_or_else(|| vec![Span::raw(" ".repeat(width + 12))]);
            line.push(Span::styled(row, style));
            lines.push(Line::from(line));
        }
    }
    lines
}

/// Returns a wave as rows of characters: Braille dots, or ASCII characters of different heights.
fn wave(lane: &Lane, columns: usize, rows: usize) -> Vec<String> {
    let (across, down) = if style::is_unicode() { (2, 4) } else { (1, 3) };
    let (width, height) = (columns * across, rows * down);
    let wave = triggered(&lane.wave);
    // We draw soft voices larger, but not silence.
    let scale = 1.0 / lane.level.max(0.01);
    let mut dots = vec![false; width * height];
    let mut before = None;
    for x in 0..width {
        let value = wave
            .get(x * wave.len() / width.max(1))
            .copied()
            .unwrap_or(0.0);
        let y = ((1.0 - value * scale) * 0.5 * (height - 1) as f32)
            .round()
            .max(0.0) as usize;
        let y = y.min(height - 1);
        let from = before.unwrap_or(y);
        for y in from.min(y)..=from.max(y) {
            dots[y * width + x] = true;
        }
        before = Some(y);
    }
    let dot = |x: usize, y: usize| dots[y * width + x];
    let sign = |column: usize, row: usize| {
        if across == 1 {
            let at = (0..3).find(|y| dot(column, row * 3 + y));
            return at.map_or(' ', |y| ['\'', '-', '.'][y]);
        }
        // The bits of the dots of a Braille character, column by column.
        const BITS: [[u32; 4]; 2] = [[1, 2, 4, 64], [8, 16, 32, 128]];
        let mut bits = 0;
        for (x, column_bits) in BITS.iter().enumerate() {
            for (y, bit) in column_bits.iter().enumerate() {
                if dot(column * 2 + x, row * 4 + y) {
                    bits |= bit;
                }
            }
        }
        char::from_u32(0x2800 + bits).unwrap_or(' ')
    };
    let line = |row| (0..columns).map(|column| sign(column, row)).collect();
    (0..rows).map(line).collect()
}

/// Returns half of the wave, from the point at which its first half first rises through zero, or
/// from its start if there is no such point. A steady tone therefore does not move on the screen.
fn triggered(wave: &[f32]) -> &[f32] {
    let half = wave.len() / 2;
    let rises = wave[..half]
        .windows(2)
        .position(|pair| pair[0] < 0.0 && pair[1] >= 0.0);
    let start = rises.map_or(0, |at| at + 1);
    &wave[start..(start + half).min(wave.len())]
}
