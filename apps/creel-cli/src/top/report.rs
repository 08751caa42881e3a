//! The whole run as one table, with a verdict; or as JSON and CSV.

use super::{pool_stats, sampler::Interval, threads::Thread, throttle::Periods};
use crate::pools::Pool;
use anyhow::Result;
use creel_console::{
    Align, Common, Format, Table,
    document::{BudgetFields, MachineFields, SCHEMA},
    output,
};
use creel_topology::{Budget, Machine};
use serde::Serialize;

/// What was seen.
#[derive(Serialize)]
pub struct Report {
    schema: u32,
    machine: MachineFields,
    budget: BudgetFields,
    seconds: f64,
    usable_workers: usize,
    /// Threads that ran or wanted to, on average over the looks.
    runnable_mean: f64,
    /// Periods in which the cgroup's quota stopped the program, of all periods.
    throttled: Option<Periods>,
    /// The program's exit code, or 128 + the signal that ended it; null while it runs.
    exit_code: Option<i32>,
    threads: Vec<Thread>,
    /// Those that let themselves be seen.
    pools: Vec<Pool>,
}

impl Report {
    pub fn new(mut whole: Interval, machine: &Machine, exit_code: Option<i32>) -> Self {
        let budget = Budget::of(machine);
        whole.threads.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        Self {
            schema: SCHEMA,
            machine: machine.into(),
            budget: (&budget).into(),
            seconds: whole.seconds,
            usable_workers: budget.workers(),
            runnable_mean: whole.runnable_mean,
            throttled: whole.throttled,
            exit_code,
            threads: whole.threads,
            pools: whole.pools,
        }
    }

    pub fn print(&self, verdict: &str, common: &Common) -> Result<()> {
        match common.format {
            Format::Text => output::text(&self.text(verdict))?,
            Format::Json => output::json(self)?,
            Format::Csv => output::csv(self.threads.iter())?,
        }
        Ok(())
    }

    fn text(&self, verdict: &str) -> String {
        let throttled = match &self.throttled {
            Some(periods) if periods.all > 0 => format!("throttled in {periods}\n"),
            _ => String::new(),
        };
        let pools = self.pools.iter().map(|pool| {
            let table = pool_stats::table(pool, self.seconds).text();
            format!("{}\n{table}\n", pool_stats::heading(pool, self.seconds))
        });
        let pools: String = pools.collect();
        format!("{}\n{pools}{throttled}{verdict}\n", self.table().text())
    }

    fn table(&self) -> Table {
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
        for t in &self.threads {
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

/// What the kernel tells; else at least those that were seen.
pub fn migrations(t: &Thread) -> String {
    t.migrations
        .map_or_else(|| format!("≥{}", t.moves_seen), |n| n.to_string())
}

/// The numbers behind the verdict, and the verdict.
pub fn verdict(whole: &Interval, usable: usize) -> String {
    format!(
        "{:.1} threads runnable on average, {usable} usable; runnable threads waited {:.0} % of \
         their time for a CPU:\n{}",
        whole.runnable_mean,
        whole.waiting() * 100.0,
        whole.diagnosis(usable)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
