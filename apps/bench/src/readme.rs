//! The README's table and plot, made of the newest record, so that every figure there has a command
//! and a commit.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use creel_console::{AtomicFile, Exit, Failure, output};

use crate::harness::ONE_THREAD;
use crate::report::findings::{best_peer, disturbance};
use crate::report::{CaseView, Report, Section, SubjectView, factor, quantity};
use creel_stats::{Estimate, Verdict};

/// Around what is generated.
const BEGIN: &str = "<!-- creel-bench --readme: begin -->";
const END: &str = "<!-- creel-bench --readme: end -->";
/// Beside the README.
const RECORDS: &str = "benches/runs";
/// The plot's file, beside the README.
const PLOT: &str = "docs/benchmarks.svg";

/// Beside Creel: the best of all that are not Creel's.
const BEST: &str = "*";

/// The plot's colours, by day and in the dark; a picture in a page obeys its reader's, too.
const STYLE: &str = ".page{fill:#fff}text{fill:#1c2026}.soft{fill:#545b66}.grid{stroke:#d5d9df}\
    .one{stroke:#1c2026}.better{fill:#1673b8;stroke:#1673b8}.worse{fill:#b26a00;stroke:#b26a00}\
    .alike{fill:#7a828e;stroke:#7a828e}@media(prefers-color-scheme:dark){.page{fill:#14171b}\
    text{fill:#e6e9ee}.soft{fill:#a8b0bc}.grid{stroke:#39404a}.one{stroke:#e6e9ee}\
    .better{fill:#4ba3e3;stroke:#4ba3e3}.worse{fill:#d6963a;stroke:#d6963a}\
    .alike{fill:#8b94a1;stroke:#8b94a1}}";

/// What the README shows: a workload, a case, the beginning of Creel's subject, those beside it, and
/// what it is in words. `NAME*` is the best of those whose names begin so.
const SHOWN: &[(&str, &str, &str, &[&str], &str)] = &[
    (
        "loops",
        "hot",
        "creel [sticky",
        &[ONE_THREAD, "rayon*", BEST],
        "100,000 items, call after call",
    ),
    (
        "loops",
        "frame",
        "creel [sticky",
        &[ONE_THREAD, "rayon*", BEST],
        "a frame of 200 µs each millisecond",
    ),
    (
        "decode",
        "q8 1024",
        "creel",
        &[ONE_THREAD, "rayon*", BEST],
        "144 small products a token",
    ),
    (
        "render",
        "jobs {n}",
        "creel [shared",
        &[ONE_THREAD, "rayon"],
        "songs, one a job",
    ),
    (
        "messages",
        "chain",
        "creel {n} workers",
        &["tokio*", "go*"],
        "a chain of 100,001 tasks",
    ),
    (
        "streams",
        "4000",
        "creel [in place, 20 ms]",
        &["tokio*"],
        "4,000 timed streams",
    ),
    (
        "serve",
        "50",
        "creel",
        &["tokio {n} workers", "tokio {n} workers, time-outs"],
        "HTTP, 50 connections",
    ),
    (
        "serve",
        "10000 idle",
        "creel",
        &["creel {n} workers, bare", "tokio {n} workers"],
        "HTTP, 10,000 idle connections",
    ),
    (
        "traffic",
        "run",
        "creel",
        &[ONE_THREAD, "rayon*"],
        "a city's cars",
    ),
    (
        "sizing",
        "OpenMP in lock-step",
        "creel run",
        &["as it is*"],
        "OpenMP told of 4 × the CPUs, sized",
    ),
    (
        "sizing",
        "OpenMP in lock-step quota",
        "creel run",
        &["as it is*"],
        "OpenMP under a quota, sized",
    ),
    (
        "sizing",
        "Haskell quota",
        "creel run",
        &["as it is*"],
        "a Haskell program under a quota, sized",
    ),
];

/// A line of the table.
struct Line {
    about: String,
    command: String,
    ours: String,
    others: Vec<Comparand>,
}

/// One beside Creel.
struct Comparand {
    name: String,
    figure: String,
    /// How many times better Creel is.
    better: Estimate,
    /// What is called of that.
    verdict: Verdict,
}

/// Writes the newest record's table into a README, and its plot beside it.
///
/// # Errors
///
/// No place for it in the README, or the file system's.
pub fn write(readme: &Path) -> anyhow::Result<Exit> {
    let Some((text, plot)) = generated(readme)? else {
        output::note("creel-bench: no record yet, nothing to write\n");
        return Ok(Exit::Done);
    };
    AtomicFile::write(&sibling(readme, PLOT), plot.as_bytes())?;
    AtomicFile::write(readme, text.as_bytes())?;
    Ok(Exit::Done)
}

