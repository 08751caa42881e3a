//! The random numbers of the tests.

/// A small random number generator (SplitMix64), so that the streams never change.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Returns a register of the SSG and a value. Short periods and long periods are both likely.
    #[allow(dead_code, reason = "few tests write to an SSG")]
    pub fn ssg_write(&mut self) -> (u8, u8) {
        let reg = self.below(14) as u8;
        let value = self.next() as u8;
        let value = match (reg, self.below(3)) {
            (0 | 2 | 4 | 11, 0) => value & 7,
            (1 | 3 | 5 | 12, 0 | 1) => 0,
            _ => value,
        };
        (reg, value)
    }
}
