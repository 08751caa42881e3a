//! The HTML format of a report: a single file without scripts or external resources.
//!
//! You can read the page on a phone, in dark mode and on paper.

mod bars;
mod lines;

use std::fmt::Write;

use creel_console::machine::{View, WorkerPlacement};
use creel_topology::{Budget, Machine, Placement, place};

use super::quantity::{factor, heading, quantity, spread};
use super::view::{CaseView, SubjectView};
use super::{Report, Row, Section, findings, text};
use crate::host::shown;

const STYLE: &str = include_str!("style.css");

/// The number of cases of a workload whose bars are visible at once. The others are folded.
const OPEN: usize = 2;

/// The machine of which the page contains a drawing.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// The hardware.
    pub machine: &'a Machine,
    /// The part of the hardware that the process may use.
    pub budget: &'a Budget,
}

/// Returns the whole page.
pub fn page(report: &Report, drawing: &Drawing) -> String {
    let mut out = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Creel compared with other libraries on this machine</title>\n<style>\n",
    );
    out += STYLE;
    out += "</style>\n</head>\n<body>\n<header>\n\
            <h1>Creel compared with other libraries on this machine</h1>\n";
    summary(&mut out, report);
    out += "</header>\n<main>\n";
    machine(&mut out, report, drawing);
    for section in &report.sections {
        workload(&mut out, section);
    }
    out += HOW;
    out += "</main>\n</body>\n</html>\n";
    out
}

/// Adds the first finding of each workload, after a link to the plots of this workload. Also adds
/// the sentences about the whole report.
fn summary(out: &mut String, report: &Report) {
    let mut lines = findings::about(report).into_iter();
    if let Some(first) = lines.next() {
        put(out, "<p class=\"about\">", &first, "</p>\n");
    }
    out.push_str("<ul class=\"findings\">\n");
    for section in &report.sections {
        if let Some(finding) = findings::of(section).first() {
            let name = escaped(&section.workload);
            let _ = write!(out, "<li><a href=\"#{name}\">{name}</a> ");
            put(out, "", finding, "</li>\n");
        }
    }
    out.push_str("</ul>\n");
    for line in lines {
        put(out, "<p class=\"note\">", &line, "</p>\n");
    }
}

fn machine(out: &mut String, report: &Report, drawing: &Drawing) {
    let workers = report.sections.first().map_or(1, |section| section.workers);
    let Drawing { machine, budget } = *drawing;
    let layout = place(machine, machine.allowed(), workers, &Placement::Cores);
    let view = View {
        machine: machine.clone(),
        budget: budget.clone(),
        worker_placement: layout.ok().map(|layout| WorkerPlacement {
            placement: Placement::Cores,
            layout,
        }),
    };
    out.push_str(
        "<section>\n<h2 id=\"machine\">The machine</h2>\n<figure>\n\
         <div class=\"machine\" tabindex=\"0\" role=\"region\" \
         aria-label=\"The machine with its workers\">\n",
    );
    out.push_str(&view.svg());
    let _ = writeln!(
        out,
        "</div>\n<figcaption>A green badge is a worker of a pool that is pinned to cores. The \
         process may use {} workers. The limit is {}.</figcaption>\n</figure>",
        budget.workers(),
        escaped(&budget.bound_by().to_string())
    );
    let Some(section) = report.sections.first() else {
        return;
    };
    let host = &section.host;
    let memory = host.memory_bytes.map_or("unknown".into(), |bytes| {
        format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
    });
    let guest = if host.virtual_machine {
        ", virtual"
    } else {
        ""
    };
    let limits = &host.limits;
    let facts = [
        ("Processor", format!("{}{guest}", host.cpu)),
        ("Kernel", host.kernel.clone()),
        ("Governor", shown(&host.governor).into()),
        ("Turbo", shown(&host.turbo).into()),
        ("Memory", memory),
        (
            "Limits",
            format!(
                "{} open files, {} processes, stack {}, locked {}",
                limits.files, limits.processes, limits.stack, limits.locked
            ),
        ),
        ("Compiler", format!("{}, {}", host.compiler, host.target)),
        ("Commit", host.commit.clone()),
    ];
    out.push_str("<dl class=\"facts\">\n");
    for (name, value) in facts {
        let _ = writeln!(
            out,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escaped(&value)
        );
    }
    out.push_str("</dl>\n</section>\n");
}

