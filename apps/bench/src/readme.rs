//! The generated parts of the documentation: the README's short table, the full table in
//! docs/benchmarks.md, and the plot.
//!
//! All of them are made from the newest record in benches/runs. This is why each figure has a
//! command that repeats it and a commit that it was measured with. A test checks that the files
//! match the record, so we never edit them by hand.

use std::fmt::{Display, Write};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use creel_console::{AtomicFile, Exit, Failure, output};

use crate::harness::ONE_THREAD;
use crate::report::findings::{best_peer, disturbance};
use crate::report::{CaseView, Report, Section, SubjectView, factor, quantity};
use creel_stats::{Estimate, Verdict};

/// The line that marks the begin of the generated part of a file.
const BEGIN: &str = "<!-- creel-bench --readme: begin -->";
/// The line that marks the end of the generated part of a file.
const END: &str = "<!-- creel-bench --readme: end -->";
/// The folder of the records, relative to the README's folder.
const RECORDS: &str = "benches/runs";
/// The page with the full table, relative to the README's folder.
const PAGE: &str = "docs/benchmarks.md";
/// The file of the plot, relative to the README's folder.
const PLOT: &str = "docs/benchmarks.svg";

/// The metric of timed streams that the tables show next to the CPU time.
const LATENESS: &str = "lateness p99";

/// A peer with this name stands for the best subject of the case among those that [`NOT_IN_README`]
/// does not exclude.
const BEST: &str = "*";

/// Beginnings of the names of subjects that the README does not compare with.
///
/// Apart from Creel and one thread, these are loops that we wrote by hand for a single case. They
/// show what the machine can do, but you cannot use them in a program. The full table has them.
const NOT_IN_README: [&str; 5] = [
    "creel",
    ONE_THREAD,
    "two-halves floor",
    "article's spin pool",
    "bare wheel",
];

/// The colours of the plot, for light and for dark pages.
const STYLE: &str = ".page{fill:#fff}text{fill:#1c2026}.soft{fill:#545b66}.grid{stroke:#d5d9df}\
    .one{stroke:#1c2026}.better{fill:#1673b8;stroke:#1673b8}.worse{fill:#b26a00;stroke:#b26a00}\
    .alike{fill:#7a828e;stroke:#7a828e}@media(prefers-color-scheme:dark){.page{fill:#14171b}\
    text{fill:#e6e9ee}.soft{fill:#a8b0bc}.grid{stroke:#39404a}.one{stroke:#e6e9ee}\
    .better{fill:#4ba3e3;stroke:#4ba3e3}.worse{fill:#d6963a;stroke:#d6963a}\
    .alike{fill:#8b94a1;stroke:#8b94a1}}";

/// The description of a row. It says where in the record the figures of the row are, and which
/// labels it has in the full table and in the README.
struct Shown {
    workload: &'static str,
    /// The name of the case. `{n}` stands for the number of workers.
    case: &'static str,
    /// The beginning of the name of Creel's subject. `{n}` stands for the number of workers.
    subject: &'static str,
    /// The peers in the full table. `NAME*` stands for the best subject whose name begins with
    /// `NAME`, and [`BEST`] for the best peer of all.
    peers: &'static [&'static str],
    /// The label of the row in the full table.
    about: &'static str,
    /// The label of the row in the README, if the README has the row.
    in_readme: Option<&'static str>,
}

