//! Prints the recommendation of `creel advise` as text, JSON or CSV.

use super::{
    Candidate,
    search::{Cost, Dropped, ROUNDS_LEAST, Runs},
};
use crate::run::export::{Target, export, quoted};
use anyhow::Result;
use creel_console::{Align, Common, Format, Table, document::SCHEMA, output};
use serde::Serialize;
use std::ffi::OsString;

/// The document that `--format json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    schema: u32,
    program: String,
    /// The settings in the order in which they were added. The first is the program without creel.
    settings: Vec<Row>,
    /// The index of the recommended setting.
    best: usize,
    /// The recommendation as lines to copy. They are empty if the program is best as it is.
    command: String,
    /// The recommendation as a line of shell that does not use creel.
    shell: String,
    systemd: String,
    dockerfile: String,
    /// Whether several settings were still in doubt at the end.
    #[serde(skip)]
    is_in_doubt: bool,
}

/// One setting. It is also a row of the CSV.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    setting: String,
    /// The number of workers, or null for the program without creel.
    workers: Option<usize>,
    placement: String,
    runs: usize,
    /// The medians of the runs.
    wall_s: Option<f64>,
    cpu_s: Option<f64>,
    peak_rss_bytes: Option<f64>,
    /// The wall time divided by that of the program without creel, with its 95 % interval.
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    /// The exit code of a run that has failed. Such a setting is never recommended.
    failed_exit_code: Option<i32>,
    /// The time after which creel has ended a run, because it took several times as long as the
    /// program without creel.
    stopped_s: Option<f64>,
}

impl Report {
    pub fn new(all: &[Candidate], runs: &[Runs], best: usize, command: &[OsString]) -> Self {
        let rows = all.iter().zip(runs).map(|(c, r)| row(c, r, &runs[0]));
        let words: Vec<String> = command
            .iter()
            .map(|w| quoted(&w.to_string_lossy()))
            .collect();
        let program = words.join(" ");
        let chosen = &all[best];
        let exported = |target| {
            let plan = chosen.plan.as_ref();
            plan.map_or_else(String::new, |plan| export(plan, target))
        };
        let options = match (chosen.setting.jobs, chosen.setting.placement.to_string()) {
            (None, _) => String::new(),
            (Some(n), placement) if placement == "unpinned" => format!("creel run --jobs {n} -- "),
            (Some(n), placement) => format!("creel run --jobs {n} --placement {placement} -- "),
        };
        Self {
            schema: SCHEMA,
            settings: rows.collect(),
            best,
            command: format!("{options}{program}"),
            shell: shell(chosen, command),
            systemd: exported(Target::Systemd),
            dockerfile: exported(Target::Dockerfile),
            program,
            is_in_doubt: runs.iter().filter(|runs| runs.is_open()).count() > 1,
        }
    }

    pub fn print(&self, common: &Common) -> Result<()> {
        match common.format {
            Format::Text => output::text(&self.text())?,
            Format::Json => output::json(self)?,
            Format::Csv => output::csv(self.settings.iter())?,
        }
        Ok(())
    }

    fn text(&self) -> String {
        let right = |title| (title, Align::Right);
        let mut table = Table::new(&[
            ("setting", Align::Left),
            right("runs"),
            right("wall"),
            right("ratio"),
            right("user + sys"),
            right("peak memory"),
        ]);
        for row in &self.settings {
            let ratio = match (row.ratio, row.ratio_low, row.ratio_high) {
                _ if !row.failure().is_empty() => row.failure(),
                (Some(r), Some(low), Some(high)) => format!("{r:.3} ({low:.3} to {high:.3})"),
                (Some(r), ..) => format!("{r:.3}"),
                _ => String::new(),
            };
            let shown =
                |value: Option<f64>, unit: fn(f64) -> String| value.map_or_else(String::new, unit);
            let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
            table.row([
                row.setting.clone(),
                row.runs.to_string(),
                shown(row.wall_s, ms),
                ratio,
                shown(row.cpu_s, ms),
                shown(row.peak_rss_bytes, |b| format!("{:.1} MiB", b / 1048576.0)),
            ]);
        }
        format!("{}\n{}{}", table.text(), self.advice(), self.doubt())
    }

