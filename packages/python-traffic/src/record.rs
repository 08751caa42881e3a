//! Records the events on the roads and of the cars, for arrays.

use crate::rows::{Change, EdgeRow, TripRow};
use creel_traffic::sim::{Event, EventKind, NO_ROAD, Simulation};
use std::collections::HashMap;

/// A trip that has not ended.
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    wanted_ms: u32,
    entered: Option<(u32, u32)>,
    length_mm: u64,
    free_ms: u64,
    reroutes: u32,
}

/// A stay on a road: the time at which it began, and from which it counts in this interval.
#[derive(Clone, Copy, Debug)]
struct Stay {
    road: u32,
    entered_ms: u32,
    since_ms: u32,
}

/// The record of a simulation.
#[derive(Clone, Debug)]
pub struct Record {
    edges: Vec<EdgeRow>,
    stays: HashMap<u32, Stay>,
    begun: HashMap<u32, Trip>,
    /// The trips that have ended since they were last taken.
    pub trips: Vec<TripRow>,
    /// The events of the last step.
    pub changes: Vec<Change>,
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

impl Record {
    /// Creates an empty record for a number of roads.
    pub fn new(roads: usize) -> Self {
        Self {
            edges: vec![EdgeRow::default(); roads],
            stays: HashMap::new(),
            begun: HashMap::new(),
            trips: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Forgets the events of the last step.
    pub fn begin_step(&mut self) {
        self.changes.clear();
    }

    /// Adds the cars that are already on roads when the record begins.
    pub fn resume(&mut self, simulation: &Simulation, on_links: &[Event]) {
        for event in on_links {
            let stay = Stay {
                road: event.link,
                entered_ms: event.at_ms,
                since_ms: simulation.now_ms(),
            };
            self.stays.insert(event.car, stay);
        }
    }

    /// Adds the events of a step, in which no speed has changed.
    pub fn take(&mut self, simulation: &Simulation, events: &[Event]) {
        let links = simulation.network().links();
        for &Event {
            at_ms,
            car,
            kind,
            link,
        } in events
        {
            self.changes.push(Change {
                time_ms: at_ms,
                car,
                road: link,
                kind: match kind {
                    EventKind::Departed => 0,
                    EventKind::Entered => 1,
                    EventKind::Left => 2,
                    EventKind::Arrived => 3,
                    EventKind::SteppedAside => 4,
                    EventKind::Removed => 5,
                    EventKind::Rerouted => 6,
                },
            });
            match kind {
                EventKind::Departed => {
                    let trip = Trip {
                        wanted_ms: at_ms,
                        ..Trip::default()
                    };
                    self.begun.insert(car, trip);
                }
                EventKind::Entered => {
                    self.edges[link as usize].entered += 1;
                    let stay = Stay {
                        road: link,
                        entered_ms: at_ms,
                        since_ms: at_ms,
                    };
                    self.stays.insert(car, stay);
                    if let Some(trip) = self.begun.get_mut(&car) {
                        trip.entered.get_or_insert((at_ms, link));
                        trip.length_mm += u64::from(links[link as usize].length_mm);
                        trip.free_ms += u64::from(simulation.current_free_flow_ms(link));
                    }
                }
                EventKind::Left | EventKind::Removed => {
                    if let Some(stay) = self.stays.remove(&car) {
                        let edge = &mut self.edges[stay.road as usize];
                        edge.seconds += seconds(u64::from(at_ms - stay.since_ms));
                        if kind == EventKind::Left {
                            edge.left += 1;
                            edge.took += seconds(u64::from(at_ms - stay.entered_ms));
                        }
                    }
                    if kind == EventKind::Removed {
                        self.begun.remove(&car);
                    }
                }
                EventKind::Arrived => {
                    let trip = self.begun.remove(&car).filter(|_| link != NO_ROAD);
                    if let Some((trip, (entered_ms, from))) =
                        trip.and_then(|trip| Some((trip, trip.entered?)))
                    {
                        let took_ms = u64::from(at_ms - entered_ms);
                        self.trips.push(TripRow {
                            depart: seconds(entered_ms.into()),
                            arrival: seconds(at_ms.into()),
                            depart_delay: seconds(u64::from(entered_ms - trip.wanted_ms)),
                            duration: seconds(took_ms),
                            length: seconds(trip.length_mm),
                            time_loss: seconds(took_ms.saturating_sub(trip.free_ms)),
                            car,
                            from,
                            to: link,
                            reroutes: trip.reroutes,
                        });
                    }
                }
                EventKind::Rerouted => {
                    let trip = self.begun.get_mut(&car);
                    trip.into_iter().for_each(|trip| trip.reroutes += 1);
                }
                EventKind::SteppedAside => {}
            }
        }
    }

    /// Returns the counts and times of each road since the last call.
    pub fn take_edges(&mut self, now_ms: u32) -> Vec<EdgeRow> {
        for stay in self.stays.values_mut() {
            let edge = &mut self.edges[stay.road as usize];
            edge.seconds += seconds(u64::from(now_ms - stay.since_ms));
            stay.since_ms = now_ms;
        }
        let empty = vec![EdgeRow::default(); self.edges.len()];
        std::mem::replace(&mut self.edges, empty)
    }
}
