//! Decides how a loop is run: inline or on how many seats, in how fine pieces, with what shares.

use super::{
    nested,
    protocol::{
        call::{Call, Even, Grain, Left, SEATS_MAX},
        call_sites::{Alone, Key, Plan, Site},
        closure::Body,
        dispatch::{Job, Part},
        join::Laggard,
        places,
        sit_out::SitOut,
        slot::{Known, Slot},
    },
};
use crate::{
    pool::{Balance, Pool, Wait, shared::Shared},
    seat::{current, panics::FirstPanic, trace::Doing},
    sync::{now_ns, try_lock},
};
use std::{
    ops::Range,
    panic::{Location, resume_unwind},
};

/// How many blocks a worker a `Shared` loop is cut into, where it has that many units.
const QUEUE_BLOCKS_PER_SEAT: usize = 64;

/// Workers change seats for a caller at most this often: it costs some ten microseconds.
const MAKE_WAY_EVERY_NS: u64 = 4_000_000;

impl Pool {
    /// Calls `f(range, who)` for ranges that together are `0..units`, each unit once, on no more than
    /// `seats` seats, and returns when all is done. `who` is below that and the number of seats, and
    /// no other thread has it meanwhile.
    #[track_caller]
    pub(super) fn run(&self, seats: usize, units: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        // SAFETY: `f` is ours, and is used through this body only.
        let body = unsafe { Body::new(&f) };
        self.run_body(seats.min(self.most), units, body);
    }

