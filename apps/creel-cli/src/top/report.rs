//! Prints the report of `creel top` on the whole run: a table with a verdict, JSON or CSV.

use super::{
    pool_stats,
    sampler::{Interval, Process},
    threads::Thread,
    throttle::Periods,
    verdict::Verdict,
    waits::{self, Waiting},
};
use crate::options::limits;
use crate::pools::Pool;
use anyhow::Result;
use creel_console::{
    Align, Common, Format, Table,
    document::{BudgetFields, MachineFields, SCHEMA},
    output,
};
use creel_topology::{Budget, Machine};
use serde::Serialize;

/// The figures of the whole run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    schema: u32,
    machine: MachineFields,
    budget: BudgetFields,
    seconds: f64,
    usable_workers: usize,
    /// The number of runnable threads, running or waiting for a CPU, on average over the samples.
    runnable_mean: f64,
    /// The number of periods in which the quota of the cgroup stopped the program, and the number
    /// of all periods.
    throttled: Option<Periods>,
    /// The exit code of the program, or 128 plus the signal that ended it. It is null while the
    /// program runs.
    exit_code: Option<i32>,
    /// The reason why the program is not faster.
    verdict: Verdict,
    /// The processes, each with a verdict of its own.
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// The Creel pools of the program that are observable, see `creel::Observe`.
    pools: Vec<Pool>,
    /// What the sleeping threads wait for, at the end of the run.
    waits: Vec<Waiting>,
    /// Every limit on the number of workers, a line each, for `--verbose`.
    #[serde(skip)]
    limits: String,
}

impl Report {
    pub fn new(
        mut whole: Interval,
        machine: &Machine,
        budget: &Budget,
        exit_code: Option<i32>,
    ) -> Self {
        let usable = budget.workers();
        let (verdict, processes) = (whole.verdict(usable), whole.processes(usable));
        whole.threads.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        Self {
            schema: SCHEMA,
            machine: machine.into(),
            budget: budget.into(),
            seconds: whole.seconds,
            usable_workers: usable,
            runnable_mean: whole.runnable_mean,
            throttled: whole.throttled,
            exit_code,
            verdict,
            processes,
            threads: whole.threads,
            pools: whole.pools,
            waits: whole.waits,
            limits: limits(budget),
        }
    }

    pub fn print(&self, verdict: &str, common: &Common, verbose: bool) -> Result<()> {
        match common.format {
            Format::Text => {
                let limits = if verbose { &self.limits } else { "" };
                output::text(&format!("{}{limits}", self.text(verdict, verbose)))?;
            }
            Format::Json => output::json(self)?,
            Format::Csv => output::csv(self.threads.iter())?,
        }
        Ok(())
    }

    /// Returns the tables and the verdict. Threads that have done nothing appear only with `all`.
    fn text(&self, verdict: &str, all: bool) -> String {
        let throttled = match &self.throttled {
            Some(periods) if periods.all > 0 => format!("throttled in {periods}\n"),
            _ => String::new(),
        };
        let pools = self.pools.iter().map(|pool| {
            let table = pool_stats::table(pool, self.seconds).text();
            format!("{}\n{table}\n", pool_stats::heading(pool, self.seconds))
        });
        let pools: String = pools.collect();
        let shown: Vec<&Thread> = self
            .threads
            .iter()
            .filter(|t| all || t.is_active())
            .collect();
        let idle = match self.threads.len() - shown.len() {
            0 => String::new(),
            1 => "1 thread that did nothing is not shown (-v shows it)\n".into(),
            n => format!("{n} threads that did nothing are not shown (-v shows them)\n"),
        };
        let processes = match self
            .processes
            .iter()
            .filter(|p| all || p.is_active())
            .count()
        {
            0 | 1 => String::new(),
            _ => format!("{}\n", self.process_table(all).text()),
        };
        let threads = self.table(&shown).text();
        format!("{threads}{idle}\n{processes}{pools}{throttled}{verdict}\n")
    }

    /// Returns a row with a verdict for each process.
    fn process_table(&self, all: bool) -> Table {
        let right = |title| (title, Align::Right);
        let mut table = Table::new(&[
            right("process"),
            ("name", Align::Left),
            right("threads"),
            right("runnable"),
            right("CPU %"),
            right("wait %"),
            ("verdict", Align::Left),
        ]);
        let percent = |s: f64| format!("{:.1}", s / self.seconds.max(1e-9) * 100.0);
        for p in self.processes.iter().filter(|p| all || p.is_active()) {
            table.row([
                p.pid.to_string(),
                p.name.clone(),
                p.threads.to_string(),
                format!("{:.1}", p.runnable_mean),
                percent(p.cpu_s),
                percent(p.waited_s),
                p.verdict.text().into(),
            ]);
        }
        table
    }

    fn table(&self, threads: &[&Thread]) -> Table {
        let right = |title| (title, Align::Right);
        let mut table = Table::new(&[
            right("thread"),
            ("name", Align::Left),
            right("PU"),
            right("CPU %"),
            right("sys %"),
            right("wait %"),
            right("vol."),
            right("invol."),
            right("migr."),
        ]);
        let percent = |s: f64| format!("{:.1}", s / self.seconds.max(1e-9) * 100.0);
        for t in threads {
            table.row([
                t.tid.to_string(),
                t.name.clone(),
                t.cpu.to_string(),
                percent(t.cpu_s),
                format!("{:.0}", t.sys_share * 100.0),
                percent(t.waited_s),
                t.voluntary.to_string(),
                t.involuntary.to_string(),
                migrations(t),
            ]);
        }
        table
    }
}

/// Returns the number of migrations as the kernel counts it. If the kernel does not report it, we
/// return the number that we have seen, which is a lower bound.
pub fn migrations(t: &Thread) -> String {
    t.migrations
        .map_or_else(|| format!("≥{}", t.moves_seen), |n| n.to_string())
}

/// Returns the verdict, after the numbers that it is based on.
pub fn verdict(whole: &Interval, usable: usize) -> String {
    format!(
        "{:.1} threads runnable on average, {usable} usable; runnable threads waited {:.0} % of \
         their time for a CPU\nverdict: {}",
        whole.runnable_mean,
        whole.waiting() * 100.0,
        verdict_text(whole, usable)
    )
}

/// Returns the verdict in words. A program that does not run waits for something.
pub fn verdict_text(interval: &Interval, usable: usize) -> String {
    let verdict = interval.verdict(usable);
    let waits = waits::text(&interval.waits);
    match verdict {
        Verdict::Idle | Verdict::Blocked if !waits.is_empty() => {
            format!("{}: {waits}", verdict.text())
        }
        _ => verdict.text().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-top", schemars::schema_for!(Report));
    }

    #[test]
    fn observed_moves_are_a_lower_bound_for_migrations() {
        let printed = |migrations| {
            super::migrations(&Thread {
                migrations,
                moves_seen: 3,
                ..Thread::default()
            })
        };
        assert_eq!(printed(Some(5)), "5");
        assert_eq!(printed(None), "≥3");
    }
}
