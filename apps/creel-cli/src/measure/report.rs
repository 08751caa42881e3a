//! The output of a measurement: tables as text or Markdown, sentences, JSON and charts.

use super::{
    sample::{FIGURES, Sample, Unit, WALL, show, title, unit},
    store::{Measured, own_figures},
    verdict::verdict,
};
use anyhow::{Context, Result};
use creel_console::{
    Align, Table,
    document::{BudgetFields, MachineFields, SCHEMA},
    output,
    plot::{Chart, Series},
};
use creel_stats::{Ratio, Summary};
use creel_topology::{Budget, Machine};
use serde::Serialize;
use std::{collections::BTreeMap, io};

/// Returns the names of the figures that at least one command has, in the order of the tables.
fn figure_names(all: &[Measured]) -> Vec<String> {
    let measured = FIGURES.iter().map(|figure| figure.name.to_owned());
    let every = measured.chain(own_figures(all));
    let is_measured = |name: &String| all.iter().any(|m| m.values(name).is_some());
    every.filter(is_measured).collect()
}

fn summary(m: &Measured, name: &str) -> Option<Summary> {
    Summary::of(&m.values(name)?)
}

fn ratio(base: &Measured, m: &Measured, name: &str) -> Option<Ratio> {
    Ratio::of(&base.values(name)?, &m.values(name)?)
}

/// Returns the factor by which a command differs from itself in these runs, or 1 without `--aa`.
fn noise_floor(all: &[Measured]) -> f64 {
    let controls = all.iter().filter(|m| m.is_aa_control);
    let floors = controls.filter_map(|m| Some(ratio(&all[m.base], m, WALL)?.noise_floor()));
    floors.fold(1.0, f64::max)
}

/// The document that `--format json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    schema: u32,
    /// Null if the runs come from files, because files do not name the machine.
    machine: Option<MachineFields>,
    budget: Option<BudgetFields>,
    /// The runs of the first command. `commands` has the runs of all.
    #[cfg_attr(
        test,
        schemars(with = "Vec<std::collections::BTreeMap<String, Option<f64>>>")
    )]
    runs: &'a [Sample],
    summary: BTreeMap<String, Option<Summary>>,
    /// The factor by which the first command differs from itself, or null without `--aa`.
    noise_floor: Option<f64>,
    /// The reason why energy is not measured, or null if it is.
    energy_missing: Option<&'static str>,
    commands: Vec<Command<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Command<'a> {
    command: &'a str,
    labels: &'a BTreeMap<String, String>,
    #[cfg_attr(
        test,
        schemars(with = "Vec<std::collections::BTreeMap<String, Option<f64>>>")
    )]
    runs: &'a [Sample],
    summary: BTreeMap<String, Option<Summary>>,
    /// The command that this one is compared with. It is the first one with the same settings, or
    /// the first of all if no two commands have the same settings.
    base: &'a str,
    /// For each figure, the ratio of this command to its base, from pairs of runs.
    ratio: BTreeMap<String, Option<Ratio>>,
}

/// Prints everything as one JSON document.
pub fn json(
    all: &[Measured],
    here: Option<&Machine>,
    energy_missing: Option<&'static str>,
) -> Result<()> {
    let first = all.first().context("nothing was measured")?;
    let own = own_figures(all);
    let names = || {
        let measured = FIGURES.iter().map(|figure| figure.name.to_owned());
        measured.chain(own.iter().cloned())
    };
    let summaries = |m: &Measured| names().map(|n| (n.clone(), summary(m, &n))).collect();
    let commands = all.iter().map(|m| {
        let base = &all[m.base];
        Command {
            command: &m.label,
            labels: &m.labels,
            runs: &m.samples,
            summary: summaries(m),
            base: &base.label,
            ratio: names().map(|n| (n.clone(), ratio(base, m, &n))).collect(),
        }
    });
    let document = Document {
        schema: SCHEMA,
        machine: here.map(Into::into),
        budget: here.map(|machine| (&Budget::of(machine)).into()),
        runs: &first.samples,
        summary: summaries(first),
        noise_floor: all
            .iter()
            .any(|m| m.is_aa_control)
            .then(|| noise_floor(all)),
        energy_missing,
        commands: commands.collect(),
    };
    Ok(output::json(&document)?)
}

