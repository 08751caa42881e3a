//! Durations on the command line, written the same way for every program.
//!
//! A duration is a number with a unit, for example `90m`, `1.5s` or `20ms`. Several of them add up,
//! for example `1h 30m`. We use the `humantime` crate because its format is the one that you know
//! from other command lines.
//!
//! A flag takes [`value_parser`]:
//!
//! ```
//! use clap::Parser;
//! use creel_console::duration;
//! use std::time::Duration;
//!
//! #[derive(Parser)]
//! struct Cli {
//!     /// Stop after TIME
//!     #[arg(long = "for", value_name = "TIME", value_parser = duration::value_parser)]
//!     duration: Option<Duration>,
//! }
//!
//! let cli = Cli::try_parse_from(["program", "--for", "1.5s"])?;
//! assert_eq!(cli.duration, Some(Duration::from_millis(1500)));
//! # Ok::<(), clap::Error>(())
//! ```

use std::time::Duration;

use humantime::DurationError;

/// The longest duration that [`parse_duration`] accepts: 100 years.
///
/// The limit is there so that a program can add a duration to an `Instant` without overflow,
/// because that would panic.
pub const DURATION_MAX: Duration = Duration::from_secs(100 * 31_557_600);

/// The advice in an error, with examples.
const EXAMPLES: &str = "use for example 90m, 1.5s or 20ms";

/// Parses a duration, for example `2h`, `90m`, `1.5s`, `20ms`, `1500us`, `250ns` or `1h 30m`.
///
/// Every number needs a unit, except that `0` stands for no time at all.
///
/// ```
/// use creel_console::duration::parse_duration;
/// use std::time::Duration;
///
/// assert_eq!(parse_duration("1h 30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(
///     parse_duration("5 parsecs"),
///     Err("invalid duration \"5 parsecs\": use for example 90m, 1.5s or 20ms".into())
/// );
/// ```
///
/// # Errors
///
/// Returns a message that names the text and says what to write instead, if the text is not a
/// duration, or is longer than [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    value_parser(text).map_err(|reason| format!("invalid duration {text:?}: {reason}"))
}

/// Parses a duration as [`parse_duration`] does, for clap's `value_parser`.
///
/// The error does not repeat the text, because clap names the value and the flag itself.
///
/// # Errors
///
/// Returns a message that says what to write instead.
pub fn value_parser(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = humantime::parse_duration(trimmed).map_err(|error| match error {
        DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
            format!("a number has no unit, {EXAMPLES}")
        }
        DurationError::NumberOverflow => "too long or too precise".to_owned(),
        _ => EXAMPLES.to_owned(),
    })?;
    if duration > DURATION_MAX {
        return Err("longer than 100 years".to_owned());
    }
    Ok(duration)
}

/// Parses a duration as [`value_parser`] does, for a flag where zero makes no sense, such as the
/// time between two updates.
///
/// # Errors
///
/// Returns a message that says what to write instead.
pub fn positive(text: &str) -> Result<Duration, String> {
    match value_parser(text)? {
        Duration::ZERO => Err("the duration must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Cli {
        #[arg(long, value_parser = value_parser)]
        pause: Duration,
    }

    #[test]
    fn durations_have_units_and_may_have_fractions_and_parts() {
        for (text, nanoseconds) in [
            ("2h", 7_200_000_000_000),
            ("7200s", 7_200_000_000_000),
            ("90m", 5_400_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.25 s", 250_000_000),
            ("20ms", 20_000_000),
            ("1500us", 1_500_000),
            ("1500µs", 1_500_000),
            ("1.5us", 1_500),
            ("250ns", 250),
            (" 3 sec ", 3_000_000_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        assert_eq!(parse_duration("2d"), Ok(Duration::from_secs(172_800)));
    }

    #[test]
    fn wrong_durations_are_rejected_with_an_example() {
        for text in [
            "",
            " ",
            "5 parsecs",
            "s",
            "-1s",
            "1,5s",
            "1.s",
            ".5s",
            "inf",
            "NaN",
            "1e3s",
            "1s!",
        ] {
            let expected = format!("invalid duration {text:?}: {EXAMPLES}");
            assert_eq!(parse_duration(text), Err(expected));
        }
        let unitless = "invalid duration \"5\": a number has no unit, use for example 90m, 1.5s \
                        or 20ms";
        assert_eq!(parse_duration("5"), Err(unitless.into()));
        assert!(parse_duration("0.5ns").unwrap_err().contains("too precise"));
        assert!(
            parse_duration("101years")
                .unwrap_err()
                .contains("100 years")
        );
        assert!(
            parse_duration("99999999999999999999s")
                .unwrap_err()
                .contains("too long")
        );
        assert_eq!(parse_duration("100years"), Ok(DURATION_MAX));
        assert!(positive("0ms").is_err() && positive("1ms").is_ok());
    }

    #[test]
    fn clap_names_the_flag_and_the_value() {
        let cli = Cli::try_parse_from(["program", "--pause", "20ms"]).unwrap();
        assert_eq!(cli.pause, Duration::from_millis(20));
        let error = Cli::try_parse_from(["program", "--pause", "5 parsecs"]).unwrap_err();
        let expected = "invalid value '5 parsecs' for '--pause <PAUSE>': use for example 90m, \
                        1.5s or 20ms";
        assert!(error.to_string().contains(expected), "{error}");
    }
}
