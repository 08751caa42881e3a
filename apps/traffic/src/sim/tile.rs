//! A tile of the map, and how it runs alone for a window of ticks.
//!
//! All that happens at a junction happens in the order of (time, kind, road, car), whatever tile it
//! is in: what comes from elsewhere comes as a car or a hole that was sent a window ago or earlier.
//! So neither the cut of the tiles nor the length of windows nor the workers show in an outcome.

use super::events::{STUCK, Work};
use super::records::*;
use super::reroute::Lateness;
use super::slab::{NONE, Slab};
use super::wheel::{SLOT_MS, Wheel};
use super::{Event, Rules, Tally};
use crate::network::Ms;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A tile: its records, its cars and what is due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    pub first_junction: u32,
    /// The road of its first entry; the others follow.
    pub first_link: u32,
    /// Its junctions, and one more at the end, where the exits of the last end.
    pub nodes: Vec<Node>,
    pub exits: Vec<LinkExit>,
    pub entries: Vec<LinkEntry>,
    pub cuts: Vec<Cut>,
    pub cars: Slab<Car>,
    /// When cars are at the ends of their roads.
    pub arrival_wheel: Wheel,
    pub timers: Slab<Timer>,
    pub timer_wheel: Wheel,
    pub holes: Slab<Holes>,
    /// Trips to come.
    pub departures: BinaryHeap<Reverse<Departure>>,
    /// By entry.
    pub entry_queues: Vec<EntryQueue>,
    pub tally: Tally,
    /// By exit, where cars are re-routed.
    pub lateness: Vec<Lateness>,
    /// What happened, where somebody wants to know.
    #[serde(skip)]
    pub recorded_events: Option<Vec<Event>>,
    /// What is due in the slot that is being worked on, the next last. Kept for its memory.
    #[serde(skip)]
    pub due_events: Vec<u64>,
}

impl Tile {
    pub fn new(first_junction: u32, first_link: u32) -> Self {
        Self {
            first_junction,
            first_link,
            nodes: Vec::new(),
            exits: Vec::new(),
            entries: Vec::new(),
            cuts: Vec::new(),
            cars: Slab::new(),
            arrival_wheel: Wheel::new(),
            timers: Slab::new(),
            timer_wheel: Wheel::new(),
            holes: Slab::new(),
            departures: BinaryHeap::new(),
            entry_queues: Vec::new(),
            tally: Tally::default(),
            lateness: Vec::new(),
            recorded_events: None,
            due_events: Vec::new(),
        }
    }

    /// Walks over what a window will touch here and there, in order, which a cache takes in four times
    /// as fast.
    pub fn prefetch(&self) {
        fn lines<T>(things: &[T]) -> impl Iterator<Item = &T> {
            things.iter().step_by(64 / size_of::<T>())
        }
        let exits = lines(&self.exits).map(|exit| exit.free_at);
        let entries = lines(&self.entries).map(|entry| entry.next_in);
        let nodes = lines(&self.nodes).map(|node| node.busy_until);
        let touched = exits.chain(entries).chain(nodes).fold(0, Ms::wrapping_add);
        let lists = self.holes.each_line().chain(self.timers.each_line());
        let all = lists.chain(self.cars.each_line());
        std::hint::black_box(all.fold(touched, Ms::wrapping_add));
    }

    /// Runs it from `from` to `until`, both whole ticks. What leaves goes into `mail`, by neighbour.
    pub fn run(&mut self, from: Ms, until: Ms, rules: &Rules, mail: &mut [Vec<Message>]) {
        let end = until / SLOT_MS;
        let mut slot = from / SLOT_MS;
        while slot < end {
            let departures = self.departures.peek();
            let departure = departures.map_or(end, |Reverse(next)| (next.at / SLOT_MS).max(slot));
            let arrival = self.arrival_wheel.next(slot, departure.min(end));
            slot = self.timer_wheel.next(slot, arrival);
            if slot < end {
                Work {
                    slot,
                    rules,
                    mail,
                    tile: self,
                }
                .run();
                slot += 1;
            }
        }
    }

    /// Takes in what a neighbour sent.
    pub fn receive(&mut self, message: Message, now: Ms) {
        let Message {
            at,
            turns,
            place,
            to,
        } = message;
        if place == NONE {
            return self.hole(to, at, now, None);
        }
        let place = self.cars.add(Car {
            at,
            next: NONE,
            turns,
            place,
            exit: to,
        });
        self.arrival_wheel.push(&mut self.cars, place);
    }

    /// The road of an exit.
    pub fn link_of_exit(&self, exit: u16) -> u32 {
        let up = self.exits[usize::from(exit)].up;
        if up & CUT == 0 {
            self.first_link + up
        } else {
            self.cuts[(up & !CUT) as usize].link
        }
    }

    /// Sets anew after how long a car steps aside, also for those that wait already.
    pub fn set_stuck_time(&mut self, stuck_ms: Ms, now: Ms) {
        let mut timers = Vec::new();
        self.timer_wheel
            .each(&self.timers, |place| timers.push(self.timers[place]));
        (self.timers, self.timer_wheel) = (Slab::new(), Wheel::new());
        for timer in timers {
            let exit = usize::from(timer.of());
            let at = match timer.kind() {
                STUCK => now.max(self.exits[exit].since + stuck_ms),
                _ => timer.at,
            };
            self.set_timer(timer.kind(), timer.of(), at, None);
        }
    }

    /// Its junctions.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes[..self.nodes.len() - 1]
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.exits.capacity() * size_of::<LinkExit>()
            + self.entries.capacity() * size_of::<LinkEntry>()
            + self.cuts.capacity() * size_of::<Cut>()
            + self.arrival_wheel.bytes()
            + self.timer_wheel.bytes()
            + self.due_events.capacity() * size_of::<u64>()
            + self.lateness.capacity() * size_of::<Lateness>()
            + self.car_bytes()
    }

    /// Those of them that are for cars, what they wait for, and their holes.
    pub fn car_bytes(&self) -> usize {
        self.cars.bytes()
            + self.timers.bytes()
            + self.holes.bytes()
            + self.departures.capacity() * size_of::<Departure>()
            + self.entry_queues.capacity() * size_of::<EntryQueue>()
    }
}
