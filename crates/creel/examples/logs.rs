//! Evaluates the log of a web server. The program finds the first malformed line, counts how often
//! each page was requested, and prints the three most popular pages.
//!
//! ```text
//! cargo run --release -p creel --example logs
//! ```
//!
//! `creel-bench programs` compares it with `fold` and `reduce` of rayon, which take about as many
//! lines.

use creel::Pool;
use std::collections::HashMap;

type Counts<'a> = HashMap<&'a str, u64>;

fn page(line: &str) -> Option<&str> {
    line.strip_prefix("GET ")?.split(' ').next()
}

fn merge<'a>(mut a: Counts<'a>, b: Counts<'a>) -> Counts<'a> {
    for (page, count) in b {
        *a.entry(page).or_default() += count;
    }
    a
}

fn main() -> Result<(), creel::BuildError> {
    let pool = Pool::builder().build()?;
    let lines: Vec<String> = (0..500_000_u64)
        .map(|n| format!("GET /page/{} {}", n * n % 997, 200 + n % 3))
        .collect();
    let begin = std::time::Instant::now();
    if let Some(broken) = pool.position(&lines, |line| page(line).is_none()) {
        println!("line {broken} is broken");
    }
    // Each worker counts into a map of its own. The order in which the maps are merged may change
    // from run to run, but it does not change the counts.
    let counts = pool.fold_by_worker(
        &lines,
        Counts::new,
        |counts, line| *counts.entry(page(line).unwrap_or("?")).or_default() += 1,
        merge,
    );
    let mut pages: Vec<(&str, u64)> = counts.into_iter().collect();
    pool.sort_unstable_by_key(&mut pages, |(page, count)| (u64::MAX - count, *page));
    println!("{:?} in {:?}", &pages[..3], begin.elapsed());
    Ok(())
}
