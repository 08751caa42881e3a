//! Where each car is, again and again: SUMO's floating car data, which `fcdReplay.py` shows.

use super::{Labels, Report, seconds};
use crate::network::Ms;
use crate::sim::{Happening, What};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// SUMO's FCD: a time step each so many milliseconds, with the cars on roads. A car drives at the
/// free speed until the end of its road, and stands there.
///
/// Source: SUMO's documentation, "FCDOutput".
pub struct Fcd<W: Write> {
    to: W,
    period_ms: Ms,
    next_ms: Ms,
    begun: bool,
    cars: BTreeMap<u32, (u32, Ms)>,
}

impl<W: Write> Fcd<W> {
    /// Into a stream, from a time on, each so many milliseconds.
    pub fn new(to: W, from_ms: Ms, period_ms: Ms) -> Self {
        Self {
            to,
            period_ms: period_ms.max(1),
            next_ms: from_ms,
            begun: false,
            cars: BTreeMap::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.to
                .write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<fcd-export>\n")?;
        }
        Ok(())
    }

    /// The steps before `at_ms`.
    fn steps(&mut self, labels: Labels<'_>, at_ms: Ms) -> io::Result<()> {
        self.begin()?;
        while self.next_ms < at_ms {
            let now = self.next_ms;
            writeln!(self.to, "    <timestep time=\"{}\">", seconds(now))?;
            let network = labels.network;
            for (&car, &(link, entered)) in &self.cars {
                let place = network.links()[link as usize];
                let length = f64::from(place.length_mm) / 1000.0;
                let driven = f64::from(now - entered) * f64::from(place.speed_mm_s) / 1e6;
                let (from, to) = (
                    network.junctions()[place.from as usize],
                    network.junctions()[place.to as usize],
                );
                let share = (driven / length).min(1.0);
                let (x, y) = (
                    from.x + (to.x - from.x) * share,
                    from.y + (to.y - from.y) * share,
                );
                let angle = (to.x - from.x)
                    .atan2(to.y - from.y)
                    .to_degrees()
                    .rem_euclid(360.0);
                let speed = if share < 1.0 {
                    f64::from(place.speed_mm_s) / 1000.0
                } else {
                    0.0
                };
                let (car, name) = (labels.car(car), labels.road(link));
                writeln!(
                    self.to,
                    "        <vehicle id=\"{car}\" x=\"{x:.2}\" y=\"{y:.2}\" angle=\"{angle:.2}\" type=\"car\" speed=\"{speed:.2}\" pos=\"{:.2}\" lane=\"{name}_0\" slope=\"0.00\"/>",
                    driven.min(length)
                )?;
            }
            self.to.write_all(b"    </timestep>\n")?;
            self.next_ms += self.period_ms;
        }
        Ok(())
    }
}

impl<W: Write> Report for Fcd<W> {
    fn take(
        &mut self,
        labels: Labels<'_>,
        happenings: &[Happening],
        until_ms: Ms,
    ) -> io::Result<()> {
        for happening in happenings {
            self.steps(labels, happening.at_ms)?;
            match happening.what {
                What::Entered => {
                    _ = self
                        .cars
                        .insert(happening.car, (happening.link, happening.at_ms))
                }
                What::Left => _ = self.cars.remove(&happening.car),
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
    fn looks_back(&self) -> bool {
        true
    }
}
