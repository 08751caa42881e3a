//! Changes to the roads and traffic lights of a running simulation, between two steps.

use super::Simulation;
use super::control::fail;
use super::events::WAKE;
use super::records::*;
use super::slab::NONE;
use crate::network::{Control, HEADWAY_MS_MAX, Ms, NetworkError, Program};
use crate::route::{Router, free_flow_times};
use creel::Pool;
use std::sync::Arc;

impl Simulation {
    /// Returns a router for free flow. It uses closed roads only if every open route takes more
    /// than a day, or if no open route exists.
    pub(super) fn router_now(&self, pool: &Pool) -> Router {
        let network = &self.network;
        let free = || Router::from_times(pool, network, free_flow_times(network));
        let times = (0..network.links().len() as u32).map(|link| match self.is_closed(link) {
            true => super::reroute::CLOSED_ROAD_MS,
            false => self.current_free_flow_ms(link),
        });
        let router = self.router.get_or_init(|| Arc::new(free()));
        router.with_times(network, times.collect())
    }

    /// Returns whether a link is closed.
    pub fn is_closed(&self, link: u32) -> bool {
        self.entry_of(link).is_ok_and(|(tile, entry)| {
            self.tiles[tile].entries[usize::from(entry)].next_in == LinkEntry::CLOSED
        })
    }

    /// Closes a link or opens it again. No car enters a closed link, but the cars on it drive on.
    ///
    /// Cars whose route contains the link wait in front of it. To send them around it, call
    /// [`reroute_around`](Self::reroute_around).
    ///
    /// # Errors
    /// Returns an error if the link does not exist.
    pub fn set_closed(&mut self, link: u32, is_closed: bool) -> Result<(), NetworkError> {
        let (tile, index) = self.entry_of(link)?;
        let now = self.now_ms;
        let tile = &mut self.tiles[tile];
        let entry = &mut tile.entries[usize::from(index)];
        if (entry.next_in == LinkEntry::CLOSED) == is_closed {
            return Ok(());
        }
        entry.next_in = if is_closed { LinkEntry::CLOSED } else { now };
        if entry.wakes() {
            entry.set_wakes(false);
            tile.cancel_timer(WAKE, index);
        }
        if tile.entries[usize::from(index)].last_waiter != NONE16 {
            tile.wake_when_due(index, now, None);
        }
        Ok(())
    }

    /// Sends all cars whose remaining route contains `link` along the quickest route in free flow.
    /// A new route contains a closed road only if every other route takes more than a day, or if no
    /// other route exists. Cars that cannot avoid `link` keep their route. Returns the number of
    /// cars whose route has changed.
    ///
    /// This includes cars that wait to enter their first link, but not cars that depart later. To
    /// send those around a closed road as well, call it again while the road is closed.
    pub fn reroute_around(&mut self, pool: &Pool, link: u32) -> usize {
        let mut affected = Vec::new();
        for tile in &self.tiles {
            let mut look = |place: u32, on: u32| {
                let (path, _, ends) = self.rest_of_trip(tile.cars[place], on);
                if path.contains(&link) {
                    affected.push((ends, self.rules.traveller(tile.cars[place].place)));
                }
            };
            tile.for_each_place(|place| look(place, tile.link_of_exit(tile.cars[place].exit)));
            for queue in &tile.entry_queues {
                let on = tile.first_link + u32::from(queue.entry);
                tile.cars.ring(queue.last).for_each(|place| look(place, on));
            }
        }
        if affected.is_empty() {
            return 0;
        }
        // Cars with the same destination share the search.
        affected.sort_unstable_by_key(|&([from, to], car)| (to, from, car));
        let router = self.router_now(pool);
        let mut query = router.query();
        let mut changed = 0;
        for ([from, to], car) in affected {
            let path = router.shortest_path(&self.network, &mut query, from, to);
            let path = path.filter(|path| !path.contains(&link));
            changed += usize::from(path.is_some_and(|path| self.set_route(car, &path).is_ok()));
        }
        changed
    }

    /// Sets the free speed of a link from now on, also for the cars that are on it. It cannot exceed
    /// the speed of the network. `None` restores that speed.
    ///
    /// # Errors
    /// Returns an error if the link does not exist, or if the speed is out of range.
    pub fn set_speed(&mut self, link: u32, speed_mm_s: Option<u32>) -> Result<(), NetworkError> {
        let (tile, index) = self.entry_of(link)?;
        let road = self.network.links()[link as usize];
        let flow = self.network.flow(link, &self.rules.physics);
        let speed = speed_mm_s.unwrap_or(road.speed_mm_s);
        if !(1..=road.speed_mm_s).contains(&speed) {
            let name = self.network.link_name(link);
            let most = f64::from(road.speed_mm_s) / 1000.0;
            return fail(format!(
                "cannot set the speed of road {name}: it must be more than 0 and at most {most} m/s"
            ));
        }
        let longer = u64::from(road.length_mm) * 1000 / u64::from(speed)
            - u64::from(road.length_mm) * 1000 / u64::from(road.speed_mm_s);
        let free_flow_ms = (u64::from(flow.free_flow_ms) + longer).min(1 << 30) as Ms;
        let speed = speed as f32 / 1000.0;
        let entry = &mut self.tiles[tile].entries[usize::from(index)];
        let before_ms = entry.free_flow_ms();
        entry.set_free_flow_ms(free_flow_ms);
        if free_flow_ms != before_ms {
            let now = self.now_ms;
            let (end, exit) = self.exit_of(link);
            let change = (before_ms, free_flow_ms);
            let last = self.tiles[end].scale_rest((exit, link), change, now, &self.rules);
            let arrivals = &mut self.tiles[tile].last_arrivals;
            if let (Some(arrival), Some(last)) = (arrivals.get_mut(usize::from(index)), last) {
                *arrival = last;
            }
            if let Some(lines) = self.lines.get_mut() {
                Arc::make_mut(lines).set_speed((end, exit), free_flow_ms, speed);
            }
        }
        Ok(())
    }