    /// Returns a sentence if the budget was too small for a certain answer.
    fn doubt(&self) -> String {
        let rounds = self.settings[0].runs;
        if !self.is_in_doubt || rounds >= ROUNDS_LEAST {
            return String::new();
        }
        format!(
            "\nThere was only time for {rounds} of each setting, so only large differences show. A \
             larger --budget shows more.\n",
            rounds = match rounds {
                1 => "one run".into(),
                n => format!("{n} runs"),
            }
        )
    }

    fn advice(&self) -> String {
        let (own, best) = (&self.settings[0], &self.settings[self.best]);
        if self.best == 0 {
            return "best: as it is. No setting is better beyond noise.\n".into();
        }
        let share = |a: Option<f64>, b: Option<f64>| Some(a? / b? * 100.0);
        let percent = |share: Option<f64>| match share {
            Some(p) if p < 0.95 => format!("{p:.1} %"),
            Some(p) => format!("{p:.0} %"),
            None => "an unknown share".into(),
        };
        let mut text = match (own.failed_exit_code, own.stopped_s) {
            (Some(code), _) => format!(
                "best: {}. As it is, the program fails with exit code {code}.\n",
                best.setting
            ),
            (None, Some(s)) => format!(
                "best: {}. As it is, the program takes more than {s:.1} s.\n",
                best.setting
            ),
            (None, None) => format!(
                "best: {}, with {} of the time, {} of the CPU time and {} of the memory\n",
                best.setting,
                // The ratio of the table. That of the medians may differ.
                percent(best.ratio.map(|ratio| ratio * 100.0)),
                percent(share(best.cpu_s, own.cpu_s)),
                percent(share(best.peak_rss_bytes, own.peak_rss_bytes)),
            ),
        };
        let mut part = |title: &str, lines: &str| {
            if !lines.trim().is_empty() {
                text += &format!("\n{title}\n");
                lines
                    .lines()
                    .for_each(|line| text += &format!("  {line}\n"));
            }
        };
        part("with creel:", &self.command);
        part("without creel:", &self.shell);
        part("in a unit file, under [Service]:", &self.systemd);
        part("in a Dockerfile:", &self.dockerfile);
        text
    }
}

/// Returns the command with its settings, for a shell.
fn shell(chosen: &Candidate, command: &[OsString]) -> String {
    let Some(plan) = &chosen.plan else {
        return String::new();
    };
    let mask = plan.mask.as_ref().map(|mask| format!("taskset -c {mask}"));
    let variables = plan
        .variables()
        .map(|(name, value)| format!("{name}={}", quoted(&value.to_string_lossy())));
    let words = plan.command(command);
    let words = words.iter().map(|word| quoted(&word.to_string_lossy()));
    // Assignments come first, because `taskset` would take them for programs.
    let parts: Vec<String> = variables.chain(mask).chain(words).collect();
    parts.join(" ")
}

fn row(candidate: &Candidate, runs: &Runs, own: &Runs) -> Row {
    let median = |figure: fn(&Cost) -> f64| Some(runs.median(figure)).filter(|m| m.is_finite());
    let ratio = runs.ratio(own);
    // The interval of a single pair is infinite.
    let interval = ratio
        .map(|r| r.interval())
        .filter(|(_, high)| high.is_finite());
    Row {
        setting: candidate.setting.to_string(),
        workers: candidate.setting.jobs,
        placement: candidate.setting.placement.to_string(),
        runs: runs.costs.len(),
        wall_s: median(|cost| cost.wall_s),
        cpu_s: median(|cost| cost.cpu_s),
        peak_rss_bytes: median(|cost| cost.peak_bytes),
        ratio: ratio.map(|ratio| ratio.factor()),
        ratio_low: interval.map(|(low, _)| low),
        ratio_high: interval.map(|(_, high)| high),
        failed_exit_code: match runs.dropped {
            Some(Dropped::Failed(code)) => Some(code),
            _ => None,
        },
        stopped_s: match runs.dropped {
            Some(Dropped::Stopped(after)) => Some(after.as_secs_f64()),
            _ => None,
        },
    }
}

impl Row {
    /// Returns why the setting cannot be recommended.
    fn failure(&self) -> String {
        match (self.failed_exit_code, self.stopped_s) {
            (Some(code), _) => format!("failed, exit code {code}"),
            (None, Some(s)) => format!("ended after {s:.1} s"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-advise", schemars::schema_for!(Report));
    }
}
