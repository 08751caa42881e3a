//! Decides how a loop is run: inline or on how many seats, in how fine pieces, with what shares.

use super::{
    Loops,
    bench::Bench,
    body::Body,
    dispatch::{Job, Part},
    nested,
    sites::{Plan, Site, Sites},
    wait::Laggard,
    words::{Call, Even, Grain, Left, SEATS_MAX, next_epoch},
};
use crate::{
    pool::{Balance, Wait, current, panics::FirstPanic, shared::Shared, trace::Doing},
    sync::{now_ns, try_lock},
};
use std::{
    ops::Range,
    panic::{Location, resume_unwind},
    sync::Arc,
};

/// How many blocks a worker a `Shared` loop is cut into, where it has that many units.
const QUEUE_BLOCKS_PER_SEAT: usize = 64;

/// What belongs to who holds the loop slot.
#[derive(Default)]
pub(super) struct State {
    crew: Crew,
    sites: Sites,
    bench: Bench,
}

/// What the slot's holders remember about the seats.
#[derive(Default)]
struct Crew {
    /// The last loop's epoch.
    epoch: u64,
    /// Seats below this index were woken since `SLEEPERS` was last cleared.
    awake: usize,
    /// Seats below this index have a share that knows of epochs.
    touched: usize,
    /// The version of the workers' layout, once they were seated for loops.
    seated: Option<usize>,
    /// Where the last caller from outside ran.
    caller_pu: Option<usize>,
    /// Whether the workers have made way for it there.
    made_way: bool,
    /// When they last did.
    made_way_ns: u64,
}

/// Workers change seats for a caller at most this often: it costs some ten microseconds.
const MAKE_WAY_EVERY_NS: u64 = 4_000_000;

/// So often all seats are brought up to date, long before what they remember of a loop looks like
/// one to come.
const TOUCH_EVERY: u64 = 1 << 30;

impl Loops {
    /// Calls `f(range, who)` for ranges that together are `0..units`, each unit once, and returns
    /// when all is done. `who` is below the number of seats, and no other thread has it meanwhile.
    #[track_caller]
    pub(super) fn run(&self, units: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        self.run_on_at_most(SEATS_MAX, units, f);
    }

    /// The same, on no more than `seats` seats.
    #[track_caller]
    pub(super) fn run_on_at_most(
        &self,
        seats: usize,
        units: usize,
        f: impl Fn(Range<usize>, usize) + Sync,
    ) {
        // SAFETY: `f` is ours, and is used through this body only.
        let body = unsafe { Body::new(&f) };
        self.run_body(seats, units, body);
    }

