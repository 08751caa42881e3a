//! The state of one RTP source: RFC 3550's statistics, arrival times, and the recording.

mod discontinuities;
mod quality;

pub(super) use quality::Reported;

use super::recorder::Recorder;
use crate::measure::context::with_histograms;
use crate::measure::reception::{Lateness, MISORDER, SequenceTracker, SequenceUpdate};
use crate::measure::spacing::Spacing;
use crate::measure::stats::{Stations, StreamStats};
use crate::media::dtmf::DtmfReceiver;
use crate::media::format::{Encoding, Format, Formats};
use crate::media::redundancy;
use crate::net::rtcp::{LossInterval, SenderInfo};
use crate::net::rtp::Header;
use crate::results::SourceReport;
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum number of payload types that we list per source.
const PAYLOAD_TYPES_MAX: usize = 16;
/// Converts ticks of a clock to nanoseconds.
#[inline]
fn nanos(ticks: i64, clock: u32) -> i64 {
    // A float is exact to a nanosecond for a hundred days, and is faster than two divisions of
    // integers.
    (ticks as f64 * (1e9 / f64::from(clock.max(1)))) as i64
}

/// Returns whether packets of this format are comfort noise.
#[inline]
fn is_noise(format: Option<Format>) -> bool {
    format.is_some_and(|it| it.encoding == Encoding::ComfortNoise)
}

/// When a packet arrived and when we read it, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) arrived: u64,
    pub(super) read: u64,
}

impl Times {
    /// Returns the times of a packet that was read when it arrived.
    pub(super) fn at(arrived: u64) -> Self {
        Times {
            arrived,
            read: arrived,
        }
    }
}

/// A packet of a source, with the time at which it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
    /// The number of payload bytes that were not captured.
    pub(super) missing: usize,
    pub(super) from: SocketAddr,
    pub(super) times: Times,
}

/// The state of a source before the last jump of its timestamps. It gives late packets from before
/// the jump their place in the recording.
#[derive(Debug, Clone, Copy)]
struct EarlierSegment {
    /// The first sequence number after the jump.
    until: u16,
    timestamp: i64,
    base: i64,
    offset: i64,
}

