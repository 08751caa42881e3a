//! Checks whether a state from a snapshot is consistent, so that a simulation can run it.
//!
//! A checksum detects damage, but it cannot distinguish a genuine snapshot from a forged one. The
//! simulation itself does not check its data for consistency. Therefore we check once, before
//! anything runs, everything that the simulation relies on:
//!
//! - Everything that follows from the network matches the network.
//! - Each place of a slab is in exactly one list.
//! - Each waiter is in exactly one queue.
//! - The route of each car leads to the place where its plan continues.
//! - No time is so late that a sum of times would overflow.

use super::detours::{DETOUR_WORDS_MAX, DETOURS};
use super::events::{RETRY, STUCK, WAKE};
use super::records::*;
use super::slab::{Listed, NONE, Slab};
use super::tile::Tile;
use super::wheel::Wheel;
use super::{END_MS_MAX, Rerouting, Simulation, Tally};
use crate::demand::{follow_turns, is_turns};
use crate::network::{HEADWAY_MS_MAX, Ms};
use creel::Pool;
use std::cmp::Reverse;

/// The maximum time from now until a pending event. It is the longest travel time of a link, plus a
/// margin.
const AHEAD_MS: Ms = (1 << 30) + (1 << 23);
/// The limit for each sum over all tiles, so that the sums can grow further.
const SUM_MAX: u128 = 1 << 62;

impl Simulation {
    /// Returns whether the state is valid. `empty` contains the tiles of the same network without
    /// cars.
    pub(super) fn is_valid(&self, empty: &[Tile], loops: &Pool) -> bool {
        let rerouting = self.rerouting.as_ref();
        self.now_ms <= END_MS_MAX
            && rerouting.is_none_or(|rerouting| Rerouting::check(rerouting).is_ok())
            && self.tiles.len() == empty.len()
            && self.has_valid_sums()
            && self.has_valid_detours()
            && loops.all(0..empty.len(), |index| {
                let of = TileCheck {
                    simulation: self,
                    tile: &self.tiles[index],
                };
                of.is_valid(&empty[index]).is_some()
            })
            && self.check().is_ok()
    }

    fn has_valid_sums(&self) -> bool {
        let mut sums = [0_u128; 13];
        for tile in &self.tiles {
            let Tally {
                moving,
                waiting_to_enter,
                idle,
                done,
                begun,
                arrived,
                crossings,
                stepped_aside,
                rerouted,
                delay_ms,
                vehicle_ms,
                waiting,
                waited_ms,
            } = tile.tally;
            let signed = [
                moving,
                waiting_to_enter,
                idle,
                vehicle_ms,
                waiting,
                waited_ms,
            ];
            let signed = signed.map(i64::unsigned_abs).into_iter();
            let counts = [
                done,
                begun,
                arrived,
                crossings,
                stepped_aside,
                rerouted,
                delay_ms,
            ];
            for (sum, part) in sums.iter_mut().zip(signed.chain(counts)) {
                *sum += u128::from(part);
            }
        }
        sums.iter().all(|&sum| sum < SUM_MAX)
    }

    /// Returns whether each detour leads back to the end of a trip.
    fn has_valid_detours(&self) -> bool {
        let plans = &self.rules.plans;
        let ends = |back: u32| back > 0 && back < plans.end() && !is_turns(plans.word(back));
        self.rules.detours.len() <= DETOUR_WORDS_MAX && self.rules.detours.lead_back(ends)
    }

    /// Checks that a car which arrives at `junction` can follow its route to the place where its
    /// plan continues.
    fn route_is_valid(&self, mut junction: u32, car: Car) -> Option<()> {
        let (network, rules) = (&self.network, &self.rules);
        let end = rules.plans.end();
        let all = DETOURS + rules.detours.len() as u32;
        let mut place = car.place;
        let (_, word) =
            (place < end || (DETOURS..all).contains(&place)).then(|| rules.follow(place))?;
        is_turns(word).then_some(())?;
        junction = follow_turns(network, junction, car.turns)?;
        loop {
            let (next, word) = rules.follow(place + 1);
            if !is_turns(word) {
                // `set_destination` and `set_route` may change the end of a car's last trip, so the
                // last trip may end anywhere.
                let is_last = rules.plans.departure(next).is_none();
                let end = rules.plans.junction_at(network, next)?;
                return (is_last || end == junction).then_some(());
            }
            (word > 1).then_some(())?;
            junction = follow_turns(network, junction, word)?;
            place = next;
        }
    }
}

