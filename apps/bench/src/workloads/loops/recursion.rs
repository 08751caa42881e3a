//! Recursive fork-join: a tree sum and Fibonacci numbers without a threshold, quicksort down to
//! short slices, and a scope with many tiny jobs.
//!
//! Each peer is called as its documentation recommends: rayon inside of `install`, and chili with
//! one scope for all calls.

use std::hint::black_box;

use creel::{Joiner, Pool};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::work::busy_work;
use crate::harness::{ONE_THREAD, Plan, Subject};

/// The number of jobs that one scope spawns in the case with tiny jobs.
const JOBS: usize = 100_000;
/// The number of items that quicksort sorts.
const SORTED: usize = 1_000_000;

fn creel(workers: usize) -> anyhow::Result<Pool> {
    Ok(Pool::builder().workers(workers).build()?)
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// Returns a subject that measures `sample` on `input`.
fn subject<I: Copy + Send + 'static>(
    name: &str,
    (workers, input): (usize, I),
    sample: fn(&Plan, usize, I) -> anyhow::Result<f64>,
) -> Subject {
    Subject::new(name, move |plan| sample(plan, workers, input))
}

/// A node of a binary tree.
struct Node {
    value: u64,
    left: Option<Box<Self>>,
    right: Option<Box<Self>>,
}

impl Node {
    /// Creates a full tree.
    fn tree(depth: u32) -> Self {
        let child = || (depth > 1).then(|| Box::new(Self::tree(depth - 1)));
        Self {
            value: 1,
            left: child(),
            right: child(),
        }
    }

    fn sum(&self) -> u64 {
        let left = self.left.as_deref().map_or(0, Self::sum);
        let right = self.right.as_deref().map_or(0, Self::sum);
        self.value + left + right
    }

    /// Visits the right side first. The order alone makes a difference if the tree does not fit
    /// into the cache. The nodes are allocated after their children, so this order reads the memory
    /// from its end to its begin without a jump. Compare only subjects with the same order.
    fn sum_right_first(&self) -> u64 {
        let right = self.right.as_deref().map_or(0, Self::sum_right_first);
        let left = self.left.as_deref().map_or(0, Self::sum_right_first);
        self.value + left + right
    }

    fn sum_creel(&self, pool: &Pool) -> u64 {
        let side = |node: &Option<Box<Self>>| node.as_deref().map_or(0, |n| n.sum_creel(pool));
        let (left, right) = pool.join(|| side(&self.left), || side(&self.right));
        self.value + left + right
    }

    fn sum_joiner(&self, joiner: Joiner<'_>) -> u64 {
        let side = |node: &Option<Box<Self>>, joiner: Joiner<'_>| {
            node.as_deref().map_or(0, |n| n.sum_joiner(joiner))
        };
        let (left, right) = joiner.join(|j| side(&self.left, j), |j| side(&self.right, j));
        self.value + left + right
    }

    fn sum_joiner_right_first(&self, joiner: Joiner<'_>) -> u64 {
        let side = |node: &Option<Box<Self>>, joiner: Joiner<'_>| {
            node.as_deref()
                .map_or(0, |n| n.sum_joiner_right_first(joiner))
        };
        let (right, left) = joiner.join(|j| side(&self.right, j), |j| side(&self.left, j));
        self.value + left + right
    }

    fn sum_rayon(&self) -> u64 {
        let side = |node: &Option<Box<Self>>| node.as_deref().map_or(0, Self::sum_rayon);
        let (left, right) = rayon::join(|| side(&self.left), || side(&self.right));
        self.value + left + right
    }

    /// Visits most nodes with the right side first, because chili runs the second closure first.
    #[cfg(feature = "peers")]
    fn sum_chili(&self, scope: &mut chili::Scope<'_>) -> u64 {
        let side = |node: &Option<Box<Self>>, scope: &mut chili::Scope<'_>| {
            node.as_deref().map_or(0, |n| n.sum_chili(scope))
        };
        let (left, right) = scope.join(|s| side(&self.left, s), |s| side(&self.right, s));
        self.value + left + right
    }

    #[cfg(feature = "peers")]
    fn sum_chili_left_first(&self, scope: &mut chili::Scope<'_>) -> u64 {
        let side = |node: &Option<Box<Self>>, scope: &mut chili::Scope<'_>| {
            node.as_deref().map_or(0, |n| n.sum_chili_left_first(scope))
        };
        let (right, left) = scope.join(|s| side(&self.right, s), |s| side(&self.left, s));
        self.value + left + right
    }
}

