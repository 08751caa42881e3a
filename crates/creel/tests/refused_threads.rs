//! Tests on a system that refuses to start threads.
//!
//! A caller that needs a new thread gets a clear error, workers that already have a thread keep
//! working, and everything works again once threads are available. Each case runs in a process of
//! its own with a limit on its memory.

#![cfg(all(target_os = "linux", not(miri)))]

mod deadline;

use creel::{Balance, JoinError, Pool, WorkerError, task, time};
use deadline::{LIMIT, block_on};
use std::{
    env,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The environment variable that is set in the process that runs a case.
const CASE: &str = "CREEL_REFUSED_CASE";

/// Runs `f` in a process of its own, which is this program with this one test.
#[track_caller]
fn alone(test: &str, f: impl FnOnce()) {
    if env::var(CASE).is_ok() {
        return f();
    }
    let mut own = Command::new(env::current_exe().unwrap());
    own.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let mut process = own.env(CASE, test).stdout(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > LIMIT {
            process.kill().unwrap();
            process.wait().unwrap();
            panic!("{test}: not done after {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(10));
    };
    let mut text = String::new();
    let mut stdout = process.stdout.take().unwrap();
    stdout.read_to_string(&mut text).unwrap();
    // A process that finds no test of this name also succeeds, so we check its output.
    assert!(text.contains("1 passed"), "{test}: {status}: {text}");
}

/// Limits the size of the address space.
fn limit(bytes: libc::rlim_t) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is valid and lives during the call.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Leaves too little address space for the stack of another thread.
fn refuse_threads() {
    // A thread that is just starting still needs memory, so we wait before we set the limit.
    wait_until_no_thread_starts();
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux reports the size");
    let pages: libc::rlim_t = status.split(' ').next().unwrap().parse().expect("a number");
    limit(pages * 4096 + (1 << 20));
}

/// Waits until the number of threads has been stable for a while and all threads except this one
/// sleep.
fn wait_until_no_thread_starts() {
    // Returns the number of threads, and how many of them sleep.
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")));
        let stats: Vec<String> = stats.map(Result::unwrap_or_default).collect();
        let sleeps = |stat: &&String| stat.rsplit(") ").next().unwrap().starts_with('S');
        (stats.len(), stats.iter().filter(sleeps).count())
    };
    let (mut before, mut same) = (0, 0);
    while same < 5 {
        let (now, asleep) = threads();
        same = if now == before && now == asleep + 1 {
            same + 1
        } else {
            0
        };
        before = now;
        thread::sleep(Duration::from_millis(4));
    }
}

fn allow_threads() {
    limit(libc::RLIM_INFINITY);
}

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("there is no thread");
    *payload
        .downcast::<String>()
        .expect("the panic has a message")
}

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).name("crew");
    builder.build().unwrap()
}

const REFUSED: &str = "cannot start the worker's thread";

#[test]
fn a_refused_thread_is_a_clear_error() {
    alone("a_refused_thread_is_a_clear_error", || {
        let pool = pool(3);
        pool.run_on(1, || ()).unwrap(); // this one has its thread already
        refuse_threads();
        let run_on = pool.run_on(2, || ()).unwrap_err().to_string();
        assert_eq!(run_on, REFUSED);
        let broadcast = message(|| drop(pool.broadcast(|worker| worker)));
        assert!(broadcast.starts_with("cannot start worker "), "{broadcast}");
        let scope = pool.scope(|s| s.spawn_on(2, || ())).unwrap_err();
        assert_eq!(scope.to_string(), REFUSED);
        let bound = block_on(pool.spawn_on(2, async {}));
        assert!(
            matches!(bound, Err(JoinError::Spawn(WorkerError::NoThread(_)))),
            "{bound:?}"
        );
        // A loop needs only its caller's thread.
        let visits = pool.with_balance(Balance::Fixed).map(&[1, 2, 3], |x| x + 1);
        assert_eq!(visits, [2, 3, 4]);
        // The workers that have threads keep working.
        assert_eq!(pool.run_on(1, || 5).unwrap(), 5);
        pool.resize(2).unwrap();
        let visits = pool.with_balance(Balance::Fixed).map(&[1, 2, 3], |x| x + 1);
        assert_eq!(visits, [2, 3, 4]);
    });
}

