//! Detectors: induction loops (E1) and lane area detectors (E2), in SUMO's formats.
//!
//! A detector watches the positions of floating car data (`queue.rs`), so a standing car occupies
//! its place in the queue. The front of a car takes part of the spacing, and the gap in front of
//! the next car takes the rest.

mod area;
mod read;

pub use read::{Detector, Kind, detectors};

use super::queue::Queue;
use super::{Labels, Report, seconds};
use crate::network::write::escaped;
use crate::network::{Ms, Physics};
use crate::sim::{Event, EventKind};
use area::Area;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// The share of the spacing that a car takes. The rest is the gap. With the default spacing, a car
/// is 5 m long, as in SUMO.
const CAR_SHARE: f64 = 2.0 / 3.0;

/// The passage of a car over a detector. While the car is on the link, we compute its times from
/// the queue when we need them. When it leaves the link, we store them.
#[derive(Clone, Copy, Debug)]
enum Passage {
    /// A car on the link, with its number in the queue.
    Coming(u64),
    /// The time at which the front of the car reached the detector, and the time at which its rear
    /// left it, both in seconds. The second time is `None` while it is not known.
    Known(f64, Option<f64>),
}

/// A detector, and the cars that it has seen in its current interval.
struct Watch {
    detector: Detector,
    begin_ms: Ms,
    passages: Vec<Passage>,
    area: Option<Area>,
}

/// The detectors of one kind. SUMO's files contain either induction loops or lane area detectors.
pub struct Detectors<W: Write> {
    to: W,
    physics: Physics,
    car_m: f64,
    watches: Vec<Watch>,
    /// The detectors of each link.
    by_link: HashMap<u32, Vec<usize>>,
    roads: BTreeMap<u32, Queue>,
    /// For each car on a link with detectors: the link, and the number of the car in its queue.
    cars: HashMap<u32, (u32, u64)>,
    /// The next time at which the areas are sampled.
    sample_ms: Ms,
    samples: bool,
    known_ms: Ms,
    begun: bool,
}

impl<W: Write> Detectors<W> {
    /// Creates a report that starts at `from_ms`. `physics` must be that of the simulation.
    pub fn new(to: W, detectors: Vec<Detector>, from_ms: Ms, physics: Physics) -> Self {
        let mut by_link: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, detector) in detectors.iter().enumerate() {
            by_link.entry(detector.link).or_default().push(index);
        }
        let watch = |detector: Detector| Watch {
            area: Area::of(&detector),
            detector,
            begin_ms: from_ms,
            passages: Vec::new(),
        };
        let watches: Vec<Watch> = detectors.into_iter().map(watch).collect();
        Self {
            to,
            physics,
            car_m: f64::from(physics.spacing_mm) / 1000.0 * CAR_SHARE,
            samples: watches.iter().any(|watch| watch.area.is_some()),
            watches,
            by_link,
            roads: BTreeMap::new(),
            cars: HashMap::new(),
            sample_ms: from_ms.div_ceil(1000) * 1000,
            known_ms: 0,
            begun: false,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<detector>\n")?;
        }
        Ok(())
    }

    /// Takes the samples and closes the intervals that end at or before `at_ms`, when all events
    /// before `at_ms` are known.
    fn advance(&mut self, at_ms: Ms) -> io::Result<()> {
        while self.samples && self.sample_ms < at_ms {
            let at = self.sample_ms;
            self.close_until(at)?;
            self.sample(at);
            self.sample_ms += 1000;
        }
        self.close_until(at_ms)
    }

    fn sample(&mut self, at_ms: Ms) {
        for watch in &mut self.watches {
            let Some(area) = &mut watch.area else {
                continue;
            };
            let road = self.roads.get(&watch.detector.link);
            let coming = watch.passages.iter().filter_map(|passage| match passage {
                Passage::Coming(car) => Some(*car),
                Passage::Known(..) => None,
            });
            area.sample(&watch.detector, coming, road, at_ms, self.car_m);
        }
    }

    fn close_until(&mut self, at_ms: Ms) -> io::Result<()> {
        for index in 0..self.watches.len() {
            let Some(period_ms) = self.watches[index].detector.period_ms else {
                continue;
            };
            while at_ms.saturating_sub(self.watches[index].begin_ms) >= period_ms {
                let end = self.watches[index].begin_ms + period_ms;
                self.close(index, end)?;
            }
        }
        Ok(())
    }

    /// Writes the interval of a detector that ends at `end_ms`, and begins the next one.
    fn close(&mut self, index: usize, end_ms: Ms) -> io::Result<()> {
        self.begin()?;
        let watch = &mut self.watches[index];
        let detector = &watch.detector;
        let road = self.roads.get(&detector.link);
        let (begin, end) = (
            f64::from(watch.begin_ms) / 1000.0,
            f64::from(end_ms) / 1000.0,
        );
        let mut seen = Seen::default();
        let rear_m = detector.to_m + self.car_m;
        watch.passages.retain(|passage| {
            let (reached, left) = match *passage {
                Passage::Known(reached, left) => (Some(reached), left),
                Passage::Coming(car) => {
                    let passes = |pos| road.and_then(|road| road.passes(car, pos));
                    (passes(detector.from_m), passes(rear_m))
                }
            };
            let Some(reached) = reached.filter(|&reached| reached < end) else {
                return true;
            };
            let has_left = left.filter(|&left| left < end);
            seen.entered += u32::from(reached >= begin);
            if let Some(left) = has_left.filter(|&left| left >= begin) {
                seen.left += 1;
                let speed = (rear_m - detector.from_m) / (left - reached).max(0.001);
                seen.speeds += speed;
                seen.slowness += 1.0 / speed;
            }
            if has_left.is_none_or(|left| left >= begin) {
                seen.all += 1;
                seen.occupied += has_left.unwrap_or(end) - reached.max(begin);
            }
            has_left.is_none()
        });
        let name = escaped(&detector.name);
        let [from, until] = [watch.begin_ms, end_ms].map(seconds);
        write!(
            self.to,
            "    <interval begin=\"{from}\" end=\"{until}\" id=\"{name}\""
        )?;
        match &mut watch.area {
            Some(area) => area.write(&mut self.to, &seen, end - begin)?,
            None => seen.write(&mut self.to, end - begin, self.car_m)?,
        }
        watch.begin_ms = end_ms;
        Ok(())
    }

    fn enter(&mut self, labels: Labels<'_>, (car, link): (u32, u32), at_ms: Ms) {
        let Some(watches) = self.by_link.get(&link) else {
            return;
        };
        let free_flow_ms = labels.free_flow_ms(link);
        let new = || Queue::new(labels.network, link, &self.physics, free_flow_ms);
        let road = self.roads.entry(link).or_insert_with(new);
        let number = road.enter(at_ms, labels.travel_ms(car, link));
        self.cars.insert(car, (link, number));
        for &index in watches {
            let watch = &mut self.watches[index];
            if watch.detector.lane == road.lane(number) {
                watch.passages.push(Passage::Coming(number));
            }
        }
    }

    fn leave(&mut self, car: u32, at_ms: Ms, is_removed: bool) {
        let Some((link, number)) = self.cars.remove(&car) else {
            return;
        };
        let Some(road) = self.roads.get_mut(&link) else {
            return;
        };
        let seconds = f64::from(at_ms) / 1000.0;
        let times = |road: &Queue, watch: &Watch| {
            let rear_m = watch.detector.to_m + self.car_m;
            let passes = |pos| road.passes(number, pos);
            (passes(watch.detector.from_m), passes(rear_m))
        };
        let watches = self.by_link.get(&link).into_iter().flatten();
        let watches: Vec<usize> = watches.copied().collect();
        // A car that `Simulation::remove` takes off the road never reaches the end of the road. We
        // therefore read its times so far before we mark it as having left.
        let before: Vec<_> = watches
            .iter()
            .map(|&index| times(road, &self.watches[index]))
            .collect();
        road.leave(number, at_ms);
        let road = &self.roads[&link];
        for (index, before) in watches.into_iter().zip(before) {
            let after = times(road, &self.watches[index]);
            let watch = &mut self.watches[index];
            let is_it =
                |passage: &Passage| matches!(passage, Passage::Coming(one) if *one == number);
            let Some(place) = watch.passages.iter().position(is_it) else {
                continue;
            };
            let known = match is_removed {
                false => after.0.map(|reached| Passage::Known(reached, after.1)),
                true => before
                    .0
                    .filter(|&reached| reached <= seconds)
                    .map(|reached| Passage::Known(reached, Some(before.1.unwrap_or(seconds)))),
            };
            match known {
                Some(known) => watch.passages[place] = known,
                None => _ = watch.passages.remove(place),
            }
        }
    }
}

