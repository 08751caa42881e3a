//! Computes the hash of a state and checks its invariants.

use super::records::*;
use super::slab::NONE;
use super::tile::Tile;
use super::{Simulation, Tally};
use crate::random::Stream;
use creel::Pool;
use std::cmp::Reverse;

fn mixed(parts: &[u64]) -> u64 {
    let mut stream = Stream::new(parts[0]);
    parts[1..].iter().for_each(|&part| stream.mix(part));
    stream.value()
}

impl Tile {
    /// Returns the number of holes (spaces of cars that have left the link) on their way to an
    /// entry.
    pub(super) fn holes_of(&self, entry: &LinkEntry) -> usize {
        let rings = self.holes.ring(entry.holes);
        rings.map(|place| self.holes[place].count() as usize).sum()
    }

    /// Calls `f` for each car that is on a link that ends in this tile, or that has stepped aside
    /// and drives past such a link.
    pub(super) fn for_each_car(&self, mut f: impl FnMut(Car)) {
        self.arrival_wheel
            .each(&self.cars, |place| f(self.cars[place]));
        for (exit, record) in self.exits.iter().enumerate() {
            let exit = exit as u16;
            let ring = self.cars.ring(record.last);
            ring.for_each(|place| {
                f(Car {
                    exit,
                    ..self.cars[place]
                })
            });
        }
    }

    fn hash(&self, simulation: &Simulation) -> u64 {
        let network = &simulation.network;
        let name = |link: u32| u64::from(network.link_file_index(link));
        let mut sum = 0_u64;
        let mut add = |parts: &[u64]| sum = sum.wrapping_add(mixed(parts));
        self.for_each_car(|car| {
            add(&[
                1,
                simulation.rules.route_hash(car.place),
                name(self.link_of_exit(car.exit)) | u64::from(car.is_aside()) << 63,
                u64::from(car.at),
                u64::from(car.turns),
            ]);
        });
        for entry_queue in &self.entry_queues {
            let link = name(self.first_link + u32::from(entry_queue.entry));
            add(&[11, link, entry_queue.tag.map_or(u64::MAX, u64::from)]);
            for (index, place) in self.cars.ring(entry_queue.last).enumerate() {
                let route = simulation.rules.route_hash(self.cars[place].place);
                add(&[2, route, link, index as u64]);
            }
        }
        for Reverse(departure) in &self.departures {
            add(&[3, u64::from(departure.at), u64::from(departure.place)]);
        }
        for (index, exit) in self.exits.iter().enumerate() {
            let since = if exit.last == NONE { 0 } else { exit.since };
            let tag_of = match exit.tag_of {
                NONE16 => u64::MAX,
                entry => name(self.first_link + u32::from(entry)),
            };
            add(&[
                4,
                name(self.link_of_exit(index as u16)),
                u64::from(exit.free_at),
                u64::from(since) << 32 | u64::from(exit.headway_ms),
                u64::from(exit.tag),
                tag_of,
            ]);
        }
        for (movement, &crossed) in self.crossed.iter().enumerate() {
            if crossed != Crossings::default() {
                let (exit, entry) = self.right_of_way.ends(movement);
                let links = (
                    name(self.link_of_exit(exit)),
                    name(self.first_link + u32::from(entry)),
                );
                let mean = u64::from(crossed.mean_ms);
                add(&[10, links.0, links.1, u64::from(crossed.last), mean]);
            }
        }
        for (exit, lateness) in self.lateness.iter().enumerate() {
            add(&[
                9,
                name(self.link_of_exit(exit as u16)),
                lateness.sum_ms,
                u64::from(lateness.cars) << 32 | u64::from(lateness.mean_ms),
            ]);
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let link = name(self.first_link + index as u32);
            let free_flow_ms = u64::from(entry.free_flow_ms());
            let mut free_storage = u64::from(entry.free_storage);
            let holes = self.holes.ring(entry.holes);
            for at in holes.flat_map(|place| self.holes[place].times(entry.headway_ms)) {
                if at <= simulation.now_ms {
                    free_storage += 1;
                } else {
                    add(&[5, link, u64::from(at)]);
                }
            }
            add(&[
                6,
                link,
                free_storage,
                u64::from(entry.next_in),
                free_flow_ms,
            ]);
            let last = self.last_arrivals.get(index).copied().unwrap_or(0);
            if last > simulation.now_ms {
                add(&[13, link, u64::from(last)]);
            }
            let mut waiter = entry.last_waiter;
            let mut place = 0;
            while waiter != NONE16 {
                waiter = self.next_waiter(index as u16, waiter);
                let waits = if waiter == ENTRY_QUEUE {
                    u64::MAX
                } else {
                    name(self.link_of_exit(waiter))
                };
                add(&[7, link, place, waits]);
                place += 1;
                if waiter == entry.last_waiter {
                    break;
                }
            }
        }
        for (index, node) in self.nodes().iter().enumerate() {
            if node.rule == Rule::Signal {
                let junction = network.junction_file_index(self.first_junction + index as u32);
                let program = &simulation.rules.programs[usize::from(node.program)];
                add(&[
                    12,
                    u64::from(junction),
                    u64::from(node.offset_ms),
                    program.hash(),
                ]);
            }
            if node.busy_until > 0 {
                let junction = network.junction_file_index(self.first_junction + index as u32);
                add(&[8, u64::from(junction), u64::from(node.busy_until)]);
            }
        }
        sum
    }
}