#[test]
fn a_pool_without_threads_rejects_tasks_and_works_once_threads_are_available() {
    let test = "a_pool_without_threads_rejects_tasks_and_works_once_threads_are_available";
    alone(test, || {
        let pool = pool(2);
        refuse_threads();
        let refused = block_on(pool.spawn(async {}));
        assert!(
            matches!(refused, Err(JoinError::Spawn(WorkerError::NoThread(_)))),
            "{refused:?}"
        );
        assert_eq!(pool.join(|| 1, || 2), (1, 2));
        assert_eq!(
            pool.block_on(async { task::spawn(async { 3 }).await })
                .unwrap(),
            3
        );
        allow_threads();
        assert_eq!(block_on(pool.spawn(async { 2 })).unwrap(), 2);
        assert_eq!(pool.broadcast(|worker| worker), [0, 1]);
        pool.block_on(time::sleep(Duration::from_millis(1)));
    });
}

#[test]
fn workers_that_have_threads_keep_working() {
    alone("workers_that_have_threads_keep_working", || {
        let pool = pool(4);
        pool.run_on(0, || ()).unwrap();
        refuse_threads();
        // Each task would wake another worker, for which there is no thread.
        let tasks: Vec<_> = (0..8)
            .map(|i| {
                pool.spawn(async move {
                    for _ in 0..20 {
                        task::spawn(async {}).detach();
                        time::sleep(Duration::from_micros(50)).await;
                        task::yield_now().await;
                    }
                    i
                })
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(block_on(task).unwrap(), i);
        }
        let mut items = [1; 100];
        pool.scope(|s| {
            items
                .iter_mut()
                .for_each(|item| s.spawn(move || *item += 1))
        });
        assert_eq!(items, [2; 100]);
        allow_threads();
        assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2, 3]);
    });
}

#[test]
fn a_pool_ends_although_the_os_refuses_threads() {
    alone("a_pool_ends_although_the_os_refuses_threads", || {
        let (first, second) = (pool(2), pool(2));
        first.run_on(0, || ()).unwrap();
        refuse_threads();
        first.spawn(std::future::pending::<()>()).detach();
        second.block_on(async { task::spawn(std::future::pending::<()>()).detach() });
        drop((first, second));
    });
}

#[test]
fn a_worker_to_be_removed_stays_until_it_can_be_replaced() {
    alone(
        "a_worker_to_be_removed_stays_until_it_can_be_replaced",
        || {
            for pause_us in (0..2000).step_by(200) {
                let pool = Pool::builder().workers(8).build().unwrap();
                let waits = pool.spawn_on(6, async {
                    let any = "127.0.0.1:0".parse().unwrap();
                    let socket = creel::net::UdpSocket::bind(any).unwrap();
                    let mut bytes = [0; 4];
                    time::timeout(Duration::from_millis(40), socket.recv(&mut bytes)).await
                });
                for slot in 5..8 {
                    pool.run_on(slot, || ()).unwrap();
                }
                refuse_threads();
                thread::sleep(Duration::from_micros(pause_us));
                pool.resize(1).unwrap();
                // Each worker checks, sooner or later, whether it may end. We give the workers time
                // for that.
                thread::sleep(Duration::from_millis(50));
                allow_threads();
                block_on(waits).unwrap().unwrap_err();
            }
        },
    );
}

#[test]
fn a_future_that_owns_its_pool_is_dropped_without_threads() {
    alone(
        "a_future_that_owns_its_pool_is_dropped_without_threads",
        || {
            let pool = Pool::builder().workers(1).build().unwrap();
            let handle = pool.handle();
            refuse_threads();
            let refused = handle.spawn(async move { drop(pool) });
            allow_threads();
            assert!(refused.is_finished());
            let after = handle.spawn(async {});
            assert!(after.is_finished(), "the pool has ended");
        },
    );
}
