//! The floor: threads that own a share each and do nothing but watch each other.
//!
//! They have no queue, no sleeping, no panics to carry and no stranger's work, and would burn
//! their cores for ever. No pool that can do more than one loop gets below them.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::VecDeque, thread};

use super::work::Loop;
use crate::harness::Subject;

/// A counter on a cache line of its own, and on the neighbour that is fetched with it.
#[derive(Default)]
#[repr(align(128))]
pub struct Epoch(AtomicU64);

impl Epoch {
    /// What one side wrote before is seen by the other after [`Epoch::wait_for`].
    pub fn set(&self, epoch: u64) {
        self.0.store(epoch, Ordering::Release);
    }

    /// Spins until the epoch is this one.
    pub fn wait_for(&self, epoch: u64) {
        while self.0.load(Ordering::Acquire) != epoch {
            spin_loop();
        }
    }

    /// Spins until the epoch is another one, and gives that.
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

/// Ends the helper.
const END: u64 = u64::MAX;

/// Gives `measure` a call that runs `side` on all sides at once: on the first in the caller's
/// thread, on each other one in a thread of its own, which spins until the next call.
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

/// A pool that does one loop and spins between calls, as a game's article has it, on so many
/// threads: with two it is the floor.
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

/// The floor of a loop for two threads.
pub fn two_halves<T, F>(work: &Loop<T, F>) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    phases(work, 1)
}

/// The floor of so many loops, one after the other, each over its part of the items.
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