/// The state of one source.
///
/// With thousands of sources, none is in the cache when its packet arrives. The fields that every
/// packet uses therefore come first. They are contiguous, and there is no pointer to follow. The
/// fields end with the first half of `sequence`.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct RtpSource {
    ssrc: u32,
    /// The number of clock ticks per packet, or zero if we do not know it yet.
    step: u32,
    /// The payload type of the last packet, and its format.
    current_type: Option<(u8, Option<Format>)>,
    /// Whether the last packet followed the one before it.
    is_in_sequence: bool,
    recorder: Option<Box<Recorder>>,
    earlier: Option<Box<EarlierSegment>>,
    from: SocketAddr,
    bytes: u64,
    late: u64,
    last_arrival: u64,
    /// The extended timestamp of the newest packet.
    timestamp: i64,
    /// The timestamp at the last restart.
    base: i64,
    spacing: Spacing,
    lateness: Lateness,
    stats: StreamStats,
    sequence: SequenceTracker,
    /// The payload type and the format of the audio packets.
    format: Option<(u8, Format)>,
    payload_types: Vec<u8>,
    first_arrival: u64,
    /// The frame of the recording at which the packets after the last restart begin.
    offset: i64,
    keys: DtmfReceiver,
    /// The last packet whose sequence number was far from all others. It starts a new sequence if
    /// the next packet follows it.
    stray: Option<(Header, Vec<u8>, usize, Times)>,
    sender: Option<(SenderInfo, u64)>,
    has_left: bool,
    /// The last reports of other hosts about the source.
    reported: Reported,
    loss_interval: LossInterval,
    /// The number of packets that could not be recorded, for example because of their format.
    unrecorded: u64,
    /// The number of the next packet if the last one was late by more than [`PAUSE`], and the
    /// number of such packets in a row.
    paused: (u64, u64),
    timestamp_jumps: u64,
    clock_changes: u64,
    codec_changes: u64,
    collision: bool,
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
            spacing: Spacing::default(),
            lateness: Lateness::default(),
            stats: StreamStats::default(),
            format: None,
            payload_types: Vec::new(),
            bytes: 0,
            late: 0,
            first_arrival: first.times.arrived,
            last_arrival: first.times.arrived,
            timestamp,
            base: timestamp,
            step: 0,
            offset: 0,
            earlier: None,
            keys: DtmfReceiver::default(),
            recorder: recorder.map(Box::new),
            stray: None,
            sender: None,
            has_left: false,
            reported: Reported::default(),
            loss_interval: LossInterval::default(),
            unrecorded: 0,
            paused: (0, 0),
            timestamp_jumps: 0,
            clock_changes: 0,
            codec_changes: 0,
            collision: false,
            is_in_sequence: false,
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    pub(super) fn is_in_sequence(&self) -> bool {
        self.is_in_sequence
    }

    /// Returns the time at which the last packet arrived.
    pub(super) fn last_arrival(&self) -> u64 {
        self.last_arrival
    }

    /// Returns whether a packet continues the sequence and the timestamps of this source.
    pub(super) fn is_continued_by(&self, header: Header) -> bool {
        let ahead = header.sequence.wrapping_sub(self.sequence.newest());
        let ticks = header.timestamp.wrapping_sub(self.timestamp as u32) as i32;
        let clock = self.format.map_or(90_000, |(_, format)| format.clock);
        let seconds = i64::from(ticks).abs() / i64::from(clock.max(1));
        (1..=MISORDER).contains(&ahead) && seconds < 10
    }

    pub(super) fn mark_collision(&mut self) {
        self.collision = true;
    }

    pub(super) fn move_to(&mut self, from: SocketAddr) {
        self.from = from;
    }

    /// Processes a packet after the first. A packet that is more than `late_after` nanoseconds late
    /// counts as late.
    pub(super) fn receive(&mut self, packet: &Packet<'_>, formats: &Formats, late_after: u64) {
        let ahead = packet.header.sequence.wrapping_sub(self.sequence.newest());
        self.is_in_sequence = ahead == 1;
        let update = match ahead == 1 || !self.is_restart(packet, ahead, formats) {
            true => self.sequence.update(packet.header.sequence),
            false => self.sequence.update_far(packet.header.sequence),
        };
        match update {
            SequenceUpdate::Stray => return self.keep_stray(packet),
            SequenceUpdate::Restart => {
                self.restart_from_stray(packet, formats, late_after);
                return self.accept(packet, update, 1, formats, late_after);
            }
            _ => {}
        }
        self.accept(packet, update, ahead, formats, late_after);
    }

    #[cold]
    fn keep_stray(&mut self, packet: &Packet<'_>) {
        let payload = packet.payload.to_vec();
        self.stray = Some((packet.header, payload, packet.missing, packet.times));
    }

    /// Restarts the source with the stray packet that this packet follows.
    #[cold]
    fn restart_from_stray(&mut self, packet: &Packet<'_>, formats: &Formats, late_after: u64) {
        self.keys.restart();
        let Some((header, payload, missing, times)) = self.stray.take() else {
            return self.restart(packet, 0);
        };
        let first = Packet {
            header,
            payload: &payload,
            missing,
            from: packet.from,
            times,
        };
        self.restart(&first, 0);
        self.accept(&first, SequenceUpdate::Newest, 0, formats, late_after);
    }

    /// Processes a packet that belongs to the source's sequence. `ahead` is the distance of its
    /// sequence number from the newest earlier one, or 0 if the distance is unknown.
    pub(super) fn accept(
        &mut self,
        packet: &Packet<'_>,
        update: SequenceUpdate,
        ahead: u16,
        formats: &Formats,
        late_after: u64,
    ) {
        let header = packet.header;
        let (of_type, follows_noise) = match self.current_type {
            Some((number, of_type)) if number == header.payload_type => (of_type, false),
            before => (
                self.set_payload_type(packet, formats),
                before.is_some_and(|(_, it)| is_noise(it)),
            ),
        };
        if of_type.is_some_and(|it| it.encoding == Encoding::Redundant)
            && let Some(newest) = self.read_redundant(packet, formats)
        {
            return self.accept(&newest, update, ahead, formats, late_after);
        }
        self.bytes += (packet.payload.len() + packet.missing) as u64;
        self.last_arrival = packet.times.arrived;
        // We do not measure a delta before the packets of a silence, or before the first packet of a
        // talkspurt, even if it has no marker.
        let is_first = header.marker || is_noise(of_type) || follows_noise;
        self.spacing.arrived(packet.times.arrived, is_first);
        let distance = header.timestamp.wrapping_sub(self.timestamp as u32) as i32;
        let extended = self.timestamp + i64::from(distance);
        let Some(format) = of_type else {
            self.timestamp = extended;
            self.record_times(packet, 0);
            return;
        };
        if format.encoding == Encoding::Event {
            // The timestamp is constant while a key is held, so it says nothing about time.
            self.record_keys(packet, update);
            self.record_times(packet, 0);
            return;
        }
        let is_newest = matches!(update, SequenceUpdate::Newest | SequenceUpdate::Restart);
        if update == SequenceUpdate::Reordered && self.is_before_a_jump(packet) {
            // The timestamp has the old origin, so it says nothing about the current times.
            self.record_times(packet, 0);
            return self.record(packet, extended, format, update);
        }
        if is_newest && self.is_jump(packet, distance, ahead, format) {
            self.timestamp_jumps += 1;
            self.keys.restart();
            // Packets from before the jump may still arrive, so we leave room for them in the
            // recording.
            let missing = i64::from(self.step) * i64::from(ahead.saturating_sub(1));
            self.restart(packet, format.frames(missing));
            self.spacing.sound(
                header.timestamp,
                packet.times.arrived,
                format.clock,
                is_first,
            );
            self.record_times(packet, 0);
            return self.record(packet, i64::from(header.timestamp), format, update);
        }
        if is_newest {
            if let Some(earlier) = &self.earlier
                && header.sequence.wrapping_sub(earlier.until) > MISORDER
            {
                self.earlier = None;
            }
            if ahead == 1 && distance > 0 && !header.marker {
                self.step = distance as u32;
            }
            self.timestamp = extended;
        }
        self.spacing.sound(
            header.timestamp,
            packet.times.arrived,
            format.clock,
            is_first,
        );
        let late = self.lateness.update(
            nanos(extended - self.base, format.clock),
            packet.times.arrived,
        );
        if late > late_after {
            self.count_late(packet, late);
        }
        self.record_times(packet, late);
        self.record(packet, extended, format, update);
    }

    /// Records the keys in a packet.
    #[cold]
    fn record_keys(&mut self, packet: &Packet<'_>, update: SequenceUpdate) {
        let is_late = !matches!(update, SequenceUpdate::Newest | SequenceUpdate::Restart);
        let Header {
            timestamp, marker, ..
        } = packet.header;
        match is_late && self.is_before_a_jump(packet) {
            true => self.keys.record_earlier(timestamp, packet.payload),
            false => self.keys.record(timestamp, marker, packet.payload),
        }
    }

    /// Records the keys in the older blocks of a redundant packet, and returns the packet with its
    /// newest block only. Returns `None` if the packet is malformed, or if its newest block is a
    /// redundant packet itself.
    #[cold]
    fn read_redundant<'a>(&mut self, packet: &Packet<'a>, formats: &Formats) -> Option<Packet<'a>> {
        let of = |number| formats.of(number).map(|format| format.encoding);
        let at = packet.header.timestamp;
        let newest = redundancy::split(packet.payload, |block| {
            if of(block.payload_type) == Some(Encoding::Event) {
                self.keys
                    .record(at.wrapping_sub(block.age), false, block.payload);
            }
        })?;
        if of(newest.payload_type) == Some(Encoding::Redundant) {
            return None;
        }
        self.bytes += (packet.payload.len() - newest.payload.len()) as u64;
        let mut unwrapped = *packet;
        unwrapped.header.payload_type = newest.payload_type;
        unwrapped.payload = newest.payload;
        Some(unwrapped)
    }

    #[inline]
    fn record_times(&mut self, packet: &Packet<'_>, late: u64) {
        let at = Stations {
            due: packet.times.arrived.saturating_sub(late),
            made: packet.times.arrived,
            arrived: packet.times.read,
        };
        with_histograms(|histograms| self.stats.note_received(histograms, at));
    }

    /// Switches to another payload type, and returns its format.
    #[cold]
    fn set_payload_type(&mut self, packet: &Packet<'_>, formats: &Formats) -> Option<Format> {
        let number = packet.header.payload_type;
        let there = self.payload_types.iter().position(|&known| known == number);
        match there {
            // We keep the current type at the end of the list.
            Some(at) => self.payload_types[at..].rotate_left(1),
            None if self.payload_types.len() < PAYLOAD_TYPES_MAX => self.payload_types.push(number),
            None => {}
        }
        let of_type = formats.of(number);
        self.current_type = Some((number, of_type));
        // Comfort noise belongs to the voice, so it does not change the format.
        let is_voice = |format: &Format| {
            let encoding = format.encoding;
            !matches!(
                encoding,
                Encoding::Event | Encoding::ComfortNoise | Encoding::Redundant
            )
        };
        let audio = of_type.filter(is_voice);
        let before = self.format;
        if let Some(format) = audio.filter(|_| before.is_none_or(|(known, _)| known != number)) {
            self.format = Some((number, format));
            if let Some((_, known)) = before {
                self.change_format(packet, known, format);
            }
        }
        of_type
    }

    /// Handles a change of the audio format.
    fn change_format(&mut self, packet: &Packet<'_>, before: Format, now: Format) {
        self.codec_changes += u64::from(before != now);
        if before.clock != now.clock {
            self.clock_changes += 1;
            self.restart(packet, 0);
        }
    }

    /// Restarts the source. The position of the packet in the recording follows its time of
    /// arrival, but there is always room for `missing` frames between the end of the recording and
    /// the packet.
    #[cold]
    fn restart(&mut self, packet: &Packet<'_>, missing: i64) {
        self.earlier = Some(Box::new(EarlierSegment {
            until: packet.header.sequence,
            timestamp: self.timestamp,
            base: self.base,
            offset: self.offset,
        }));
        let rate = self.format.map_or(8_000, |(_, format)| format.rate());
        let since = packet.times.arrived.saturating_sub(self.first_arrival);
        let frame = (u128::from(since) * u128::from(rate) / 1_000_000_000) as i64;
        let end = self.recorder.as_ref().map_or(0, |it| it.end_at(rate));
        self.offset = frame.max(end + missing);
        self.timestamp = i64::from(packet.header.timestamp);
        self.base = self.timestamp;
        self.step = 0;
        self.spacing.restart();
        self.lateness.restart();
    }

    /// Returns whether the sequence number of a packet precedes the last jump of the timestamps.
    fn is_before_a_jump(&self, packet: &Packet<'_>) -> bool {
        let number = packet.header.sequence;
        self.earlier
            .as_ref()
            .is_some_and(|earlier| (number.wrapping_sub(earlier.until) as i16) < 0)
    }

    #[inline]
    fn record(
        &mut self,
        packet: &Packet<'_>,
        extended: i64,
        format: Format,
        update: SequenceUpdate,
    ) {
        if self.recorder.is_some() {
            self.record_sound(packet, extended, format, update);
        }
    }

    fn record_sound(
        &mut self,
        packet: &Packet<'_>,
        extended: i64,
        format: Format,
        update: SequenceUpdate,
    ) {
        let is_early = self.is_before_a_jump(packet);
        let earlier = self.earlier.as_deref().filter(|_| is_early);
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let is_sound = format.encoding != Encoding::ComfortNoise && !packet.payload.is_empty();
        if update == SequenceUpdate::Duplicate || packet.missing > 0 || !is_sound {
            return;
        }
        let mut frame = self.offset + format.frames(extended - self.base);
        if update == SequenceUpdate::Reordered
            && let Some(earlier) = earlier
        {
            let before = packet
                .header
                .timestamp
                .wrapping_sub(earlier.timestamp as u32) as i32;
            let extended = earlier.timestamp + i64::from(before);
            frame = earlier.offset + format.frames(extended - earlier.base);
        }
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

    /// Returns the address from which the source sends.
    pub(super) fn from(&self) -> SocketAddr {
        self.from
    }

    /// Returns the row of the source, and ends its recording. See [`report`](Self::report).
    pub(super) fn into_report(
        self,
        port: u16,
        dropped: Option<u64>,
        buffer: u64,
    ) -> (SourceReport, StreamStats) {
        (self.report(port, dropped, buffer), self.stats)
    }

    /// Returns the current row of the source. `port` and `dropped` are the port and its drops. A
    /// receiver with a buffer of `buffer` nanoseconds plays the packets.
    pub(super) fn report(&self, port: u16, dropped: Option<u64>, buffer: u64) -> SourceReport {
        let counts = self.sequence.counts();
        let expected = self.sequence.expected();
        let bursts = self.sequence.bursts();
        let clock = self.format.map(|(_, format)| format.clock);
        let packet_nanos = self.packet_nanos();
        let quality = self.rating(buffer);
        let reported = self.reported;
        let time = Duration::from_nanos(self.last_arrival.saturating_sub(self.first_arrival));
        SourceReport {
            stream: 0,
            ssrc: self.ssrc,
            port,
            from: self.from,
            format: self.format.map(|(_, format)| format),
            payload_types: self.payload_types.clone(),
            packets: counts.received,
            bytes: self.bytes,
            seconds: time.as_secs_f64(),
            expected,
            lost: self.sequence.lost(),
            lost_rfc3550: self.sequence.reported_lost(),
            late: self.late,
            reordered: counts.reordered,
            duplicates: counts.duplicates,
            strays: counts.strays,
            restarts: counts.restarts,
            timestamp_jumps: self.timestamp_jumps,
            clock_changes: self.clock_changes,
            codec_changes: self.codec_changes,
            collision: self.collision,
            overflowed: dropped,
            jitter_ms: clock.map(|_| self.spacing.jitter_ms()),
            jitter: self.spacing.jitters(),
            delta: self.spacing.deltas(),
            bursts,
            packet_ms: packet_nanos.map(|nanos| nanos as f64 / 1e6),
            rating: quality.map(|(rating, _)| rating),
            mos: quality.map(|(_, mos)| mos),
            interval_ms: self.stats.interval.mean() / 1e6,
            interval_sd_ms: self.stats.interval.deviation() / 1e6,
            drift_ppm: self.lateness.drift_ppm(),
            keys: self.keys.keys(),
            sender_packets: self.sender.map(|(info, _)| info.packets),
            sender_bytes: self.sender.map(|(info, _)| info.octets),
            left: self.has_left,
            round_trip_ms: reported.round_trip.map(|time| time.as_secs_f64() * 1e3),
            reported_lost: reported.block.map(|block| block.lost),
            reported_jitter_ms: reported
                .block
                .zip(clock)
                .map(|(block, clock)| f64::from(block.jitter) * 1e3 / f64::from(clock.max(1))),
            reported_rating: reported.voip.and_then(|voip| voip.rating),
            reported_mos: reported.voip.and_then(|voip| voip.mos()),
            unrecorded: self.unrecorded,
        }
    }
}
