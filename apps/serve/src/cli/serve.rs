//! `creel-serve` without a subcommand: runs the service with settings from flags and a file.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::Wait;
use creel_console::{Common, Exit, Failure, duration, files, output};
use creel_serve::crypto::Cost;
use creel_serve::store::Kind;
use creel_serve::{Server, Settings};
use serde::{Deserialize, Deserializer, de};

use super::time::{Time, parsed};
use super::{exit_error, private, shutdown, store};

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
}

// The fields are the flags of the command line and, by the same names, the keys of the file. We do
// not use a doc comment here, because clap would print it as the description of the program.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Listen on this address. Port 0 picks a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT", help_heading = "Connections")]
    listen: Option<SocketAddr>,
    /// Serve up to N connections at once. Further clients wait until one ends [default: 20000]
    #[arg(long, value_name = "N", help_heading = "Connections")]
    connections: Option<usize>,
    /// Close a connection that is idle, or that has not sent a complete request head, for TIME
    /// [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Connections")]
    head_timeout: Option<Time>,
    /// Close a connection if its client reads nothing of an answer for TIME [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Connections")]
    write_timeout: Option<Time>,
    /// Reject request bodies longer than BYTES, with status 413 [default: 65536]
    #[arg(long, value_name = "BYTES", help_heading = "Connections")]
    body_max: Option<usize>,
    /// Reject request heads longer than BYTES, at least 8192 [default: 16384]
    #[arg(long, value_name = "BYTES", help_heading = "Connections")]
    head_max: Option<usize>,
    /// Serve HTTPS with the certificate chain in this PEM file
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    tls_cert: Option<PathBuf>,
    /// Use the private key of the certificate in this PEM file
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    tls_key: Option<PathBuf>,
    /// Use N workers for the cryptography [default: one per usable core]
    #[arg(
        long,
        value_name = "N",
        value_parser = creel_console::knobs::jobs,
        help_heading = "Workers"
    )]
    workers: Option<usize>,
    /// Use N workers for the connections [default: half the usable cores]
    #[arg(
        long,
        value_name = "N",
        value_parser = creel_console::knobs::jobs,
        help_heading = "Workers"
    )]
    io_workers: Option<usize>,
    /// Choose how idle connection workers wait: adaptive (spin for a short time, then sleep), park
    /// (sleep at once) or throttle:1ms (sleep, and handle all events of a millisecond together)
    /// [default: adaptive]
    #[arg(long, value_name = "HOW", help_heading = "Workers")]
    #[serde(deserialize_with = "optional")]
    io_wait: Option<Wait>,
    /// Keep the signing key and the embedded store in this folder, which is created if it is
    /// missing [default: creel-serve-data]
    #[arg(long, value_name = "DIR", help_heading = "Storage")]
    data: Option<PathBuf>,
    /// Keep records in STORE: a file path, memory (lost when the service ends), redis://HOST,
    /// rediss://HOST (Redis with TLS), redis+sentinel://HOST,HOST/MASTER,
    /// redis+cluster://HOST,HOST, or unix:PATH (the socket of a Redis server). HOST can have a port
    /// and a user, as in USER@HOST:PORT. A /N at the end selects database N, and ?db=N does so
    /// after unix:PATH [env: CREEL_SERVE_STORE] [default: records.redb in the folder of --data]
    // We parse the text later, because clap and toml print values that they reject, and the text
    // may contain a password.
    #[arg(long, value_name = "STORE", help_heading = "Storage")]
    pub(super) store: Option<String>,
    /// Log in to Redis with the password in the first line of this file. You can also set the
    /// variables CREEL_SERVE_STORE_USER and CREEL_SERVE_STORE_PASSWORD
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(super) store_password_file: Option<PathBuf>,
    /// Log in to the Sentinels with the password in the first line of this file. You can also set
    /// the variables CREEL_SERVE_SENTINEL_USER and CREEL_SERVE_SENTINEL_PASSWORD
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(super) sentinel_password_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file for rediss:// [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(super) store_ca: Option<PathBuf>,
    /// Authenticate to the Redis server with the client certificate chain in this PEM file
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(super) store_cert: Option<PathBuf>,
    /// Use the private key of --store-cert in this PEM file
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(super) store_cert_key: Option<PathBuf>,
    /// Acknowledge a record only when N replicas of the Redis server have it as well [default: 1
    /// with Sentinel or a cluster whose master has a replica, and otherwise 0]
    #[arg(long, value_name = "N", help_heading = "Storage")]
    pub(super) store_replicas: Option<usize>,
    /// Read the signing key from this file of 64 hex digits, which is created if it is missing
    /// [default: key in the folder of --data]
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    key: Option<PathBuf>,
    /// Hash passwords with these Argon2 parameters: m KiB of memory, t passes and p lanes [default:
    /// m=19456,t=2,p=1]
    #[arg(long, value_name = "COST", help_heading = "Storage")]
    #[serde(deserialize_with = "optional")]
    password_cost: Option<Cost>,
    /// Reject requests that would wait too long, or that exceed --queue, at once and with status
    /// 503 [default: on]
    #[arg(long, value_name = "WHEN", help_heading = "Overload control")]
    admission: Option<Switch>,
    /// Keep the queueing delay near TIME during a lasting overload, by rejecting requests [default:
    /// 10ms]
    #[arg(long, value_name = "TIME", help_heading = "Overload control")]
    target: Option<Time>,
    /// Treat an overload as lasting when the queueing delay has been above --target for TIME.
    /// Requests of shorter bursts are queued [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Overload control")]
    interval: Option<Time>,
    /// Let up to N requests wait for a cryptography worker. With --admission on, further requests
    /// get status 503 [default: 4096]
    #[arg(long, value_name = "N", help_heading = "Overload control")]
    queue: Option<usize>,
    /// Give up on a request that is not done after TIME, and answer with status 503, or 408 if its
    /// body is incomplete. A request can set another timeout with the header x-timeout-ms [default:
    /// 1s]
    #[arg(long, value_name = "TIME", help_heading = "Overload control")]
    deadline: Option<Time>,
    /// Limit the timeout that a request can set with x-timeout-ms to TIME [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = "Overload control")]
    deadline_max: Option<Time>,
    /// Keep serving for TIME after a signal to stop, so that clients can move to another server. In
    /// this time, /ready returns 503, and each HTTP/1 answer closes its connection. Then the
    /// listener closes. 0s closes it at once [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = or_zero, help_heading = "Shutdown")]
    #[serde(deserialize_with = "drain")]
    drain: Option<Time>,
    /// Wait up to TIME for requests in flight after the listener has closed, and then end the
    /// service [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Shutdown")]
    grace: Option<Time>,
    /// Write one line of JSON per answer to FILE, or to stderr if FILE is - [default: no log]
    #[arg(long, value_name = "FILE", help_heading = "Logging")]
    access_log: Option<PathBuf>,
    // The file's key `quiet` has the meaning of the flag that all programs have.
    #[arg(skip)]
    quiet: bool,
}

