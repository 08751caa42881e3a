//! Lane area detectors (E2). In addition to what induction loops count, they need the positions of
//! all cars on the detector once per second, for example to measure jams.

use super::{Detector, Kind, Seen};
use crate::network::Ms;
use crate::output::queue::Queue;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The halting time of a car on the detector.
#[derive(Clone, Copy, Debug, Default)]
struct Halt {
    /// The time for which the car has been slow without a break.
    slow: f64,
    /// The time for which the car has halted so far.
    total: f64,
    /// The time for which the car has halted in this interval.
    here: f64,
}

/// The sums and maxima over the samples that the detector has taken in an interval, one per second.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    samples: u32,
    cars: u32,
    cars_max: u32,
    speeds: f64,
    losses: f64,
    occupancy: f64,
    occupancy_max: f64,
    jam_cars: u32,
    jam_m: f64,
    jam_cars_max: u32,
    jam_m_max: f64,
    longest_jam_cars: u32,
    longest_jam_m: f64,
    halts: u32,
}

/// A lane area detector.
#[derive(Debug)]
pub(super) struct Area {
    halts_below: f64,
    halts_after: f64,
    jam_gap: f64,
    length: f64,
    sums: Sums,
    /// The halts of the cars on the detector, by their numbers in the queue.
    halts: BTreeMap<u64, Halt>,
    /// The halts of cars that have left the detector in this interval.
    ended: Vec<Halt>,
}

impl Area {
    /// Returns the state of a detector, if it is a lane area detector.
    pub fn of(detector: &Detector) -> Option<Self> {
        let Kind::Area {
            halts_below,
            halts_after,
            jam_gap,
        } = detector.kind
        else {
            return None;
        };
        Some(Self {
            halts_below,
            halts_after,
            jam_gap,
            length: detector.to_m - detector.from_m,
            sums: Sums::default(),
            halts: BTreeMap::new(),
            ended: Vec::new(),
        })
    }

    /// Takes a sample of the cars on the detector's lane. `cars` yields their numbers in the queue
    /// of the link, in ascending order.
    pub fn sample(
        &mut self,
        detector: &Detector,
        cars: impl Iterator<Item = u64>,
        road: Option<&Queue>,
        at_ms: Ms,
        car_m: f64,
    ) {
        let (from, to) = (detector.from_m, detector.to_m);
        let sums = &mut self.sums;
        sums.samples += 1;
        let (mut on_it, mut covered) = (0, 0.0);
        let mut halts = BTreeMap::new();
        // We go through the cars against the direction of travel. `jam` is the jam that we are in:
        // its number of cars, its front and its rear.
        let mut jam: Option<(u32, f64, f64)> = None;
        let mut jams = Vec::new();
        for (car, road) in cars.zip(road.into_iter().cycle()) {
            let spot = road.spot(car, at_ms);
            let rear = spot.pos - car_m;
            if spot.pos <= from || rear >= to {
                continue;
            }
            on_it += 1;
            covered += spot.pos.min(to) - rear.max(from);
            sums.speeds += spot.speed;
            sums.losses += (1.0 - spot.speed / road.speed()).max(0.0);
            let mut halt = self.halts.remove(&car).unwrap_or_default();
            if spot.speed >= self.halts_below {
                halt.slow = 0.0;
                halts.insert(car, halt);
                continue;
            }
            halt.slow += 1.0;
            if halt.slow >= self.halts_after {
                let is_new = halt.slow - 1.0 < self.halts_after;
                sums.halts += u32::from(is_new);
                let adds = if is_new { halt.slow } else { 1.0 };
                (halt.total, halt.here) = (halt.total + adds, halt.here + adds);
                let (front, rear) = (spot.pos.min(to), rear.max(from));
                jam = match jam {
                    Some((cars, first, last)) if last - front <= self.jam_gap => {
                        Some((cars + 1, first, rear))
                    }
                    other => {
                        jams.extend(other);
                        Some((1, front, rear))
                    }
                };
            }
            halts.insert(car, halt);
        }
        jams.extend(jam);
        // The loop above has moved the halts of all cars on the detector to `halts`. The halts that
        // remain belong to cars that have left it.
        let gone = std::mem::replace(&mut self.halts, halts);
        self.ended.extend(gone.into_values());
        sums.cars += on_it;
        sums.cars_max = sums.cars_max.max(on_it);
        let occupancy = (covered / self.length * 100.0).min(100.0);
        sums.occupancy += occupancy;
        sums.occupancy_max = sums.occupancy_max.max(occupancy);
        let (mut most, mut longest) = (0, 0.0_f64);
        for (cars, front, rear) in jams {
            sums.jam_cars += cars;
            sums.jam_m += front - rear;
            (most, longest) = (most.max(cars), longest.max(front - rear));
        }
        sums.longest_jam_cars += most;
        sums.longest_jam_m += longest;
        sums.jam_cars_max = sums.jam_cars_max.max(most);
        sums.jam_m_max = sums.jam_m_max.max(longest);
    }

