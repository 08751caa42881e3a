//! Decides how a loop is run: inline or on how many workers, in how fine pieces, with what shares.

use super::{
    nested,
    protocol::{
        call::{Call, Even, Grain, Left, WORKERS_MAX},
        call_sites::{Alone, Key, Plan, Site},
        closure::Body,
        dispatch::{Job, Part},
        exclusion::Exclusion,
        join::Straggler,
        loop_lock::{LoopCache, LoopState},
        places,
    },
};
use crate::{
    pool::{Balance, Pool, Wait, shared::Shared},
    sync::{now_ns, try_lock},
    worker::{current, panics::FirstPanic, trace::Doing},
};
use std::{
    ops::Range,
    panic::{Location, resume_unwind},
};

/// How many blocks a worker a `Shared` loop is cut into, where it has that many units.
const QUEUE_BLOCKS_PER_WORKER: usize = 64;

/// Workers change workers for a caller at most this often: it costs some ten microseconds.
const MAKE_WAY_EVERY_NS: u64 = 4_000_000;

impl Pool {
    /// Calls `f(range, who)` for ranges that together are `0..units`, each unit once, on no more than
    /// `slots` workers, and returns when all is done. `who` is below that and the number of workers, and
    /// no other thread has it meanwhile.
    #[track_caller]
    pub(super) fn run(&self, slots: usize, units: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        // SAFETY: `f` is ours, and is used through this body only.
        let body = unsafe { Body::new(&f) };
        self.run_body(slots.min(self.most), units, body);
    }

    #[track_caller]
    fn run_body(&self, slots: usize, units: usize, body: Body<'_>) {
        let slots = self.workers_for(units).min(slots);
        if slots <= 1 {
            return inline(units, body);
        }
        let Some(mut guard) = try_lock(&self.shared.loops.lock) else {
            return self.run_nested(units, slots, body);
        };
        let LoopState {
            cache,
            sites,
            exclusion,
        } = &mut *guard;
        let loop_ = Loop {
            shared: &self.shared,
            units,
            slots,
            body,
        };
        let mut site = (self.balance == Balance::Sticky).then(|| {
            let code = body.code as *const () as usize;
            sites.find(Key::new(Location::caller(), code, units, slots))
        });
        if site.as_mut().is_some_and(|(site, _)| site.is_tiny()) {
            // Nobody else is needed, be they busy or not.
            loop_.count_inline();
            drop(guard);
            return inline(units, body);
        }
        if !self.others_idle(slots) {
            drop(guard);
            return self.run_nested(units, slots, body);
        }
        let payload = match (self.balance, site) {
            (Balance::Shared, _) => loop_.queue(cache),
            (Balance::Fixed, _) | (_, None) => loop_.spread(cache, Grain::WHOLE, None, false).0,
            (Balance::Sticky, Some(site)) => loop_.sticky(cache, site, exclusion),
        };
        drop(guard);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Runs a loop that is offered to whoever has time.
    fn run_nested(&self, units: usize, slots: usize, body: Body<'_>) {
        if let Some(payload) = nested::run(&self.shared.loops, units, slots, body) {
            resume_unwind(payload);
        }
    }

    /// Whether no worker of the loop but the caller is in somebody's code; a moment ago. Advice: one
    /// that leaves meanwhile is found after the loop has been published (`places.rs`).
    fn others_idle(&self, slots: usize) -> bool {
        let busy = |index: &usize| self.shared.slots.at(*index).is_elsewhere();
        match (0..slots).find(busy) {
            None => true,
            Some(first) => {
                let own = current::index_in(&self.shared.slots);
                own == Some(first) && !(first + 1..slots).any(|index| busy(&index))
            }
        }
    }

    /// How many workers a loop of so many units is for. A sticky, adaptive loop uses no more than
    /// there are CPUs, or a quota of them rounded up: more threads would only take turns on them.
    fn workers_for(&self, units: usize) -> usize {
        let cap = match (self.balance, self.shared.wait) {
            // The caller alone.
            _ if self.shared.slots.is_threadless() => 1,
            (Balance::Sticky, Wait::Adaptive) => self.shared.pus,
            _ => WORKERS_MAX,
        };
        self.shared
            .slots
            .workers()
            .min(units)
            .min(cap)
            .min(WORKERS_MAX)
    }

    /// The pool's shared part, for the verbs that need more than `run`.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

fn inline(units: usize, body: Body<'_>) {
    if units > 0 {
        body.call(0..units, 0);
    }
}

type Thrown = Option<Box<dyn std::any::Any + Send>>;

/// One call of a loop, by who holds the slot.
struct Loop<'a> {
    shared: &'a Shared,
    units: usize,
    slots: usize,
    body: Body<'a>,
}

impl Loop<'_> {
    fn sticky(
        &self,
        cache: &mut LoopCache,
        (site, alone): (&mut Site, &mut Alone),
        exclusion: &mut Exclusion,
    ) -> Thrown {
        let mailbox = &self.shared.loops.mailbox;
        let out = exclusion.pass(site.total_ns(), &self.shared.loops.shares);
        let cold = self.is_cold(cache).then(|| mailbox.wake_pays_ns());
        match site.plan(alone, cold, now_ns) {
            Plan::Spread { grain, timed } if out + 1 < self.slots => {
                let bounds = Some(site.bounds());
                let (thrown, straggler) = self.spread(cache, grain, bounds, timed);
                if timed {
                    let shares = &self.shared.loops.shares;
                    site.learn(|slot| shares.at(slot).take_cost());
                }
                if let Some(straggler) = straggler {
                    let shares = &self.shared.loops.shares;
                    exclusion.judge(straggler, site.total_ns(), self.slots, shares);
                }
                thrown
            }
            Plan::Inline { timed } | Plan::Spread { timed, .. } => {
                if cold.is_some() {
                    mailbox.forget_wake();
                }
                let begin = if timed { now_ns() } else { 0 };
                let panic = FirstPanic::default();
                self.count_inline();
                panic.catch(|| inline(self.units, self.body));
                if timed {
                    site.learn_total(now_ns() - begin);
                }
                panic.take()
            }
        }
    }