impl Simulation {
    /// Returns a hash of the state: cars, links, junctions and totals. The parameters of the car
    /// model and of rerouting are not part of it. The hash is equal for any number of workers,
    /// balance, placement, tile size and window length, on every machine. You can compare it to
    /// check that two copies are in step, as `examples/lockstep.rs` does.
    pub fn hash(&self, loops: &Pool) -> u64 {
        let tiles = loops.map(&self.tiles, |tile| tile.hash(self));
        let Tally {
            begun,
            arrived,
            crossings,
            stepped_aside,
            delay_ms,
            vehicle_ms,
            done,
            rerouted,
            ..
        } = self.tally();
        let tally = [
            begun,
            arrived,
            crossings,
            stepped_aside,
            delay_ms,
            vehicle_ms as u64,
            done,
            rerouted,
            u64::from(self.now_ms),
        ];
        tiles.into_iter().fold(mixed(&tally), u64::wrapping_add)
    }

    /// Checks the invariants: no car is lost, and no link holds more cars than its storage.
    ///
    /// # Errors
    /// Returns a description of the first violated invariant.
    pub fn check(&self) -> Result<(), String> {
        let mut on_road = vec![0_u32; self.network.links().len()];
        let (mut waiting_to_enter, mut idle) = (0_i64, 0);
        for tile in &self.tiles {
            tile.for_each_car(|car| match car.is_aside() {
                true => waiting_to_enter += 1,
                false => on_road[tile.link_of_exit(car.exit) as usize] += 1,
            });
            waiting_to_enter += tile
                .entry_queues
                .iter()
                .map(|entry_queue| tile.cars.ring(entry_queue.last).count() as i64)
                .sum::<i64>();
            idle += tile.departures.len() as i64;
        }
        for tile in &self.tiles {
            for (index, entry) in tile.entries.iter().enumerate() {
                let link = tile.first_link + index as u32;
                let storage = usize::from(self.network.flow(link, &self.rules.physics).storage);
                let cars = on_road[link as usize] as usize;
                if cars + usize::from(entry.free_storage) + tile.holes_of(entry) != storage {
                    let name = self.network.link_name(link);
                    let (free_storage, holes) = (entry.free_storage, tile.holes_of(entry));
                    return Err(format!(
                        "road {name}: {cars} cars, {free_storage} free places and {holes} holes do not add up to its storage of {storage}"
                    ));
                }
            }
        }
        let tally = self.tally();
        let moving = on_road.iter().map(|&cars| i64::from(cars)).sum::<i64>();
        let counted = (moving, waiting_to_enter, idle);
        if counted != (tally.moving, tally.waiting_to_enter, tally.idle) {
            return Err(format!(
                "counted {counted:?} cars that are moving, waiting to enter and idle, but the \
                 tally says {tally:?}"
            ));
        }
        let all = moving + waiting_to_enter + idle + tally.done as i64;
        if all != self.rules.plans.len() as i64 {
            return Err(format!(
                "found {all} cars, but there are plans for {}",
                self.rules.plans.len()
            ));
        }
        Ok(())
    }
}
