//! Writes SUMO's edge data: means per link and interval.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Event, EventKind};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// The sums for one link in the current interval.
#[derive(Clone, Copy, Default)]
struct Sums {
    entered: u32,
    left: u32,
    /// The time that cars have spent on the link.
    on_ms: u64,
    /// The sum of the travel times of the cars that have left the link, from entry to exit. A car
    /// may have entered the link before this interval.
    took_ms: u64,
}

/// SUMO's edge data: `sampledSeconds`, `entered`, `left`, `traveltime`, `speed` and `density` of
/// each link that any car was on.
///
/// Source: SUMO's documentation, "Lane- or Edge-based Traffic Measures".
pub struct Edges<W: Write> {
    to: W,
    interval_ms: Ms,
    begin_ms: Ms,
    /// The time up to which all events are known.
    until_ms: Ms,
    begun: bool,
    sums: BTreeMap<u32, Sums>,
    /// For each car on a link: the link, the time at which the car entered it, and the time from
    /// which its stay counts in this interval.
    cars: HashMap<u32, (u32, Ms, Ms)>,
}

impl<W: Write> Edges<W> {
    /// Creates a report that starts at `from_ms`, with means over intervals of `interval_ms`.
    pub fn new(to: W, from_ms: Ms, interval_ms: Ms) -> Self {
        let (sums, cars) = (BTreeMap::new(), HashMap::new());
        Self {
            to,
            interval_ms: interval_ms.max(1),
            begin_ms: from_ms,
            until_ms: from_ms,
            begun: false,
            sums,
            cars,
        }
    }

    fn close(&mut self, labels: Labels<'_>, end_ms: Ms) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<meandata>\n")?;
        }
        for (link, _, since) in self.cars.values_mut() {
            let sums = self.sums.entry(*link).or_default();
            sums.on_ms += u64::from(end_ms - *since);
            *since = end_ms;
        }
        let (begin, end) = (seconds(self.begin_ms), seconds(end_ms));
        writeln!(
            self.to,
            "    <interval begin=\"{begin}\" end=\"{end}\" id=\"creel\">"
        )?;
        let length = f64::from(end_ms - self.begin_ms);
        for (&link, sums) in &self.sums {
            let metres = f64::from(labels.network.links()[link as usize].length_mm) / 1000.0;
            let density = sums.on_ms as f64 / length / metres * 1000.0;
            write!(
                self.to,
                "        <edge id=\"{}\" sampledSeconds=\"{:.2}\" density=\"{density:.2}\" entered=\"{}\" left=\"{}\"",
                labels.road(link),
                sums.on_ms as f64 / 1000.0,
                sums.entered,
                sums.left
            )?;
            if sums.left > 0 {
                let mean = sums.took_ms as f64 / 1000.0 / f64::from(sums.left);
                write!(
                    self.to,
                    " traveltime=\"{mean:.2}\" speed=\"{:.2}\"",
                    metres / mean
                )?;
            }
            self.to.write_all(b"/>\n")?;
        }
        self.to.write_all(b"    </interval>\n")?;
        self.sums.clear();
        self.begin_ms = end_ms;
        Ok(())
    }

    fn close_until(&mut self, labels: Labels<'_>, at_ms: Ms) -> io::Result<()> {
        while at_ms.saturating_sub(self.begin_ms) >= self.interval_ms {
            self.close(labels, self.begin_ms + self.interval_ms)?;
        }
        Ok(())
    }
}

impl<W: Write> Report for Edges<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()> {
        for &Event {
            at_ms,
            car,
            kind,
            link,
        } in events
        {
            self.close_until(labels, at_ms)?;
            match kind {
                EventKind::Entered => {
                    let since = at_ms.max(self.begin_ms);
                    self.cars.insert(car, (link, at_ms, since));
                    if at_ms >= self.begin_ms {
                        self.sums.entry(link).or_default().entered += 1;
                    }
                }
                EventKind::Left => {
                    let car = self.cars.remove(&car);
                    if let Some((link, entered, since)) = car.filter(|_| at_ms >= self.begin_ms) {
                        let sums = self.sums.entry(link).or_default();
                        sums.left += 1;
                        sums.on_ms += u64::from(at_ms - since);
                        sums.took_ms += u64::from(at_ms - entered);
                    }
                }
                EventKind::Removed => {
                    let car = self.cars.remove(&car);
                    if let Some((link, _, since)) = car.filter(|_| at_ms >= self.begin_ms) {
                        self.sums.entry(link).or_default().on_ms += u64::from(at_ms - since);
                    }
                }
                _ => {}
            }
        }
        self.until_ms = until_ms.max(self.until_ms);
        self.close_until(labels, until_ms)
    }

    fn finish(&mut self, labels: Labels<'_>) -> io::Result<()> {
        if self.until_ms > self.begin_ms || !self.begun {
            self.close(labels, self.until_ms.max(self.begin_ms + 1))?;
        }
        self.to.write_all(b"</meandata>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }
}
