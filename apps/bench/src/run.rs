//! Runs what the command line asks for: chooses the cases, measures them and writes the reports.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use creel_console::{Exit, Failure, Format, Interrupt, Progress, output};
use creel_topology::{Budget, Machine};

use crate::clock::DisturbanceMeter;
use crate::harness::Case;
use crate::host::Host;
use crate::report::{self, Report, Section};
use crate::rounds::{ExtraTime, InconclusiveBy, Measured};
use crate::setting::{Load, Setting};
use crate::workloads::{self, Workload};
use crate::{Cli, compare, hog, readme, record, sweep};

/// The report that a run of all workloads writes if the command line names no other.
const REPORT: &str = "creel-report.html";

/// The workloads that the user has chosen, and for each of them the cases to measure.
type Chosen = Vec<(&'static Workload, Vec<Case>)>;

/// The values of a sweep, and for each value the cases of a workload at that value.
type Points = Vec<(usize, Vec<Case>)>;

/// The state that all workloads of a run share.
struct Run<'a> {
    cli: &'a Cli,
    machine: Machine,
    budget: Budget,
    setting: Setting,
    progress: Progress,
    /// The time that is left for inconclusive subjects. Only `--full` limits it.
    extra_time: Option<ExtraTime>,
    interrupt: Interrupt,
    /// The report to compare with.
    old: Option<Report>,
    /// The report of the interrupted run that this run continues.
    kept: Option<Report>,
}

/// Runs what the command line asks for.
///
/// # Errors
///
/// Returns an error if the command line names an unknown workload or case, if a subject fails, if a
/// file cannot be read or written, or if the user interrupts the run. The cases that were measured
/// before the error are still printed and written to the reports.
pub fn run(cli: &Cli) -> anyhow::Result<Exit> {
    if let Some(file) = &cli.readme {
        return readme::write(file);
    }
    if let Some(file) = &cli.check_readme {
        return readme::check(file);
    }
    if let Some(python) = &cli.python {
        workloads::has_simulators(python)?;
    }
    let machine = Machine::detect()?;
    let budget = Budget::of(&machine);
    let budget = match cli.jobs {
        Some(jobs) => budget.explicit(jobs),
        None => budget,
    };
    let setting = setting(cli, &budget);
    let mut run = Run {
        cli,
        progress: Progress::share(0, cli.common.quiet || cli.from.is_some()),
        extra_time: cli.full.then(ExtraTime::new),
        interrupt: Interrupt::install()?,
        old: cli.compare.as_deref().map(Report::read).transpose()?,
        kept: cli.resume.as_deref().map(Report::read).transpose()?,
        machine,
        budget,
        setting,
    };
    if let Some(file) = &cli.from {
        if cli.names_something() || !cli.subjects.is_empty() {
            let message =
                "--from shows a whole report: name no workloads, cases or subjects with it";
            return Err(Failure::new(Exit::Usage, message.to_owned()).into());
        }
        let report = run.read(file)?;
        return run.finish(&report);
    }
    let mut report = Report::default();
    let measured = run.measure_all(&mut report);
    // We finish the reports even after an error. Otherwise, an error could cost the results of an
    // hour of measuring.
    let finished = match (&measured, report.sections.is_empty()) {
        (Err(_), true) => Ok(Exit::Done),
        _ => run.finish(&report),
    };
    measured.and(finished)
}

fn setting(cli: &Cli, budget: &Budget) -> Setting {
    let workers = match cli.load {
        Load::Oversubscribed => budget.workers() * 4,
        Load::Idle | Load::Busy => budget.workers(),
    };
    Setting {
        workers,
        quick: cli.quick || (!cli.full && !cli.names_something()),
        runs: cli.runs.map(usize::from),
        songs: cli.songs.clone(),
        python: cli.python.clone(),
        matrix: cli.matrix.clone(),
        items: None,
        work: None,
        cool_down: cli.cool_down.unwrap_or_default(),
    }
}

