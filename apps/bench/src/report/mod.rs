//! The report of a run, and its five formats: text, JSON, CSV, Markdown and HTML.
//!
//! A report has one section per workload. In JSON, a section is one line, and it contains
//! everything that the other formats show. This is why we can read a report from its JSON, print it
//! again in another format, and compare it with another report.

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

/// The results of a workload and the conditions that they depend on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Section {
    /// The machine and the build.
    pub host: Host,
    /// The load that the bench put on the machine.
    pub load: Load,
    /// Whether samples were short and rounds few.
    pub quick: bool,
    /// The number of workers of every subject that has workers.
    pub workers: usize,
    /// The current name of the workload. JSON has the former name if the workload was renamed,
    /// because the schema promises it.
    #[serde(with = "workload_name")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub workload: String,
    /// How much of the machine other programs and the host used, if the system reports it.
    pub disturbance: Option<Disturbance>,
    /// The A/A control of each case: the difference of a subject from itself.
    pub noise: Vec<Noise>,
    /// The results of all cases of the workload, as rows.
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

/// The version of a line of JSON. We read it first, because a line of another version may have
/// other fields.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// All results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The workloads in the order in which they were measured.
    pub sections: Vec<Section>,
}

/// Describes the noise floor of a run. With fewer than 20 cases, it is that of the worst case.
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
    /// Adds the results of a case as rows.
    pub fn add(&mut self, measured: &Measured) {
        self.rows.extend(rows::rows(measured));
        self.noise.extend(Noise::of(measured));
    }

    /// Returns the document that is printed as a line of JSON.
    pub fn document<'a>(&'a self, machine: &Machine, budget: &Budget) -> Document<&'a Section> {
        Document::new(machine, budget, self)
    }
}

impl Report {
    /// Returns the section of a workload, given its current name.
    pub fn section(&self, workload: &str) -> Option<&Section> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.workload == workload)
    }

    /// Returns the commits that were measured. A run that was resumed can have several.
    pub fn commits(&self) -> String {
        let mut commits: Vec<&str> = Vec::new();
        for section in &self.sections {
            if !commits.contains(&section.host.commit.as_str()) {
                commits.push(&section.host.commit);
            }
        }
        commits.join(", ")
    }

    /// Returns the noise floor of the run: 19 of 20 cases differ from themselves by at most this
    /// factor. Returns `None` if no case has an A/A control.
    pub fn noise_floor(&self) -> Option<f64> {
        let noise = self.sections.iter().flat_map(|section| &section.noise);
        let mut factors: Vec<f64> = noise.map(|n| n.ratio.max(1.0 / n.ratio)).collect();
        factors.sort_by(f64::total_cmp);
        let last = factors.len().checked_sub(1)?;
        Some(factors[(last as f64 * 0.95).round() as usize])
    }

    /// Returns the findings of the run as sentences, one per line.
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

    /// Returns the rows as CSV.
    ///
    /// # Errors
    ///
    /// Returns an error if a row cannot be encoded, which does not happen with these rows.
    pub fn csv(&self) -> anyhow::Result<String> {
        csv::rows(self)
    }

    /// Reads a report that was written as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, if it is not a report, or if its schema is not
    /// the one of this program.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let name = file.display();
        let bad = |message: String| Failure::new(Exit::BadData, message);
        let text = fs::read_to_string(file)
            .map_err(|error| bad(format!("cannot read the report {name}: {error}")))?;
        let lines = (1..).zip(text.lines());
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let section = |(number, line): (usize, &str)| {
            let not_a_report = |error: serde_json::Error| {
                let problem = not_a_report(&error, number);
                bad(format!("{name} is not a creel-bench report: {problem}"))
            };
            let version: Version = serde_json::from_str(line).map_err(not_a_report)?;
            if version.schema != creel_console::SCHEMA {
                return Err(bad(format!(
                    "cannot use the report {name}: it has schema {}, and this program reads schema \
                     {}. Use the version of creel-bench that wrote it",
                    version.schema,
                    creel_console::SCHEMA
                )));
            }
            serde_json::from_str(line).map_err(not_a_report)
        };
        let sections: Result<Vec<Section>, _> = lines.map(section).collect();
        let sections = sections?;
        ensure!(
            !sections.is_empty(),
            bad(format!(
                "{name} is not a creel-bench report: the file is empty"
            ))
        );
        Ok(Report { sections })
    }

    /// Writes the report to a file, in the format of the file's extension: `html`, `md`, `json` or
    /// `csv`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file has another extension or cannot be written.
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
                let message = format!(
                    "cannot write a report to {}: the name must end in .html, .md, .json or .csv",
                    file.display()
                );
                return Err(Failure::new(Exit::Usage, message).into());
            }
        };
        AtomicFile::write(file, text.as_bytes())
            .with_context(|| format!("cannot write the report {}", file.display()))
    }
}

/// Returns an error message that says why a line of a file is not a section of a report.
fn not_a_report(error: &serde_json::Error, line: usize) -> String {
    let text = error.to_string();
    // serde_json appends the position to its message. We remove it, because it counts from the
    // beginning of this line and not of the file.
    let problem = match text.rsplit_once(" at line ") {
        _ if !error.is_data() => "expected JSON",
        Some((problem, _)) => problem,
        None => &text,
    };
    format!("{problem}, line {line} column {}", error.column())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::rounds::tests::{case, measure, noisy};
    use creel_console::documented;

    /// Returns a section of one case. Creel takes half of one thread's time, and rayon 80 %.
    pub fn section() -> Section {
        with_creel_at(50.0, 1)
    }

    /// Returns the same section with another time for Creel, in ns.
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
    fn the_published_schema_matches_the_types() {
        documented::check_schema(
            "creel-bench",
            schemars::schema_for!(creel_console::Document<Section>),
        );
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
        assert!(bad.unwrap_err().to_string().contains("end in .html, .md"));
        for (text, problem) in [
            ("", "the file is empty"),
            ("{}\n", "missing field `schema`, line 1 column 2"),
            ("\nfn main() {}\n", "expected JSON, line 2 column 2"),
        ] {
            fs::write(&file, text).unwrap();
            let error = Report::read(&file).unwrap_err().to_string();
            let expected = format!("{} is not a creel-bench report: {problem}", file.display());
            assert_eq!(error, expected);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    /// Returns a machine with two cores.
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
