//! What a measurement prints: text, Markdown, JSON, and the CSV of the raw runs, which can be
//! read back.

use super::sample::{FIGURES, Figure, Sample, Summary};
use anyhow::{Context, Result, bail};
use creel_console::{Align, Table, output};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path};

/// A command's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub label: String,
    pub samples: Vec<Sample>,
}

/// A line of the CSV: one run.
#[derive(Serialize, Deserialize)]
struct Row {
    command: String,
    run: usize,
    wall_s: f64,
    user_s: f64,
    sys_s: f64,
    peak_rss_bytes: u64,
    context_switches: u64,
    migrations: Option<u64>,
    energy_j: Option<f64>,
}

impl Row {
    fn new(command: &str, run: usize, s: &Sample) -> Self {
        Self {
            command: command.into(),
            run,
            wall_s: s.wall_s,
            user_s: s.user_s,
            sys_s: s.sys_s,
            peak_rss_bytes: s.peak_rss_bytes,
            context_switches: s.context_switches,
            migrations: s.migrations,
            energy_j: s.energy_j,
        }
    }

    fn sample(&self) -> Sample {
        Sample {
            wall_s: self.wall_s,
            user_s: self.user_s,
            sys_s: self.sys_s,
            peak_rss_bytes: self.peak_rss_bytes,
            context_switches: self.context_switches,
            migrations: self.migrations,
            energy_j: self.energy_j,
        }
    }
}

fn rows(all: &[Measured]) -> impl Iterator<Item = Row> + '_ {
    all.iter().flat_map(|m| {
        let numbered = m.samples.iter().enumerate();
        numbered.map(|(i, sample)| Row::new(&m.label, i + 1, sample))
    })
}

/// Writes every run as CSV to stdout.
pub fn csv(all: &[Measured]) -> io::Result<()> {
    output::csv(rows(all))
}

/// Writes every run as CSV to a file.
pub fn csv_file(all: &[Measured], file: &Path) -> Result<()> {
    let write = || -> csv::Result<()> {
        let mut writer = csv::Writer::from_path(file)?;
        rows(all).try_for_each(|row| writer.serialize(row))?;
        Ok(writer.flush()?)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// Reads the runs back from a CSV, in the order of their first lines.
pub fn from_csv(file: &Path) -> Result<Vec<Measured>> {
    let mut all: Vec<Measured> = Vec::new();
    let mut reader =
        csv::Reader::from_path(file).with_context(|| format!("cannot read {}", file.display()))?;
    for row in reader.deserialize() {
        let row: Row = row.with_context(|| format!("{} is no measurement", file.display()))?;
        let sample = row.sample();
        match all.iter_mut().find(|m| m.label == row.command) {
            Some(known) => known.samples.push(sample),
            None => all.push(Measured {
                label: row.command,
                samples: vec![sample],
            }),
        }
    }
    if all.is_empty() {
        bail!("{} holds no runs", file.display());
    }
    Ok(all)
}

/// The document that `--format json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    /// The first command's runs and summary; `commands` has all.
    runs: &'a [Sample],
    summary: BTreeMap<&'static str, Option<Summary>>,
    commands: Vec<Command<'a>>,
}

#[derive(Serialize)]
struct Command<'a> {
    command: &'a str,
    runs: &'a [Sample],
    summary: BTreeMap<&'static str, Option<Summary>>,
    /// Of each figure: this command's over the first one's, run by run.
    ratio: BTreeMap<&'static str, Option<Summary>>,
}

fn summary(samples: &[Sample]) -> BTreeMap<&'static str, Option<Summary>> {
    let each = FIGURES.iter();
    each.map(|f| (f.name, Summary::of_figure(f, samples)))
        .collect()
}

/// `samples` over `base`, pair by pair; `None` where a figure is missing or zero.
fn ratio(figure: &Figure, base: &[Sample], samples: &[Sample]) -> Option<Summary> {
    let pairs = base.iter().zip(samples);
    let ratios: Option<Vec<f64>> = pairs
        .map(|(b, s)| {
            let (b, s) = ((figure.of)(b)?, (figure.of)(s)?);
            (b > 0.0).then(|| s / b)
        })
        .collect();
    Summary::of(ratios?.into_iter())
}

