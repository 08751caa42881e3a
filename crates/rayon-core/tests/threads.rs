//! The number of threads that a pool starts. This is a program of its own, because it counts the
//! threads of the process.

#![cfg(target_os = "linux")]

use rayon_core::ThreadPoolBuilder;
use std::{
    fs,
    sync::{Mutex, mpsc},
};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_dropped_pool_starts_no_thread_to_wait_for_its_end() {
    let before = threads();
    let (ending, is_ending) = mpsc::channel();
    let (end, is_ended) = mpsc::channel::<()>();
    let is_ended = Mutex::new(is_ended);
    let builder = ThreadPoolBuilder::new().num_threads(1);
    let pool = builder.exit_handler(move |_| {
        ending.send(()).unwrap();
        // Returns when `end` is dropped.
        let _ = is_ended.lock().unwrap().recv();
    });
    drop(pool.build().unwrap());
    is_ending.recv().unwrap();
    assert_eq!(threads(), before + 1, "only the worker is left");
    drop(end);
}
