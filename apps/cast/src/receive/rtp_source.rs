//! The state of one RTP source: RFC 3550's statistics, arrival times, and the recording.

use super::recorder::Recorder;
use crate::measure::context::with_histograms;
use crate::measure::reception::{Jitter, Lateness, SequenceTracker, SequenceUpdate};
use crate::measure::stats::{Stations, StreamStats};
use crate::media::dtmf::DtmfReceiver;
use crate::media::format::{Encoding, Format, Formats};
use crate::net::rtcp::{LossInterval, ReportBlock, SenderInfo, compact_ntp};
use crate::net::rtp::Header;
use crate::results::SourceReport;
use creel::time::Clock;
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum number of payload types that we list per source.
const PAYLOAD_TYPES_MAX: usize = 16;
/// A larger difference between the timestamps and the arrival times, in nanoseconds, means that the
/// source has a new clock, not that it paused.
const TIMESTAMP_JUMP: i64 = 10_000_000_000;

/// A packet as it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
    /// The number of payload bytes that were not captured.
    pub(super) missing: usize,
    pub(super) from: SocketAddr,
    /// The time of arrival, in nanoseconds of the clock.
    pub(super) arrival: u64,
}

/// The state of one source.
///
/// With thousands of sources, none is in the cache when its packet arrives. The fields that every
/// packet uses therefore come first. They are contiguous, and there is no pointer to follow.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct RtpSource {
    ssrc: u32,
    /// The payload type of the last packet, and its format.
    current_type: Option<(u8, Option<Format>)>,
    from: SocketAddr,
    sequence: SequenceTracker,
    jitter: Jitter,
    lateness: Lateness,
    stats: StreamStats,
    bytes: u64,
    late: u64,
    last_arrival: u64,
    /// The extended timestamp of the newest packet, and the timestamp at the last restart.
    timestamp: i64,
    base: i64,
    recorder: Option<Recorder>,
    /// The payload type and the format of the audio packets.
    format: Option<(u8, Format)>,
    payload_types: Vec<u8>,
    first_arrival: u64,
    /// The number of frames before the last restart.
    offset: i64,
    keys: DtmfReceiver,
    /// The last packet whose sequence number was far from all others. It starts a new sequence if
    /// the next packet follows it.
    stray: Option<(Header, Vec<u8>, usize, u64)>,
    sender: Option<(SenderInfo, u64)>,
    has_left: bool,
    loss_interval: LossInterval,
    /// The number of packets that could not be recorded, for example because of their format.
    unrecorded: u64,
}

