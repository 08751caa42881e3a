//! OpenMP as a peer: a static loop in C that calls back once a share.
//!
//! How its threads wait is settled by `OMP_WAIT_POLICY` and `GOMP_SPINCOUNT` before the process
//! starts; the bench leaves both as it finds them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use super::work::Loop;
use crate::harness::Subject;

unsafe extern "C" {
    /// Calls `share(context, i)` for i from 0 to `shares` − 1 on `threads` threads, and returns
    /// when all have returned.
    fn creel_bench_openmp_shares(
        threads: c_int,
        shares: c_int,
        share: extern "C" fn(*mut c_void, c_int),
        context: *mut c_void,
    );
}

/// A loop with one share a thread.
pub fn openmp<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("OpenMP static", move |plan| {
        let (items, each) = (&work.items, &work.each);
        // A lock that nobody contends for costs a few ns a share.
        let shares: Vec<Mutex<Vec<T>>> = items
            .chunks(items.len().div_ceil(workers))
            .map(|share| Mutex::new(share.to_vec()))
            .collect();
        let run = |index: usize| {
            let mut share = shares[index].lock().expect("nothing panics holding it");
            share.iter_mut().for_each(each);
        };
        let threads = c_int::try_from(workers)?;
        Ok(work.measure(plan, || for_each_share(threads, &run)))
    })
}

fn for_each_share<R: Fn(usize) + Sync>(threads: c_int, run: &R) {
    let context = std::ptr::from_ref(run).cast_mut().cast::<c_void>();
    // SAFETY: `share::<R>` gets back the `context` made of an `&R`, which outlives the call, and
    // shares it only (`R: Sync`). A panic in it aborts, for it is `extern "C"`.
    unsafe { creel_bench_openmp_shares(threads, threads, share::<R>, context) };
}

extern "C" fn share<R: Fn(usize) + Sync>(context: *mut c_void, index: c_int) {
    // SAFETY: `for_each_share` made `context` of an `&R` that is alive during its call.
    let run = unsafe { &*context.cast::<R>() };
    run(index as usize);
}