/// Whether [`write`] would change anything.
///
/// # Errors
///
/// As [`write`]'s.
pub fn check(readme: &Path) -> anyhow::Result<Exit> {
    let Some((text, plot)) = generated(readme)? else {
        output::text("no record yet, nothing to check\n")?;
        return Ok(Exit::Done);
    };
    let same = |file: &Path, text: &str| fs::read_to_string(file).is_ok_and(|there| there == text);
    let differs = |name: &str| {
        let message = format!(
            "creel-bench: {name} is not what the newest record says: creel-bench --readme {}\n",
            readme.display()
        );
        output::note(&message);
        Exit::SomeFailed
    };
    if !same(readme, &text) {
        return Ok(differs(&readme.display().to_string()));
    }
    if !same(&sibling(readme, PLOT), &plot) {
        return Ok(differs(PLOT));
    }
    output::text("as the newest record says\n")?;
    Ok(Exit::Done)
}

fn sibling(readme: &Path, name: &str) -> PathBuf {
    readme.parent().unwrap_or(Path::new("")).join(name)
}

/// The README and the plot as they should be; nothing without a record.
fn generated(readme: &Path) -> anyhow::Result<Option<(String, String)>> {
    let Some(record) = newest(&sibling(readme, RECORDS))? else {
        return Ok(None);
    };
    let report = Report::read(&record.join("report.json"))?;
    let bad = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::BadData, format!("{}: {error}", readme.display()))
    };
    let text = fs::read_to_string(readme).map_err(|error| bad(&error))?;
    let places = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = places.ok_or_else(|| bad(&format!("no {BEGIN} … {END}")))?;
    if let Some(section) = report.sections.iter().find(|section| section.quick) {
        let message = format!(
            "{}: {} was a quick look, which is no record",
            record.display(),
            section.workload
        );
        return Err(Failure::new(Exit::BadData, message).into());
    }
    let lines = lines(&report);
    ensure!(
        !lines.is_empty(),
        "{}: no figures to show",
        record.display()
    );
    let name = record.file_name().unwrap_or_default().to_string_lossy();
    let table = table(&report, &lines, &name);
    Ok(Some((
        format!("{before}{BEGIN}\n{table}{END}{after}"),
        plot(&lines),
    )))
}

/// The last folder by name, which begins with its date, that has figures.
fn newest(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(None);
    };
    let mut newest = None;
    for entry in entries {
        let path = entry?.path();
        if path.join("report.json").is_file() && newest.as_ref() < Some(&path) {
            newest = Some(path);
        }
    }
    Ok(newest)
}

fn lines(report: &Report) -> Vec<Line> {
    let shown = SHOWN.iter();
    let line = |&(workload, case, subject, others, about): &_| {
        let section = report.section(workload);
        let line = section.and_then(|section| line(section, (case, subject, others, about)));
        if line.is_none() {
            output::note(&format!(
                "creel-bench: the record has no {workload}, {case}: {subject} beside {}\n",
                others.join(", ")
            ));
        }
        line
    };
    shown.filter_map(line).collect()
}

fn line(
    section: &Section,
    (case, subject, others, about): (&str, &str, &[&str], &str),
) -> Option<Line> {
    let fill = |text: &str| text.replace("{n}", &section.workers.to_string());
    let case = section.case(&fill(case))?;
    let ours = case.subject(&fill(subject))?;
    let other = |name: &&str| comparand(&case, ours, &fill(name));
    let mut others: Vec<_> = others.iter().filter_map(other).collect();
    // The best of all may be one that is there already.
    others.dedup_by(|b, a| a.name == b.name);
    (!others.is_empty()).then(|| Line {
        about: about.into(),
        command: format!(
            "creel-bench {} --case {}",
            section.workload,
            quoted(case.name)
        ),
        ours: quantity(ours.first.median, &ours.first.unit) + &shown_unit(&ours.first.unit),
        others,
    })
}

fn comparand(case: &CaseView, ours: &SubjectView, name: &str) -> Option<Comparand> {
    let other = match name.strip_suffix('*') {
        Some("") => best_peer(case)?,
        Some(begin) => case.best(|name| name.starts_with(begin))?,
        None => case.subjects.iter().find(|subject| subject.name == name)?,
    };
    let better = case.better(ours, other)?;
    Some(Comparand {
        name: other.name.into(),
        figure: quantity(other.first.median, &other.first.unit),
        verdict: case.verdict(&better),
        better,
    })
}

/// Speeds need their unit; times and sizes have it.
fn shown_unit(unit: &str) -> String {
    if unit.ends_with("/s") {
        format!(" {unit}")
    } else {
        String::new()
    }
}

/// A word of a command as a shell takes it.
pub fn quoted(name: &str) -> String {
    if name.contains(' ') {
        format!("\"{name}\"")
    } else {
        name.into()
    }
}

