//! Writes SUMO's trip information: one element per trip that has ended.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Event, EventKind, NO_ROAD};
use std::collections::HashMap;
use std::io::{self, Write};

/// A trip that has not ended.
#[derive(Clone, Copy, Default)]
struct Trip {
    /// The time at which the trip began.
    wanted_ms: Ms,
    /// The time at which the car entered its first road, and the number of that road.
    entered: Option<(Ms, u32)>,
    length_mm: u64,
    /// The time that the roads take in free flow.
    free_ms: u64,
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
        writeln!(
            self.to,
            "    <tripinfo id=\"{}\" depart=\"{}\" departEdge=\"{}\" departDelay=\"{}\" arrival=\"{}\" arrivalEdge=\"{}\" duration=\"{}\" routeLength=\"{:.2}\" timeLoss=\"{}\"/>",
            labels.car(event.car),
            seconds(entered_ms),
            labels.road(first),
            seconds(entered_ms - trip.wanted_ms),
            seconds(event.at_ms),
            labels.road(event.link),
            seconds(took_ms),
            trip.length_mm as f64 / 1000.0,
            seconds(lost_ms)
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
                    // A car that was on a road when the report began has no known departure.
                    if let Some(trip) = self.trips.get_mut(&car) {
                        trip.entered.get_or_insert((at_ms, link));
                        trip.length_mm +=
                            u64::from(labels.network.links()[link as usize].length_mm);
                        trip.free_ms += u64::from(labels.network.free_flow_ms(link));
                    }
                }
                EventKind::Arrived => {
                    let trip = self.trips.remove(&car);
                    if let Some(trip) = trip.filter(|_| at_ms >= self.from_ms && link != NO_ROAD) {
                        self.end(labels, event, trip)?;
                    }
                }
                EventKind::Removed => _ = self.trips.remove(&car),
                EventKind::Left | EventKind::SteppedAside => {}
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
