//! Decides how to run a loop: inline or on several workers, with which block size, and with which
//! shares.

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
        places, wake_tree,
    },
};
use crate::{
    pool::{Balance, Pool, Wait, shared::Shared},
    sync::{now_ns, try_lock},
    worker::{current, panics::FirstPanic, stats::LoopCounters, trace::Doing},
};
use std::{
    ops::Range,
    panic::{Location, resume_unwind},
};

/// The number of blocks per worker that a `Shared` loop is divided into, if it has that many units.
const QUEUE_BLOCKS_PER_WORKER: usize = 64;

/// The minimum time between two moves of worker 0 to the CPU of a caller. A move costs about ten
/// microseconds.
const MAKE_WAY_EVERY_NS: u64 = 4_000_000;

impl Pool {
    /// Calls `f(range, who)` for ranges that together cover `0..units`, each unit once, on at most
    /// `slots` workers. Returns when all calls are done. `who` is below `slots` and below the
    /// number of workers, and no other thread has the same `who` during the call.
    #[track_caller]
    pub(super) fn run(&self, slots: usize, units: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        // SAFETY: This function owns `f`, and `f` is used through this body only.
        let body = unsafe { Body::new(&f) };
        self.run_body(slots, units, body);
    }

    #[track_caller]
    fn run_body(&self, slots: usize, units: usize, body: Body<'_>) {
        let slots = self.threads_for(units, slots);
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
            sites.find(Key::new(Location::caller(), code, self.site, units, slots))
        });
        if site.as_mut().is_some_and(|(site, _)| site.is_tiny()) {
            // No other worker is needed, so it does not matter whether they are busy.
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

    /// Runs a loop on the calling thread, with the help of idle workers.
    fn run_nested(&self, units: usize, slots: usize, body: Body<'_>) {
        if let Some(payload) = nested::run(self, units, slots, body) {
            resume_unwind(payload);
        }
    }

    /// Returns whether no worker of the loop, except the caller, was running user code other than a
    /// share of the pool's loop a moment ago. This is only a hint. If a worker starts to run user
    /// code afterwards, we notice it after the loop has been published (`protocol/places.rs`).
    fn others_idle(&self, slots: usize) -> bool {
        let shared = &self.shared;
        let own = current::index_in(&shared.slots);
        let is_replaced = |index: usize| {
            index == 0 && own.is_some() && shared.loops.forks.is_worker_0_replaced(&shared.slots)
        };
        let busy = |index: &usize| {
            Some(*index) != own && (shared.slots.at(*index).is_elsewhere() || is_replaced(*index))
        };
        !(0..slots).any(|index| busy(&index))
    }

    /// Returns the number of threads that run a loop of `units` units if at most `slots` may.
    pub(super) fn threads_for(&self, units: usize, slots: usize) -> usize {
        self.workers_for(units).min(slots).min(self.most)
    }

    /// Returns the number of workers for a loop of `units` units. A sticky loop on an adaptive pool
    /// uses at most as many workers as there are CPUs, or as a CPU quota allows (rounded up). More
    /// threads would only take turns on these CPUs.
    fn workers_for(&self, units: usize) -> usize {
        let cap = match (self.balance, self.shared.wait) {
            // Only the caller runs the loop.
            _ if self.shared.slots.is_threadless() => 1,
            (Balance::Sticky, Wait::Adaptive) => self.shared.threads(),
            _ => WORKERS_MAX,
        };
        self.shared
            .slots
            .workers()
            .min(units)
            .min(cap)
            .min(WORKERS_MAX)
    }

    /// Returns the shared part of the pool, for methods that need more than `run`.
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

/// One call of a loop, by the thread that holds the loop lock.
struct Loop<'a> {
    shared: &'a Shared,
    units: usize,
    slots: usize,
    body: Body<'a>,
}

