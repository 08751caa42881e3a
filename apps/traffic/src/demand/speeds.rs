//! Cars that are slower than the roads allow, such as trucks.

use serde::{Deserialize, Serialize};

/// How fast a car drives. It is never faster than the road allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CarSpeed {
    /// The maximum speed of the car in millimetres per second.
    pub max_mm_s: u32,
    /// The share of the road's speed at which the car drives, in parts per million. It is at most
    /// 1,000,000.
    pub share_ppm: u32,
}

impl CarSpeed {
    /// The speed of a car that always drives as fast as the road allows.
    pub const ROAD: Self = Self {
        max_mm_s: u32::MAX,
        share_ppm: 1_000_000,
    };

    /// Returns the nearest speed that is valid.
    pub(super) fn in_range(self) -> Self {
        Self {
            max_mm_s: self.max_mm_s.max(1),
            share_ppm: self.share_ppm.clamp(1, 1_000_000),
        }
    }

    fn is_valid(self) -> bool {
        self.max_mm_s > 0 && (1..=1_000_000).contains(&self.share_ppm)
    }
}

impl Default for CarSpeed {
    fn default() -> Self {
        Self::ROAD
    }
}

/// The speeds of all cars, by place in the plans. Neighbouring cars of the same speed share an
/// entry, so this is empty if all cars drive as fast as the roads allow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Speeds {
    /// The place of the first car with each speed, in ascending order. Cars before the first place
    /// drive as fast as the roads allow.
    runs: Vec<(u32, CarSpeed)>,
}

impl Speeds {
    /// Sets the speed of the cars whose plans begin at `place` or later.
    pub fn push(&mut self, place: u32, speed: CarSpeed) {
        let last = self.runs.last().map_or(CarSpeed::ROAD, |run| run.1);
        if speed != last {
            self.runs.push((place, speed));
        }
    }

    /// Sets the speed of the last car, whose plan begins at `place`.
    pub fn set_last(&mut self, place: u32, speed: CarSpeed) {
        if self.runs.last().is_some_and(|run| run.0 == place) {
            self.runs.pop();
        }
        self.push(place, speed);
    }

    /// Returns the speed of the car whose plan contains a place.
    #[inline]
    pub fn at(&self, place: u32) -> CarSpeed {
        let after = self.runs.partition_point(|run| run.0 <= place);
        match after {
            0 => CarSpeed::ROAD,
            after => self.runs[after - 1].1,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether all places are in order and all speeds are within their range.
    pub fn is_valid(&self) -> bool {
        self.runs.is_sorted_by(|a, b| a.0 < b.0) && self.runs.iter().all(|run| run.1.is_valid())
    }
}
