//! The end of a pool without tasks. This is a program of its own, because it counts the threads of
//! the process.

#![cfg(all(target_os = "linux", not(feature = "tasks")))]

use creel::Pool;
use std::{
    fs,
    sync::{Mutex, mpsc},
    thread,
};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn no_thread_waits_for_the_end_of_a_pool_in_the_background() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let handle = pool.handle();
    let (beginning, is_begun) = mpsc::channel();
    let (end, is_ended) = mpsc::channel::<()>();
    let is_ended = Mutex::new(is_ended);
    let caller = thread::spawn(move || {
        handle.run_on(1, || {
            beginning.send(()).unwrap();
            // Returns when `end` is dropped.
            let _ = is_ended.lock().unwrap().recv();
        })
    });
    is_begun.recv().unwrap();
    let before = threads();
    pool.shutdown_background();
    assert_eq!(threads(), before);
    drop(end);
    caller.join().unwrap().unwrap();
}
