//! DTMF: telephone keys, which travel in packets with a payload type of their own.
//!
//! Source: RFC 4733 section 2.3 (the payload) and section 2.5.1.4 (the end is sent three times).

/// The keys, indexed by their event numbers.
const KEYS: &[u8; 16] = b"0123456789*#ABCD";
/// The maximum number of keys that we keep per stream.
const DIGITS_MAX: usize = 256;
/// The level of the keys that we send, in dBm0 below zero.
const VOLUME: u8 = 10;

/// Collects the keys that the sender of a stream has pressed.
#[derive(Debug, Default)]
pub(crate) struct DtmfReceiver {
    keys: String,
    /// The timestamp of the last event. All packets of an event have the same timestamp.
    last: Option<u32>,
}

impl DtmfReceiver {
    /// Records the key in a payload, unless an earlier packet of the same event has recorded it.
    pub(crate) fn record(&mut self, timestamp: u32, payload: &[u8]) {
        let Some(&key) = payload
            .first()
            .and_then(|&event| KEYS.get(usize::from(event)))
        else {
            return;
        };
        if payload.len() >= 4
            && self.last.replace(timestamp) != Some(timestamp)
            && self.keys.len() < DIGITS_MAX
        {
            self.keys.push(char::from(key));
        }
    }

    /// Returns the keys in the order in which they were pressed.
    pub(crate) fn keys(&self) -> &str {
        &self.keys
    }
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
                receiver.record(n as u32 * 800, &payload(event, ticks, released));
            }
        }
        assert_eq!(receiver.keys(), "12#A");
        receiver.record(9, &[99, 0, 0, 0]);
        receiver.record(10, &[1]);
        receiver.record(11, &[]);
        assert_eq!(receiver.keys(), "12#A");
        assert_eq!(event('x'), None);
    }
}