/// Deserializes a setting that the file writes as a string.
fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    parsed(from).map(Some)
}

/// Parses a duration that may be zero, which [`Time`] does not allow.
fn or_zero(text: &str) -> Result<Time, String> {
    duration::value_parser(text).map(Time)
}

/// Deserializes the setting `drain`, which may be zero.
fn drain<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    let text = String::deserialize(from)?;
    or_zero(&text).map(Some).map_err(de::Error::custom)
}

#[derive(Args, Debug)]
pub struct Serve {
    /// Read settings from a TOML file. Its keys are the names of these flags, for example
    /// `io-workers`, and `quiet`. Flags take precedence over the file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

impl Serve {
    /// Runs the service until a signal stops it.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let file = match &self.config {
            Some(path) => read(path)?,
            None => Options::default(),
        };
        let is_quiet = common.quiet || file.quiet;
        if let Some(text) = &self.options.store {
            store::check_flag(text)?;
        }
        if let (Some(path), Some(text)) = (&self.config, &file.store)
            && store::has_password(text)
        {
            private::warn_if_readable(path, "a password");
        }
        let settings = self.options.over(&file).settings()?;
        // We install the handlers before we print the address, because a script that reads the
        // address may stop the service at once.
        let stop = shutdown::signal()?;
        let server = Server::open(&settings).map_err(exit_error)?;
        let scheme = if settings.tls.is_some() {
            "https"
        } else {
            "http"
        };
        // This is the only line on stdout. Scripts read the port from it, for example with --listen
        // 127.0.0.1:0.
        output::text(&format!("{scheme}://{}\n", server.address()))?;
        if !is_quiet {
            output::note(&note(&settings, server.store_trouble().is_some()));
        }
        let most = files::allow_many();
        // A limit a little below the setting is not worth a note.
        if most < settings.connections / 10 * 9 {
            output::note(&format!(
                "creel-serve: only {most} connections can be open at once, because of the limit of \
                 open files. Raise it with ulimit -n\n"
            ));
        }
        server.run(stop);
        Ok(Exit::Done)
    }
}

