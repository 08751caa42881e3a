//! Tests that impossible settings are rejected by the call that sets them or by `build`, and tests
//! of small methods of a pool.

#![cfg(not(miri))]

mod deadline;

use creel::{
    AcquireError, BuildError, GangError, GlobalError, JoinError, Pool, WorkerError, blocking,
    channel::bounded, net, set_max_blocking_threads, task, time, topology,
};
use deadline::bounded;
use std::{
    cell::Cell,
    error::Error,
    io,
    iter::successors,
    panic::catch_unwind,
    rc::Rc,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

/// Checks that no message in the chain of causes contains the message of its cause, and returns the
/// messages.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let chain = successors(Some(error), |error| (*error).source());
    let messages: Vec<_> = chain.map(ToString::to_string).collect();
    for pair in messages.windows(2) {
        assert!(!pair[0].contains(&pair[1]), "{messages:?}");
    }
    messages
}

#[test]
fn no_message_of_an_error_contains_its_cause() {
    let cause = || io::Error::other("the cause");
    let observe = || BuildError::Observe(Arc::new(cause()));
    let affinity = topology::Error::Affinity(cause());
    let not_allowed = topology::Error::NotAllowed {
        reason: "no PUs".into(),
    };
    let place = |error| BuildError::Placement(Arc::new(error));
    let with_cause: [&dyn Error; 8] = [
        &observe(),
        &place(affinity),
        &WorkerError::NoThread(cause()),
        &GangError::Worker(WorkerError::NoThread(cause())),
        &JoinError::Spawn(WorkerError::NoThread(cause())),
        &GlobalError::Build(observe()),
        &AcquireError::Build(observe()),
        &topology::Error::Affinity(cause()),
    ];
    for error in with_cause {
        let messages = chain(error);
        assert_eq!(messages.last().unwrap(), "the cause", "{messages:?}");
    }
    let ended = || WorkerError::Ended;
    assert_eq!(chain(&place(not_allowed)), ["no PUs"]);
    assert_eq!(chain(&GangError::Worker(ended())), ["the pool has ended"]);
    let spawn = JoinError::Spawn(ended());
    assert_eq!(
        chain(&spawn),
        ["the task was not spawned", "the pool has ended"]
    );
    // `unwrap` prints only this text.
    assert_eq!(
        format!("{spawn:?}"),
        "JoinError(the task was not spawned: Ended)"
    );
}

#[test]
fn an_impossible_stack_size_is_rejected_by_build() {
    for bytes in [0, 1, 4096, usize::MAX / 2 + 1, usize::MAX] {
        let built = Pool::builder().workers(1).stack_size(bytes).build();
        let error = built.unwrap_err();
        assert!(matches!(error, BuildError::StackSize { asked, .. } if asked == bytes));
        assert!(error.to_string().contains("stack_size"), "{error}");
    }
    let small = Pool::builder().workers(1).stack_size(64 << 10);
    assert_eq!(small.build().unwrap().run_on(0, || 7).unwrap(), 7);
}

#[test]
fn a_panic_names_a_capacity_out_of_range_and_its_limit() {
    for capacity in [0, (1 << 30) + 1, usize::MAX] {
        let made = catch_unwind(|| drop(bounded::channel::<u8>(capacity)));
        let payload = made.unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        let names = [capacity.to_string(), "2^30".into()];
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

#[test]
fn a_seeded_pool_runs_local_tasks() {
    let run = |seed| {
        let pool = Pool::seeded(seed);
        let log = Rc::new(Cell::new(0));
        let own = Rc::clone(&log);
        let sum = pool.block_on(async move {
            let tasks: Vec<_> = (1..=3)
                .map(|n| {
                    let log = Rc::clone(&own);
                    task::spawn_local(async move {
                        time::sleep(Duration::from_secs(1)).await;
                        log.set(log.get() * 10 + n);
                        Rc::new(n)
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += *task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 6);
        log.get()
    };
    assert_eq!(run(7), run(7));
    assert!((0..100).any(|seed| run(seed) != run(7)));
}

#[test]
fn a_local_task_of_a_seeded_pool_stays_on_its_thread() {
    struct SameThread(thread::ThreadId);
    impl Drop for SameThread {
        fn drop(&mut self) {
            assert_eq!(self.0, thread::current().id());
        }
    }
    let local = || {
        let here = SameThread(thread::current().id());
        let task = task::spawn_local(async move {
            task::yield_now().await;
            assert_eq!(here.0, thread::current().id());
            std::future::pending::<()>().await;
        });
        drop(task);
    };
    // Another thread runs the pool, and drops it.
    let pool = Pool::seeded(1);
    pool.block_on(async { local() });
    let other = thread::spawn(move || {
        pool.block_on(async { time::sleep(Duration::from_secs(1)).await });
        drop(pool);
    });
    other.join().unwrap();
    // The same thread runs the pool and drops it.
    let pool = Pool::seeded(1);
    pool.block_on(async {
        local();
        time::sleep(Duration::from_secs(1)).await;
    });
}

/// This is a single test, because the maximum number of blocking calls belongs to the process.
#[test]
fn blocking_calls_are_limited_and_do_not_delay_name_lookups() {
    bounded("blocking calls", || {
        set_max_blocking_threads(3);
        let pool = Pool::builder().workers(1).build().unwrap();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let all = Arc::new(Barrier::new(4));
        let (began, begins) = mpsc::channel();
        let calls: Vec<_> = (0..6)
            .map(|call| {
                let (held, all, began) = (Arc::clone(&held), Arc::clone(&all), began.clone());
                blocking(move || {
                    began.send(thread::current().id()).unwrap();
                    if call < 3 {
                        all.wait();
                    }
                    let _ = held.lock().unwrap().recv();
                })
            })
            .collect();
        all.wait(); // three at the same time
        let found = pool.block_on(net::lookup_host("localhost:80")).unwrap();
        assert!(!found.is_empty());
        drop(release);
        for call in calls {
            pool.block_on(call);
        }
        drop(began);
        let mut threads: Vec<_> = begins.into_iter().collect();
        threads.sort_by_key(|id| format!("{id:?}"));
        threads.dedup();
        assert_eq!(threads.len(), 3);
        assert!(catch_unwind(|| set_max_blocking_threads(0)).is_err());
    });
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn unix_sockets_take_abstract_names() {
    use creel::net::{UnixDatagram, UnixListener, UnixStream};
    use std::os::linux::net::SocketAddrExt;

    let name = |kind: &str| format!("\0creel-{kind}-{}", std::process::id());
    let pool = Pool::builder().workers(1).build().unwrap();
    pool.block_on(async {
        let listener = UnixListener::bind(name("stream")).unwrap();
        let address = listener.as_std().local_addr().unwrap();
        let listens_at = name("stream").into_bytes();
        assert_eq!(address.as_abstract_name(), Some(&listens_at[1..]));
        let client = UnixStream::connect(name("stream")).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
        // The name is free again once its socket is gone.
        drop(listener);
        UnixListener::bind(name("stream")).unwrap();

        let a = UnixDatagram::bind(name("a")).unwrap();
        let b = UnixDatagram::bind(name("b")).unwrap();
        a.send_to(b"to", name("b")).await.unwrap();
        assert_eq!(b.recv(&mut [0; 8]).await.unwrap(), 2);
        b.connect(name("a")).unwrap();
        b.send(b"back").await.unwrap();
        assert_eq!(a.recv(&mut [0; 8]).await.unwrap(), 4);
        // A NUL at any other position is rejected, as in a path.
        assert!(UnixListener::bind("a\0b").is_err());
    });
}
