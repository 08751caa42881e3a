//! Writes SUMO's trip information: one element per trip that has ended.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Event, EventKind, NO_ROAD};
use std::collections::HashMap;
use std::io::{self, Write};

/// A trip that has not ended yet. When it ends, the report writes its element from these facts.
#[derive(Clone, Copy, Default)]
struct Trip {
    /// The time at which the trip began.
    wanted_ms: Ms,
    /// The time at which the car entered its first road, and the number of that road.
    entered: Option<(Ms, u32)>,
    length_mm: u64,
    /// The time that the roads take in free flow.
    free_ms: u64,
    /// The speed at the beginning of the trip and on the last road, in metres per second.
    speeds: [f64; 2],
    /// The time at which the car reaches the end of its road in free flow.
    due_ms: Ms,
    /// The time for which the car has waited at the ends of roads.
    waited_ms: u64,
    /// How often the car has waited at the end of a road.
    waits: u32,
    reroutes: u32,
}

/// SUMO's `tripinfo`: departure, arrival, length and lost time of each trip that has ended.
///
/// Source: SUMO's documentation, "TripInfo".
pub struct Trips<W: Write> {
    to: W,
    from_ms: Ms,
    begun: bool,
    trips: HashMap<u32, Trip>,
}

impl<W: Write> Trips<W> {
    /// Creates a report of the trips that end at or after `from_ms`.
    pub fn new(to: W, from_ms: Ms) -> Self {
        Self {
            to,
            from_ms,
            begun: false,
            trips: HashMap::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tripinfos>\n")?;
        }
        Ok(())
    }

    fn end(&mut self, labels: Labels<'_>, event: &Event, trip: Trip) -> io::Result<()> {
        let Some((entered_ms, first)) = trip.entered else {
            return Ok(());
        };
        let took_ms = event.at_ms - entered_ms;
        let lost_ms = u64::from(took_ms).saturating_sub(trip.free_ms) as Ms;
        let last = labels.network.links()[event.link as usize];
        // The model has no lanes and no acceleration. All cars use lane 0 here, and begin and end a
        // trip at free speed.
        writeln!(
            self.to,
            "    <tripinfo id=\"{}\" depart=\"{}\" departLane=\"{}_0\" departPos=\"0.00\" departSpeed=\"{:.2}\" departDelay=\"{}\" arrival=\"{}\" arrivalLane=\"{}_0\" arrivalPos=\"{:.2}\" arrivalSpeed=\"{:.2}\" duration=\"{}\" routeLength=\"{:.2}\" waitingTime=\"{}\" waitingCount=\"{}\" stopTime=\"0.00\" timeLoss=\"{}\" rerouteNo=\"{}\" devices=\"\" vType=\"car\" speedFactor=\"1.00\" vaporized=\"\"/>",
            labels.car(event.car),
            seconds(entered_ms),
            labels.road(first),
            trip.speeds[0],
            seconds(entered_ms - trip.wanted_ms),
            seconds(event.at_ms),
            labels.road(event.link),
            f64::from(last.length_mm) / 1000.0,
            trip.speeds[1],
            seconds(took_ms),
            trip.length_mm as f64 / 1000.0,
            seconds(trip.waited_ms as Ms),
            trip.waits,
            seconds(lost_ms),
            trip.reroutes
        )
    }
}

impl<W: Write> Report for Trips<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], _: Ms) -> io::Result<()> {
        self.begin()?;
        for event in events {
            let &Event {
                at_ms,
                car,
                kind,
                link,
            } = event;
            match kind {
                EventKind::Departed => {
                    let wanted_ms = at_ms;
                    let trip = Trip {
                        wanted_ms,
                        ..Trip::default()
                    };
                    self.trips.insert(car, trip);
                }
                EventKind::Entered => {
                    // If a car was already on a road when the report began, we do not know its
                    // departure. It has no entry in `trips`, and we skip it.
                    if let Some(trip) = self.trips.get_mut(&car) {
                        trip.entered.get_or_insert((at_ms, link));
                        let length_mm = labels.network.links()[link as usize].length_mm;
                        let free_ms = labels.travel_ms(car, link);
                        let speed = f64::from(length_mm) / f64::from(free_ms);
                        if trip.length_mm == 0 {
                            trip.speeds[0] = speed;
                        }
                        trip.speeds[1] = speed;
                        trip.length_mm += u64::from(length_mm);
                        trip.free_ms += u64::from(free_ms);
                        trip.due_ms = at_ms + free_ms;
                    }
                }
                EventKind::Left => {
                    let trip = self.trips.get_mut(&car);
                    if let Some(trip) = trip.filter(|trip| at_ms > trip.due_ms) {
                        trip.waited_ms += u64::from(at_ms - trip.due_ms);
                        trip.waits += 1;
                    }
                }
                EventKind::Rerouted => {
                    let trip = self.trips.get_mut(&car);
                    trip.into_iter().for_each(|trip| trip.reroutes += 1);
                }
                EventKind::Arrived => {
                    let trip = self.trips.remove(&car);
                    if let Some(trip) = trip.filter(|_| at_ms >= self.from_ms && link != NO_ROAD) {
                        self.end(labels, event, trip)?;
                    }
                }
                EventKind::Removed => _ = self.trips.remove(&car),
                EventKind::SteppedAside => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: Labels<'_>) -> io::Result<()> {
        self.begin()?;
        self.to.write_all(b"</tripinfos>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }
}
