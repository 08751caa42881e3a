//! Small programs, as a user would write them: a game's frame, inference, and counting a log. They
//! show which speed you get without tuning. There are also cases with single functions, such as
//! sorts.
//!
//! Each program is written three times: on Creel, on rayon as it comes to mind first (`obvious`),
//! and on rayon by someone who knows where the time goes (`clever`). Each version has its own file,
//! because a test compares their numbers of lines.

mod game;
mod inference;
mod logs;
mod verbs;

use crate::harness::{Case, Metric, ONE_THREAD, Plan, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;
use creel::Pool;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The workload `programs`.
pub const WORKLOAD: Workload = Workload {
    name: "programs",
    about: "a game's frame, inference, a counted log; folds into maps, sorts",
    cases,
};

const TIME: Metric = Metric {
    name: "time",
    unit: "ns a call",
};

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let workers = setting.workers;
    let case = |name: &str, subjects| Case {
        name: name.into(),
        metrics: vec![TIME],
        compared: true,
        plan: setting.plan(60, 120),
        rounds: setting.rounds(9),
        subjects,
    };
    Ok(vec![
        case("game", game::subjects(workers, game::Pause::None)),
        case(
            "game at 400 Hz",
            game::subjects(workers, game::Pause::Frame),
        ),
        case("inference", inference::subjects(workers)),
        case("logs", logs::subjects(workers)),
        case("large maps", verbs::large_maps(workers)),
        case("sort", verbs::sort(workers)),
        case("sort unstable", verbs::sort_unstable(workers)),
    ])
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

fn creel(workers: usize) -> anyhow::Result<Pool> {
    Ok(Pool::builder().workers(workers).build()?)
}

/// A function that measures a program with this number of workers.
type Sample = fn(&Plan, usize) -> anyhow::Result<f64>;

/// Returns the subjects of a program, given the functions that measure them.
fn program<const N: usize>(workers: usize, subjects: [(&str, Sample); N]) -> Vec<Subject> {
    let subject =
        |(name, sample): (&str, Sample)| Subject::new(name, move |plan| sample(plan, workers));
    subjects.into_iter().map(subject).collect()
}

#[cfg(test)]
mod tests {
    /// Counts the lines that are neither empty nor a comment.
    fn lines(source: &str) -> usize {
        let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        source.lines().filter(counts).count()
    }

    #[test]
    fn creel_programs_are_at_most_a_tenth_longer_than_on_rayon() {
        for (name, creel, obvious, clever) in [
            (
                "game",
                include_str!("game/on_creel.rs"),
                include_str!("game/obvious.rs"),
                include_str!("game/clever.rs"),
            ),
            (
                "inference",
                include_str!("inference/on_creel.rs"),
                include_str!("inference/obvious.rs"),
                include_str!("inference/clever.rs"),
            ),
            (
                "logs",
                include_str!("logs/on_creel.rs"),
                include_str!("logs/obvious.rs"),
                include_str!("logs/clever.rs"),
            ),
        ] {
            let [creel, obvious, clever] = [creel, obvious, clever].map(lines);
            println!("{name}: Creel {creel} lines, rayon {obvious}, in the clever way {clever}");
            assert!(
                creel * 10 <= obvious * 11,
                "{name}: {creel} lines on Creel, {obvious} on rayon"
            );
        }
    }
}
