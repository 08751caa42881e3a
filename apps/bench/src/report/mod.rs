//! A run's report: made once, printed in five forms.
//!
//! It is a list of sections, one a workload, each of which is a line of JSON that tells all that
//! the other forms show, so that a report can be read back, drawn again and compared.

mod csv;
pub mod findings;
mod html;
mod markdown;
mod quantity;
mod rows;
mod text;
mod view;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use creel_console::{AtomicFile, Document, Exit, Failure};
use creel_topology::{Budget, Machine};
use serde::{Deserialize, Serialize};

use crate::clock::Disturbance;
use crate::host::Host;
use crate::rounds::Measured;
use crate::setting::Load;

pub use quantity::{factor, quantity};
pub use rows::{Noise, Row};
pub use text::{COLUMNS, MATRIX, of_a_sweep, table};
pub use view::{CaseView, SubjectView, is_more_better};

/// A workload's results and all that they depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    /// What the machine and the build tell.
    pub host: Host,
    /// What else happened meanwhile, on purpose.
    pub load: Load,
    /// Shorter samples and fewer rounds.
    pub quick: bool,
    /// Of every subject that has workers.
    pub workers: usize,
    /// The workload's current name. JSON has its schema name.
    #[serde(with = "workload_name")]
    pub workload: String,
    /// What else happened meanwhile.
    pub disturbance: Option<Disturbance>,
    /// What a subject differs from itself by, a case a row.
    pub noise: Vec<Noise>,
    /// All figures.
    pub rows: Vec<Row>,
}

/// Converts between the current name of a workload and its name in the schema.
mod workload_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::workloads::{current_name, schema_name};

    pub fn serialize<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
        schema_name(name).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(current_name(&name).to_owned())
    }
}

/// What is looked at first in a line that is read back.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order they were measured.
    pub sections: Vec<Section>,
}

/// A run's noise floor: of few cases it is what the worst of them shows.
fn noise_in_words(report: &Report, floor: f64) -> String {
    let cases: usize = report
        .sections
        .iter()
        .map(|section| section.noise.len())
        .sum();
    let percent = (floor - 1.0) * 100.0;
    match cases {
        1 => format!("the case differs from itself by {percent:.1} %"),
        2..20 => format!("cases differ from themselves by {percent:.1} % at most"),
        _ => format!("19 of 20 cases differ from themselves by {percent:.1} % or less"),
    }
}

impl Section {
    /// Adds a case's figures.
    pub fn add(&mut self, measured: &Measured) {
        self.rows.extend(rows::rows(measured));
        self.noise.extend(Noise::of(measured));
    }

    /// The line of JSON.
    pub fn document<'a>(&'a self, machine: &Machine, budget: &Budget) -> Document<&'a Section> {
        Document::new(machine, budget, self)
    }
}

