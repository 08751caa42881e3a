//! Renders the live view of received streams: one row per stream, sorted by a column. These
//! functions are pure and know no terminal.
//!
//! Invariant: for any size of the screen, the result has as many lines as the screen, and no line
//! is wider than the screen.

use std::cmp::Ordering;
use std::time::Duration;

use creel_cast::receive::{LiveReport, SourceReport};
use creel_console::screen::{Line, LineStyle};

/// A row of the view.
#[derive(Debug, Clone)]
pub struct Row {
    pub report: SourceReport,
    /// The time since the last packet.
    pub silent: Duration,
    /// The packets per second since the view last read the figures.
    pub rate: f64,
}

impl Row {
    /// Returns the row of a stream, which had `before` packets a time of `since` ago. Without
    /// `before`, its rate is zero.
    pub fn new(live: LiveReport, before: Option<u64>, since: Duration) -> Self {
        let packets = live.report.packets;
        let new = packets.saturating_sub(before.unwrap_or(packets));
        Row {
            rate: new as f64 / since.as_secs_f64().max(0.001),
            report: live.report,
            silent: live.silent,
        }
    }
}

/// The value of a cell, by which rows are sorted.
enum Value {
    Count(u64),
    /// A number with this many digits after the point, if it is known.
    Number(Option<f64>, usize),
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Count(count) => count.to_string(),
            Value::Number(Some(number), digits) => format!("{number:.digits$}"),
            Value::Number(None, _) => "–".into(),
            Value::Text(text) => text.clone(),
        }
    }

    fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Count(a), Value::Count(b)) => a.cmp(b),
            // An unknown number counts as smaller than all others.
            (Value::Number(a, _), Value::Number(b, _)) => {
                let least = f64::NEG_INFINITY;
                a.unwrap_or(least).total_cmp(&b.unwrap_or(least))
            }
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

struct Column {
    title: &'static str,
    width: usize,
    /// Whether the largest values are the most interesting ones, so that they come first.
    is_descending: bool,
    value: fn(&Row) -> Value,
}

/// Returns a column of numbers.
const fn number(title: &'static str, width: usize, value: fn(&Row) -> Value) -> Column {
    Column {
        title,
        width,
        is_descending: true,
        value,
    }
}

/// Returns a column of names, or of numbers of which the smallest are the most interesting.
const fn name(title: &'static str, width: usize, value: fn(&Row) -> Value) -> Column {
    Column {
        title,
        width,
        is_descending: false,
        value,
    }
}

/// The columns. The most important ones come first, because a narrow screen shows only some of
/// them.
const COLUMNS: [Column; 20] = [
    name("stream", 7, |row| Value::Count(row.report.stream as u64)),
    name("SSRC", 8, |row| {
        Value::Text(format!("{:08x}", row.report.ssrc))
    }),
    number("packets", 9, |row| Value::Count(row.report.packets)),
    number("per s", 7, |row| Value::Number(Some(row.rate), 0)),
    number("lost", 6, |row| Value::Count(row.report.lost)),
    number("lost %", 7, |row| {
        let report = &row.report;
        let share = report.lost as f64 / report.expected.max(1) as f64;
        Value::Number(Some(100.0 * share), 2)
    }),
    number("late", 6, |row| Value::Count(row.report.late)),
    number("jitter ms", 10, |row| {
        Value::Number(row.report.jitter_ms, 3)
    }),
    number("max ms", 9, |row| {
        Value::Number(row.report.jitter.map(|jitter| jitter.max), 3)
    }),
    name("MOS", 5, |row| Value::Number(row.report.mos, 2)),
    number("delta ms", 9, |row| {
        Value::Number(row.report.delta.map(|delta| delta.max), 3)
    }),
    number("breaks", 7, |row| {
        let report = &row.report;
        Value::Count(report.restarts + report.timestamp_jumps + report.clock_changes)
    }),
    number("reordered", 9, |row| Value::Count(row.report.reordered)),
    number("dup", 6, |row| Value::Count(row.report.duplicates)),
    number("ppm", 6, |row| Value::Number(row.report.drift_ppm, 0)),
    number("silent s", 8, |row| {
        Value::Number(Some(row.silent.as_secs_f64()), 1)
    }),
    name("port", 5, |row| Value::Count(row.report.port.into())),
    name("format", 14, |row| {
        let format = row.report.format.map(|format| format.to_string());
        let last = row.report.payload_types.last().copied();
        Value::Text(format.unwrap_or_else(|| format!("type {}", last.unwrap_or_default())))
    }),
    name("from", 21, |row| Value::Text(row.report.from.to_string())),
    name("keys", 12, |row| Value::Text(row.report.keys.clone())),
];