const SHOWN: &[Shown] = &[
    Shown {
        workload: "loops",
        case: "hot",
        subject: "creel [sticky",
        peers: &[ONE_THREAD, "rayon*", BEST],
        about: "100,000 items, call after call",
        in_readme: Some("a loop over 100,000 items, called repeatedly"),
    },
    Shown {
        workload: "loops",
        case: "frame",
        subject: "creel [sticky",
        peers: &[ONE_THREAD, "rayon*", BEST],
        about: "a frame of 200 µs each millisecond",
        in_readme: Some("a 200 µs frame, once per millisecond"),
    },
    Shown {
        workload: "decode",
        case: "q8 1024",
        subject: "creel",
        peers: &[ONE_THREAD, "rayon*", BEST],
        about: "144 small products per token",
        in_readme: None,
    },
    Shown {
        workload: "render",
        case: "jobs {n}",
        subject: "creel [shared",
        peers: &[ONE_THREAD, "rayon"],
        about: "songs, one per job",
        in_readme: None,
    },
    Shown {
        workload: "messages",
        case: "chain",
        subject: "creel {n} workers",
        peers: &["tokio*", "smol*", "go*"],
        about: "a chain of 100,001 tasks",
        in_readme: Some("a chain of 100,001 tasks"),
    },
    // Creel's worker wakes up every 2 ms here. The subjects that wake up every 20 ms need less CPU
    // time, but we do not compare them with tokio, because tokio's timers are finer.
    Shown {
        workload: "streams",
        case: "4000",
        subject: "creel [in place, 2 ms]",
        peers: &["tokio*"],
        about: "4,000 timed streams",
        in_readme: Some("4,000 timed streams, CPU time per buffer"),
    },
    Shown {
        workload: "serve",
        case: "50",
        subject: "creel",
        peers: &["tokio {n} workers", "tokio {n} workers, time-outs"],
        about: "HTTP, 50 connections",
        in_readme: Some("HTTP, 50 connections"),
    },
    Shown {
        workload: "serve",
        case: "10000 idle",
        subject: "creel",
        peers: &["creel {n} workers, bare", "tokio {n} workers"],
        about: "HTTP, 10,000 idle connections",
        in_readme: None,
    },
    Shown {
        workload: "traffic",
        case: "run",
        subject: "creel",
        peers: &[ONE_THREAD, "rayon*"],
        about: "a city's cars",
        in_readme: Some("a simulation of a city's cars"),
    },
    Shown {
        workload: "sizing",
        case: "OpenMP in lock-step",
        subject: "creel run",
        peers: &["as it is*"],
        about: "OpenMP that sets 4 threads per core itself, sized",
        in_readme: None,
    },
    Shown {
        workload: "sizing",
        case: "OpenMP in lock-step quota",
        subject: "creel run",
        peers: &["as it is*"],
        about: "OpenMP with one thread per PU, under a quota, sized",
        in_readme: None,
    },
    Shown {
        workload: "sizing",
        case: "Haskell quota",
        subject: "creel run",
        peers: &["as it is*"],
        about: "Haskell with one thread per PU, under a quota, sized",
        in_readme: None,
    },
];

/// A row of the full table with its figures from the record.
struct Line {
    about: &'static str,
    command: String,
    ours: String,
    peers: Vec<Peer>,
    /// The label and the best peer of the row in the README, if the README has the row.
    in_readme: Option<(&'static str, String)>,
}

/// A peer in a row of the table, with its ratio to Creel.
struct Peer {
    name: String,
    figure: String,
    /// How many times better Creel is than this peer, with the 95 % interval.
    better: Estimate,
    /// The verdict on this ratio: whether Creel is faster, slower or neither.
    verdict: Verdict,
}

/// A file with a generated part, and the text that the file should have.
struct Generated {
    path: PathBuf,
    text: String,
}

/// Writes the newest record's tables into a README and into docs/benchmarks.md next to it, and
/// draws the plot. Without a record, it writes nothing.
///
/// # Errors
///
/// Returns an error if one of the two files has no place for its table, if the record cannot be
/// used, or if a file cannot be read or written.
pub fn write(readme: &Path) -> anyhow::Result<Exit> {
    let Some(files) = generated(readme)? else {
        output::note("creel-bench: there is no record yet, so there is nothing to write\n");
        return Ok(Exit::Done);
    };
    for Generated { path, text } in &files {
        AtomicFile::write(path, text.as_bytes())?;
    }
    Ok(Exit::Done)
}

/// Checks whether [`write`] would change a file. Returns [`Exit::SomeFailed`] if it would.
///
/// # Errors
///
/// Returns the same errors as [`write`], except those of writing.
pub fn check(readme: &Path) -> anyhow::Result<Exit> {
    let Some(files) = generated(readme)? else {
        output::text("there is no record yet, so there is nothing to check\n")?;
        return Ok(Exit::Done);
    };
    for Generated { path, text } in &files {
        if !fs::read_to_string(path).is_ok_and(|present| present == *text) {
            output::note(&format!(
                "creel-bench: {} does not match the newest record: run creel-bench --readme {}\n",
                path.display(),
                readme.display()
            ));
            return Ok(Exit::SomeFailed);
        }
    }
    output::text("the tables and the plot match the newest record\n")?;
    Ok(Exit::Done)
}

fn sibling(readme: &Path, name: &str) -> PathBuf {
    readme.parent().unwrap_or(Path::new("")).join(name)
}

/// Returns the contents that the files should have, or `None` without a record.
fn generated(readme: &Path) -> anyhow::Result<Option<[Generated; 3]>> {
    let Some(record) = newest(&sibling(readme, RECORDS))? else {
        return Ok(None);
    };
    let report = Report::read(&record.join("report.json"))?;
    if let Some(section) = report.sections.iter().find(|section| section.quick) {
        let message = format!(
            "cannot use {} as a record: its {} is from a run with --quick. Make a record with \
             --full --record DIR",
            record.display(),
            section.workload
        );
        return Err(Failure::new(Exit::BadData, message).into());
    }
    let lines = lines(&report);
    ensure!(
        !lines.is_empty(),
        "cannot use {} as a record: it has none of the results that the tables show. Make a record \
         with --full --record DIR",
        record.display()
    );
    let name = record.file_name().unwrap_or_default().to_string_lossy();
    let page = sibling(readme, PAGE);
    Ok(Some([
        Generated {
            text: between_the_marks(readme, &short_table(&report, &lines))?,
            path: readme.to_owned(),
        },
        Generated {
            text: between_the_marks(&page, &full_table(&report, &lines, &name))?,
            path: page,
        },
        Generated {
            path: sibling(readme, PLOT),
            text: plot(&lines),
        },
    ]))
}

/// Returns the text of a file with the generated part replaced.
fn between_the_marks(file: &Path, part: &str) -> anyhow::Result<String> {
    let bad = |error: &dyn Display| {
        let message = format!("cannot put a table into {}: {error}", file.display());
        Failure::new(Exit::BadData, message)
    };
    let text = fs::read_to_string(file).map_err(|error| bad(&error))?;
    let places = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = places.ok_or_else(|| {
        bad(&format!(
            "the file needs a line `{BEGIN}`, and after it a line `{END}`"
        ))
    })?;
    Ok(format!("{before}{BEGIN}\n{part}{END}{after}"))
}

/// Returns the newest record, which is the last one by name, because names begin with the date.
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
    let line = |shown: &Shown| {
        let section = report.section(shown.workload);
        let line = section.and_then(|section| line(section, shown));
        if line.is_none() {
            output::note(&format!(
                "creel-bench: left out {}: the record has no {} in case {} of {}, or none of its \
                 peers: {}\n",
                shown.about,
                shown.subject,
                shown.case,
                shown.workload,
                shown.peers.join(", ")
            ));
        }
        line
    };
    SHOWN.iter().filter_map(line).collect()
}

