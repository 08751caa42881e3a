//! Measures the bursts of lost packets, and the gaps between them.
//!
//! A *burst* begins and ends with a lost packet, and between two of its losses fewer than
//! [`GMIN`] packets arrived. Everything else is a *gap*, including single losses. Two streams with
//! the same loss rate sound different: a burst cuts syllables, and single losses are concealed.
//!
//! Source: RFC 3611 section 4.7.2.

/// The number of packets that must arrive in a row for a burst to end. RFC 3611 recommends this
/// value.
const GMIN: i64 = 16;

/// The bursts and gaps of one source.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bursts {
    /// The number of bursts.
    pub bursts: u64,
    /// The fraction of the packets in bursts that were lost, 0 to 1.
    pub burst_density: f64,
    /// The mean number of packets in a burst.
    pub burst_packets: f64,
    /// The fraction of the packets in gaps that were lost, 0 to 1.
    pub gap_density: f64,
    /// The mean number of packets in a gap.
    pub gap_packets: f64,
    /// The mean number of packets that were lost in a row.
    pub run_packets: f64,
}

/// Collects the positions of losses in ascending order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossRuns {
    /// The position of the first loss of the current group.
    first: i64,
    /// The position of the last loss of the current group.
    last: i64,
    /// The number of losses in the current group.
    losses: u64,
    /// Sums over the complete groups with several losses.
    bursts: u64,
    burst_losses: u64,
    burst_packets: u64,
    /// The number of losses, and of sequences of losses in a row.
    total: u64,
    runs: u64,
}

impl LossRuns {
    /// Records the loss of the packet at this position.
    pub(crate) fn lost(&mut self, at: i64) {
        self.total += 1;
        if self.losses > 0 && at - self.last <= GMIN {
            self.runs += u64::from(at - self.last > 1);
            self.losses += 1;
        } else {
            self.end_group();
            self.runs += 1;
            (self.first, self.losses) = (at, 1);
        }
        self.last = at;
    }

    fn end_group(&mut self) {
        if self.losses > 1 {
            self.bursts += 1;
            self.burst_losses += self.losses;
            self.burst_packets += (self.last - self.first + 1).unsigned_abs();
        }
        self.losses = 0;
    }

    /// Ends the current group, because the source restarted and its positions begin again.
    pub(crate) fn restart(&mut self) {
        self.end_group();
    }

    /// Returns the figures for a source of which `expected` packets should have arrived.
    pub(crate) fn summary(mut self, expected: u64) -> Bursts {
        self.end_group();
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let gap_packets = expected.saturating_sub(self.burst_packets);
        Bursts {
            bursts: self.bursts,
            burst_density: share(self.burst_losses, self.burst_packets),
            burst_packets: share(self.burst_packets, self.bursts),
            gap_density: share(self.total - self.burst_losses, gap_packets),
            gap_packets: share(gap_packets, self.bursts + 1),
            run_packets: share(self.total, self.runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_close_together_are_a_burst_and_single_ones_belong_to_the_gap() {
        let mut runs = LossRuns::default();
        // One packet is lost, later three within ten packets, and then one again.
        for at in [10, 100, 101, 109, 200] {
            runs.lost(at);
        }
        let found = runs.summary(300);
        assert_eq!((found.bursts, found.burst_packets), (1, 10.0));
        assert_eq!(found.burst_density, 0.3);
        assert_eq!(found.gap_density, 2.0 / 290.0);
        assert_eq!(found.gap_packets, 145.0);
        // The losses 100 and 101 follow one another, so five losses make four sequences.
        assert_eq!(found.run_packets, 5.0 / 4.0);
    }

    #[test]
    fn sixteen_packets_in_a_row_end_a_burst() {
        for (apart, bursts) in [(16, 1), (17, 0)] {
            let mut runs = LossRuns::default();
            runs.lost(50);
            runs.lost(50 + apart);
            assert_eq!(runs.summary(100).bursts, bursts, "{apart}");
        }
    }

    #[test]
    fn a_source_without_losses_has_one_gap() {
        let found = LossRuns::default().summary(100);
        assert_eq!((found.bursts, found.gap_packets), (0, 100.0));
        assert_eq!((found.burst_density, found.gap_density), (0.0, 0.0));
    }
}
