//! epoll, asked directly.
//!
//! A notification is an edge of an eventfd, which nobody reads: each write is a new edge.
//!
//! A time-out is exact to the nanosecond by `epoll_pwait2`. Where the kernel is older, or a sandbox
//! forbids it, `ppoll` on the epoll descriptor does it; that costs a call more, so of a longer
//! time-out only the last milliseconds are waited so.

use super::{AsSource, Event, Interest, Mode};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, write};
use std::io;
use std::num::NonZeroUsize;
#[cfg(target_pointer_width = "64")]
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Not a socket's key.
const NOTIFIED: u64 = u64::MAX;
/// From here on a time-out is waited for in whole milliseconds first.
const LONG: Duration = Duration::from_millis(4);
/// The longest wait without the exact call.
const LONGEST: Duration = Duration::from_secs(20 * 24 * 3600);

/// An epoll instance.
pub(in crate::net) struct Poller {
    epoll: OwnedFd,
    notified: OwnedFd,
    /// The system has `epoll_pwait2`, as far as is known. Relaxed: it carries no data.
    exact: AtomicBool,
}

/// Room for an answer.
pub(in crate::net) struct Events {
    list: Vec<epoll::Event>,
}

// SAFETY: what an event carries is a key, a number; only its type might be a pointer.
unsafe impl Send for Events {}

impl Poller {
    pub(in crate::net) fn new() -> io::Result<Self> {
        let poller = Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            notified: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            exact: AtomicBool::new(cfg!(target_pointer_width = "64")),
        };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(NOTIFIED);
        epoll::add(&poller.epoll, &poller.notified, data, flags)?;
        Ok(poller)
    }

    #[allow(clippy::unused_self)] // not every system's does
    pub(in crate::net) fn supports(&self, mode: Mode) -> bool {
        mode != Mode::Oneshot
    }

    /// Looks at a socket, until it is closed.
    pub(in crate::net) fn add(
        &self,
        socket: &(impl AsSource + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(interest.key as u64);
        Ok(epoll::add(
            &self.epoll,
            socket,
            data,
            flags(interest, mode),
        )?)
    }

    /// Looks at it in another way. The kernel tells at once if there is something now.
    pub(in crate::net) fn modify(
        &self,
        socket: &(impl AsSource + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(interest.key as u64);
        Ok(epoll::modify(
            &self.epoll,
            socket,
            data,
            flags(interest, mode),
        )?)
    }

    pub(in crate::net) fn delete(&self, socket: &(impl AsSource + ?Sized)) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Ends the present wait of another thread, or the next.
    pub(in crate::net) fn notify(&self) -> io::Result<()> {
        match write(&self.notified, &1_u64.to_ne_bytes()) {
            Err(Errno::AGAIN) => {
                // After 2^64 of them: emptied, it takes the next.
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.notified, &mut count);
                write(&self.notified, &1_u64.to_ne_bytes())?;
                Ok(())
            }
            written => Ok(written.map(|_| ())?),
        }
    }

    /// Waits for an event, a notification or the time-out; with zero it does not wait.
    ///
    /// # Errors
    ///
    /// A signal among them.
    pub(in crate::net) fn wait(
        &self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let Some(timeout) = timeout else {
            return self.ask(events, None);
        };
        if timeout.is_zero() {
            return self.ask(events, Some(timeout));
        }
        #[cfg(target_pointer_width = "64")]
        if self.exact.load(Ordering::Relaxed) {
            match self.ask_exactly(events, timeout) {
                Err(error) if is_unknown(&error) => self.exact.store(false, Ordering::Relaxed),
                asked => return asked,
            }
        }
        // Milliseconds of 32 bits: who waits longer looks up once in between.
        let timeout = timeout.min(LONGEST);
        let mut left = timeout;
        if timeout >= LONG {
            let begin = Instant::now();
            let whole = Duration::from_millis(timeout.as_millis() as u64 - 1);
            self.ask(events, Some(whole))?;
            if !events.list.is_empty() {
                return Ok(());
            }
            left = timeout.saturating_sub(begin.elapsed());
        }
        if left.subsec_nanos() % 1_000_000 == 0 {
            return self.ask(events, Some(left));
        }
        let Ok(left) = Timespec::try_from(left) else {
            return self.ask(events, None);
        };
        let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut ready, Some(&left))? {
            0 => Ok(()),
            _ => self.ask(events, Some(Duration::ZERO)),
        }
    }

    /// Asks with a time-out exact to the nanosecond.
    #[cfg(target_pointer_width = "64")]
    fn ask_exactly(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let room = events.list.spare_capacity_mut();
        let (place, count) = (room.as_mut_ptr(), room.len());
        // SAFETY: validity: both descriptor and time-out live until it returns, and it writes no
        // more than `count` events, which are the kernel's in rustix, too. Aliasing: the room is
        // borrowed mutably.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                place,
                count,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: so many were just written behind those that there were.
        unsafe { events.list.set_len(events.list.len() + found) };
        Ok(())
    }

    /// Asks with a time-out in whole milliseconds.
    fn ask(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        epoll::wait(
            &self.epoll,
            spare_capacity(&mut events.list),
            timeout.as_ref(),
        )?;
        Ok(())
    }
}

