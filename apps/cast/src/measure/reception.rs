//! Tracks the packets of one source according to RFC 3550.
//!
//! A source counts from its first two packets in sequence on (A.1). The demultiplexer holds its
//! packets until then, and passes them on afterwards. Sequence numbers are extended by their
//! cycles. We compare a packet with the newest one:
//!
//! - A packet less than [`DROPOUT`] ahead is the new newest one. If it skips numbers, there is a
//!   gap.
//! - A packet at most [`MISORDER`] behind is a late packet or a duplicate. We distinguish the two
//!   by a window of bits.
//! - Any other packet is a stray. However, if the next packet follows it, the source has restarted.
//!
//! The module `spacing` computes the jitter.
//!
//! Source: RFC 3550 appendices A.1, A.3 and section 6.4.1.

use super::bursts::{Bursts, LossRuns};

/// A packet that is this far ahead of the newest one, or further, is a stray, not the end of a gap.
/// Source: A.1, MAX_DROPOUT.
pub(crate) const DROPOUT: u16 = 3_000;
/// A packet further behind the newest one than this is a stray, not a late packet. Source: A.1,
/// MAX_MISORDER.
pub(crate) const MISORDER: u16 = 100;

/// The number of packets in the window that distinguishes late packets from duplicates.
const WINDOW_BITS: i64 = 128;

/// The classification of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceUpdate {
    /// The packet is the newest so far.
    Newest,
    /// The packet fills a gap.
    Reordered,
    /// The packet has arrived before.
    Duplicate,
    /// The packet is far from all others. We count it, but ignore it unless the next packet follows
    /// it.
    Stray,
    /// The packet follows a stray. Both are the beginning of a new sequence.
    Restart,
}

/// Tracks the sequence numbers of a source that has passed probation.
///
/// The fields that a packet in sequence uses come first, because a source should need few cache
/// lines.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SequenceTracker {
    /// A window of the numbers that have arrived. Bit 0 is the newest number, bit 127 the number
    /// 127 before it.
    seen: u128,
    /// The newest sequence number, extended by its cycles of 2¹⁶.
    newest: i64,
    /// The number of all packets that belong to the source.
    received: u64,
    /// The sequence number after that of the last stray, which is a packet far from all others.
    bad_seq: Option<u16>,
    /// The first sequence number since the last restart, extended by its cycles of 2¹⁶.
    base: i64,
    /// The counts without [`Counts::received`], which is a field of its own.
    counts: Counts,
    /// The number of packets that were expected before the last restart.
    expected_before: u64,
    /// The number of packets by which late packets have moved the beginning of the source back. RFC
    /// 3550 does not move it, so RTCP reports leave this number out.
    moved: i64,
    runs: LossRuns,
}

/// Counts the packets of a source by classification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of all packets that belong to the source, including duplicates.
    pub received: u64,
    /// The number of packets that arrived after a later one.
    pub reordered: u64,
    /// The number of packets that had arrived before.
    pub duplicates: u64,
    /// The number of packets that were far from all others. The stray with which a restart begins
    /// does not count.
    pub strays: u64,
    /// The number of restarts.
    pub restarts: u64,
}

impl SequenceTracker {
    /// Creates a tracker for a source whose first packet has this number.
    pub(crate) fn new(first: u16) -> Self {
        SequenceTracker {
            base: i64::from(first),
            newest: i64::from(first),
            seen: 1,
            bad_seq: None,
            received: 1,
            counts: Counts::default(),
            expected_before: 0,
            moved: 0,
            runs: LossRuns::default(),
        }
    }

    /// Records a packet.
    #[inline]
    pub(crate) fn update(&mut self, number: u16) -> SequenceUpdate {
        let ahead = number.wrapping_sub(self.newest as u16);
        if ahead != 0 && ahead < DROPOUT {
            if ahead > 1 || self.seen >> (WINDOW_BITS - 1) == 0 {
                self.leave_window(ahead.into());
            }
            self.newest += i64::from(ahead);
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.received += 1;
            self.bad_seq = None;
            return SequenceUpdate::Newest;
        }
        self.update_behind(number)
    }

    /// Records the losses among the numbers that leave the window when the newest number grows.
    #[cold]
    fn leave_window(&mut self, ahead: i64) {
        let oldest = self.newest - (WINDOW_BITS - 1);
        for at in oldest.max(self.base)..oldest + ahead {
            // Numbers after the newest one are lost if they leave the window at once.
            let behind = self.newest - at;
            if behind < 0 || self.seen >> behind & 1 == 0 {
                self.runs.lost(at);
            }
        }
    }

    #[cold]
    fn update_behind(&mut self, number: u16) -> SequenceUpdate {
        let behind = (self.newest as u16).wrapping_sub(number);
        if behind <= MISORDER {
            let bit = 1 << behind;
            let is_new = self.seen & bit == 0;
            self.seen |= bit;
            self.received += 1;
            // If the packet precedes the first one, the source began with this packet, and not with
            // the one that arrived first.
            let number = self.newest - i64::from(behind);
            if number < self.base {
                self.moved += self.base - number;
                self.base = number;
            }
            return if is_new {
                self.counts.reordered += 1;
                SequenceUpdate::Reordered
            } else {
                self.counts.duplicates += 1;
                SequenceUpdate::Duplicate
            };
        }
        self.update_far(number)
    }

