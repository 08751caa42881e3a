//! Writes SUMO's floating car data (FCD): the position of each car at each time step.
//! `fcdReplay.py` displays it.

use super::queue::Queue;
use super::{Labels, Report, seconds};
use crate::network::{Ms, Physics};
use crate::sim::{Event, EventKind};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// SUMO's FCD: one time step every `period_ms`, with all cars on links.
///
/// A car drives at free speed until it reaches the last waiting car, and stops one spacing behind
/// it. It is slower if it is a slow car, or cannot overtake one. Cars use the lanes of a link in
/// turn. `x` and `y` lie on the lanes of the network that
/// [`write::network`](crate::network::write::network) writes for SUMO.
///
/// Source: SUMO's documentation, "FCDOutput".
pub struct Fcd<W: Write> {
    to: W,
    period_ms: Ms,
    next_ms: Ms,
    begun: bool,
    physics: Physics,
    every: u32,
    places: Vec<(f64, f64)>,
    /// The link of each car, and the number of the car in that link's queue.
    cars: BTreeMap<u32, (u32, u64)>,
    roads: HashMap<u32, Queue>,
    /// The time up to which all events are known.
    known_ms: Ms,
}

impl<W: Write> Fcd<W> {
    /// Creates a report that starts at `from_ms`, with a time step every `period_ms`. It contains
    /// every `every`th car. `physics` must be that of the simulation.
    pub fn new(to: W, from_ms: Ms, period_ms: Ms, physics: Physics, every: u32) -> Self {
        Self {
            to,
            period_ms: period_ms.max(1),
            next_ms: from_ms,
            begun: false,
            physics,
            every: every.max(1),
            places: Vec::new(),
            cars: BTreeMap::new(),
            roads: HashMap::new(),
            known_ms: 0,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<fcd-export>\n")?;
        }
        Ok(())
    }

    /// Writes all time steps before `at_ms`.
    fn steps(&mut self, labels: Labels<'_>, at_ms: Ms) -> io::Result<()> {
        self.begin()?;
        while self.next_ms < at_ms {
            let now = self.next_ms;
            writeln!(self.to, "    <timestep time=\"{}\">", seconds(now))?;
            for (&car, &(link, number)) in &self.cars {
                if !car.is_multiple_of(self.every) {
                    continue;
                }
                let spot = self.roads[&link].spot(number, now);
                let road = labels.network.links()[link as usize];
                let share = (spot.pos * 1000.0 / f64::from(road.length_mm)).min(1.0);
                let [from, to] = labels
                    .network
                    .lane_coordinates_m(&self.places, link, spot.lane);
                let (dx, dy) = (to.0 - from.0, to.1 - from.1);
                let (x, y) = (from.0 + dx * share, from.1 + dy * share);
                let angle = libm::atan2(dx, dy).to_degrees().rem_euclid(360.0);
                let (car, name) = (labels.car(car), labels.road(link));
                writeln!(
                    self.to,
                    "        <vehicle id=\"{car}\" x=\"{x:.2}\" y=\"{y:.2}\" angle=\"{angle:.2}\" type=\"car\" speed=\"{:.2}\" pos=\"{:.2}\" lane=\"{name}_{}\" slope=\"0.00\"/>",
                    spot.speed, spot.pos, spot.lane
                )?;
            }
            self.to.write_all(b"    </timestep>\n")?;
            self.next_ms += self.period_ms;
        }
        Ok(())
    }
}

impl<W: Write> Report for Fcd<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()> {
        if self.places.is_empty() {
            self.places = labels.network.coordinates_m();
        }
        if labels.simulation.is_some() {
            for (&link, road) in &mut self.roads {
                road.set_free_flow_ms(labels.free_flow_ms(link), self.known_ms);
            }
        }
        self.known_ms = self.known_ms.max(until_ms);
        for &Event {
            at_ms,
            car,
            kind,
            link,
        } in events
        {
            self.steps(labels, at_ms)?;
            match kind {
                EventKind::Entered => {
                    let free_flow_ms = labels.free_flow_ms(link);
                    let new = || Queue::new(labels.network, link, &self.physics, free_flow_ms);
                    let road = self.roads.entry(link).or_insert_with(new);
                    let number = road.enter(at_ms, labels.travel_ms(car, link));
                    self.cars.insert(car, (link, number));
                }
                EventKind::Left | EventKind::Removed => {
                    if let Some((link, number)) = self.cars.remove(&car) {
                        let road = self.roads.get_mut(&link);
                        road.into_iter().for_each(|road| road.leave(number, at_ms));
                    }
                }
                _ => {}
            }
        }
        self.steps(labels, until_ms)
    }

    fn finish(&mut self, _: Labels<'_>) -> io::Result<()> {
        self.begin()?;
        self.to.write_all(b"</fcd-export>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }

    fn needs_all_vehicles(&self) -> bool {
        true
    }
}
