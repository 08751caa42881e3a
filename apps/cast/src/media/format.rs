//! Formats of payloads: the encoding, the clock rate and the number of channels of each payload
//! type.
//!
//! Source: RFC 3551 section 6 (the static payload types, and G.722's clock of 8,000), RFC 3190
//! (L24), RFC 7587 (Opus), RFC 4733 (telephone events), RFC 3389 (comfort noise), RFC 2198
//! (redundant packets).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a payload encodes samples or events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Signed 16-bit samples, big-endian.
    L16,
    /// Signed 24-bit samples, big-endian. Files keep all bits, and the jitter buffer the upper 16.
    L24,
    /// G.711 µ-law.
    Pcmu,
    /// G.711 A-law.
    Pcma,
    /// G.722 at 64 kbit/s.
    G722,
    /// Opus.
    Opus,
    /// Keys of a telephone (RFC 4733).
    Event,
    /// Comfort noise (RFC 3389), which describes the noise during silence.
    ComfortNoise,
    /// Packets that repeat the payloads of earlier ones (RFC 2198). Each payload in them has a
    /// payload type of its own.
    Redundant,
    /// Any other encoding, for example AMR. We count and time its packets, but we cannot decode
    /// them.
    Other,
}

/// The names of the encodings in session descriptions.
const NAMES: [(&str, Encoding); 10] = [
    ("L16", Encoding::L16),
    ("L24", Encoding::L24),
    ("PCMU", Encoding::Pcmu),
    ("PCMA", Encoding::Pcma),
    ("G722", Encoding::G722),
    ("opus", Encoding::Opus),
    ("telephone-event", Encoding::Event),
    ("CN", Encoding::ComfortNoise),
    ("red", Encoding::Redundant),
    ("unknown", Encoding::Other),
];

/// The format of the payloads of one payload type.
///
/// ```
/// use creel_cast::Format;
///
/// let format: Format = "L16/48000/2".parse()?;
/// assert_eq!((format.rate(), format.channels), (48_000, 2));
/// assert_eq!("PCMU".parse::<Format>()?.to_string(), "PCMU/8000");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// The encoding of the samples.
    pub encoding: Encoding,
    /// The clock rate of the RTP timestamps, in ticks per second.
    pub clock: u32,
    /// The number of channels, which is the number of samples per frame.
    pub channels: u8,
}

impl Format {
    /// Mono L16 with 44,100 samples per second.
    pub const CD_MONO: Format = Format {
        encoding: Encoding::L16,
        clock: 44_100,
        channels: 1,
    };
    const MONO_8K: Format = Format {
        clock: 8_000,
        ..Format::CD_MONO
    };

    /// Returns the number of frames per second. For G.722 it is twice the clock rate.
    pub fn rate(self) -> u32 {
        match self.encoding {
            Encoding::G722 => 16_000,
            _ => self.clock,
        }
    }

    /// Returns the number of ticks of the RTP clock that `frames` frames last.
    pub fn ticks(self, frames: usize) -> u32 {
        match self.encoding {
            Encoding::G722 => frames as u32 / 2,
            _ => frames as u32,
        }
    }

    /// Returns the number of frames that last `ticks` ticks of the RTP clock.
    pub fn frames(self, ticks: i64) -> i64 {
        match self.encoding {
            Encoding::G722 => ticks * 2,
            _ => ticks,
        }
    }

    /// Returns the number of frames in a packet that lasts `time`.
    pub fn frames_in(self, time: Duration) -> usize {
        (time.as_secs_f64() * f64::from(self.rate())).round() as usize
    }

    /// Returns the number of samples of all channels in a packet that lasts `time`.
    pub fn samples_in(self, time: Duration) -> usize {
        self.frames_in(time) * usize::from(self.channels)
    }

    /// Returns how long `frames` frames last.
    pub fn time_of(self, frames: usize) -> Duration {
        Duration::from_secs_f64(frames as f64 / f64::from(self.rate().max(1)))
    }