/// Prints the tables as text or as Markdown.
pub fn text(all: &[Measured], markdown: bool) -> io::Result<()> {
    let render = |table: Table| {
        if markdown {
            table.markdown()
        } else {
            table.text()
        }
    };
    let mut parts = Vec::new();
    if all.len() <= 3 {
        for m in all {
            parts.push(format!("{}\n\n{}", heading(m), render(summary_table(m))));
        }
    } else {
        parts.push(format!(
            "geometric means\n\n{}",
            render(means(all, markdown))
        ));
    }
    let compared = all.iter().filter(|m| !std::ptr::eq(*m, &all[m.base]));
    let (compared, noise_floor) = (compared.collect::<Vec<_>>(), noise_floor(all));
    if !compared.is_empty() {
        let table = render(ratios(all, &compared, markdown));
        parts.push(format!("ratios, run by run (geometric means)\n\n{table}"));
    }
    let mut sentences: Vec<String> = Vec::new();
    for m in &compared {
        let base = &all[m.base];
        let sentence = match ratio(base, m, WALL) {
            Some(ratio) if m.is_aa_control => format!(
                "noise: {} differs from itself by up to ×{:.3}",
                base.label,
                ratio.noise_floor()
            ),
            Some(ratio) => verdict(&ratio, &label(m), &label(base), noise_floor),
            None => continue,
        };
        sentences.push(sentence);
    }
    sentences.extend(all.iter().filter_map(outliers));
    if !sentences.is_empty() {
        parts.push(format!("{}\n", sentences.join("\n")));
    }
    output::text(&parts.join("\n"))
}

fn heading(m: &Measured) -> String {
    let s = if m.samples.len() == 1 { "" } else { "s" };
    let labels: Vec<String> = m.labels.iter().map(|(k, v)| format!(", {k}={v}")).collect();
    format!(
        "{} ({} run{s}{})",
        m.label,
        m.samples.len(),
        labels.concat()
    )
}

fn outliers(m: &Measured) -> Option<String> {
    let wall = summary(m, WALL)?;
    (wall.outliers > 0).then(|| {
        let s = if wall.outliers == 1 { "" } else { "s" };
        format!(
            "{}: {} outlier{s} in {} runs: another program may have used the machine, or the \
             first runs had cold caches (use --warmup)",
            m.label,
            wall.outliers,
            m.samples.len()
        )
    })
}

/// Returns the table of one command, with a row per figure.
fn summary_table(m: &Measured) -> Table {
    let right = |title| (title, Align::Right);
    let mut table = Table::new(&[
        ("", Align::Left),
        right("mean"),
        right("± 95 %"),
        right("σ"),
        right("min"),
        right("median"),
        right("max"),
        right("geo. mean"),
    ]);
    for name in figure_names(std::slice::from_ref(m)) {
        let Some(s) = summary(m, &name) else {
            continue;
        };
        let unit = unit(&name);
        let or_none = |value: Option<f64>| value.map_or("-".into(), |v| show(unit, v));
        table.row([
            title(&name).to_owned(),
            show(unit, s.mean),
            of_mean(s.ci95, s.mean),
            of_mean(Some(s.sd), s.mean),
            show(unit, s.min),
            show(unit, s.median),
            show(unit, s.max),
            or_none(s.geometric_mean),
        ]);
    }
    table
}

/// Formats a value as a percentage of the mean. The text is short, because the table must fit into
/// 80 columns.
fn of_mean(value: Option<f64>, mean: f64) -> String {
    match value.map(|value| value / mean * 100.0) {
        Some(percent) if percent >= 100.0 => format!("{percent:.0} %"),
        Some(percent) if percent >= 10.0 => format!("{percent:.1} %"),
        Some(percent) if percent.is_finite() => format!("{percent:.2} %"),
        _ => "-".into(),
    }
}