/// Returns subjects that sum up a full binary tree of `depth` levels, with one join per node.
pub fn tree(depth: u32, workers: usize) -> Vec<Subject> {
    let input = (workers, depth);
    let subjects = vec![
        subject("creel recurse", input, |plan, workers, depth| {
            let (pool, tree) = (creel(workers)?, Node::tree(depth));
            Ok(plan.time(|| _ = black_box(pool.recurse(|j| tree.sum_joiner(j)))))
        }),
        subject("creel, right first", input, |plan, workers, depth| {
            let (pool, tree) = (creel(workers)?, Node::tree(depth));
            Ok(plan.time(|| _ = black_box(pool.recurse(|j| tree.sum_joiner_right_first(j)))))
        }),
        subject("creel join", input, |plan, workers, depth| {
            let (pool, tree) = (creel(workers)?, Node::tree(depth));
            Ok(plan.time(|| _ = black_box(tree.sum_creel(&pool))))
        }),
        subject(ONE_THREAD, input, |plan, _, depth| {
            let tree = Node::tree(depth);
            Ok(plan.time(|| _ = black_box(black_box(&tree).sum())))
        }),
        subject("one thread, right first", input, |plan, _, depth| {
            let tree = Node::tree(depth);
            Ok(plan.time(|| _ = black_box(black_box(&tree).sum_right_first())))
        }),
        subject("rayon in install", input, |plan, workers, depth| {
            let (pool, tree) = (rayon(workers)?, Node::tree(depth));
            Ok(pool.install(|| plan.time(|| _ = black_box(tree.sum_rayon()))))
        }),
    ];
    #[cfg(feature = "peers")]
    let subjects = {
        let chili = subject("chili, right first", input, |plan, workers, depth| {
            let (pool, tree) = (chili_pool(workers), Node::tree(depth));
            let mut scope = pool.scope();
            Ok(plan.time(|| _ = black_box(tree.sum_chili(&mut scope))))
        });
        let left = subject("chili, left first", input, |plan, workers, depth| {
            let (pool, tree) = (chili_pool(workers), Node::tree(depth));
            let mut scope = pool.scope();
            Ok(plan.time(|| _ = black_box(tree.sum_chili_left_first(&mut scope))))
        });
        subjects.into_iter().chain([chili, left]).collect()
    };
    subjects
}

#[cfg(feature = "peers")]
fn chili_pool(workers: usize) -> chili::ThreadPool {
    chili::ThreadPool::with_config(chili::Config {
        thread_count: std::num::NonZero::new(workers),
        ..chili::Config::default()
    })
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    fibonacci(n - 1) + fibonacci(n - 2)
}

fn fibonacci_creel(joiner: Joiner<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = joiner.join(|j| fibonacci_creel(j, n - 1), |j| fibonacci_creel(j, n - 2));
    a + b
}

fn fibonacci_rayon(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fibonacci_rayon(n - 1), || fibonacci_rayon(n - 2));
    a + b
}

#[cfg(feature = "peers")]
fn fibonacci_chili(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = scope.join(|s| fibonacci_chili(s, n - 1), |s| fibonacci_chili(s, n - 2));
    a + b
}

