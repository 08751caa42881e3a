//! Two of the four settings of a pool: how workers wait, and how work moves between them.
//!
//! The other two settings are the number of workers and a [`Placement`](creel_topology::Placement).

use std::{fmt, str::FromStr, time::Duration};

/// How a worker waits when it has nothing to do.
///
/// | your program | use |
/// |---|---|
/// | runs loops many times a second (frames, tokens, ticks), or you do not know | `Adaptive`: workers are awake when the next loop starts, and asleep if no loop comes |
/// | has work now and then, runs batches, or shares the machine with other pools | `Park`: each wake costs a few microseconds, and workers never burn CPU time |
/// | has a CPU for each worker, and no wake may ever be late | `Spin(d)`, with `d` longer than the longest pause |
/// | serves thousands of timed streams, and a few milliseconds do not matter | `Throttle(q)`: one wake per quantum serves all of them |
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Wait {
    /// The worker sleeps at once. It burns no CPU time, but each wake costs the waker 2–3 µs.
    Park,
    /// The worker spins for exactly this time, and then sleeps.
    Spin(Duration),
    /// The worker spins for about as long as a sleep and a wake would cost. It spins for a shorter
    /// time if spinning has not paid recently. If there are more workers than CPUs for them, those
    /// beyond the number of CPUs do not spin at all.
    #[default]
    Adaptive,
    /// The worker reacts once per quantum. Due timers, ready sockets and woken tasks wait for the
    /// end of the quantum. Urgent work, which is `run_on`, spawns and shutting down, is handled at
    /// once. A quantum of zero is the same as [`Wait::Park`].
    Throttle(Duration),
}

/// How a loop distributes its items among the workers.
///
/// | your loop | use |
/// |---|---|
/// | visits the same data again and again, or you do not know | `Sticky`: the data stay in the caches, and a worker that is done helps others |
/// | has few jobs of different lengths, such as files, songs or tiles of a picture | `Shared`: a free worker takes the next job |
/// | has equal items, and each worker must get exactly the same ones each time | `Fixed`: a worker takes nothing from the share of a free worker, so the slowest worker decides how long the loop takes |
///
/// You can set it for a pool with [`PoolBuilder::balance`](crate::PoolBuilder::balance), and for
/// single loops with [`Pool::with_balance`](crate::Pool::with_balance).
///
/// ```
/// use creel::{Balance, Pool};
///
/// let pool = Pool::builder().workers(2).build()?; // sticky
/// let lengths = pool.with_balance(Balance::Shared).map(&["a", "abc"], |song| song.len());
/// assert_eq!(lengths, [1, 3]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Each worker gets an equal share, which is the same in each call, and takes nothing from the
    /// others. If a worker has not begun its share when the caller is done with its own, the caller
    /// runs the whole share. A worker may be busy with something else, for example a task or a job
    /// of a scope. Then an idle worker or the caller runs the whole share in its place, because
    /// ready work never waits for a busy worker.
    Fixed,
    /// Each worker starts with its own range, which is the same in each call, so that its data stay
    /// in its cache. A worker that is done takes blocks from the back of another worker's range,
    /// and prefers workers that are near.
    ///
    /// If a loop has been measured to be short, its caller runs it alone. Therefore, items must not
    /// wait for each other. Use `Fixed` or `Shared` if they do.
    #[default]
    Sticky,
    /// All workers take items from one queue, in the given order. This is best for a few long jobs
    /// of different lengths. To start with the longest, use
    /// [`for_each_longest_first`](crate::Pool::for_each_longest_first).
    Shared,
}

/// The error of parsing a [`Wait`], a [`Balance`] or an [`Observe`](crate::Observe). Its message
/// contains the text that could not be parsed, and the texts that would be accepted.
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

impl ParseKnobError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        let text = text.into();
        Self { text, expected }
    }
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

    /// Parses `park`, `adaptive`, `spin:20us` or `throttle:2ms`.
    fn from_str(text: &str) -> Result<Self, ParseKnobError> {
        let wait = match text.split_once(':') {
            None if text == "park" => Some(Wait::Park),
            None if text == "adaptive" => Some(Wait::Adaptive),
            Some(("spin", time)) => parse_time(time).map(Wait::Spin),
            Some(("throttle", time)) => parse_time(time).map(Wait::Throttle),
            _ => None,
        };
        wait.ok_or_else(|| ParseKnobError::new(text, WAITS))
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

    /// Parses `fixed`, `sticky` or `shared`.
    fn from_str(text: &str) -> Result<Self, ParseKnobError> {
        match text {
            "fixed" => Ok(Balance::Fixed),
            "sticky" => Ok(Balance::Sticky),
            "shared" => Ok(Balance::Shared),
            _ => Err(ParseKnobError::new(text, BALANCES)),
        }
    }
}

/// The units of a time in text, from the smallest to the largest, and their lengths in ns.
const UNITS: [(&str, u128); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// A duration that is displayed as a whole number, in the largest unit for which this is possible.
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

/// Parses a time such as `20us`, `1.5ms` or `2s`, up to one hour. The limit keeps a mistyped wait
/// from lasting for ever.
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
    fn waits_and_balances_print_the_text_that_they_were_parsed_from() {
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
    fn an_error_names_the_text_that_is_not_a_setting() {
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
