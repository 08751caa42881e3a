//! The loop verbs, which are the loop methods of `Pool`, compared with the standard library on one
//! thread.
//!
//! The verbs must have the same outcome at any number of workers and under each balance, and report
//! clearly if arguments do not fit together.

mod deadline;

use creel::{
    Balance, Outbox, Pool, Scratch, Wait, WorkerError,
    loops::{Tiles, TilesMut},
};
use deadline::bounded;
use std::{
    cell::Cell,
    cmp::{Ordering, Reverse},
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

fn pools() -> impl Iterator<Item = creel::Pool> {
    let pool = |workers| {
        let builder = Pool::builder().workers(workers).wait(Wait::Park);
        builder.build().unwrap()
    };
    let balances = [Balance::Fixed, Balance::Sticky, Balance::Shared];
    let pools = if cfg!(miri) { &[3][..] } else { &[1, 2, 5] };
    let pools = pools.iter().map(move |&workers| pool(workers));
    pools.flat_map(move |pool| balances.map(|balance| pool.with_balance(balance)))
}

/// The numbers of items to test. They include the lengths at which the loops change their
/// behaviour.
const LENGTHS: &[usize] = if cfg!(miri) {
    &[0, 1, 9]
} else {
    &[0, 1, 2, 7, 127, 128, 129, 1000, 5000]
};

fn message(f: impl FnOnce()) -> String {
    let thrown = catch_unwind(AssertUnwindSafe(f)).expect_err("the call panics");
    match thrown.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().expect("the message is text")).into(),
    }
}

/// Returns a number that looks random.
fn mixed(n: usize) -> u64 {
    let n = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ n >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
}

#[test]
fn ranges_cover_each_index_once_and_name_their_worker() {
    for pool in pools() {
        for &len in LENGTHS {
            let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            let busy: Vec<AtomicUsize> = (0..5).map(|_| AtomicUsize::new(0)).collect();
            pool.for_each_range(3..3 + len, |range, worker| {
                assert_eq!(busy[worker].fetch_add(1, Relaxed), 0);
                for index in range {
                    seen[index - 3].fetch_add(1, Relaxed);
                }
                busy[worker].fetch_sub(1, Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Relaxed) == 1));
        }
    }
}

#[test]
fn loops_take_eight_inputs_and_everything_that_borrows_a_slice() {
    for pool in pools() {
        for &len in LENGTHS {
            let (mut a, mut b, c) = (vec![0; len], vec![0; len], vec![2; len]);
            let (mut d, e) = (vec![3; len], vec![4; len]);
            let mut own = pool.scratch(|_| 0);
            let mut outbox = Outbox::new();
            let all = (
                &mut a,
                &mut b[..],
                &c,
                &mut d,
                &e[..],
                10..10 + len,
                &mut own,
                outbox.for_receivers(1),
            );
            pool.for_each_indexed(all, |index, (a, b, c, d, e, n, own, post)| {
                *a = c + *d + e;
                *d = index;
                *b = n - 10;
                *own += 1;
                post.send(0, n);
            });
            assert_eq!(a, vec![9; len]);
            assert!(b.iter().copied().eq(0..len) && d == b);
            assert_eq!(own.into_iter().sum::<usize>(), len);
            let mut order = [Vec::new()];
            pool.deliver(&mut outbox, &mut order, |order, n| order.push(n));
            assert!(order[0].iter().copied().eq(10..10 + len));
        }
        let (mut x, y) = ([1, 2, 3], [4, 5, 6]);
        pool.for_each((&mut x, &y), |(x, y)| *x += y);
        pool.for_each(&mut x, |x| *x += 1);
        assert_eq!(x, [6, 8, 10]);
    }
}

#[test]
fn different_and_impossible_lengths_are_named_in_the_panic() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let (mut a, b) = (vec![0; 10], vec![0; 9]);
    let mut own = pool.scratch(|_| ());
    let text = message(|| pool.for_each((&mut a, &mut own, 0..10, &b), |(_, (), _, _)| ()));
    assert!(
        text.ends_with("number 1 of the tuple has 10, number 4 has 9"),
        "{text}"
    );
    let text = message(|| pool.for_each_chunk((&b, &a), 4, |_| ()));
    assert!(text.ends_with("number 1 of the tuple has 9, number 2 has 10"));
    let text = message(|| pool.for_each_chunk(&a, 0, |_| ()));
    assert_eq!(text, "a chunk must have at least one item, not 0");
    let text = message(|| _ = TilesMut::new(&mut a, 3, (1, 1)));
    assert_eq!(text, "10 items do not fill whole rows of 3 items");
    let text = message(|| _ = pool.fold_with_leaves(0, &a, || 0, |_, _| (), |a, _| a));
    assert_eq!(text, "a fold must have at least one leaf, not 0");
}

