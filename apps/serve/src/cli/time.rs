//! Durations on the command line and in the settings file, for example `5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use creel_console::duration;
use serde::{Deserialize, Deserializer, de};

/// A duration. Parsed from a text it is above zero, see [`duration::positive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        duration::positive(text).map(Time)
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