/// The places of a slab that have been found in a list.
struct VisitedPlaces(Vec<bool>);

impl VisitedPlaces {
    fn of<T: Listed>(slab: &Slab<T>) -> Option<Self> {
        let mut seen = Self(vec![false; slab.places()]);
        seen.list(slab, slab.first_free(), |_| true)?;
        Some(seen)
    }

    /// Marks a place. Returns `None` if the place does not exist or is already in another list.
    fn mark(&mut self, place: u32) -> Option<()> {
        let seen = self.0.get_mut(place as usize)?;
        (!std::mem::replace(seen, true)).then_some(())
    }

    fn list<T: Listed>(
        &mut self,
        slab: &Slab<T>,
        first: u32,
        mut fits: impl FnMut(T) -> bool,
    ) -> Option<()> {
        let mut place = first;
        while place != NONE {
            self.mark(place)?;
            fits(slab[place]).then_some(())?;
            place = slab[place].next();
        }
        Some(())
    }

    fn ring<T: Listed>(
        &mut self,
        slab: &Slab<T>,
        last: u32,
        mut fits: impl FnMut(T) -> bool,
    ) -> Option<()> {
        if last == NONE {
            return Some(());
        }
        ((last as usize) < slab.places()).then_some(())?;
        let mut place = last;
        loop {
            place = slab[place].next();
            self.mark(place)?;
            fits(slab[place]).then_some(())?;
            if place == last {
                return Some(());
            }
        }
    }

    fn wheel<T: Listed>(
        &mut self,
        slab: &Slab<T>,
        wheel: &Wheel,
        mut fits: impl FnMut(T) -> bool,
    ) -> Option<()> {
        for (slot, &first) in wheel.firsts()?.iter().enumerate() {
            self.list(slab, first, |thing| {
                Wheel::slot_of(thing.at()) == slot && fits(thing)
            })?;
        }
        Some(())
    }

    fn all(&self) -> Option<()> {
        self.0.iter().all(|&seen| seen).then_some(())
    }
}

/// Checks one tile. Each check returns `None` if the tile is invalid.
struct TileCheck<'a> {
    simulation: &'a Simulation,
    tile: &'a Tile,
}

