//! Many small tasks that send numbers to each other.
//!
//! The cases show the cost of a task, a hop and a channel, and whether more workers make them
//! slower.

mod channels;
mod cost;
mod endpoints;
mod jobs;
mod languages;
mod runtime;
mod threads;

use std::time::Duration;

use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::hog;
use crate::setting::Setting;
use crate::workloads::Workload;
use jobs::Job;
use runtime::{Creel, Tokio};

/// The workload `messages`.
pub const WORKLOAD: Workload = Workload {
    name: "messages",
    about: "a chain of 100,001 tasks that pass a number on, and the cost of its parts",
    cases,
};

const MS: &str = "ms a pass";
const NS: &str = "ns";
/// The number of tasks in the chain of `hop`.
const RELAY: u64 = 100;

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    let chained = [
        ("chain", Job::Chain(100_001), MS),
        ("hop", Job::Hop(RELAY), NS),
        ("spawn-join", Job::SpawnJoin, NS),
        ("ping-pong", Job::PingPong, NS),
    ];
    let (few, many) = (setting.workers, setting.workers * 4);
    for (name, job, unit) in chained {
        cases.push(case(name.into(), job, unit, setting, &[1, few]));
        let crowded = format!("{name} oversubscribed");
        cases.push(under_load(case(crowded, job, unit, setting, &[1, many])));
        let mut busy = case(format!("{name} busy"), job, unit, setting, &[1, few, many]);
        busy.subjects = busy.subjects.drain(..).map(hog::with_hog).collect();
        cases.push(under_load(busy));
    }
    let mut short = case(
        "chain of 10,001".into(),
        Job::Chain(threads::MOST),
        MS,
        setting,
        &[1, few],
    );
    short.subjects.extend(threads::subjects(threads::MOST));
    short.rounds = setting.rounds(3);
    short.plan = short.plan.with_overhead_ms(600);
    cases.push(short);
    let name = "million".into();
    let mut million = case(name, Job::Chain(1_000_001), MS, setting, &[1]);
    million.rounds = setting.rounds(3);
    million.plan = million.plan.with_overhead_ms(3_000);
    cases.push(million);
    cases.push(case(
        "yield".into(),
        Job::Yield,
        NS,
        setting,
        &[1, setting.workers],
    ));
    for (name, senders) in [("channel", 1), ("channel 8 to 1", 8)] {
        let mut subjects = channels::subjects(1, senders);
        subjects.extend(channels::subjects(setting.workers, senders));
        cases.push(with(name.into(), NS, setting, subjects));
    }
    let fan_out = Job::FanOut(1000, Duration::from_micros(5));
    cases.push(case(
        "fan-out".into(),
        fan_out,
        NS,
        setting,
        &[1, setting.workers],
    ));
    cases.push(case(
        "blocked".into(),
        Job::Blocked,
        "ms",
        setting,
        &[setting.workers.max(2)],
    ));
    cases.extend([100, 300, 1000, 3000, 10_000].map(|nanoseconds| grain(setting, nanoseconds)));
    Ok(cases)
}

/// Drops the subjects that mean little under a load.
///
/// These are Go with one worker and all other languages, because the start of their programs takes
/// longer than the measurement. The case without a load compares them with Creel.
fn under_load(mut case: Case) -> Case {
    let is_comparable = |name: &str| match name.strip_prefix("go ") {
        Some(workers) => workers != "1 workers",
        None => ["creel", "tokio", "smol"]
            .iter()
            .any(|peer| name.starts_with(peer)),
    };
    case.retain_subjects(is_comparable);
    case
}

/// Returns a case with these subjects.
fn with(name: String, unit: &'static str, setting: &Setting, subjects: Vec<Subject>) -> Case {
    let metric = Metric { name: "time", unit };
    Case {
        name,
        metrics: vec![metric],
        compared: true,
        plan: setting.plan(40, 80).with_overhead_ms(60),
        rounds: setting.rounds(7),
        subjects,
    }
}

/// Returns a case that runs a job on every runtime, with each of these numbers of workers.
fn case(name: String, job: Job, unit: &'static str, setting: &Setting, workers: &[usize]) -> Case {
    let mut workers = workers.to_vec();
    workers.dedup();
    let mut subjects = Vec::new();
    for &workers in &workers {
        let name = format!("creel {workers} workers");
        subjects.push(Subject::with_metrics(name, move |plan| {
            job.sample::<Creel>(plan, workers)
        }));
    }
    if workers.contains(&1) {
        let sample = move |plan: &_| job.sample::<Tokio<true>>(plan, 1);
        subjects.push(Subject::with_metrics("tokio current-thread", sample));
    }
    for &workers in &workers {
        let name = format!("tokio {workers} workers");
        let sample = move |plan: &_| job.sample::<Tokio<false>>(plan, workers);
        subjects.push(Subject::with_metrics(name, sample));
    }
    #[cfg(all(feature = "peers", target_os = "linux"))]
    for &workers in &workers {
        let sample = move |plan: &_| job.sample::<runtime::Smol>(plan, workers);
        subjects.push(Subject::with_metrics(
            format!("smol {workers} workers"),
            sample,
        ));
    }
    subjects.extend(
        workers
            .iter()
            .flat_map(|&workers| languages::subjects(job, workers, setting.quick)),
    );
    let case = with(name, unit, setting, subjects);
    match job {
        Job::Chain(_) => Case {
            metrics: cost::METRICS.to_vec(),
            plan: case.plan.with_overhead_ms(250),
            ..case
        },
        _ => case,
    }
}

/// Returns a case with tasks of this length and with the same work in an ordinary loop. Several
/// such cases show from which length on a task pays off.
fn grain(setting: &Setting, nanoseconds: u64) -> Case {
    let work = Duration::from_nanos(nanoseconds);
    let tasks = 2_000_000 / nanoseconds.max(100);
    let name = format!("grain {nanoseconds} ns");
    let mut case = case(
        name,
        Job::FanOut(tasks, work),
        NS,
        setting,
        &[setting.workers],
    );
    case.subjects.push(Subject::new(ONE_THREAD, move |plan| {
        let call = || (0..tasks).for_each(|_| jobs::busy_work(work));
        Ok(plan.time(call) / tasks as f64)
    }));
    case
}
