//! The floor: the least time that threads need for a loop.
//!
//! Each thread owns a share of the items, and spins on a counter of the other thread. There is no
//! queue and no sleep, panics are not caught, and no other work can run. Between two calls, the
//! threads spin without a limit. A pool that can run more than one loop has to do more, so it
//! cannot be faster.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::VecDeque, thread};

use super::work::Loop;
use crate::harness::Subject;

/// A counter with two cache lines for itself, because processors fetch pairs of lines.
#[derive(Default)]
#[repr(align(128))]
pub struct Epoch(AtomicU64);

impl Epoch {
    /// Sets the epoch. The other thread then sees everything that this thread wrote before, as soon
    /// as its [`Epoch::wait_for`] returns.
    pub fn set(&self, epoch: u64) {
        self.0.store(epoch, Ordering::Release);
    }

    /// Spins until the epoch is `epoch`.
    pub fn wait_for(&self, epoch: u64) {
        while self.0.load(Ordering::Acquire) != epoch {
            spin_loop();
        }
    }

    /// Spins until the epoch is not `epoch`, and returns the new one.
    fn wait_past(&self, epoch: u64) -> u64 {
        loop {
            let now = self.0.load(Ordering::Acquire);
            if now != epoch {
                return now;
            }
            spin_loop();
        }
    }
}

/// The epoch that ends the loops of the other threads.
const END: u64 = u64::MAX;

/// Calls `measure` with a closure that runs `side` on all `sides` at the same time.
///
/// The first side runs on the caller's thread. Each other side has a thread of its own, which spins
/// until the next call.
pub fn in_lockstep<S: Send>(
    sides: impl IntoIterator<Item = S>,
    side: impl Fn(&mut S) + Sync,
    measure: impl FnOnce(&mut dyn FnMut()) -> f64,
) -> f64 {
    let mut others: Vec<S> = sides.into_iter().collect();
    let mut own = others.remove(0);
    let start = Epoch::default();
    let done: Vec<Epoch> = others.iter().map(|_| Epoch::default()).collect();
    thread::scope(|scope| {
        for (mut other, done) in others.into_iter().zip(&done) {
            let (start, side) = (&start, &side);
            scope.spawn(move || {
                let mut epoch = 0;
                loop {
                    epoch = start.wait_past(epoch);
                    if epoch == END {
                        return;
                    }
                    side(&mut other);
                    done.set(epoch);
                }
            });
        }
        let mut epoch = 0;
        let value = measure(&mut || {
            epoch += 1;
            start.set(epoch);
            side(&mut own);
            done.iter().for_each(|other| other.wait_for(epoch));
        });
        start.set(END);
        value
    })
}

/// Returns a pool that can run one loop only and spins between calls, as in the article that
/// `article.rs` names. With two threads, it is the floor.
#[cfg(feature = "peers")]
pub fn spin_pool<T, F>(work: &Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    let work = work.clone();
    Subject::new("article's spin pool", move |plan| {
        let shares = work.items.chunks(work.items.len().div_ceil(workers));
        let shares: Vec<Vec<T>> = shares.map(<[T]>::to_vec).collect();
        let side = |share: &mut Vec<T>| share.iter_mut().for_each(&work.each);
        Ok(in_lockstep(shares, side, |call| work.measure(plan, call)))
    })
}

/// Returns the floor of a loop for two threads.
pub fn two_halves<T, F>(work: &Loop<T, F>) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    phases(work, 1)
}

/// Returns the floor of `phases` loops, one after another. Each loop has its part of the items.
pub fn phases<T, F>(work: &Loop<T, F>, phases: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    let work = work.clone();
    Subject::new("two-halves floor", move |plan| {
        let (left, right) = work.items.split_at(work.items.len() / 2);
        let parts = |half: &[T]| -> VecDeque<Vec<T>> {
            let part = half.len().div_ceil(phases);
            half.chunks(part).map(<[T]>::to_vec).collect()
        };
        let (sides, each) = ([parts(left), parts(right)], &work.each);
        let side = |half: &mut VecDeque<Vec<T>>| {
            half[0].iter_mut().for_each(each);
            half.rotate_left(1);
        };
        Ok(in_lockstep(sides, side, |phase| {
            work.measure(plan, || (0..phases).for_each(|_| phase()))
        }))
    })
}
