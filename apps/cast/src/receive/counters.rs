//! Counters that the sockets' tasks update, and that the main thread reads.

use super::demux::Demux;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts packets over all sockets. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceiveCounters(Arc<Counts>);

/// Relaxed ordering suffices, because the main thread only polls these counts.
#[derive(Debug, Default)]
struct Counts {
    packets: AtomicU64,
    probation: AtomicU64,
}

/// The counts of one demultiplexer that have been added to the shared counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Published {
    packets: u64,
    probation: u64,
}

impl ReceiveCounters {
    /// Returns the number of packets of valid sources.
    pub(super) fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Returns the number of all packets, including those of sources on probation. This count grows
    /// while anyone sends anything that looks like a stream.
    pub(super) fn activity(&self) -> u64 {
        self.packets() + self.0.probation.load(Ordering::Relaxed)
    }

    /// Adds the packets that a demultiplexer has received since `published`, and updates
    /// `published`.
    #[inline]
    pub(super) fn add(&self, demux: &Demux, published: &mut Published) {
        let (packets, probation) = (demux.packets(), demux.probation_packets());
        let counts = &self.0;
        counts
            .packets
            .fetch_add(packets - published.packets, Ordering::Relaxed);
        if probation > published.probation {
            let more = probation - published.probation;
            counts.probation.fetch_add(more, Ordering::Relaxed);
        }
        *published = Published { packets, probation };
    }
}
