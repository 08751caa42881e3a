//! The names of senders and receivers. They are random, as RFC 3550 requires, unless the user sets
//! them.

use std::hash::{BuildHasher, RandomState};

/// The SSRC and the CNAME of a sender or receiver.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) ssrc: u32,
    /// The canonical name. Source: RFC 7022 section 4.2.
    pub(crate) cname: String,
}

pub(crate) fn random() -> Identity {
    let mut random = Random::new(None);
    Identity {
        ssrc: random.next() as u32,
        cname: format!("{:016x}", random.next()),
    }
}

/// A SplitMix64 random number generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from a seed. Without a seed, it starts from the standard library's
    /// random keys.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Random(seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
