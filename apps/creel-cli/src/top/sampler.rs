//! Samples the threads of a program, and sums up their figures since the start and in each
//! interval.

use super::{
    SAMPLE_INTERVAL,
    pool_stats::PoolStats,
    target::Target,
    threads::{self, Thread},
    throttle::{Periods, Throttled},
    trace::Trace,
    verdict::{Figures, Verdict},
    waits::{self, Waiting},
};
use crate::pools::Pool;
use anyhow::Result;
use creel_console::{Exit, Failure};
use creel_topology::Budget;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

/// The number of samples that a lane keeps, and the number of intervals that the sparkline and the
/// display keep.
const HISTORY: usize = 512;
/// The time after which we read the limits of the target again.
const LIMITS_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest pause between two samples, in units of the time that a sample takes.
const PAUSE: u32 = 4;
/// The longest pause between two samples.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The thread of the program that ran on a PU since the sample before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneSample {
    Nobody,
    One(u32),
    /// This thread ran for the longest time. Others also ran on the PU or waited for it.
    Several(u32),
    /// Threads waited for the PU, but none of them ran. Another program used it.
    Waiting,
}

pub struct Sampler {
    target: Target,
    begin: Instant,
    /// The limits of the target. They may differ from ours, and they may change.
    pub budget: Budget,
    limits_read_at: Instant,
    first: BTreeMap<u32, Thread>,
    /// The last sample of each thread, including threads that have ended.
    last: BTreeMap<u32, Thread>,
    /// The threads in the last sample.
    now: BTreeMap<u32, Thread>,
    /// The time of the last sample.
    sampled_at: Instant,
    /// The time that the last sample took.
    sampling: Duration,
    /// The ended threads that an earlier interval has reported.
    ended_threads: BTreeSet<u32>,
    throttled: Option<Throttled>,
    pub samples: u64,
    interval: IntervalStart,
    /// The last intervals, ordered by time. Each has the number of samples that were taken until
    /// its end.
    pub history: VecDeque<(Interval, u64)>,
    /// The trace of the lanes, if the user wants one.
    pub trace: Option<Trace>,
    /// The last samples of each PU, ordered by time.
    pub lanes: BTreeMap<usize, VecDeque<LaneSample>>,
    /// The share of throttled periods in each of the last intervals.
    pub throttling: VecDeque<f64>,
    pool_stats: PoolStats,
    /// What the threads waited for when we last looked.
    last_waits: Vec<Waiting>,
}

/// The state at the start of the current interval.
struct IntervalStart {
    begin: Instant,
    threads: BTreeMap<u32, Thread>,
    periods: Option<Periods>,
    samples: u64,
}

/// The figures of a period of time.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    pub seconds: f64,
    pub samples: u64,
    pub runnable_mean: f64,
    pub throttled: Option<Periods>,
    /// The figures of the threads. An interval has only the threads that still exist. The whole run
    /// has all threads.
    pub threads: Vec<Thread>,
    /// The threads that have ended in the interval, if they are not in `threads`.
    pub ended: Vec<Thread>,
    /// The figures of the observable pools.
    pub pools: Vec<Pool>,
    /// What the sleeping threads wait for, at the end.
    pub waits: Vec<Waiting>,
}

impl Sampler {
    pub fn begin(target: Target) -> Result<Self> {
        // We include the children, so that the figures exclude everything before the start.
        let pids = target.pids();
        let first = threads::sample(&pids);
        let Some(some) = pids.first().filter(|_| !first.is_empty()) else {
            return Err(Failure::new(
                Exit::Usage,
                match &target {
                    Target::Processes(_) => {
                        format!("cannot watch {target}: there is no such process")
                    }
                    Target::Group(_) => format!("cannot watch {target}: it has no processes"),
                },
            )
            .into());
        };
        let machine = threads::machine(target.first().unwrap_or(*some), &pids);
        let throttled = match (&target, pids.first()) {
            (Target::Group(folder), _) => Throttled::of_group(folder),
            (Target::Processes(roots), _) => roots.first().and_then(|&pid| Throttled::begin(pid)),
        };
        let now = Instant::now();
        Ok(Self {
            target,
            begin: now,
            budget: Budget::of(&machine),
            limits_read_at: now,
            last: first.clone(),
            now: first.clone(),
            sampled_at: now,
            sampling: Duration::ZERO,
            ended_threads: BTreeSet::new(),
            interval: IntervalStart {
                begin: now,
                threads: first.clone(),
                periods: throttled.as_ref().map(Throttled::since),
                samples: 0,
            },
            first,
            throttled,
            samples: 0,
            history: VecDeque::new(),
            trace: None,
            lanes: machine
                .allowed()
                .iter()
                .map(|pu| (pu, VecDeque::new()))
                .collect(),
            throttling: VecDeque::new(),
            pool_stats: PoolStats::default(),
            last_waits: Vec::new(),
        })
    }

