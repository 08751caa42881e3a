//! Right of way at priority junctions: whether a car of a minor road may cross now.
//!
//! A driver of the minor road crosses if the gap between two cars with priority is at least the
//! *critical gap*, for example 6 s. A driver in a street sees such a gap in advance. We do not,
//! because a tile runs alone for a window and the result must not depend on the window. We see a
//! car that approaches the junction only on the last part of its link.
//!
//! Therefore we divide the critical gap into two parts. No car may have crossed for the time of the
//! *look-back*, and no visible car may arrive within the *look-forward*. For any sequence of gaps,
//! this lets the same number of cars pass as a driver who sees the whole gap in advance.

use super::events::Work;
use super::records::*;
use super::slab::NONE;
use super::tile::Tile;
use crate::demand::is_turns;
use crate::network::{LINK_TIME_MS_MIN, Ms, Network, Physics, Turn, Yield};
use std::collections::{HashMap, VecDeque};

/// The time after which a car tries again if we do not know when the car that it yields to will
/// cross.
const POLL_MS: Ms = 500;
/// The longest time for which a car is visible from a junction before it arrives there. It limits
/// the look-forward.
const LOOK_FORWARD_MS_MAX: Ms = 10_000;

/// Returns the time for which a car on a watched link is not visible from the junction at its end.
/// A car that enters the link in another tile is known here only after the window. Therefore no
/// window is longer than this time of such a link.
pub(super) fn hidden_ms(free_flow_ms: Ms) -> Ms {
    (free_flow_ms / 2)
        .max(free_flow_ms.saturating_sub(LOOK_FORWARD_MS_MAX))
        .max(LINK_TIME_MS_MIN.min(free_flow_ms))
}

/// A movement that yields, or that others yield to.
#[derive(Clone, Debug)]
struct Movement {
    exit: u16,
    entry: u16,
    /// The minimum time between two cars of a queue.
    follow_up_ms: Ms,
    /// The movements that this one yields to, as a range of `foes`.
    foes: (u32, u32),
}

/// A movement that another one yields to.
#[derive(Clone, Copy, Debug)]
struct Foe {
    /// The index of the movement, and its exit and entry. We keep them here as well, because the
    /// first car of a queue reads all of its foes each time that it tries to cross.
    movement: u32,
    exit: u16,
    entry: u16,
    /// The index in `Tile::approaching` of the exit.
    watched: u16,
    critical_ms: Ms,
    /// The time for which a car of the foe is visible before it arrives. The look-forward cannot be
    /// longer than this.
    visible_ms: Ms,
    /// The shortest look-back. If both movements lead to the same link, it is the headway of that
    /// link. Otherwise it is 0.
    behind_ms: Ms,
    /// Whether the foe, directly or indirectly, yields to this movement as well. The car that has
    /// waited longer then goes first.
    mutual: bool,
}

impl Foe {
    /// Returns by how much the critical gap is shorter because the foes drive in bunches.
    ///
    /// The formula of the Highway Capacity Manual assumes that cars arrive at random. However, the
    /// cars of a lane are at least one headway apart. At the same flow, more of them are therefore
    /// in bunches, and long gaps are rarer. With the shorter critical gap, the capacity of the
    /// movement is that of the formula.
    ///
    /// According to Tanner, the capacity behind a flow q with the headway d is (1 - qd) exp(qd)
    /// times that of a random flow. The critical gap is therefore shorter by -d - ln(1 - qd) / q.
    /// We compute the series of the logarithm in integers, because the result must be the same on
    /// every machine.
    ///
    /// `headway_ms` is the current headway of the link that the foe comes from.
    fn bunching_ms(&self, mean_ms: Ms, headway_ms: Ms) -> Ms {
        if mean_ms == 0 {
            return 0;
        }
        // We first need the share of the lane's capacity that is used, in thousandths.
        let headway = u64::from(headway_ms);
        let used = (headway * 1000 / u64::from(mean_ms)).min(850);
        let (mut power, mut sum) = (headway * 1000, 0);
        for term in 2..12 {
            power = power * used / 1000;
            sum += power / term;
        }
        (sum / 1000).min(u64::from(self.critical_ms / 2)) as Ms
    }

