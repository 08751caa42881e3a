//! Writes turn counts: the number of cars from each link to each next link, per interval.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Event, EventKind};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// Turn counts as SUMO's edge relations, which `routeSampler.py` and `jtrrouter` read.
///
/// Source: SUMO's documentation, "Demand/Turns".
pub struct Turns<W: Write> {
    to: W,
    interval_ms: Ms,
    begin_ms: Ms,
    until_ms: Ms,
    begun: bool,
    counts: BTreeMap<(u32, u32), u32>,
    /// For each car, the link that it is on. A car that has left its link and waits for the next
    /// link still counts as being on the link that it left.
    cars: HashMap<u32, u32>,
}

impl<W: Write> Turns<W> {
    /// Creates a report that starts at `from_ms`, with counts over intervals of `interval_ms`.
    pub fn new(to: W, from_ms: Ms, interval_ms: Ms) -> Self {
        Self {
            to,
            interval_ms: interval_ms.max(1),
            begin_ms: from_ms,
            until_ms: from_ms,
            begun: false,
            counts: BTreeMap::new(),
            cars: HashMap::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<data>\n")?;
        }
        Ok(())
    }

    fn close(&mut self, labels: Labels<'_>, end_ms: Ms) -> io::Result<()> {
        self.begin()?;
        let (begin, end) = (seconds(self.begin_ms), seconds(end_ms));
        writeln!(
            self.to,
            "    <interval id=\"creel\" begin=\"{begin}\" end=\"{end}\">"
        )?;
        for (&(from, to), count) in &self.counts {
            let (from, to) = (labels.road(from), labels.road(to));
            writeln!(
                self.to,
                "        <edgeRelation from=\"{from}\" to=\"{to}\" count=\"{count}\"/>"
            )?;
        }
        self.to.write_all(b"    </interval>\n")?;
        self.counts.clear();
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

impl<W: Write> Report for Turns<W> {
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()> {
        for event in events {
            self.close_until(labels, event.at_ms)?;
            match event.kind {
                EventKind::Entered => {
                    let before = self.cars.insert(event.car, event.link);
                    // A filter may have left out the links in between. We count a turn only if the
                    // second link begins where the first one ends.
                    let links = labels.network.links();
                    let follows =
                        |&from: &u32| links[from as usize].to == links[event.link as usize].from;
                    let before = before.filter(|_| event.at_ms >= self.begin_ms);
                    if let Some(from) = before.filter(follows) {
                        *self.counts.entry((from, event.link)).or_default() += 1;
                    }
                }
                EventKind::Arrived | EventKind::Removed => _ = self.cars.remove(&event.car),
                _ => {}
            }
        }
        self.until_ms = until_ms.max(self.until_ms);
        self.close_until(labels, until_ms)
    }

    fn finish(&mut self, labels: Labels<'_>) -> io::Result<()> {
        self.begin()?;
        if self.until_ms > self.begin_ms {
            self.close(labels, self.until_ms)?;
        }
        self.to.write_all(b"</data>\n")?;
        self.to.flush()
    }

    fn needs_history(&self) -> bool {
        true
    }
}
