//! What has come so far, as the sockets' tasks count it and the program looks at it.

use super::demux::Demux;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts over all sockets. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted(Arc<Counts>);

/// Relaxed: counts that are looked at from time to time.
#[derive(Debug, Default)]
struct Counts {
    packets: AtomicU64,
    candidates: AtomicU64,
}

/// How much of a demultiplexer has been counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    packets: u64,
    candidates: u64,
}

impl Counted {
    /// Packets that sources have got.
    pub(super) fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Those, and the ones of sources that were not proven when they came: it grows while anybody
    /// sends anything that looks like a stream.
    pub(super) fn signs_of_life(&self) -> u64 {
        self.packets() + self.0.candidates.load(Ordering::Relaxed)
    }

    /// Adds what a demultiplexer has got since it was `told`.
    #[inline]
    pub(super) fn add(&self, demux: &Demux, told: &mut Told) {
        let (packets, candidates) = (demux.packets(), demux.candidates_seen());
        let counts = &self.0;
        counts
            .packets
            .fetch_add(packets - told.packets, Ordering::Relaxed);
        if candidates > told.candidates {
            let more = candidates - told.candidates;
            counts.candidates.fetch_add(more, Ordering::Relaxed);
        }
        *told = Told {
            packets,
            candidates,
        };
    }
}
