//! Tests of tokio's context: where a future has it, where its parts run, and how it ends.

use std::cell::RefCell;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use creel::{JoinError, Pool};
use creel_tokio::{Tokio, with_tokio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// A value that reports whether it was dropped inside tokio's context.
struct Dropped(mpsc::Sender<bool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(Handle::try_current().is_ok());
    }
}

fn dropped() -> (Dropped, Receiver<bool>) {
    let (sender, receiver) = mpsc::channel();
    (Dropped(sender), receiver)
}

/// A future that never ends and reports its drop. It also reports when it was polled first.
fn endless(dropped: Dropped) -> (impl Future<Output = ()> + Send + 'static, Receiver<()>) {
    let (sender, polled) = mpsc::channel();
    let future = async move {
        let _dropped = dropped;
        let _ = sender.send(());
        pending().await
    };
    (future, polled)
}

#[test]
fn sockets_and_timers_of_tokio_work_on_a_pool() {
    let pool = pool(2);
    let task = pool.spawn(with_tokio(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let to = listener.local_addr()?;
        let echo = creel_tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await
        });
        let mut stream = TcpStream::connect(to).await?;
        for round in 0..100_u8 {
            stream.write_all(&[round; 64]).await?;
            let mut back = [0; 64];
            stream.read_exact(&mut back).await?;
            assert_eq!(back, [round; 64]);
        }
        stream.shutdown().await?;
        assert_eq!(echo.await.unwrap()?, 6400);
        let before = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(before.elapsed() >= Duration::from_millis(5));
        let late = tokio::time::timeout(Duration::from_millis(1), pending::<()>()).await;
        assert!(late.is_err());
        std::io::Result::Ok(())
    }));
    pool.block_on(task).unwrap().unwrap();
}

#[test]
fn the_workers_poll_the_future_and_the_helper_polls_what_tokio_spawns() {
    let name = || thread::current().name().unwrap_or_default().to_owned();
    let pool = Pool::builder().workers(1).name("own").build().unwrap();
    let names = pool.spawn_on(
        0,
        with_tokio(async move {
            let spawned = tokio::spawn(async move { name() }).await.unwrap();
            let own = creel_tokio::spawn(async move { name() }).await.unwrap();
            let blocking = tokio::task::spawn_blocking(name).await.unwrap();
            (name(), own, spawned, blocking)
        }),
    );
    let (awaited, own, spawned, blocking) = pool.block_on(names).unwrap();
    assert!(awaited.starts_with("own"), "{awaited}");
    assert_ne!(own, "creel-tokio");
    assert_eq!(spawned, "creel-tokio");
    assert_ne!(blocking, awaited);
}

#[test]
fn block_in_place_runs_on_the_worker() {
    let pool = pool(1);
    let in_place = with_tokio(async {
        let id = || thread::current().id();
        (id(), tokio::task::block_in_place(id))
    });
    let (outside, inside): (ThreadId, ThreadId) = pool.block_on(pool.spawn(in_place)).unwrap();
    assert_eq!(outside, inside);
    let spawned =
        with_tokio(async { tokio::spawn(async { tokio::task::block_in_place(|| ()) }).await });
    assert!(pool.block_on(spawned).unwrap_err().is_panic());
}

#[test]
fn futures_of_creel_work_inside_the_context() {
    let pool = pool(1);
    pool.block_on(with_tokio(async {
        let limit = Duration::from_millis(1);
        let late = creel::time::timeout(limit, tokio::time::sleep(HANG_TIMEOUT)).await;
        assert!(late.is_err());
        creel::time::sleep(limit).await;
    }));
}

#[test]
fn a_dropped_pool_cancels_a_future_that_waits_for_tokio() {
    let (dropped, was_dropped) = dropped();
    let (polled, was_polled) = mpsc::channel();
    let pool = pool(2);
    let task = pool.spawn(with_tokio(async move {
        let _dropped = dropped;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        polled.send(()).unwrap();
        listener.accept().await.map(drop)
    }));
    was_polled.recv_timeout(HANG_TIMEOUT).unwrap();
    drop(pool);
    assert!(
        was_dropped.try_recv().unwrap(),
        "dropped inside the context"
    );
    let ended = self::pool(1).block_on(task);
    assert!(matches!(ended, Err(JoinError::Cancelled)));
}

#[test]
fn an_aborted_future_is_dropped_inside_the_context() {
    let (dropped, was_dropped) = dropped();
    let (future, polled) = endless(dropped);
    let pool = pool(1);
    let task = pool.spawn(with_tokio(future));
    polled.recv_timeout(HANG_TIMEOUT).unwrap();
    task.abort();
    assert!(was_dropped.recv_timeout(HANG_TIMEOUT).unwrap());
}

#[test]
fn a_future_that_was_never_polled_is_dropped_inside_the_context() {
    let (dropped, was_dropped) = dropped();
    drop(with_tokio(endless(dropped).0));
    assert!(was_dropped.try_recv().unwrap());
    assert!(Handle::try_current().is_err(), "the context has ended");
}

