//! A system that refuses threads: whoever needs one gets a clear panic, and nobody waits for ever.
//! Alone in its program, whose memory it limits.
#![cfg(target_os = "linux")]

use creel::{Balance, Pool};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Leaves too little address space for the stack of a thread.
fn refuse_threads() {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = status.split(' ').next().unwrap().parse().expect("a number");
    let bytes = pages * 4096 + (1 << 20);
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is a valid one that lives during the call.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("there is no thread");
    *payload.downcast::<String>().expect("a message")
}

#[test]
fn a_refused_thread_is_a_clear_panic() {
    let pool = Pool::builder().workers(3).name("crew").build().unwrap();
    pool.run_on(1, || ()); // this one has its thread already
    refuse_threads();
    let expected = "cannot start worker 2 of pool crew: ";
    let run_on = message(|| pool.run_on(2, || ()));
    assert!(run_on.starts_with(expected), "{run_on}");
    let broadcast = message(|| drop(pool.broadcast(|worker| worker)));
    assert!(broadcast.starts_with("cannot start worker "), "{broadcast}");
    let scope = message(|| pool.scope(|s| s.spawn_on(2, || ())));
    assert!(scope.starts_with(expected), "{scope}");
    let looped = message(|| pool.with(Balance::Fixed).for_each_index(0..9, |_| ()));
    assert!(looped.starts_with(expected), "{looped}");
    // What has its threads goes on.
    assert_eq!(pool.run_on(1, || 5), 5);
    pool.resize(2).unwrap();
    let visits = pool.with(Balance::Fixed).map(&[1, 2, 3], |_, x| x + 1);
    assert_eq!(visits, [2, 3, 4]);
}
