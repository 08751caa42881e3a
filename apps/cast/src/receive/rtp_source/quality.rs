//! The quality of one source: our own reports and rating, and what other hosts report about it.

use super::{RtpSource, nanos};
use crate::measure::quality::rating;
use crate::net::rtcp::{ReportBlock, compact_ntp};
use crate::net::xr::VoipMetrics;
use std::time::Duration;

/// The last reports of other hosts about a source.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::receive) struct Reported {
    pub(in crate::receive) block: Option<ReportBlock>,
    pub(in crate::receive) voip: Option<VoipMetrics>,
    /// The round-trip time to the source.
    pub(in crate::receive) round_trip: Option<Duration>,
}

impl Reported {
    /// Adds the reports about the same source that arrived on another port.
    pub(in crate::receive) fn add(&mut self, other: &Reported) {
        self.block = other.block.or(self.block);
        self.voip = other.voip.or(self.voip);
        self.round_trip = other.round_trip.or(self.round_trip);
    }
}

impl RtpSource {
    pub(in crate::receive) fn reported_mut(&mut self) -> &mut Reported {
        &mut self.reported
    }

    /// Returns the reception report block about this source.
    pub(in crate::receive) fn block(&mut self, now: u64) -> ReportBlock {
        let counts = self.sequence.counts();
        let (last_sr, delay_since_last_sr) = self.sender.map_or((0, 0), |(info, arrival)| {
            let since = u128::from(now.saturating_sub(arrival));
            (
                compact_ntp(info.ntp),
                (since * 65_536 / 1_000_000_000) as u32,
            )
        });
        ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: self
                .loss_interval
                .fraction_lost(self.sequence.expected(), counts.received),
            lost: self.sequence.reported_lost().max(0) as u32,
            highest_sequence: self.sequence.extended(),
            jitter: self
                .spacing
                .ticks(self.format.map_or(8_000, |(_, format)| format.clock)),
            last_sr,
            delay_since_last_sr,
        }
    }

    /// Returns the duration of a packet in nanoseconds, if it is known.
    pub(super) fn packet_nanos(&self) -> Option<i64> {
        let (_, format) = self.format.filter(|_| self.step > 0)?;
        Some(nanos(self.step.into(), format.clock))
    }

    /// Returns the delay of a receiver with a buffer of `buffer` nanoseconds.
    fn end_system(&self, buffer: u64) -> Duration {
        Duration::from_nanos(buffer + self.packet_nanos().unwrap_or(0) as u64)
    }

    /// Returns the rating of the E-model and the opinion score. The delay is that of the receiver,
    /// and half of the round-trip time if it is known.
    pub(super) fn rating(&self, buffer: u64) -> Option<(f64, f64)> {
        let network = self.reported.round_trip.unwrap_or_default() / 2;
        self.rating_with(self.end_system(buffer) + network)
    }

    fn rating_with(&self, delay: Duration) -> Option<(f64, f64)> {
        let (number, _) = self.format?;
        let expected = self.sequence.expected().max(1);
        let missing = (self.sequence.lost() + self.late) as f64 / expected as f64;
        let run_packets = self.sequence.bursts().run_packets;
        rating(number, missing.min(1.0), run_packets, delay)
    }

    /// Returns the quality for an extended report, if the source is voice with a known codec.
    pub(in crate::receive) fn voip_metrics(&self, buffer: u64) -> Option<VoipMetrics> {
        let (rating, conversation) = self.rating(buffer)?;
        let (_, listening) = self.rating_with(Duration::ZERO)?;
        let expected = self.sequence.expected().max(1) as f64;
        let bursts = self.sequence.bursts();
        let packet_ms = self.packet_nanos().unwrap_or(0) as f64 / 1e6;
        let share = |share: f64| (share * 256.0).min(255.0) as u8;
        let ms = |packets: f64| (packets * packet_ms).min(f64::from(u16::MAX)) as u16;
        let whole_ms = |time: Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
        Some(VoipMetrics {
            ssrc: self.ssrc,
            lost: share(self.sequence.lost() as f64 / expected),
            discarded: share(self.late as f64 / expected),
            burst_density: share(bursts.burst_density),
            gap_density: share(bursts.gap_density),
            burst_ms: ms(bursts.burst_packets),
            gap_ms: ms(bursts.gap_packets),
            round_trip_ms: whole_ms(self.reported.round_trip.unwrap_or_default()),
            end_system_ms: whole_ms(self.end_system(buffer)),
            rating: Some(rating.round() as u8),
            listening: Some((listening * 10.0).round() as u8),
            conversation: Some((conversation * 10.0).round() as u8),
            buffer_ms: whole_ms(Duration::from_nanos(buffer)),
        })
    }
}
