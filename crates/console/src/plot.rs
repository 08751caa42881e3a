//! Small line charts, as text for a terminal and as SVG for a document.
//!
//! The axes are linear. The y axis starts at zero, because readers misjudge a curve of times or
//! shares that starts elsewhere. For values that span several decades, [`Chart::svg_on_decades`]
//! has a logarithmic y axis. For more than that, export the data as CSV and use another program.

use std::fmt::Write;

/// A named curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name of the curve in the legend.
    pub name: String,
    /// The points (x, y) in the units of the axes, sorted by x. The chart omits points that are not
    /// finite.
    pub points: Vec<(f64, f64)>,
}

/// A chart of curves with common axes.
///
/// ```
/// use creel_console::plot::{Chart, Series};
///
/// let chart = Chart {
///     title: "Parked".into(),
///     x_label: "streams".into(),
///     y_label: "share".into(),
///     series: vec![Series { name: "creel".into(), points: vec![(100.0, 0.9), (500.0, 0.8)] }],
/// };
/// assert!(chart.svg().starts_with("<svg"));
/// assert!(chart.text(40, 8).contains("* creel"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title above the chart.
    pub title: String,
    /// The text below the x axis, with the unit.
    pub x_label: String,
    /// The text next to the y axis, with the unit.
    pub y_label: String,
    /// The curves. The first six have different marks and colours.
    pub series: Vec<Series>,
}

const MARKS: [char; 6] = ['*', 'o', '+', 'x', '#', '@'];
/// Colours that people with colour blindness can distinguish.
/// Source: Okabe and Ito, "Color Universal Design".
const COLORS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// The size of the SVG and the margins for titles and numbers, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;

struct Range {
    x_min: f64,
    x_max: f64,
    y_max: f64,
    /// The lowest decade (power of ten) if the y axis is logarithmic. Otherwise the y axis begins
    /// at zero.
    y_min: Option<f64>,
}

impl Range {
    /// Returns the position of `x` as a share of the axis, 0 to 1.
    fn x(&self, x: f64) -> f64 {
        (x - self.x_min) / (self.x_max - self.x_min)
    }