impl RtpSource {
    /// Creates a source from its first packet.
    pub(super) fn new(first: &Packet<'_>, recorder: Option<Recorder>) -> Self {
        let timestamp = i64::from(first.header.timestamp);
        RtpSource {
            ssrc: first.header.ssrc,
            current_type: None,
            from: first.from,
            sequence: SequenceTracker::new(first.header.sequence),
            jitter: Jitter::default(),
            lateness: Lateness::default(),
            stats: StreamStats::default(),
            format: None,
            payload_types: Vec::new(),
            bytes: 0,
            late: 0,
            first_arrival: first.arrival,
            last_arrival: first.arrival,
            timestamp,
            base: timestamp,
            offset: 0,
            keys: DtmfReceiver::default(),
            recorder,
            stray: None,
            sender: None,
            has_left: false,
            loss_interval: LossInterval::default(),
            unrecorded: 0,
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Processes a packet after the first. A packet that is more than `late_after` nanoseconds late
    /// counts as late.
    pub(super) fn receive(&mut self, packet: &Packet<'_>, formats: &Formats, late_after: u64) {
        let update = self.sequence.update(packet.header.sequence);
        match update {
            SequenceUpdate::Stray => return self.keep_stray(packet),
            SequenceUpdate::Restart => self.restart_from_stray(packet, formats, late_after),
            _ => {}
        }
        self.accept(packet, update, formats, late_after);
    }

    #[cold]
    fn keep_stray(&mut self, packet: &Packet<'_>) {
        let payload = packet.payload.to_vec();
        self.stray = Some((packet.header, payload, packet.missing, packet.arrival));
    }

    /// Restarts the source with the stray packet that this packet follows.
    #[cold]
    fn restart_from_stray(&mut self, packet: &Packet<'_>, formats: &Formats, late_after: u64) {
        let Some((header, payload, missing, arrival)) = self.stray.take() else {
            return self.restart(packet);
        };
        let first = Packet {
            header,
            payload: &payload,
            missing,
            from: packet.from,
            arrival,
        };
        self.restart(&first);
        self.accept(&first, SequenceUpdate::Newest, formats, late_after);
    }

    /// Processes a packet that belongs to the source's sequence.
    pub(super) fn accept(
        &mut self,
        packet: &Packet<'_>,
        update: SequenceUpdate,
        formats: &Formats,
        late_after: u64,
    ) {
        let header = packet.header;
        self.bytes += (packet.payload.len() + packet.missing) as u64;
        self.last_arrival = packet.arrival;
        if self.from != packet.from {
            self.from = packet.from;
        }
        let of_type = match self.current_type {
            Some((number, of_type)) if number == header.payload_type => of_type,
            _ => self.set_payload_type(header.payload_type, formats),
        };
        let distance = header.timestamp.wrapping_sub(self.timestamp as u32) as i32;
        let extended = self.timestamp + i64::from(distance);
        let Some(format) = of_type else {
            self.timestamp = extended;
            self.record_times(packet, 0);
            return;
        };
        if format.encoding == Encoding::Event {
            // The timestamp is constant while a key is held, so it says nothing about time.
            self.keys.record(header.timestamp, packet.payload);
            self.record_times(packet, 0);
            return;
        }
        let clock = i64::from(format.clock);
        // We convert the seconds and the rest separately, so that the products fit into 64 bits.
        let nanos =
            |ticks: i64| ticks / clock * 1_000_000_000 + ticks % clock * 1_000_000_000 / clock;
        let jump = nanos(i64::from(distance)) - (packet.arrival as i64 - self.stats.last() as i64);
        if self.stats.last() > 0 && jump.abs() > TIMESTAMP_JUMP && update == SequenceUpdate::Newest
        {
            self.restart(packet);
            return self.record(packet, i64::from(header.timestamp), format, update);
        }
        if distance > 0 || update == SequenceUpdate::Newest {
            self.timestamp = extended;
        }
        if update != SequenceUpdate::Duplicate {
            self.jitter
                .update(header.timestamp, packet.arrival, format.clock);
        }
        let late = self
            .lateness
            .update(nanos(extended - self.base), packet.arrival)
            .as_nanos() as u64;
        self.late += u64::from(late > late_after);
        self.record_times(packet, late);
        self.record(packet, extended, format, update);
    }

    #[inline]
    fn record_times(&mut self, packet: &Packet<'_>, late: u64) {
        let at = Stations {
            due: packet.arrival.saturating_sub(late),
            made: packet.arrival,
            arrived: Clock::monotonic().nanos().max(packet.arrival),
        };
        with_histograms(|histograms| self.stats.note(histograms, at));
    }

    /// Switches to another payload type, and returns its format.
    #[cold]
    fn set_payload_type(&mut self, number: u8, formats: &Formats) -> Option<Format> {
        let there = self.payload_types.iter().position(|&known| known == number);
        match there {
            // We keep the current type at the end of the list.
            Some(at) => self.payload_types[at..].rotate_left(1),
            None if self.payload_types.len() < PAYLOAD_TYPES_MAX => self.payload_types.push(number),
            None => {}
        }
        let of_type = formats.of(number);
        self.current_type = Some((number, of_type));
        let audio = of_type.filter(|format| format.encoding != Encoding::Event);
        if let Some(format) = audio.filter(|_| self.format.is_none_or(|(known, _)| known != number))
        {
            self.format = Some((number, format));
        }
        of_type
    }

    /// Restarts the source. From now on the positions in the recording follow the time of arrival.
    #[cold]
    fn restart(&mut self, packet: &Packet<'_>) {
        let rate = self.format.map_or(8_000, |(_, format)| format.rate());
        let since = packet.arrival.saturating_sub(self.first_arrival);
        let frame = (u128::from(since) * u128::from(rate) / 1_000_000_000) as i64;
        let end = self.recorder.as_ref().map_or(0, Recorder::end);
        self.offset = frame.max(end);
        self.timestamp = i64::from(packet.header.timestamp);
        self.base = self.timestamp;
        self.jitter.restart();
        self.lateness.restart();
    }

    fn record(
        &mut self,
        packet: &Packet<'_>,
        extended: i64,
        format: Format,
        update: SequenceUpdate,
    ) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if update == SequenceUpdate::Duplicate || packet.missing > 0 {
            return;
        }
        let frame = self.offset + format.frames(extended - self.base);
        if !recorder.record(packet.header.payload_type, format, frame, packet.payload) {
            self.unrecorded += 1;
        }
    }

    /// Records a sender report of the source.
    pub(super) fn set_sender_info(&mut self, info: SenderInfo, arrival: u64) {
        if self.sender.is_none_or(|(_, before)| before <= arrival) {
            self.sender = Some((info, arrival));
        }
    }

    pub(super) fn mark_left(&mut self) {
        self.has_left = true;
    }

    /// Returns the reception report block about this source.
    pub(super) fn block(&mut self, now: u64) -> ReportBlock {
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
            jitter: self.jitter.ticks(),
            last_sr,
            delay_since_last_sr,
        }
    }

    /// Returns the address from which the source sends.
    pub(super) fn from(&self) -> SocketAddr {
        self.from
    }

    /// Returns the row of the source, and ends its recording.
    pub(super) fn into_report(self, port: u16) -> (SourceReport, StreamStats) {
        let counts = self.sequence.counts();
        let (jitter_ms, jitter_max_ms) = self.format.map_or((None, None), |(_, format)| {
            let (now, most) = self.jitter.millis(format.clock);
            (Some(now), Some(most))
        });
        let time = Duration::from_nanos(self.last_arrival.saturating_sub(self.first_arrival));
        let report = SourceReport {
            stream: 0,
            ssrc: self.ssrc,
            port,
            from: self.from,
            format: self.format.map(|(_, format)| format),
            payload_types: self.payload_types,
            packets: counts.received,
            bytes: self.bytes,
            seconds: time.as_secs_f64(),
            expected: self.sequence.expected(),
            lost: self.sequence.lost(),
            late: self.late,
            reordered: counts.reordered,
            duplicates: counts.duplicates,
            strays: counts.strays,
            restarts: counts.restarts,
            jitter_ms,
            jitter_max_ms,
            interval_ms: self.stats.interval.mean() / 1e6,
            interval_sd_ms: self.stats.interval.deviation() / 1e6,
            drift_ppm: self.lateness.drift_ppm(),
            keys: self.keys.keys().to_owned(),
            sender_packets: self.sender.map(|(info, _)| info.packets),
            sender_bytes: self.sender.map(|(info, _)| info.octets),
            left: self.has_left,
            unrecorded: self.unrecorded,
        };
        (report, self.stats)
    }
}