#[test]
fn a_future_is_dropped_inside_the_context_once_it_is_ready() {
    struct Ready(#[expect(dead_code, reason = "it is only dropped")] Dropped);
    impl Future for Ready {
        type Output = ();
        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            std::task::Poll::Ready(())
        }
    }
    let (dropped, was_dropped) = dropped();
    let pool = pool(1);
    pool.block_on(async {
        let mut future = std::pin::pin!(with_tokio(Ready(dropped)));
        future.as_mut().await;
        assert!(was_dropped.try_recv().unwrap());
    });
}

/// A thread-local variable may keep a future and outlive tokio's own variable.
#[test]
fn a_future_can_be_dropped_while_its_thread_ends() {
    thread_local! {
        static KEPT: RefCell<Option<creel_tokio::WithTokio<std::future::Pending<()>>>> =
            const { RefCell::new(None) };
    }
    let ended = thread::spawn(|| {
        // Thread-local variables are dropped in the reverse order of their first use.
        KEPT.with_borrow_mut(|kept| *kept = None);
        let future = with_tokio(pending());
        drop(Tokio::global().enter());
        KEPT.set(Some(future));
    });
    ended.join().unwrap();
}

#[test]
fn a_panic_reaches_the_handle_and_the_context_ends() {
    let (dropped, was_dropped) = dropped();
    let pool = pool(1);
    let task = pool.spawn_on(
        0,
        with_tokio(async move {
            let _dropped = dropped;
            tokio::task::yield_now().await;
            panic!("on purpose");
        }),
    );
    let Err(JoinError::Panicked(panic)) = pool.block_on(task) else {
        panic!("the handle returns no panic");
    };
    assert_eq!(panic.message(), Some("on purpose"));
    assert!(was_dropped.recv_timeout(HANG_TIMEOUT).unwrap());
    let has_context = pool.spawn_on(0, async { Handle::try_current().is_ok() });
    assert!(!pool.block_on(has_context).unwrap());
}

#[test]
fn contexts_of_two_runtimes_nest() {
    let (own, pool) = (Tokio::new().unwrap(), pool(1));
    let (own_id, global_id) = (own.handle().id(), Tokio::global().handle().id());
    assert_ne!(own_id, global_id);
    pool.block_on(own.wrap(async {
        let id = || Handle::current().id();
        assert_eq!(id(), own_id);
        assert_eq!(with_tokio(async { id() }).await, global_id);
        assert_eq!(id(), own_id);
    }));
}

#[test]
fn a_runtime_ends_with_its_last_future() {
    let tokio = Tokio::new().unwrap();
    let (dropped, was_dropped) = dropped();
    let (future, polled) = endless(dropped);
    tokio.handle().spawn(future);
    polled.recv_timeout(HANG_TIMEOUT).unwrap();
    let pool = pool(1);
    let slow = tokio.wrap(async { tokio::time::sleep(Duration::from_millis(2)).await });
    drop(tokio);
    pool.block_on(slow); // the future keeps the runtime
    assert!(was_dropped.recv_timeout(HANG_TIMEOUT).unwrap());
}

/// Several pools share the helper, and many tasks wait for it at the same time.
#[test]
fn many_tasks_of_two_pools_share_the_helper() {
    let done = Arc::new(AtomicUsize::new(0));
    let pools = [pool(2), pool(1)];
    let tasks: Vec<_> = (0..2000)
        .map(|n| {
            let done = Arc::clone(&done);
            pools[n % 2].spawn(with_tokio(async move {
                tokio::time::sleep(Duration::from_micros(n as u64)).await;
                done.fetch_add(1, Ordering::Relaxed)
            }))
        })
        .collect();
    pools[0].block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 2000);
}

#[test]
fn spawn_blocking_uses_threads_of_creel_inside_tokios_context() {
    let pool = pool(1);
    let (thread, runtime) = pool.block_on(creel_tokio::spawn_blocking(|| {
        let name = thread::current().name().map(str::to_owned);
        (name, Handle::current().id())
    }));
    assert_eq!(runtime, Tokio::global().handle().id());
    let of_creel = || thread::current().name().map(str::to_owned);
    assert_eq!(thread, pool.block_on(creel::blocking(of_creel)));
}

#[test]
fn an_executor_spawns_from_any_thread_and_drops_futures_after_its_pool() {
    let pool = pool(1);
    let worker = pool.run_on(0, || thread::current().id()).unwrap();
    let executor = creel_tokio::Executor::new(&pool);
    let (sender, threads) = mpsc::channel::<ThreadId>();
    let of_thread = executor.clone();
    let spawned = thread::spawn(move || {
        of_thread.spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(thread::current().id()).unwrap();
        });
    });
    spawned.join().unwrap();
    assert_eq!(threads.recv_timeout(HANG_TIMEOUT), Ok(worker));
    drop(pool);
    let (dropped, was_dropped) = dropped();
    executor.spawn(async move { drop(dropped) });
    assert!(was_dropped.recv_timeout(HANG_TIMEOUT).unwrap());
}