/// The key bindings, as the last line of the screen shows them.
const KEYS: &str = "←→ column  r reverse  ↑↓ PgUp PgDn Home scroll  space pause  q end";

/// The choices of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The index of the column by which the rows are sorted.
    sort: usize,
    is_reversed: bool,
    pub is_paused: bool,
    /// The index of the first visible row.
    scroll: usize,
}

impl View {
    /// Sorts by the next column to the right, or to the left.
    pub fn select(&mut self, by: isize) {
        let to = self.sort.saturating_add_signed(by).min(COLUMNS.len() - 1);
        if to != self.sort {
            (self.sort, self.is_reversed, self.scroll) = (to, false, 0);
        }
    }

    pub fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    pub fn scroll(&mut self, by: isize, rows: usize) {
        let to = self.scroll.saturating_add_signed(by);
        self.scroll = to.min(rows.saturating_sub(1));
    }

    pub fn scroll_to_begin(&mut self) {
        self.scroll = 0;
    }

    /// Returns whether the largest values come first.
    fn is_descending(&self) -> bool {
        COLUMNS[self.sort].is_descending != self.is_reversed
    }

    fn sort(&self, rows: &mut [Row]) {
        let value = COLUMNS[self.sort].value;
        rows.sort_by(|a, b| {
            let order = value(a).compare(&value(b));
            let order = if self.is_descending() {
                order.reverse()
            } else {
                order
            };
            order.then(a.report.stream.cmp(&b.report.stream))
        });
    }

    /// Returns the columns that fit. They include the number of the stream and the column by which
    /// the rows are sorted, or are empty if the screen is too narrow for both.
    fn visible(&self, width: usize) -> Vec<usize> {
        let fit = |first: usize| {
            let mut room = width;
            let all = std::iter::once(0).chain(first.max(1)..COLUMNS.len());
            let fits = |&at: &usize| {
                let needed = COLUMNS[at].width + 1;
                let is_fit = needed <= room;
                room = room.saturating_sub(needed);
                is_fit
            };
            all.take_while(fits).collect::<Vec<_>>()
        };
        let firsts = (1..COLUMNS.len()).map(fit);
        let mut suitable = firsts.filter(|columns| columns.contains(&self.sort));
        suitable.next().unwrap_or_default()
    }

    /// Draws the rows on a screen of this size. `elapsed` is the time since the beginning.
    pub fn draw(
        &self,
        rows: &[Row],
        elapsed: Duration,
        (width, height): (usize, usize),
    ) -> Vec<Line> {
        let sum = |count: fn(&SourceReport) -> u64| -> u64 {
            rows.iter().map(|row| count(&row.report)).sum()
        };
        let paused = if self.is_paused { "  paused" } else { "" };
        let head = format!(
            "{} streams  {} packets  {} lost  {} late  {:.0} s{paused}",
            rows.len(),
            sum(|report| report.packets),
            sum(|report| report.lost),
            sum(|report| report.late),
            elapsed.as_secs_f64()
        );
        let visible = self.visible(width);
        let arrow = if self.is_descending() { '▼' } else { '▲' };
        let titles = visible.iter().map(|&at| {
            let column = &COLUMNS[at];
            let title = match at == self.sort {
                true => format!("{arrow}{}", column.title),
                false => column.title.into(),
            };
            cell(&title, column)
        });
        let mut lines = vec![line(head, false), line(titles.collect(), true)];
        let mut rows = rows.to_vec();
        self.sort(&mut rows);
        let shown = rows.iter().skip(self.scroll);
        for row in shown.take(height.saturating_sub(3)) {
            let cells = visible.iter().map(|&at| {
                let column = &COLUMNS[at];
                cell(&(column.value)(row).text(), column)
            });
            lines.push(line(cells.collect(), false));
        }
        lines.resize(height.saturating_sub(1), line(String::new(), false));
        lines.push(line(KEYS.into(), true));
        lines.truncate(height);
        for line in &mut lines {
            line.text = line.text.chars().take(width).collect();
            if line.style == LineStyle::Bar {
                line.text = format!("{:width$}", line.text);
            }
        }
        lines
    }
}

