//! Tests of the behaviour that programs on rayon rely on. We test most thoroughly where rayon's
//! rules differ from Creel's own.

use rayon_core::{ThreadPool, ThreadPoolBuilder, Yield};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
    time::Duration,
};

fn pool(threads: usize) -> ThreadPool {
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    builder.build().unwrap()
}

#[test]
fn the_maximum_number_of_threads_is_that_of_creel() {
    let max = rayon_core::max_num_threads();
    let creel = |workers| creel::Pool::builder().workers(workers).build();
    assert!(creel(max).is_ok());
    assert!(creel(max + 1).is_err());
}

#[test]
fn a_join_whose_second_closure_waits_for_a_spawned_job_makes_progress() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    pool.join(
        || {
            while !stolen.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        },
        || {
            stolen.store(true, Ordering::SeqCst);
            let (sender, receiver) = channel();
            pool.spawn(move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        },
    );
}

#[test]
fn a_broadcast_inside_a_stolen_closure_reaches_the_thread_that_waits_for_it() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    let (_, threads) = pool.join(
        || {
            while !stolen.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        },
        || {
            stolen.store(true, Ordering::SeqCst);
            let indices = rayon_core::broadcast(|context| context.index());
            rayon_core::scope(|s| s.spawn_broadcast(|_, _| ()));
            indices
        },
    );
    assert_eq!(threads, [0, 1]);
}

#[test]
fn pools_of_one_thread_install_into_each_other() {
    let (a, b) = (pool(1), pool(1));
    assert_eq!(a.install(|| b.install(|| a.install(|| b.install(|| 7)))), 7);
}

#[test]
fn a_thread_that_yields_runs_a_spawned_job() {
    let pool = pool(1);
    pool.install(|| {
        let (sender, receiver) = channel();
        rayon_core::spawn(move || sender.send(7).unwrap());
        assert_eq!(rayon_core::current_thread_has_pending_tasks(), Some(true));
        assert_eq!(rayon_core::yield_now(), Some(Yield::Executed));
        assert_eq!(receiver.try_recv(), Ok(7));
        assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
    });
    assert_eq!(rayon_core::yield_now(), None);
}

#[test]
fn an_index_belongs_to_one_thread() {
    let pool = pool(3);
    let seen = Mutex::new(HashSet::new());
    pool.scope(|s| {
        for _ in 0..1000 {
            s.spawn(|_| {
                let index = rayon_core::current_thread_index().unwrap();
                seen.lock().unwrap().insert((index, thread::current().id()));
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    let indices: HashSet<_> = seen.iter().map(|(index, _)| index).collect();
    assert_eq!(seen.len(), indices.len());
    assert_eq!(rayon_core::current_thread_index(), None);
}

#[test]
fn jobs_that_wait_for_each_other_run_on_different_threads() {
    let pool = pool(3);
    let meet = Barrier::new(3);
    pool.scope(|s| {
        for _ in 0..3 {
            s.spawn(|_| {
                meet.wait();
            });
        }
    });
}

#[test]
fn the_waiting_owner_of_a_scope_helps_with_joins_of_its_jobs() {
    fn tree(depth: usize, threads: &Mutex<HashSet<usize>>) {
        if depth == 0 {
            let index = rayon_core::current_thread_index().unwrap();
            threads.lock().unwrap().insert(index);
            thread::sleep(std::time::Duration::from_micros(200));
            return;
        }
        rayon_core::join(|| tree(depth - 1, threads), || tree(depth - 1, threads));
    }
    let pool = pool(2);
    let threads = Mutex::default();
    pool.scope(|s| s.spawn(|_| tree(8, &threads)));
    assert_eq!(threads.into_inner().unwrap().len(), 2);
}

#[test]
fn spawned_jobs_run_after_their_pool_is_dropped() {
    let (sender, receiver) = channel();
    let pool = pool(1);
    for n in 0..100 {
        let sender = sender.clone();
        pool.spawn(move || sender.send(n).unwrap());
    }
    drop((pool, sender));
    assert_eq!(receiver.iter().count(), 100);
}

#[test]
fn a_handler_gets_the_panics_of_spawned_jobs() {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let builder = ThreadPoolBuilder::new().num_threads(1);
    let pool = builder
        .panic_handler(move |_| sender.lock().unwrap().send(()).unwrap())
        .build()
        .unwrap();
    pool.spawn(|| panic!("expected"));
    receiver.recv().unwrap();
    assert_eq!(pool.install(|| 7), 7);
}

#[test]
fn use_current_thread_works_with_and_without_further_threads() {
    for threads in [1, 2, 3] {
        let run = move || {
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            let pool = builder.use_current_thread().build().unwrap();
            assert_eq!(pool.current_thread_index(), Some(0));
            assert_eq!(pool.broadcast(|context| context.index()).len(), threads);
            assert_eq!(pool.join(|| 1, || 2), (1, 2));
            let count = AtomicUsize::new(0);
            pool.scope(|s| {
                for _ in 0..100 {
                    s.spawn(|_| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(count.into_inner(), 100);
        };
        thread::spawn(run).join().unwrap();
    }
}

#[test]
fn join_runs_the_second_closure_even_if_the_first_panics() {
    for (threads, current) in [(1, true), (1, false), (2, true), (2, false)] {
        let run = move || {
            let builder = ThreadPoolBuilder::new().num_threads(threads);
            let builder = if current {
                builder.use_current_thread()
            } else {
                builder
            };
            let pool = builder.build().unwrap();
            let ran = AtomicUsize::new(0);
            let b = || ran.fetch_add(1, Ordering::Relaxed);
            let join = || pool.join(|| panic!("expected"), b);
            assert!(catch_unwind(AssertUnwindSafe(join)).is_err());
            assert_eq!(ran.into_inner(), 1, "{threads} threads");
        };
        thread::spawn(run).join().unwrap();
    }
}

/// The thread that created the pool waits for the second closure of a join, which another thread
/// has stolen. That closure waits for a broadcast to the waiting thread. Before each round, the
/// other thread has had time to fall asleep.
#[test]
fn a_stolen_closure_may_broadcast_to_the_thread_that_waits_for_it() {
    let (done, wait) = channel();
    thread::spawn(move || {
        let builder = ThreadPoolBuilder::new().num_threads(2);
        let pool = builder.use_current_thread().build().unwrap();
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(5));
            let begun = AtomicBool::new(false);
            let a = || {
                while !begun.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            };
            let b = || {
                begun.store(true, Ordering::Release);
                rayon_core::broadcast(|context| context.index())
            };
            done.send(pool.join(a, b).1).unwrap();
        }
    });
    for _ in 0..10 {
        let indexes = wait.recv_timeout(Duration::from_secs(60));
        assert_eq!(indexes.expect("no deadlock"), [0, 1]);
    }
}