    /// Divides a critical gap into the look-back and the look-forward.
    fn divide(&self, critical_ms: Ms) -> (Ms, Ms) {
        let ahead_ms = self
            .visible_ms
            .min(critical_ms.saturating_sub(self.behind_ms));
        (critical_ms - ahead_ms, ahead_ms)
    }
}

/// The right of way in a tile. It follows from the network and the parameters of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct RightOfWay {
    /// The movements, ordered by exit and entry.
    movements: Vec<Movement>,
    /// The first movement of each exit, plus one entry for the end. Empty if there are no movements.
    first_movement: Vec<u32>,
    foes: Vec<Foe>,
    /// The index in `Tile::approaching` of each exit, or `NONE16`. Empty if no exit is watched.
    watched: Vec<u16>,
    /// The roundabout of each exit and entry. Empty if there are no roundabouts.
    ring_of_exit: Vec<u32>,
    ring_of_entry: Vec<u32>,
}

impl RightOfWay {
    pub fn movements(&self) -> usize {
        self.movements.len()
    }

    /// Returns the exit and the entry of a movement.
    pub fn ends(&self, movement: usize) -> (u16, u16) {
        let movement = &self.movements[movement];
        (movement.exit, movement.entry)
    }

    /// Returns the number of watched exits.
    pub fn watched_exits(&self) -> usize {
        self.watched.iter().filter(|&&slot| slot != NONE16).count()
    }

    /// Returns the movement from an exit to an entry, if it yields or others yield to it.
    #[inline]
    pub fn find(&self, exit: u16, entry: u16) -> Option<usize> {
        let exit = usize::from(exit);
        let bounds = self.first_movement.get(exit..exit + 2)?;
        let mut movements = bounds[0] as usize..bounds[1] as usize;
        movements.find(|&movement| self.movements[movement].entry == entry)
    }

    fn foes(&self, movement: usize) -> &[Foe] {
        let (begin, end) = self.movements[movement].foes;
        &self.foes[begin as usize..end as usize]
    }

    /// Returns whether a movement yields to another one, and not also the other way round.
    fn yields(&self, (exit, entry): (u16, u16), other: u16) -> bool {
        let movements = self.find(exit, entry).zip(self.find(other, entry));
        movements.is_some_and(|(one, other)| {
            let is_other = |foe: &Foe| foe.movement as usize == other && !foe.mutual;
            self.foes(one).iter().any(is_other)
        })
    }

    /// Returns whether a movement enters a roundabout from outside. The exit is `ENTRY_QUEUE` for a
    /// car in an entry queue.
    pub fn enters_ring(&self, exit: u16, entry: u16) -> bool {
        let ring = |rings: &[u32], of: u16| rings.get(usize::from(of)).copied().unwrap_or(NONE);
        let inside = ring(&self.ring_of_entry, entry);
        inside != NONE && ring(&self.ring_of_exit, exit) != inside
    }
}

/// Collects the right of way of a tile.
#[derive(Default)]
pub(super) struct Builder {
    /// The exit and the entry of each movement, and the movements that it yields to. They are
    /// `None` if the movement is listed only because others yield to it.
    movements: Vec<(u16, u16, Option<Yield>)>,
}

impl Builder {
    /// Adds the movements of a junction. `exit` and `entry` return the numbers of links in the
    /// tile.
    pub fn junction(
        &mut self,
        yields: &[Yield],
        exit: impl Fn(u32) -> u16,
        entry: impl Fn(u32) -> u16,
    ) {
        for one in yields {
            let key = (exit(one.from), entry(one.to));
            self.movements.push((key.0, key.1, Some(one.clone())));
            for foe in &one.foes {
                self.movements.push((exit(foe.0), entry(foe.1), None));
            }
        }
    }