    #[track_caller]
    fn run_body(&self, seats: usize, units: usize, body: Body<'_>) {
        let seats = self.seats(units).min(seats);
        if seats <= 1 {
            return inline(units, body);
        }
        let Some(mut slot) = try_lock(&self.shared.loops.slot) else {
            return self.run_nested(units, seats, body);
        };
        let Slot {
            known,
            sites,
            sit_out,
        } = &mut *slot;
        let loop_ = Loop {
            shared: &self.shared,
            units,
            seats,
            body,
        };
        let mut site = (self.balance == Balance::Sticky).then(|| {
            let code = body.code as *const () as usize;
            sites.find(Key::new(Location::caller(), code, units, seats))
        });
        if site.as_mut().is_some_and(|(site, _)| site.is_tiny()) {
            // Nobody else is needed, be they busy or not.
            loop_.count_inline();
            drop(slot);
            return inline(units, body);
        }
        if !self.others_idle(seats) {
            drop(slot);
            return self.run_nested(units, seats, body);
        }
        let payload = match (self.balance, site) {
            (Balance::Shared, _) => loop_.queue(known),
            (Balance::Fixed, _) | (_, None) => loop_.spread(known, Grain::WHOLE, None, false).0,
            (Balance::Sticky, Some(site)) => loop_.sticky(known, site, sit_out),
        };
        drop(slot);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Runs a loop that is offered to whoever has time.
    fn run_nested(&self, units: usize, seats: usize, body: Body<'_>) {
        if let Some(payload) = nested::run(&self.shared.loops, units, seats, body) {
            resume_unwind(payload);
        }
    }

    /// Whether no worker of the loop but the caller is in somebody's code; a moment ago. Advice: one
    /// that leaves meanwhile is found after the loop has been published (`places.rs`).
    fn others_idle(&self, seats: usize) -> bool {
        let busy = |index: &usize| self.shared.seats.at(*index).is_elsewhere();
        match (0..seats).find(busy) {
            None => true,
            Some(first) => {
                let own = current::index_in(&self.shared.seats);
                own == Some(first) && !(first + 1..seats).any(|index| busy(&index))
            }
        }
    }

    /// How many seats a loop of so many units is for. A sticky, adaptive loop uses no more than
    /// there are CPUs, or a quota of them rounded up: more threads would only take turns on them.
    fn seats(&self, units: usize) -> usize {
        let cap = match (self.balance, self.shared.wait) {
            // The caller alone.
            _ if self.shared.seats.is_threadless() => 1,
            (Balance::Sticky, Wait::Adaptive) => self.shared.pus,
            _ => SEATS_MAX,
        };
        self.shared
            .seats
            .workers()
            .min(units)
            .min(cap)
            .min(SEATS_MAX)
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
    seats: usize,
    body: Body<'a>,
}

impl Loop<'_> {
    fn sticky(
        &self,
        known: &mut Known,
        (site, alone): (&mut Site, &mut Alone),
        sit_out: &mut SitOut,
    ) -> Thrown {
        let line = &self.shared.loops.line;
        let out = sit_out.pass(site.total_ns(), &self.shared.loops.shares);
        let cold = self.is_cold(known).then(|| line.wake_pays_ns());
        match site.plan(alone, cold, now_ns) {
            Plan::Spread { grain, timed } if out + 1 < self.seats => {
                let bounds = Some(site.bounds());
                let (thrown, laggard) = self.spread(known, grain, bounds, timed);
                if timed {
                    let shares = &self.shared.loops.shares;
                    site.learn(|seat| shares.at(seat).take_cost());
                }
                if let Some(laggard) = laggard {
                    let shares = &self.shared.loops.shares;
                    sit_out.judge(laggard, site.total_ns(), self.seats, shares);
                }
                thrown
            }
            Plan::Inline { timed } | Plan::Spread { timed, .. } => {
                if cold.is_some() {
                    line.forget_wake();
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
        let counters = &self.shared.seats.at(self.caller().1).counters;
        counters.loop_blocks.add(1);
        counters.loop_units.add(self.units as u64);
    }

    /// A share a seat.
    fn spread(
        &self,
        known: &mut Known,
        grain: Grain,
        bounds: Option<&[usize]>,
        timed: bool,
    ) -> (Thrown, Option<Laggard>) {
        let even = Even::new(self.units, self.seats);
        let job = Job {
            body: self.body,
            bounds,
            even,
            timed,
        };
        self.call(known, grain, job)
    }

    /// All in one queue.
    fn queue(&self, known: &mut Known) -> Thrown {
        let even = Even::new(self.units, self.queue_blocks());
        let job = Job {
            body: self.body,
            bounds: None,
            even,
            timed: false,
        };
        self.call(known, Grain::QUEUE, job).0
    }

    fn call(&self, known: &mut Known, grain: Grain, job: Job<'_>) -> (Thrown, Option<Laggard>) {
        let loops = &self.shared.loops;
        let (seats, line) = (&loops.seats, &loops.line);
        let (outside, who) = self.caller();
        let outside = outside.then_some(who);
        self.seat(known);
        if outside.is_some() {
            self.make_way(known);
        }
        line.ensure_threads(seats, self.seats, outside.unwrap_or(usize::MAX));
        let epoch = known.next_epoch(loops, self.seats);
        if grain == Grain::QUEUE {
            let share = loops.shares.at(who);
            share.lay_out(epoch, self.queue_blocks() as u64);
        }
        let cold = self.is_cold(known);
        if cold {
            known.awake = self.seats;
        }
        let call = Call::new(epoch, self.seats, who, grain);
        let call = line.publish(seats, &job, call, cold);
        let seat = seats.at(who);
        let counters = &*seat.counters;
        let part = Part {
            loops,
            call,
            seat,
            counters,
        };
        let traced = seats.tracing.begin();
        let join = || part.work_and_join(self.units, self.shared.join_spin_ns());
        let laggard = match places::any_elsewhere(&part) {
            true => places::offer_while(&part, join),
            false => join(),
        };
        seat.spans.note(Doing::Loop, traced);
        // A worker of this rank has others below it in the tree by which a loop wakes.
        let inner = |rank: &usize| 2 * rank + 1 < self.seats;
        let mut inner = (1..self.seats).take_while(inner);
        if cold && inner.any(|rank| loops.shares.at((who + rank) % self.seats).is_unseen(call)) {
            // It has not woken them, and does not for a later loop that does not wake.
            known.awake = 0;
        }
        (line.panic.take(), laggard)
    }

    /// Whether the caller is none of the pool's workers, and whose share it takes.
    fn caller(&self) -> (bool, usize) {
        let own = current::index_in(&self.shared.seats);
        let who = own.filter(|index| *index < self.seats).unwrap_or(0);
        (own.is_none(), who)
    }

    /// Sees to it that the workers are seated, and that seat 0, whose share a caller takes, knows
    /// its neighbours.
    fn seat(&self, known: &mut Known) {
        let seating = &self.shared.seating;
        if known.seated.is_none() {
            self.shared.seat_for_loops();
        }
        let version = seating.version();
        if known.seated != Some(version) {
            known.seated = Some(version);
            self.shared.seats.at(0).set_near(seating.nearest(0));
        }
    }

    /// Sees to it that no worker sits where the caller runs, if it seems to stay there: two
    /// callers in turns, or one that is being moved about, are not worth it.
    fn make_way(&self, known: &mut Known) {
        let seating = &self.shared.seating;
        let pu = seating.caller_pu();
        if pu != known.caller_pu {
            (known.caller_pu, known.made_way) = (pu, false);
        } else if let (Some(pu), false) = (pu, known.made_way) {
            let now = now_ns();
            if now - known.made_way_ns >= MAKE_WAY_EVERY_NS {
                seating.make_way(pu);
                (known.made_way, known.made_way_ns) = (true, now);
            }
        }
    }

    fn queue_blocks(&self) -> usize {
        let blocks = self.units.min(self.seats * QUEUE_BLOCKS_PER_SEAT);
        blocks.min(Left::BLOCKS_MAX as usize)
    }

    fn is_cold(&self, known: &Known) -> bool {
        known.awake < self.seats || self.shared.loops.line.call().has_sleepers()
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
        lock(&pool.shared.loops.slot).known.epoch = epoch;
        let items: Vec<AtomicUsize> = (0..workers * 7).map(|_| AtomicUsize::new(0)).collect();
        for n in 1..=loops {
            pool.each(&items, |_, item| {
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
    fn epochs_go_round_past_seats_that_never_took_part() {
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
