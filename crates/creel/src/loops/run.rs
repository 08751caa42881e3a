//! Shares out the units 0 … n − 1 of a loop and waits for them.

use super::Loops;
use crate::{
    pool::{Balance, current, job, shared::Shared},
    sync::{AtomicUsize, Ordering},
};
use std::{ops::Range, sync::Arc};

/// How many blocks a worker a `Shared` loop is cut into, where it has that many units.
const SHARED_BLOCKS_PER_WORKER: usize = 64;

/// What a loop does with some of its units: told which, and the index (below the number of
/// workers) of the one who does it, which no other thread has during this loop.
pub(super) type Body<'a> = &'a (dyn Fn(Range<usize>, usize) + Sync);

/// Frees the loop slot when dropped.
struct Slot<'a>(&'a Shared);

impl<'a> Slot<'a> {
    fn claim(shared: &'a Shared) -> Option<Self> {
        let taken = shared.in_loop.swap(true, Ordering::Acquire);
        (!taken).then(|| Self(shared))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.in_loop.store(false, Ordering::Release);
    }
}

impl Loops {
    /// Calls `body` for ranges that together are `0..units`, each unit once, and returns when
    /// all is done.
    pub(super) fn run(&self, units: usize, body: Body<'_>) {
        let shares = self.shared.workers().min(units);
        if shares <= 1 {
            return inline(units, body);
        }
        match Slot::claim(&self.shared) {
            None => inline(units, body),
            Some(_slot) => self.share_out(units, shares, body),
        }
    }

    fn share_out(&self, units: usize, shares: usize, body: Body<'_>) {
        match self.balance {
            Balance::Fixed | Balance::Sticky => {
                self.on_each(shares, &|share| {
                    let bound =
                        |share: usize| (units as u128 * share as u128 / shares as u128) as usize;
                    body(bound(share)..bound(share + 1), share);
                });
            }
            Balance::Shared => {
                let block = units.div_ceil(shares * SHARED_BLOCKS_PER_WORKER);
                let next = AtomicUsize::new(0);
                self.on_each(shares, &|share| {
                    loop {
                        let begin = next.fetch_add(1, Ordering::Relaxed).saturating_mul(block);
                        if begin >= units {
                            return;
                        }
                        body(begin..units.min(begin.saturating_add(block)), share);
                    }
                });
            }
        }
    }

    /// Runs `f(share)` for each share: one on the calling thread, the others on the workers.
    fn on_each(&self, shares: usize, f: &(dyn Fn(usize) + Sync)) {
        let own = current::index_in(&self.shared).filter(|index| *index < shares);
        let own = own.unwrap_or(0);
        let others: Vec<usize> = (0..shares).filter(|share| *share != own).collect();
        let works: Vec<_> = others.iter().map(|&share| move || f(share)).collect();
        let last = works.len() - 1;
        job::lend(works, |i, job| {
            let seat = self.shared.seats.seat(others[i]);
            self.shared.send(seat, job);
            if i == last {
                f(own);
            }
        });
    }

    /// The pool's shared part, for the verbs that need more than `run`.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

fn inline(units: usize, body: Body<'_>) {
    if units > 0 {
        body(0..units, 0);
    }
}
