//! Writes single events as MATSim's `events.xml` or as CSV.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Event, EventKind};
use std::collections::HashSet;
use std::io::{self, Write};

/// MATSim's events, version 1.
///
/// Source: `events_v1.xsd` and the output of `EventWriterXML`.
pub struct Events<W: Write> {
    to: W,
    from_ms: Ms,
    /// The cars that have departed and have not entered a road yet.
    waiting: HashSet<u32>,
    begun: bool,
}

impl<W: Write> Events<W> {
    /// Creates a report that starts at `from_ms`.
    pub fn new(to: W, from_ms: Ms) -> Self {
        Self {
            to,
            from_ms,
            waiting: HashSet::new(),
            begun: false,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to.write_all(
                b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<events version=\"1.0\">\n",
            )?;
        }
        Ok(())
    }
}

impl<W: Write> Report for Events<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], _: Ms) -> io::Result<()> {
        self.begin()?;
        for (index, event) in events.iter().enumerate() {
            let car = event.car;
            let ends_trip = events.get(index + 1).is_some_and(|next| {
                (next.car, next.at_ms, next.kind) == (car, event.at_ms, EventKind::Arrived)
            });
            let first = match event.kind {
                EventKind::Departed => self.waiting.insert(car),
                EventKind::Entered => self.waiting.remove(&car),
                _ => false,
            };
            if event.at_ms < self.from_ms {
                continue;
            }
            let (time, car) = (seconds(event.at_ms), labels.car(car));
            let link = labels.road(event.link);
            let to = &mut self.to;
            match event.kind {
                EventKind::Departed => {
                    writeln!(
                        to,
                        "<event time=\"{time}\" type=\"departure\" person=\"{car}\" link=\"{link}\" legMode=\"car\"/>"
                    )?;
                }
                EventKind::Entered if first => {
                    writeln!(
                        to,
                        "<event time=\"{time}\" type=\"vehicle enters traffic\" person=\"{car}\" link=\"{link}\" vehicle=\"{car}\" networkMode=\"car\" relativePosition=\"0.0\"/>"
                    )?;
                }
                EventKind::Entered => writeln!(
                    to,
                    "<event time=\"{time}\" type=\"entered link\" vehicle=\"{car}\" link=\"{link}\"/>"
                )?,
                // MATSim has no event for leaving the last link of a trip.
                EventKind::Left if ends_trip => {}
                EventKind::Left => writeln!(
                    to,
                    "<event time=\"{time}\" type=\"left link\" vehicle=\"{car}\" link=\"{link}\"/>"
                )?,
                // MATSim has no events for these. The next event of the car shows where it is.
                EventKind::SteppedAside | EventKind::Rerouted => {}
                EventKind::Removed => writeln!(
                    to,
                    "<event time=\"{time}\" type=\"stuckAndAbort\" person=\"{car}\" link=\"{link}\" legMode=\"car\"/>"
                )?,
                EventKind::Arrived => {
                    writeln!(
                        to,
                        "<event time=\"{time}\" type=\"vehicle leaves traffic\" person=\"{car}\" link=\"{link}\" vehicle=\"{car}\" networkMode=\"car\" relativePosition=\"1.0\"/>"
                    )?;
                    writeln!(
                        to,
                        "<event time=\"{time}\" type=\"arrival\" person=\"{car}\" link=\"{link}\" legMode=\"car\"/>"
                    )?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: Labels<'_>) -> io::Result<()> {
        self.begin()?;
        self.to.write_all(b"</events>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }
}

/// Quotes a name for CSV if it contains a comma, a quote or a line break.
fn quoted(name: String) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name
    }
}

/// Events as CSV, with the columns time in milliseconds, car, kind of event and road.
pub struct Table<W: Write> {
    to: W,
    begun: bool,
}

impl<W: Write> Table<W> {
    /// Creates a report.
    pub fn new(to: W) -> Self {
        Self { to, begun: false }
    }
}

impl<W: Write> Report for Table<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], _: Ms) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to.write_all(b"time_ms,car,what,road\n")?;
        }
        for event in events {
            let what = match event.kind {
                EventKind::Left => "left",
                EventKind::SteppedAside => "stepped aside",
                EventKind::Arrived => "arrived",
                EventKind::Departed => "departed",
                EventKind::Entered => "entered",
                EventKind::Removed => "removed",
                EventKind::Rerouted => "rerouted",
            };
            let road = match event.link {
                crate::sim::NO_ROAD => String::new(),
                link => quoted(labels.network.link_name(link)),
            };
            let (at_ms, car) = (event.at_ms, quoted(labels.cars.get(event.car)));
            writeln!(self.to, "{at_ms},{car},{what},{road}")?;
        }
        Ok(())
    }

    fn finish(&mut self, labels: Labels<'_>) -> io::Result<()> {
        self.take(labels, &[], 0)?;
        self.to.flush()
    }
}