/// The thread that calls a loop, and holds the loop lock.
struct Caller<'a> {
    /// Whether it is not a worker of the pool.
    outside: bool,
    /// The worker whose share it takes.
    who: usize,
    counters: &'a LoopCounters,
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

    /// Counts a loop that its caller runs alone.
    fn count_inline(&self) {
        let counters = self.caller().counters;
        counters.blocks.add(1);
        counters.units.add(self.units as u64);
    }

    /// Runs the loop with one share per worker.
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

    /// Runs the loop with one queue for all workers.
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
        let Caller {
            outside,
            who,
            counters,
        } = self.caller();
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
        // Only for a sticky loop do we remember the bounds of its shares.
        let call = job.bounds.map_or(call, |_| call.optional());
        let call = mailbox.publish(slots, &job, call, cold);
        let slot = slots.at(who);
        let part = Part {
            loops,
            call,
            slot,
            counters,
        };
        let traced = slots.tracing.begin();
        let join = || part.work_and_join(self.units, self.shared.join_spin_ns());
        let straggler = match places::any_elsewhere(&part) {
            true => places::share_places_while(&part, join),
            false => join(),
        };
        slot.spans.record(Doing::Loop, traced);
        // Whether the worker of this rank has to wake others (`protocol/wake_tree.rs`).
        let is_inner = |rank: &usize| wake_tree::children(*rank, self.slots).next().is_some();
        let mut inner = (1..self.slots).filter(is_inner);
        if cold && inner.any(|rank| loops.shares.at((who + rank) % self.slots).is_unseen(call)) {
            // One of these workers has not seen this call, so it has not woken the workers below
            // it. It would not wake them for a later call without the flag `WAKE` either. Therefore
            // the next loop must wake the workers again.
            cache.awake = 0;
        }
        (mailbox.panic.take(), straggler)
    }

    fn caller(&self) -> Caller<'_> {
        let slots = &self.shared.slots;
        let own = current::index_in(slots);
        let (who, counters) = match own.filter(|index| *index < self.slots) {
            Some(own) => (own, &slots.at(own).counters.loops),
            None => (0, &slots.at(0).counters.callers),
        };
        Caller {
            outside: own.is_none(),
            who,
            counters,
        }
    }

    /// Ensures that the workers are pinned, and that worker 0, whose share a caller takes, knows
    /// its nearest workers.
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

    /// Ensures that no worker other than worker 0 is pinned to the CPU that the caller runs on. We
    /// only do this if the caller seems to stay on that CPU. A move is not worth its cost for two
    /// callers that take turns, or for a caller that the OS keeps moving.
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

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::{super::protocol::call::EPOCH_MASK, Body, Loop, QUEUE_BLOCKS_PER_WORKER};
    use crate::{Balance, Pool, Wait, sync::lock};
    use std::{
        ops::Range,
        sync::{
            Arc, Barrier,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    /// Runs loops on a new pool whose epoch counter starts at `epoch`, which is near its limit.
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
    fn loops_work_after_epochs_wrap_around_although_some_workers_never_took_part() {
        for workers in [2, 3, 20] {
            for balance in [Balance::Fixed, Balance::Sticky, Balance::Shared] {
                run_at(EPOCH_MASK, workers, balance, 2);
                run_at(EPOCH_MASK - 2, workers, balance, 6);
                // All slots are updated before the third loop.
                run_at((1 << 30) - 3, workers, balance, 6);
            }
        }
    }

    /// The units wait for each other, so the excluded worker has to run one.
    #[test]
    fn an_excluded_worker_takes_part_in_loops_that_are_not_sticky() {
        for balance in [Balance::Fixed, Balance::Shared] {
            let builder = Pool::builder().workers(3).balance(balance);
            let pool = Arc::new(builder.build().expect("in range"));
            let shares = &pool.shared.loops.shares;
            (0..3).for_each(|worker| shares.at(worker).exclusion(true));
            let (done, wait) = mpsc::channel();
            let loops = Arc::clone(&pool);
            thread::spawn(move || {
                let all = Barrier::new(3);
                loops.for_each(0..3, |_| _ = all.wait());
                done.send(()).expect("the test waits");
            });
            let limit = Duration::from_secs(60);
            wait.recv_timeout(limit).expect("no unit waits for ever");
        }
    }

    /// The caller counts as worker 0, while worker 0 works in the place of worker 1.
    #[test]
    fn a_caller_that_counts_as_worker_0_and_worker_0_itself_lose_no_counts() {
        const LOOPS: usize = 1000;
        let builder = Pool::builder().workers(2).balance(Balance::Shared);
        let pool = builder.build().expect("in range");
        let (begun, begins) = mpsc::channel();
        let (release, blocked) = mpsc::channel::<()>();
        let arrived = AtomicUsize::new(0);
        // Each unit waits until a second thread is in a unit as well, so two threads always count
        // at the same time.
        let meet = |units: Range<usize>, _: usize| {
            for _ in units {
                let nth = arrived.fetch_add(1, Ordering::SeqCst) + 1;
                let all = nth.next_multiple_of(2);
                while arrived.load(Ordering::SeqCst) < all {
                    thread::yield_now();
                }
                // One of the two threads waits a little, for a time that differs from unit to
                // unit, so that the threads count in many different interleavings.
                (0..nth % 2 * (all / 2 % 64)).for_each(|_| std::hint::spin_loop());
            }
        };
        let units = 2 * QUEUE_BLOCKS_PER_WORKER;
        thread::scope(|scope| {
            let blocked_worker = pool.clone();
            scope.spawn(move || {
                let blocks = move || {
                    begun.send(()).expect("the test waits");
                    let _ = blocked.recv();
                };
                blocked_worker
                    .run_on(1, blocks)
                    .expect("there is a worker 1");
            });
            begins.recv().expect("worker 1 runs the job");
            for _ in 0..LOOPS {
                // SAFETY: the closure is used only through this body.
                let body = unsafe { Body::new(&meet) };
                let loop_ = Loop {
                    shared: &pool.shared,
                    units,
                    slots: 2,
                    body,
                };
                // A call through the pool would find the busy worker, and would run a nested loop,
                // unless the worker begins its job at that very moment.
                let thrown = loop_.queue(&mut lock(&pool.shared.loops.lock).cache);
                assert!(thrown.is_none());
            }
            drop(release);
        });
        let workers = pool.stats().workers;
        let items: u64 = workers.iter().map(|worker| worker.loop_items).sum();
        let pieces: u64 = workers.iter().map(|worker| worker.loop_blocks).sum();
        assert_eq!(
            (items, pieces),
            ((LOOPS * units) as u64, (LOOPS * units) as u64)
        );
    }
}