    /// Returns the format of a static payload type, which applies unless a session overrides it.
    pub fn of_payload_type(number: u8) -> Option<Format> {
        let stereo = Format {
            channels: 2,
            ..Format::CD_MONO
        };
        let other = Format {
            encoding: Encoding::Other,
            ..Format::MONO_8K
        };
        Some(match number {
            0 => Format {
                encoding: Encoding::Pcmu,
                ..Format::MONO_8K
            },
            8 => Format {
                encoding: Encoding::Pcma,
                ..Format::MONO_8K
            },
            9 => Format {
                encoding: Encoding::G722,
                ..Format::MONO_8K
            },
            10 => stereo,
            11 => Format::CD_MONO,
            13 => Format {
                encoding: Encoding::ComfortNoise,
                ..Format::MONO_8K
            },
            3 | 4 | 5 | 7 | 12 | 15 | 18 => other,
            6 => Format {
                clock: 16_000,
                ..other
            },
            16 => Format {
                clock: 11_025,
                ..other
            },
            17 => Format {
                clock: 22_050,
                ..other
            },
            14 | 25..=34 => Format {
                clock: 90_000,
                ..other
            },
            _ => return None,
        })
    }

    /// Returns the static payload type of this format, or 96 (the first dynamic type) if it has
    /// none or if we do not know its encoding.
    pub fn usual_payload_type(self) -> u8 {
        let of = |&number: &u8| Format::of_payload_type(number) == Some(self);
        [0, 8, 9, 10, 11, 13].into_iter().find(of).unwrap_or(96)
    }
}

impl FromStr for Format {
    type Err = String;

    /// Parses `NAME[/CLOCK[/CHANNELS]]`, which is the syntax of `rtpmap` in a session description.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let name = parts.next().unwrap_or_default();
        let found = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        let encoding = found.map_or(Encoding::Other, |&(_, encoding)| encoding);
        let (clock, channels) = match encoding {
            Encoding::L16 | Encoding::L24 => (44_100, 1),
            Encoding::Opus => (48_000, 2),
            _ => (8_000, 1),
        };
        let mut number = |default: u32| match parts.next() {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|&n| n > 0).ok_or(()),
        };
        let wrong = || {
            format!(
                "`{text}` is not a format: expected NAME/CLOCK/CHANNELS, such as L16/48000/2 or PCMU"
            )
        };
        let read = (number(clock), number(channels));
        let (Ok(clock), Ok(channels @ 1..=64)) = read else {
            return Err(wrong());
        };
        if parts.next().is_some() || name.is_empty() || clock > 1_000_000 {
            return Err(wrong());
        }
        Ok(Format {
            encoding,
            clock,
            channels: channels as u8,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES
            .iter()
            .find(|(_, encoding)| *encoding == self.encoding);
        let (name, _) = found.unwrap_or(&NAMES[9]);
        write!(f, "{name}/{}", self.clock)?;
        match self.channels {
            1 => Ok(()),
            channels => write!(f, "/{channels}"),
        }
    }
}

/// The payload types of a session: those that the session names, and the static ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formats(Vec<(u8, Format)>);

impl Formats {
    /// Creates a table in which `named` takes precedence over the static payload types.
    pub fn new(named: Vec<(u8, Format)>) -> Self {
        Formats(named)
    }

    /// Returns the format of a payload type, or `None` if it is neither named nor static.
    pub fn of(&self, payload_type: u8) -> Option<Format> {
        let named = self.0.iter().find(|(number, _)| *number == payload_type);
        named.map_or_else(
            || Format::of_payload_type(payload_type),
            |&(_, format)| Some(format),
        )
    }

    /// Returns the named payload types. The first one is preferred.
    pub fn named(&self) -> &[(u8, Format)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_round_trip_through_text() {
        for text in [
            "L16/44100",
            "L16/48000/2",
            "PCMA/8000",
            "opus/48000/2",
            "telephone-event/8000",
        ] {
            assert_eq!(text.parse::<Format>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "L16/0",
            "L16/x",
            "L16/8000/0",
            "L16/8000/1/1",
            "L16/9999999999",
        ] {
            assert!(text.parse::<Format>().is_err(), "{text}");
        }
    }

    #[test]
    fn session_payload_types_override_the_static_ones() {
        let formats = Formats::new(vec![(0, "L16/8000".parse().unwrap())]);
        assert_eq!(formats.of(0).unwrap().encoding, Encoding::L16);
        assert_eq!(formats.of(8).unwrap().encoding, Encoding::Pcma);
        assert_eq!(formats.of(9).unwrap().rate(), 16_000);
        assert_eq!(formats.of(96), None);
        for number in [0, 8, 9, 10, 11, 13] {
            assert_eq!(
                Format::of_payload_type(number)
                    .unwrap()
                    .usual_payload_type(),
                number
            );
        }
    }
}