/// Figures that the compact tables omit: parts of another figure, and counts that are mostly 0 or
/// 1, whose ratios mean nothing. JSON and CSV contain them.
const MINOR: [&str; 3] = ["user_s", "sys_s", "migrations"];

/// Returns the table of many commands, with a row per command and a column per figure. With
/// `whole`, the table also has the figures of [`MINOR`] and full names. Use it if the width does
/// not matter.
fn means(all: &[Measured], whole: bool) -> Table {
    let mut names = figure_names(all);
    names.retain(|name| whole || !MINOR.contains(&name.as_str()));
    let mut columns = vec![("command", Align::Left), ("runs", Align::Right)];
    columns.extend(names.iter().map(|name| (title(name), Align::Right)));
    let mut table = Table::new(&columns);
    let most = if whole { usize::MAX } else { 27 };
    for (m, name) in all.iter().zip(short_labels(all, most)) {
        let mut cells = vec![name, m.samples.len().to_string()];
        cells.extend(names.iter().map(|name| mean(m, name)));
        table.row(cells);
    }
    table
}

/// Returns the name of a command, followed by the labels that the name does not contain.
fn label(m: &Measured) -> String {
    let is_in_name = |label: &String| m.label.split(' ').any(|word| word == label);
    let labels = m.labels.iter().map(|(k, v)| format!("{k}={v}"));
    let others = labels.filter(|label| !is_in_name(label));
    [m.label.clone()]
        .into_iter()
        .chain(others)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the names of the commands in a table, in at most `most` characters. If two different
/// names are equal after they were shortened, each name gets a number as a prefix.
fn short_labels(all: &[Measured], most: usize) -> Vec<String> {
    let whole: Vec<String> = all.iter().map(label).collect();
    let cut: Vec<String> = whole.iter().map(|text| short(text, most)).collect();
    let are_distinct = (0..all.len())
        .flat_map(|one| (0..one).map(move |other| (one, other)))
        .all(|(one, other)| cut[one] != cut[other] || whole[one] == whole[other]);
    if are_distinct {
        return cut;
    }
    let numbered = whole.iter().zip(1..).map(|(text, n)| {
        let number = format!("{n}: ");
        let left = most - number.len();
        number + &short(text, left)
    });
    numbered.collect()
}

/// Shortens a text to at most `most` characters. We leave out the middle, because commands usually
/// differ at their ends.
fn short(text: &str, most: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= most {
        return text.into();
    }
    let end = most / 2;
    let part = |chars: &[char]| chars.iter().collect::<String>();
    let begin = part(&chars[..most - end - 1]);
    format!("{begin}…{}", part(&chars[chars.len() - end..]))
}

/// Formats the geometric mean, or the arithmetic mean if a value is zero.
fn mean(m: &Measured, name: &str) -> String {
    let Some(s) = summary(m, name) else {
        return "-".into();
    };
    show(unit(name), s.geometric_mean.unwrap_or(s.mean))
}

/// Returns the table of ratios, with a row per compared command and a column per figure. To keep it
/// narrow, it leaves out minor figures, and counts if there are more than three commands.
fn ratios(all: &[Measured], compared: &[&Measured], whole: bool) -> Table {
    let shown = |name: &String| {
        !MINOR.contains(&name.as_str()) && (unit(name) != Unit::Count || all.len() <= 3)
    };
    let names: Vec<String> = figure_names(all).into_iter().filter(shown).collect();
    let mut columns = vec![("command ÷ base", Align::Left)];
    columns.extend(names.iter().map(|name| (title(name), Align::Right)));
    let mut table = Table::new(&columns);
    let labels = short_labels(all, if whole { usize::MAX } else { 20 });
    for m in compared {
        let base = &all[m.base];
        let cell = |name: &String| match ratio(base, m, name) {
            Some(ratio) => format!("{:.3}", ratio.geometric_mean),
            None => "-".into(),
        };
        let at = all.iter().position(|other| std::ptr::eq(other, *m));
        let one = &labels[at.expect("each compared command is in the list of all commands")];
        let mut cells = vec![format!("{one} ÷ {}", labels[m.base])];
        cells.extend(names.iter().map(cell));
        table.row(cells);
    }
    table
}

/// The kinds of charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plot {
    /// The distribution of wall times
    Histogram,
    /// The wall time of each run
    Runs,
    /// The mean wall time of each command of a matrix or scan
    Scan,
    /// Wall time and peak memory, with one point per run
    Scatter,
}