    /// Takes one sample. Returns whether the program still has threads.
    pub fn sample(&mut self) -> bool {
        let pids = self.target.pids();
        self.pool_stats.sample(&pids);
        let before = std::mem::replace(&mut self.sampled_at, Instant::now());
        let seconds = (self.sampled_at - before).as_secs_f64();
        let mut now = threads::sample(&pids);
        for thread in now.values_mut() {
            if let Some(before) = self.last.get(&thread.tid) {
                thread.follow(before, seconds);
            }
        }
        self.samples += 1;
        // A program that was just started may narrow its mask. Later, limits seldom change.
        if self.samples.is_power_of_two() || self.limits_read_at.elapsed() > LIMITS_INTERVAL {
            self.read_limits(&pids);
        }
        self.see(&now);
        self.last.extend(now.clone());
        self.now = now;
        self.sampling = self.sampled_at.elapsed();
        !self.now.is_empty() || self.target.may_refill()
    }

    /// Reads the limits of the target, unless its processes have ended.
    fn read_limits(&mut self, pids: &[u32]) {
        self.limits_read_at = Instant::now();
        if let Some(pid) = self.target.first().or(pids.first().copied())
            && pids.contains(&pid)
        {
            self.budget = Budget::of(&threads::machine(pid, pids));
            match &mut self.throttled {
                // A group has its counters from the start.
                _ if matches!(self.target, Target::Group(_)) => {}
                Some(throttled) => throttled.follow(pid),
                None => self.throttled = Throttled::begin(pid),
            }
        }
        let waits = waits::of(self.now.values());
        if !waits.is_empty() {
            self.last_waits = waits;
        }
    }

    /// Returns the number of workers that the target can use.
    pub fn usable(&self) -> usize {
        self.budget.workers()
    }

    /// Returns the time until the next sample. A sample of thousands of threads takes long, and
    /// creel should not use much of the CPU time that it measures.
    pub fn pause(&self) -> Duration {
        (PAUSE * self.sampling).clamp(SAMPLE_INTERVAL, PAUSE_MAX)
    }

    /// Adds a sample to the lanes.
    fn see(&mut self, now: &BTreeMap<u32, Thread>) {
        let at_us = self.begin.elapsed().as_micros() as u64;
        for (pu, lane) in &mut self.lanes {
            let seen = on_pu(*pu, now, &self.last);
            push(lane, seen);
            if let Some(trace) = &mut self.trace {
                trace.add(*pu, seen, at_us, |tid| Some(now.get(&tid)?.name.clone()));
            }
        }
    }

