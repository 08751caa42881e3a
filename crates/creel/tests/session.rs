//! Tests of sessions and workers: which threads are pinned, to which CPUs, and that the caller gets
//! its affinity mask back.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "most of these tests need Linux")
)]

use creel::{Balance, CpuSet, Placement, Pool, Wait};
use creel_topology::affinity;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The timeout of all waits. Only a hang takes this long.
const LONG: Duration = Duration::from_secs(60);

/// The ledger of pinned workers belongs to the process, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static PLACES: Mutex<()> = Mutex::new(());
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(target_os = "linux")]
fn mask() -> CpuSet {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn phases_of_a_session_see_earlier_writes() {
    let _alone = alone();
    let pool = Pool::builder().workers(2).build().unwrap();
    let (mut speed, mut place) = (vec![1_u64; 5000], vec![0_u64; 5000]);
    for frame in 1..=20 {
        let total = pool.session(|s| {
            s.for_each_indexed(&mut speed, |i, v| *v += i as u64);
            s.for_each_indexed(&mut place, |i, x| *x += speed[i]);
            s.fold(&place, || 0, |sum, x| *sum += x, |a: u64, b| a + b)
        });
        let expected = (0..5000_u64).map(|i| frame + i * frame * (frame + 1) / 2);
        assert_eq!(total, expected.sum::<u64>());
    }
    let nested = pool.session(|_| pool.session(|s| s.map(&[1, 2], |x| x * 2)));
    assert_eq!(nested, [2, 4]);
    assert_eq!(
        pool.run_on(1, || pool.session(|s| s.join(|| 1, || 2)))
            .unwrap(),
        (1, 2)
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_pins_its_caller_and_restores_the_mask_even_after_a_panic() {
    let _alone = alone();
    let before = mask();
    let pool = Pool::builder()
        .workers(2)
        .placement(Placement::Pus)
        .build()
        .unwrap();
    let inside = pool.session(|_| mask());
    assert_eq!(inside, pool.stats().workers[0].cpus);
    assert_eq!(mask(), before);
    let thrown = catch_unwind(AssertUnwindSafe(|| pool.session(|_| panic!("in a frame"))));
    assert!(thrown.is_err());
    assert_eq!(mask(), before);
    let open = Pool::builder()
        .workers(2)
        .placement(Placement::Unpinned)
        .build()
        .unwrap();
    assert_eq!(open.session(|_| mask()), before);
}

#[test]
#[cfg(target_os = "linux")]
fn workers_run_where_the_stats_say_and_a_pool_created_on_a_worker_may_use_all_cpus() {
    let _alone = alone();
    let world = mask();
    let pool = Pool::builder()
        .workers(2)
        .placement(Placement::Pus)
        .build()
        .unwrap();
    let slots: Vec<_> = pool.stats().workers.into_iter().map(|w| w.cpus).collect();
    assert_eq!(pool.broadcast(|_| mask()), slots);
    let inner = pool
        .run_on(1, || {
            let inner = Pool::builder()
                .workers(1)
                .placement(Placement::Unpinned)
                .build()
                .unwrap();
            inner.run_on(0, mask).unwrap()
        })
        .unwrap();
    assert_eq!(
        inner, world,
        "the worker inherited the mask of the thread that started it"
    );
    let inner = pool.session(|_| {
        let inner = Pool::builder().workers(1).wait(Wait::Park).build().unwrap();
        inner.run_on(0, mask).unwrap()
    });
    assert_eq!(inner, world);
    drop(pool);
    assert_eq!(mask(), world);
}

#[test]
#[cfg(target_os = "linux")]
fn two_pools_start_on_different_cores_if_possible() {
    let _alone = alone();
    if mask().len() < 2 {
        return eprintln!("skipped: there is one CPU only");
    }
    thread::spawn(|| {
        let one = || {
            Pool::builder()
                .workers(1)
                .placement(Placement::Pus)
                .build()
                .unwrap()
        };
        let (first, second) = (one(), one());
        let slot = |pool: &Pool| pool.stats().workers[0].cpus.clone();
        assert_ne!(slot(&first), slot(&second));
    })
    .join()
    .unwrap();
}

#[test]
fn the_error_of_an_impossible_placement_names_the_missing_cpu() {
    let _alone = alone();
    let nowhere = Placement::List(vec!["4000".parse().unwrap()]);
    let Err(refused) = Pool::builder().workers(1).placement(nowhere).build() else {
        return eprintln!("skipped: the OS does not report its CPUs");
    };
    assert!(refused.to_string().contains("4000"), "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_moves_away_from_a_caller_on_its_cpu() {
    let _alone = alone();
    // The pool does not pin the caller of a loop. If the caller runs on the CPU to which a worker
    // is pinned, the caller and the worker delay each other, so the worker has to move.
    let before = mask();
    if before.len() < 2 {
        eprintln!("skipped: one usable PU");
        return;
    }
    let pool = Pool::builder().workers(2).placement(Placement::Cores);
    let pool = pool.balance(Balance::Fixed).build().unwrap();
    let mut items = vec![0u64; 64];
    pool.for_each(&mut items, |item| *item += 1);
    let theirs = pool.run_on(1, mask).unwrap();
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            affinity::set(&CpuSet::from_iter([theirs.first().unwrap()])).unwrap();
            // A worker moves to another CPU at most once every few milliseconds.
            let begun = Instant::now();
            while pool.run_on(1, mask).unwrap() == theirs {
                assert!(begun.elapsed() < LONG, "worker 1 stays on the caller's CPU");
                pool.for_each(&mut items, |item| *item += 1);
            }
        });
        caller.join().unwrap();
    });
    assert!(!pool.stats().workers[1].cpus.intersects(&theirs));
    assert_eq!(mask(), before, "the caller's mask has changed");
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_pool_reports_the_reason_for_its_number_of_workers() {
    use creel::topology::LimitKind;

    let default = Pool::new();
    let budget = default.budget().unwrap();
    assert_eq!(budget.workers(), default.workers());
    assert_ne!(budget.bound_by().kind, LimitKind::Explicit);
    default.resize(default.workers()).unwrap();
    let budget = default.budget().unwrap();
    assert_eq!(budget.bound_by().kind, LimitKind::Explicit);
    let chosen = Pool::builder().workers(3).build().unwrap();
    let budget = chosen.handle().budget().unwrap();
    assert_eq!(budget.workers(), 3);
    assert_eq!(budget.bound_by().to_string(), "the given number (3)");
}
