//! A view of a running pool from outside its program. `creel top` shows it, and
//! `creel run --watch` uses it to change the number of workers.
//!
//! A program that allows this opens a *window*. This is a listening Unix socket in Linux' abstract
//! namespace, with the name `creel/PID/NUMBER`. A client connects and sends one line, which is
//! `stats` or `workers N`. It receives one line of JSON (docs/schema.md).
//!
//! The window's thread sleeps until a client connects. For `stats`, it only reads counters that the
//! workers keep in any case. A pool with an unused window therefore pays nothing for it, and a pool
//! without a window does not even have the thread. We only answer processes of the same user and of
//! root.
//!
//! Windows exist only on Linux, and only with the feature `net`.

use super::{BuildError, ParseKnobError, Pool, shared::Shared};
use crate::{sync::lock, worker::slot::WorkerSlot};
use std::{
    fmt::{self, Write},
    str::FromStr,
    sync::Arc,
};

#[cfg(all(target_os = "linux", feature = "net"))]
pub(super) use window::Window;

/// What other programs may do with a pool.
///
/// ```
/// use creel::{Observe, Pool};
///
/// let pool = Pool::builder().workers(2).observe("look".parse()?).build()?;
/// assert!("watch".parse::<Observe>().is_err());
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Observe {
    /// Other programs may do nothing.
    #[default]
    Off,
    /// Other programs may see what the workers do, for example with `creel top`.
    Look,
    /// Other programs may also change the number of workers. For example, `creel run --watch`
    /// does so when the limits of the process change.
    Resize,
}

impl fmt::Display for Observe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Observe::Off => "off",
            Observe::Look => "look",
            Observe::Resize => "resize",
        })
    }
}

impl FromStr for Observe {
    type Err = ParseKnobError;

    /// Parses `off`, `look` or `resize`.
    fn from_str(text: &str) -> Result<Self, ParseKnobError> {
        match text {
            "off" => Ok(Observe::Off),
            "look" => Ok(Observe::Look),
            "resize" => Ok(Observe::Resize),
            _ => Err(ParseKnobError::new(text, "off, look, resize")),
        }
    }
}

#[cfg(not(all(target_os = "linux", feature = "net")))]
pub(super) struct Window;

#[cfg(not(all(target_os = "linux", feature = "net")))]
impl Window {
    fn open(_: &Arc<Shared>, _: Observe) -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn close(self) {}
}

impl Pool {
    /// Sets what other programs may do with this pool from now on.
    ///
    /// This opens a window with a thread of its own, which sleeps until a process of the same user
    /// or of root asks for something. The window closes when the pool ends. Each call replaces the
    /// window of the previous call, and [`Observe::Off`] closes it.
    ///
    /// # Errors
    /// Returns an error if the system refuses the socket or the thread, or if the pool has been
    /// dropped. Always returns an error on systems other than Linux and without the feature `net`,
    /// except for [`Observe::Off`].
    pub fn observe(&self, what: Observe) -> Result<(), BuildError> {
        let mut window = lock(&self.shared.window);
        if let Some(before) = window.take() {
            before.close();
        }
        if what != Observe::Off {
            if self.shared.slots.is_closing() {
                return Err(BuildError::Ended);
            }
            let opened = Window::open(&self.shared, what);
            *window = Some(opened.map_err(|error| BuildError::Observe(Arc::new(error)))?);
        }
        Ok(())
    }

    /// Closes the window. The pool calls this when it ends.
    pub(super) fn close_window(&self) {
        if let Some(window) = lock(&self.shared.window).take() {
            window.close();
        }
    }
}

/// Returns the state of a worker, as far as the worker has published it.
fn state(slot: &WorkerSlot) -> &'static str {
    match (slot.thread.is_running(), slot.sleeps(), slot.is_idle()) {
        (false, ..) => "unstarted",
        (_, true, _) => "parked",
        (_, _, true) => "looking",
        _ => "working",
    }
}