#[test]
fn chunks_and_an_outbox_can_be_visited_together() {
    for pool in pools() {
        for &len in LENGTHS {
            for chunk in [1, 3, len.max(1), usize::MAX] {
                let (mut a, b) = (vec![0; len], (0..len).collect::<Vec<_>>());
                let mut outbox = Outbox::new();
                let mut own: Scratch<usize> = pool.scratch(|_| 0);
                let all = (&mut a, &b, 5..5 + len, &mut own, outbox.for_receivers(1));
                pool.for_each_chunk_indexed(all, chunk, |start, (a, b, n, own, post)| {
                    assert_eq!((a.len(), b.len()), (n.len(), n.len()));
                    assert_eq!(start + 5, n.start);
                    a.copy_from_slice(b);
                    *own += n.len();
                    post.send(0, start);
                });
                assert_eq!(a, b);
                assert_eq!(own.iter().sum::<usize>(), len);
                let mut starts = [Vec::new()];
                pool.deliver(&mut outbox, &mut starts, |all, start| all.push(start));
                assert!(starts[0].iter().copied().eq((0..len).step_by(chunk)));
                let sums = pool.map_chunks((&a, 0..len), chunk, |(a, n)| a.len() + n.len());
                assert!(b.chunks(chunk).map(|b| 2 * b.len()).eq(sums));
            }
        }
    }
}

#[test]
fn tiles_cover_the_whole_grid_once() {
    for pool in pools() {
        for (width, height, tile) in [
            (1, 1, (1, 1)),
            (7, 5, (3, 2)),
            (4, 6, (9, usize::MAX)),
            (3, 0, (1, 1)),
        ] {
            let read: Vec<_> = (0..width * height).collect();
            let mut grid = vec![usize::MAX; width * height];
            let tiles = (
                TilesMut::new(&mut grid, width, tile),
                Tiles::new(&read, width, tile),
            );
            pool.for_each(tiles, |(mut to, from)| {
                for y in to.rows() {
                    assert_eq!(to.columns(), from.columns());
                    to.row_mut(y).copy_from_slice(from.row(y));
                }
            });
            assert_eq!(grid, read);
        }
        let mut grid = [0; 4];
        let text = message(|| {
            pool.for_each_indexed(TilesMut::new(&mut grid, 2, (2, 1)), |index, mut tile| {
                tile.row_mut(1 - index).fill(1);
            });
        });
        assert!(text.starts_with("a tile of rows"), "{text}");
    }
}

#[test]
fn the_longest_item_starts_first_and_each_item_is_visited_once() {
    for pool in pools() {
        for &len in LENGTHS {
            // Many lengths are equal, so that the order of equal lengths matters.
            let length = |n: usize| mixed(n) % 10;
            let mut items: Vec<(usize, u64, usize)> = (0..len).map(|n| (n, length(n), 0)).collect();
            let order = Mutex::new(Vec::new());
            pool.for_each_longest_first_indexed(
                &mut items,
                |item| item.1,
                |index, item| {
                    assert_eq!(index, item.0);
                    item.2 += 1;
                    order.lock().unwrap().push(index);
                },
            );
            pool.for_each_longest_first(&mut items, |item| item.1, |item| item.2 += 1);
            assert!(items.iter().all(|item| item.2 == 2), "{len}");
            let mut order = order.into_inner().unwrap();
            let mut expected: Vec<usize> = (0..len).collect();
            expected.sort_by_key(|&n| (Reverse(length(n)), n));
            // Several workers write the order down, so only one worker writes it down exactly.
            if pool.workers() > 1 {
                order.sort_unstable();
                expected.sort_unstable();
            }
            assert!(order == expected, "{len}");
        }
        let mut items = [1, 2, 3];
        let in_length = || pool.for_each_longest_first(&mut [0], |_| panic!("length"), |_| ());
        assert_eq!(message(in_length), "length");
        let mut visit = || {
            pool.for_each_longest_first(
                &mut items,
                |item| *item,
                |item| {
                    *item += 10;
                    assert_ne!(*item, 13, "the longest");
                },
            );
        };
        assert!(message(&mut visit).contains("the longest"));
        assert_eq!(items[2], 13);
    }
}