/// Prints everything as one JSON document.
pub fn json(all: &[Measured]) -> Result<()> {
    let first = all.first().context("nothing was measured")?;
    let command = |m: &'_ Measured| -> BTreeMap<&'static str, Option<Summary>> {
        let each = FIGURES.iter();
        each.map(|f| (f.name, ratio(f, &first.samples, &m.samples)))
            .collect()
    };
    let commands = all.iter().map(|m| Command {
        command: &m.label,
        runs: &m.samples,
        summary: summary(&m.samples),
        ratio: command(m),
    });
    let document = Document {
        schema: 1,
        runs: &first.samples,
        summary: summary(&first.samples),
        commands: commands.collect(),
    };
    Ok(output::json(&document)?)
}

/// The tables as text, or as Markdown.
pub fn text(all: &[Measured], markdown: bool) -> io::Result<()> {
    let render = |table: Table| {
        if markdown {
            table.markdown()
        } else {
            table.text()
        }
    };
    let mut parts = Vec::new();
    match all {
        [one] => parts.push(format!("{}\n\n{}", heading(one), render(spread(one)))),
        [a, b] => {
            parts.push(format!("A: {}\n\n{}", heading(a), render(spread(a))));
            parts.push(format!("B: {}\n\n{}", heading(b), render(spread(b))));
            parts.push(format!("B ÷ A, pair by pair\n\n{}", render(ratios(a, b))));
        }
        many => {
            let runs = many.iter().map(|m| m.samples.len()).min().unwrap_or(0);
            let table = render(means(many));
            parts.push(format!("geometric means of {runs} runs each\n\n{table}"));
        }
    }
    output::text(&parts.join("\n"))
}

fn heading(m: &Measured) -> String {
    let s = if m.samples.len() == 1 { "" } else { "s" };
    format!("{} ({} run{s})", m.label, m.samples.len())
}

const SPREAD: [(&str, Align); 5] = [
    ("", Align::Left),
    ("min", Align::Right),
    ("median", Align::Right),
    ("max", Align::Right),
    ("geometric mean", Align::Right),
];

fn four(s: Summary, show: impl Fn(f64) -> String) -> [String; 4] {
    [s.min, s.median, s.max, s.geometric_mean].map(show)
}

/// One command: a figure a row.
fn spread(m: &Measured) -> Table {
    let mut table = Table::new(&SPREAD);
    for figure in &FIGURES {
        if let Some(s) = Summary::of_figure(figure, &m.samples) {
            let title = [figure.title.to_owned()];
            table.row(title.into_iter().chain(four(s, figure.show)));
        }
    }
    table
}

fn ratios(a: &Measured, b: &Measured) -> Table {
    let mut table = Table::new(&SPREAD);
    for figure in &FIGURES {
        if let Some(s) = ratio(figure, &a.samples, &b.samples) {
            let title = [figure.title.to_owned()];
            table.row(title.into_iter().chain(four(s, |r| format!("{r:.3}"))));
        }
    }
    table
}

/// Many commands: one a row, with the geometric mean of each figure that all of them tell.
fn means(all: &[Measured]) -> Table {
    let mean = |figure: &Figure, m: &Measured| Summary::of_figure(figure, &m.samples);
    let told = |figure: &&Figure| all.iter().all(|m| mean(figure, m).is_some());
    let figures: Vec<&Figure> = FIGURES.iter().filter(told).collect();
    let titles = figures.iter().map(|f| (f.title, Align::Right));
    let columns: Vec<_> = [("command", Align::Left)]
        .into_iter()
        .chain(titles)
        .collect();
    let mut table = Table::new(&columns);
    for m in all {
        let cells = figures.iter().map(|f| match mean(f, m) {
            Some(s) => (f.show)(s.geometric_mean),
            None => String::new(),
        });
        table.row([m.label.clone()].into_iter().chain(cells));
    }
    table
}