    /// Builds the right of way. `exits` and `entries` contain the link of each exit and entry of
    /// the tile.
    pub fn finish(
        mut self,
        network: &Network,
        physics: &Physics,
        exits: &[u32],
        entries: &[u32],
    ) -> RightOfWay {
        let mut rights = RightOfWay::default();
        let ring = |&link: &u32| network.ring(link).unwrap_or(NONE);
        if entries.iter().any(|link| network.ring(*link).is_some()) {
            rights.ring_of_exit = exits.iter().map(ring).collect();
            rights.ring_of_entry = entries.iter().map(ring).collect();
        }
        if self.movements.is_empty() {
            return rights;
        }
        self.movements
            .sort_by_key(|&(exit, entry, ref given)| (exit, entry, given.is_none()));
        self.movements
            .dedup_by_key(|&mut (exit, entry, _)| (exit, entry));
        let link = |exit: u16| exits[usize::from(exit)];
        let number: HashMap<(u32, u32), u32> = self
            .movements
            .iter()
            .zip(0..)
            .map(|(&(exit, entry, _), index)| ((link(exit), entries[usize::from(entry)]), index))
            .collect();
        let yields_to: Vec<Vec<u32>> = self
            .movements
            .iter()
            .map(|(.., given)| {
                let foes = given.iter().flat_map(|given| &given.foes);
                foes.map(|foe| number[foe]).collect()
            })
            .collect();
        let mut watched = vec![NONE16; exits.len()];
        let foes = yields_to.iter().flatten();
        foes.for_each(|&foe| watched[usize::from(self.movements[foe as usize].0)] = 0);
        let is_watched = watched.iter_mut().filter(|slot| **slot == 0);
        is_watched.zip(0..).for_each(|(slot, index)| *slot = index);
        for (index, (exit, entry, given)) in self.movements.iter().enumerate() {
            let begin = rights.foes.len() as u32;
            let turn = given.as_ref().map_or(Turn::FromMajor, |given| given.turn);
            let critical_ms = physics.gaps.critical(turn);
            for &foe in &yields_to[index] {
                let (foe_exit, foe_entry, _) = self.movements[foe as usize];
                let free_flow_ms = network.free_flow_ms(link(foe_exit));
                let visible_ms = free_flow_ms - hidden_ms(free_flow_ms);
                // Both movements lead to the same link. After a car of one has entered it, a car of
                // the other must wait for the headway of the link in any case.
                let merges = foe_entry == *entry;
                let target = entries[usize::from(*entry)];
                let behind_ms = match merges {
                    true => network.flow(target, physics).headway_ms,
                    false => 0,
                };
                rights.foes.push(Foe {
                    movement: foe,
                    exit: foe_exit,
                    entry: foe_entry,
                    watched: watched[usize::from(foe_exit)],
                    critical_ms,
                    visible_ms,
                    behind_ms,
                    mutual: reaches(&yields_to, foe, index as u32),
                });
            }
            let lanes = u32::from(network.links()[link(*exit) as usize].lanes);
            rights.movements.push(Movement {
                exit: *exit,
                entry: *entry,
                follow_up_ms: given
                    .as_ref()
                    .map_or(0, |given| physics.gaps.follow_up(given.turn) / lanes),
                foes: (begin, rights.foes.len() as u32),
            });
        }
        rights.watched = watched;
        let first = |exit| {
            rights
                .movements
                .partition_point(|movement| movement.exit < exit)
        };
        let all = 0..=exits.len() as u16;
        rights.first_movement = all.map(|exit| first(exit) as u32).collect();
        rights
    }
}