impl TileCheck<'_> {
    fn is_valid(&self, empty: &Tile) -> Option<()> {
        self.is_of_network(empty).then_some(())?;
        self.times()?;
        self.cars()?;
        self.holes()?;
        self.timers()?;
        self.queues()?;
        self.departures()
    }

    fn now(&self) -> Ms {
        self.simulation.now_ms
    }

    fn is_due(&self, at: Ms) -> bool {
        (self.now()..=self.now() + AHEAD_MS).contains(&at)
    }

    /// Returns whether everything that never changes is the same as in an empty tile.
    fn is_of_network(&self, empty: &Tile) -> bool {
        let tile = self.tile;
        let node = |(a, b): (&Node, &Node)| {
            let fixed = |c: &Node| {
                let first = (c.first_entry, c.first_exit);
                (first, c.turn_bits, c.rule)
            };
            // `set_program` may have given the traffic light another program.
            let program = self.simulation.rules.programs.get(usize::from(a.program));
            let has_program = a.rule != Rule::Signal
                || program.is_some_and(|program| a.offset_ms < program.cycle_ms);
            fixed(a) == fixed(b) && has_program
        };
        let exit = |(a, b): (&LinkExit, &LinkExit)| {
            let fixed = |h: &LinkExit| {
                let watched = h.flags & LinkExit::WATCHED;
                (h.up, h.hole_ms, h.junction, h.approach, watched)
            };
            fixed(a) == fixed(b)
        };
        let entry = |(a, b): (&LinkEntry, &LinkEntry)| {
            // `set_speed` may have made the road slower, but not faster than in the network.
            a.down == b.down && (b.free_flow_ms()..=1 << 30).contains(&a.free_flow_ms())
        };
        let cut =
            |(a, b): (&Cut, &Cut)| (a.neighbour, a.there, a.link) == (b.neighbour, b.there, b.link);
        (tile.first_junction, tile.first_link) == (empty.first_junction, empty.first_link)
            && tile.nodes.len() == empty.nodes.len()
            && tile.exits.len() == empty.exits.len()
            && tile.entries.len() == empty.entries.len()
            && tile.cuts.len() == empty.cuts.len()
            && tile.nodes.iter().zip(&empty.nodes).all(node)
            && tile.exits.iter().zip(&empty.exits).all(exit)
            && tile.entries.iter().zip(&empty.entries).all(entry)
            && tile.cuts.iter().zip(&empty.cuts).all(cut)
    }

    fn times(&self) -> Option<()> {
        let tile = self.tile;
        let until = self.now() + AHEAD_MS;
        let flags =
            LinkExit::BLOCKED | LinkExit::RETRY_TIMER | LinkExit::STUCK_TIMER | LinkExit::WATCHED;
        let exit = |exit: &LinkExit| {
            let idle =
                exit.last != NONE || exit.flags & (LinkExit::BLOCKED | LinkExit::RETRY_TIMER) == 0;
            idle && exit.flags & !flags == 0
                && (exit.tag_of == NONE16 || usize::from(exit.tag_of) < tile.entries.len())
                && (1..=HEADWAY_MS_MAX).contains(&exit.headway_ms)
                && exit.free_at <= until
                && exit.since <= self.now()
        };
        let lateness = match self.simulation.rerouting {
            Some(_) => tile.exits.len(),
            None => 0,
        };
        let last_arrivals = match self.simulation.rules.roads {
            Some(_) => tile.entries.len(),
            None => 0,
        };
        let all = tile.exits.iter().all(exit)
            && tile.entries.iter().all(|entry| {
                (1..=HEADWAY_MS_MAX).contains(&entry.headway_ms)
                    && (entry.next_in <= until || entry.next_in == LinkEntry::CLOSED)
            })
            && tile.nodes.iter().all(|c| c.busy_until <= until)
            && tile.crossed.len() == tile.right_of_way.movements()
            && tile.crossed.iter().all(|crossed| {
                crossed.last <= self.now() && crossed.mean_ms <= Crossings::MEAN_MS_MAX
            })
            && tile.last_arrivals.len() == last_arrivals
            && tile.last_arrivals.iter().all(|&at| at <= until)
            && tile.lateness.len() == lateness
            && tile.lateness.iter().all(|late| {
                u128::from(late.sum_ms) < SUM_MAX && late.cars < 1 << 31 && late.mean_ms < 1 << 31
            });
        all.then_some(())
    }

    fn cars(&self) -> Option<()> {
        let (tile, simulation, now) = (self.tile, self.simulation, self.now());
        let roads = simulation.network.links();
        // A car on a link is valid if the time at which it entered the link and the rest of its
        // route are valid. The route continues at the end of the link.
        let drives = |car: Car| {
            let link = tile.link_of_exit(car.exit);
            let since = car.at.checked_sub(simulation.current_free_flow_ms(link));
            let way = simulation.route_is_valid(roads[link as usize].to, car);
            // A slow car takes longer than the road allows, and so do the cars behind it.
            let has_slow = simulation.rules.roads.is_some() && self.is_due(car.at);
            (has_slow || since.is_none_or(|since| since <= now)) && way.is_some()
        };
        let mut seen = VisitedPlaces::of(&tile.cars)?;
        seen.wheel(&tile.cars, &tile.arrival_wheel, |car| {
            usize::from(car.exit & !ASIDE16) < tile.exits.len() && car.at >= now && drives(car)
        })?;
        for (index, exit) in tile.exits.iter().enumerate() {
            seen.ring(&tile.cars, exit.last, |car| {
                usize::from(car.exit) == index && car.at <= now && drives(car)
            })?;
        }
        let mut before = None;
        for entry_queue in &tile.entry_queues {
            let there = usize::from(entry_queue.entry) < tile.entries.len()
                && before.is_none_or(|before| before < entry_queue.entry)
                && entry_queue.last != NONE;
            there.then_some(())?;
            before = Some(entry_queue.entry);
            let road = roads[(tile.first_link + u32::from(entry_queue.entry)) as usize];
            seen.ring(&tile.cars, entry_queue.last, |car| {
                car.at <= now && simulation.route_is_valid(road.to, car).is_some()
            })?;
        }
        seen.all()
    }

    fn holes(&self) -> Option<()> {
        let tile = self.tile;
        let until = self.now() + AHEAD_MS;
        (tile.holes.places() < Holes::PLACES_MAX).then_some(())?;
        let mut seen = VisitedPlaces::of(&tile.holes)?;
        for entry in &tile.entries {
            seen.ring(&tile.holes, entry.holes, |holes| {
                let goes_on = u64::from(holes.count() - 1) * u64::from(entry.headway_ms);
                u64::from(holes.at) + goes_on <= u64::from(until)
            })?;
        }
        seen.all()
    }

    /// Checks that the timers are exactly those for which a link has set its flag.
    fn timers(&self) -> Option<()> {
        let tile = self.tile;
        let most = 2 * tile.exits.len() + tile.entries.len();
        (tile.timers.places() <= most).then_some(())?;
        let flagged = |flag| {
            let exits = tile.exits.iter();
            exits
                .map(|exit| exit.flags & flag != 0)
                .collect::<Vec<bool>>()
        };
        let mut known = [WAKE, RETRY, STUCK].map(|kind| match kind {
            WAKE => tile.entries.iter().map(LinkEntry::wakes).collect(),
            RETRY => flagged(LinkExit::RETRY_TIMER),
            _ => flagged(LinkExit::STUCK_TIMER),
        });
        let mut seen = VisitedPlaces::of(&tile.timers)?;
        seen.wheel(&tile.timers, &tile.timer_wheel, |timer| {
            let known = known.get_mut(usize::from(timer.kind()));
            let one = known.and_then(|known| known.get_mut(usize::from(timer.of())));
            let is_closed = timer.kind() == WAKE && timer.at == LinkEntry::CLOSED;
            (self.is_due(timer.at) || is_closed) && one.is_some_and(std::mem::take)
        })?;
        let none_left = known.iter().flatten().all(|&left| !left);
        none_left.then_some(())?;
        seen.all()
    }

    /// Checks that each waiter is in the queue of its link exactly once, and that nothing else is
    /// in a queue.
    fn queues(&self) -> Option<()> {
        let tile = self.tile;
        let waits = |exit: &LinkExit| exit.flags & LinkExit::BLOCKED != 0;
        let mut exits: Vec<bool> = tile.exits.iter().map(waits).collect();
        let mut waiting_to_enter = vec![true; tile.entry_queues.len()];
        for (index, entry) in tile.entries.iter().enumerate() {
            let index = index as u16;
            let next = |waiter| match waiter {
                ENTRY_QUEUE => {
                    let place = tile.entry_queue(index).ok()?;
                    Some(tile.entry_queues[place].next_waiter)
                }
                exit => Some(tile.exits.get(usize::from(exit))?.next_waiter),
            };
            let mut waiter = entry.last_waiter;
            while waiter != NONE16 {
                waiter = next(waiter)?;
                let left = match waiter {
                    ENTRY_QUEUE => &mut waiting_to_enter[tile.entry_queue(index).ok()?],
                    exit => exits.get_mut(usize::from(exit))?,
                };
                std::mem::take(left).then_some(())?;
                if waiter != ENTRY_QUEUE {
                    (self.next_entry(waiter)? == index).then_some(())?;
                }
                if waiter == entry.last_waiter {
                    break;
                }
            }
        }
        let none_left = exits.iter().chain(&waiting_to_enter).all(|&left| !left);
        none_left.then_some(())
    }

    /// Returns the entry of the link that the first car at an exit wants to enter.
    fn next_entry(&self, exit: u16) -> Option<u16> {
        let tile = self.tile;
        let exit = &tile.exits[usize::from(exit)];
        let first = tile.cars.ring(exit.last).next()?;
        let turns = tile.cars[first].turns;
        let node = &tile.nodes[usize::from(exit.junction)];
        let turn = (turns & ((1 << node.turn_bits) - 1)) as u16;
        (turns > 1).then_some(node.first_entry + turn)
    }

    fn departures(&self) -> Option<()> {
        let (tile, plans) = (self.tile, &self.simulation.rules.plans);
        let fits = |Reverse(trip): &Reverse<Departure>| {
            let place = trip.place;
            let junction = tile.first_junction + u32::from(trip.junction);
            usize::from(trip.junction) < tile.nodes().len()
                && self.is_due(trip.at)
                && place < plans.end()
                && plans.is_trip(place)
                && plans.junction_at(&self.simulation.network, place) == Some(junction)
        };
        tile.departures.iter().all(fits).then_some(())
    }
}
