//! The time between packets (delta) and the interarrival jitter of RFC 3550, with their minimum,
//! mean and maximum.
//!
//! The figures are those of Wireshark's RTP analysis, because engineers compare them:
//!
//! - Every packet counts in the order of arrival, including duplicates and reordered packets.
//! - A packet with the marker bit begins a talkspurt, so the time before it was the sender's
//!   silence. The same is true of comfort noise, and of the packet after it. Such packets update
//!   the jitter, but neither the deltas nor the distribution of the jitter.
//! - A mean weighs the values before a marked packet as if the marked packet had had their mean.
//!
//! We differ in one point. A timestamp that jumps, or a payload type with another clock, begins a
//! new reference for the jitter. Otherwise one jump of an hour would hide all real jitter.
//!
//! Source: RFC 3550 section 6.4.1 and appendix A.8.

/// The minimum, mean and maximum of some values, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// The smallest value.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The largest value.
    pub max: f64,
}

/// Collects values in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Values {
    sum: f64,
    min: f64,
    max: f64,
    /// The number of the packet with the last value, where the second packet has number 1.
    last: u32,
}

impl Default for Values {
    fn default() -> Self {
        Values {
            sum: 0.0,
            min: f64::MAX,
            max: 0.0,
            last: 0,
        }
    }
}

impl Values {
    #[inline]
    fn add(&mut self, value: f64, number: u32) {
        if self.last + 1 != number && self.last > 0 {
            // A packet without a value counts as if its value were the mean of the values before
            // it.
            self.sum *= f64::from(number - 1) / f64::from(self.last);
        }
        self.sum += value;
        self.last = number;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn range(&self) -> Option<Range> {
        let ms = |nanos: f64| nanos / 1e6;
        (self.last > 0).then(|| Range {
            min: ms(self.min),
            mean: ms(self.sum / f64::from(self.last)),
            max: ms(self.max),
        })
    }
}

/// The deltas and the jitter of one source.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spacing {
    /// The arrival time of the previous packet in nanoseconds, or zero before the first packet.
    arrival: u64,
    /// The arrival time and the timestamp of the previous packet whose clock is known.
    reference: Option<(u64, u32)>,
    /// The jitter in nanoseconds.
    jitter: f64,
    /// The number of packets after the first.
    packets: u32,
    deltas: Values,
    jitters: Values,
}

impl Spacing {
    /// Records the arrival of a packet of any kind.
    #[inline]
    pub(crate) fn arrived(&mut self, arrival: u64, marker: bool) {
        if self.arrival > 0 {
            self.packets = self.packets.saturating_add(1);
            if !marker {
                let delta = arrival as i64 - self.arrival as i64;
                self.deltas.add(delta as f64, self.packets);
            }
        }
        self.arrival = arrival;
    }

    /// Updates the jitter by a packet whose clock is known. Call [`arrived`](Self::arrived) before.
    #[inline]
    pub(crate) fn sound(&mut self, timestamp: u32, arrival: u64, clock: u32, marker: bool) {
        let Some((before, at)) = self.reference.replace((arrival, timestamp)) else {
            return;
        };
        let ticks = timestamp.wrapping_sub(at) as i32;
        let media = f64::from(ticks) * (1e9 / f64::from(clock.max(1)));
        let distance = ((arrival as i64 - before as i64) as f64 - media).abs();
        self.jitter += (distance - self.jitter) / 16.0;
        if !marker {
            self.jitters.add(self.jitter, self.packets.max(1));
        }
    }

    /// Begins a new reference, because the timestamps have a new origin or a new clock.
    pub(crate) fn restart(&mut self) {
        self.reference = None;
    }

    /// Returns the jitter in ticks of a clock, as reports state it.
    pub(crate) fn ticks(&self, clock: u32) -> u32 {
        (self.jitter * f64::from(clock) / 1e9) as u32
    }

    /// Returns the current jitter in milliseconds.
    pub(crate) fn jitter_ms(&self) -> f64 {
        self.jitter / 1e6
    }

    /// Returns the range of the jitter, or `None` if no packet had one.
    pub(crate) fn jitters(&self) -> Option<Range> {
        self.jitters.range()
    }

    /// Returns the range of the times between two packets, or `None` if there are none.
    pub(crate) fn deltas(&self) -> Option<Range> {
        self.deltas.range()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds packets of 20 ms at 8,000 Hz that arrive at these times in microseconds.
    fn spacing(arrivals: &[(u64, u32, bool)]) -> Spacing {
        let mut spacing = Spacing::default();
        for &(micros, timestamp, marker) in arrivals {
            let arrival = 1_000_000_000 + micros * 1_000;
            spacing.arrived(arrival, marker);
            spacing.sound(timestamp, arrival, 8_000, marker);
        }
        spacing
    }

    #[test]
    fn jitter_matches_rfc_3550() {
        let mut arrivals: Vec<_> = (0..100)
            .map(|n| (n * 20_000, n as u32 * 160, false))
            .collect();
        assert_eq!(spacing(&arrivals).ticks(8_000), 0);
        arrivals.push((100 * 20_000 + 5_000, 100 * 160, false));
        // 5 ms are 40 ticks, of which one sixteenth counts.
        let spacing = spacing(&arrivals);
        assert!((spacing.jitter_ms() - 5.0 / 16.0).abs() < 1e-9);
        assert_eq!(spacing.ticks(8_000), 2);
        let deltas = spacing.deltas().unwrap();
        assert_eq!((deltas.min, deltas.max), (20.0, 25.0));
        assert!((deltas.mean - 20.05).abs() < 1e-9);
    }

    #[test]
    fn the_silence_before_a_marked_packet_is_not_a_delta() {
        let arrivals = [
            (0, 0, true),
            (20_000, 160, false),
            (1_000_000, 8_000, true),
            (1_020_000, 8_160, false),
        ];
        let deltas = spacing(&arrivals).deltas().unwrap();
        assert_eq!((deltas.min, deltas.mean, deltas.max), (20.0, 20.0, 20.0));
    }

    #[test]
    fn a_restart_does_not_count_as_jitter() {
        let mut spacing = spacing(&[(0, 0, false), (20_000, 160, false)]);
        spacing.restart();
        spacing.arrived(1_040_000_000, false);
        spacing.sound(0xdead_beef, 1_040_000_000, 48_000, false);
        assert_eq!(spacing.jitter_ms(), 0.0);
    }
}