fn line(section: &Section, shown: &Shown) -> Option<Line> {
    let fill = |text: &str| text.replace("{n}", &section.workers.to_string());
    let case = section.case(&fill(shown.case))?;
    let ours = case.subject(&fill(shown.subject))?;
    let peer = |name: &&str| peer(&case, ours, &fill(name));
    let mut peers: Vec<_> = shown.peers.iter().filter_map(peer).collect();
    // The best of all subjects may be one of the named peers. The table must show it only once.
    peers.dedup_by(|b, a| a.name == b.name);
    let in_readme = shown.in_readme.and_then(|label| {
        let best = case.best(|name| NOT_IN_README.iter().all(|none| !name.starts_with(none)))?;
        Some((label, format!("{} ({})", figure(best), best.name)))
    });
    (!peers.is_empty()).then(|| Line {
        about: shown.about,
        command: format!(
            "creel-bench {} --case {}",
            section.workload,
            quoted(case.name)
        ),
        ours: figure(ours),
        peers,
        in_readme,
    })
}

fn peer(case: &CaseView, ours: &SubjectView, name: &str) -> Option<Peer> {
    let peer = match name.strip_suffix('*') {
        Some("") => best_peer(case)?,
        Some(begin) => case.best(|name| name.starts_with(begin))?,
        None => case.subjects.iter().find(|subject| subject.name == name)?,
    };
    let better = case.better(ours, peer)?;
    Some(Peer {
        name: peer.name.into(),
        figure: with_lateness(peer, quantity(peer.first.median, &peer.first.unit)),
        verdict: case.verdict(&better),
        better,
    })
}

/// Returns a subject's median with its unit.
fn figure(subject: &SubjectView) -> String {
    let unit = &subject.first.unit;
    let figure = quantity(subject.first.median, unit);
    // `quantity` prints the units of times and sizes, but not those of speeds, so we add them here.
    let figure = if unit.ends_with("/s") {
        format!("{figure} {unit}")
    } else {
        figure
    };
    with_lateness(subject, figure)
}

/// Adds the lateness to the figure of a timed stream, because a subject that may be later needs less
/// CPU time.
fn with_lateness(subject: &SubjectView, figure: String) -> String {
    match subject.others.iter().find(|row| row.metric == LATENESS) {
        Some(row) => format!("{figure}, {} late", quantity(row.median, &row.unit)),
        None => figure,
    }
}

/// Returns a word of a command line. Puts it into double quotes if it contains a space, because the
/// shell would otherwise split it.
pub fn quoted(name: &str) -> String {
    if name.contains(' ') {
        format!("\"{name}\"")
    } else {
        name.into()
    }
}

