//! The durations of the command line, such as `20ms`, `1.5s`, `90m` or `1h30m`.

use std::time::Duration;

/// The units, and how many nanoseconds each of them has.
const UNITS: [(&str, u128); 19] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("sec", SECOND),
    ("secs", SECOND),
    ("second", SECOND),
    ("seconds", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("mins", 60 * SECOND),
    ("minute", 60 * SECOND),
    ("minutes", 60 * SECOND),
    ("h", HOUR),
    ("hour", HOUR),
    ("hours", HOUR),
    ("d", 24 * HOUR),
    ("days", 24 * HOUR),
];
const SECOND: u128 = 1_000_000_000;
const HOUR: u128 = 3_600 * SECOND;

/// The longest duration that we accept: 100 years of 365 days. Sums of a few of them still fit
/// into 64 bits of nanoseconds.
const NANOS_MAX: u128 = 100 * 365 * 24 * HOUR;

/// Parses a duration: one or more numbers, each of them followed by its unit. For example, `2h`,
/// `90m`, `1.5s`, `20ms` and `1h 30m` are durations.
///
/// # Errors
///
/// Returns an error if the text is not a duration, or is longer than 100 years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "`{text}` is not a duration: expected a number and a unit (ns, us, ms, s, m, h or d), \
             such as 20ms, 1.5s or 2h"
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let tail = tail.trim_start();
        let is_unit = |c: char| c.is_alphabetic();
        let (unit, tail) = tail.split_at(tail.find(|c| !is_unit(c)).unwrap_or(tail.len()));
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let &(_, unit) = unit.ok_or_else(wrong)?;
        let part = times(number, unit).ok_or_else(wrong)?;
        nanos = nanos.saturating_add(part);
        rest = tail.trim_start();
    }
    if nanos > NANOS_MAX {
        return Err(format!(
            "the duration `{text}` is longer than 100 years: use a shorter one"
        ));
    }
    Ok(Duration::from_nanos(nanos as u64))
}

/// Returns the number times the unit in nanoseconds, rounded down by a few nanoseconds at most.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // We accept at most 20 digits before the point. A number with more digits is longer than 100
    // years in any unit, unless it begins with zeros.
    if whole.is_empty() || number.ends_with('.') || whole.len() > 20 {
        return None;
    }
    let mut nanos = whole.parse::<u128>().ok()?.saturating_mul(unit);
    let mut unit = unit;
    for digit in fraction.chars() {
        unit /= 10;
        nanos = nanos.saturating_add(u128::from(digit.to_digit(10)?) * unit);
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("0ms", Duration::ZERO),
            ("20ms", ms(20)),
            ("1.5s", ms(1_500)),
            ("0.25ms", Duration::from_micros(250)),
            ("500us", Duration::from_micros(500)),
            ("500µs", Duration::from_micros(500)),
            ("7ns", Duration::from_nanos(7)),
            ("90m", ms(90 * 60 * 1_000)),
            ("7200s", ms(7_200_000)),
            ("2h", ms(7_200_000)),
            ("1h30m", ms(5_400_000)),
            ("2h 37min", ms(9_420_000)),
            ("3d", ms(3 * 86_400_000)),
        ] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_and_too_long_durations_are_rejected() {
        for text in [
            "", " ", "20", "ms", "-1s", "1.s", ".5s", "1.2.3s", "1e3s", "5x", "1s2",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
        for text in ["36501d", "99999999999999999999d"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("100 years"), "{text}: {error}");
        }
    }
}
