//! Curves: a metric over cases whose names are numbers, or over the values of a sweep.
//!
//! The picture is small and its letters are large, so that you can read them on a phone. The legend
//! is HTML.

use std::fmt::Write;

use super::escaped;
use crate::report::view::CaseView;
use crate::sweep::Point;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// The largest number of curves in a picture. More of them would be hard to distinguish.
const CURVES: usize = 8;
/// The largest number of pictures of a workload. A page with more of them would be tedious to read.
const PICTURES: usize = 4;

/// A named curve. A point consists of its x, and of the smallest, the middle and the largest y of
/// the samples.
struct Curve<'a> {
    name: &'a str,
    points: Vec<(f64, [f64; 3])>,
}

/// Adds one picture for each of the first [`PICTURES`] metrics over the cases whose names are
/// numbers, if there are at least two such cases.
pub fn over_cases(out: &mut String, cases: &[CaseView], x_label: &str) {
    let numbers = cases
        .iter()
        .filter_map(|case| Some((case.name.parse().ok()?, case)));
    let numbers: Vec<(f64, &CaseView)> = numbers.collect();
    let Some((_, first)) = numbers.first().filter(|_| numbers.len() > 1) else {
        return;
    };
    let Some(leader) = first.recommended() else {
        return;
    };
    let metrics = std::iter::once(&leader.first).chain(&leader.others);
    for (index, metric) in metrics.take(PICTURES).enumerate() {
        let curve = |name| {
            let point = |&(x, case): &(f64, &CaseView)| {
                let subject = case.subjects.iter().find(|subject| subject.name == name)?;
                let mut rows = std::iter::once(&subject.first).chain(&subject.others);
                let row = rows.nth(index)?;
                Some((x, [row.min, row.median, row.max]))
            };
            let points = numbers.iter().filter_map(point).collect();
            Curve { name, points }
        };
        let curves: Vec<Curve> = first.subjects.iter().map(|s| curve(s.name)).collect();
        let title = format!("{}, {}", metric.metric, metric.unit);
        picture(out, &title, x_label, &curves);
    }
}

/// Adds the picture of a sweep, if the case belongs to one.
pub fn over_a_sweep(out: &mut String, case: &CaseView) {
    let mut curves: Vec<Curve> = Vec::new();
    let mut what = "";
    for subject in &case.subjects {
        let Some(Point { name, key, value }) = Point::of(subject.name) else {
            continue;
        };
        what = key;
        let row = subject.first;
        let point = (value, [row.min, row.median, row.max]);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name,
                points: vec![point],
            }),
        }
    }
    if curves.iter().any(|curve| curve.points.len() > 1) {
        let title = format!("{}: {}", case.name, case.unit());
        picture(out, &title, what, &curves);
    }
}

fn picture(out: &mut String, title: &str, x_label: &str, curves: &[Curve]) {
    let (curves, left_out) = curves.split_at(curves.len().min(CURVES));
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let xs = || points().map(|(x, _)| *x);
    let (x_min, x_max) = (xs().fold(f64::MAX, f64::min), xs().fold(0.0, f64::max));
    let ys = points().flat_map(|(_, ys)| ys).copied();
    let y_max = ys.filter(|y| y.is_finite()).fold(0.0, f64::max);
    if !(x_max > x_min && y_max > 0.0) {
        return;
    }
    // If all x are positive and the largest one is more than 20 times the smallest one, the x axis
    // is logarithmic. On a linear axis, the points of small values would lie on top of each other.
    let decades = x_min > 0.0 && x_max / x_min > 20.0;
    let place = |x: f64| if decades { x.ln() } else { x };
    let across = |x: f64| {
        let share = (place(x) - place(x_min)) / (place(x_max) - place(x_min));
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let up = |y: f64| HEIGHT - BOTTOM - (y / y_max).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
    let _ = write!(
        out,
        "<figure class=\"lines\"><figcaption>{}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}, over {}\">\n",
        escaped(title),
        escaped(title),
        escaped(x_label)
    );
    for step in 0..=4 {
        let y = y_max * f64::from(step) / 4.0;
        let at = up(y);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            at + 4.0,
            number(y)
        );
    }
    let mut ticks: Vec<f64> = xs().collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let mut last = f64::MIN;
    for x in ticks {
        let at = across(x);
        if at - last > 40.0 {
            let _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM + 15.0,
                number(x)
            );
            last = at;
        }
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 4.0,
        escaped(x_label)
    );
    for (index, curve) in curves.iter().enumerate() {
        let mut path = String::new();
        for (x, [low, middle, high]) in &curve.points {
            if !middle.is_finite() {
                continue;
            }
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", across(*x), up(*middle));
            let _ = writeln!(
                out,
                "<path class=\"c{index} reach\" d=\"M{x:.1} {:.1}V{:.1}\"/>\
                 <circle class=\"c{index}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                up(*low),
                up(*high),
                up(*middle),
                x = across(*x),
            );
        }
        let _ = writeln!(out, "<path class=\"c{index} curve\" d=\"{path}\"/>");
    }
    out.push_str("</svg>\n<ul class=\"legend\">\n");
    for (index, curve) in curves.iter().enumerate() {
        let _ = writeln!(
            out,
            "<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\">\
             <path class=\"c{index} curve\" d=\"M0 5H24\"/></svg> {}</li>",
            escaped(curve.name)
        );
    }
    out.push_str("</ul>\n");
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|curve| curve.name).collect();
        let _ = writeln!(
            out,
            "<p>Not drawn, but in the table: {}.</p>",
            escaped(&names.join(", "))
        );
    }
    out.push_str("</figure>\n");
}

/// Formats a number on an axis, with at most four digits. A prefix such as k stands for the rest.
fn number(value: f64) -> String {
    let (value, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = match value {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 1.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{prefix}")
}
