//! Repeats the table of an article. It compares all combinations of three settings: the workers,
//! the jobs, and whether a job yields after each block. It also measures one thread per job (1:1)
//! and all jobs on one thread (M:1).

use std::thread;

use creel_console::{Exit, Failure};

use super::models::{Crossed, Model};
use super::sample::{Renderer, Request};
use super::{METRICS, choice};
use crate::harness::{Case, Subject};
use crate::report::MATRIX;
use crate::setting::Setting;

/// The number of rounds, as in the article.
const ROUNDS: usize = 3;

/// Returns the case with all combinations of settings.
///
/// # Errors
///
/// Returns an error if a setting or one of its values is unknown.
pub fn case(setting: &Setting) -> anyhow::Result<Case> {
    let crossed = crossed(setting)?;
    let subjects = crossed.into_iter().map(|crossed| subject(setting, crossed));
    Ok(Case {
        name: MATRIX.into(),
        metrics: METRICS.to_vec(),
        compared: true,
        plan: setting.plan(0, 0),
        rounds: setting.runs.unwrap_or(ROUNDS),
        subjects: subjects.collect(),
    })
}

fn subject(setting: &Setting, crossed: Crossed) -> Subject {
    let request = Request {
        renderer: Renderer::Crossed(crossed),
        jobs: crossed.workers,
        choice: choice(setting),
    };
    let cool_down = setting.cool_down;
    Subject::with_metrics(name(&crossed), move |_| {
        thread::sleep(cool_down);
        Ok(request.sample()?.values())
    })
}

fn name(crossed: &Crossed) -> String {
    let Crossed {
        model,
        workers,
        jobs,
        yields,
    } = crossed;
    let plural =
        |count: &usize, noun: &str| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" });
    let jobs = plural(jobs, "job");
    match model {
        Model::OneToOne => format!("1:1, {jobs}"),
        Model::ManyToOne | Model::ManyToMany => {
            let (ratio, given) = match model {
                Model::ManyToOne => ("M:1", String::new()),
                _ => ("M:N", format!("{}, ", plural(workers, "worker"))),
            };
            let yields = if *yields { "block" } else { "no" };
            format!("{ratio}, {given}{jobs}, yield {yields}")
        }
    }
}

/// Returns all combinations, and one thread per job for each number of jobs.
fn crossed(setting: &Setting) -> anyhow::Result<Vec<Crossed>> {
    let usage = |message: String| Failure::new(Exit::Usage, format!("--matrix {message}"));
    let (mut workers, mut jobs, mut yields) =
        (vec![setting.workers], vec![setting.workers], vec![true]);
    for values in &setting.matrix {
        match &*values.key {
            "workers" => workers = values.numbers().map_err(usage)?,
            "jobs" => jobs = values.numbers().map_err(usage)?,
            "yield" => {
                let known = |value: &String| match &**value {
                    "no" => Ok(false),
                    "block" => Ok(true),
                    other => Err(usage(format!("yield={other}: expected no or block"))),
                };
                yields = values.values.iter().map(known).collect::<Result<_, _>>()?;
            }
            key => return Err(usage(format!("{key}: expected workers, jobs or yield")).into()),
        }
    }
    let mut all = Vec::new();
    for &workers in &workers {
        // With one worker, all jobs run on one thread.
        let model = if workers == 1 {
            Model::ManyToOne
        } else {
            Model::ManyToMany
        };
        for &jobs in &jobs {
            all.extend(yields.iter().map(|&yields| Crossed {
                model,
                workers,
                jobs,
                yields,
            }));
        }
    }
    all.extend(jobs.iter().map(|&jobs| Crossed {
        model: Model::OneToOne,
        workers: jobs,
        jobs,
        yields: false,
    }));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_has_all_combinations_of_settings() {
        let matrix = ["workers=4,1", "jobs=20,1", "yield=no,block"];
        let mut setting = Setting::of_tests();
        setting.matrix = matrix.map(|values| values.parse().unwrap()).into();
        let names: Vec<String> = crossed(&setting).unwrap().iter().map(name).collect();
        assert_eq!(names.len(), 10);
        for name in [
            "M:N, 4 workers, 20 jobs, yield no",
            "M:N, 4 workers, 1 job, yield block",
            "M:1, 20 jobs, yield block",
            "1:1, 20 jobs",
        ] {
            assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
        }
        setting.matrix = vec!["yield=often".parse().unwrap()];
        assert!(
            crossed(&setting)
                .unwrap_err()
                .to_string()
                .contains("yield=often")
        );
        setting.matrix = vec!["balance=1".parse().unwrap()];
        assert!(crossed(&setting).is_err());
    }
}
