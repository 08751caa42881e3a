//! The scheduler of the simulated system: which thread runs on which PU, sleeps and wakes.

use super::{Event, Pu, State, Thread, Turn, with};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::collections::VecDeque;
use std::ptr;

/// The bytes of a simulated thread's stack.
const STACK: usize = 1 << 20;

impl State {
    /// Returns the PU on which a thread that is ready should run.
    pub(super) fn choose(&self, thread: usize) -> usize {
        let Thread {
            pinned, pu: last, ..
        } = self.threads[thread];
        if let Some(pu) = pinned {
            return pu;
        }
        let is_idle = |pu: usize| self.pus[pu].current.is_none() && self.pus[pu].ready.is_empty();
        if is_idle(last) {
            return last;
        }
        let core_is_idle = |pu: usize| {
            let core = self.pus[pu].place.core as usize;
            self.cores[core].iter().all(|other| is_idle(*other))
        };
        let home = self.pus[last].place;
        // An idle core is better than a nearer core whose other hardware thread is busy.
        let rank = |pu: &usize| {
            let place = self.pus[*pu].place;
            (
                !core_is_idle(*pu),
                place.l3 != home.l3,
                place.package != home.package,
            )
        };
        let idle = (0..self.pus.len()).filter(|pu| is_idle(*pu));
        idle.min_by_key(rank).unwrap_or(last)
    }

    /// Puts a thread that is ready at `at` into the queue of a PU.
    pub(super) fn make_ready(&mut self, thread: usize, at: u64) {
        let index = self.choose(thread);
        self.threads[thread].pu = index;
        self.threads[thread].asleep_on = None;
        self.ready += 1;
        let costs = self.costs;
        let pu = &mut self.pus[index];
        pu.ready.push_back(thread);
        if pu.current.is_none() && !pu.scheduled {
            pu.scheduled = true;
            let exit = match at.saturating_sub(pu.idle_since) > costs.deep_after {
                true => costs.deep_exit,
                false => costs.idle_exit,
            };
            pu.now = pu.now.max(at + exit);
            let now = pu.now;
            self.push(now, Event::Run { pu: index });
        }
    }

    /// Starts the next thread of a PU that has none, or lets it become idle.
    pub(super) fn dispatch(&mut self, index: usize) {
        if self.pus[index].ready.is_empty() && self.ready > 0 {
            self.pull(index);
        }
        let costs = self.costs;
        let pu = &mut self.pus[index];
        let Some(thread) = pu.ready.pop_front() else {
            pu.idle_since = pu.now;
            pu.scheduled = false;
            return;
        };
        self.ready -= 1;
        pu.current = Some(thread);
        pu.scheduled = true;
        let other = pu.last != Some(thread);
        pu.last = Some(thread);
        if other {
            self.stats.switches += 1;
            self.spend(index, costs.switch);
        }
        let pu = &mut self.pus[index];
        pu.slice_end = pu.now + costs.quantum;
        let now = pu.now;
        self.push(now, Event::Run { pu: index });
    }

    /// Takes a thread from the queue of the nearest PU with a queue, as Linux does for a PU that
    /// becomes idle.
    pub(super) fn pull(&mut self, index: usize) {
        let home = self.pus[index].place;
        let threads = &self.threads;
        // We take nothing from a PU that has a queue and no running thread, because this PU is just
        // leaving its idle state to run the queue.
        let can_move = |pu: &Pu| {
            let at = pu
                .ready
                .iter()
                .position(|thread| threads[*thread].pinned.is_none());
            at.filter(|_| pu.current.is_some())
        };
        let found = self
            .pus
            .iter()
            .enumerate()
            .filter(|(_, pu)| can_move(pu).is_some());
        let nearest =
            found.min_by_key(|(_, pu)| (pu.place.package != home.package, pu.place.l3 != home.l3));
        let Some(from) = nearest.map(|(from, _)| from) else {
            return;
        };
        let Some(at) = can_move(&self.pus[from]) else {
            return;
        };
        if let Some(thread) = self.pus[from].ready.remove(at) {
            self.threads[thread].pu = index;
            self.pus[index].ready.push_back(thread);
        }
    }

    pub(super) fn wake(&mut self, at: usize, count: usize) -> usize {
        let mut woken = 0;
        let me = self.current_pu();
        while woken < count {
            let next = self.sleepers.get_mut(&at).and_then(VecDeque::pop_front);
            let Some(thread) = next else { break };
            woken += 1;
            self.stats.wakes += 1;
            self.spend(me, self.costs.wake);
            let now = self.pus[me].now;
            self.make_ready(thread, now);
        }
        if woken == 0 {
            self.spend(me, self.costs.syscall);
        }
        woken
    }

    pub(super) fn time_out(&mut self, thread: usize, sleeps: u64, at: u64) {
        let Thread {
            asleep_on,
            sleeps: now,
            ..
        } = self.threads[thread];
        let (Some(address), true) = (asleep_on, now == sleeps) else {
            return;
        };
        if let Some(sleepers) = self.sleepers.get_mut(&address) {
            sleepers.retain(|sleeper| *sleeper != thread);
        }
        self.make_ready(thread, at);
    }

    /// Creates a thread and returns its number.
    pub(super) fn create(
        &mut self,
        pinned: Option<usize>,
        near: usize,
        f: Box<dyn FnOnce()>,
    ) -> usize {
        let number = self.threads.len();
        let stack = DefaultStack::new(STACK).expect("there is memory for a simulated stack");
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Turn>, ()| {
            with(|engine| {
                engine.0.borrow_mut().threads[number].yielder = yielder;
            });
            f();
        });
        self.threads.push(Thread {
            body: Some(body),
            yielder: ptr::null(),
            pinned,
            pu: near,
            sleeps: 0,
            asleep_on: None,
        });
        number
    }
}
