//! The command line. Each command has a file of its own.

mod article;
mod duration;
pub mod evaluate;
mod finished_runs;
mod live;
mod live_view;
mod media;
pub mod receive;
pub mod relay;
mod report;
pub mod rooms;
mod rows;
pub mod send;
pub mod standalone;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use clap::{Args, ValueEnum};
use creel::Observe;
use creel_cast::{Error, WavError};
use creel_console::{Exit, Failure, Interrupt, exit_of, with_causes};

use duration::parse_duration;

/// The flags for contexts that `standalone` and `send` have in common.
#[derive(Args, Debug)]
#[command(next_help_heading = "Streams and contexts")]
struct ContextArgs {
    /// Run N streams
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count)]
    streams: usize,
    /// Share the streams among N threads (contexts)
    #[arg(long, alias = "groups", value_name = "N", default_value_t = 1, value_parser = count)]
    contexts: usize,
    /// Save CPU time by handling packets and timers at most once per TIME in each context. They are
    /// then up to TIME late. 0ms means at once [default: 2ms, or the time of a packet if that is
    /// shorter, so that packets leave one by one]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    observe_args: ObserveArgs,
}

/// How long a context waits unless the user says otherwise.
const WAIT: Duration = Duration::from_millis(2);

impl ContextArgs {
    /// Returns how long a context waits if the shortest packet lasts `packet_time`.
    fn wait(&self, packet_time: Option<Duration>) -> Duration {
        let most = packet_time.unwrap_or(WAIT).max(Duration::from_micros(50));
        self.wait.unwrap_or(WAIT.min(most))
    }
}

/// The flag for observers of the contexts, which all commands except `evaluate` have.
#[derive(Args, Debug)]
struct ObserveArgs {
    /// Choose what other processes may do with the contexts: off (nothing), or look (`creel top`
    /// shows the contexts) [default: off]
    #[arg(long, value_name = "O", value_parser = observe)]
    observe: Option<Observe>,
}

/// The contents of a datagram or of a TCP frame.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// RTP packets
    Rtp,
    /// Bare samples without a header, little-endian
    Raw,
}

/// Returns the first address of `ports` free ports in a row on the loopback, from port `first` on.
/// If there are none, opening the ports from `first` on will report why.
fn free_ports(first: u16, ports: usize) -> SocketAddr {
    let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let is_free = |base: u16, n: usize| {
        let port = u16::try_from(n).ok().and_then(|n| base.checked_add(n));
        port.is_some_and(|port| UdpSocket::bind(address(port)).is_ok())
    };
    let are_free = |&base: &u16| (0..ports).all(|n| is_free(base, n));
    let mut bases = (first..u16::MAX).step_by(500);
    address(bases.find(are_free).unwrap_or(first))
}

/// Parses a number from one to a million.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("expected a number from 1 to 1000000".into()),
    }
}

/// Parses what other processes may do. `resize` is not accepted, because a context always has one
/// worker.
fn observe(text: &str) -> Result<Observe, String> {
    match text.parse() {
        Ok(allowed @ (Observe::Off | Observe::Look)) => Ok(allowed),
        _ => Err("expected `off` or `look`".into()),
    }
}

/// Parses a duration that is not zero.
fn period(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("expected a duration longer than zero".into()),
        time => Ok(time),
    }
}

/// Parses the duration of a packet. We reject durations of more than a minute, because such a
/// packet exceeds the size of a datagram.
fn packet_time(text: &str) -> Result<Duration, String> {
    match period(text)? {
        time if time > Duration::from_secs(60) => {
            Err("a packet can contain at most one minute of sound".into())
        }
        time => Ok(time),
    }
}

/// Returns the exit code of a run whose figures have been printed. If the user interrupted the
/// run, this function reports it, and the interrupt's code replaces `exit`.
fn exit_code(interrupt: &Interrupt, exit: Exit) -> Exit {
    match interrupt.check() {
        Ok(()) => exit,
        Err(failure) => {
            let error = failure.into();
            creel_console::report("creel-cast", &error);
            exit_of(&error)
        }
    }
}

/// Adds the exit code that belongs to the error of a run. The code of an interrupted run is that of
/// the signal.
fn run_error(error: Error, interrupt: &Interrupt) -> anyhow::Error {
    match interrupt.check() {
        Err(failure) if matches!(error, Error::Interrupted) => failure.into(),
        _ => exit_error(error),
    }
}

/// Adds the exit code that belongs to an error of the library.
fn exit_error(error: Error) -> anyhow::Error {
    let exit = match &error {
        Error::Plan(_) | Error::Pool(_) => Exit::Usage,
        Error::Interrupted => Exit::Interrupted,
        Error::Wav(WavError::Io(..)) | Error::File(..) => Exit::SomeFailed,
        Error::Wav(_) | Error::Malformed(..) => Exit::BadData,
        Error::Socket(..) => Exit::TryAgain,
    };
    Failure::new(exit, with_causes(error)).into()
}