/// Returns whether a chain of yielding movements leads from one movement to another.
fn reaches(yields_to: &[Vec<u32>], from: u32, to: u32) -> bool {
    let (mut open, mut seen) = (vec![from], vec![from]);
    while let Some(movement) = open.pop() {
        if movement == to {
            return true;
        }
        for &next in &yields_to[movement as usize] {
            if !seen.contains(&next) {
                seen.push(next);
                open.push(next);
            }
        }
    }
    false
}

impl Tile {
    /// Adds a car to the list of cars that approach the end of a watched link.
    pub fn watch(&mut self, exit: u16, car: u32) {
        let slot = self.right_of_way.watched[usize::from(exit)];
        self.approaching[usize::from(slot)].push_back(car);
    }

    /// Removes a car from the list of cars that approach the end of a watched link, because it has
    /// arrived or is removed from the simulation. A car that arrives is the first one of the list,
    /// unless the speed of the link has changed. A removed car can be anywhere in the list.
    pub fn unwatch(&mut self, exit: u16, car: u32) {
        let slot = self.right_of_way.watched[usize::from(exit)];
        let approaching = &mut self.approaching[usize::from(slot)];
        if approaching.front() == Some(&car) {
            approaching.pop_front();
        } else {
            approaching.retain(|&other| other != car);
        }
    }

    /// Fills the lists of approaching cars from the timing wheel.
    pub fn find_approaching(&mut self) {
        let mut cars = Vec::new();
        self.arrival_wheel.each(&self.cars, |place| {
            let car = self.cars[place];
            let watched = self.right_of_way.watched.get(usize::from(car.exit));
            if watched.is_some_and(|&slot| slot != NONE16) {
                cars.push((car.exit, car.at, place));
            }
        });
        cars.sort_unstable();
        self.approaching = vec![VecDeque::new(); self.right_of_way.watched_exits()];
        cars.into_iter()
            .for_each(|(exit, _, place)| self.watch(exit, place));
    }

    /// Returns the number of free places that a car needs on its next link. It is two for a car
    /// that enters a roundabout, and otherwise one. `exit` is the exit at which the car waits, or
    /// [`ENTRY_QUEUE`].
    #[inline]
    pub fn needed_places(&self, exit: u16, entry: u16) -> u16 {
        let is_ring = self.entries[usize::from(entry)].down & RING != 0;
        1 + u16::from(is_ring && self.right_of_way.enters_ring(exit, entry))
    }

    /// Returns the waiter for a link whose turn it is, and the waiter before it in the ring.
    ///
    /// Movements that yield come last. Otherwise the waiters share the link in proportion to their
    /// capacities. Each waiter has a tag, which grows by its headway each time that it waits for
    /// the same link again. The lowest tag has its turn. If all headways are equal, the waiters
    /// take turns in the order in which they began to wait.
    pub fn choose_waiter(&self, entry: u16) -> (u16, u16) {
        let last = self.entries[usize::from(entry)].last_waiter;
        let first = self.next_waiter(entry, last);
        if first == last {
            return (last, first);
        }
        let stride = self.stride(entry, first);
        let mut differ = false;
        // Among the waiters that no other waiter outranks, `oldest` is the first one, and `lowest`
        // is the one with the lowest tag.
        let (mut oldest, mut lowest) = (None, None::<(u32, (u16, u16))>);
        let mut before = last;
        loop {
            let waiter = self.next_waiter(entry, before);
            differ |= self.stride(entry, waiter) != stride;
            if !self.is_outranked(entry, waiter) {
                let tag = self.tag(entry, waiter).unwrap_or(0);
                oldest = oldest.or(Some((before, waiter)));
                if lowest.is_none_or(|lowest| is_before(tag, lowest.0)) {
                    lowest = Some((tag, (before, waiter)));
                }
            }
            before = waiter;
            if waiter == last {
                break;
            }
        }
        let lowest = lowest.map(|lowest| lowest.1).filter(|_| differ);
        lowest.or(oldest).unwrap_or((last, first))
    }

