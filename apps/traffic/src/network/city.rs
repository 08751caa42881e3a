//! A generated city: a grid with noise, rings, and a river with bridges.

use super::{Control, Junction, Link, Network, NetworkError, Program, RawNetwork};
use crate::random::Stream;

/// What a city is like. All is computed from the seed, road by road, so a larger city begins like a
/// smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct City {
    /// Junctions from west to east.
    pub width: u32,
    /// Junctions from south to north.
    pub height: u32,
    /// From one to the next, in mm.
    pub block_mm: u32,
    /// How far a junction may lie beside its place, in percent of a block; at most 40.
    pub noise: u32,
    /// Every how many blocks a street is an avenue of twice the lanes and half as fast again; 0: never.
    pub avenue: u32,
    /// Whether a river runs through, which one street in eight crosses.
    pub river: bool,
    /// Whether junctions have lights (and the others let all go).
    pub signals: bool,
    /// What is random.
    pub seed: u64,
}

impl City {
    /// A plain grid with lights: 200 m from junction to junction, 50 km/h.
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

    /// Its roads.
    ///
    /// # Errors
    /// Sizes out of range.
    pub fn network(&self) -> Result<Network, NetworkError> {
        Network::new(self.raw_network()?)
    }

    /// The same before it is put in order.
    ///
    /// # Errors
    /// Sizes out of range.
    pub fn raw_network(&self) -> Result<RawNetwork, NetworkError> {
        let (width, height) = (u64::from(self.width), u64::from(self.height));
        if width < 2 || height < 2 || width * height > 4_000_000 {
            return Err(NetworkError(format!(
                "a city of {width}x{height} junctions; from 2x2 to 4,000,000 in all"
            )));
        }
        if self.noise > 40 || !(10_000..=10_000_000).contains(&self.block_mm) {
            return Err(NetworkError(
                "a city's noise is at most 40 percent, its blocks 10 m to 10 km".into(),
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

    /// The river is the row of blocks in the middle; rings are avenues.
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
            let length = ((a.x - b.x).hypot(a.y - b.y) * 1000.0).round() as u32;
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
