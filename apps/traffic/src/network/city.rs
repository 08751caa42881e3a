//! Generates a city: a grid with noise, avenues, and a river with bridges.

use super::{Control, Junction, Link, Network, NetworkError, Program, RawNetwork};
use crate::random::Stream;

/// The parameters of a generated city. Each road and junction is computed from the seed and its own
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct City {
    /// The number of junctions from west to east.
    pub width: u32,
    /// The number of junctions from south to north.
    pub height: u32,
    /// The length of a block (the distance between neighbouring junctions) in mm.
    pub block_mm: u32,
    /// The maximum random displacement of a junction in each direction, in percent of a block. At
    /// most 40.
    pub noise: u32,
    /// The distance between avenues in blocks. An avenue has two lanes and a speed limit of 75
    /// km/h, other streets have one lane and 50 km/h. 0 means no avenues.
    pub avenue: u32,
    /// Whether a river runs through the city. One street in eight has a bridge.
    pub river: bool,
    /// Whether junctions have traffic lights. Otherwise they are [`Control::Free`].
    pub signals: bool,
    /// The seed of all random choices.
    pub seed: u64,
}

impl City {
    /// Returns a plain grid with traffic lights, blocks of 200 m and a speed limit of 50 km/h.
    pub fn grid(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            block_mm: 200_000,
            noise: 0,
            avenue: 0,
            river: false,
            signals: true,
            seed: 1,
        }
    }

    /// Generates the road network.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn network(&self) -> Result<Network, NetworkError> {
        Network::new(self.raw_network()?)
    }

    /// Generates the road network in the form in which a reader would return it. [`Network::new`]
    /// must still check and order it.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn raw_network(&self) -> Result<RawNetwork, NetworkError> {
        let (width, height) = (u64::from(self.width), u64::from(self.height));
        if width < 2 || height < 2 || width * height > 4_000_000 {
            return Err(NetworkError(format!(
                "cannot generate a city of {width}x{height} junctions: use 2x2 or more, and at most 4,000,000 junctions in all"
            )));
        }
        if self.noise > 40 || !(10_000..=10_000_000).contains(&self.block_mm) {
            return Err(NetworkError(
                "cannot generate the city: noise must be at most 40 percent, and blocks 10 m to 10 km long".into(),
            ));
        }
        let mut raw = RawNetwork {
            has_coordinates: true,
            ..RawNetwork::default()
        };
        raw.programs.push(Program::fixed_time(2, 90_000));
        for y in 0..self.height {
            for x in 0..self.width {
                raw.junctions.push(self.junction(x, y));
            }
        }
        for y in 0..self.height {
            for x in 0..self.width {
                self.roads(x, y, &mut raw);
            }
        }
        Ok(raw)
    }

    fn number(&self, x: u32, y: u32) -> u32 {
        y * self.width + x
    }

    fn junction(&self, x: u32, y: u32) -> Junction {
        let mut stream = Stream::of(self.seed, "junction", u64::from(self.number(x, y)));
        let block = f64::from(self.block_mm) / 1000.0;
        let mut aside = || (stream.unit() - 0.5) * 2.0 * f64::from(self.noise) / 100.0;
        let (east, north) = (f64::from(x) + aside(), f64::from(y) + aside());
        let offset_ms = stream.below(90) as u32 * 1000;
        let control = if self.signals {
            Control::Signal {
                program: 0,
                offset_ms,
            }
        } else {
            Control::Free
        };
        Junction {
            x: east * block,
            y: north * block,
            control,
        }
    }

    /// Returns whether the street at `x` continues north of row `from_y`. The river is the middle
    /// row of blocks.
    fn crosses(&self, x: u32, from_y: u32) -> bool {
        !self.river || from_y != self.height / 2 - 1 || x.is_multiple_of(8)
    }

    fn roads(&self, x: u32, y: u32, raw: &mut RawNetwork) {
        let east = (x + 1 < self.width).then_some((x + 1, y, 0));
        let north = (y + 1 < self.height && self.crosses(x, y)).then_some((x, y + 1, 1));
        for (to_x, to_y, approach) in [east, north].into_iter().flatten() {
            let (from, to) = (self.number(x, y), self.number(to_x, to_y));
            let line = if approach == 0 { y } else { x };
            let avenue = self.avenue > 0 && line.is_multiple_of(self.avenue);
            let (a, b) = (raw.junctions[from as usize], raw.junctions[to as usize]);
            let length = (libm::hypot(a.x - b.x, a.y - b.y) * 1000.0).round() as u32;
            let link = Link {
                from,
                to,
                length_mm: if self.noise == 0 {
                    self.block_mm
                } else {
                    length.max(1000)
                },
                speed_mm_s: if avenue { 20_833 } else { 13_889 },
                headway_ms: 0,
                lanes: if avenue { 2 } else { 1 },
                approach,
            };
            raw.links.push(link);
            raw.links.push(Link {
                from: to,
                to: from,
                ..link
            });
        }
    }
}