impl Report {
    /// The workload's section.
    pub fn section(&self, workload: &str) -> Option<&Section> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.workload == workload)
    }

    /// The commits that were measured: several, if the run was gone on from.
    pub fn commits(&self) -> String {
        let mut commits: Vec<&str> = Vec::new();
        for section in &self.sections {
            if !commits.contains(&section.host.commit.as_str()) {
                commits.push(&section.host.commit);
            }
        }
        commits.join(", ")
    }

    /// The run's own noise floor: what 19 of 20 cases differ from themselves by at most, as a
    /// factor; nothing where no case was compared.
    pub fn noise_floor(&self) -> Option<f64> {
        let noise = self.sections.iter().flat_map(|section| &section.noise);
        let mut factors: Vec<f64> = noise.map(|n| n.ratio.max(1.0 / n.ratio)).collect();
        factors.sort_by(f64::total_cmp);
        let last = factors.len().checked_sub(1)?;
        Some(factors[(last as f64 * 0.95).round() as usize])
    }

    /// What it found out, a line each, for people.
    pub fn findings(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            for finding in findings::of(section) {
                out += &format!("{}: {finding}\n", section.workload);
            }
        }
        if let Some(floor) = self.noise_floor() {
            out += &format!("noise: {}\n", noise_in_words(self, floor));
        }
        out
    }

    /// The rows for a spreadsheet.
    ///
    /// # Errors
    ///
    /// None that a report can have.
    pub fn csv(&self) -> anyhow::Result<String> {
        csv::rows(self)
    }

    /// Reads a report that was written as JSON.
    ///
    /// # Errors
    ///
    /// The file's, or that it is no report of a version that can be compared.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let bad = |error: &dyn std::fmt::Display| {
            let message = format!("{}: {error}", file.display());
            Failure::new(Exit::BadData, message)
        };
        let text = fs::read_to_string(file).map_err(|error| bad(&error))?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let section = |line| {
            let version: Version = serde_json::from_str(line).map_err(|error| bad(&error))?;
            if version.schema != creel_console::SCHEMA {
                return Err(bad(&format!("schema {} is not known", version.schema)));
            }
            serde_json::from_str(line).map_err(|error| bad(&error))
        };
        let sections: Result<Vec<Section>, _> = lines.map(section).collect();
        let sections = sections?;
        ensure!(
            !sections.is_empty(),
            Failure::new(Exit::BadData, format!("{}: no report", file.display()))
        );
        Ok(Report { sections })
    }

    /// Writes it into a file, in the form that its name ends in: `html`, `md`, `json` or `csv`.
    ///
    /// # Errors
    ///
    /// Another ending, or the file's.
    pub fn write(&self, file: &Path, machine: &Machine, budget: &Budget) -> anyhow::Result<()> {
        let text = match file.extension().and_then(|ending| ending.to_str()) {
            Some("html") => html::page(self, &html::Drawing { machine, budget }),
            Some("md") => markdown::page(self),
            Some("csv") => self.csv()?,
            Some("json") => {
                let line = |section: &Section| {
                    let mut line = serde_json::to_string(&section.document(machine, budget))?;
                    line.push('\n');
                    Ok(line)
                };
                let lines: serde_json::Result<String> = self.sections.iter().map(line).collect();
                lines?
            }
            _ => {
                let message = format!("--report {}: html, md, json or csv?", file.display());
                return Err(Failure::new(Exit::Usage, message).into());
            }
        };
        AtomicFile::write(file, text.as_bytes()).with_context(|| file.display().to_string())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::rounds::tests::{case, measure, noisy};

    /// A section of one case: Creel takes half of one thread's time, rayon a little more.
    pub fn section() -> Section {
        with_creel_at(50.0, 1)
    }

    /// The same where Creel takes so long.
    pub fn with_creel_at(time: f64, seed: u64) -> Section {
        let subjects = vec![
            noisy("creel [sticky, adaptive]", time, seed),
            noisy("one thread", 100.0, seed + 1000),
            noisy("rayon", 80.0, seed + 2000),
        ];
        let (machine, budget) = machine();
        let mut section = Section {
            host: Host::detect(&machine, &budget),
            load: Load::Idle,
            quick: false,
            workers: 2,
            workload: "loops".into(),
            disturbance: None,
            noise: Vec::new(),
            rows: Vec::new(),
        };
        section.add(&measure(case(9, subjects)));
        section
    }

    #[test]
    fn reports_survive_a_round_trip_through_json() {
        let report = Report {
            sections: vec![section()],
        };
        let (machine, budget) = machine();
        let folder = std::env::temp_dir().join(format!("creel-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("report.json");
        report.write(&file, &machine, &budget).unwrap();
        let read_back = Report::read(&file).unwrap();
        let json = |report: &Report| serde_json::to_value(&report.sections).unwrap();
        assert_eq!(json(&read_back), json(&report));
        let bad = report.write(&folder.join("report.doc"), &machine, &budget);
        assert!(bad.unwrap_err().to_string().contains("html, md"));
        fs::write(&file, "{}\n").unwrap();
        assert!(Report::read(&file).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    /// A small machine.
    pub fn machine() -> (Machine, Budget) {
        let machine = Machine::synthetic("core:2 pu:2").unwrap();
        let budget = Budget::of(&machine);
        (machine, budget)
    }

    #[test]
    fn the_noise_floor_is_the_95th_percentile() {
        let mut report = Report::default();
        assert_eq!(report.noise_floor(), None);
        let mut section = section();
        section.noise = (0..40)
            .map(|index| Noise {
                case: "hot".into(),
                ratio: if index < 39 { 0.99 } else { 2.0 },
                floor: 1.0,
            })
            .collect();
        report.sections.push(section);
        assert_eq!(report.noise_floor(), Some(1.0 / 0.99));
    }
}
