//! A run from the command line to its report.

use std::collections::BTreeSet;

use creel_console::{Exit, Failure, Format, Interrupt, Progress, output};
use serde::Serialize;

use crate::Cli;
use crate::harness::{Case, Measured};
use crate::report::{self, Row};
use crate::setting::Setting;
use crate::workloads::{self, Workload};

/// What a workload prints as JSON.
#[derive(Serialize)]
struct Body<'a> {
    load: crate::Load,
    workload: &'a str,
    rows: Vec<Row<'a>>,
}

/// Runs what the command line asks for.
///
/// # Errors
///
/// A case's name that no workload has, what a subject cannot start, or an interrupt. What was
/// printed before stays valid.
pub fn run(cli: &Cli) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::install()?;
    let setting = Setting {
        workers: 2,
        quick: cli.quick,
        runs: cli.runs.map(usize::from),
    };
    let chosen = chosen(cli, &setting)?;
    let samples = chosen
        .iter()
        .flat_map(|(_, cases)| cases)
        .map(Case::samples)
        .sum();
    let progress = Progress::new(samples, "samples", cli.common.quiet);
    let mut results = Vec::new();
    for (workload, cases) in chosen {
        let measured = measure(cli, workload, cases, (&progress, &interrupt))?;
        if cli.common.format == Format::Json {
            let rows = measured
                .iter()
                .flat_map(|case| report::rows(case, None))
                .collect();
            output::json_line(&Body {
                load: cli.load,
                workload: workload.name,
                rows,
            })?;
        }
        results.push((workload.name, measured));
    }
    if cli.common.format == Format::Csv {
        let rows = results.iter().flat_map(|(workload, cases)| {
            cases
                .iter()
                .flat_map(|case| report::rows(case, Some(workload)))
        });
        output::csv(rows)?;
    }
    Ok(Exit::Done)
}

/// Measures a workload's cases; as text each is printed as soon as it is there.
fn measure(
    cli: &Cli,
    workload: &Workload,
    cases: Vec<Case>,
    (progress, interrupt): (&Progress, &Interrupt),
) -> anyhow::Result<Vec<Measured>> {
    let show = |text: String| -> anyhow::Result<()> {
        if cli.common.format == Format::Text {
            progress.suspend(|| output::text(&text))?;
        }
        Ok(())
    };
    show(format!("\n{}: {}\n", workload.name, workload.about))?;
    let mut measured = Vec::new();
    for case in cases {
        let case = case.measure(progress, interrupt)?;
        show(format!(
            "\n{} {}\n{}",
            workload.name,
            case.case,
            report::table(&case)
        ))?;
        measured.push(case);
    }
    Ok(measured)
}

/// The workloads asked for with the cases asked for.
fn chosen(cli: &Cli, setting: &Setting) -> anyhow::Result<Vec<(&'static Workload, Vec<Case>)>> {
    let mut unknown: BTreeSet<&str> = cli.cases.iter().map(String::as_str).collect();
    let mut chosen = Vec::new();
    for workload in workloads::ALL {
        if !cli.workloads.is_empty() && !cli.workloads.iter().any(|name| name == workload.name) {
            continue;
        }
        let mut cases = (workload.cases)(setting)?;
        if !cli.cases.is_empty() {
            cases.retain(|case| cli.cases.contains(&case.name));
        }
        for case in &cases {
            unknown.remove(case.name.as_str());
        }
        if !cases.is_empty() {
            chosen.push((workload, cases));
        }
    }
    match unknown.first() {
        Some(name) => {
            Err(Failure::new(Exit::Usage, format!("no case `{name}` in these workloads")).into())
        }
        None => Ok(chosen),
    }
}
