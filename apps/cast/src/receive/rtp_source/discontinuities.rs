//! Detects discontinuities of one source: restarts, jumps of the timestamps, and pauses.

use super::{Packet, RtpSource, nanos};
use crate::measure::reception::MISORDER;
use crate::media::format::{Encoding, Format, Formats};

/// A larger difference between the timestamps and the arrival times, in nanoseconds, means that the
/// source has a new clock, not that it paused.
const TIMESTAMP_JUMP: i64 = 10_000_000_000;

/// A timestamp that is ahead of the time of arrival by more than this, in nanoseconds, has jumped,
/// unless lost packets explain it. The network delays packets by less.
const JUMP_TOLERANCE: i64 = 250_000_000;
/// A copy of a packet that arrives later than this, in nanoseconds, is not a duplicate.
const DUPLICATE_AGE: i64 = 1_000_000_000;
/// If this number of packets in a row are late by more than [`PAUSE`] nanoseconds, we assume that
/// the sender paused and that its timestamps stood still.
const PAUSED_PACKETS: u64 = 50;
const PAUSE: u64 = 500_000_000;
/// The clock of video formats, and how far a frame may be ahead of the next one, in nanoseconds.
const VIDEO_CLOCK: u32 = 90_000;
const REORDERED_VIDEO: i64 = 1_000_000_000;

impl RtpSource {
    /// Returns whether a packet with an earlier number cannot be a late one or a duplicate, so that
    /// the source may have begun again a few numbers before.
    ///
    /// The timestamp of a late packet is not after the newest one. A duplicate does not arrive
    /// seconds after the first copy.
    #[cold]
    pub(super) fn is_restart(&self, packet: &Packet<'_>, ahead: u16, formats: &Formats) -> bool {
        let is_behind = ahead.wrapping_neg() <= MISORDER;
        let of_packet = formats.of(packet.header.payload_type);
        let Some(format) = of_packet.filter(|_| is_behind && self.earlier.is_none()) else {
            return false;
        };
        // We cannot judge timestamps of keys and of video, because they do not grow evenly, and
        // cannot compare timestamps of different clocks.
        let is_event = format.encoding == Encoding::Event || format.clock == VIDEO_CLOCK;
        if is_event
            || self
                .format
                .is_none_or(|(_, known)| known.clock != format.clock)
        {
            return false;
        }
        let distance = packet.header.timestamp.wrapping_sub(self.timestamp as u32) as i32;
        let passed = packet.times.arrived as i64 - self.stats.last() as i64;
        let age = passed - nanos(distance.into(), format.clock);
        distance > 0 || self.sequence.has(packet.header.sequence) && age > DUPLICATE_AGE
    }

    /// Counts a late packet. If many packets in a row are late by much, the sender paused for that
    /// time while its timestamps stood still, as telephones on hold do. A player that has run empty
    /// begins again, so we do the same, and only the first packet counts.
    #[cold]
    pub(super) fn count_late(&mut self, packet: &Packet<'_>, late: u64) {
        // A packet that has only padding is not a sound, so it cannot be too late.
        self.late += u64::from(!packet.payload.is_empty() || packet.missing > 0);
        let is_next = self.paused.0 == self.stats.buffers;
        self.paused = match (late > PAUSE, is_next) {
            (false, _) => (0, 0),
            (true, false) => (self.stats.buffers + 1, 1),
            (true, true) => (self.stats.buffers + 1, self.paused.1 + 1),
        };
        if self.paused.1 >= PAUSED_PACKETS {
            self.late = self.late.saturating_sub(self.paused.1 - 1);
            self.paused = (0, 0);
            self.lateness.restart();
        }
    }

    /// Returns whether the timestamp of the newest packet has a new origin.
    ///
    /// Timestamps grow by one step per packet, or by the time for which the sender was silent. A
    /// jump is anything else: a timestamp of the past, one that is further ahead than both, or a
    /// difference of more than [`TIMESTAMP_JUMP`] between the timestamps and the arrival times. It
    /// is also a jump if two packets of sound have the same timestamp, because they cannot be played
    /// at the same time.
    #[inline]
    pub(super) fn is_jump(
        &self,
        packet: &Packet<'_>,
        distance: i32,
        ahead: u16,
        format: Format,
    ) -> bool {
        let expected = i64::from(self.step) * i64::from(ahead);
        let ticks = i64::from(distance);
        let is_usual = ticks > 0 && ticks <= expected;
        let before = self.stats.last();
        let passed = packet.times.arrived as i64 - before as i64;
        if before == 0 || is_usual && passed < TIMESTAMP_JUMP {
            return false;
        }
        match ticks == 0 && passed < TIMESTAMP_JUMP {
            true => self.is_repeated(packet, ahead, format),
            false => self.is_unusual_jump(ticks, expected, passed, format),
        }
    }

    /// Returns whether two packets in a row are sounds that have the same timestamp. Frames of a
    /// video consist of several such packets, and packets that only have padding are not sounds.
    #[cold]
    fn is_repeated(&self, packet: &Packet<'_>, ahead: u16, format: Format) -> bool {
        let is_sound = matches!(
            format.encoding,
            Encoding::L16
                | Encoding::L24
                | Encoding::Pcmu
                | Encoding::Pcma
                | Encoding::G722
                | Encoding::Opus
        );
        let is_empty = packet.payload.is_empty() && packet.missing == 0;
        is_sound && ahead == 1 && !is_empty && self.step > 0
    }

    #[cold]
    fn is_unusual_jump(&self, ticks: i64, expected: i64, passed: i64, format: Format) -> bool {
        let media = nanos(ticks, format.clock);
        if ticks < 0 {
            // Frames of a video are not sent in the order in which they are shown.
            return format.clock != VIDEO_CLOCK || media < -REORDERED_VIDEO;
        }
        if (media - passed).abs() > TIMESTAMP_JUMP {
            return true;
        }
        ticks > 2 * expected && media - passed > JUMP_TOLERANCE
    }
}
