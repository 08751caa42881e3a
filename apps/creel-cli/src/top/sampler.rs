//! Samples the threads of a program, and sums up their figures since the start and in each
//! interval.

use super::{
    pool_stats::PoolStats,
    threads::{self, Thread},
    throttle::{Periods, Throttled},
};
use crate::{pools::Pool, process};
use anyhow::Result;
use creel_console::{Exit, Failure};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

/// A program with less CPU time than this share of one CPU is idle. Its number of threads is then
/// irrelevant.
const IDLE: f64 = 0.02;

/// The number of samples that a lane keeps, and the number of intervals that the sparkline keeps.
const HISTORY: usize = 512;

/// The thread that ran on a PU in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneSample {
    Nobody,
    One(u32),
    /// Several threads were runnable on the PU.
    Several,
}

pub struct Sampler {
    pid: u32,
    begin: Instant,
    pub usable: usize,
    first: BTreeMap<u32, Thread>,
    /// The last sample of each thread, including threads that have ended.
    last: BTreeMap<u32, Thread>,
    /// The threads in the last sample.
    now: BTreeMap<u32, Thread>,
    /// The time of the last sample.
    sampled_at: Instant,
    /// The ended threads that an earlier interval has reported.
    ended_threads: BTreeSet<u32>,
    throttled: Option<Throttled>,
    samples: u64,
    /// The sum of the number of runnable threads over all samples.
    runnable: u64,
    interval: IntervalStart,
    /// The last samples of each PU, the newest last.
    pub lanes: BTreeMap<usize, VecDeque<LaneSample>>,
    /// The share of throttled periods in each of the last intervals.
    pub throttling: VecDeque<f64>,
    pool_stats: PoolStats,
}

/// The state at the start of the current interval.
struct IntervalStart {
    begin: Instant,
    threads: BTreeMap<u32, Thread>,
    periods: Option<Periods>,
    samples: u64,
    runnable: u64,
}

/// The figures of a period of time.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    pub seconds: f64,
    pub runnable_mean: f64,
    pub throttled: Option<Periods>,
    /// The figures of the threads: of the existing ones for an interval, of all for the whole run.
    pub threads: Vec<Thread>,
    /// The CPU time and the time waiting for a CPU of threads that have ended in the interval, in
    /// seconds. These threads are not in `threads`.
    pub ended_s: (f64, f64),
    /// The figures of the observable pools.
    pub pools: Vec<Pool>,
}

impl Sampler {
    pub fn begin(pid: u32, usable: usize, pus: impl Iterator<Item = usize>) -> Result<Self> {
        // We include the children, so that the figures exclude everything before the start.
        let first = threads::sample(&process_tree(pid));
        if first.is_empty() {
            return Err(Failure::new(
                Exit::Usage,
                format!("cannot watch process {pid}: there is no process with this number"),
            )
            .into());
        }
        let throttled = Throttled::begin(pid);
        let now = Instant::now();
        Ok(Self {
            pid,
            begin: now,
            usable,
            last: first.clone(),
            now: first.clone(),
            sampled_at: now,
            ended_threads: BTreeSet::new(),
            interval: IntervalStart {
                begin: now,
                threads: first.clone(),
                periods: throttled.as_ref().map(Throttled::since),
                samples: 0,
                runnable: 0,
            },
            first,
            throttled,
            samples: 0,
            runnable: 0,
            lanes: pus.map(|pu| (pu, VecDeque::new())).collect(),
            throttling: VecDeque::new(),
            pool_stats: PoolStats::default(),
        })
    }

    /// Takes one sample. Returns whether the program still has threads.
    pub fn sample(&mut self) -> bool {
        let pids = process_tree(self.pid);
        self.pool_stats.sample(&pids);
        self.sampled_at = Instant::now();
        let mut now = threads::sample(&pids);
        for thread in now.values_mut() {
            if let Some(before) = self.last.get(&thread.tid) {
                let moved = u64::from(before.cpu != thread.cpu);
                thread.moves_seen = before.moves_seen + moved;
            }
        }
        self.samples += 1;
        self.runnable += now.values().filter(|t| t.runnable()).count() as u64;
        self.see(&now);
        self.last.extend(now.clone());
        self.now = now;
        !self.now.is_empty()
    }

