//! A time on the command line and in a file: `5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use creel::Wait;
use serde::{Deserialize, Deserializer, de};

/// A duration, written with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        // As the knobs write it.
        match format!("throttle:{text}").parse() {
            Ok(Wait::Throttle(time)) if !time.is_zero() => Ok(Time(time)),
            _ => Err("a time is a number with us, ms or s: 250ms".into()),
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

/// Anything that is written as a string.
pub fn parsed<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(from)?
        .parse()
        .map_err(de::Error::custom)
}
