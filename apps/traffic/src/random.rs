//! Random numbers that depend on who asks and how often, never on when.
//!
//! A stream is made of what it is for (a seed, a kind, a number) and mixed anew for each value, so
//! two travellers never share one and no order of execution shows.

/// A stream of random numbers, or a running hash: the same mixing does for both.
///
/// Source: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Copy, Debug)]
pub struct Stream(u64);

#[inline]
fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Self(finalize(seed.wrapping_add(0x9E37_79B9_7F4A_7C15)))
    }

    /// The stream of one of many: `kind` is a name, `number` who of them.
    pub fn of(seed: u64, kind: &str, number: u64) -> Self {
        let mut stream = Self::new(seed);
        kind.bytes().for_each(|byte| stream.mix(u64::from(byte)));
        stream.mix(number);
        stream
    }

    /// Makes what follows depend on `value`.
    #[inline]
    pub fn mix(&mut self, value: u64) {
        self.0 = finalize(
            self.0.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ value.wrapping_mul(0xD6E8_FEB8_6659_FD93),
        );
    }

    /// What has been mixed so far.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finalize(self.0)
    }

    /// The next number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The next number from 0 to 1, without 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