impl Cli {
    /// Returns whether the command line names workloads or cases.
    fn names_something(&self) -> bool {
        !(self.workloads.is_empty() && self.only.is_empty() && self.cases.is_empty())
    }

    /// Returns the workloads that are named, as positional arguments or with `--only`.
    fn named(&self) -> Vec<&str> {
        let names = workloads::names();
        let positional = self
            .workloads
            .iter()
            .map(|name| workloads::current_name(name));
        let positional = positional.filter(|name| names.contains(name));
        let only = self.only.iter().map(|name| workloads::current_name(name));
        positional.chain(only).collect()
    }

    /// Returns the cases that are named, as positional arguments or with `--case`.
    fn named_cases(&self) -> BTreeSet<&str> {
        let names = workloads::names();
        let positional = self.workloads.iter().map(String::as_str);
        let positional = positional.filter(|name| !names.contains(&workloads::current_name(name)));
        positional
            .chain(self.cases.iter().map(String::as_str))
            .collect()
    }
}

/// Reports the workloads that this system does not have. Returns an error if the command line names
/// one of them.
fn report_linux_only(cli: &Cli) -> anyhow::Result<()> {
    let mut names = cli.workloads.iter().chain(&cli.only);
    let is_linux_only = |name: &&String| {
        let name = workloads::current_name(name);
        workloads::LINUX_ONLY.contains(&name)
    };
    if let Some(name) = names.find(is_linux_only) {
        let message = format!(
            "cannot run the workload `{name}`: it needs Linux. Name another workload, which \
             `creel-bench --help` lists"
        );
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if !cli.names_something() {
        let names = workloads::LINUX_ONLY.join(", ");
        output::note(&format!(
            "not measured here, because they need Linux: {names}\n"
        ));
    }
    Ok(())
}

/// Returns the workloads and cases that the command line asks for.
fn chosen(cli: &Cli, setting: &Setting) -> anyhow::Result<Chosen> {
    let (named, named_cases) = (cli.named(), cli.named_cases());
    if cfg!(not(target_os = "linux")) {
        report_linux_only(cli)?;
    }
    let mut unknown = named_cases.clone();
    let mut chosen = Vec::new();
    for workload in workloads::ALL {
        let wanted = named.is_empty() || named.contains(&workload.name);
        let by_default = cli.names_something() || !workloads::OPT_IN.contains(&workload.name);
        if !(wanted && by_default) {
            continue;
        }
        let mut cases = (workload.cases)(setting)?;
        if !named_cases.is_empty() {
            cases.retain(|case| named_cases.contains(&*case.name));
        } else if setting.quick && !cli.names_something() {
            let quick_cases = workloads::quick_cases(workload.name, setting);
            cases.retain(|case| quick_cases.contains(&case.name));
        } else if setting.matrix.is_empty() {
            cases.retain(|case| !workloads::OPT_IN_CASES.contains(&&*case.name));
        }
        for case in &mut cases {
            unknown.remove(&*case.name);
            if !cli.subjects.is_empty() {
                case.retain_subjects(|name| cli.subjects.iter().any(|part| name.contains(part)));
            }
            if cli.load == Load::Busy {
                case.subjects = case.subjects.drain(..).map(hog::with_hog).collect();
            }
        }
        cases.retain(|case| !case.subjects.is_empty());
        if !cases.is_empty() {
            chosen.push((workload, cases));
        }
    }
    if let Some(name) = unknown.first() {
        let message = format!(
            "no workload and no case is called `{name}`: `creel-bench --help` lists the workloads, \
             and docs/benchmarks.md the cases"
        );
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let of_one = [
        ("--matrix", "render", !setting.matrix.is_empty()),
        ("--songs", "render", cli.songs.is_some()),
        ("--cool-down", "render", cli.cool_down.is_some()),
        ("--python", "traffic", cli.python.is_some()),
    ];
    for (option, name, is_given) in of_one {
        if is_given && chosen.iter().all(|(workload, _)| workload.name != name) {
            let message = format!("{option} has no effect without the workload {name}: add {name}");
            return Err(Failure::new(Exit::Usage, message).into());
        }
    }
    if chosen.is_empty() && !cli.subjects.is_empty() {
        let message = format!(
            "no subject has `{}` in its name: run the case without --subject to see the names",
            cli.subjects.join("` or `")
        );
        return Err(Failure::new(Exit::Usage, message).into());
    }
    Ok(chosen)
}

/// Returns the chosen cases, with the subjects of all values of a sweep merged into one set.
fn swept(cli: &Cli, setting: &Setting) -> anyhow::Result<Chosen> {
    let Some(values) = &cli.sweep else {
        return chosen(cli, setting);
    };
    let usage = |message: String| Failure::new(Exit::Usage, format!("--sweep {message}"));
    let numbers = values.numbers().map_err(usage)?;
    let mut points: Vec<(&'static Workload, Points)> = Vec::new();
    for number in numbers {
        let mut setting = setting.clone();
        match &*values.key {
            "workers" => setting.workers = number,
            "items" | "work" if !cli.named_cases().contains("article") => {
                let message = format!(
                    "{}: needs the case `article`: add --case article",
                    values.key
                );
                return Err(usage(message).into());
            }
            "items" => setting.items = Some(number),
            "work" => setting.work = Some(number),
            key => {
                let message = format!("{key}: expected one of {}", sweep::KEYS.join(", "));
                return Err(usage(message).into());
            }
        }
        for (workload, cases) in chosen(cli, &setting)? {
            match points
                .iter_mut()
                .find(|(other, _)| other.name == workload.name)
            {
                Some((_, all)) => all.push((number, cases)),
                None => points.push((workload, vec![(number, cases)])),
            }
        }
    }
    let merged = points.into_iter();
    Ok(merged
        .map(|(w, points)| (w, sweep::merged(&values.key, points)))
        .collect())
}

/// Says how long a run takes, without extra samples and with all of them.
fn duration_in_words(least: Duration, most: Duration) -> String {
    let minutes = |time: Duration| (time.as_secs_f64() / 60.0).round();
    if least.is_zero() {
        return "of unknown duration".into();
    }
    match (minutes(least), minutes(most)) {
        (_, most) if most < 2.0 => format!("about {:.0} seconds", least.as_secs_f64().ceil()),
        (least, most) if least < most => format!("about {least} to {most} minutes"),
        (_, most) => format!("about {most} minutes"),
    }
}

impl Run<'_> {
    /// Measures the chosen cases and adds them to the report. After an error, the report keeps the
    /// cases that were measured before.
    fn measure_all(&mut self, report: &mut Report) -> anyhow::Result<()> {
        let mut chosen = swept(self.cli, &self.setting)?;
        if let Some(text) = &self.cli.slow_down {
            for case in chosen.iter_mut().flat_map(|(_, cases)| cases) {
                let slow = |subject: crate::harness::Subject| {
                    if subject.name.contains(text) {
                        subject.slowed()
                    } else {
                        subject
                    }
                };
                case.subjects = case.subjects.drain(..).map(slow).collect();
            }
        }
        let host = Host::detect(&self.machine, &self.budget);
        let mut started_section = Vec::new();
        for (workload, cases) in &mut chosen {
            let section = self.started_section(workload, &host)?;
            cases.retain(|case| section.case(&case.name).is_none());
            let other = section.host.commit != host.commit && !section.rows.is_empty();
            if other && !cases.is_empty() && !self.cli.anyway {
                let message = format!(
                    "cannot resume {}: the report is from commit {} and this program from {} \
                     (--anyway resumes nevertheless)",
                    workload.name, section.host.commit, host.commit
                );
                return Err(Failure::new(Exit::BadData, message).into());
            }
            started_section.push(section);
        }
        let cases = chosen.iter().flat_map(|(_, cases)| cases);
        let estimated_duration: Duration = cases.map(Case::estimated_duration).sum();
        self.progress.add(estimated_duration.as_millis() as u64);
        self.show(&format!("{}\n", host.line().replace("; ", "\n")))?;
        self.show(&format!(
            "{} workers, bound by {}; {}\n",
            self.setting.workers,
            self.budget.bound_by(),
            duration_in_words(
                estimated_duration,
                estimated_duration.mul_f64(1.0 + ExtraTime::SHARE)
            )
        ))?;
        for ((workload, cases), mut section) in chosen.into_iter().zip(started_section) {
            let measured = self.measure(workload, cases, &mut section);
            if !section.rows.is_empty() {
                self.export_json(&section)?;
                report.sections.push(section);
            }
            measured?;
        }
        Ok(())
    }

    /// Returns a workload's section from the interrupted run, or an empty one.
    fn started_section(&self, workload: &Workload, host: &Host) -> anyhow::Result<Section> {
        let empty = Section {
            host: host.clone(),
            load: self.cli.load,
            quick: self.setting.quick,
            workers: self.setting.workers,
            workload: workload.name.into(),
            disturbance: None,
            noise: Vec::new(),
            rows: Vec::new(),
        };
        let kept = self.kept.as_ref();
        let Some(kept) = kept.and_then(|kept| kept.section(workload.name)) else {
            return Ok(empty);
        };
        let mismatches = compare::mismatches(kept, &empty);
        if mismatches.is_empty() {
            return Ok(kept.clone());
        }
        let message = format!(
            "cannot resume {}: the report was measured under different conditions. Measure \
             under the old ones, or start again without --resume:\n  {}",
            workload.name,
            mismatches.join("\n  ")
        );
        Err(Failure::new(Exit::BadData, message).into())
    }

    /// Measures a workload's cases and prints each as soon as it is measured.
    fn measure(
        &mut self,
        workload: &'static Workload,
        cases: Vec<Case>,
        section: &mut Section,
    ) -> anyhow::Result<()> {
        let Workload { name, about, .. } = workload;
        self.show(&format!("\n{name}: {about}\n"))?;
        for case in section.cases() {
            self.show_case(section, case.name)?;
        }
        let before = section.disturbance;
        let old = self.old.as_ref().and_then(|old| old.section(name));
        let watch = DisturbanceMeter::start();
        for case in cases {
            let inconclusive_by = |measured: &Measured| {
                let Some(old) = old else {
                    return Vec::new();
                };
                let mut now = Section {
                    rows: Vec::new(),
                    noise: Vec::new(),
                    ..section.clone()
                };
                now.add(measured);
                let cases = now.cases();
                cases
                    .first()
                    .map_or(Vec::new(), |case| compare::inconclusive(old, case))
            };
            // With --runs, the user has chosen the number of rounds, so there are no extra samples.
            let inconclusive_by: Option<InconclusiveBy> =
                self.cli.runs.is_none().then_some(&inconclusive_by);
            let measured = case.measure(
                &self.progress,
                &self.interrupt,
                inconclusive_by,
                self.extra_time.as_mut(),
            )?;
            section.add(&measured);
            section.disturbance = match (before, watch.disturbance()) {
                (Some(before), Some(now)) => Some(before.or_worse(now)),
                (before, now) => before.or(now),
            };
            self.show_case(section, &measured.case)?;
        }
        if let Some(warning) = section.disturbance.and_then(|d| d.warning()) {
            self.progress.println(&format!("creel-bench: {warning}"));
        }
        Ok(())
    }

    /// Reads the report of an earlier run and prints it as if it had just been measured.
    fn read(&self, file: &std::path::Path) -> anyhow::Result<Report> {
        let report = Report::read(file)?;
        for section in &report.sections {
            self.export_json(section)?;
            for case in section.cases() {
                self.show_case(section, case.name)?;
            }
        }
        Ok(report)
    }

    fn show_case(&self, section: &Section, name: &str) -> anyhow::Result<()> {
        let Some(case) = section.case(name) else {
            return Ok(());
        };
        let noise = section.noise.iter().find(|noise| noise.case == name);
        let noise = noise.map_or(String::new(), |noise| {
            format!("; noise up to {:.1} %", (noise.floor - 1.0) * 100.0)
        });
        let heading = format!("\n{} {name}: {}{noise}\n", section.workload, case.unit());
        self.show(&heading)?;
        let columns = output::columns().map_or(report::COLUMNS, |all| all.min(report::COLUMNS));
        self.show(&report::table(&case, columns).text())?;
        self.show(&report::of_a_sweep(&case))
    }

    /// Prints the findings, writes the reports and the record, and compares with an old report.
    fn finish(&self, report: &Report) -> anyhow::Result<Exit> {
        let (machine, budget) = (&self.machine, &self.budget);
        if self.cli.common.format == Format::Csv {
            output::text(&report.csv()?)?;
        }
        let findings = report.findings();
        if !findings.is_empty() {
            self.show(&format!("\n{findings}"))?;
        }
        let mut files = self.cli.report.clone();
        let all = !self.cli.names_something() && self.cli.from.is_none();
        if files.is_empty() && all && self.cli.common.format == Format::Text {
            files.push(PathBuf::from(REPORT));
        }
        for file in &files {
            report.write(file, machine, budget)?;
            self.progress
                .println(&format!("creel-bench: wrote {}", file.display()));
        }
        if let Some(folder) = &self.cli.record {
            let folder = record::write(folder, report, machine, budget)?;
            self.progress
                .println(&format!("creel-bench: wrote {}", folder.display()));
            if report.sections.iter().any(|section| section.quick) {
                let note = "creel-bench: --readme cannot use this record, because its samples are \
                            short: use --full";
                self.progress.println(note);
            }
        }
        match &self.old {
            Some(old) => self.compare(old, report),
            None => Ok(Exit::Done),
        }
    }

    fn compare(&self, old: &Report, new: &Report) -> anyhow::Result<Exit> {
        let comparison = compare::reports(old, new);
        if comparison.compared == 0 {
            let message = "cannot compare the reports: they have no case in which the same subject \
                           of Creel and the same baseline have two or more samples each. \
                           Use --runs 2 or more";
            return Err(Failure::new(Exit::BadData, message.to_owned()).into());
        }
        if !comparison.mismatches.is_empty() && !self.cli.anyway {
            let message = format!(
                "cannot compare the reports, because the conditions differ (--anyway compares \
                 nevertheless):\n  \
                 {}",
                comparison.mismatches.join("\n  ")
            );
            return Err(Failure::new(Exit::BadData, message).into());
        }
        // If stdout has JSON or CSV, we print this on stderr, so that programs can parse stdout.
        let text = format!("\n{}", comparison.text());
        match self.cli.common.format {
            Format::Text => self.show(&text)?,
            Format::Json | Format::Csv => self.progress.suspend(|| output::note(&text)),
        }
        Ok(if comparison.is_worse() {
            Exit::SomeFailed
        } else {
            Exit::Done
        })
    }

    fn show(&self, text: &str) -> anyhow::Result<()> {
        if self.cli.common.format == Format::Text {
            self.progress.suspend(|| output::text(text))?;
        }
        Ok(())
    }

    /// With `--format json`, prints one line per workload, so that programs can parse one or
    /// several in the same way.
    fn export_json(&self, section: &Section) -> anyhow::Result<()> {
        if self.cli.common.format == Format::Json {
            let document = section.document(&self.machine, &self.budget);
            output::json_line(&document)?;
        }
        Ok(())
    }
}
