//! Tests of pools, senders and handles in thread-locals of the program.
//!
//! Such values are dropped when their thread ends, after the runtime's own thread-locals. Pools,
//! senders and handles must end properly there as well.

use creel::{
    JoinHandle, Pool,
    channel::{RecvError, bounded, oneshot, spsc},
    time,
};
use std::{
    cell::RefCell,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

type Kept = Vec<Box<dyn FnOnce()>>;

/// Calls the functions that it holds when it is dropped, in the order in which they were added.
struct AtTheEnd(RefCell<Kept>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|call| call());
    }
}

thread_local! {
    static END: AtTheEnd = const { AtTheEnd(RefCell::new(Vec::new())) };
}

/// Registers `f` to be called when this thread's thread-locals are dropped. That is after the
/// thread-locals of the runtime, because the thread first uses those later.
fn at_the_end(f: impl FnOnce() + 'static) {
    END.with(|end| end.0.borrow_mut().push(Box::new(f)));
}

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// Uses all thread-locals of the runtime on a thread that is not a worker.
fn use_all() {
    let pool = pool(1);
    pool.block_on(async {
        // Miri supports no sockets, so we leave them out there.
        #[cfg(not(miri))]
        {
            let socket = creel::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let mut bytes = [0; 8];
            let receive = time::timeout(Duration::from_millis(1), socket.recv(&mut bytes));
            assert!(receive.await.is_err());
        }
        time::sleep(Duration::from_millis(1)).await;
        pool.spawn(async {}).await.unwrap();
    });
    let mut items = [0; 100];
    pool.for_each_indexed(&mut items, |i, item| *item = i);
    pool.session(|loops| loops.for_each_indexed(&mut items, |i, item| *item += i));
    let (tx, rx) = oneshot::channel();
    pool.spawn(async move { tx.send(()).unwrap() }).detach();
    rx.recv_blocking().unwrap();
    let _ = time::Clock::monotonic().nanos();
}

/// Runs `f` on a thread that ends afterwards.
fn on_a_thread(f: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // We register this local first, so that it is dropped last.
        at_the_end(|| ());
        use_all();
        f();
    })
    .join()
    .unwrap();
}

#[test]
#[cfg_attr(
    windows,
    ignore = "Windows runs these destructors under a lock that ending threads need"
)]
fn a_pool_ends_with_its_thread() {
    let alive = Arc::new(());
    let inner = Arc::clone(&alive);
    on_a_thread(move || {
        let pool = pool(2);
        pool.broadcast(|_| ());
        pool.spawn(async move {
            let _alive = inner;
            std::future::pending::<()>().await;
        })
        .detach();
        at_the_end(move || drop(pool));
    });
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
#[cfg_attr(
    windows,
    ignore = "Windows runs these destructors under a lock that ending threads need"
)]
fn a_pool_works_in_a_thread_local_destructor() {
    const ITEMS: usize = if cfg!(miri) { 20 } else { 1000 };
    let (results, sums) = mpsc::channel();
    on_a_thread(move || {
        at_the_end(move || {
            use_all();
            let pool = pool(2);
            let mut items = vec![1; ITEMS];
            pool.for_each_indexed(&mut items, |i, item| *item += i);
            let sleep = || time::sleep(Duration::from_millis(1));
            let task = pool.spawn(async move {
                sleep().await;
                items.iter().sum::<usize>()
            });
            results.send(pool.block_on(task).unwrap()).unwrap();
        });
    });
    assert_eq!(sums.recv(), Ok(ITEMS * (ITEMS + 1) / 2));
}

#[test]
fn a_dropped_sender_notifies_its_receiver() {
    let pool = pool(1);
    let (one, one_rx) = oneshot::channel::<u8>();
    let (slot, mut slot_rx) = spsc::channel::<u8>();
    let (ring, ring_rx) = bounded::channel::<u8>(1);
    let waits: Vec<JoinHandle<Result<u8, RecvError>>> = vec![
        pool.spawn(one_rx),
        pool.spawn(async move { slot_rx.recv().await }),
        pool.spawn(async move { ring_rx.recv().await }),
    ];
    while pool.stats().tasks.polls < 3 {
        thread::yield_now();
    }
    on_a_thread(move || at_the_end(move || drop((one, slot, ring))));
    for wait in waits {
        assert_eq!(pool.block_on(wait).unwrap(), Err(RecvError));
    }
}

#[test]
fn a_thread_local_destructor_cancels_and_spawns_tasks() {
    let pool = pool(1);
    let handle = pool.handle();
    let task = pool.spawn(std::future::pending::<()>());
    let (done, ran) = mpsc::channel();
    on_a_thread(move || {
        at_the_end(move || {
            task.abort();
            drop(task);
            handle.spawn(async move { done.send(()).unwrap() }).detach();
        });
    });
    assert_eq!(ran.recv(), Ok(()));
}