    /// Returns the tile of the junction at which a link ends, and the index of the link's exit in
    /// this tile.
    fn exit_of(&self, link: u32) -> (usize, u16) {
        let number = self.tile_of(self.network.links()[link as usize].to);
        let tile = &self.tiles[number];
        let mut exits = 0..tile.exits.len() as u16;
        let exit = exits.find(|&exit| tile.link_of_exit(exit) == link);
        (
            number,
            exit.expect("a link ends in the tile of its junction"),
        )
    }

    /// Sets the headway at both ends of a link from now on, for example because of road works or a
    /// narrow lane. `None` restores the headway of the network. The headway is a part of the state,
    /// so it is saved and hashed.
    ///
    /// # Errors
    /// Returns an error if the link does not exist.
    pub fn set_headway(&mut self, link: u32, headway_ms: Option<Ms>) -> Result<(), NetworkError> {
        let (begin, entry) = self.entry_of(link)?;
        let own = self.network.flow(link, &self.rules.physics).headway_ms;
        let headway_ms = headway_ms.unwrap_or(own).clamp(1, HEADWAY_MS_MAX);
        self.tiles[begin].set_entry_headway(entry, headway_ms, self.now_ms);
        let (end, exit) = self.exit_of(link);
        self.tiles[end].exits[usize::from(exit)].headway_ms = headway_ms;
        Ok(())
    }

    /// Gives the traffic light of a junction another program from now on. `None` restores the
    /// program of the network. An approach whose green phase is empty never has green.
    ///
    /// # Errors
    /// Returns an error if the junction has no traffic light, or if the program does not fit its
    /// approaches.
    pub fn set_program(
        &mut self,
        junction: u32,
        program: Option<(Program, Ms)>,
    ) -> Result<(), NetworkError> {
        let all = self.network.junctions();
        let control = all.get(junction as usize).map(|junction| junction.control);
        let Some(Control::Signal {
            program: own,
            offset_ms,
        }) = control
        else {
            return fail(format!("junction number {junction} has no traffic light"));
        };
        let number = self.tile_of(junction);
        let (program, offset_ms) = match program {
            None => (own, offset_ms),
            Some((program, offset_ms)) => {
                let tile = &self.tiles[number];
                let local = (junction - tile.first_junction) as usize;
                let (begin, end) = (
                    tile.nodes[local].first_exit,
                    tile.nodes[local + 1].first_exit,
                );
                let exits = &tile.exits[usize::from(begin)..usize::from(end)];
                let approaches = exits
                    .iter()
                    .map(|exit| usize::from(exit.approach) + 1)
                    .max();
                let fits = |&(from, to): &(Ms, Ms)| from <= to && to <= program.cycle_ms;
                if !(1..=1_000_000_000).contains(&program.cycle_ms)
                    || program.greens.len() < approaches.unwrap_or(0)
                    || !program.greens.iter().all(fits)
                    || !program.further_greens.iter().all(|green| fits(&green.1))
                {
                    let name = self.network.junction_name(junction);
                    return fail(format!(
                        "junction {name}: the program needs a green phase within its cycle for each of {} approaches",
                        approaches.unwrap_or(0)
                    ));
                }
                let programs = &mut self.rules.programs;
                let known = programs.iter().position(|other| *other == program);
                let offset_ms = offset_ms % program.cycle_ms;
                let index = known.unwrap_or(programs.len());
                let Ok(index) = u16::try_from(index) else {
                    return fail("there are more than 65,536 signal programs".into());
                };
                if known.is_none() {
                    Arc::make_mut(programs).push(program);
                }
                (index, offset_ms)
            }
        };
        let now = self.now_ms;
        let tile = &mut self.tiles[number];
        let local = (junction - tile.first_junction) as usize;
        let node = &mut tile.nodes[local];
        (node.program, node.offset_ms) = (program, offset_ms);
        for exit in tile.nodes[local].first_exit..tile.nodes[local + 1].first_exit {
            let record = tile.exits[usize::from(exit)];
            if record.last != NONE && record.flags & LinkExit::BLOCKED == 0 {
                tile.retry_now(exit, now);
            }
        }
        Ok(())
    }

    /// Returns the program of the traffic light of a junction, and the time by which its cycle
    /// starts later than the simulation.
    pub fn program(&self, junction: u32) -> Option<(&Program, Ms)> {
        let tile = &self.tiles[self.tile_of(junction)];
        let node = tile
            .nodes()
            .get((junction - tile.first_junction) as usize)?;
        let program = &self.rules.programs[usize::from(node.program)];
        (node.rule == Rule::Signal).then_some((program, node.offset_ms))
    }
}