impl<W: Write> Report for Detectors<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()> {
        if labels.simulation.is_some() {
            for (&link, road) in &mut self.roads {
                road.set_free_flow_ms(labels.free_flow_ms(link), self.known_ms);
            }
        }
        self.known_ms = self.known_ms.max(until_ms);
        for event in events {
            self.advance(event.at_ms)?;
            match event.kind {
                EventKind::Entered => self.enter(labels, (event.car, event.link), event.at_ms),
                EventKind::Left => self.leave(event.car, event.at_ms, false),
                EventKind::Removed => self.leave(event.car, event.at_ms, true),
                _ => {}
            }
        }
        self.advance(until_ms)
    }

    fn finish(&mut self, _: Labels<'_>) -> io::Result<()> {
        self.begin()?;
        for index in 0..self.watches.len() {
            if self.known_ms > self.watches[index].begin_ms {
                self.close(index, self.known_ms)?;
            }
        }
        self.to.write_all(b"</detector>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }

    fn needs_all_vehicles(&self) -> bool {
        true
    }
}

/// The counts of a detector in an interval.
#[derive(Debug, Default)]
struct Seen {
    /// The number of cars that reached the detector, left it, and were on it.
    entered: u32,
    left: u32,
    all: u32,
    /// The time for which a car was on the detector, in seconds.
    occupied: f64,
    /// The sum of the speeds of the cars that left, and of the inverse speeds.
    speeds: f64,
    slowness: f64,
}

impl Seen {
    fn write(&self, to: &mut dyn Write, length: f64, car_m: f64) -> io::Result<()> {
        let flow = f64::from(self.left) * 3600.0 / length;
        let occupancy = (self.occupied / length * 100.0).min(100.0);
        // SUMO writes -1 if there is no value.
        let [speed, harmonic, length] = match self.left {
            0 => [-1.0; 3],
            left => {
                let left = f64::from(left);
                [self.speeds / left, left / self.slowness, car_m]
            }
        };
        writeln!(
            to,
            " nVehContrib=\"{}\" flow=\"{flow:.2}\" occupancy=\"{occupancy:.2}\" speed=\"{speed:.2}\" harmonicMeanSpeed=\"{harmonic:.2}\" length=\"{length:.2}\" nVehEntered=\"{}\"/>",
            self.left, self.entered
        )
    }
}