    /// Records a packet that is far from all others, or whose number is not plausible otherwise.
    #[cold]
    pub(crate) fn update_far(&mut self, number: u16) -> SequenceUpdate {
        if self.bad_seq.replace(number.wrapping_add(1)) != Some(number) {
            self.counts.strays += 1;
            return SequenceUpdate::Stray;
        }
        self.expected_before = self.expected();
        self.leave_window(WINDOW_BITS);
        self.runs.restart();
        self.counts.strays -= 1;
        self.counts.restarts += 1;
        self.received += 2;
        self.bad_seq = None;
        // The new sequence begins with the stray and this packet.
        self.base = i64::from(number) - 1;
        self.newest = i64::from(number);
        self.seen = 0b11;
        SequenceUpdate::Restart
    }

    /// Returns whether a packet with this number has arrived, if the number is at most [`MISORDER`]
    /// behind the newest one.
    pub(crate) fn has(&self, number: u16) -> bool {
        let behind = (self.newest as u16).wrapping_sub(number);
        behind <= MISORDER && self.seen >> behind & 1 == 1
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            received: self.received,
            ..self.counts
        }
    }

    /// Returns the number of packets that should have arrived. Source: A.3.
    pub(crate) fn expected(&self) -> u64 {
        self.expected_before + (self.newest - self.base + 1) as u64
    }

    /// Returns the number of packets that have not arrived. The number is exact, because duplicates
    /// do not count.
    pub(crate) fn lost(&self) -> u64 {
        let single = self.received - self.counts.duplicates;
        self.expected().saturating_sub(single)
    }

    /// Returns the bursts and gaps of the losses.
    pub(crate) fn bursts(mut self) -> Bursts {
        self.leave_window(WINDOW_BITS);
        self.runs.summary(self.expected())
    }

    /// Returns the loss for RTCP reports, in which duplicates compensate for losses. Source: A.3.
    pub(crate) fn reported_lost(&self) -> i64 {
        self.expected() as i64 - self.moved - self.received as i64
    }

    /// Returns the newest sequence number.
    #[inline]
    pub(crate) fn newest(&self) -> u16 {
        self.newest as u16
    }

    /// Returns the highest sequence number with its cycles of 2¹⁶, modulo 2³².
    pub(crate) fn extended(&self) -> u32 {
        self.newest as u32
    }
}

/// Measures how late packets arrive compared with the earliest packets of the last seconds.
///
/// A packet is late if its transit time exceeds a baseline. The baseline is the minimum transit
/// time of the current window and of the one before. It therefore follows the sender's clock. For
/// example, a clock that is slow by 500 ppm moves the baseline by at most 4 ms in two windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lateness {
    /// The end of the first window, and its minimum transit time.
    first: Option<(u64, i64)>,
    /// The end of the current window.
    until: u64,
    /// The minimum transit time of the current window.
    least: i64,
    /// The minimum transit time of the previous window.
    before: i64,
}

/// The length of a window in nanoseconds.
const WINDOW: u64 = 4_000_000_000;

impl Default for Lateness {
    fn default() -> Self {
        Lateness {
            first: None,
            until: 0,
            least: i64::MAX,
            before: i64::MAX,
        }
    }
}

impl Lateness {
    /// Records a packet. `media` is the time of its sound since the beginning of the source, in
    /// nanoseconds. Returns how long after its due time the packet arrived, in nanoseconds.
    #[inline]
    pub(crate) fn update(&mut self, media: i64, arrival: u64) -> u64 {
        let transit = arrival as i64 - media;
        if arrival >= self.until {
            self.next_window(arrival);
        }
        self.least = self.least.min(transit);
        (transit - self.least.min(self.before)).max(0) as u64
    }

    #[cold]
    fn next_window(&mut self, arrival: u64) {
        if self.least != i64::MAX {
            self.first.get_or_insert((arrival, self.least));
        }
        self.before = self.least;
        self.least = i64::MAX;
        self.until = arrival + WINDOW;
    }

    /// Returns how much faster the sender's clock runs than ours, in millionths, or `None` before
    /// the third window.
    pub(crate) fn drift_ppm(&self) -> Option<f64> {
        let (at, least) = self.first?;
        let windows = (self.until.saturating_sub(at)) / WINDOW;
        let now = self.before.min(self.least);
        (windows >= 2 && now != i64::MAX).then(|| {
            // The minimum belongs to the previous window, so we count the time up to the end of
            // that window.
            let time = (self.until - WINDOW - at) as f64;
            -1e6 * (self.before - least) as f64 / time.max(1.0)
        })
    }