    /// Returns the figures since the start, including those of ended threads.
    pub fn whole(&self) -> Interval {
        // After the first sample, the kernel may add the time of a wait that began before the
        // sample. Therefore we limit each time to `seconds`.
        let seconds = (self.sampled_at - self.begin).as_secs_f64();
        let threads = since(&self.last, &self.first, seconds);
        Interval {
            seconds,
            samples: self.samples,
            runnable_mean: mean(&threads, self.samples, |t| t.runnable_samples),
            throttled: self.throttled.as_ref().map(Throttled::since),
            threads,
            ended: Vec::new(),
            pools: self.pool_stats.whole(),
            waits: match self.now.values().all(Thread::has_ended) {
                true => self.last_waits.clone(),
                false => waits::of(self.now.values()),
            },
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
        let ended = self.ended(seconds);
        let threads = since(&self.now, &self.interval.threads, seconds);
        let runnable = |threads: &[Thread]| mean(threads, samples, |t| t.runnable_samples);
        let interval = Interval {
            seconds,
            samples,
            runnable_mean: runnable(&threads) + runnable(&ended),
            ended,
            throttled,
            threads,
            pools: self.pool_stats.interval(),
            waits: waits::of(self.now.values()),
        };
        push(&mut self.history, (interval.clone(), self.samples));
        if let Some(periods) = throttled {
            push(&mut self.throttling, periods.share());
        }
        self.interval = IntervalStart {
            begin: self.sampled_at,
            threads: self.now.clone(),
            periods,
            samples: self.samples,
        };
        interval
    }

    /// Returns the threads that have ended in this interval, as far as the samples show them.
    fn ended(&mut self, seconds: f64) -> Vec<Thread> {
        self.ended_threads.retain(|tid| !self.now.contains_key(tid));
        let ended = self.last.iter();
        let ended = ended
            .filter(|(tid, _)| !self.now.contains_key(tid) && !self.ended_threads.contains(tid));
        let ended: BTreeMap<u32, Thread> = ended.map(|(tid, t)| (*tid, t.clone())).collect();
        self.ended_threads.extend(ended.keys());
        since(&ended, &self.interval.threads, seconds)
    }

    pub fn elapsed_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }
}

/// Returns the thread that ran on a PU between two samples.
///
/// A thread that is runnable may still wait for a CPU. It has run if its CPU time has grown.
fn on_pu(pu: usize, now: &BTreeMap<u32, Thread>, before: &BTreeMap<u32, Thread>) -> LaneSample {
    let ran_s = |t: &Thread| before.get(&t.tid).map_or(t.cpu_s, |b| t.cpu_s - b.cpu_s);
    let here = now.values().filter(|t| t.cpu == pu);
    let here: Vec<&Thread> = here.filter(|t| t.runnable() || ran_s(t) > 0.0).collect();
    let ran = here.iter().max_by(|a, b| ran_s(a).total_cmp(&ran_s(b)));
    match ran.filter(|t| ran_s(t) > 0.0) {
        Some(t) if here.len() == 1 => LaneSample::One(t.tid),
        Some(t) => LaneSample::Several(t.tid),
        None if here.is_empty() => LaneSample::Nobody,
        None => LaneSample::Waiting,
    }
}

/// Returns the mean number of threads per sample that were in a certain state. `count` returns the
/// number of samples in which a thread was in this state.
fn mean(threads: &[Thread], samples: u64, count: fn(&Thread) -> u64) -> f64 {
    threads.iter().map(count).sum::<u64>() as f64 / samples.max(1) as f64
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
        self.figures().waiting()
    }

    /// Returns the figures of all threads.
    fn figures(&self) -> Figures {
        self.figures_of(|_| true)
    }

    /// Returns the figures of some threads.
    fn figures_of(&self, is_meant: impl Fn(&Thread) -> bool) -> Figures {
        let threads = self.threads.iter().chain(&self.ended);
        let throttled = self.throttled.map_or(0.0, |periods| periods.share());
        let mut figures = Figures {
            seconds: self.seconds,
            throttled,
            ..Figures::default()
        };
        let samples = self.samples.max(1) as f64;
        for t in threads.filter(|t| is_meant(t)) {
            figures.ran_s += t.cpu_s;
            figures.waited_s += t.waited_s;
            figures.runnable += t.runnable_samples as f64 / samples;
            figures.blocked += t.blocked_samples as f64 / samples;
        }
        figures
    }

    /// Returns the reason why the program is not faster.
    pub fn verdict(&self, usable: usize) -> Verdict {
        self.figures().verdict(usable)
    }

    /// Returns the processes. The first one has run and waited for a CPU for the longest time.
    pub fn processes(&self, usable: usize) -> Vec<Process> {
        let mut pids: Vec<u32> = self.threads.iter().map(|t| t.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let process = |pid: u32| {
            let figures = self.figures_of(|t| t.pid == pid);
            let threads = || self.threads.iter().filter(|t| t.pid == pid);
            let first = threads()
                .find(|t| t.tid == pid)
                .or_else(|| threads().next());
            Process {
                pid,
                name: first.map_or_else(String::new, |t| t.name.clone()),
                threads: threads().count(),
                cpu_s: figures.ran_s,
                waited_s: figures.waited_s,
                runnable_mean: figures.runnable,
                verdict: figures.verdict(usable),
            }
        };
        let mut all: Vec<Process> = pids.into_iter().map(process).collect();
        all.sort_by(|a, b| (b.cpu_s + b.waited_s).total_cmp(&(a.cpu_s + a.waited_s)));
        all
    }
}

