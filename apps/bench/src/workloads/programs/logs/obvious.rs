//! Counts the requests in a log on rayon, in the way that comes to mind first.

use super::{Counts, Pages, merge, page};
use rayon::prelude::*;

pub fn pages(lines: &[String]) -> Pages<'_> {
    if let Some(broken) = lines.par_iter().position_first(|line| page(line).is_none()) {
        return Err(broken);
    }
    let counts = lines.par_iter().fold(Counts::new, |mut counts, line| {
        *counts.entry(page(line).unwrap_or("?")).or_default() += 1;
        counts
    });
    let counts = counts.reduce(Counts::new, merge);
    let mut pages: Vec<(&str, u64)> = counts.into_iter().collect();
    pages.par_sort_unstable_by_key(|(page, count)| (u64::MAX - count, *page));
    Ok(pages)
}
