//! Tests of rayon's iterators on pools of several sizes. The results must be those that rayon
//! documents, and the same on each pool.

use creel::{Balance, Pool, Wait};
use creel_rayon::On;
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn pools() -> impl Iterator<Item = Pool> {
    let balances = [Balance::Sticky, Balance::Fixed, Balance::Shared];
    let both = [1, 2, 5]
        .into_iter()
        .flat_map(move |n| balances.map(|b| (n, b)));
    both.map(|(workers, balance)| {
        let builder = Pool::builder().workers(workers).wait(Wait::Park);
        builder
            .balance(balance)
            .build()
            .expect("the settings are valid")
    })
}

#[test]
fn results_are_those_of_one_thread_for_every_length() {
    for pool in pools() {
        for len in [0, 1, 2, 3, 63, 64, 65, 1000] {
            let items: Vec<usize> = (0..len).collect();
            let doubled: Vec<usize> = items.par_iter().on(&pool).map(|i| i * 2).collect();
            assert_eq!(doubled, items.iter().map(|i| i * 2).collect::<Vec<_>>());
            let odd: Vec<usize> = items
                .par_iter()
                .copied()
                .on(&pool)
                .filter(|i| i % 2 == 1)
                .collect();
            assert_eq!(
                odd,
                items
                    .iter()
                    .copied()
                    .filter(|i| i % 2 == 1)
                    .collect::<Vec<_>>()
            );
            assert_eq!(
                items.par_iter().on(&pool).sum::<usize>(),
                items.iter().sum()
            );
            assert_eq!(items.par_iter().on(&pool).count(), len);
            assert_eq!(items.par_iter().on(&pool).max(), items.iter().max());
        }
    }
}

#[test]
fn indexed_steps_before_the_call_of_on_keep_their_indices() {
    for pool in pools() {
        let (a, mut b) = (vec![1; 500], vec![0; 500]);
        b.par_iter_mut()
            .zip(&a)
            .enumerate()
            .on(&pool)
            .for_each(|(i, (b, a))| *b = a + i);
        assert!(b.iter().enumerate().all(|(i, b)| *b == i + 1));
        let mut ends = vec![0; 8];
        b.par_chunks(64)
            .zip(&mut ends)
            .rev()
            .on(&pool)
            .for_each(|(chunk, end)| *end = chunk[0]);
        assert_eq!(ends, [1, 65, 129, 193, 257, 321, 385, 449]);
        let chained = (0..10_usize)
            .into_par_iter()
            .chain(20..30)
            .step_by(5)
            .on(&pool);
        assert_eq!(chained.collect::<Vec<_>>(), [0, 5, 20, 25]);
        let strings: Vec<String> = a.par_iter().map(|n| n.to_string()).on(&pool).collect();
        let moved: String = strings.into_par_iter().on(&pool).map(|s| s + ".").collect();
        assert_eq!(moved, "1.".repeat(500));
        let (low, high): (Vec<usize>, Vec<usize>) =
            b.into_par_iter().on(&pool).partition(|b| *b < 3);
        assert_eq!((low, high.len()), (vec![1, 2], 498));
    }
}

#[test]
fn a_sum_of_floats_has_the_same_bits_on_every_pool() {
    let noise: Vec<f32> = (0..10_007).map(|i| (i as f32).sin()).collect();
    let sum = |pool: &Pool| {
        noise
            .par_iter()
            .on(pool)
            .map(|x| x * 1.1)
            .sum::<f32>()
            .to_bits()
    };
    let sums: Vec<u32> = pools().map(|pool| sum(&pool)).collect();
    assert!(sums.iter().all(|bits| *bits == sums[0]), "{sums:x?}");
}

#[test]
fn find_first_returns_the_first_match_on_every_pool() {
    for pool in pools() {
        let items: Vec<usize> = (0..5000).collect();
        let found = items.par_iter().on(&pool).find_first(|i| **i % 1000 == 999);
        assert_eq!(found, Some(&999));
        assert!(items.par_iter().on(&pool).any(|i| *i == 4321));
        assert!(!items.par_iter().on(&pool).all(|i| *i < 4321));
        let failed = items
            .par_iter()
            .on(&pool)
            .try_for_each(|i| if *i == 77 { Err(*i) } else { Ok(()) });
        assert_eq!(failed, Err(77));
    }
}

#[test]
fn a_search_stops_at_its_first_match() {
    let pool = Pool::builder().workers(1).build().unwrap();
    let visited = AtomicUsize::new(0);
    let found = (0..6400_usize).into_par_iter().on(&pool).find_any(|i| {
        visited.fetch_add(1, Ordering::Relaxed);
        *i == 150
    });
    assert_eq!((found, visited.into_inner()), (Some(150), 151));
}

#[test]
fn length_limits_of_pieces_are_honoured() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let pieces = |items: rayon::vec::IntoIter<u8>, min: usize, max: usize, pieces: usize| {
        let on = items
            .with_min_len(min)
            .with_max_len(max)
            .on(&pool)
            .pieces(pieces);
        on.fold(|| 0_usize, |n, _| n + 1).collect::<Vec<_>>()
    };
    let items = || vec![0_u8; 1000].into_par_iter();
    assert_eq!(pieces(items(), 1, 1000, 4), [250; 4]);
    assert_eq!(pieces(items(), 300, 1000, 64), [333, 333, 334]);
    assert_eq!(pieces(items(), 1, 100, 4), [100; 10]);
    assert_eq!(pieces(items(), 2000, 4000, 4), [1000]);
}

/// A value that counts how many values of its type are alive, so that a test can find values that
/// were never dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_drops_each_item_and_result_once() {
    for pool in pools() {
        for bad in (0..200).step_by(7) {
            let alive = Arc::new(AtomicUsize::new(200));
            let items: Vec<Counted> = (0..200).map(|i| Counted(Arc::clone(&alive), i)).collect();
            let both = |item: Counted| {
                assert!(item.1 != bad, "bad item");
                alive.fetch_add(1, Ordering::Relaxed);
                (Counted(Arc::clone(&alive), item.1), item)
            };
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                items
                    .into_par_iter()
                    .on(&pool)
                    .map(both)
                    .collect::<Vec<_>>()
            }));
            assert!(thrown.is_err());
            assert_eq!(alive.load(Ordering::Relaxed), 0, "item {bad}, {pool:?}");
        }
    }
}

#[test]
fn loops_can_be_nested() {
    for pool in pools() {
        let rows: Vec<Vec<u64>> = (0..20).map(|row| (0..row * 10).collect()).collect();
        let sums = rows
            .par_iter()
            .on(&pool)
            .map(|row| row.par_iter().on(&pool).sum::<u64>());
        let expected: Vec<u64> = rows.iter().map(|row| row.iter().sum()).collect();
        assert_eq!(sums.collect::<Vec<_>>(), expected);
        let flat = rows
            .par_iter()
            .on(&pool)
            .flat_map(|row| row.par_iter().on(&pool));
        assert_eq!(flat.sum::<u64>(), expected.iter().sum());
    }
}

#[test]
fn par_extend_reuses_the_memory_of_a_vector() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let mut out: Vec<usize> = Vec::with_capacity(100);
    let before = out.as_ptr();
    out.par_extend((0..100_usize).into_par_iter().on(&pool));
    assert_eq!((out.as_ptr(), out[99]), (before, 99));
}