#[test]
fn chunks_are_mapped_in_order_with_their_first_index() {
    for pool in pools() {
        for &len in LENGTHS {
            let items: Vec<u64> = (0..len).map(mixed).collect();
            for size in [1, 3, 64] {
                let made = pool.map_chunks_indexed(&items, size, |start, chunk: &[u64]| {
                    (start, chunk.to_vec())
                });
                let starts = (0..len).step_by(size);
                let chunks = items.chunks(size).map(<[u64]>::to_vec);
                assert!(made.into_iter().eq(starts.zip(chunks)), "{len} by {size}");
            }
        }
    }
}

#[test]
fn folds_match_a_single_thread() {
    for pool in pools() {
        for &len in LENGTHS {
            let numbers: Vec<u64> = (0..len).map(mixed).collect();
            assert_eq!(
                pool.sum(&numbers, |n| n % 100),
                numbers.iter().map(|n| n % 100).sum::<u64>()
            );
            assert_eq!(pool.min(&numbers, |n| *n), numbers.iter().copied().min());
            assert_eq!(
                pool.max((0..numbers.len(), &numbers), |(i, n)| (n % 7, i)),
                numbers.iter().zip(0..).map(|(n, i)| (n % 7, i)).max()
            );
            assert_eq!(
                pool.count(&numbers, |n| n % 2 == 0),
                numbers.iter().filter(|n| *n % 2 == 0).count()
            );
            // The operation is not commutative, so a fold must combine the values in the order of
            // the items.
            let join = |mut a: Vec<u64>, b: Vec<u64>| {
                a.extend(b);
                a
            };
            let add = |all: &mut Vec<u64>, n: &u64| all.push(*n);
            assert_eq!(pool.fold(&numbers, Vec::new, add, join), numbers);
            for leaves in [1, 3, usize::MAX] {
                assert_eq!(
                    pool.fold_with_leaves(leaves, &numbers, Vec::new, add, join),
                    numbers
                );
            }
            let mut all = pool.fold_by_worker(&numbers, Vec::new, add, join);
            let mut sorted = numbers.clone();
            all.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(all, sorted);
            let mut changed = numbers.clone();
            let most = pool.map_reduce(
                &mut changed,
                |n| {
                    *n /= 2;
                    *n
                },
                u64::max,
            );
            assert!(changed.iter().zip(&numbers).all(|(a, b)| *a == b / 2));
            assert_eq!(most, changed.iter().copied().max());
            let flat = pool.flat_map_indexed(&numbers, |i, n| vec![*n; i % 3]);
            let beside = numbers
                .iter()
                .enumerate()
                .flat_map(|(i, n)| vec![*n; i % 3]);
            assert!(beside.eq(flat));
        }
    }
}

