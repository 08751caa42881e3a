//! DTMF: telephone keys in packets of their own payload type.
//!
//! Source: RFC 4733 section 2.3 (the payload), 2.5.1.4 (the end three times).

/// The keys, by event number.
const KEYS: &[u8; 16] = b"0123456789*#ABCD";
/// The most keys that are kept of a stream.
const DIGITS_MAX: usize = 256;
/// What a key's level is: dBm0 below zero.
const VOLUME: u8 = 10;

/// Collects the keys that a stream has pressed.
#[derive(Debug, Default)]
pub(crate) struct DtmfReceiver {
    keys: String,
    /// The timestamp of the last event, which all of its packets share.
    last: Option<u32>,
}

impl DtmfReceiver {
    /// Notes a payload.
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

    /// The keys, in their order.
    pub(crate) fn keys(&self) -> &str {
        &self.keys
    }
}

/// The event number of a key.
pub(crate) fn event(key: char) -> Option<u8> {
    let key = key.to_ascii_uppercase();
    KEYS.iter()
        .position(|&known| char::from(known) == key)
        .map(|at| at as u8)
}

/// A payload: a key that has been held for `ticks`, and whether it is released.
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
