//! DTMF: telephone keys, which travel in packets with a payload type of their own.
//!
//! Source: RFC 4733 section 2.3 (the payload), section 2.5.1.3 (long events in segments) and
//! section 2.5.1.4 (the end is sent three times).

/// The keys, indexed by their event numbers. The last one is a flash of the hook.
const KEYS: &[u8; 17] = b"0123456789*#ABCD!";
/// The maximum number of keys that we keep per stream.
const DIGITS_MAX: usize = 256;
/// The number of the newest events among which we look for the event of a late packet.
const RECENT: usize = 16;
/// A packet that is older than an event by fewer ticks than this is late. If it is even older, the
/// timestamps have begun again.
const LATE_TICKS: u32 = 1 << 16;
/// The duration of a segment that is continued by another one.
const SEGMENT_TICKS: u32 = 0xffff;
/// The number of segments in a row of which all packets may be lost, plus one.
const LOST_SEGMENTS_MAX: u32 = 4;
/// The level of the keys that we send, in dBm0 below zero.
const VOLUME: u8 = 10;

/// A key that was pressed.
#[derive(Debug, Clone, Copy)]
struct KeyEvent {
    /// The event number.
    event: u8,
    /// The timestamp of the first segment, which orders the events.
    begin: u32,
    /// The timestamp of the last segment, and its duration so far.
    segment: u32,
    duration: u32,
    has_ended: bool,
}

/// Collects the keys that the sender of a stream has pressed.
///
/// All packets of an event have the same timestamp, which is the time at which the key was pressed.
/// The pair of timestamp and event number therefore identifies an event, in whatever order its
/// packets arrive. A key that is held for longer than a duration can state is sent in segments,
/// each of which begins where the one before it ends.
#[derive(Debug, Default)]
pub(crate) struct DtmfReceiver {
    events: Vec<KeyEvent>,
    /// The index of the first event since the timestamps began again.
    first: usize,
    /// Whether there were more keys than we keep.
    has_more: bool,
}

impl DtmfReceiver {
    /// Records the events in a payload. One payload may have several, which follow one another.
    /// `begins` is the marker bit, with which an event begins.
    pub(crate) fn record(&mut self, timestamp: u32, begins: bool, payload: &[u8]) {
        let (events, _rest) = payload.as_chunks::<4>();
        let mut at = timestamp;
        for (index, &[event, flags, high, low]) in events.iter().enumerate() {
            let duration = u32::from(u16::from_be_bytes([high, low]));
            let is_last = index + 1 == events.len();
            let has_ended = flags & 0x80 != 0 || !is_last;
            if usize::from(event) < KEYS.len() {
                self.record_one(event, at, duration, has_ended, begins && index == 0);
            }
            at = at.wrapping_add(duration);
        }
    }

    /// Records the events in a late payload, whose timestamp has the origin before the last restart.
    #[cold]
    pub(crate) fn record_earlier(&mut self, timestamp: u32, payload: &[u8]) {
        let later = self.events.split_off(self.first);
        self.first = self.first.saturating_sub(RECENT);
        self.record(timestamp, false, payload);
        self.first = self.events.len();
        self.events.extend(later);
    }

    fn record_one(&mut self, event: u8, at: u32, duration: u32, has_ended: bool, begins: bool) {
        let oldest = self.events.len().saturating_sub(RECENT).max(self.first);
        let recent = &mut self.events[oldest..];
        let mut known = recent.iter_mut().rev().filter(|it| it.event == event);
        let found = known.find(|it| {
            let is_same = it.segment == at || it.begin == at;
            // A late packet may belong to a segment between the first one and the last one.
            let is_within = at.wrapping_sub(it.begin) < it.segment.wrapping_sub(it.begin);
            let distance = at.wrapping_sub(it.segment);
            // Some senders set the marker bit in each segment, so a marked packet may also continue
            // a key.
            let is_full = it.duration == SEGMENT_TICKS && distance == SEGMENT_TICKS;
            let is_next = !it.has_ended
                && (is_full
                    || !begins
                        && (is_whole_segments(distance) || distance == it.duration)
                        && distance > 0);
            is_same || is_within || is_next
        });
        if let Some(found) = found {
            if at.wrapping_sub(found.segment) as i32 > 0 {
                (found.segment, found.duration) = (at, duration);
            } else if at == found.segment {
                found.duration = found.duration.max(duration);
            }
            found.has_ended |= has_ended && at == found.segment;
            return;
        }
        if self.events.len() >= DIGITS_MAX {
            self.has_more = true;
            return;
        }
        // If all packets of this event were delayed, it belongs before the later events.
        let is_later = |it: &KeyEvent| (1..LATE_TICKS).contains(&it.begin.wrapping_sub(at));
        let later = self.events[oldest..]
            .iter()
            .rev()
            .take_while(|it| is_later(it));
        let index = self.events.len() - later.count();
        let pressed = KeyEvent {
            event,
            begin: at,
            segment: at,
            duration,
            has_ended,
        };
        self.events.insert(index, pressed);
    }

    /// Handles a new origin of the timestamps, for example after a restart of the source.
    pub(crate) fn restart(&mut self) {
        self.first = self.events.len();
    }

    /// Returns the keys in the order in which they were pressed. `!` is a flash of the hook. If
    /// there were more keys than we keep, they end with `…`.
    pub(crate) fn keys(&self) -> String {
        let keys = self.events.iter().map(|it| KEYS[usize::from(it.event)]);
        let more = self.has_more.then_some('…');
        keys.map(char::from).chain(more).collect()
    }
}

/// Returns whether a time is the duration of one or a few whole segments. There may be more than
/// one, because all packets of the segments in between may be lost.
fn is_whole_segments(ticks: u32) -> bool {
    let segments = ticks / SEGMENT_TICKS;
    ticks.is_multiple_of(SEGMENT_TICKS) && (1..=LOST_SEGMENTS_MAX).contains(&segments)
}