    /// Handles a restart of the source.
    pub(crate) fn restart(&mut self) {
        *self = Lateness::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(numbers: &[u16]) -> SequenceTracker {
        let mut sequence = SequenceTracker::new(numbers[0]);
        for &number in &numbers[1..] {
            sequence.update(number);
        }
        sequence
    }

    #[test]
    fn losses_reordered_packets_and_duplicates_are_counted_separately() {
        // 65535 is late, 1 is lost, and 2 arrives twice.
        let sequence = tracked(&[65_533, 65_534, 0, 65_535, 2, 2, 3]);
        let counts = sequence.counts();
        assert_eq!(
            (counts.received, counts.reordered, counts.duplicates),
            (7, 1, 1)
        );
        assert_eq!((sequence.lost(), sequence.expected()), (1, 7));
        assert_eq!(sequence.extended(), 65_536 + 3);
        // In a report, the duplicate compensates for the loss.
        assert_eq!(sequence.reported_lost(), 0);
    }

    #[test]
    fn losses_are_grouped_into_bursts_and_reordered_packets_are_not_losses() {
        let mut numbers: Vec<u16> = (0..1_000).filter(|n| !(500..510).contains(n)).collect();
        numbers.retain(|&n| n != 100 && n != 995);
        numbers.swap(300, 340);
        let sequence = tracked(&numbers);
        let bursts = sequence.bursts();
        assert_eq!(sequence.lost(), 12);
        assert_eq!((bursts.bursts, bursts.burst_packets), (1, 10.0));
        assert_eq!((bursts.burst_density, bursts.run_packets), (1.0, 4.0));
        assert_eq!(bursts.gap_density, 2.0 / 990.0);
        // These numbers have a gap that is larger than the window.
        let bursts = tracked(&[0, 1, 2, 1_000, 1_001]).bursts();
        assert_eq!((bursts.bursts, bursts.burst_packets), (1, 997.0));
    }

    #[test]
    fn a_packet_that_is_75_numbers_late_counts_as_reordered_only() {
        let mut numbers: Vec<u16> = (0..200).filter(|&n| n != 50).collect();
        numbers.insert(125, 50);
        let sequence = tracked(&numbers);
        let counts = sequence.counts();
        assert_eq!(
            (
                sequence.lost(),
                counts.reordered,
                counts.restarts,
                counts.strays
            ),
            (0, 1, 0, 0)
        );
    }

    #[test]
    fn one_distant_packet_is_a_stray_and_two_in_sequence_restart_the_source() {
        let mut sequence = tracked(&[10, 11, 12]);
        assert_eq!(sequence.update(40_000), SequenceUpdate::Stray);
        assert_eq!(sequence.update(13), SequenceUpdate::Newest);
        assert_eq!(sequence.counts().strays, 1);
        assert_eq!(sequence.update(50_000), SequenceUpdate::Stray);
        assert_eq!(sequence.update(50_001), SequenceUpdate::Restart);
        assert_eq!(sequence.update(50_003), SequenceUpdate::Newest);
        let counts = sequence.counts();
        assert_eq!((counts.strays, counts.restarts, counts.received), (1, 1, 7));
        assert_eq!((sequence.expected(), sequence.lost()), (4 + 4, 1));
    }

    #[test]
    fn a_packet_before_the_first_moves_the_base_sequence() {
        let sequence = tracked(&[5, 3, 6]);
        assert_eq!((sequence.expected(), sequence.lost()), (4, 1));
        // For RFC 3550, the first packet is the base, so a report expects 5 and 6 only. Three
        // packets have arrived, so the reported loss is -1.
        assert_eq!(sequence.reported_lost(), -1);
    }

    #[test]
    fn no_loss_is_counted_for_any_order_within_the_window() {
        let mut state = 1_u64;
        for seed in 0..200_u16 {
            let mut numbers: Vec<u16> = (0..300)
                .map(|n| seed.wrapping_mul(331).wrapping_add(n))
                .collect();
            for chunk in numbers.chunks_mut(40) {
                for n in (1..chunk.len()).rev() {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    chunk.swap(n, (state >> 33) as usize % (n + 1));
                }
            }
            let sequence = tracked(&numbers);
            assert_eq!(
                (sequence.lost(), sequence.expected()),
                (0, 300),
                "seed {seed}"
            );
            assert_eq!(sequence.counts().duplicates, 0);
        }
    }

    #[test]
    fn a_slow_sender_is_not_late_and_its_drift_is_measured() {
        for ppm in [-500.0, 0.0, 500.0] {
            let mut lateness = Lateness::default();
            let mut most = 0;
            for n in 0..30_000_u64 {
                let media = n as i64 * 10_000_000;
                let arrival = (media as f64 * (1.0 - ppm / 1e6)) as u64 + 1_000_000_000;
                most = most.max(lateness.update(media, arrival));
            }
            assert!(most <= 5_000_000, "{ppm}: {most} ns");
            let drift = lateness.drift_ppm().unwrap();
            assert!((drift - ppm).abs() < 20.0, "{ppm}: got {drift}");
        }
    }

    #[test]
    fn lateness_equals_the_added_delay() {
        let mut lateness = Lateness::default();
        for n in 0..100_u64 {
            let late = if n == 50 { 30_000_000 } else { 0 };
            let got = lateness.update(n as i64 * 10_000_000, 7 + n * 10_000_000 + late);
            assert_eq!(got, late);
        }
    }
}
