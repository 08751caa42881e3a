//! The tree by which the workers of a loop wake each other.
//!
//! A thread that is awake wakes others one after another, and each of these does the same as soon
//! as it runs. Every thread is responsible for a range of ranks that begins with its own. It passes
//! the end of that range to the worker that it wakes, and keeps the rest, until only its own rank
//! is left. The caller has rank 0.
//!
//! A woken worker runs later than its waker can wake the next one, so it gets the smaller part,
//! which is about a third. That is close to the optimum as long as a worker begins to run one to
//! three times later than its waker is done with it. Distant ranks are woken first, and the last
//! ones are neighbours.

/// Returns the first rank of the range that the thread with rank `me` passes on next, if it is
/// responsible for the ranks from `me` to `end`.
fn cut(me: usize, end: usize) -> Option<usize> {
    let others = end - me - 1;
    (others > 0).then(|| end - (others / 3 + 1))
}

/// Returns the end of the range that the thread with rank `me` is responsible for, in a loop of
/// `threads` threads.
fn end_of(me: usize, threads: usize) -> usize {
    let (mut above, mut end) = (0, threads);
    while above != me
        && let Some(next) = cut(above, end)
    {
        match me < next {
            true => end = next,
            false => above = next,
        }
    }
    end
}

/// Returns the ranks that the thread with rank `me` wakes, in this order.
pub(in crate::loops) fn children(me: usize, threads: usize) -> impl Iterator<Item = usize> {
    let mut end = end_of(me, threads);
    std::iter::from_fn(move || {
        end = cut(me, end)?;
        Some(end)
    })
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_rank_of_the_wake_tree_except_the_callers_has_one_waker() {
        for threads in (1..70).chain([128, 192, 1023]) {
            let mut woken = vec![0; threads];
            (0..threads).for_each(|me| children(me, threads).for_each(|child| woken[child] += 1));
            assert_eq!(woken[0], 0);
            assert!(woken[1..].iter().all(|times| *times == 1), "{threads}");
        }
    }

    #[test]
    fn a_caller_wakes_few_workers_itself() {
        let wakes = |threads| children(0, threads).count();
        assert_eq!([2, 3, 4, 8, 12].map(wakes), [1, 2, 2, 4, 5]);
        assert!(wakes(128) <= 12);
    }
}
