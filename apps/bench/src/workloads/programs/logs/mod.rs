//! A log: finds the first broken line, counts the requests for each page, and sorts the pages by
//! their counts.

mod clever;
mod obvious;
mod on_creel;

use std::collections::HashMap;
use std::hint::black_box;

use super::{ONE_THREAD, Plan, Subject, creel, program, rayon};

const LINES: u64 = 100_000;
const PAGES: u64 = 997;

type Counts<'a> = HashMap<&'a str, u64>;
/// The pages with their numbers of requests, ordered from the most to the least frequent, or the
/// index of the first broken line.
type Pages<'a> = Result<Vec<(&'a str, u64)>, usize>;

fn log() -> Vec<String> {
    let line = |n: u64| format!("GET /page/{} {}", n * n % PAGES, 200 + n % 3);
    (0..LINES).map(line).collect()
}

fn page(line: &str) -> Option<&str> {
    line.strip_prefix("GET ")?.split(' ').next()
}

fn merge<'a>(mut a: Counts<'a>, b: Counts<'a>) -> Counts<'a> {
    for (page, count) in b {
        *a.entry(page).or_default() += count;
    }
    a
}

fn one_thread(lines: &[String]) -> Pages<'_> {
    if let Some(broken) = lines.iter().position(|line| page(line).is_none()) {
        return Err(broken);
    }
    let mut counts = Counts::new();
    for line in lines {
        *counts.entry(page(line).unwrap_or("?")).or_default() += 1;
    }
    let mut pages: Vec<(&str, u64)> = counts.into_iter().collect();
    pages.sort_unstable_by_key(|(page, count)| (u64::MAX - count, *page));
    Ok(pages)
}

fn measure(plan: &Plan, count: impl Fn(&[String]) -> Pages<'_>) -> f64 {
    let lines = log();
    plan.time(|| _ = black_box(count(&lines)))
}

/// Returns all subjects with `workers` workers.
pub fn subjects(workers: usize) -> Vec<Subject> {
    program(
        workers,
        [
            ("creel", |plan, workers| {
                let pool = creel(workers)?;
                Ok(measure(plan, |lines| on_creel::pages(&pool, lines)))
            }),
            (ONE_THREAD, |plan, _| Ok(measure(plan, one_thread))),
            ("rayon", |plan, workers| {
                let pool = rayon(workers)?;
                Ok(measure(plan, |lines| {
                    pool.install(|| obvious::pages(lines))
                }))
            }),
            ("rayon clever", |plan, workers| {
                let pool = rayon(workers)?;
                Ok(measure(plan, |lines| pool.install(|| clever::pages(lines))))
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_return_the_same_counts_and_errors() {
        let pool = creel(2).unwrap();
        let mut lines = log();
        for broken in [None, Some(70_000), Some(10)] {
            if let Some(broken) = broken {
                lines[broken] = "…".into();
            }
            let expected = one_thread(&lines);
            assert_eq!(expected.as_ref().err(), broken.as_ref());
            assert_eq!(on_creel::pages(&pool, &lines), expected);
            assert_eq!(obvious::pages(&lines), expected);
            assert_eq!(clever::pages(&lines), expected);
        }
    }
}