    /// Writes the rest of an interval's element, and begins the next interval.
    pub fn write(&mut self, to: &mut dyn Write, seen: &Seen, length: f64) -> io::Result<()> {
        let sums = std::mem::take(&mut self.sums);
        let mean = |sum: f64, count: u32| {
            if count > 0 {
                sum / f64::from(count)
            } else {
                0.0
            }
        };
        let halted = self.ended.iter().chain(self.halts.values());
        let halted: Vec<Halt> = halted.copied().filter(|halt| halt.total > 0.0).collect();
        let here = halted.iter().filter(|halt| halt.here > 0.0);
        let here: Vec<f64> = here.map(|halt| halt.here).collect();
        let total: f64 = halted.iter().map(|halt| halt.total).sum();
        let most = halted.iter().map(|halt| halt.total).fold(0.0, f64::max);
        let sum_here: f64 = here.iter().sum();
        let most_here = here.iter().copied().fold(0.0, f64::max);
        let speed = match sums.cars {
            // SUMO writes -1 if there is no value.
            0 => -1.0,
            cars => sums.speeds / f64::from(cars),
        };
        writeln!(
            to,
            " sampledSeconds=\"{:.2}\" nVehEntered=\"{}\" nVehLeft=\"{}\" nVehSeen=\"{}\" meanSpeed=\"{speed:.2}\" meanTimeLoss=\"{:.2}\" meanOccupancy=\"{:.2}\" maxOccupancy=\"{:.2}\" meanMaxJamLengthInVehicles=\"{:.2}\" meanMaxJamLengthInMeters=\"{:.2}\" maxJamLengthInVehicles=\"{}\" maxJamLengthInMeters=\"{:.2}\" jamLengthInVehiclesSum=\"{}\" jamLengthInMetersSum=\"{:.2}\" meanHaltingDuration=\"{:.2}\" maxHaltingDuration=\"{most:.2}\" haltingDurationSum=\"{total:.2}\" meanIntervalHaltingDuration=\"{:.2}\" maxIntervalHaltingDuration=\"{most_here:.2}\" intervalHaltingDurationSum=\"{sum_here:.2}\" startedHalts=\"{:.2}\" meanVehicleNumber=\"{:.2}\" maxVehicleNumber=\"{}\"/>",
            f64::from(sums.cars),
            seen.entered,
            seen.left,
            seen.all,
            mean(sums.losses, seen.all),
            mean(sums.occupancy, sums.samples),
            sums.occupancy_max,
            mean(f64::from(sums.longest_jam_cars), sums.samples),
            mean(sums.longest_jam_m, sums.samples),
            sums.jam_cars_max,
            sums.jam_m_max,
            sums.jam_cars,
            sums.jam_m,
            mean(total, halted.len() as u32),
            mean(sum_here, here.len() as u32),
            f64::from(sums.halts),
            f64::from(sums.cars) / length.max(1.0),
            sums.cars_max
        )?;
        self.ended.clear();
        self.halts.values_mut().for_each(|halt| halt.here = 0.0);
        Ok(())
    }
}
