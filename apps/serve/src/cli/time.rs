//! Durations on the command line and in the settings file, for example `5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// The longest duration that [`parse_duration`] accepts: a year. The limit keeps sums of an instant
/// and some durations representable.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A duration above zero, written as a number and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        match parse_duration(text)? {
            Duration::ZERO => Err("the duration must be above zero".into()),
            time => Ok(Time(time)),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        parsed(from)
    }
}

/// Parses a duration: a decimal number and a unit, for example `2h`, `90m`, `1.5s` or `20ms`.
///
/// The units are `d`, `h`, `m`, `s`, `ms`, `us` and `ns`.
///
/// # Errors
///
/// Returns a message that says what is expected, for the error of the flag or the setting.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let unit_seconds = match unit {
        "d" => 86_400.0,
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    match Duration::try_from_secs_f64(number * unit_seconds) {
        Ok(time) if time <= DURATION_MAX => Ok(time),
        _ => Err("the duration must be at most 365d".into()),
    }
}

fn expected() -> String {
    "expected a number and a unit, for example 2h, 90m, 1.5s or 20ms".into()
}

/// Deserializes a value that is written as a string and that its [`FromStr`] parses.
pub fn parsed<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(from)?
        .parse()
        .map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, time) in [
            ("2h", Duration::from_secs(7200)),
            ("90m", Duration::from_secs(5400)),
            ("7200s", Duration::from_secs(7200)),
            ("1.5s", Duration::from_millis(1500)),
            ("20ms", Duration::from_millis(20)),
            ("250us", Duration::from_micros(250)),
            ("0s", Duration::ZERO),
        ] {
            assert_eq!(parse_duration(text), Ok(time), "{text}");
        }
        for bad in ["", "5", "s", ".s", "-1s", "1,5s", "1 s", "1e3s", "366d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_is_above_zero() {
        assert!("0s".parse::<Time>().is_err());
    }
}