    /// Its caller runs it alone.
    fn count_inline(&self) {
        let counters = &self.shared.slots.at(self.caller().1).counters;
        counters.loop_blocks.add(1);
        counters.loop_units.add(self.units as u64);
    }

    /// A share a worker.
    fn spread(
        &self,
        cache: &mut LoopCache,
        grain: Grain,
        bounds: Option<&[usize]>,
        timed: bool,
    ) -> (Thrown, Option<Straggler>) {
        let even = Even::new(self.units, self.slots);
        let job = Job {
            body: self.body,
            bounds,
            even,
            timed,
        };
        self.call(cache, grain, job)
    }

    /// All in one queue.
    fn queue(&self, cache: &mut LoopCache) -> Thrown {
        let even = Even::new(self.units, self.queue_blocks());
        let job = Job {
            body: self.body,
            bounds: None,
            even,
            timed: false,
        };
        self.call(cache, Grain::QUEUE, job).0
    }

    fn call(
        &self,
        cache: &mut LoopCache,
        grain: Grain,
        job: Job<'_>,
    ) -> (Thrown, Option<Straggler>) {
        let loops = &self.shared.loops;
        let (slots, mailbox) = (&loops.slots, &loops.mailbox);
        let (outside, who) = self.caller();
        let outside = outside.then_some(who);
        self.ensure_pinned(cache);
        if outside.is_some() {
            self.make_way(cache);
        }
        mailbox.ensure_threads(slots, self.slots, outside.unwrap_or(usize::MAX));
        let epoch = cache.next_epoch(loops, self.slots);
        if grain == Grain::QUEUE {
            let share = loops.shares.at(who);
            share.lay_out(epoch, self.queue_blocks() as u64);
        }
        let cold = self.is_cold(cache);
        if cold {
            cache.awake = self.slots;
        }
        let call = Call::new(epoch, self.slots, who, grain);
        let call = mailbox.publish(slots, &job, call, cold);
        let slot = slots.at(who);
        let counters = &*slot.counters;
        let part = Part {
            loops,
            call,
            slot,
            counters,
        };
        let traced = slots.tracing.begin();
        let join = || part.work_and_join(self.units, self.shared.join_spin_ns());
        let straggler = match places::any_elsewhere(&part) {
            true => places::offer_while(&part, join),
            false => join(),
        };
        slot.spans.note(Doing::Loop, traced);
        let mut all = (0..self.slots).filter(|slot| *slot != who);
        if cold && all.any(|slot| loops.shares.at(slot).is_unseen(call)) {
            // Such a worker has not woken those below it in the tree, and does not for a later loop
            // that does not wake.
            cache.awake = 0;
        }
        (mailbox.panic.take(), straggler)
    }

