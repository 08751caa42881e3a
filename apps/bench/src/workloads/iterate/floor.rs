//! The floor: two threads that own a half each and do nothing but watch each other.
//!
//! It has no queue, no sleeping, no panics to carry, no third thread, and it would burn two
//! cores for ever. No pool that can do more than this one loop gets below it.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::work::Loop;
use crate::harness::{Plan, Subject};

/// A counter on a cache line of its own (and the neighbour that is fetched with it).
#[repr(align(128))]
struct Epoch(AtomicU64);

/// Ends the helper.
const END: u64 = u64::MAX;

/// The floor of a loop for two threads.
pub fn two_halves<T, F>(work: &Loop<T, F>) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    let work = work.clone();
    Subject::new("two-halves floor", move |plan| Ok(sample(&work, plan)))
}

fn sample<T: Clone + Send, F: Fn(&mut T) + Sync>(work: &Loop<T, F>, plan: &Plan) -> f64 {
    let (mut items, each) = (work.items.clone(), &work.each);
    let half = items.len() / 2;
    let (own, others) = items.split_at_mut(half);
    let begun = Epoch(AtomicU64::new(0));
    let done = Epoch(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| help(others, each, &begun.0, &done.0));
        let mut epoch = 0;
        let time = work.measure(plan, || {
            epoch += 1;
            begun.0.store(epoch, Ordering::Release);
            own.iter_mut().for_each(each);
            while done.0.load(Ordering::Acquire) != epoch {
                spin_loop();
            }
        });
        begun.0.store(END, Ordering::Release);
        time
    })
}

fn help<T>(items: &mut [T], each: impl Fn(&mut T), begun: &AtomicU64, done: &AtomicU64) {
    let mut epoch = 0;
    loop {
        let now = begun.load(Ordering::Acquire);
        if now == END {
            return;
        }
        if now == epoch {
            spin_loop();
            continue;
        }
        epoch = now;
        items.iter_mut().for_each(&each);
        done.store(epoch, Ordering::Release);
    }
}
