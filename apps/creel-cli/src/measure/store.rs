//! The CSV file of raw runs. We write one line per run as soon as the run ends, so that nothing is
//! lost if a later run fails. We also read such files back.
//!
//! The columns are `command`, the labels, `run`, the figures and `exit_code`. The columns before
//! `run` hold words, and the columns after it hold numbers.

use super::{
    plan::{AA_SUFFIX, Labels},
    sample::{FIGURES, Sample, Unit, WALL, unit},
};
use crate::drawing::is_stdout;
use anyhow::{Context, Result, bail};
use creel_stats::Summary;
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The runs of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub label: String,
    pub labels: Labels,
    /// The index of the command that this one is compared with.
    pub base: usize,
    pub is_aa_control: bool,
    pub samples: Vec<Sample>,
}

impl Measured {
    /// Returns the values of a figure, or `None` if a run lacks it.
    pub fn values(&self, name: &str) -> Option<Vec<f64>> {
        self.samples.iter().map(|sample| sample.get(name)).collect()
    }
}

/// Sets the command that each command is compared with: the first one with the same settings. If no
/// two commands have the same settings, it is the first of all.
pub fn pair(all: &mut [Measured]) {
    let first_alike = |m: &Measured| all.iter().position(|other| other.labels == m.labels);
    let bases: Vec<usize> = all.iter().map(|m| first_alike(m).unwrap_or(0)).collect();
    let alone = bases.iter().enumerate().all(|(i, &base)| i == base);
    for (m, base) in all.iter_mut().zip(bases) {
        m.base = if alone { 0 } else { base };
    }
}

/// Returns the commands sorted by their mean wall time, beginning with the fastest. Each command is
/// still compared with the same command as before.
pub fn by_time(all: &[Measured]) -> Vec<Measured> {
    let mean = |m: &Measured| {
        let summary = m.values(WALL).and_then(|walls| Summary::of(&walls));
        summary.map_or(f64::INFINITY, |summary| summary.mean)
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| mean(&all[a]).total_cmp(&mean(&all[b])));
    let place = |old: usize| order.iter().position(|&o| o == old).unwrap_or(0);
    let sorted = order.iter().map(|&old| Measured {
        base: place(all[old].base),
        ..all[old].clone()
    });
    sorted.collect()
}

/// The treatment of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Replace,
    Append,
}

/// A file that grows by one line per run.
pub struct Store {
    writer: csv::Writer<Box<dyn Write>>,
    path: PathBuf,
    labels: Vec<String>,
    figures: Vec<String>,
}

/// Returns the header for these labels and figures.
fn header(labels: &[String], figures: &[String]) -> Vec<String> {
    let first = ["command".to_owned()].into_iter();
    let run = ["run".to_owned()].into_iter();
    let exit = ["exit_code".to_owned()].into_iter();
    let labels = labels.iter().cloned();
    let all = first
        .chain(labels)
        .chain(run)
        .chain(figures.iter().cloned());
    all.chain(exit).collect()
}

/// Returns the names of all figures. Those of `--metric` come after the measured ones.
pub fn figures(own: impl Iterator<Item = String>) -> Vec<String> {
    let measured = FIGURES.iter().map(|figure| figure.name.to_owned());
    measured.chain(own).collect()
}

impl Store {
    /// Opens the file. If we append to it, it must have the same columns.
    pub fn open(path: &Path, mode: Mode, labels: Vec<String>, own: Vec<String>) -> Result<Self> {
        let figures = figures(own.into_iter());
        let wanted = header(&labels, &figures);
        let there = path.metadata().is_ok_and(|data| data.len() > 0);
        let appends = mode == Mode::Append && there;
        if appends {
            let mut reader = csv::Reader::from_path(path)?;
            let found: Vec<String> = reader.headers()?.iter().map(String::from).collect();
            if found != wanted {
                bail!(
                    "cannot append to {}: the file has other columns ({}) than these runs ({}). \
                     Use another file",
                    path.display(),
                    found.join(","),
                    wanted.join(",")
                );
            }
        }
        let open = || match mode {
            Mode::Append => File::options().append(true).create(true).open(path),
            Mode::Replace => File::create(path),
        };
        let to: Box<dyn Write> = match is_stdout(path) {
            true => Box::new(io::stdout()),
            false => Box::new(open().with_context(|| format!("cannot write {}", path.display()))?),
        };
        let mut store = Self {
            writer: csv::Writer::from_writer(to),
            path: path.into(),
            labels,
            figures,
        };
        if !appends {
            store.line(wanted)?;
        }
        Ok(store)
    }

