//! Two of the four knobs as values: how workers wait, and how work moves between them.
//!
//! The other two are a number and a [`Placement`](creel_topology::Placement).

use std::{fmt, str::FromStr, time::Duration};

/// How a worker waits when it finds nothing to do.
///
/// | your program | take |
/// |---|---|
/// | loops many times a second: frames, tokens, ticks; or you do not know | `Adaptive`: awake for the next loop, asleep when there is none |
/// | work that comes now and then, batches, a pool beside others | `Park`: each wake costs some microseconds, no CPU is ever burnt |
/// | a CPU of its own for each worker, and no wake may ever be late | `Spin(d)`, with `d` longer than the longest pause |
/// | thousands of timed streams, where a few milliseconds do not matter | `Throttle(q)`: one wake a quantum serves them all |
///
/// ```
/// use creel::{Pool, Wait};
/// use std::time::Duration;
///
/// let streams = Pool::builder().workers(1).wait(Wait::Throttle(Duration::from_millis(2))).build()?;
/// assert_eq!("throttle:2ms".parse(), Ok(Wait::Throttle(Duration::from_millis(2))));
/// # drop(streams);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Sleeps at once: no CPU is burnt, each wake costs the waker 2–3 µs.
    Park,
    /// Spins for the given time, obeyed as said, then sleeps.
    Spin(Duration),
    /// Spins about as long as a park and wake would cost, less when spinning has not paid
    /// lately, and not at all when there are more workers than CPUs for them.
    #[default]
    Adaptive,
    /// Reacts once a quantum: due timers, ready sockets and woken tasks wait for its end; what
    /// is urgent (`run_on`, spawns, shutting down) gets through at once. A quantum of zero is
    /// [`Wait::Park`].
    Throttle(Duration),
}

/// How the items of a loop are shared out among the workers.
///
/// | your loop | take |
/// |---|---|
/// | the same data again and again; or you do not know | `Sticky`: the data stays in the caches, and who is done helps |
/// | few jobs of unlike length: files, songs, tiles of a picture | `Shared`: who is free takes the next |
/// | equal items, and each worker must have the very same ones each time | `Fixed`: nobody helps a worker that is free, so the slowest decides |
///
/// It is the pool's, or a call's: [`Pool::with`](crate::Pool::with).
///
/// ```
/// use creel::{Balance, Pool};
///
/// let pool = Pool::builder().workers(2).build()?; // sticky
/// let lengths = pool.with_balance(Balance::Shared).map(&["a", "abc"], |song| song.len());
/// assert_eq!(lengths, [1, 3]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Each worker gets the same even share in each call, and nobody helps anybody. A worker that is
    /// free always runs its own share. If it is busy with something else (a task, a job of a scope),
    /// an idle worker or the caller runs the whole share in its place, because nothing that is ready
    /// waits for a busy worker.
    Fixed,
    /// Each worker begins with its own range, the same call after call, so that its data stays
    /// in its cache; who is done takes blocks from the back of another's range, near ones first.
    ///
    /// A loop that was measured to be short is run by its caller alone, so items must not wait for
    /// each other. Take `Fixed` or `Shared` where they do.
    #[default]
    Sticky,
    /// One queue for all, in the order given: the best for few, long jobs of unlike length
    /// (the longest first: [`each_longest_first`](crate::Pool::each_longest_first)).
    Shared,
}

/// A knob's text that does not parse: tells the text and what would be understood.
///
/// ```
/// let error = "often".parse::<creel::Balance>().unwrap_err();
/// assert_eq!(error.to_string(), "`often` is not one of fixed, sticky, shared");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseKnobError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for ParseKnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.text, self.expected)
    }
}

impl std::error::Error for ParseKnobError {}

const WAITS: &str =
    "park, adaptive, spin:TIME, throttle:TIME (a TIME is a number with ns, us, ms or s: 20us)";
const BALANCES: &str = "fixed, sticky, shared";

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Park => f.write_str("park"),
            Wait::Spin(d) => write!(f, "spin:{}", Time(*d)),
            Wait::Adaptive => f.write_str("adaptive"),
            Wait::Throttle(d) => write!(f, "throttle:{}", Time(*d)),
        }
    }
}

impl FromStr for Wait {
    type Err = ParseKnobError;

    /// Reads `park`, `adaptive`, `spin:20us` or `throttle:2ms`.
    fn from_str(text: &str) -> Result<Self, ParseKnobError> {
        let wait = match text.split_once(':') {
            None if text == "park" => Some(Wait::Park),
            None if text == "adaptive" => Some(Wait::Adaptive),
            Some(("spin", time)) => parse_time(time).map(Wait::Spin),
            Some(("throttle", time)) => parse_time(time).map(Wait::Throttle),
            _ => None,
        };
        wait.ok_or_else(|| ParseKnobError {
            text: text.into(),
            expected: WAITS,
        })
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Balance::Fixed => "fixed",
            Balance::Sticky => "sticky",
            Balance::Shared => "shared",
        })
    }
}

impl FromStr for Balance {
    type Err = ParseKnobError;

    /// Reads `fixed`, `sticky` or `shared`.
    fn from_str(text: &str) -> Result<Self, ParseKnobError> {
        match text {
            "fixed" => Ok(Balance::Fixed),
            "sticky" => Ok(Balance::Sticky),
            "shared" => Ok(Balance::Shared),
            _ => Err(ParseKnobError {
                text: text.into(),
                expected: BALANCES,
            }),
        }
    }
}

/// The units of a time, smallest first.
const UNITS: [(&str, u128); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// A duration in the largest unit that tells it whole.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let whole = UNITS
            .iter()
            .rev()
            .find(|(_, size)| ns.is_multiple_of(*size));
        let (unit, size) = whole.unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", ns / size)
    }
}

/// Reads `20us`, `1.5ms`, `2s`, at most an hour: a wait is bounded.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(digits);
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let seconds = number.parse::<f64>().ok()? * *size as f64 / 1e9;
    let bounded = (0.0..=3600.0).contains(&seconds);
    bounded.then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_read_back_what_they_print() {
        for text in [
            "park",
            "adaptive",
            "spin:20us",
            "throttle:2ms",
            "throttle:0s",
        ] {
            assert_eq!(text.parse::<Wait>().unwrap().to_string(), text);
        }
        for text in ["fixed", "sticky", "shared"] {
            assert_eq!(text.parse::<Balance>().unwrap().to_string(), text);
        }
        let odd = Wait::Spin(Duration::from_nanos(1_500));
        assert_eq!("spin:1.5us".parse(), Ok(odd));
        assert_eq!(odd.to_string(), "spin:1500ns");
    }

    #[test]
    fn a_wrong_knob_is_named() {
        for text in [
            "",
            "spin",
            "spin:",
            "spin:5",
            "spin:-1us",
            "throttle:2h",
            "spin:nanus",
            "spin:1e99s",
        ] {
            let error = text.parse::<Wait>().unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("`{text}` is not one of park"))
            );
        }
        assert!("Sticky".parse::<Balance>().is_err());
    }
}