/// The tree is split by the number of items only, so the result has the same bits at any number of
/// workers.
#[test]
fn a_floating_point_sum_has_the_same_bits_everywhere() {
    let noise: Vec<f32> = (0..3000).map(|n| mixed(n) as f32 * 1e-9).collect();
    let mut seen = HashMap::new();
    for pool in pools() {
        let few = pool.fold_with_leaves(7, &noise, || 0.0, |sum, x| *sum += x, |a, b| a + b);
        let bits = (pool.sum(&noise, |x| *x).to_bits(), few.to_bits());
        *seen.entry(bits).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn find_returns_the_first_match_and_visits_all_items_before_it() {
    for pool in pools() {
        for &len in LENGTHS {
            for first in [0, len / 3, len.saturating_sub(1), len] {
                let found = |index: usize| index >= first;
                let there = (first < len).then_some(first);
                let looked = AtomicUsize::new(0);
                let position = pool.position(0..len, |index| {
                    looked.fetch_add(usize::from(index <= first), Relaxed);
                    found(index)
                });
                assert_eq!(position, there);
                assert_eq!(looked.into_inner(), len.min(first + 1));
                let any = pool.find_any(0..len, found);
                assert_eq!(any.is_some(), there.is_some());
                assert!(any.is_none_or(found));
                assert_eq!(pool.any(0..len, found), there.is_some());
                assert_eq!(pool.all(0..len, |index| !found(index)), there.is_none());
                let boxed = |index| found(index).then(|| Box::new(index));
                let map = pool.find_map(0..len, boxed);
                assert_eq!(map.map(|found| *found), there);
                let fails = |index| boxed(index).map_or(Ok(Box::new(index)), Err);
                let each = pool.try_for_each(0..len, |index| fails(index).map(drop));
                assert_eq!(each.err().map(|found| *found), there);
                match pool.try_map(0..len, fails) {
                    Ok(made) => assert!(made.into_iter().map(|made| *made).eq(0..len)),
                    Err(error) => assert_eq!(Some(*error), there),
                }
            }
        }
    }
}

/// An item that owns memory, and that only one thread at a time may compare (it is not `Sync`).
#[derive(Clone, Debug, PartialEq)]
struct Item(u64, usize, Box<Cell<u32>>);

#[test]
fn sorts_match_the_standard_library() {
    for pool in pools() {
        let lengths = if cfg!(miri) {
            &[9, 2100][..]
        } else {
            &[0, 1, 2047, 2048, 30_000, 100_003]
        };
        for &len in lengths {
            for order in 0..4 {
                let key = |n: usize| match order {
                    0 => mixed(n),
                    1 => mixed(n) % 10,
                    2 => n as u64,
                    _ => (len - n) as u64 / 3,
                };
                let items: Vec<Item> = (0..len).map(|n| Item(key(n), n, Box::default())).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|item| item.0);
                let mut sorted = items.clone();
                pool.sort_by_key(&mut sorted, |item| {
                    item.2.set(item.2.get().wrapping_add(1));
                    item.0
                });
                let plain = |items: &[Item]| items.iter().map(|i| (i.0, i.1)).collect::<Vec<_>>();
                assert!(plain(&sorted) == plain(&expected), "{len} in order {order}");
                let mut keys: Vec<u64> = items.iter().map(|item| item.0).collect();
                let mut same = keys.clone();
                pool.sort_unstable(&mut keys);
                same.sort_unstable();
                assert!(keys == same, "{len} in order {order}, unstable");
                // Each item stays whole, although equal ones may change places.
                let mut falling = items.clone();
                pool.sort_unstable_by(&mut falling, |a, b| b.0.cmp(&a.0));
                let keys = falling.iter().map(|item| item.0);
                assert!(
                    keys.eq(same.iter().rev().copied()),
                    "{len} in order {order}, falling"
                );
                falling.sort_by_key(|item| item.1);
                assert!(falling == items, "{len} in order {order}, falling");
                if cfg!(miri) {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_sort_loses_no_item_to_a_panic_or_an_inconsistent_order() {
    for pool in pools() {
        let len = if cfg!(miri) { 2100 } else { 20_000 };
        let items: Vec<Item> = (0..len)
            .map(|n| Item(mixed(n), n, Box::default()))
            .collect();
        let whole = |mut items: Vec<Item>| {
            items.sort_unstable_by_key(|item| item.1);
            assert!(items.iter().map(|item| item.1).eq(0..len));
        };
        let compared = AtomicUsize::new(0);
        let compare = |a: &Item, b: &Item| {
            compared.fetch_add(1, Relaxed);
            a.0.cmp(&b.0)
        };
        pool.sort_by(&mut items.clone(), compare);
        let all = compared.swap(0, Relaxed);
        // Depending on `bad`, the panic happens while the pieces are sorted or while they are
        // merged. The merges come last.
        for bad in [0, all / 2, all - len, all - len / 2, all - len / 8, all - 1] {
            compared.store(0, Relaxed);
            let mut sorted = items.clone();
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.sort_by(&mut sorted, |a, b| {
                    assert_ne!(compared.load(Relaxed), bad);
                    compare(a, b)
                });
            }));
            // Other threads count at the same time, so it can happen that no comparison sees
            // exactly `bad` and nothing panics. We accept both outcomes.
            drop(thrown);
            whole(sorted);
            if cfg!(miri) {
                break;
            }
        }
        let mut sorted = items.clone();
        let answers = [Ordering::Less, Ordering::Greater, Ordering::Equal];
        let nonsense = |_: &Item, _: &Item| answers[compared.fetch_add(1, Relaxed) * 7 / 3 % 3];
        // The standard library may panic if the comparison is not a total order.
        let thrown = catch_unwind(AssertUnwindSafe(|| pool.sort_by(&mut sorted, nonsense)));
        drop(thrown);
        whole(sorted);
    }
}

#[test]
fn a_panic_in_any_loop_method_drops_each_result_once() {
    for pool in pools() {
        let alive = std::sync::Arc::new(());
        let len = if cfg!(miri) { 9 } else { 300 };
        for bad in [0, len / 2, len - 1] {
            let made = |index: usize| {
                assert!(index != bad, "at {index}");
                std::sync::Arc::clone(&alive)
            };
            type Kept = std::sync::Arc<()>;
            let put = |all: &mut Vec<Kept>, index: usize| all.push(made(index));
            let join = |mut a: Vec<Kept>, b: Vec<Kept>| {
                a.extend(b);
                a
            };
            let verbs: [&dyn Fn(); 10] = [
                &|| drop(pool.map_indexed(0..len, |i, _| made(i))),
                &|| drop(pool.try_map(0..len, |i| Ok::<_, ()>(made(i)))),
                &|| drop(pool.map_chunks(0..len, 2, |part| part.map(&made).collect::<Vec<_>>())),
                &|| drop(pool.map_chunks_indexed(0..len, 1, |start, _| made(start))),
                &|| drop(pool.flat_map_indexed(0..len, |i, _| [made(i), made(i)])),
                &|| drop(pool.fold(0..len, Vec::new, put, join)),
                &|| drop(pool.fold_by_worker(0..len, Vec::new, put, join)),
                &|| drop(pool.map_reduce_indexed(0..len, |i, _| made(i), |a, _| a)),
                &|| _ = pool.find_map_indexed(0..len, |i, _| (made(i), None::<()>).1),
                &|| pool.for_each_chunk_indexed(0..len, 1, |start, _| drop(made(start))),
            ];
            for (verb, call) in verbs.iter().enumerate() {
                let thrown = catch_unwind(AssertUnwindSafe(call));
                assert!(thrown.is_err(), "verb {verb}, bad {bad}");
                assert_eq!(std::sync::Arc::strong_count(&alive), 1, "verb {verb}");
            }
            // If a closure returns an error, the results of the other calls are dropped as well.
            let half = |i: usize| {
                if i < bad {
                    Ok(std::sync::Arc::clone(&alive))
                } else {
                    Err(i)
                }
            };
            assert_eq!(
                pool.try_map_indexed(0..len, |i, _| half(i)).unwrap_err(),
                bad
            );
            assert_eq!(std::sync::Arc::strong_count(&alive), 1);
        }
    }
}

#[test]
fn a_view_and_a_handle_have_the_same_loop_methods() {
    let pool = Pool::builder().workers(4).wait(Wait::Park).build().unwrap();
    let few = pool.with_max_workers(2).with_balance(Balance::Fixed);
    let inside = AtomicUsize::new(0);
    let most = AtomicUsize::new(0);
    for _ in 0..20 {
        few.for_each(0..400, |_| {
            most.fetch_max(1 + inside.fetch_add(1, Relaxed), Relaxed);
            std::thread::yield_now();
            inside.fetch_sub(1, Relaxed);
        });
    }
    assert!(most.into_inner() <= 2);
    assert_eq!(pool.with_max_workers(0).map(0..3, |n| n), [0, 1, 2]);
    let sum = pool.session(|frame| frame.with_balance(Balance::Shared).sum(0..100, |n| n));
    assert_eq!(sum, 4950);
    assert!(Pool::current().is_none());
    let inside = pool.block_on(async { Pool::current().map(|pool| pool.sum(0..10, |n| n)) });
    assert_eq!(inside, Some(45));
    let task = pool.spawn(async {
        let pool = Pool::current().expect("a task has a pool");
        pool.spawn(async { 7 }).await.unwrap() + pool.map(0..3, |n| n).len()
    });
    assert_eq!(pool.block_on(task).unwrap(), 10);
    let handle = pool.handle();
    drop((pool, few));
    // The pool's workers are gone, but a loop needs none.
    assert_eq!(handle.map(0..3, |n| n), [0, 1, 2]);
    assert_eq!(handle.join(|| 1, || 2), (1, 2));
    let mut ran = 0;
    handle.scope(|s| s.spawn(|| ran += 1));
    assert_eq!(ran, 1);
    assert!(matches!(handle.run_on(1, || ()), Err(WorkerError::Ended)));
    let text = message(|| handle.block_on(async {}));
    assert!(text.contains("has been dropped"), "{text}");
}

#[test]
fn a_dropped_pool_waits_for_callers_in_block_on() {
    bounded("a drop during a block_on", || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let handle = pool.handle();
        // In this case the future itself drops the pool. Its thread cannot wait for itself, so
        // another thread does.
        handle.block_on(async move {
            drop(pool);
            assert!(creel::task::spawn(async {}).await.is_err());
        });
        let pool = Pool::builder().workers(1).build().unwrap();
        let handle = pool.handle();
        let (inside, is_inside) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            handle.block_on(async {
                let never = creel::task::spawn(std::future::pending::<()>());
                inside.send(()).unwrap();
                // The end of the pool cancels this task.
                never.await.is_err()
            })
        });
        is_inside.recv().unwrap();
        drop(pool);
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_job_of_spawn_near_runs_on_its_worker_unless_that_worker_is_late() {
    let pool = Pool::builder()
        .workers(3)
        .wait(Wait::Park)
        .name("near")
        .build()
        .unwrap();
    let name = || std::thread::current().name().map(String::from);
    let there = AtomicUsize::new(0);
    let near = |worker| {
        let (own, done) = (Some(format!("near-{worker}")), AtomicUsize::new(0));
        pool.scope(|s| {
            s.spawn_near(worker, || {
                there.fetch_add(usize::from(name() == own), Relaxed);
                done.store(1, Relaxed);
            });
            // This thread does not help before the scope's closure has returned.
            while done.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
        });
    };
    // Without the hint, 20 of the 40 jobs would run on that worker by chance. On a busy machine a
    // worker may be late, so we repeat this until 30 of 40 jobs ran near their worker, or for a
    // minute.
    let begin = Instant::now();
    let most = std::iter::repeat_with(|| {
        there.store(0, Relaxed);
        (0..40).for_each(|round| near(1 + round % 2));
        there.load(Relaxed) >= 30
    });
    let mut most = most.take_while(|_| begin.elapsed() < Duration::from_secs(60));
    let most = most.any(|is_most| is_most);
    assert!(
        most,
        "{there:?} of 40 ran on the worker they were spawned near"
    );
    // A job near a blocked worker does not wait for that worker.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let began = std::sync::Arc::new(std::sync::Barrier::new(2));
    let begins = std::sync::Arc::clone(&began);
    let task = pool.spawn_on(1, async move {
        begins.wait();
        blocked.recv().unwrap();
    });
    began.wait();
    let ran = AtomicUsize::new(0);
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            (0..100).for_each(|n| {
                let ran = &ran;
                s.spawn_near(n % 3, move || _ = ran.fetch_add(1, Relaxed));
            });
            s.spawn_near(1, || panic!("near"));
        });
    }));
    assert!(thrown.is_err());
    assert_eq!(ran.into_inner(), 100);
    release.send(()).unwrap();
    pool.block_on(task).unwrap();
}

#[test]
fn loops_over_iterators_visit_each_item_once_and_keep_the_order() {
    for pool in pools() {
        for &len in LENGTHS {
            for bound in [1, 3, 64, usize::MAX] {
                let items: Vec<String> = (0..len).map(|n| n.to_string()).collect();
                let counted: HashMap<String, AtomicUsize> =
                    items.iter().map(|item| (item.clone(), 0.into())).collect();
                pool.for_each_bridged(items.clone(), bound, |item| {
                    counted[&item].fetch_add(1, Relaxed);
                });
                assert!(counted.values().all(|count| count.load(Relaxed) == 1));
                let mut lengths = Vec::new();
                pool.map_bridged(&items, bound, String::len, |len| lengths.push(len));
                assert!(items.iter().map(String::len).eq(lengths));
                let sum = AtomicUsize::new(0);
                pool.for_each_bridged(counted, bound, |(_, count)| {
                    sum.fetch_add(count.into_inner(), Relaxed);
                });
                assert_eq!(sum.into_inner(), len);
            }
        }
    }
}