/// Returns the note on stderr that names the store. If the store does not work yet, another line
/// has already reported why.
fn note(settings: &Settings, is_waiting: bool) -> String {
    let store = match &settings.store {
        Kind::Memory => "in memory".to_owned(),
        store => store.to_string(),
    };
    if is_waiting {
        return format!(
            "waiting for the store: {store}. Requests that need it get status 503 until it accepts \
             records. Press Ctrl-C to stop\n"
        );
    }
    format!("keeping records: {store}. Press Ctrl-C to stop\n")
}

/// Reads the settings of a TOML file.
fn read(path: &Path) -> anyhow::Result<Options> {
    let text = fs::read_to_string(path).map_err(|error| {
        let why = format!(
            "cannot read the configuration file {} (--config): {error}",
            path.display()
        );
        match error.kind() {
            ErrorKind::InvalidData => Failure::new(Exit::BadData, why),
            _ => Failure::new(Exit::SomeFailed, why),
        }
    })?;
    let options = toml::from_str(&text);
    options.map_err(|error| {
        Failure::new(
            Exit::BadData,
            format!(
                "invalid settings in the configuration file {}: {error}",
                path.display()
            ),
        )
        .into()
    })
}

impl Options {
    /// Returns these options. An option that is not given here is taken from the file.
    fn over(&self, file: &Options) -> Options {
        let (one, other) = (self.clone(), file.clone());
        Options {
            listen: one.listen.or(other.listen),
            workers: one.workers.or(other.workers),
            io_workers: one.io_workers.or(other.io_workers),
            io_wait: one.io_wait.or(other.io_wait),
            data: one.data.or(other.data),
            // Flags have priority over the environment, and the environment over the file.
            store: one.store.or_else(store::from_environment).or(other.store),
            store_password_file: one.store_password_file.or(other.store_password_file),
            sentinel_password_file: one.sentinel_password_file.or(other.sentinel_password_file),
            store_ca: one.store_ca.or(other.store_ca),
            store_cert: one.store_cert.or(other.store_cert),
            store_cert_key: one.store_cert_key.or(other.store_cert_key),
            store_replicas: one.store_replicas.or(other.store_replicas),
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

    /// Converts the options to settings, with defaults for options that are not given.
    ///
    /// Creates the data folder if the key or the store is in it.
    fn settings(self) -> anyhow::Result<Settings> {
        let defaults = Settings::default();
        let time = |value: Option<Time>, default| value.map_or(default, |time: Time| time.0);
        let data = self.data.clone();
        let data = data.unwrap_or_else(|| "creel-serve-data".into());
        let store = match store::kind(&self)? {
            Some(kind) => kind,
            None => Kind::File(data.join("records.redb")),
        };
        let key = self.key.unwrap_or_else(|| data.join("key"));
        if key.starts_with(&data) || matches!(&store, Kind::File(path) if path.starts_with(&data)) {
            private::create_folder(&data)
                .with_context(|| format!("cannot create the data folder {}", data.display()))?;
        }
        private::warn_if_readable(&key, "the signing key");
        if let Kind::File(records) = &store {
            private::warn_if_readable(records, "the records");
        }
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(chain), Some(key)) => {
                private::warn_if_readable(&key, "the private key of the certificate");
                Some((chain, key))
            }
            (None, None) => None,
            _ => anyhow::bail!(Failure::new(
                Exit::Usage,
                "HTTPS needs both --tls-cert and --tls-key"
            )),
        };
        let at_least_one = [("connections", self.connections), ("queue", self.queue)];
        for (name, value) in at_least_one {
            if value == Some(0) {
                anyhow::bail!(Failure::new(
                    Exit::Usage,
                    format!("with --{name} 0 the service would answer no request: use 1 or more")
                ));
            }
        }
        if self.head_max.is_some_and(|bytes| bytes < 8192) {
            anyhow::bail!(Failure::new(
                Exit::Usage,
                "--head-max must be at least 8192 bytes"
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
