//! The bars of a case: one per subject, with a line from the smallest to the largest sample.
//!
//! Only the bar is SVG, because it is stretched to the width of the page. The words are HTML, so
//! that letters have the usual size on a phone, too.

use std::fmt::Write;

use super::{escaped, quantity, spread};
use crate::harness::ONE_THREAD;
use crate::report::view::{CaseView, SubjectView, is_more_better};

/// If less is better, a bar that is longer than this many times the first one is cut off.
/// Otherwise, the other bars would be too short to compare.
const CUT: f64 = 5.0;

/// Adds the bars of a case to the page, unless the case has no subjects.
pub fn figure(out: &mut String, case: &CaseView) {
    let Some(first) = case.recommended() else {
        return;
    };
    let more = is_more_better(case.unit());
    let better = if more {
        "more is better"
    } else {
        "less is better"
    };
    let _ = writeln!(
        out,
        "<figure class=\"case\"><figcaption>{} <small>{}, {}; {better}</small></figcaption>\n\
         <ol class=\"bars\">",
        escaped(case.name),
        escaped(&first.first.metric),
        escaped(case.unit()),
    );
    let largest = case.subjects.iter().map(|s| s.first.max);
    let largest = largest.filter(|max| max.is_finite()).fold(0.0, f64::max);
    let cut = first.first.median * CUT;
    let full = if more || cut <= 0.0 {
        largest
    } else {
        largest.min(cut)
    };
    for subject in &case.subjects {
        bar(out, subject, full);
    }
    out.push_str("</ol></figure>\n");
}

fn bar(out: &mut String, subject: &SubjectView, full: f64) {
    let row = subject.first;
    let kind = if subject.name.starts_with("creel") {
        "creel"
    } else if subject.name == ONE_THREAD {
        "one"
    } else {
        "peer"
    };
    let share = |value: f64| {
        let share = value / full * 100.0;
        if share.is_finite() {
            share.clamp(0.0, 100.0)
        } else {
            0.0
        }
    };
    let (low, middle, high) = (share(row.min), share(row.median), share(row.max));
    let _ = write!(
        out,
        "<li class=\"{kind}\"><span class=\"who\">{}</span>\
         <svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"bar\" y=\"1\" height=\"8\" width=\"{middle:.2}\"/>",
        escaped(subject.name)
    );
    if row.median > full * 1.001 {
        out.push_str("<path class=\"cut\" d=\"M94 1h1v8h-1zM96 1h1v8h-1zM98 1h1v8h-1z\"/>");
    } else {
        let _ = write!(
            out,
            "<path class=\"reach\" d=\"M{low:.2} 5H{high:.2}\" \
             vector-effect=\"non-scaling-stroke\"/>"
        );
    }
    let _ = writeln!(
        out,
        "</svg><span class=\"what\">{} <small>{}</small></span></li>",
        escaped(&quantity(row.median, &row.unit)),
        escaped(&spread(row.min, row.median, row.max))
    );
}
