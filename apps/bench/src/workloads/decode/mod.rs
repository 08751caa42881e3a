//! Token-by-token inference: a token needs 144 small loops, each of which needs the result of the
//! previous one.
//!
//! A product of 256 × 256 bytes takes only a few microseconds. For such work, programs often give
//! up on a thread pool, and use one thread or threads that spin.

mod model;
#[cfg(feature = "peers")]
mod peers;
mod subjects;

use crate::harness::{Case, Metric, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;
use crate::{hog, quota};
use model::{Format, Model};

/// The workload `decode`.
pub const WORKLOAD: Workload = Workload {
    name: "decode",
    about: "144 products of a matrix and a vector for each token",
    cases,
};

const SPEED: Metric = Metric {
    name: "speed",
    unit: "tokens/s",
};
const BURNT: Metric = Metric {
    name: "burnt",
    unit: "cores",
};
/// The quota in cores. Two threads that spin all the time use more than that.
const QUOTA_CORES: f64 = 1.5;

const ALL: [(Format, usize); 6] = [
    (Format::Q8, 256),
    (Format::Q8, 1024),
    (Format::Q8, 2048),
    (Format::F32, 256),
    (Format::F32, 1024),
    (Format::F32, 2048),
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let workers = setting.workers;
    let mut cases = Vec::new();
    for (format, size) in ALL {
        cases.push(case(
            setting,
            (format, size),
            "",
            |subject| subject,
            workers,
        ));
    }
    for (format, size) in &ALL[..2] {
        cases.push(case(
            setting,
            (*format, *size),
            " busy",
            hog::with_hog,
            workers,
        ));
    }
    if quota::can_be_set() {
        let within = |subject| quota::within(subject, QUOTA_CORES);
        cases.push(case(setting, (Format::Q8, 1024), " quota", within, workers));
    } else {
        eprintln!(
            "creel-bench: decode: skipped the case with a quota, because this process cannot create a \
             control group: run as root, or in a control group that you may write"
        );
    }
    let many = case(
        setting,
        (Format::Q8, 1024),
        " oversubscribed",
        |subject| subject,
        workers * 4,
    );
    cases.push(many);
    cases.push(idle(setting));
    Ok(cases)
}

fn name((format, size): (Format, usize)) -> String {
    match format {
        Format::F32 => format!("f32 {size}"),
        Format::Q8 => format!("q8 {size}"),
    }
}

fn case(
    setting: &Setting,
    what: (Format, usize),
    load: &str,
    under: impl Fn(Subject) -> Subject,
    workers: usize,
) -> Case {
    let (format, size) = what;
    // The overhead includes the time for creating the weights in the first sample. A token of the
    // largest models takes longer than a sample, so their overhead is longer.
    let with_overhead_ms = if size < 2048 { 30 } else { 600 };
    let subjects = subjects::all(
        move || Model::new(format, size),
        workers,
        subjects::Rhythm::Steady,
    );
    Case {
        name: name(what) + load,
        metrics: vec![SPEED],
        compared: true,
        plan: setting.plan(50, 100).with_overhead_ms(with_overhead_ms),
        rounds: setting.rounds(if size < 2048 { 7 } else { 4 }),
        subjects: subjects.into_iter().map(under).collect(),
    }
}

/// Returns the case `idle`, which measures how many cores are busy after the last token.
fn idle(setting: &Setting) -> Case {
    let model = || Model::new(Format::Q8, 256);
    Case {
        name: "idle".into(),
        metrics: vec![BURNT],
        compared: false,
        plan: setting.plan(20, 100).with_overhead_ms(130),
        rounds: setting.rounds(3),
        subjects: subjects::all(model, setting.workers, subjects::Rhythm::Idle),
    }
}