fn line(text: String, is_bar: bool) -> Line {
    let style = match is_bar {
        true => LineStyle::Bar,
        false => LineStyle::Plain,
    };
    Line { text, style }
}

/// Returns a cell of the width of its column, and a space. A text that does not fit is cut.
fn cell(text: &str, column: &Column) -> String {
    let width = column.width;
    let text: String = text.chars().take(width).collect();
    format!("{text:>width$} ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_cast::measure::Bursts;

    /// Returns the report of a stream with these numbers of packets.
    fn report(stream: usize, packets: u64, lost: u64) -> SourceReport {
        SourceReport {
            stream,
            ssrc: 7,
            port: 5_004,
            from: ([127, 0, 0, 1], 4_000).into(),
            format: None,
            payload_types: vec![97],
            packets,
            bytes: 0,
            seconds: 1.0,
            expected: packets + lost,
            lost,
            lost_rfc3550: 0,
            late: 0,
            reordered: 0,
            duplicates: 0,
            strays: 0,
            restarts: 0,
            timestamp_jumps: 0,
            clock_changes: 0,
            codec_changes: 0,
            collision: false,
            overflowed: None,
            jitter_ms: None,
            jitter: None,
            delta: None,
            bursts: Bursts::default(),
            packet_ms: None,
            rating: None,
            mos: None,
            interval_ms: 0.0,
            interval_sd_ms: 0.0,
            drift_ppm: None,
            keys: String::new(),
            sender_packets: None,
            sender_bytes: None,
            left: false,
            round_trip_ms: None,
            reported_lost: None,
            reported_jitter_ms: None,
            reported_rating: None,
            reported_mos: None,
            unrecorded: 0,
        }
    }

    /// Returns rows with these numbers of lost packets.
    fn rows(lost: &[u64]) -> Vec<Row> {
        let row = |(stream, &lost): (usize, &u64)| Row {
            report: report(stream, 1_000, lost),
            silent: Duration::ZERO,
            rate: 50.0,
        };
        lost.iter().enumerate().map(row).collect()
    }

    /// Returns the streams in the order in which they are drawn.
    fn streams(view: &View, rows: &[Row]) -> Vec<String> {
        let lines = view.draw(rows, Duration::ZERO, (200, 3 + rows.len()));
        let rows = &lines[2..2 + rows.len()];
        let first = rows.iter().map(|line| line.text.split_whitespace().next());
        first.map(|it| it.unwrap_or_default().into()).collect()
    }

    #[test]
    fn rows_are_sorted_by_the_selected_column() {
        let rows = rows(&[3, 9, 1]);
        let mut view = View::default();
        assert_eq!(streams(&view, &rows), ["0", "1", "2"]);
        view.reverse();
        assert_eq!(streams(&view, &rows), ["2", "1", "0"]);
        view.select(4);
        assert_eq!(COLUMNS[view.sort].title, "lost");
        assert_eq!(streams(&view, &rows), ["1", "0", "2"]);
        view.reverse();
        assert_eq!(streams(&view, &rows), ["2", "0", "1"]);
        view.scroll(1, rows.len());
        assert_eq!(streams(&view, &rows), ["0", "1", ""]);
        view.select(-100);
        assert_eq!(streams(&view, &rows), ["0", "1", "2"]);
    }

    #[test]
    fn every_column_is_visible_when_it_is_selected() {
        let rows = rows(&[0; 50]);
        for (width, height) in [(1, 1), (0, 0), (30, 4), (80, 24), (300, 60)] {
            let mut view = View::default();
            for column in &COLUMNS {
                let lines = view.draw(&rows, Duration::from_secs(3), (width, height));
                assert_eq!(lines.len(), height);
                let widest = lines.iter().map(|line| line.text.chars().count()).max();
                assert!(widest.unwrap_or(0) <= width);
                if width >= 30 && height > 1 {
                    let title: String = column.title.chars().take(column.width - 1).collect();
                    assert!(lines[1].text.contains(&title), "{width}: {}", column.title);
                }
                view.select(1);
            }
        }
    }

    #[test]
    fn the_rate_counts_the_packets_since_the_last_drawing() {
        let live = |packets| LiveReport {
            report: report(0, packets, 0),
            silent: Duration::ZERO,
        };
        let half = Duration::from_millis(500);
        assert_eq!(Row::new(live(75), Some(50), half).rate, 50.0);
        assert_eq!(Row::new(live(75), None, half).rate, 0.0);
    }
}