fn table(report: &Report, lines: &[Line], record: &str) -> String {
    let mut out = format!("![How many times better than what is beside it]({PLOT})\n\n");
    out += "| | command | Creel | beside it | Creel is |\n|---|---|--:|---|--:|\n";
    for line in lines {
        let Line {
            about,
            command,
            ours,
            others,
        } = line;
        let named = others
            .iter()
            .map(|Comparand { name, figure, .. }| format!("{name} {figure}"));
        let named: Vec<String> = named.collect();
        let factors = others.iter().map(|Comparand { better, .. }| {
            let (from, to) = better.interval();
            let [better, from, to] = [better.factor(), from, to].map(factor);
            format!("{better} × ({from}–{to})")
        });
        let factors: Vec<String> = factors.collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {about} | `{command}` | {ours} | {} | {} |",
            named.join(", "),
            factors.join(", ")
        );
    }
    if let Some(section) = report.sections.first() {
        let host = &section.host;
        let _ = writeln!(
            out,
            "\nMedians of interleaved rounds on {} ({} workers, {}, commit {}): \
             [benches/runs/{record}](benches/runs/{record}). How many times better is of samples of \
             the same round, not of the medians; in brackets its 95 % interval within this run; runs of other \
             hours differ by more, up to 1.5 × where memory decides. In the plot a difference is blue or orange where it is beyond 5 % and beyond that error and the \
             case's noise. Beside Creel is each library's best subject. The commands are \
             those of `cargo run --release -p creel-bench -- …`. {}",
            host.cpu,
            section.workers,
            host.date,
            report.commits(),
            disturbance(report).unwrap_or_default()
        );
    }
    out
}

/// How many times better Creel is than each beside it: a dot and its interval on a logarithmic axis,
/// where twice as good and half as good are equally far from the line of one.
fn plot(lines: &[Line]) -> String {
    const ROW: f64 = 24.0;
    const TOP: f64 = 34.0;
    const BOTTOM: f64 = 30.0;
    const LEFT: f64 = 410.0;
    const RIGHT: f64 = 30.0;
    const WIDTH: f64 = 800.0;
    let dots = lines.iter().flat_map(|line| {
        let name = move |sibling: &'_ Comparand| format!("{} — {}", line.about, sibling.name);
        line.others
            .iter()
            .map(move |sibling| (name(sibling), sibling))
    });
    let dots: Vec<_> = dots.collect();
    let factors = || dots.iter().map(|(_, sibling)| sibling.better.factor());
    let (largest, least) = (factors().fold(2.0, f64::max), factors().fold(1.0, f64::min));
    let (low, high) = (least.log2().floor(), largest.log2().ceil());
    let across = |factor: f64| {
        let share = (factor.log2().clamp(low, high) - low) / (high - low);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let height = TOP + BOTTOM + ROW * dots.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>How many times better Creel is than what is beside it</title>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-weight=\"bold\">Creel is so many times better than …</text>\n\
         <text class=\"soft\" x=\"{}\" y=\"18\" text-anchor=\"end\">grey: no difference told</text>\n",
        LEFT - 12.0
    );
    // Writing to a String cannot fail.
    let mut step = low;
    while step <= high {
        let x = across(step.exp2());
        let (class, bottom) = (if step == 0.0 { "one" } else { "grid" }, height - BOTTOM);
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/>\
             <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 10.0,
            step.exp2()
        );
        step += 1.0;
    }
    for (
        index,
        (
            name,
            Comparand {
                better, verdict, ..
            },
        ),
    ) in dots.iter().enumerate()
    {
        let y = TOP + ROW * (index as f64 + 0.5);
        // The line is the 95 % interval.
        let (x, (from, to)) = (across(better.factor()), better.interval());
        let class = match verdict {
            Verdict::More => "better",
            Verdict::Less => "worse",
            Verdict::Same => "alike",
        };
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <path class=\"{class}\" d=\"M{:.1} {y:.1}H{:.1}\" stroke-width=\"2\"/>\
             <circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            LEFT - 12.0,
            y + 4.5,
            name.replace('&', "&amp;").replace('<', "&lt;"),
            across(from),
            across(to)
        );
    }
    out += "</svg>\n";
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{machine, with_creel_at};

    #[test]
    fn the_newest_record_is_written_between_the_marks() {
        let folder = std::env::temp_dir().join(format!("creel-readme-{}", std::process::id()));
        let records = folder.join(RECORDS);
        fs::create_dir_all(folder.join("docs")).unwrap();
        let readme = folder.join("README.md");
        fs::write(&readme, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        assert_eq!(
            check(&readme).unwrap(),
            Exit::Done,
            "no record, nothing to check"
        );
        let (machine, budget) = machine();
        for (name, time) in [("2026-01-02-b", 50.0), ("2026-01-01-z", 90.0)] {
            let record = records.join(name);
            fs::create_dir_all(&record).unwrap();
            let report = Report {
                sections: vec![with_creel_at(time, 3)],
            };
            report
                .write(&record.join("report.json"), &machine, &budget)
                .unwrap();
        }
        assert_eq!(check(&readme).unwrap(), Exit::SomeFailed);
        assert_eq!(write(&readme).unwrap(), Exit::Done);
        assert_eq!(check(&readme).unwrap(), Exit::Done);
        let text = fs::read_to_string(&readme).unwrap();
        assert!(
            text.starts_with("before\n") && text.ends_with("\nafter\n"),
            "{text}"
        );
        assert!(text.contains("`creel-bench loops --case hot`"), "{text}");
        assert!(text.contains("benches/runs/2026-01-02-b"), "{text}");
        assert!(!text.contains("\nold\n"));
        fs::write(folder.join(PLOT), "another").unwrap();
        assert_eq!(check(&readme).unwrap(), Exit::SomeFailed);
        fs::write(&readme, "no marks").unwrap();
        assert!(write(&readme).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