/// The number of bars of a histogram.
const BINS: usize = 20;

/// Returns the chart of these runs.
pub fn chart(all: &[Measured], plot: Plot) -> Chart {
    let walls = |m: &Measured| m.values(WALL).unwrap_or_default();
    let ms = |s: f64| s * 1e3;
    let each = |points: &dyn Fn(&Measured) -> Vec<(f64, f64)>| -> Vec<Series> {
        let series = all.iter().map(|m| Series {
            name: m.label.clone(),
            points: points(m),
        });
        series.collect()
    };
    let (x_label, y_label, series) = match plot {
        Plot::Histogram => ("wall, ms", "runs", each(&|m| histogram(&walls(m)))),
        Plot::Runs => {
            let runs = |m: &Measured| {
                let numbered = walls(m).into_iter().enumerate();
                numbered.map(|(i, s)| ((i + 1) as f64, ms(s))).collect()
            };
            ("run", "wall, ms", each(&runs))
        }
        Plot::Scatter => {
            let pairs = |m: &Measured| {
                let memory = m.values("peak_rss_bytes").unwrap_or_default();
                let mut points: Vec<(f64, f64)> = walls(m)
                    .into_iter()
                    .zip(memory)
                    .map(|(s, b)| (ms(s), b / 1048576.0))
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points
            };
            ("wall, ms", "peak memory, MiB", each(&pairs))
        }
        Plot::Scan => ("setting", "wall, ms", scan(all)),
    };
    Chart {
        title: String::new(),
        x_label: x_label.into(),
        y_label: y_label.into(),
        series,
    }
}

/// Returns a curve for each command of a matrix. The x of a point is the first number in its
/// settings, or its position if its settings contain no number.
fn scan(all: &[Measured]) -> Vec<Series> {
    let mut curves: Vec<Series> = Vec::new();
    let mut point = None;
    let (mut place, mut within) = (0, 0);
    for m in all.iter().filter(|m| !m.is_aa_control) {
        if point != Some(&m.labels) {
            (point, within, place) = (Some(&m.labels), 0, place + 1);
        }
        let number = m.labels.values().find_map(|value| value.parse().ok());
        let x = number.unwrap_or(f64::from(place));
        let Some(wall) = summary(m, WALL) else {
            continue;
        };
        if curves.len() <= within {
            curves.push(Series {
                name: m.label.clone(),
                points: Vec::new(),
            });
        }
        curves[within].points.push((x, wall.mean * 1e3));
        within += 1;
    }
    curves
}

fn histogram(walls: &[f64]) -> Vec<(f64, f64)> {
    let least = walls.iter().copied().fold(f64::INFINITY, f64::min);
    let most = walls.iter().copied().fold(0.0, f64::max);
    let width = ((most - least) / BINS as f64).max(1e-9);
    let mut bins = [0.0; BINS];
    for wall in walls {
        bins[(((wall - least) / width) as usize).min(BINS - 1)] += 1.0;
    }
    let middle = |i: usize| (least + (i as f64 + 0.5) * width) * 1e3;
    bins.iter()
        .enumerate()
        .map(|(i, &n)| (middle(i), n))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-measure", schemars::schema_for!(Document));
    }

    #[test]
    fn long_commands_are_shortened_in_the_middle() {
        assert_eq!(short("sleep 1", 7), "sleep 1");
        assert_eq!(short("sleep 0.01 j=1", 7), "sle…j=1");
        assert_eq!(short("äöüß", 3), "ä…ß");
    }
}