    /// Adds a run. The run is in the file when the function returns.
    pub fn add(&mut self, measured: &Measured, sample: &Sample) -> Result<()> {
        let run = measured.samples.len();
        let line = record(measured, run, sample, &self.labels, &self.figures);
        self.line(line)
    }

    fn line(&mut self, words: Vec<String>) -> Result<()> {
        let written = self.writer.write_record(words);
        written
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(self.writer.flush()?))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn record(
    measured: &Measured,
    run: usize,
    sample: &Sample,
    labels: &[String],
    figures: &[String],
) -> Vec<String> {
    let label = |key: &String| measured.labels.get(key).cloned().unwrap_or_default();
    let number = |name: &String| match (sample.get(name), unit(name)) {
        (Some(value), Unit::Bytes | Unit::Count) => format!("{value:.0}"),
        (Some(value), _) => value.to_string(),
        (None, _) => String::new(),
    };
    let mut words = vec![measured.label.clone()];
    words.extend(labels.iter().map(label));
    words.push(run.to_string());
    words.extend(figures.iter().map(number));
    words.push(sample.exit_code.to_string());
    words
}

/// Writes all runs as CSV.
pub fn write_all(all: &[Measured], to: impl Write) -> csv::Result<()> {
    let labels: Vec<String> = all
        .first()
        .map(|m| m.labels.keys().cloned().collect())
        .unwrap_or_default();
    let figures = figures(own_figures(all).into_iter());
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(header(&labels, &figures))?;
    for measured in all {
        for (i, sample) in measured.samples.iter().enumerate() {
            writer.write_record(record(measured, i + 1, sample, &labels, &figures))?;
        }
    }
    Ok(writer.flush()?)
}

/// Returns the figures of `--metric`, in the order of their first appearance.
pub fn own_figures(all: &[Measured]) -> Vec<String> {
    let mut own: Vec<String> = Vec::new();
    for name in all
        .iter()
        .flat_map(|m| &m.samples)
        .flat_map(|s| s.values.keys())
    {
        if unit(name) == Unit::Plain && !own.contains(name) {
            own.push(name.clone());
        }
    }
    own
}

/// Reads the runs from a CSV file. The commands are in the order of their first lines.
pub fn read(file: &Path) -> Result<Vec<Measured>> {
    let mut reader =
        csv::Reader::from_path(file).with_context(|| format!("cannot read {}", file.display()))?;
    let header: Vec<String> = reader.headers()?.iter().map(String::from).collect();
    let run = header.iter().position(|name| name == "run");
    let Some(run) = run.filter(|_| header.first().is_some_and(|name| name == "command")) else {
        bail!(
            "{} is not a measurement, because it has no columns command and run: use a file that \
             creel measure --csv has written",
            file.display()
        );
    };
    let mut all: Vec<Measured> = Vec::new();
    for (i, row) in reader.records().enumerate() {
        let row = row.with_context(|| format!("{} is not a measurement", file.display()))?;
        let word = |at: usize| row.get(at).unwrap_or_default();
        let labels: Labels = (1..run)
            .map(|at| (header[at].clone(), word(at).to_owned()))
            .collect();
        let mut sample = Sample::default();
        for (at, name) in header.iter().enumerate().skip(run + 1) {
            let text = word(at);
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            match number {
                Some(number) if name == "exit_code" => sample.exit_code = number as i32,
                Some(number) => sample.set(name, Some(number)),
                None if text.is_empty() => {}
                None => bail!(
                    "{} is not a measurement: line {}, {name}: `{text}` is not a number",
                    file.display(),
                    i + 2
                ),
            }
        }
        let label = word(0);
        match all
            .iter_mut()
            .find(|m| m.label == label && m.labels == labels)
        {
            Some(known) => known.samples.push(sample),
            None => all.push(Measured {
                label: label.into(),
                is_aa_control: label.ends_with(AA_SUFFIX),
                labels,
                samples: vec![sample],
                ..Measured::default()
            }),
        }
    }
    if all.is_empty() {
        bail!(
            "{} holds no runs: use a file that creel measure --csv has written",
            file.display()
        );
    }
    Ok(all)
}