/// The kernel is older than the call, or a sandbox refuses what it does not know.
#[cfg(target_pointer_width = "64")]
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn flags(interest: Interest, mode: Mode) -> epoll::EventFlags {
    let mut flags = match mode {
        Mode::Level => epoll::EventFlags::empty(),
        Mode::Edge => epoll::EventFlags::ET,
        Mode::Oneshot => epoll::EventFlags::ONESHOT,
    };
    if interest.read {
        flags |= epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::PRI;
    }
    if interest.write {
        flags |= epoll::EventFlags::OUT;
    }
    flags
}

impl Events {
    pub(in crate::net) fn with_capacity(capacity: NonZeroUsize) -> Self {
        // And the poller's own.
        Events {
            list: Vec::with_capacity(capacity.get() + 1),
        }
    }

    pub(in crate::net) fn clear(&mut self) {
        self.list.clear();
    }

    /// Whether there may be more.
    pub(in crate::net) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// What was reported of sockets.
    pub(in crate::net) fn iter(&self) -> impl Iterator<Item = Event> {
        type Flags = epoll::EventFlags;
        let sockets = |event: &&epoll::Event| {
            let data = event.data;
            data.u64() != NOTIFIED
        };
        self.list.iter().filter(sockets).map(|event| {
            let (data, flags) = (event.data, event.flags);
            let broken = Flags::HUP | Flags::ERR;
            Event {
                key: data.u64() as usize,
                readable: flags.intersects(Flags::IN | Flags::PRI | Flags::RDHUP | broken),
                writable: flags.intersects(Flags::OUT | broken),
                ended: flags.intersects(Flags::RDHUP | broken),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_never_early_and_a_notification_ends_it() {
        let poller = Poller::new().unwrap();
        never_early(&poller);
        // From here on the poller behaves as on a system without a call for exact timeouts.
        poller.exact.store(false, Ordering::Relaxed);
        never_early(&poller);
    }

    fn never_early(poller: &Poller) {
        let mut events = Events::with_capacity(NonZeroUsize::MIN);
        for micros in [0, 50, 1_000, 1_234, 3_999, 4_000, 7_501] {
            let (timeout, begin) = (Duration::from_micros(micros), Instant::now());
            events.clear();
            poller.wait(&mut events, Some(timeout)).unwrap();
            assert!(begin.elapsed() >= timeout, "{micros}");
            assert_eq!(events.iter().count(), 0);
        }
        for timeout in [None, Some(Duration::from_secs(9_999)), Some(Duration::MAX)] {
            poller.notify().unwrap();
            events.clear();
            poller.wait(&mut events, timeout).unwrap();
        }
        // The notification is an edge, so it ends one wait only.
        events.clear();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.list.is_empty());
    }
}