/// Returns the event number of a key.
pub(crate) fn event(key: char) -> Option<u8> {
    let key = key.to_ascii_uppercase();
    KEYS.iter()
        .position(|&known| char::from(known) == key)
        .map(|at| at as u8)
}

/// Returns the payload for a key that has been held for `ticks` of the clock.
pub(crate) fn payload(event: u8, ticks: u16, released: bool) -> [u8; 4] {
    let [high, low] = ticks.to_be_bytes();
    [event, u8::from(released) << 7 | VOLUME, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_received_once() {
        let mut receiver = DtmfReceiver::default();
        for (n, key) in "12#a".chars().enumerate() {
            let event = event(key).unwrap();
            for (ticks, released) in [
                (160, false),
                (320, false),
                (480, true),
                (480, true),
                (480, true),
            ] {
                receiver.record(
                    n as u32 * 800,
                    ticks == 160,
                    &payload(event, ticks, released),
                );
            }
        }
        assert_eq!(receiver.keys(), "12#A");
        receiver.record(9, false, &[99, 0, 0, 0]);
        receiver.record(10, false, &[1]);
        receiver.record(11, false, &[]);
        assert_eq!(receiver.keys(), "12#A");
        assert_eq!(event('x'), None);
    }

    /// Feeds packets of the form (timestamp, marker, key, duration, end).
    fn keys(packets: &[(u32, bool, char, u16, bool)]) -> String {
        let mut receiver = DtmfReceiver::default();
        for &(timestamp, begins, key, ticks, ends) in packets {
            let payload = payload(event(key).unwrap(), ticks, ends);
            receiver.record(timestamp, begins, &payload);
        }
        receiver.keys()
    }

    #[test]
    fn late_packets_of_an_earlier_event_are_not_a_new_key() {
        // The last end packet of the first key arrives after the second key.
        let late_end = [
            (0, true, '1', 160, false),
            (0, false, '1', 480, true),
            (1_600, true, '2', 160, false),
            (0, false, '1', 480, true),
            (1_600, false, '2', 480, true),
        ];
        assert_eq!(keys(&late_end), "12");
        // All packets of the first key arrive after the second key.
        let late_key = [(1_600, true, '2', 160, false), (0, true, '1', 480, true)];
        assert_eq!(keys(&late_key), "12");
    }

    #[test]
    fn a_key_that_is_held_for_long_is_one_key() {
        let mut packets = Vec::new();
        for segment in 0..3_u32 {
            let at = 0xfff0_0000_u32.wrapping_add(segment * 0xffff);
            let last = if segment == 2 { 8_000 } else { 0xffff };
            for ticks in (160..last).step_by(1_600).chain([last]) {
                let begins = segment == 0 && ticks == 160;
                packets.push((at, begins, '5', ticks as u16, segment == 2 && ticks == last));
            }
        }
        assert_eq!(keys(&packets), "5");
        // The first packet of each segment has the marker bit.
        let mut marked = packets.clone();
        for n in 1..marked.len() {
            marked[n].1 = marked[n].0 != marked[n - 1].0;
        }
        assert_eq!(keys(&marked), "5");
        // The packet before the second segment is lost, or arrives late.
        let before = packets.iter().rposition(|it| it.0 == 0xfff0_0000).unwrap();
        let late = packets.remove(before);
        assert_eq!(keys(&packets), "5");
        packets.insert(before + 20, late);
        assert_eq!(keys(&packets), "5");
        // All packets of the second segment are lost.
        let middle = 0xfff0_0000_u32.wrapping_add(0xffff);
        packets.retain(|it| it.0 != middle);
        assert_eq!(keys(&packets), "5");
        // A segment may be shorter than the longest possible one.
        let short = [(0, true, '5', 8_000, false), (8_000, false, '5', 800, true)];
        assert_eq!(keys(&short), "5");
        // The same key again is another key, even right after the first.
        let twice = [(0, true, '5', 800, true), (800, true, '5', 800, true)];
        assert_eq!(keys(&twice), "55");
    }

    #[test]
    fn a_payload_may_have_several_events() {
        let mut receiver = DtmfReceiver::default();
        let two = [payload(1, 800, true), payload(2, 160, false)].concat();
        receiver.record(0, true, &two);
        receiver.record(800, false, &payload(2, 480, true));
        assert_eq!(receiver.keys(), "12");
    }

    #[test]
    fn a_flash_of_the_hook_is_a_key_and_tones_are_not() {
        assert_eq!(keys(&[(0, true, '!', 800, true)]), "!");
        let mut receiver = DtmfReceiver::default();
        receiver.record(0, true, &[66, 0, 0, 160]);
        assert_eq!(receiver.keys(), "");
    }

    #[test]
    fn late_packets_from_before_a_restart_are_not_new_keys() {
        let mut receiver = DtmfReceiver::default();
        receiver.record(700, true, &payload(3, 800, true));
        receiver.restart();
        receiver.record_earlier(700, &payload(3, 800, true));
        receiver.record(0, true, &payload(4, 800, true));
        receiver.record_earlier(1_500, &payload(5, 800, true));
        assert_eq!(receiver.keys(), "354");
        receiver.record(0, false, &payload(4, 800, true));
        assert_eq!(receiver.keys(), "354");
    }

    #[test]
    fn equal_timestamps_after_a_restart_are_new_keys() {
        let mut receiver = DtmfReceiver::default();
        for _ in 0..2 {
            receiver.record(7, true, &payload(3, 800, true));
            receiver.restart();
        }
        assert_eq!(receiver.keys(), "33");
    }
}
