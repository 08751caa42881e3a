//! `creel-serve` itself: the service, set by flags and by a file.

use std::fs;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::Wait;
use creel::signal::{SIGHUP, SIGINT, SIGTERM, signal};
use creel_console::{Common, Exit, Failure, Interrupt, files, is_ignored, output};
use creel_serve::crypto::Cost;
use creel_serve::store::Kind;
use creel_serve::{Server, Settings};
use serde::{Deserialize, Deserializer, de};

use super::exit_error;
use super::time::{Time, parsed};

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
}

/// The service's settings, on the command line and, by the same names, in a file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Where to listen; port 0: any that is free [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Workers for the cryptography [default: the usable cores]
    #[arg(long, value_name = "N", value_parser = creel_console::knobs::jobs)]
    workers: Option<usize>,
    /// Workers for connections [default: half of the usable cores]
    #[arg(long, value_name = "N", value_parser = creel_console::knobs::jobs)]
    io_workers: Option<usize>,
    /// How these wait when they have nothing to do: adaptive, park, throttle:1ms (look once a
    /// millisecond, and then at all that has come) [default: adaptive]
    #[arg(long, value_name = "HOW")]
    #[serde(deserialize_with = "optional")]
    io_wait: Option<Wait>,
    /// A folder for the key and the embedded store; made if it is not there [default:
    /// creel-serve-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where records are kept: a file, redis://HOST:PORT, unix:PATH of a Redis, or memory [default:
    /// records.redb in the folder]
    // Parsed later: clap and toml print what they refuse, and a password may be in it.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// The key's file, 64 hex digits; made if it is not there [default: key in the folder]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// What a password costs [default: m=19456,t=2,p=1]
    #[arg(long, value_name = "COST")]
    #[serde(deserialize_with = "optional")]
    password_cost: Option<Cost>,
    /// Refuse who would wait for too long [default: on]
    #[arg(long, value_name = "WHEN")]
    admission: Option<Switch>,
    /// The delay that a lasting overload is held at [default: 10ms]
    #[arg(long, value_name = "TIME")]
    target: Option<Time>,
    /// For how long the delay is above that before it is called lasting [default: 100ms]
    #[arg(long, value_name = "TIME")]
    interval: Option<Time>,
    /// Requests that wait for the cryptography at most [default: 4096]
    #[arg(long, value_name = "N")]
    queue: Option<usize>,
    /// For how long a request is worked on, unless it says by x-timeout-ms [default: 1s]
    #[arg(long, value_name = "TIME")]
    deadline: Option<Time>,
    /// For how long at most, if it says [default: 60s]
    #[arg(long, value_name = "TIME")]
    deadline_max: Option<Time>,
    /// A body at most, in bytes [default: 65536]
    #[arg(long, value_name = "BYTES")]
    body_max: Option<usize>,
    /// A head at most, in bytes, 8192 or more [default: 16384]
    #[arg(long, value_name = "BYTES")]
    head_max: Option<usize>,
    /// For how long a head may take to come, and a connection may be idle [default: 10s]
    #[arg(long, value_name = "TIME")]
    head_timeout: Option<Time>,
    /// For how long a client may take nothing of its answer [default: 10s]
    #[arg(long, value_name = "TIME")]
    write_timeout: Option<Time>,
    /// Connections at most; others wait to be accepted [default: 20000]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// How long to ask clients to go elsewhere, by /ready and by each answer, before the listener
    /// closes; 0s: not at all [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = or_zero)]
    #[serde(deserialize_with = "drain")]
    drain: Option<Time>,
    /// For how long, in the end, those who have asked may be answered [default: 10s]
    #[arg(long, value_name = "TIME")]
    grace: Option<Time>,
    /// Write a JSON line an answer to a file; - is stderr [default: none]
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// A certificate's chain, PEM: HTTPS (feature tls)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// As the flag that all programs have.
    #[arg(skip)]
    quiet: bool,
}

fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    parsed(from).map(Some)
}

/// A time that may be none.
fn or_zero(text: &str) -> Result<Time, String> {
    match text {
        "0s" | "0ms" => Ok(Time(Duration::ZERO)),
        _ => text.parse(),
    }
}

fn drain<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    let text = String::deserialize(from)?;
    or_zero(&text).map(Some).map_err(de::Error::custom)
}

#[derive(Args, Debug)]
pub struct Serve {
    /// Take settings from a TOML file, whose names are those of these flags and quiet; flags go
    /// before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

impl Serve {
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let file = match &self.config {
            Some(path) => read(path)?,
            None => Options::default(),
        };
        let is_quiet = common.quiet || file.quiet;
        let settings = self.options.over(&file).settings()?;
        // Before the line that says it is there: whoever reads that may end it at once.
        let stop = shutdown_signal()?;
        let server = Server::open(&settings).map_err(exit_error)?;
        let scheme = if settings.tls.is_some() {
            "https"
        } else {
            "http"
        };
        // The one line on stdout, by which a script learns the port.
        output::text(&format!("{scheme}://{}\n", server.address()))?;
        if !is_quiet {
            output::note(&note(&settings));
        }
        let most = files::allow_many();
        // A few less are no news.
        if most < settings.connections / 10 * 9 {
            output::note(&format!(
                "connections: {most} at once, by the limit of open files (ulimit -n)\n"
            ));
        }
        server.run(stop);
        Ok(Exit::Done)
    }
}

