//! A run from the command line to its report.

use std::collections::BTreeSet;

use creel_console::{Document, Exit, Failure, Format, Interrupt, Progress, output};
use creel_topology::{Budget, Machine};
use serde::Serialize;

use crate::Cli;
use crate::clock::{Disturbance, Watch};
use crate::harness::{Case, Measured};
use crate::hog;
use crate::report::{self, Row};
use crate::setting::{Load, Setting};
use crate::workloads::{self, Workload};

/// A workload's part of its JSON document.
#[derive(Serialize)]
struct Body<'a> {
    load: Load,
    workload: &'a str,
    disturbance: Option<Disturbance>,
    rows: Vec<Row<'a>>,
}

/// What all workloads of a run share.
struct Run<'a> {
    cli: &'a Cli,
    machine: Machine,
    budget: Budget,
    progress: Progress,
    interrupt: Interrupt,
}

/// A workload's results.
struct Result {
    workload: &'static str,
    cases: Vec<Measured>,
    disturbance: Option<Disturbance>,
}

/// Runs what the command line asks for.
///
/// # Errors
///
/// A case's name that no workload has, what a subject cannot start, or an interrupt. What was
/// printed before stays valid.
pub fn run(cli: &Cli) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::install()?;
    let machine = Machine::detect()?;
    let mut budget = Budget::of(&machine);
    if let Some(jobs) = cli.jobs {
        budget = budget.explicit(jobs);
    }
    let workers = match cli.load {
        Load::Oversubscribed => budget.workers() * 4,
        Load::Idle | Load::Busy => budget.workers(),
    };
    let setting = Setting {
        workers,
        quick: cli.quick,
        runs: cli.runs.map(usize::from),
        songs: cli.songs.clone(),
        python: cli.python.clone(),
    };
    let chosen = chosen(cli, &setting)?;
    let samples = chosen
        .iter()
        .flat_map(|(_, cases)| cases)
        .map(Case::samples)
        .sum();
    let progress = Progress::new(samples, "samples", cli.common.quiet);
    let run = Run {
        cli,
        machine,
        budget,
        progress,
        interrupt,
    };
    run.show(&format!(
        "{workers} workers, bound by {}\n",
        run.budget.bound_by()
    ))?;
    let mut results = Vec::new();
    for (workload, cases) in chosen {
        let result = run.measure(workload, cases)?;
        run.export_json(&result)?;
        results.push(result);
    }
    if cli.common.format == Format::Csv {
        let rows = results.iter().flat_map(|result| {
            result
                .cases
                .iter()
                .flat_map(|case| report::rows(case, Some(result.workload)))
        });
        output::csv(rows)?;
    }
    Ok(Exit::Done)
}

/// The workloads asked for with the cases asked for.
fn chosen(cli: &Cli, setting: &Setting) -> anyhow::Result<Vec<(&'static Workload, Vec<Case>)>> {
    let mut unknown: BTreeSet<&str> = cli.cases.iter().map(String::as_str).collect();
    let mut chosen = Vec::new();
    for workload in workloads::ALL {
        let named = cli.workloads.iter().any(|name| name == workload.name);
        let by_default = cli.workloads.is_empty()
            && (!cli.cases.is_empty() || !workloads::ONLY_NAMED.contains(&workload.name));
        if !named && !by_default {
            continue;
        }
        let mut cases = (workload.cases)(setting)?;
        if !cli.cases.is_empty() {
            cases.retain(|case| cli.cases.contains(&case.name));
        }
        for case in &mut cases {
            unknown.remove(case.name.as_str());
            if !cli.subjects.is_empty() {
                case.retain_subjects(|name| cli.subjects.iter().any(|part| name.contains(part)));
            }
            if cli.load == Load::Busy {
                case.subjects = case.subjects.drain(..).map(hog::beside).collect();
            }
        }
        cases.retain(|case| !case.subjects.is_empty());
        if !cases.is_empty() {
            chosen.push((workload, cases));
        }
    }
    if let Some(name) = unknown.first() {
        let message = format!("--case {name}: no such case in these workloads");
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if chosen.is_empty() && !cli.subjects.is_empty() {
        let message = format!("--subject {}: no such subject", cli.subjects.join(" "));
        return Err(Failure::new(Exit::Usage, message).into());
    }
    Ok(chosen)
}

impl Run<'_> {
    /// Measures a workload's cases; as text each is printed as soon as it is there.
    fn measure(&self, workload: &'static Workload, cases: Vec<Case>) -> anyhow::Result<Result> {
        let Workload { name, about, .. } = workload;
        self.show(&format!("\n{name}: {about}\n"))?;
        let watch = Watch::start();
        let mut measured = Vec::new();
        for case in cases {
            let case = case.measure(&self.progress, &self.interrupt)?;
            self.show(&format!("\n{name} {}\n{}", case.case, report::table(&case)))?;
            measured.push(case);
        }
        let disturbance = watch.disturbance();
        if let Some(warning) = disturbance.and_then(|disturbance| disturbance.warning()) {
            self.progress.println(&format!("creel-bench: {warning}"));
        }
        Ok(Result {
            workload: name,
            cases: measured,
            disturbance,
        })
    }

    fn show(&self, text: &str) -> anyhow::Result<()> {
        if self.cli.common.format == Format::Text {
            self.progress.suspend(|| output::text(text))?;
        }
        Ok(())
    }

    /// One line a workload, so that one or several can be read alike.
    fn export_json(&self, result: &Result) -> anyhow::Result<()> {
        if self.cli.common.format == Format::Json {
            let body = Body {
                load: self.cli.load,
                workload: result.workload,
                disturbance: result.disturbance,
                rows: result
                    .cases
                    .iter()
                    .flat_map(|case| report::rows(case, None))
                    .collect(),
            };
            output::json_line(&Document::new(&self.machine, &self.budget, body))?;
        }
        Ok(())
    }
}
