//! A tile of the map, and how it runs alone for a window of ticks.
//!
//! All events at a junction are processed in the order of (time, kind, link, car), whatever tile
//! contains the junction. Cars and holes from other tiles were sent at least a window ago.
//! Therefore the results do not depend on the tiles, the length of windows or the workers.

use super::events::{STUCK, Work};
use super::priority::RightOfWay;
use super::records::*;
use super::reroute::Lateness;
use super::slab::{NONE, Slab};
use super::wheel::{SLOT_MS, Wheel};
use super::{Event, Rules, Tally};
use crate::network::Ms;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// A tile: its records, its cars and its pending events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    pub first_junction: u32,
    /// The link whose beginning is the first entry of the tile. The links of the other entries
    /// follow it.
    pub first_link: u32,
    /// The junctions, plus one entry that marks the end of the last junction's exits and entries.
    pub nodes: Vec<Node>,
    pub exits: Vec<LinkExit>,
    pub entries: Vec<LinkEntry>,
    pub cuts: Vec<Cut>,
    pub cars: Slab<Car>,
    /// The times at which cars arrive at the ends of their links.
    pub arrival_wheel: Wheel,
    pub timers: Slab<Timer>,
    pub timer_wheel: Wheel,
    pub holes: Slab<Holes>,
    /// The future trips.
    pub departures: BinaryHeap<Reverse<Departure>>,
    /// The queues of cars that wait to enter a link, because they begin a trip there or have
    /// stepped aside. They are ordered by the index of the link's entry.
    pub entry_queues: Vec<EntryQueue>,
    /// The crossings of each movement at priority junctions.
    pub crossed: Vec<Crossings>,
    /// The right of way at priority junctions. It follows from the network, so it is not saved.
    #[serde(skip)]
    pub right_of_way: Arc<RightOfWay>,
    /// The cars on each watched link that have not arrived at its end, in order. They follow from
    /// the timing wheel.
    #[serde(skip)]
    pub approaching: Vec<VecDeque<u32>>,
    /// The last arrival at the end of each link that begins here, or 0. Empty if there are no slow
    /// cars.
    pub last_arrivals: Vec<Ms>,
    pub tally: Tally,
    /// The delay at each exit, if rerouting is enabled.
    pub lateness: Vec<Lateness>,
    /// The recorded events, if recording is enabled.
    #[serde(skip)]
    pub recorded_events: Option<Vec<Event>>,
    /// The events of the time slot that is being processed, with the next event last. We keep the
    /// vector to reuse its memory.
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
            crossed: Vec::new(),
            right_of_way: Arc::default(),
            approaching: Vec::new(),
            last_arrivals: Vec::new(),
            tally: Tally::default(),
            lateness: Vec::new(),
            recorded_events: None,
            due_events: Vec::new(),
        }
    }

    /// Loads the tile into the cache before a window runs. The window would access this memory in
    /// random order. We read it from beginning to end instead, which is four times as fast.
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

    /// Runs the tile from `from` to `until`. Messages to other tiles go into `mail`, which has one
    /// list per neighbour.
    pub fn run(&mut self, from: Ms, until: Ms, rules: &Rules, mail: &mut [Vec<Message>]) {
        let end = until.div_ceil(SLOT_MS);
        let mut slot = from / SLOT_MS;
        while slot < end {
            let departures = self.departures.peek();
            let departure = departures.map_or(end, |Reverse(next)| (next.at / SLOT_MS).max(slot));
            let arrival = self.arrival_wheel.next(slot, departure.min(end));
            slot = self.timer_wheel.next(slot, arrival);
            if slot < end {
                Work {
                    slot,
                    end: until.min((slot + 1) * SLOT_MS),
                    rules,
                    mail,
                    tile: self,
                }
                .run();
                slot += 1;
            }
        }
    }

    /// Receives a message from a neighbour.
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
        let exit = to & !WATCHED16;
        let place = self.cars.add(Car {
            at,
            next: NONE,
            turns,
            place,
            exit,
        });
        self.arrival_wheel.push(&mut self.cars, place);
        if to & WATCHED16 != 0 {
            self.watch(exit, place);
        }
    }

    /// Returns the link that ends at this exit. The index of the exit may have the flag
    /// [`ASIDE16`].
    pub fn link_of_exit(&self, exit: u16) -> u32 {
        let up = self.exits[usize::from(exit & !ASIDE16)].up;
        if up & CUT == 0 {
            self.first_link + up
        } else {
            self.cuts[(up & INDEX) as usize].link
        }
    }

    /// Sets the stuck timers again for a new stuck time, also for cars that are already waiting.
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

    /// Returns the junctions of the tile.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes[..self.nodes.len() - 1]
    }

    /// Returns the memory size in bytes.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.exits.capacity() * size_of::<LinkExit>()
            + self.entries.capacity() * size_of::<LinkEntry>()
            + self.cuts.capacity() * size_of::<Cut>()
            + self.arrival_wheel.bytes()
            + self.timer_wheel.bytes()
            + self.due_events.capacity() * size_of::<u64>()
            + self.crossed.capacity() * size_of::<Crossings>()
            + self.lateness.capacity() * size_of::<Lateness>()
            + self.car_bytes()
    }

    /// Returns the part of the memory size that belongs to cars, timers, holes and trips.
    pub fn car_bytes(&self) -> usize {
        self.cars.bytes()
            + self.timers.bytes()
            + self.holes.bytes()
            + self.departures.capacity() * size_of::<Departure>()
            + self.entry_queues.capacity() * size_of::<EntryQueue>()
    }
}