/// Returns the README's table: for each row, Creel and the best peer.
fn short_table(report: &Report, lines: &[Line]) -> String {
    let mut out = String::from("| what | Creel | best peer | command |\n|---|--:|--:|---|\n");
    for line in lines {
        if let Some((label, best)) = &line.in_readme {
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "| {label} | {} | {best} | `{}` |",
                line.ours, line.command
            );
        }
    }
    if let Some(section) = report.sections.first() {
        let _ = writeln!(
            out,
            "\nThese are medians on {} with {} workers, measured on {}. [{PAGE}]({PAGE}) explains \
             the rows and has the full tables with confidence intervals, and [{RECORDS}]({RECORDS}) has the records.",
            section.host.cpu, section.workers, section.host.date,
        );
    }
    out
}

/// Returns the table of docs/benchmarks.md: for each row, Creel, its peers and the ratios.
fn full_table(report: &Report, lines: &[Line], record: &str) -> String {
    // Links in Markdown are relative to the folder of the page, so we remove the folder from the
    // path of the plot.
    let plot = PLOT.rsplit('/').next().unwrap_or(PLOT);
    let mut out = format!("![How many times better Creel is than each peer]({plot})\n\n");
    out += "| what | command | Creel | peers | Creel is better by |\n|---|---|--:|---|--:|\n";
    for line in lines {
        let named = line
            .peers
            .iter()
            .map(|Peer { name, figure, .. }| format!("{name} {figure}"));
        let named: Vec<String> = named.collect();
        let factors = line.peers.iter().map(|Peer { better, .. }| {
            let (from, to) = better.interval();
            let [better, from, to] = [better.factor(), from, to].map(factor);
            format!("{better} × ({from}–{to})")
        });
        let factors: Vec<String> = factors.collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {} | `{}` | {} | {} | {} |",
            line.about,
            line.command,
            line.ours,
            named.join(", "),
            factors.join(", ")
        );
    }
    if let Some(section) = report.sections.first() {
        let host = &section.host;
        let _ = writeln!(
            out,
            "\nThese are medians of interleaved rounds on {} with {} workers, measured on {} at \
             commit {}. The record is [{RECORDS}/{record}](../{RECORDS}/{record}). {}",
            host.cpu,
            section.workers,
            host.date,
            report.commits(),
            disturbance(report).unwrap_or_default()
        );
    }
    out
}

/// Draws how many times better Creel is than each peer, as a dot and its interval.
///
/// The axis is logarithmic, so that twice as good and half as good are equally far from the line
/// at one.
fn plot(lines: &[Line]) -> String {
    const ROW: f64 = 24.0;
    const TOP: f64 = 34.0;
    const BOTTOM: f64 = 30.0;
    const LEFT: f64 = 410.0;
    const RIGHT: f64 = 30.0;
    const WIDTH: f64 = 800.0;
    let dots = lines.iter().flat_map(|line| {
        let name = move |peer: &'_ Peer| format!("{} — {}", line.about, peer.name);
        line.peers.iter().map(move |peer| (name(peer), peer))
    });
    let dots: Vec<_> = dots.collect();
    let factors = || dots.iter().map(|(_, peer)| peer.better.factor());
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
         <title>How many times better Creel is than each peer</title>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-weight=\"bold\">How many times better Creel is than …</text>\n\
         <text class=\"soft\" x=\"{}\" y=\"18\" text-anchor=\"end\">grey: no clear difference</text>\n",
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
            Peer {
                better, verdict, ..
            },
        ),
    ) in dots.iter().enumerate()
    {
        let y = TOP + ROW * (index as f64 + 0.5);
        // A horizontal line shows the 95 % interval, and a dot shows the ratio itself.
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
    fn the_newest_record_is_written_into_the_readme_and_the_benchmark_page() {
        let folder = std::env::temp_dir().join(format!("creel-readme-{}", std::process::id()));
        let records = folder.join(RECORDS);
        fs::create_dir_all(folder.join("docs")).unwrap();
        let readme = folder.join("README.md");
        let page = folder.join(PAGE);
        let marked = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        fs::write(&readme, &marked).unwrap();
        fs::write(&page, &marked).unwrap();
        assert_eq!(
            check(&readme).unwrap(),
            Exit::Done,
            "without a record there is nothing to check"
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
        for file in [&readme, &page] {
            let text = fs::read_to_string(file).unwrap();
            assert!(
                text.starts_with("before\n") && text.ends_with("\nafter\n"),
                "{text}"
            );
            assert!(text.contains("`creel-bench loops --case hot`"), "{text}");
            assert!(!text.contains("\nold\n"));
        }
        let full = fs::read_to_string(&page).unwrap();
        assert!(full.contains("benches/runs/2026-01-02-b"), "{full}");
        let short = fs::read_to_string(&readme).unwrap();
        assert!(short.contains(" ns (rayon) |"), "{short}");
        fs::write(folder.join(PLOT), "another").unwrap();
        assert_eq!(check(&readme).unwrap(), Exit::SomeFailed);
        fs::write(&readme, "no marks").unwrap();
        assert!(write(&readme).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
