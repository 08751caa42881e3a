//! Tests a process that was forked from a process with a pool.
//!
//! The child can drop the pool, which does nothing, and can create new pools. This is a single
//! test. Therefore no other thread of the test harness holds a lock when the process forks.

#![cfg(all(unix, not(miri)))]

use creel::{Pool, net::UdpSocket, time};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

/// A value that panics if another process than the one that created it drops it.
struct Owned {
    _alive: Arc<()>,
    process: u32,
}

impl Drop for Owned {
    fn drop(&mut self) {
        assert_eq!(process::id(), self.process, "dropped in the other process");
    }
}

/// Runs `f` in a forked process. Returns whether `f` returned there within ten seconds.
fn in_a_fork(f: impl FnOnce()) -> bool {
    // SAFETY: the child continues with a copy of the memory and with this thread only. No other
    // thread of this test holds a lock at this moment that the child takes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork a process");
    if child == 0 {
        // SAFETY: this takes an integer. The signal ends the child if it hangs.
        unsafe { libc::alarm(10) };
        let ended = catch_unwind(AssertUnwindSafe(f)).is_ok();
        // SAFETY: this ends the child and skips what the test harness does at exit.
        unsafe { libc::_exit(i32::from(!ended)) };
    }
    let mut status = 0;
    // SAFETY: the status is a live integer that no other thread uses during the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status == 0
}

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

#[test]
fn a_forked_process_can_drop_the_pool_and_create_its_own() {
    let alive = Arc::new(());
    let owned = Owned {
        _alive: Arc::clone(&alive),
        process: process::id(),
    };
    let mut kept = Some(pool());
    let pool_here = kept.as_ref().unwrap();
    pool_here.broadcast(|_| ());
    let waits = pool_here.spawn(async move {
        let _owned = owned;
        std::future::pending::<()>().await;
    });
    let address = "127.0.0.1:0".parse().unwrap();
    let mut socket = Some(UdpSocket::bind(address).unwrap());
    let to = socket.as_ref().unwrap().local_addr().unwrap();
    pool_here.block_on(async {
        let mut bytes = [0; 8];
        let receive = socket.as_ref().unwrap().recv(&mut bytes);
        let mut receive = pin!(receive);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(receive.as_mut().poll(&mut cx).is_pending());
    });

    // In the parent, a thread for blocking calls waits for more work. In the child that thread does
    // not exist.
    assert_eq!(pool_here.block_on(creel::blocking(|| 5)), 5);
    assert!(
        in_a_fork(|| assert_eq!(pool().block_on(creel::blocking(|| 7)), 7)),
        "the child makes blocking calls"
    );

    assert!(
        in_a_fork(|| drop(kept.take())),
        "the child drops a pool in use"
    );
    let idle = pool();
    assert!(
        in_a_fork(|| drop(idle)),
        "the child drops a pool without threads"
    );
    assert!(
        in_a_fork(|| drop(socket.take())),
        "the child drops a socket"
    );
    let new_one = || {
        let pool = pool();
        let mut items = vec![1; 1000];
        pool.for_each_indexed(&mut items, |i, item| *item += i);
        assert_eq!(items[999], 1000);
        let task = pool.spawn(async {
            time::sleep(Duration::from_millis(1)).await;
            5
        });
        assert_eq!(pool.block_on(task).unwrap(), 5);
    };
    assert!(in_a_fork(new_one), "the child makes a pool of its own");

    // Nothing that the child did has affected the pool of this process.
    let pool_here = kept.as_ref().unwrap();
    assert_eq!(pool_here.broadcast(|i| i), [0, 1]);
    std::net::UdpSocket::bind(address)
        .unwrap()
        .send_to(b"here", to)
        .unwrap();
    let mut bytes = [0; 8];
    let receive = socket.as_ref().unwrap().recv(&mut bytes);
    let received = pool_here.block_on(time::timeout(Duration::from_secs(60), receive));
    assert_eq!(received.unwrap().unwrap(), 4);
    drop(kept);
    drop(waits);
    assert_eq!(Arc::strong_count(&alive), 1);
}