    /// Adds a sample to the lanes.
    fn see(&mut self, now: &BTreeMap<u32, Thread>) {
        for (pu, lane) in &mut self.lanes {
            let mut running = now.values().filter(|t| t.runnable() && t.cpu == *pu);
            let seen = match (running.next(), running.next()) {
                (None, _) => LaneSample::Nobody,
                (Some(thread), None) => LaneSample::One(thread.tid),
                _ => LaneSample::Several,
            };
            push(lane, seen);
        }
    }

    /// Returns the figures since the start, including those of ended threads.
    pub fn whole(&self) -> Interval {
        Interval {
            seconds: self.begin.elapsed().as_secs_f64(),
            runnable_mean: self.runnable as f64 / self.samples.max(1) as f64,
            throttled: self.throttled.as_ref().map(Throttled::since),
            threads: since(&self.last, &self.first, f64::INFINITY),
            ended_s: (0.0, 0.0),
            pools: self.pool_stats.whole(),
        }
    }

    /// Returns the figures since the last call, for the existing threads.
    pub fn interval(&mut self) -> Interval {
        let periods = self.throttled.as_ref().map(Throttled::since);
        let throttled = periods
            .zip(self.interval.periods)
            .map(|(now, then)| Periods {
                all: now.all.saturating_sub(then.all),
                throttled: now.throttled.saturating_sub(then.throttled),
            });
        let samples = self.samples - self.interval.samples;
        // The interval lasts from sample to sample, as the figures of the threads do.
        let seconds = (self.sampled_at - self.interval.begin).as_secs_f64();
        let interval = Interval {
            seconds,
            ended_s: self.ended(seconds),
            runnable_mean: (self.runnable - self.interval.runnable) as f64 / samples.max(1) as f64,
            throttled,
            threads: since(&self.now, &self.interval.threads, seconds),
            pools: self.pool_stats.interval(),
        };
        if let Some(periods) = throttled {
            let share = periods.throttled as f64 / periods.all.max(1) as f64;
            push(&mut self.throttling, share);
        }
        self.interval = IntervalStart {
            begin: self.sampled_at,
            threads: self.now.clone(),
            periods,
            samples: self.samples,
            runnable: self.runnable,
        };
        interval
    }

    /// Returns the CPU time and the waiting time of threads that have ended in this interval, as
    /// far as the samples show it.
    fn ended(&mut self, seconds: f64) -> (f64, f64) {
        self.ended_threads.retain(|tid| !self.now.contains_key(tid));
        let ended = self.last.iter();
        let ended = ended
            .filter(|(tid, _)| !self.now.contains_key(tid) && !self.ended_threads.contains(tid));
        let ended: BTreeMap<u32, Thread> = ended.map(|(tid, t)| (*tid, t.clone())).collect();
        self.ended_threads.extend(ended.keys());
        let did = since(&ended, &self.interval.threads, seconds);
        let sum = |figure: fn(&Thread) -> f64| did.iter().map(figure).sum();
        (sum(|t| t.cpu_s), sum(|t| t.waited_s))
    }

    pub fn elapsed_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }
}

/// Returns a process and its descendants. We exclude our own process, because a watched shell may
/// have started it.
fn process_tree(pid: u32) -> Vec<u32> {
    let own = std::process::id();
    let mut pids = process::descendants(pid);
    pids.retain(|&pid| pid != own);
    pids.push(pid);
    pids
}

fn push<T>(history: &mut VecDeque<T>, value: T) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}