/// Returns subjects that compute the Fibonacci number `n` with one join per addition.
pub fn fib(n: u64, workers: usize) -> Vec<Subject> {
    let input = (workers, n);
    let subjects = vec![
        subject("creel recurse", input, |plan, workers, n| {
            let pool = creel(workers)?;
            Ok(plan.time(|| _ = black_box(pool.recurse(|j| fibonacci_creel(j, black_box(n))))))
        }),
        subject(ONE_THREAD, input, |plan, _, n| {
            Ok(plan.time(|| _ = black_box(fibonacci(black_box(n)))))
        }),
        subject("rayon in install", input, |plan, workers, n| {
            let pool = rayon(workers)?;
            Ok(pool.install(|| plan.time(|| _ = black_box(fibonacci_rayon(black_box(n))))))
        }),
    ];
    #[cfg(feature = "peers")]
    let subjects = {
        let chili = subject("chili", input, |plan, workers, n| {
            let pool = chili_pool(workers);
            let mut scope = pool.scope();
            Ok(plan.time(|| _ = black_box(fibonacci_chili(&mut scope, black_box(n)))))
        });
        subjects.into_iter().chain([chili]).collect()
    };
    subjects
}

/// Moves the items below a pivot to the front. Returns the place of the pivot.
fn partition(items: &mut [u64]) -> usize {
    let last = items.len() - 1;
    items.swap(items.len() / 2, last);
    let (pivot, mut place) = (items[last], 0);
    for at in 0..last {
        if items[at] < pivot {
            items.swap(place, at);
            place += 1;
        }
    }
    items.swap(place, last);
    place
}

/// Sorts by quicksort, in which `both` sorts the two sides. Slices of at most `cut` items are
/// sorted by the standard library.
fn quicksort(items: &mut [u64], cut: usize, both: impl FnOnce(&mut [u64], &mut [u64])) {
    if items.len() <= cut {
        return items.sort_unstable();
    }
    let place = partition(items);
    let (left, right) = items.split_at_mut(place);
    both(left, &mut right[1..]);
}

fn sort(items: &mut [u64], cut: usize) {
    quicksort(items, cut, |left, right| {
        sort(left, cut);
        sort(right, cut);
    });
}

fn sort_creel(pool: &Pool, items: &mut [u64], cut: usize) {
    quicksort(items, cut, |left, right| {
        pool.join(
            || sort_creel(pool, left, cut),
            || sort_creel(pool, right, cut),
        );
    });
}

fn sort_rayon(items: &mut [u64], cut: usize) {
    quicksort(items, cut, |left, right| {
        rayon::join(|| sort_rayon(left, cut), || sort_rayon(right, cut));
    });
}

/// Returns the mean time of `sort` on a million random numbers.
fn time_sort(plan: &Plan, mut sort: impl FnMut(&mut [u64])) -> f64 {
    let random: Vec<u64> = (0..SORTED as u64).map(|seed| busy_work(seed, 2)).collect();
    let items = std::cell::RefCell::new(random.clone());
    plan.time_with_setup(
        || items.borrow_mut().copy_from_slice(&random),
        || sort(&mut items.borrow_mut()),
    )
}

/// Returns subjects that sort a million numbers by quicksort, down to slices of `cut` items.
pub fn sorts(cut: usize, workers: usize) -> Vec<Subject> {
    let input = (workers, cut);
    vec![
        subject("creel join", input, |plan, workers, cut| {
            let pool = creel(workers)?;
            Ok(time_sort(plan, |items| sort_creel(&pool, items, cut)))
        }),
        subject(ONE_THREAD, input, |plan, _, cut| {
            Ok(time_sort(plan, |items| sort(items, cut)))
        }),
        subject("rayon in install", input, |plan, workers, cut| {
            let pool = rayon(workers)?;
            Ok(pool.install(|| time_sort(plan, |items| sort_rayon(items, cut))))
        }),
    ]
}

/// Returns subjects that spawn 100,000 empty jobs in one scope.
pub fn scope(workers: usize) -> Vec<Subject> {
    let input = (workers, ());
    vec![
        subject("creel scope", input, |plan, workers, ()| {
            let pool = creel(workers)?;
            Ok(plan.time(|| pool.scope(|s| (0..JOBS).for_each(|_| s.spawn(|| ())))))
        }),
        subject("rayon in install", input, |plan, workers, ()| {
            let pool = rayon(workers)?;
            let scope = || rayon::scope(|s| (0..JOBS).for_each(|_| s.spawn(|_| ())));
            Ok(pool.install(|| plan.time(scope)))
        }),
    ]
}