fn workload(out: &mut String, section: &Section) {
    let name = escaped(&section.workload);
    let _ = writeln!(out, "<section>\n<h2 id=\"{name}\">{name}</h2>");
    for finding in findings::of(section) {
        put(out, "<p>", &finding, "</p>\n");
    }
    if let Some((rust, command)) = findings::settings(section) {
        out.push_str("<div class=\"settings\"><h3>Suitable settings</h3>\n");
        for code in [rust, command].iter().filter(|code| !code.is_empty()) {
            put(out, "<pre tabindex=\"0\"><code>", code, "</code></pre>\n");
        }
        out.push_str("</div>\n");
    }
    let cases = section.cases();
    lines::over_cases(out, &cases, &section.workload);
    for case in &cases {
        lines::over_a_sweep(out, case);
    }
    for case in cases.iter().take(OPEN) {
        bars::figure(out, case);
    }
    if cases.len() > OPEN {
        let _ = writeln!(out, "<details><summary>The other cases of {name}</summary>");
        for case in &cases[OPEN..] {
            bars::figure(out, case);
        }
        out.push_str("</details>\n");
    }
    let _ = writeln!(out, "<details><summary>All tables of {name}</summary>");
    for case in &cases {
        table(out, &section.workload, case);
    }
    out.push_str("</details>\n</section>\n");
}

fn table(out: &mut String, workload: &str, case: &CaseView) {
    let Some(first) = case.recommended() else {
        return;
    };
    let name = escaped(case.name);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}, {name}, all figures\">\
         <table><caption>{name}, {}</caption>\n<thead><tr><th scope=\"col\">subject</th>",
        escaped(workload),
        escaped(case.unit())
    );
    let head = |row: &Row| escaped(&heading(&row.metric, &row.unit));
    let mut columns = vec![head(first.first), "spread".into()];
    if case.is_compared {
        columns.extend(["÷ 1 thread", "÷ first", "verdict"].map(String::from));
    }
    let further = first.others.iter().chain(&first.costs);
    columns.extend(further.map(|row| head(row)));
    for column in columns {
        let _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for subject in &case.subjects {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(subject.name));
        for cell in cells(case, subject) {
            let _ = write!(out, "<td>{}</td>", escaped(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn cells(case: &CaseView, subject: &SubjectView) -> Vec<String> {
    let row = subject.first;
    let mut cells = vec![
        quantity(row.median, &row.unit),
        spread(row.min, row.median, row.max),
    ];
    if case.is_compared {
        for other in [case.one_thread_for(subject), case.recommended_for(subject)] {
            let ratio = other.and_then(|other| case.ratio(subject, other));
            cells.push(ratio.map_or(String::new(), |ratio| factor(ratio.factor())));
        }
        cells.push(text::verdict(case, subject));
    }
    let further = subject.others.iter().chain(&subject.costs);
    cells.extend(further.map(|row| quantity(row.median, &row.unit)));
    cells
}

const HOW: &str = "<section>\n<h2 id=\"how\">How we measure, and how to read the page</h2>\n\
<p>In each round, every subject gives one sample. A ratio divides two samples of the same round, \
because the speed of a machine drifts. For each sample, we create the subject, warm it up, measure \
it and end it.</p>\n\
<p>A bar is the median of the samples. The thin line across its end reaches from the smallest to \
the largest sample. A bar that ends in stripes is longer than the picture, so read its number \
instead. Creel's bars are blue, and the first bar is the recommended setting.</p>\n\
<p>The first subject is measured twice in each round. The difference between the two is noise. A \
subject is <em>faster</em> or <em>slower</em> only if the difference exceeds 5 %, and exceeds its \
95 % error and the noise together. It is <em>the same</em> if there is no such difference and we \
would have seen one of 15 %. Otherwise, the result is <em>inconclusive</em>. Subjects that were in \
doubt have twice as many samples.</p>\n\
<p>Do not compare the times of two runs by eye. <code>creel-bench --compare OLD.json</code> checks \
whether the two machines match, and then compares ratios.</p>\n</section>\n";

/// Adds `text` between two tags, and escapes the characters of `text` that have a meaning in HTML.
fn put(out: &mut String, before: &str, text: &str, after: &str) {
    out.push_str(before);
    out.push_str(&escaped(text));
    out.push_str(after);
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            // We keep line breaks, because a block of code has several lines. We replace other
            // control characters, because HTML does not allow most of them.
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{machine, section};

    #[test]
    fn the_page_needs_no_scripts_and_no_network() {
        let (machine, budget) = machine();
        let drawing = Drawing {
            machine: &machine,
            budget: &budget,
        };
        let mut section = section();
        section.host.cpu = "<b>X & Y</b>".into();
        let report = Report {
            sections: vec![section],
        };
        let page = page(&report, &drawing);
        for absent in [
            "<script", "src=", "url(", "@import", "<link", "<b>", "NaN", "\u{fffd}",
        ] {
            assert!(!page.contains(absent), "{absent}");
        }
        // The name of the SVG namespace looks like an address, but browsers load nothing from it.
        let others = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!others.contains("http"));
        assert!(page.contains("&lt;b&gt;X &amp; Y&lt;/b&gt;"));
        for tag in ["section", "details", "figure", "table", "ol", "svg", "div"] {
            let count = |what: String| page.matches(&what).count();
            let opened = count(format!("<{tag} ")) + count(format!("<{tag}>"));
            assert_eq!(opened, count(format!("</{tag}>")), "{tag}");
        }
    }
}