/// Returns the difference of each thread to `before`, with times limited to `seconds`. The limit is
/// necessary because the accounts of the kernel lag behind by a tick and catch up in the next
/// interval.
fn since(now: &BTreeMap<u32, Thread>, before: &BTreeMap<u32, Thread>, seconds: f64) -> Vec<Thread> {
    let none = Thread::default();
    let each = now.values().map(|t| {
        let did = t.since(before.get(&t.tid).unwrap_or(&none));
        let cpu_s = did.cpu_s.min(seconds);
        Thread {
            cpu_s,
            waited_s: did.waited_s.min(seconds - cpu_s),
            ..did
        }
    });
    each.collect()
}

impl Interval {
    /// Returns the share of their runnable time that threads waited for a CPU.
    pub fn waiting(&self) -> f64 {
        let waited = self.threads.iter().map(|t| t.waited_s).sum::<f64>() + self.ended_s.1;
        let ran = self.ran();
        waited / (waited + ran).max(1e-9)
    }

    /// Returns the CPU time of all threads, in seconds.
    fn ran(&self) -> f64 {
        self.threads.iter().map(|t| t.cpu_s).sum::<f64>() + self.ended_s.0
    }

    /// Says whether the number of threads is the bottleneck. The text is short, because the display
    /// has one line for it.
    pub fn diagnosis(&self, usable: usize) -> &'static str {
        let waits = self.runnable_mean > 1.0 && self.waiting() > 0.25;
        if !waits && self.ran() < self.seconds * IDLE {
            "the program is idle"
        } else if self.runnable_mean > usable as f64 * 1.25 {
            "more threads than CPUs: try `creel run`"
        } else if self.waiting() > 0.25 {
            "other programs use the same CPUs"
        } else {
            "the number of threads is not the bottleneck"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ran(interval: &Interval) -> f64 {
        interval.threads.iter().map(|t| t.cpu_s).sum()
    }

    #[test]
    fn ended_threads_count_for_the_verdict() {
        let busy = |cpu_s| Interval {
            seconds: 1.0,
            runnable_mean: 1.6,
            ended_s: (cpu_s, 0.2),
            ..Interval::default()
        };
        assert_eq!(busy(0.0).diagnosis(2), "other programs use the same CPUs");
        assert_eq!(
            busy(1.5).diagnosis(2),
            "the number of threads is not the bottleneck"
        );
        let thread = Thread {
            tid: 7,
            cpu_s: 3.0,
            waited_s: 3.0,
            ..Thread::default()
        };
        let now = BTreeMap::from([(7, thread)]);
        let did = &since(&now, &BTreeMap::new(), 0.5)[0];
        assert_eq!(
            (did.cpu_s, did.waited_s),
            (0.5, 0.0),
            "the times are limited to the interval"
        );
    }

    #[test]
    fn activity_before_sampling_is_excluded() {
        let script = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; \
                      exec sleep 60' & wait";
        let mut parent = std::process::Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 5];
        let mut out = parent.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut line).unwrap();
        let mut sampler = Sampler::begin(parent.id(), 1, 0..1).unwrap();
        sampler.sample();
        let (did, alive): (f64, f64) = (
            ran(&sampler.whole()),
            sampler.last.values().map(|t| t.cpu_s).sum(),
        );
        for child in process::descendants(parent.id()) {
            let pid = nix::unistd::Pid::from_raw(child as i32);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        parent.wait().unwrap();
        assert!(did < alive / 2.0, "{did} s of {alive} s");
    }

    #[test]
    fn intervals_exclude_earlier_activity() {
        // A child, because other tests run in this process meanwhile.
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exec sleep 60";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut sampler = Sampler::begin(child.id(), 1, 0..1).unwrap();
        let mut line = [0; 5];
        let mut out = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut line).unwrap();
        // It may still be on its way into its sleep.
        std::thread::sleep(Duration::from_millis(100));
        sampler.sample();
        let busy = ran(&sampler.interval());
        sampler.sample();
        let idle = ran(&sampler.interval());
        let whole = ran(&sampler.whole());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(busy > 0.0 && idle < busy / 2.0, "{busy} s, then {idle} s");
        assert!(whole >= busy, "{whole} s in all");
    }
}
