//! The machine as SVG: nested boxes, with one cell per PU and one badge per worker.
//!
//! We compute sizes from the inside out. The boxes inside an object are arranged in rows so that
//! the object becomes about as wide as high. Its labels wrap at the width of its content.

use std::fmt::Write;

use creel_topology::CpuSet;

use super::View;
use super::tree::{self, Object};

const CELL: f64 = 34.0;
const GAP: f64 = 6.0;
const LINE: f64 = 16.0;
/// The width of a character at the size of the font, with some reserve, because the viewer chooses
/// the font.
const LETTER: f64 = 6.6;
const BADGE: f64 = 18.0;
const BADGE_LETTER: f64 = 5.6;
/// The largest number of characters in a badge with which the badge fits into a cell.
const CELL_LETTERS: usize = 4;
/// The approximate ratio of width to height that we aim for when we arrange boxes.
const ASPECT: f64 = 1.2;

/// The fill colours of cores by kind, from the slowest kind to the fastest. Further kinds use the
/// last colour.
const KINDS: [&str; 3] = ["#dbe9f6", "#9ecae1", "#5fa8d3"];
const NOT_ALLOWED: &str = "#e6e6e6";
const WORKER: &str = "#2a7f3f";

/// An object with its size, and the objects inside it with their positions.
struct Laid<'a> {
    object: &'a Object,
    /// The lines of the title. A line can hold several labels.
    title: Vec<String>,
    width: f64,
    height: f64,
    inside: Vec<(f64, f64, Laid<'a>)>,
}

/// Returns the drawing as an SVG document.
pub(super) fn draw(view: &View) -> String {
    let root = tree::of(view);
    let caption = caption(view);
    let laid = lay(&root);
    let width = laid.width.max(caption.chars().count() as f64 * LETTER) + 2.0 * GAP;
    let height = laid.height + LINE + 3.0 * GAP;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    paint(&mut out, view, &laid, (GAP, GAP));
    label(&mut out, (GAP, laid.height + LINE + GAP), &caption);
    out += "</svg>\n";
    out
}

fn caption(view: &View) -> String {
    let usable = format!(
        "usable: {}, bound by {}",
        view.budget.workers(),
        view.budget.bound_by()
    );
    match &view.worker_placement {
        Some(worker_placement) => format!(
            "{} workers, {} — {usable}",
            worker_placement.layout.assigned().len(),
            worker_placement.placement
        ),
        None => usable,
    }
}

fn lay(object: &Object) -> Laid<'_> {
    let inside: Vec<Laid> = object.inside.iter().map(lay).collect();
    let cells = if inside.is_empty() {
        object.pus.len()
    } else {
        0
    };
    let badges: CpuSet = object.workers.iter().map(|(worker, _)| *worker).collect();
    let badge = if object.is_core {
        0.0
    } else {
        badge_width(&badges.to_string())
    };
    let rows = rows(&inside);
    let content = match cells {
        0 => rows.width,
        _ => cells as f64 * (CELL + GAP) - GAP,
    };
    let widest_word = object.labels.iter().map(|label| text_width(label));
    let words = widest_word.fold(0.0, f64::max);
    let width = content.max(badge).max(words);
    let title = title(&object.labels, width);
    let top = 2.0 * GAP + LINE * title.len() as f64 + badges_height(object);
    let bottom = if cells > 0 { CELL } else { rows.height };
    let places = rows.places.into_iter();
    let placed = inside.into_iter().zip(places);
    Laid {
        object,
        title,
        width: width + 2.0 * GAP,
        height: top + bottom + GAP,
        inside: placed
            .map(|(laid, (x, y))| (GAP + x, top + y, laid))
            .collect(),
    }
}

/// Boxes that are arranged in rows, with the size of the whole arrangement.
#[derive(Default)]
struct Rows {
    width: f64,
    height: f64,
    places: Vec<(f64, f64)>,
}

/// Arranges boxes in rows, with the number of columns that makes the result about as wide as high.
fn rows(boxes: &[Laid]) -> Rows {
    let all = (1..=boxes.len()).map(|columns| in_columns(boxes, columns));
    let side = |rows: &Rows| rows.width.max(rows.height * ASPECT);
    all.min_by(|a, b| side(a).total_cmp(&side(b)))
        .unwrap_or_default()
}

fn in_columns(boxes: &[Laid], columns: usize) -> Rows {
    let mut rows = Rows::default();
    for row in boxes.chunks(columns) {
        let mut x = 0.0;
        let top = if rows.places.is_empty() {
            0.0
        } else {
            rows.height + GAP
        };
        for laid in row {
            rows.places.push((x, top));
            rows.height = rows.height.max(top + laid.height);
            rows.width = rows.width.max(x + laid.width);
            x += laid.width + GAP;
        }
    }
    rows
}

