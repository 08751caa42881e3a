//! Synthetic noise like that of a shared machine, generated from a seed.

/// A generator of pseudo-random numbers. The field is its state, which is the seed at first.
///
/// Source: Vigna's splitmix64.
pub struct Noise(pub u64);

impl Noise {
    /// Returns a number from 0 to 1 with uniform distribution.
    pub fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a factor near one. Most factors differ from one by about 3 %, and one in twelve is
    /// up to 80 % larger, like a preempted sample.
    pub fn factor(&mut self) -> f64 {
        let bell: f64 = (0..6).map(|_| self.even() - 0.5).sum();
        let preempted = self.even() < 1.0 / 12.0;
        let late = if preempted { self.even() * 0.8 } else { 0.0 };
        (0.04 * bell).exp() * (1.0 + late)
    }
}