impl Process {
    /// Returns whether the thread has run or waited for a CPU.
    pub fn is_active(&self) -> bool {
        self.cpu_s + self.waited_s > 0.0
    }
}

/// The figures of one process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    pub pid: u32,
    pub name: String,
    pub threads: usize,
    pub cpu_s: f64,
    pub waited_s: f64,
    pub runnable_mean: f64,
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(interval: &Interval) -> f64 {
        interval.threads.iter().map(|t| t.cpu_s).sum()
    }

    fn thread(tid: u32, cpu_s: f64, waited_s: f64) -> Thread {
        Thread {
            tid,
            cpu_s,
            waited_s,
            state: 'R',
            ..Thread::default()
        }
    }

    #[test]
    fn ended_threads_count_for_the_verdict() {
        let busy = |cpu_s| Interval {
            seconds: 1.0,
            ended: vec![thread(7, cpu_s, 0.2)],
            ..Interval::default()
        };
        assert_eq!(busy(0.0).verdict(2), Verdict::Starved);
        assert_eq!(busy(1.5).verdict(2), Verdict::Running);
        let now = BTreeMap::from([(7, thread(7, 3.0, 3.0))]);
        let did = &since(&now, &BTreeMap::new(), 0.5)[0];
        assert_eq!(
            (did.cpu_s, did.waited_s),
            (0.5, 0.0),
            "the times are limited to the interval"
        );
    }

    #[test]
    fn lanes_distinguish_running_threads_from_threads_that_wait() {
        let samples = |threads: &[Thread]| -> BTreeMap<u32, Thread> {
            threads.iter().map(|t| (t.tid, t.clone())).collect()
        };
        let before = samples(&[thread(7, 1.0, 0.0), thread(8, 1.0, 0.0)]);
        let seen = |now: &[Thread]| on_pu(0, &samples(now), &before);
        assert_eq!(seen(&[]), LaneSample::Nobody);
        assert_eq!(seen(&[thread(7, 1.1, 0.0)]), LaneSample::One(7));
        assert_eq!(seen(&[thread(7, 1.0, 0.0)]), LaneSample::Waiting);
        let both = [thread(7, 1.0, 0.0), thread(8, 1.1, 0.0)];
        assert_eq!(seen(&both), LaneSample::Several(8));
    }

    #[test]
    fn a_wait_counts_before_the_kernel_accounts_for_it() {
        let first = thread(7, 1.0, 2.0);
        let mut second = thread(7, 1.0, 2.0);
        second.follow(&first, 0.5);
        assert_eq!(second.since(&first).waited_s, 0.5);
        // When the thread gets a CPU, the kernel adds the whole wait.
        let mut third = thread(7, 1.1, 2.9);
        third.follow(&second, 0.5);
        assert!((third.since(&second).waited_s - 0.4).abs() < 1e-9);
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
        let mut sampler = Sampler::begin(Target::Processes(vec![parent.id()])).unwrap();
        sampler.sample();
        let (did, alive): (f64, f64) = (
            ran(&sampler.whole()),
            sampler.last.values().map(|t| t.cpu_s).sum(),
        );
        for child in crate::process::descendants(parent.id()) {
            let pid = nix::unistd::Pid::from_raw(child as i32);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        parent.wait().unwrap();
        assert!(did < alive / 2.0, "{did} s of {alive} s");
    }

    #[test]
    fn intervals_exclude_earlier_activity() {
        // We use a child, because other tests run in this process at the same time.
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exec sleep 60";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut sampler = Sampler::begin(Target::Processes(vec![child.id()])).unwrap();
        let mut line = [0; 5];
        let mut out = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut line).unwrap();
        // The child may still need some CPU time before it sleeps.
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
