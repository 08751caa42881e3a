//! Samples as a shared machine gives them, from a seed.

/// Numbers that look random.
/// Source: Vigna's splitmix64.
pub struct Noise(pub u64);

impl Noise {
    /// Evenly spread from 0 to 1.
    pub fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A factor near one: some 3 % up and down, and one sample in twelve up to 80 % slower.
    pub fn factor(&mut self) -> f64 {
        let bell: f64 = (0..6).map(|_| self.even() - 0.5).sum();
        let preempted = self.even() < 1.0 / 12.0;
        let late = if preempted { self.even() * 0.8 } else { 0.0 };
        (0.04 * bell).exp() * (1.0 + late)
    }
}