/// Puts the labels into as few lines as the width allows.
fn title(labels: &[String], width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for label in labels {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(label) + 3.0 * LETTER <= width => {
                *line += " + ";
                *line += label;
            }
            _ => lines.push(label.clone()),
        }
    }
    lines
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Returns the height of the badges of workers that may move inside an object that is larger than a
/// PU. These badges are below the object's title.
fn badges_height(object: &Object) -> f64 {
    if object.is_core || object.workers.is_empty() {
        0.0
    } else {
        BADGE + GAP
    }
}

fn paint(out: &mut String, view: &View, laid: &Laid, (x, y): (f64, f64)) {
    let object = laid.object;
    let fill = if object.is_core {
        core_colour(view, object)
    } else {
        "none"
    };
    rect(out, (x, y), (laid.width, laid.height), fill);
    for (i, line) in laid.title.iter().enumerate() {
        label(out, (x + GAP, y + LINE * (i + 1) as f64), line);
    }
    let below = y + LINE * laid.title.len() as f64;
    if laid.inside.is_empty() {
        cells(out, view, object, (x + GAP, y + laid.height - GAP - CELL));
    }
    if !object.is_core && !object.workers.is_empty() {
        let here: CpuSet = object.workers.iter().map(|(worker, _)| *worker).collect();
        let text = here.to_string();
        badge(
            out,
            (
                x + GAP + badge_width(&text) / 2.0,
                below + GAP + BADGE / 2.0,
            ),
            &text,
        );
    }
    for (dx, dy, inner) in &laid.inside {
        paint(out, view, inner, (x + dx, y + dy));
    }
}

fn core_colour(view: &View, object: &Object) -> &'static str {
    if !object.pus.intersects(view.machine.allowed()) {
        return NOT_ALLOWED;
    }
    let several = view.machine.kinds().len() > 1;
    KINDS[object
        .kind
        .filter(|_| several)
        .unwrap_or(0)
        .min(KINDS.len() - 1)]
}

/// Draws a cell per PU. A cell shows the workers whose first PU it is. It shows their numbers, or
/// only how many they are if the numbers do not fit.
fn cells(out: &mut String, view: &View, object: &Object, (x, y): (f64, f64)) {
    for (place, pu) in object.pus.iter().enumerate() {
        let left = x + place as f64 * (CELL + GAP);
        let allowed = view.machine.allowed().contains(pu);
        rect(
            out,
            (left, y),
            (CELL, CELL),
            if allowed { "#ffffff" } else { NOT_ALLOWED },
        );
        label(out, (left + 3.0, y + 12.0), &pu.to_string());
        let here = object
            .workers
            .iter()
            .filter(|(_, pus)| object.is_core && pus.first() == Some(pu));
        let here: CpuSet = here.map(|(worker, _)| *worker).collect();
        let mut text = here.to_string();
        if text.len() > CELL_LETTERS {
            text = format!("×{}", here.len());
        }
        if !here.is_empty() {
            let width = badge_width(&text);
            badge(
                out,
                (
                    left + CELL - width / 2.0 - 2.0,
                    y + CELL - BADGE / 2.0 - 2.0,
                ),
                &text,
            );
        }
    }
}

/// Returns the width of a badge, which is round for one digit and longer for more.
fn badge_width(text: &str) -> f64 {
    BADGE.max(text.chars().count() as f64 * BADGE_LETTER + 8.0)
}

fn rect(out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
    let _ = writeln!(
        out,
        "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"3\" \
         fill=\"{fill}\" stroke=\"#555555\"/>"
    );
}

fn label(out: &mut String, (x, y): (f64, f64), text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.0}\" y=\"{y:.0}\">{}</text>",
        escaped(text)
    );
}

fn badge(out: &mut String, (x, y): (f64, f64), text: &str) {
    let width = badge_width(text);
    let _ = writeln!(
        out,
        "<rect class=\"worker\" x=\"{:.0}\" y=\"{:.0}\" width=\"{width:.0}\" height=\"{BADGE:.0}\" \
         rx=\"{:.0}\" fill=\"{WORKER}\"/>\
         <text x=\"{x:.0}\" y=\"{:.0}\" fill=\"#ffffff\" font-size=\"10\" text-anchor=\"middle\">{}</text>",
        x - width / 2.0,
        y - BADGE / 2.0,
        BADGE / 2.0,
        y + 4.0,
        escaped(text)
    );
}

/// Escapes a text for SVG, because the path of a control group may contain any character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