    /// Returns whether another waiter for the same link goes first.
    fn is_outranked(&self, entry: u16, waiter: u16) -> bool {
        let needs_two = self.needed_places(waiter, entry) > 1;
        if !needs_two && self.right_of_way.movements.is_empty() {
            return false;
        }
        let last = self.entries[usize::from(entry)].last_waiter;
        let mut other = last;
        loop {
            other = self.next_waiter(entry, other);
            let on_ring = needs_two && self.needed_places(other, entry) == 1;
            let yields = waiter != ENTRY_QUEUE
                && other != ENTRY_QUEUE
                && self.right_of_way.yields((waiter, entry), other);
            if other != waiter && (on_ring || yields) {
                return true;
            }
            if other == last {
                return false;
            }
        }
    }

    /// Returns by how much the tag of a waiter grows. The entry queue counts like a road with the
    /// capacity of the link.
    fn stride(&self, entry: u16, waiter: u16) -> u32 {
        let headway_ms = match waiter {
            ENTRY_QUEUE => self.entries[usize::from(entry)].headway_ms,
            exit => self.exits[usize::from(exit)].headway_ms,
        };
        headway_ms.min(STRIDE_MAX)
    }

    /// Returns the tag of a waiter. An exit has one only if this is the last link for which it has
    /// waited.
    fn tag(&self, entry: u16, waiter: u16) -> Option<u32> {
        match waiter {
            ENTRY_QUEUE => self.entry_queues[self.entry_queue(entry).ok()?].tag,
            exit => {
                let exit = &self.exits[usize::from(exit)];
                (exit.tag_of == entry).then_some(exit.tag)
            }
        }
    }

    /// Sets the tag of a waiter that joins the others. A waiter that was away does not catch up by
    /// more than one turn.
    pub fn set_tag(&mut self, entry: u16, waiter: u16) {
        let stride = self.stride(entry, waiter);
        let last = self.entries[usize::from(entry)].last_waiter;
        // The tag of a waiter minus its stride is the tag that it had before its present turn. The
        // largest of these values shows how far the service has advanced.
        let mut served = None;
        let mut other = last;
        while other != NONE16 {
            other = self.next_waiter(entry, other);
            let tag = self.tag(entry, other).unwrap_or(0);
            let begin = tag.wrapping_sub(self.stride(entry, other));
            if served.is_none_or(|served| is_before(served, begin)) {
                served = Some(begin);
            }
            if other == last {
                break;
            }
        }
        let before = match (self.tag(entry, waiter), served) {
            (Some(tag), Some(served)) if is_before(tag, served.wrapping_sub(stride)) => {
                served.wrapping_sub(stride)
            }
            (Some(tag), _) => tag,
            (None, served) => served.unwrap_or(0),
        };
        let tag = before.wrapping_add(stride);
        match waiter {
            ENTRY_QUEUE => {
                if let Ok(index) = self.entry_queue(entry) {
                    self.entry_queues[index].tag = Some(tag);
                }
            }
            exit => {
                let record = &mut self.exits[usize::from(exit)];
                (record.tag, record.tag_of) = (tag, entry);
            }
        }
    }
}

/// The maximum by which a tag grows at once. Tags wrap around, and this limit keeps them so close
/// to each other that we can still compare them.
const STRIDE_MAX: u32 = 1 << 28;

/// Returns whether one tag is less than another one. Tags wrap around, so we compare them by the
/// sign of their difference.
fn is_before(tag: u32, other: u32) -> bool {
    (tag.wrapping_sub(other) as i32) < 0
}