/// Returns the answer to `stats`, which is one line of JSON.
#[cfg_attr(not(all(target_os = "linux", feature = "net")), expect(dead_code))]
fn stats(shared: &Shared, allowed: Observe) -> Result<String, fmt::Error> {
    let stats = shared.stats();
    let tasks = &stats.tasks;
    let mut out = String::new();
    write!(
        out,
        "{{\"schema\":1,\"pool\":{},\"pid\":{},\"wait\":\"{}\",\"balance\":\"{}\",\
         \"resizable\":{},\"tasks\":{{\"spawned\":{},\"finished\":{},\"cancelled\":{},\
         \"polls\":{},\"steals\":{}}},\"workers\":[",
        Quoted(&shared.slots.name),
        std::process::id(),
        shared.wait,
        shared.balance,
        allowed == Observe::Resize,
        tasks.spawned,
        tasks.finished,
        tasks.cancelled,
        tasks.polls,
        tasks.steals,
    )?;
    for (index, worker) in stats.workers.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(
            out,
            "{comma}{{\"worker\":{index},\"state\":\"{}\",\"cpus\":\"{}\",\"pinned\":{},\"inbox\":{},\
             \"timers\":{},\"events\":{},\"parks\":{},\"parked_ns\":{},\"loop_items\":{},\
             \"loop_blocks\":{},\"steals\":{},\"spins\":{},\"spun_ns\":{}}}",
            state(shared.slots.at(index)),
            worker.cpus,
            worker.pinned,
            worker.inbox,
            worker.timers,
            worker.events,
            worker.parks,
            worker.parked.as_nanos(),
            worker.loop_items,
            worker.loop_blocks,
            worker.steals,
            worker.spins,
            worker.spun.as_nanos(),
        )?;
    }
    out.push_str("]}");
    Ok(out)
}

/// A string that is displayed as a JSON string, with quotes and escapes.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(all(target_os = "linux", feature = "net"))]
mod window {
    use super::{Observe, Quoted, Shared, stats};
    use crate::sync::thread;
    use rustix::{net::sockopt::socket_peercred, process::geteuid};
    use socket2::SockRef;
    use std::{
        error::Error as _,
        io::{self, BufRead, BufReader, Read, Write},
        net::Shutdown,
        os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixListener, UnixStream},
        },
        sync::Arc,
        time::Duration,
    };

    /// The maximum number of windows of a process.
    const WINDOWS_MAX: usize = 1024;
    /// The maximum length of a request, in bytes.
    const LINE_MAX: u64 = 64;
    /// The time-out of each read and write on the connection to a client.
    const CLIENT_TIMEOUT: Duration = Duration::from_millis(100);

    /// A listening socket and the thread that answers its clients.
    pub(in crate::pool) struct Window {
        listener: Arc<UnixListener>,
        thread: thread::JoinHandle<()>,
    }

    impl Window {
        pub(super) fn open(shared: &Arc<Shared>, allowed: Observe) -> io::Result<Self> {
            let listener = Arc::new(listen()?);
            let (listens, shared) = (Arc::clone(&listener), Arc::clone(shared));
            let thread = thread::Builder::new()
                .name("creel-observe".into())
                .spawn(move || serve(&listens, &shared, allowed))?;
            Ok(Self { listener, thread })
        }

        pub(super) fn close(self) {
            // The shutdown makes the thread's `accept` return. We close the socket only after the
            // thread has ended, because it still uses the socket.
            let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
            let _ = self.thread.join();
        }
    }

    /// Binds a socket to the first free name of this process.
    fn listen() -> io::Result<UnixListener> {
        let process = std::process::id();
        for number in 0..WINDOWS_MAX {
            let name = format!("creel/{process}/{number}");
            match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => return bound,
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Answers clients until the socket is shut down.
    fn serve(listener: &UnixListener, shared: &Shared, allowed: Observe) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                return;
            };
            // We ignore errors, because a client that has disconnected or is too slow gets no
            // answer.
            let _ = answer(&stream, shared, allowed);
        }
    }

    fn answer(mut stream: &UnixStream, shared: &Shared, allowed: Observe) -> io::Result<()> {
        let asks = socket_peercred(stream)?.uid;
        if !asks.is_root() && asks != geteuid() {
            return Ok(());
        }
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
        let said = match line.trim().split_once(' ') {
            None if line.trim() == "stats" => {
                stats(shared, allowed).unwrap_or_else(|e| error(&e.to_string()))
            }
            Some(("workers", n)) => resize(shared, allowed, n),
            _ => error("unknown request: expected `stats` or `workers N`"),
        };
        writeln!(stream, "{said}")
    }

    fn resize(shared: &Shared, allowed: Observe, wanted: &str) -> String {
        let Ok(workers) = wanted.parse() else {
            return error("expected a number after `workers`");
        };
        if allowed != Observe::Resize {
            return error(
                "the program does not let other programs change the number of its workers",
            );
        }
        let resized = crate::pool::builder::check_workers(workers);
        match resized.and_then(|()| shared.resize(workers)) {
            Ok(()) => format!("{{\"schema\":1,\"workers\":{workers}}}"),
            // The message of an error does not contain its cause.
            Err(why) => match why.source() {
                Some(cause) => error(&format!("{why}: {cause}")),
                None => error(&why.to_string()),
            },
        }
    }

    fn error(why: &str) -> String {
        format!("{{\"schema\":1,\"error\":{}}}", Quoted(why))
    }
}
