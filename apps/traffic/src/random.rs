//! Random numbers that depend on their purpose and position in a stream, but not on the order of
//! execution.
//!
//! A stream is seeded with a global seed, a kind and a number (for example, the number of a
//! traveller). Two travellers therefore never share a stream, so the results do not depend on which
//! of them is processed first.

/// A stream of random numbers or a running hash. Both use the same mixing function. You can derive
/// one for each of your own items with [`of`](Self::of).
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
    /// Creates a stream from a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Self(finalize(seed.wrapping_add(0x9E37_79B9_7F4A_7C15)))
    }

    /// Creates the stream of one item: `kind` is the name of its kind, and `number` is its number
    /// among them.
    pub fn of(seed: u64, kind: &str, number: u64) -> Self {
        let mut stream = Self::new(seed);
        kind.bytes().for_each(|byte| stream.mix(u64::from(byte)));
        stream.mix(number);
        stream
    }

    /// Mixes `value` into the state.
    #[inline]
    pub fn mix(&mut self, value: u64) {
        self.0 = finalize(
            self.0.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ value.wrapping_mul(0xD6E8_FEB8_6659_FD93),
        );
    }

    /// Returns the hash of everything that has been mixed in.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0
    }

    /// Returns the next random number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finalize(self.0)
    }

    /// Returns the next random number below `bound`, which must be at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns the next random number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
