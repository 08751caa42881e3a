//! What a receiver makes of one source's packets, as RFC 3550 says.
//!
//! A source counts from its first two packets in sequence on (A.1); what it sent before is told
//! with it then. Sequence numbers are extended by their cycles; a packet at most [`MISORDER`]
//! behind the newest is a late one or a duplicate, by a window of that many bits; one up to
//! [`DROPOUT`] ahead leaves a gap; anything else is a stray, unless the next packet follows it:
//! then the source has started anew. Jitter is A.8's, in the clock of the payload type.
//!
//! Source: RFC 3550 appendices A.1, A.3, A.8 and section 6.4.1.

use std::time::Duration;

/// A packet further ahead of the newest is no gap. Source: A.1, MAX_DROPOUT.
pub(crate) const DROPOUT: u16 = 3_000;
/// A packet further behind the newest is not late. Source: A.1, MAX_MISORDER.
pub(crate) const MISORDER: u16 = 100;

/// What a packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceUpdate {
    /// The newest so far.
    Newest,
    /// It fills a gap.
    Reordered,
    /// It has come before.
    Duplicate,
    /// It belongs to nothing; counted, and not heard, unless the next one follows it.
    Stray,
    /// It follows a stray: both are the begin of a new start.
    Restart,
}

/// The sequence numbers of one source that has passed its probation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceTracker {
    /// The first number of this start, and the newest, extended by cycles.
    base: i64,
    newest: i64,
    /// Which of the newest and the 127 numbers before it have come: bit 0 is the newest.
    seen: u128,
    /// A number that would be the next one after a stray.
    bad_seq: Option<u16>,
    counts: Counts,
    /// Of former starts: what was expected.
    expected_before: u64,
}

/// Packets of a source by what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that belong to it, duplicates included.
    pub received: u64,
    /// Those that came after a later one.
    pub reordered: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// Those far from all others.
    pub strays: u64,
    /// How often it began anew.
    pub restarts: u64,
}

impl SequenceTracker {
    /// A source whose first packet has this number.
    pub(crate) fn new(first: u16) -> Self {
        SequenceTracker {
            base: i64::from(first),
            newest: i64::from(first),
            seen: 1,
            bad_seq: None,
            counts: Counts {
                received: 1,
                ..Counts::default()
            },
            expected_before: 0,
        }
    }

    /// Notes the next packet.
    #[inline]
    pub(crate) fn update(&mut self, number: u16) -> SequenceUpdate {
        let ahead = number.wrapping_sub(self.newest as u16);
        if ahead != 0 && ahead < DROPOUT {
            self.newest += i64::from(ahead);
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.counts.received += 1;
            self.bad_seq = None;
            return SequenceUpdate::Newest;
        }
        self.update_behind(number)
    }

    #[cold]
    fn update_behind(&mut self, number: u16) -> SequenceUpdate {
        let behind = (self.newest as u16).wrapping_sub(number);
        if behind <= MISORDER {
            let bit = 1 << behind;
            let is_new = self.seen & bit == 0;
            self.seen |= bit;
            self.counts.received += 1;
            // One from before the begin: the source had begun earlier.
            self.base = self.base.min(self.newest - i64::from(behind));
            return if is_new {
                self.counts.reordered += 1;
                SequenceUpdate::Reordered
            } else {
                self.counts.duplicates += 1;
                SequenceUpdate::Duplicate
            };
        }
        if self.bad_seq.replace(number.wrapping_add(1)) != Some(number) {
            self.counts.strays += 1;
            return SequenceUpdate::Stray;
        }
        self.expected_before = self.expected();
        self.counts.strays -= 1;
        self.counts.restarts += 1;
        self.counts.received += 2;
        self.bad_seq = None;
        // The stray and this one.
        self.base = i64::from(number) - 1;
        self.newest = i64::from(number);
        self.seen = 0b11;
        SequenceUpdate::Restart
    }

    /// What has come.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// How many packets there should be. Source: A.3.
    pub(crate) fn expected(&self) -> u64 {
        self.expected_before + (self.newest - self.base + 1) as u64
    }

    /// How many have not come: exactly, because what came twice is left out.
    pub(crate) fn lost(&self) -> u64 {
        let single = self.counts.received - self.counts.duplicates;
        self.expected().saturating_sub(single)
    }

    /// What a report calls lost: what came twice makes up for losses. Source: A.3.
    pub(crate) fn reported_lost(&self) -> i64 {
        self.expected() as i64 - self.counts.received as i64
    }

    /// The highest number, with its cycles: modulo 2³².
    pub(crate) fn extended(&self) -> u32 {
        self.newest as u32
    }
}

/// The interarrival jitter of one source, in its clock's ticks. Source: A.8.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Jitter {
    /// Arrival minus timestamp of the packet before; modulo 2³².
    transit: Option<u32>,
    jitter: f64,
    max: f64,
}