    #[track_caller]
    fn run_body(&self, seats: usize, units: usize, body: Body<'_>) {
        let seats = self.seats(units).min(seats);
        if seats <= 1 {
            return inline(units, body);
        }
        let idle = self.others_idle(seats);
        let Some(mut state) = idle.then(|| try_lock(&self.shared.line.state)).flatten() else {
            if let Some(payload) = nested::run(&self.shared, units, seats, body) {
                resume_unwind(payload);
            }
            return;
        };
        let State { crew, sites, bench } = &mut *state;
        let loop_ = Loop {
            shared: &self.shared,
            units,
            seats,
            body,
        };
        let payload = match self.balance {
            Balance::Fixed => loop_.spread(crew, Grain::WHOLE, None, false).0,
            Balance::Shared => loop_.queue(crew),
            Balance::Sticky => {
                let site = sites.find(Location::caller(), units, seats);
                loop_.sticky(crew, site, bench)
            }
        };
        drop(state);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Whether no worker of the loop but the caller is in somebody's code; a moment ago.
    fn others_idle(&self, seats: usize) -> bool {
        let busy = |index: &usize| self.shared.seats.at(*index).is_elsewhere();
        match (0..seats).find(busy) {
            None => true,
            Some(first) => {
                let own = current::index_in(&self.shared);
                own == Some(first) && !(first + 1..seats).any(|index| busy(&index))
            }
        }
    }

    /// How many seats a loop of so many units is for. A sticky, adaptive loop uses no more than
    /// there are CPUs: more threads would only take turns on them.
    fn seats(&self, units: usize) -> usize {
        let cap = match (self.balance, self.shared.wait) {
            (Balance::Sticky, Wait::Adaptive) => self.shared.pus,
            _ => SEATS_MAX,
        };
        self.shared.workers().min(units).min(cap).min(SEATS_MAX)
    }

    /// The pool's shared part, for the verbs that need more than `run`.
    pub(super) fn shared(&self) -> &Arc<Shared> {
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
    shared: &'a Arc<Shared>,
    units: usize,
    seats: usize,
    body: Body<'a>,
}

impl Loop<'_> {
    fn sticky(&self, crew: &mut Crew, site: &mut Site, bench: &mut Bench) -> Thrown {
        let line = &self.shared.line;
        let out = bench.pass(site.total_ns(), self.shared);
        let cold = self.is_cold(crew).then(|| line.wake_pays_ns());
        match site.plan(cold, now_ns) {
            Plan::Spread { grain, timed } if out + 1 < self.seats => {
                let bounds = Some(site.bounds());
                let (thrown, laggard) = self.spread(crew, grain, bounds, timed);
                if timed {
                    let seats = &self.shared.seats;
                    site.learn(|seat| seats.at(seat).share.take_cost());
                }
                if let Some(laggard) = laggard {
                    bench.judge(laggard, site.total_ns(), self.shared);
                }
                thrown
            }
            Plan::Inline { timed } | Plan::Spread { timed, .. } => {
                if cold.is_some() {
                    line.forget_wake();
                }
                let begin = if timed { now_ns() } else { 0 };
                let panic = FirstPanic::default();
                panic.catch(|| inline(self.units, self.body));
                if timed {
                    site.learn_total(now_ns() - begin);
                }
                panic.take()
            }
        }
    }

    /// A share a seat.
    fn spread(
        &self,
        crew: &mut Crew,
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
        self.call(crew, grain, job)
    }

    /// All in one queue.
    fn queue(&self, crew: &mut Crew) -> Thrown {
        let even = Even::new(self.units, self.queue_blocks());
        let job = Job {
            body: self.body,
            bounds: None,
            even,
            timed: false,
        };
        self.call(crew, Grain::QUEUE, job).0
    }

    fn call(&self, crew: &mut Crew, grain: Grain, job: Job<'_>) -> (Thrown, Option<Laggard>) {
        let (shared, line) = (self.shared, &self.shared.line);
        let own = current::index_in(shared);
        let who = own.filter(|index| *index < self.seats).unwrap_or(0);
        let outside = own.is_none().then_some(who);
        self.seat(crew);
        if outside.is_some() {
            self.make_way(crew);
        }
        line.ensure_threads(shared, self.seats, outside.unwrap_or(usize::MAX));
        let epoch = self.next_epoch(crew);
        if grain == Grain::QUEUE {
            let share = &shared.seats.at(who).share;
            share.lay_out(epoch, self.queue_blocks() as u64);
        }
        let cold = self.is_cold(crew);
        if cold {
            crew.awake = self.seats;
        }
        let call = Call::new(epoch, self.seats, who, grain);
        let call = line.publish(shared, &job, call, cold);
        let seat = shared.seats.at(who);
        let part = Part { shared, call, seat };
        let traced = shared.tracing.begin();
        let laggard = part.work_and_join(self.units, shared.join_spin_ns());
        seat.spans.note(Doing::Loop, traced);
        (line.panic.take(), laggard)
    }

    /// Sees to it that the workers are seated, and that seat 0, whose share a caller takes, knows
    /// its neighbours.
    fn seat(&self, crew: &mut Crew) {
        let seating = &self.shared.seating;
        if crew.seated.is_none() {
            self.shared.seat_for_loops();
        }
        let version = seating.version();
        if crew.seated != Some(version) {
            crew.seated = Some(version);
            self.shared.seats.at(0).set_near(seating.nearest(0));
        }
    }

    /// Sees to it that no worker sits where the caller runs, if it seems to stay there: two
    /// callers in turns, or one that is being moved about, are not worth it.
    fn make_way(&self, crew: &mut Crew) {
        let seating = &self.shared.seating;
        let pu = seating.caller_pu();
        if pu != crew.caller_pu {
            (crew.caller_pu, crew.made_way) = (pu, false);
        } else if let (Some(pu), false) = (pu, crew.made_way) {
            let now = now_ns();
            if now - crew.made_way_ns >= MAKE_WAY_EVERY_NS {
                seating.make_way(pu);
                (crew.made_way, crew.made_way_ns) = (true, now);
            }
        }
    }

    fn queue_blocks(&self) -> usize {
        let blocks = self.units.min(self.seats * QUEUE_BLOCKS_PER_SEAT);
        blocks.min(Left::BLOCKS_MAX as usize)
    }

    fn is_cold(&self, crew: &Crew) -> bool {
        crew.awake < self.seats || self.shared.line.call().has_sleepers()
    }

    /// The epoch of a new loop, which every share of it knows to be newer than its last one.
    fn next_epoch(&self, crew: &mut Crew) -> u64 {
        let before = crew.epoch;
        crew.epoch = next_epoch(before);
        if crew.epoch.is_multiple_of(TOUCH_EVERY) {
            let made = self.shared.seats.made();
            made.for_each(|seat| seat.share.bring_up_to(before));
        }
        for seat in crew.touched..self.seats {
            self.shared.seats.at(seat).share.close(before);
            crew.touched = seat + 1;
        }
        crew.epoch
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::words::EPOCH_MASK;
    use crate::{Balance, Pool, Wait, sync::lock};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Runs loops on a new pool that has come so near to the last epoch.
    fn run_at(epoch: u64, workers: usize, balance: Balance, loops: usize) {
        let builder = Pool::builder().workers(workers).wait(Wait::Park);
        let pool = builder.balance(balance).build().expect("in range");
        lock(&pool.shared.line.state).crew.epoch = epoch;
        let items: Vec<AtomicUsize> = (0..workers * 7).map(|_| AtomicUsize::new(0)).collect();
        for n in 1..=loops {
            pool.for_each_index(0..items.len(), |i| {
                items[i].fetch_add(1, Ordering::Relaxed);
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
