//! Copies of the state in memory.
//!
//! Programs that go back in time copy the state in each frame. Two properties make this cheap:
//!
//! - Data that seldom changes, such as the network and the plans, is shared.
//! - `clone_from` reuses the memory of the old state. Fresh memory would cost several times as much
//!   as copying, because the operating system must first clear it.

use super::tile::Tile;
use super::{Mail, Rules, Simulation};
use std::sync::Arc;

impl Clone for Simulation {
    fn clone(&self) -> Self {
        Self {
            network: Arc::clone(&self.network),
            rules: self.rules.clone(),
            tiles: self.tiles.clone(),
            sources: Arc::clone(&self.sources),
            mail: self.empty_mail(),
            now_ms: self.now_ms,
            window_ms: self.window_ms,
            rerouting: self.rerouting,
            router: self.router.clone(),
            lines: self.lines.clone(),
            numbers: self.numbers.clone(),
        }
    }

    fn clone_from(&mut self, from: &Self) {
        // A field that is added later must be copied here as well. The compiler ensures it.
        let Self {
            network,
            rules:
                Rules {
                    plans,
                    detours,
                    programs,
                    physics,
                    roads,
                },
            tiles,
            sources,
            mail: _,
            now_ms,
            window_ms,
            rerouting,
            router,
            lines,
            numbers,
        } = from;
        if !Arc::ptr_eq(&self.sources, sources) {
            self.mail = from.empty_mail();
        }
        self.network.clone_from(network);
        self.rules.plans.clone_from(plans);
        self.rules.detours.clone_from(detours);
        self.rules.programs.clone_from(programs);
        self.rules.physics = *physics;
        self.rules.roads.clone_from(roads);
        self.tiles.clone_from(tiles);
        self.sources.clone_from(sources);
        (self.now_ms, self.window_ms) = (*now_ms, *window_ms);
        self.rerouting = *rerouting;
        self.router.clone_from(router);
        self.lines.clone_from(lines);
        self.numbers.clone_from(numbers);
    }
}

impl Simulation {
    /// Returns empty mail with the same neighbours. Between two steps there is no mail to copy,
    /// because all messages have been delivered.
    fn empty_mail(&self) -> [Vec<Mail>; 2] {
        let empty = |mail: &Mail| vec![Vec::new(); mail.len()];
        [0, 1].map(|set| self.mail[set].iter().map(empty).collect())
    }
}

impl Clone for Tile {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.first_junction, self.first_link);
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, from: &Self) {
        let Self {
            first_junction,
            first_link,
            nodes,
            exits,
            entries,
            cuts,
            cars,
            arrival_wheel,
            timers,
            timer_wheel,
            holes,
            departures,
            entry_queues,
            crossed,
            right_of_way,
            approaching,
            last_arrivals,
            tally,
            lateness,
            recorded_events,
            // Between two steps there are no due events.
            due_events: _,
        } = from;
        (self.first_junction, self.first_link) = (*first_junction, *first_link);
        self.nodes.clone_from(nodes);
        self.exits.clone_from(exits);
        self.entries.clone_from(entries);
        self.cuts.clone_from(cuts);
        self.cars.clone_from(cars);
        self.arrival_wheel.clone_from(arrival_wheel);
        self.timers.clone_from(timers);
        self.timer_wheel.clone_from(timer_wheel);
        self.holes.clone_from(holes);
        self.departures.clone_from(departures);
        self.entry_queues.clone_from(entry_queues);
        self.crossed.clone_from(crossed);
        self.right_of_way.clone_from(right_of_way);
        self.approaching.clone_from(approaching);
        self.last_arrivals.clone_from(last_arrivals);
        self.tally = *tally;
        self.lateness.clone_from(lateness);
        self.recorded_events.clone_from(recorded_events);
    }
}
