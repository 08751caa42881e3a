//! Counts the requests in a log, in parallel on a pool of Creel.

use super::{Counts, Pages, merge, page};
use creel::Pool;

pub fn pages<'a>(pool: &Pool, lines: &'a [String]) -> Pages<'a> {
    if let Some(broken) = pool.position(lines, |line| page(line).is_none()) {
        return Err(broken);
    }
    let count = |counts: &mut Counts<'a>, line: &'a String| {
        *counts.entry(page(line).unwrap_or("?")).or_default() += 1;
    };
    let counts = pool.fold(lines, Counts::new, count, merge);
    let mut pages: Vec<(&str, u64)> = counts.into_iter().collect();
    pool.sort_unstable_by_key(&mut pages, |(page, count)| (u64::MAX - count, *page));
    Ok(pages)
}
