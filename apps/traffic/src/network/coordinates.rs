//! Where junctions are, in metres.

use super::Network;

/// Metres in a degree of latitude, and of longitude at the equator.
const DEGREE_M: (f64, f64) = (110_540.0, 111_320.0);

impl Network {
    /// The places of all junctions: east and north, in metres; from the south-western corner where the
    /// network is [geographic](Self::geographic), which is well enough for a city.
    pub fn coordinates_m(&self) -> Vec<(f64, f64)> {
        let junctions = self.junctions();
        let low =
            |get: fn(&super::Junction) -> f64| junctions.iter().map(get).fold(f64::MAX, f64::min);
        let (west, south) = (low(|j| j.x), low(|j| j.y));
        // Degrees of longitude are shorter than those of latitude.
        let east_m = DEGREE_M.1 * south.to_radians().cos();
        let place = |junction: &super::Junction| {
            if self.geographic() {
                let (x, y) = (junction.x - west, junction.y - south);
                (x * east_m, y * DEGREE_M.0)
            } else {
                (junction.x, junction.y)
            }
        };
        junctions.iter().map(place).collect()
    }

    /// Where a lane of a road begins and ends. Lanes lie beside each other to the right of the line
    /// between the junctions, the first outermost; a road without length on the map has a little.
    pub(crate) fn lane_coordinates_m(
        &self,
        places: &[(f64, f64)],
        link: u32,
        lane: u8,
    ) -> [(f64, f64); 2] {
        const LANE_M: f64 = 3.2;
        let road = self.links()[link as usize];
        let [a, b] = [road.from, road.to].map(|junction| places[junction as usize]);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy);
        let (b, right) = if length > 0.0 {
            (b, (dy / length, -dx / length))
        } else {
            ((b.0, b.1 + 0.1), (1.0, 0.0))
        };
        let off = LANE_M * (f64::from(road.lanes - lane) - 0.5);
        [a, b].map(|end| (end.0 + right.0 * off, end.1 + right.1 * off))
    }

    /// The western, southern, eastern and northern bounds of places.
    pub fn bounds_m(places: &[(f64, f64)]) -> [f64; 4] {
        let widest = [f64::MAX, f64::MAX, f64::MIN, f64::MIN];
        places
            .iter()
            .fold(widest, |[west, south, east, north], &(x, y)| {
                [west.min(x), south.min(y), east.max(x), north.max(y)]
            })
    }
}