/// Ready at the first SIGINT or SIGTERM, of which a second one ends the process at once; or SIGHUP,
/// unless it is to be ignored (`nohup`).
fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let interrupt = Interrupt::install()?;
    let handles_hup = !is_ignored(SIGHUP);
    let signals = [signal(SIGINT)?, signal(SIGTERM)?, signal(SIGHUP)?];
    Ok(async move {
        let [mut int, mut term, mut hup] = signals;
        let (mut int, mut term) = (pin!(int.recv()), pin!(term.recv()));
        let mut hup = pin!(hup.recv());
        poll_fn(|cx| {
            let signalled = int.as_mut().poll(cx).is_ready()
                || term.as_mut().poll(cx).is_ready()
                || handles_hup && hup.as_mut().poll(cx).is_ready();
            if signalled || interrupt.requested() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    })
}

fn note(settings: &Settings) -> String {
    let store = match &settings.store {
        Kind::Memory => "in memory".to_owned(),
        Kind::File(path) => path.display().to_string(),
        Kind::Redis(address) => format!("redis at {address}"),
    };
    format!("records: {store}; Ctrl-C ends\n")
}

fn read(path: &Path) -> anyhow::Result<Options> {
    let text = fs::read_to_string(path).map_err(|error| {
        let why = format!("--config {}: {error}", path.display());
        match error.kind() {
            ErrorKind::InvalidData => Failure::new(Exit::BadData, why),
            _ => Failure::new(Exit::Usage, why),
        }
    })?;
    let options = toml::from_str(&text);
    options
        .map_err(|error| Failure::new(Exit::BadData, format!("{}: {error}", path.display())).into())
}

impl Options {
    /// These, and where one is not given, those of a file.
    fn over(&self, file: &Options) -> Options {
        let (one, other) = (self.clone(), file.clone());
        Options {
            listen: one.listen.or(other.listen),
            workers: one.workers.or(other.workers),
            io_workers: one.io_workers.or(other.io_workers),
            io_wait: one.io_wait.or(other.io_wait),
            data: one.data.or(other.data),
            store: one.store.or(other.store),
            key: one.key.or(other.key),
            password_cost: one.password_cost.or(other.password_cost),
            admission: one.admission.or(other.admission),
            target: one.target.or(other.target),
            interval: one.interval.or(other.interval),
            queue: one.queue.or(other.queue),
            deadline: one.deadline.or(other.deadline),
            deadline_max: one.deadline_max.or(other.deadline_max),
            body_max: one.body_max.or(other.body_max),
            head_max: one.head_max.or(other.head_max),
            head_timeout: one.head_timeout.or(other.head_timeout),
            write_timeout: one.write_timeout.or(other.write_timeout),
            connections: one.connections.or(other.connections),
            drain: one.drain.or(other.drain),
            grace: one.grace.or(other.grace),
            access_log: one.access_log.or(other.access_log),
            tls_cert: one.tls_cert.or(other.tls_cert),
            tls_key: one.tls_key.or(other.tls_key),
            quiet: one.quiet || other.quiet,
        }
    }

    /// What they amount to. Makes the folder, if something is to be kept there.
    fn settings(self) -> anyhow::Result<Settings> {
        let defaults = Settings::default();
        let time = |value: Option<Time>, default| value.map_or(default, |time: Time| time.0);
        let data = self.data.unwrap_or_else(|| "creel-serve-data".into());
        let store = match self.store {
            Some(text) => text
                .parse::<Kind>()
                .map_err(|why| Failure::new(Exit::Usage, format!("--store: {why}")))?,
            None => Kind::File(data.join("records.redb")),
        };
        let key = self.key.unwrap_or_else(|| data.join("key"));
        if key.starts_with(&data) || matches!(&store, Kind::File(path) if path.starts_with(&data)) {
            fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
        }
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => anyhow::bail!(Failure::new(
                Exit::Usage,
                "--tls-cert and --tls-key go together"
            )),
        };
        let none = [("connections", self.connections), ("queue", self.queue)];
        for (name, value) in none {
            if value == Some(0) {
                anyhow::bail!(Failure::new(
                    Exit::Usage,
                    format!("--{name} 0: nobody would be served")
                ));
            }
        }
        if self.head_max.is_some_and(|bytes| bytes < 8192) {
            anyhow::bail!(Failure::new(
                Exit::Usage,
                "--head-max: 8192 or more is needed"
            ));
        }
        Ok(Settings {
            listen: self.listen.unwrap_or(defaults.listen),
            workers: self.workers,
            io_workers: self.io_workers,
            io_wait: self.io_wait.unwrap_or(defaults.io_wait),
            store,
            key: Some(key),
            password_cost: self.password_cost.unwrap_or(defaults.password_cost),
            admission: self.admission != Some(Switch::Off),
            target: time(self.target, defaults.target),
            interval: time(self.interval, defaults.interval),
            queue: self.queue.unwrap_or(defaults.queue),
            deadline: time(self.deadline, defaults.deadline),
            deadline_max: time(self.deadline_max, defaults.deadline_max),
            body_max: self.body_max.unwrap_or(defaults.body_max),
            head_max: self.head_max.unwrap_or(defaults.head_max),
            head_timeout: time(self.head_timeout, defaults.head_timeout),
            write_timeout: time(self.write_timeout, defaults.write_timeout),
            connections: self.connections.unwrap_or(defaults.connections),
            drain: time(self.drain, defaults.drain),
            grace: time(self.grace, defaults.grace),
            access_log: self.access_log,
            tls,
        })
    }
}
