//! Tests of tasks, channels and waits between a small number of workers.
//!
//! The tests are small enough for Miri, which detects undefined behaviour and, with many seeds,
//! explores many interleavings.

use creel::{
    Pool, Wait,
    channel::{bounded, oneshot, spsc},
    task,
};
use std::{
    future::pending,
    mem::MaybeUninit,
    panic::panic_any,
    sync::{Arc, Mutex},
};

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// A channel that a worker creates comes from that worker's heap.
///
/// When the channel is freed, its block may contain uninitialized memory. Here, this is the place
/// for a message that was never sent. Its alignment puts the place at the beginning of the block.
#[test]
fn a_freed_block_is_reused_whatever_it_contained() {
    #[repr(align(16))]
    struct Sparse(#[allow(dead_code)] MaybeUninit<[u8; 32]>, u8);
    let pool = pool(2);
    // A thread that runs a task can use the heap of its local scheduler. A thread that runs a
    // closure of `run_on` cannot.
    let made = pool.spawn_on(0, async {
        for _ in 0..3 {
            drop(oneshot::channel::<Sparse>());
            drop(spsc::channel::<Sparse>());
        }
        (0..3)
            .map(|_| oneshot::channel::<Sparse>())
            .collect::<Vec<_>>()
    });
    let mut made = pool.block_on(made).unwrap().into_iter();
    // First another worker frees a block. Then this thread, which is not a worker, frees another
    // one.
    let (first, second) = (made.next().unwrap(), made.next().unwrap());
    let freed = pool.spawn_on(1, async move { drop(first) });
    pool.block_on(freed).unwrap();
    drop(second);
    let (tx, mut rx) = made.next().unwrap();
    assert!(
        tx.send(Sparse(MaybeUninit::uninit(), 7)).is_ok(),
        "the receiver is there"
    );
    assert_eq!(rx.try_recv().ok().map(|sparse| sparse.1), Some(7));
    // The worker that owns the blocks now uses those that the other threads have freed.
    let again = pool.spawn_on(0, async {
        let more: Vec<_> = (0..40).map(|_| oneshot::channel::<Sparse>()).collect();
        more.iter().all(|(tx, _)| !tx.is_closed())
    });
    assert!(pool.block_on(again).unwrap());
}

#[test]
fn tasks_end_in_every_possible_way() {
    let pool = pool(2);
    let alive = Arc::new(());
    let (guard, other) = (Arc::clone(&alive), Arc::clone(&alive));
    let value = Box::new(3);
    pool.block_on(async {
        let ready = task::spawn(async move { *value + 1 });
        let yields = task::spawn(async {
            task::yield_now().await;
            String::from("late")
        });
        let panics = task::spawn(async { panic_any(5_u8) });
        let waits = task::spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        task::yield_now().await;
        waits.abort();
        assert!(waits.await.is_err(), "cancelled");
        assert!(panics.await.is_err(), "panicked");
        assert_eq!(ready.await.unwrap(), 4);
        assert_eq!(yields.await.unwrap(), "late");
    });
    pool.spawn_on(1, async move {
        let _guard = other;
        pending::<()>().await;
    })
    .detach();
    drop(pool);
    assert_eq!(Arc::strong_count(&alive), 1, "the pool's end cancels");
}

#[test]
fn messages_go_through_every_channel() {
    let pool = pool(2);
    let (mut one, mut two) = spsc::channel();
    let (tx, rx) = bounded::channel(1);
    pool.spawn_on(0, async move {
        for i in 0..3 {
            one.send(Box::new(i)).await.expect("the receiver is alive");
        }
    })
    .detach();
    pool.spawn_on(1, async move {
        while let Ok(i) = two.recv().await {
            tx.send(i).await.expect("the receiver is alive");
        }
    })
    .detach();
    let sum = pool.block_on(async move {
        let mut sum = 0;
        while let Ok(i) = rx.recv().await {
            sum += *i;
        }
        sum
    });
    assert_eq!(sum, 3);
}

/// Checks closures of scopes and joins that wait for each other, and workers that wait for each
/// other.
///
/// They use the waits of `worker/waiter.rs` and shared jobs, whose memory is on the waiting
/// thread's stack.
#[test]
fn waiting_threads_share_jobs_on_their_stacks() {
    let pool = pool(2);
    let total = Mutex::new(0);
    pool.scope(|s| {
        s.spawn(|| {
            let (a, b) = pool.join(|| 1, || pool.join(|| 2, || 3));
            *total.lock().unwrap() += a + b.0 + b.1;
        });
        s.spawn(|| *total.lock().unwrap() += 10);
    });
    assert_eq!(*total.lock().unwrap(), 16);
    let there_and_back = pool
        .run_on(0, || {
            pool.run_on(1, || pool.run_on(0, || 7).unwrap()).unwrap()
        })
        .unwrap();
    assert_eq!(there_and_back, 7);
}