impl Work<'_> {
    /// Returns the link that the car with these turns enters next, or `None` if its trip ends.
    fn next_entry(&self, place: u32, turns: u32, node: &Node) -> Option<u16> {
        let turns = match turns {
            1 => {
                let (_, word) = self.rules.follow(place + 1);
                is_turns(word).then_some(word)?
            }
            turns => turns,
        };
        Some(node.first_entry + (turns & ((1 << node.turn_bits) - 1)) as u16)
    }

    /// Returns the time at which the first car of `exit` may try to cross, as far as is known now.
    /// If this is `now`, the car may cross at once.
    pub fn right_of_way(&self, node: &Node, exit: u16, movement: usize, now: Ms) -> Ms {
        let tile = &*self.tile;
        let rights = &*tile.right_of_way;
        let since = tile.exits[usize::from(exit)].since;
        let mut at = now;
        for foe in rights.foes(movement) {
            let (from, to) = (foe.exit, foe.entry);
            let crossed = tile.crossed[foe.movement as usize];
            let other = &tile.exits[usize::from(from)];
            let approaching = &tile.approaching[usize::from(foe.watched)];
            let is_empty = other.last == NONE;
            // Most foes have no car near the junction. We can then skip the gap, because it is at
            // most the critical gap.
            let crossed_long_ago = crossed.last == 0 || crossed.last + foe.critical_ms <= at;
            if is_empty && crossed_long_ago && approaching.is_empty() {
                continue;
            }
            let is_blocked = other.flags & LinkExit::BLOCKED != 0;
            let wants = |car: u32| {
                let car = tile.cars[car];
                self.next_entry(car.place, car.turns, node) == Some(to)
            };
            let critical_ms = foe.critical_ms - foe.bunching_ms(crossed.mean_ms, other.headway_ms);
            let (look_back_ms, look_forward_ms) = foe.divide(critical_ms);
            if crossed.last > 0 {
                at = at.max(crossed.last + look_back_ms);
            }
            // The time at which the end of the foe's queue crosses.
            let mut queue_until = now;
            if !is_empty {
                // We ignore a foe that is blocked, and the cars behind it. If it waits for the same
                // link as we do, the queue for storage lets it go first. Otherwise it does not move
                // now.
                if is_blocked {
                    continue;
                }
                if other.free_at <= now {
                    // The first car waits for a gap as well, and nobody passes it.
                    let is_later = foe.mutual && (since, exit) < (other.since, from);
                    if wants(tile.cars[other.last].next) && !is_later {
                        at = at.max(now + POLL_MS);
                    }
                    continue;
                }
                // The queue is moving. Its cars follow each other by one headway.
                queue_until = other.free_at;
                let mut found = false;
                for car in tile.cars.ring(other.last) {
                    if queue_until >= now + critical_ms {
                        break;
                    }
                    if wants(car) {
                        at = at.max(queue_until + look_back_ms.max(1));
                        found = true;
                        break;
                    }
                    queue_until += other.headway_ms;
                }
                if found || queue_until >= now + critical_ms {
                    continue;
                }
            }
            // We look for the first car that arrives. If there are slow cars, other cars may
            // overtake them, so the cars are not in the order of their arrivals.
            let mut arrives = None;
            for &place in approaching {
                let car = tile.cars[place];
                let is_seen = car.at < now + look_forward_ms;
                if is_seen && arrives.is_none_or(|other| car.at < other) && wants(place) {
                    arrives = Some(car.at);
                }
                if self.rules.roads.is_none() && (arrives.is_some() || !is_seen) {
                    break;
                }
            }
            if let Some(arrives) = arrives {
                at = at.max(arrives.max(queue_until) + look_back_ms.max(1));
            }
        }
        at
    }

    /// Records that a car has crossed from `exit` to `entry`, and delays the next car of its road
    /// by the follow-up time.
    pub fn note_crossing(&mut self, exit: u16, movement: usize, now: Ms) {
        self.tile.crossed[movement].add(now);
        let follow_up_ms = self.tile.right_of_way.movements[movement].follow_up_ms;
        let record = &mut self.tile.exits[usize::from(exit)];
        record.free_at = record.free_at.max(now + follow_up_ms);
    }
}
