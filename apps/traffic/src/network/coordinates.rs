//! The coordinates of junctions and lanes in metres.

use super::Network;

/// The length in metres of one degree of latitude, and of one degree of longitude at the equator.
const DEGREE_M: (f64, f64) = (110_540.0, 111_320.0);

impl Network {
    /// Returns the coordinates of all junctions as (east, north) in metres. If the network is
    /// [geographic](Self::geographic), the origin is the south-western corner. We use a flat
    /// projection, which is accurate enough for a city.
    pub fn coordinates_m(&self) -> Vec<(f64, f64)> {
        let junctions = self.junctions();
        let low =
            |get: fn(&super::Junction) -> f64| junctions.iter().map(get).fold(f64::MAX, f64::min);
        let (west, south) = (low(|j| j.x), low(|j| j.y));
        // A degree of longitude gets shorter towards the poles, because meridians converge.
        let east_m = DEGREE_M.1 * libm::cos(south.to_radians());
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

    /// Returns the two end points of a lane. Lanes lie next to each other on the right of the line
    /// between the junctions, and lane 0 is the outermost. A road whose ends have the same
    /// coordinates is drawn 0.1 m long.
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
        let length = libm::hypot(dx, dy);
        let (b, right) = if length > 0.0 {
            (b, (dy / length, -dx / length))
        } else {
            ((b.0, b.1 + 0.1), (1.0, 0.0))
        };
        let off = LANE_M * (f64::from(road.lanes - lane) - 0.5);
        [a, b].map(|end| (end.0 + right.0 * off, end.1 + right.1 * off))
    }

    /// Returns the western, southern, eastern and northern bounds of the given coordinates.
    pub fn bounds_m(places: &[(f64, f64)]) -> [f64; 4] {
        let widest = [f64::MAX, f64::MAX, f64::MIN, f64::MIN];
        places
            .iter()
            .fold(widest, |[west, south, east, north], &(x, y)| {
                [west.min(x), south.min(y), east.max(x), north.max(y)]
            })
    }
}
