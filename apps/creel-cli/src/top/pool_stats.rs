//! The figures of the pools of a Creel program, if the program allows others to observe it. A line
//! and a table show each pool.

use crate::pools::{self, Pool, Worker};
use creel_console::{Align, Table};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The shortest time between two queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);

/// The pools of the watched processes, by the name of their socket.
#[derive(Default)]
pub struct PoolStats {
    asked: Option<Instant>,
    first: BTreeMap<String, Pool>,
    /// The last answer of each pool, including pools that no longer exist.
    last: BTreeMap<String, Pool>,
    now: BTreeMap<String, Pool>,
    interval: BTreeMap<String, Pool>,
}

impl PoolStats {
    /// Queries the pools, unless the last query was less than `QUERY_INTERVAL` ago.
    pub fn sample(&mut self, pids: &[u32]) {
        if self.asked.is_some_and(|at| at.elapsed() < QUERY_INTERVAL) {
            return;
        }
        let is_first = self.asked.replace(Instant::now()).is_none();
        self.record(pools::query(pids), is_first);
    }

    fn record(&mut self, answers: Vec<Pool>, is_first: bool) {
        let named = |pool: Pool| (pool.socket.clone(), pool);
        self.now = answers.into_iter().map(named).collect();
        if is_first {
            // These pools are older than the first interval.
            self.interval.clone_from(&self.now);
        }
        for (socket, pool) in &self.now {
            let first = self.first.entry(socket.clone());
            first.or_insert_with(|| pool.clone());
            self.last.insert(socket.clone(), pool.clone());
        }
    }

    /// Returns the figures of each pool since its first answer.
    pub fn whole(&self) -> Vec<Pool> {
        since(&self.last, &self.first)
    }

    /// Returns the figures of the existing pools since the last call.
    pub fn interval(&mut self) -> Vec<Pool> {
        let interval = since(&self.now, &self.interval);
        self.interval.clone_from(&self.now);
        interval
    }
}

fn since(now: &BTreeMap<String, Pool>, before: &BTreeMap<String, Pool>) -> Vec<Pool> {
    let each = now.iter().map(|(socket, pool)| {
        // A pool without an earlier answer is new, so all its counts belong to this interval.
        before
            .get(socket)
            .map_or_else(|| pool.clone(), |b| pool.since(b))
    });
    each.collect()
}

/// Returns the line with the name of the pool and the figures of its tasks.
pub fn heading(pool: &Pool, seconds: f64) -> String {
    let rate = |n: u64| rate(n, seconds);
    let tasks = &pool.tasks;
    format!(
        "pool {}: {} workers, {}, {}; per second: {} tasks, {} polls, {} stolen",
        pool.name,
        pool.workers.len(),
        pool.wait,
        pool.balance,
        rate(tasks.finished),
        rate(tasks.polls),
        rate(tasks.steals),
    )
}

/// Returns a table with a row per worker. The counts are per second.
pub fn table(pool: &Pool, seconds: f64) -> Table {
    let right = |title| (title, Align::Right);
    let mut table = Table::new(&[
        right("worker"),
        ("state", Align::Left),
        ("PUs", Align::Left),
        right("spin%"),
        right("wakes"),
        right("items"),
        right("stolen"),
        right("jobs"),
        right("timers"),
        right("events"),
    ]);
    for worker in &pool.workers {
        table.row(row(worker, seconds));
    }
    table
}

fn row(worker: &Worker, seconds: f64) -> [String; 10] {
    let rate = |n: u64| rate(n, seconds);
    let spun = worker.spun_ns as f64 / 1e9 / seconds.max(1e-9);
    [
        worker.worker.to_string(),
        worker.state.clone(),
        worker.cpus.clone(),
        format!("{:.0}", spun * 100.0),
        rate(worker.parks),
        rate(worker.loop_items),
        rate(worker.steals),
        rate(worker.inbox),
        rate(worker.timers),
        rate(worker.events),
    ]
}

/// Formats a count per second in a few characters.
fn rate(count: u64, seconds: f64) -> String {
    let rate = count as f64 / seconds.max(1e-9);
    match rate {
        r if r >= 1e7 => format!("{:.0}M", r / 1e6),
        r if r >= 1e4 => format!("{:.0}k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::Tasks;

    #[test]
    fn the_first_interval_starts_at_the_first_query_or_when_a_pool_starts() {
        let pool = |socket: &str, spawned| Pool {
            socket: socket.into(),
            tasks: Tasks {
                spawned,
                ..Tasks::default()
            },
            ..Pool::default()
        };
        let mut stats = PoolStats::default();
        stats.record(vec![pool("old", 1000)], true);
        stats.record(vec![pool("new", 5), pool("old", 1007)], false);
        let counts = |pools: Vec<Pool>| pools.iter().map(|p| p.tasks.spawned).collect::<Vec<_>>();
        assert_eq!(counts(stats.interval()), [5, 7]);
        assert_eq!(counts(stats.interval()), [0, 0]);
        assert_eq!(counts(stats.whole()), [0, 7]);
    }

    #[test]
    fn worker_rows_fit_eighty_columns() {
        let most = 9_999_999_999;
        let worker = |worker| Worker {
            worker,
            state: "unstarted".into(),
            cpus: "10-19".into(),
            inbox: most,
            timers: most,
            events: most,
            parks: most,
            loop_items: most,
            steals: most,
            spun_ns: 1_000_000_000,
            ..Worker::default()
        };
        let pool = Pool {
            workers: (0..100).map(worker).collect(),
            ..Pool::default()
        };
        for line in table(&pool, 1.0).plain().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