    fn y(&self, y: f64) -> f64 {
        let share = match self.y_min {
            None => y / self.y_max,
            Some(min) => (y / min).ln() / (self.y_max / min).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns the values that are printed at the y axis.
    fn y_ticks(&self) -> Vec<f64> {
        match self.y_min {
            None => (0..=4)
                .map(|step| f64::from(step) / 4.0 * self.y_max)
                .collect(),
            Some(min) => std::iter::successors(Some(min), |tick| Some(tick * 10.0))
                .take_while(|tick| *tick <= self.y_max * 1.001)
                .collect(),
        }
    }
}

impl Chart {
    fn finite(series: &Series) -> impl Iterator<Item = (f64, f64)> {
        series
            .points
            .iter()
            .copied()
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Returns the ranges of the axes. A range is never empty, so that we can divide by its length.
    fn range(&self) -> Range {
        let mut range = Range {
            x_min: f64::INFINITY,
            x_max: f64::NEG_INFINITY,
            y_max: 0.0,
            y_min: None,
        };
        for (x, y) in self.series.iter().flat_map(Self::finite) {
            range.x_min = range.x_min.min(x);
            range.x_max = range.x_max.max(x);
            range.y_max = range.y_max.max(y);
        }
        if range.x_min > range.x_max {
            (range.x_min, range.x_max) = (0.0, 1.0);
        }
        if range.x_min == range.x_max {
            range.x_max += 1.0;
        }
        range.y_max = round_up(range.y_max);
        range
    }

    /// Returns the chart as text. The grid has `width` × `height` characters, but at least 10
    /// columns and 4 rows. The numbers and the legend around the grid do not count.
    pub fn text(&self, width: usize, height: usize) -> String {
        let (width, height) = (width.max(10), height.max(4));
        let range = self.range();
        let mut grid = vec![vec![' '; width]; height];
        for (series, mark) in self.series.iter().zip(MARKS.iter().cycle()) {
            for (x, y) in Self::finite(series) {
                let column = (range.x(x) * (width - 1) as f64).round() as usize;
                let row = ((1.0 - range.y(y)) * (height - 1) as f64).round() as usize;
                grid[row][column] = *mark;
            }
        }
        let comma = if self.title.is_empty() { "" } else { ", " };
        let mut out = format!("{}{comma}{}\n", self.title, self.y_label);
        for (i, row) in grid.iter().enumerate() {
            let tick = if i == 0 {
                number(range.y_max)
            } else if i == height - 1 {
                "0".into()
            } else {
                String::new()
            };
            let row: String = row.iter().collect();
            let _ = writeln!(out, "{tick:>8} |{}", row.trim_end());
        }
        let (first, last) = (number(range.x_min), number(range.x_max));
        let gap = width.saturating_sub(first.len() + last.len()).max(1);
        let _ = writeln!(out, "{:>8} +{}", "", "-".repeat(width));
        let _ = writeln!(
            out,
            "{:>9} {first}{}{last}  {}",
            "",
            " ".repeat(gap),
            self.x_label
        );
        for (series, mark) in self.series.iter().zip(MARKS.iter().cycle()) {
            let _ = writeln!(out, "{:>9} {mark} {}", "", series.name);
        }
        out
    }

    /// Returns the chart as an SVG document of 720 × 420 pixels.
    pub fn svg(&self) -> String {
        self.svg_in(&self.range())
    }

    /// Returns the chart as SVG with a logarithmic y axis, for values that span several decades.
    /// Values that are not above zero are at the bottom.
    ///
    /// ```
    /// # use creel_console::plot::{Chart, Series};
    /// # let (title, x_label, y_label) = ("p99".into(), "%".into(), "ms".into());
    /// let points = vec![(50.0, 16.0), (200.0, 6000.0)];
    /// let series = vec![Series { name: "p99".into(), points }];
    /// let chart = Chart { title, x_label, y_label, series };
    /// assert!(chart.svg_on_decades().contains(">10000<"));
    /// ```
    pub fn svg_on_decades(&self) -> String {
        let mut range = self.range();
        let ys = self.series.iter().flat_map(Self::finite).map(|(_, y)| y);
        let least = ys.filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            let decade = 10_f64.powf(least.log10().floor());
            range.y_min = Some(decade);
            range.y_max = 10_f64.powf(range.y_max.log10().ceil()).max(decade * 10.0);
        }
        self.svg_in(&range)
    }

    fn svg_in(&self, range: &Range) -> String {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.svg_axes(&mut out, range);
        for (i, series) in self.series.iter().enumerate() {
            svg_series(&mut out, range, series, i);
        }
        out += "</svg>\n";
        out
    }

    fn svg_axes(&self, out: &mut String, range: &Range) {
        for tick in range.y_ticks() {
            let (y, right) = (up(range.y(tick)), across(1.0));
            let _ = writeln!(out, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>");
            svg_text(out, (LEFT - 8.0, y + 4.0), "end", &number(tick));
        }
        for step in 0..=4 {
            let share = f64::from(step) / 4.0;
            let x = across(share);
            let at = range.x_min + share * (range.x_max - range.x_min);
            svg_text(out, (x, up(0.0) + 20.0), "middle", &number(at));
        }
        svg_text(out, (across(0.5), 22.0), "middle", &self.title);
        svg_text(out, (across(0.5), HEIGHT - 12.0), "middle", &self.x_label);
        let _ = writeln!(
            out,
            "<text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            up(0.5),
            escaped(&self.y_label)
        );
    }
}

fn svg_series(out: &mut String, range: &Range, series: &Series, index: usize) {
    let color = COLORS[index % COLORS.len()];
    let mut path = String::new();
    for (i, (x, y)) in Chart::finite(series).enumerate() {
        let (x, y) = (across(range.x(x)), up(range.y(y)));
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
    );
    let y = TOP + 18.0 * (index as f64 + 0.5);
    let x = across(1.0) + 12.0;
    let _ = writeln!(
        out,
        "<circle cx=\"{x}\" cy=\"{:.1}\" r=\"4\" fill=\"{color}\"/>",
        y - 4.0
    );
    svg_text(out, (x + 10.0, y), "start", &series.name);
}

fn svg_text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Converts a share of the x axis to pixels.
fn across(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

/// Converts a share of the y axis to pixels.
fn up(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Rounds up to 1, 2, 4, 5, 8 or 10 times a power of ten, so that the quarters of the axis are
/// short numbers.
fn round_up(max: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(max.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let share = steps
        .into_iter()
        .find(|step| max <= step * power * (1.0 + 1e-9));
    share.unwrap_or(10.0) * power
}

/// Formats a number with up to three decimals and without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let series = vec![Series {
            name: "a<b".into(),
            points,
        }];
        Chart {
            title: "t".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            series,
        }
    }

    #[test]
    fn the_largest_value_is_drawn_top_right() {
        let text = chart(vec![(0.0, 0.0), (10.0, 4.0)]).text(11, 5);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "       4 |          *");
        assert_eq!(lines[5], "       0 |*");
    }

    #[test]
    fn empty_and_nan_series_still_make_a_chart() {
        for points in [vec![], vec![(1.0, f64::NAN)], vec![(3.0, 0.0)]] {
            let chart = chart(points);
            assert!(chart.svg().ends_with("</svg>\n"));
            assert!(!chart.svg().contains("NaN"));
            assert!(chart.text(0, 0).contains("a<b"));
        }
    }

    #[test]
    fn svg_escapes_names() {
        assert!(chart(vec![(1.0, 2.0)]).svg().contains("a&lt;b"));
    }
}