impl Jitter {
    /// Notes a packet that arrived at `arrival` nanoseconds.
    #[inline]
    pub(crate) fn update(&mut self, timestamp: u32, arrival: u64, clock: u32) {
        // Seconds and the rest apart: the products stay within 64 bits.
        let (seconds, rest) = (arrival / 1_000_000_000, arrival % 1_000_000_000);
        let clock = u64::from(clock);
        let ticks = (seconds.wrapping_mul(clock) + rest * clock / 1_000_000_000) as u32;
        let transit = ticks.wrapping_sub(timestamp);
        if let Some(before) = self.transit.replace(transit) {
            let distance = f64::from((transit.wrapping_sub(before) as i32).unsigned_abs());
            self.jitter += (distance - self.jitter) / 16.0;
            if self.jitter > self.max {
                self.max = self.jitter;
            }
        }
    }

    /// The source has begun anew: its timestamps, too.
    pub(crate) fn restart(&mut self) {
        self.transit = None;
    }

    /// In ticks, as reports tell it.
    pub(crate) fn ticks(&self) -> u32 {
        self.jitter as u32
    }

    /// Now and at most, in milliseconds.
    pub(crate) fn millis(&self, clock: u32) -> (f64, f64) {
        let ms = 1_000.0 / f64::from(clock.max(1));
        (self.jitter * ms, self.max * ms)
    }
}

/// How late packets come against the earliest ones of the last seconds, whatever the sender's
/// clock does.
///
/// The line from which lateness counts is the least transit time of the present window and the
/// one before it: a clock that runs slow by 500 ppm moves it by 4 ms in two windows at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lateness {
    /// The first window's end and least transit.
    first: Option<(u64, i64)>,
    /// The present window's end, its least transit and that of the window before.
    until: u64,
    least: i64,
    before: i64,
}

/// Of [`Lateness`], in nanoseconds.
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
    /// Notes a packet whose sound belongs `media` nanoseconds after the source's first; how long
    /// after its time it came.
    #[inline]
    pub(crate) fn update(&mut self, media: i64, arrival: u64) -> Duration {
        let transit = arrival as i64 - media;
        if arrival >= self.until {
            self.next_window(arrival);
        }
        self.least = self.least.min(transit);
        Duration::from_nanos((transit - self.least.min(self.before)).max(0) as u64)
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

    /// How much faster the sender's clock runs than ours, in millionths; none before there are
    /// three windows.
    pub(crate) fn drift_ppm(&self) -> Option<f64> {
        let (at, least) = self.first?;
        let windows = (self.until.saturating_sub(at)) / WINDOW;
        let now = self.before.min(self.least);
        (windows >= 2 && now != i64::MAX).then(|| {
            // The line is that of the window before on average.
            let time = (self.until - WINDOW - at) as f64;
            -1e6 * (self.before - least) as f64 / time.max(1.0)
        })
    }

    /// The source has begun anew.
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
        // 65535 is late, 1 is lost, 2 comes twice.
        let sequence = tracked(&[65_533, 65_534, 0, 65_535, 2, 2, 3]);
        let counts = sequence.counts();
        assert_eq!(
            (counts.received, counts.reordered, counts.duplicates),
            (7, 1, 1)
        );
        assert_eq!((sequence.lost(), sequence.expected()), (1, 7));
        assert_eq!(sequence.extended(), 65_536 + 3);
        // A duplicate makes up for the loss in a report.
        assert_eq!(sequence.reported_lost(), 0);
    }

    #[test]
    fn a_packet_75_late_counts_as_reordered_only() {
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
    fn jitter_matches_rfc_3550() {
        let mut jitter = Jitter::default();
        // 20 ms at 8,000 ticks: 160. Even arrivals, then one 5 ms late and even ones after it.
        for n in 0..100_u64 {
            jitter.update(n as u32 * 160, 1_000_000_000 + n * 20_000_000, 8_000);
        }
        assert_eq!(jitter.ticks(), 0);
        jitter.update(
            100 * 160,
            1_000_000_000 + 100 * 20_000_000 + 5_000_000,
            8_000,
        );
        // 40 ticks, by sixteenths.
        assert_eq!(jitter.millis(8_000).0, 40.0 / 16.0 / 8.0);
    }

    #[test]
    fn a_slow_sender_is_not_late_and_its_drift_is_measured() {
        for ppm in [-500.0, 0.0, 500.0] {
            let mut lateness = Lateness::default();
            let mut most = Duration::ZERO;
            for n in 0..30_000_u64 {
                let media = n as i64 * 10_000_000;
                let arrival = (media as f64 * (1.0 - ppm / 1e6)) as u64 + 1_000_000_000;
                most = most.max(lateness.update(media, arrival));
            }
            assert!(most <= Duration::from_millis(5), "{ppm}: {most:?}");
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
            assert_eq!(got, Duration::from_nanos(late));
        }
    }
}
