//! OpenMP as a peer: a static loop in C that calls back once per share.
//!
//! The environment variables `OMP_WAIT_POLICY` and `GOMP_SPINCOUNT` determine how its threads wait.
//! The bench does not change them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use super::work::Loop;
use crate::harness::Subject;

unsafe extern "C" {
    /// Calls `share(context, i)` for i from 0 to `shares` − 1 on `threads` threads. Returns when
    /// all calls have returned.
    fn creel_bench_openmp_shares(
        threads: c_int,
        shares: c_int,
        share: extern "C" fn(*mut c_void, c_int),
        context: *mut c_void,
    );
}

/// Returns a loop with one share per thread.
pub fn openmp<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("OpenMP static", move |plan| {
        let (items, each) = (&work.items, &work.each);
        // Each share has a lock, because safe code cannot lend it to a C library. The lock costs
        // only a few nanoseconds per share, because only one thread takes it.
        let shares: Vec<Mutex<Vec<T>>> = items
            .chunks(items.len().div_ceil(workers))
            .map(|share| Mutex::new(share.to_vec()))
            .collect();
        let run = |index: usize| {
            let mut share = shares[index]
                .lock()
                .expect("no thread panics while it holds the lock");
            share.iter_mut().for_each(each);
        };
        let threads = c_int::try_from(workers)?;
        Ok(work.measure(plan, || for_each_share(threads, &run)))
    })
}

fn for_each_share<R: Fn(usize) + Sync>(threads: c_int, run: &R) {
    let context = std::ptr::from_ref(run).cast_mut().cast::<c_void>();
    // SAFETY: validity: `context` is made from `run`, which outlives the call, and `share::<R>`
    // turns it back into an `&R`. Aliasing: the threads have only shared references to `run`, which
    // is sound because `R: Sync`. A panic cannot unwind into C, because `share` is `extern "C"` and
    // aborts the process.
    unsafe { creel_bench_openmp_shares(threads, threads, share::<R>, context) };
}

extern "C" fn share<R: Fn(usize) + Sync>(context: *mut c_void, index: c_int) {
    // SAFETY: validity: `for_each_share` made `context` from an `&R` that lives until its call
    // returns. Aliasing: there are only shared references to the target.
    let run = unsafe { &*context.cast::<R>() };
    run(index as usize);
}
