//! A batch: render songs on one core up to all cores, with one song per job.
//!
//! Each sample runs in a process of its own, for which [`sample`] starts this program again. This
//! way, the peak memory belongs to the subject alone, and `independent processes` share nothing.
//! All subjects discard their output, except `creel-vgm, to files`. It does the same as `creel-vgm
//! render`, and writes files in memory.

mod album;
mod matrix;
mod models;
mod sample;

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use anyhow::Context;

use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;
use album::Choice;
use models::Model;
use sample::{Renderer, Request, Sample};

pub use sample::{SAMPLE, answer};

/// The workload `render`.
pub const WORKLOAD: Workload = Workload {
    name: "render",
    about: "render the songs that creel-vgm includes, one per job, the longest first",
    cases,
};

const METRICS: [Metric; 4] = [
    Metric {
        name: "speed",
        unit: "frames/s",
    },
    Metric {
        name: "time",
        unit: "s",
    },
    Metric {
        name: "peak memory",
        unit: "B",
    },
    // The energy is that of the whole machine. It is unknown if the counters cannot be read.
    Metric {
        name: "energy",
        unit: "J",
    },
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let choice = choice(setting);
    let plan = choice.plan(Path::new(""));
    let plan = plan.with_context(|| match &choice.path {
        Some(path) => format!("cannot read the songs in {}", path.display()),
        None => "cannot read the included songs".into(),
    })?;
    if plan.units.is_empty() {
        return Ok(Vec::new());
    }
    if !setting.matrix.is_empty() {
        return Ok(vec![matrix::case(setting)?]);
    }
    Ok(jobs(setting.workers)
        .into_iter()
        .map(|jobs| case(setting, jobs))
        .collect())
}

fn choice(setting: &Setting) -> Choice {
    Choice {
        path: setting.songs.clone(),
        quick: setting.quick,
    }
}

/// Returns the powers of two below the number of workers, all workers, and always 4.
fn jobs(workers: usize) -> BTreeSet<usize> {
    let powers = std::iter::successors(Some(1), |jobs| Some(jobs * 2));
    let below = powers.take_while(|jobs| *jobs < workers);
    below.chain([workers, 4]).collect()
}

fn case(setting: &Setting, jobs: usize) -> Case {
    let request = Request {
        renderer: Renderer::OneThread,
        jobs,
        choice: choice(setting),
    };
    let cool_down = setting.cool_down;
    let subject = |name: &str, renderer| {
        let request = Request {
            renderer,
            ..request.clone()
        };
        Subject::with_metrics(name, move |_| {
            thread::sleep(cool_down);
            Ok(request.sample()?.values())
        })
    };
    let mut subjects = vec![
        subject("creel [shared, park]", Renderer::CreelShared),
        subject("creel-vgm, to files", Renderer::Batch),
        subject("creel [sticky, adaptive]", Renderer::CreelSticky),
        subject(ONE_THREAD, Renderer::OneThread),
        subject("rayon", Renderer::Rayon),
    ];
    if jobs == setting.workers {
        subjects.extend([
            subject("creel 1:1", Renderer::Tasks(Model::OneToOne)),
            subject("creel M:N", Renderer::Tasks(Model::ManyToMany)),
            subject("creel M:1", Renderer::Tasks(Model::ManyToOne)),
        ]);
    }
    if jobs > 1 {
        subjects.push(independent(request));
    }
    Case {
        name: format!("jobs {jobs}"),
        metrics: METRICS.to_vec(),
        compared: true,
        // The songs determine the length of a sample, so the plan has no times of its own.
        plan: setting.plan(0, 0).with_overhead_ms(700),
        rounds: setting.rounds(4),
        subjects,
    }
}

/// Returns a subject with one process per job. Each process renders all songs on one thread. This
/// is what the machine can do if no thread waits for another.
fn independent(request: Request) -> Subject {
    let jobs = request.jobs;
    Subject::with_metrics("independent processes", move |_| {
        let running: Vec<_> = (0..jobs)
            .map(|_| request.start())
            .collect::<Result<_, _>>()?;
        let samples = running.into_iter().map(sample::Running::end);
        let samples: Vec<Sample> = samples
            .collect::<Result<_, _>>()
            .context("one of the render processes failed")?;
        let values: Vec<_> = samples.iter().map(Sample::values).collect();
        let each = |index: usize| values.iter().map(move |values| values[index]);
        let largest = |index| each(index).fold(f64::NAN, f64::max);
        Ok(vec![
            each(0).sum(),
            largest(1),
            each(2).sum(),
            // Each process has counted the energy of the whole machine, so we take the largest of
            // the counts and not their sum.
            largest(3),
        ])
    })
}
