//! The clock of this machine, with the functions that the programs of `cases.rs` use.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the nanoseconds since the first call.
pub fn now_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Computes for `ns` nanoseconds.
pub fn work(ns: u64) {
    let begin = Instant::now();
    while begin.elapsed().as_nanos() < u128::from(ns) {}
}

/// Sleeps.
pub fn rest(time: Duration) {
    std::thread::sleep(time);
}
