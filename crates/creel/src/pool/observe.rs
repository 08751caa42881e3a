//! A view into a running pool from outside: `creel top` shows it, `creel run --watchdog` changes the
//! number of workers by it.
//!
//! A program that wants to be seen opens a window: a listening Unix socket, in Linux' abstract
//! names as `creel/PID/NUMBER`. A connection asks one line and is answered one line of JSON
//! (docs/schema.md): `stats`, or `workers N`.
//!
//! The invariant: the window's thread sleeps until somebody asks, and reads what the workers
//! count anyway. So a pool that is not asked pays nothing for it, and one without a window has
//! nothing at all. Only processes of this user, and root's, are answered.
//!
//! Left out: other systems than Linux.

use super::{BuildError, Pool, shared::Shared};
use crate::{sync::lock, worker::slot::WorkerSlot};
use std::{
    fmt::{self, Write},
    str::FromStr,
};

#[cfg(all(target_os = "linux", feature = "net"))]
pub(super) use window::Window;

/// What others may do with a pool from outside of its program.
///
/// ```
/// use creel::{Observe, Pool};
///
/// let pool = Pool::builder().workers(2).observe("look".parse()?).build()?;
/// assert!("watch".parse::<Observe>().is_err());
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observe {
    /// Nothing.
    #[default]
    Off,
    /// See what the workers do: `creel top`.
    Look,
    /// Also change their number: `creel run --watchdog`, when the limits change.
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
    type Err = String;

    /// Reads `off`, `look` or `resize`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Observe::Off),
            "look" => Ok(Observe::Look),
            "resize" => Ok(Observe::Resize),
            _ => Err(format!("`{text}` is not one of off, look, resize")),
        }
    }
}

#[cfg(not(all(target_os = "linux", feature = "net")))]
pub(super) struct Window;

#[cfg(not(all(target_os = "linux", feature = "net")))]
impl Window {
    fn open(_: &std::sync::Arc<Shared>, _: Observe) -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn close(self) {}
}

impl Pool {
    /// Lets others see into this pool from now on, or no longer.
    ///
    /// Opens a window with a thread of its own, which sleeps until somebody of this user (or
    /// root) asks. It ends with the pool. Each call takes the place of the one before.
    ///
    /// # Errors
    /// If the system refuses the socket or the thread, by a handle of a pool that has been dropped,
    /// on other systems than Linux, and without the feature `net`.
    pub fn observe(&self, what: Observe) -> Result<(), BuildError> {
        let mut window = lock(&self.shared.window);
        if let Some(before) = window.take() {
            before.close();
        }
        if what != Observe::Off {
            let refused = |e: std::io::Error| BuildError::Observe {
                reason: e.to_string(),
            };
            if self.shared.slots.is_closing() {
                return Err(refused(std::io::Error::other("the pool has been dropped")));
            }
            *window = Some(Window::open(&self.shared, what).map_err(refused)?);
        }
        Ok(())
    }

    /// Part of the pool's end.
    pub(super) fn close_window(&self) {
        if let Some(window) = lock(&self.shared.window).take() {
            window.close();
        }
    }
}

/// What a worker is at, as far as its worker tells.
fn state(slot: &WorkerSlot) -> &'static str {
    match (slot.thread.is_running(), slot.sleeps(), slot.is_idle()) {
        (false, ..) => "unstarted",
        (_, true, _) => "parked",
        (_, _, true) => "looking",
        _ => "working",
    }
}

/// The answer to `stats`.
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
            "{comma}{{\"worker\":{index},\"state\":\"{}\",\"cpus\":\"{}\",\"urgent\":{},\
             \"timers\":{},\"events\":{},\"parks\":{},\"parked_ns\":{},\"loop_items\":{},\
             \"loop_pieces\":{},\"steals\":{},\"spins\":{},\"spun_ns\":{}}}",
            state(shared.slots.at(index)),
            worker.cpus,
            worker.inbox,
            worker.timers,
            worker.events,
            worker.parks,
            worker.parked.as_nanos(),
            worker.loop_items,
            worker.loop_pieces,
            worker.steals,
            worker.spins,
            worker.spun.as_nanos(),
        )?;
    }
    out.push_str("]}");
    Ok(out)
}

/// A string as JSON has it.
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
        io::{self, BufRead, BufReader, Read, Write},
        net::Shutdown,
        os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixListener, UnixStream},
        },
        sync::Arc,
        time::Duration,
    };

    /// The most windows of a process.
    const WINDOWS_MAX: usize = 1024;
    /// The longest line that is read.
    const LINE_MAX: u64 = 64;
    /// How long one that asks may take over it.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// A listening socket and the thread that answers there.
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
            // Wakes the thread; both are there until it has ended.
            let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
            let _ = self.thread.join();
        }
    }

    /// The first free name of this process.
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

    /// Until the socket is shut down.
    fn serve(listener: &UnixListener, shared: &Shared, allowed: Observe) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                return;
            };
            // Who has gone, or is too slow, is not answered.
            let _ = answer(&stream, shared, allowed);
        }
    }

    fn answer(mut stream: &UnixStream, shared: &Shared, allowed: Observe) -> io::Result<()> {
        let asks = socket_peercred(stream)?.uid;
        if !asks.is_root() && asks != geteuid() {
            return Ok(());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
        let said = match line.trim().split_once(' ') {
            None if line.trim() == "stats" => {
                stats(shared, allowed).unwrap_or_else(|e| error(&e.to_string()))
            }
            Some(("workers", n)) => resize(shared, allowed, n),
            _ => error("ask for `stats` or `workers N`"),
        };
        writeln!(stream, "{said}")
    }

    fn resize(shared: &Shared, allowed: Observe, wanted: &str) -> String {
        let Ok(workers) = wanted.parse() else {
            return error("no number of workers");
        };
        if allowed != Observe::Resize {
            return error("the program lets nobody change the number of workers");
        }
        let resized = crate::pool::builder::check_workers(workers);
        match resized.and_then(|()| shared.resize(workers)) {
            Ok(()) => format!("{{\"schema\":1,\"workers\":{workers}}}"),
            Err(why) => error(&why.to_string()),
        }
    }

    fn error(why: &str) -> String {
        format!("{{\"schema\":1,\"error\":{}}}", Quoted(why))
    }
}