    /// Whether the caller is none of the pool's workers, and whose share it takes.
    fn caller(&self) -> (bool, usize) {
        let own = current::index_in(&self.shared.slots);
        let who = own.filter(|index| *index < self.slots).unwrap_or(0);
        (own.is_none(), who)
    }

    /// Sees to it that the workers are pinned, and that worker 0, whose share a caller takes, knows
    /// its neighbours.
    fn ensure_pinned(&self, cache: &mut LoopCache) {
        let pinning = &self.shared.pinning;
        if cache.pinned.is_none() {
            self.shared.pin_for_loops();
        }
        let version = pinning.version();
        if cache.pinned != Some(version) {
            cache.pinned = Some(version);
            self.shared.slots.at(0).set_near(pinning.nearest(0));
        }
    }

    /// Sees to it that no worker sits where the caller runs, if it seems to stay there: two
    /// callers in turns, or one that is being moved about, are not worth it.
    fn make_way(&self, cache: &mut LoopCache) {
        let pinning = &self.shared.pinning;
        let pu = pinning.caller_pu();
        if pu != cache.caller_pu {
            (cache.caller_pu, cache.made_way) = (pu, false);
        } else if let (Some(pu), false) = (pu, cache.made_way) {
            let now = now_ns();
            if now - cache.made_way_ns >= MAKE_WAY_EVERY_NS {
                pinning.make_way(pu);
                (cache.made_way, cache.made_way_ns) = (true, now);
            }
        }
    }

    fn queue_blocks(&self) -> usize {
        let blocks = self.units.min(self.slots * QUEUE_BLOCKS_PER_WORKER);
        blocks.min(Left::BLOCKS_MAX as usize)
    }

    fn is_cold(&self, cache: &LoopCache) -> bool {
        cache.awake < self.slots || self.shared.loops.mailbox.call().has_sleepers()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::protocol::call::EPOCH_MASK;
    use crate::{Balance, Pool, Wait, sync::lock};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Runs loops on a new pool that has come so near to the last epoch.
    fn run_at(epoch: u64, workers: usize, balance: Balance, loops: usize) {
        let builder = Pool::builder().workers(workers).wait(Wait::Park);
        let pool = builder.balance(balance).build().expect("in range");
        lock(&pool.shared.loops.lock).cache.epoch = epoch;
        let items: Vec<AtomicUsize> = (0..workers * 7).map(|_| AtomicUsize::new(0)).collect();
        for n in 1..=loops {
            pool.for_each(&items, |item| {
                item.fetch_add(1, Ordering::Relaxed);
            });
            let visited = |item: &AtomicUsize| item.load(Ordering::Relaxed) == n;
            assert!(
                items.iter().all(visited),
                "loop {n} after {epoch:#x}, {balance}"
            );
        }
    }

    #[test]
    fn epochs_go_round_past_slots_that_never_took_part() {
        for workers in [2, 3, 20] {
            for balance in [Balance::Fixed, Balance::Sticky, Balance::Shared] {
                run_at(EPOCH_MASK, workers, balance, 2);
                run_at(EPOCH_MASK - 2, workers, balance, 6);
                // All are brought up to date before the third.
                run_at((1 << 30) - 3, workers, balance, 6);
            }
        }
    }
}
