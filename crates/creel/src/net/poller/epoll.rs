//! The poller on Linux, which calls epoll directly.
//!
//! To notify a sleeping worker, a thread writes to an eventfd, and epoll reports this write as an
//! edge. We read the eventfd only if its counter is full, because each write is a new edge anyway.
//!
//! With `epoll_pwait2`, a timeout is exact to the nanosecond. If the kernel is too old or a sandbox
//! forbids this call, we call `ppoll` on the epoll descriptor instead. Since this costs an
//! additional call, we use it only for the last milliseconds of a longer timeout.

use super::{AsSource, Event, Interest, Mode};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, write};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The key of notifications. No socket has this key.
const NOTIFIED: u64 = u64::MAX;
/// A timeout of at least this length first waits in whole milliseconds.
const LONG: Duration = Duration::from_millis(4);
/// The longest timeout of one wait if `epoll_pwait2` is not available.
const LONGEST: Duration = Duration::from_secs(20 * 24 * 3600);

/// An epoll instance, and the event counter that ends a worker's sleep in it.
pub(in crate::net) struct Poller {
    epoll: OwnedFd,
    notified: OwnedFd,
    /// Whether the system supports `epoll_pwait2`, as far as we know. Relaxed is enough, because
    /// the flag publishes no data.
    exact: AtomicBool,
}

/// The timeout of `epoll_pwait2`. Unlike `libc::timespec`, it has this layout on all processors.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// A buffer for the events of one call.
pub(in crate::net) struct Events {
    list: Vec<epoll::Event>,
}

// SAFETY: the data of an event is a key, which is a number. The type of the event only allows it to
// be a pointer.
unsafe impl Send for Events {}

impl Poller {
    pub(in crate::net) fn new() -> io::Result<Self> {
        let poller = Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            notified: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            exact: AtomicBool::new(true),
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

    /// Adds a socket. It stays until it is deleted or closed.
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

    /// Changes the directions and the mode of a socket. The kernel reports immediately if the
    /// socket is ready now.
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

    /// Ends the current wait of another thread, or the next one.
    pub(in crate::net) fn notify(&self) -> io::Result<()> {
        match write(&self.notified, &1_u64.to_ne_bytes()) {
            Err(Errno::AGAIN) => {
                // The counter is full, which happens after 2^64 notifications. After we read it, it
                // accepts the next write.
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.notified, &mut count);
                write(&self.notified, &1_u64.to_ne_bytes())?;
                Ok(())
            }
            written => Ok(written.map(|_| ())?),
        }
    }

    /// Waits for an event, a notification or the timeout. Does not wait if the timeout is zero.
    ///
    /// # Errors
    ///
    /// Returns the error of the system call, for example if a signal interrupted it.
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
        if self.exact.load(Ordering::Relaxed) {
            match self.ask_exactly(events, timeout) {
                Err(error) if is_unknown(&error) => self.exact.store(false, Ordering::Relaxed),
                asked => return asked,
            }
        }
        // The system counts milliseconds in 32 bits. A worker with a longer timeout therefore wakes
        // up once before the timeout.
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

    /// Calls epoll with a timeout that is exact to the nanosecond.
    fn ask_exactly(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        let timeout = KernelTimespec {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(timeout.subsec_nanos()),
        };
        let room = events.list.spare_capacity_mut();
        let (place, count) = (room.as_mut_ptr(), room.len());
        // SAFETY: validity: the descriptor and the timeout live until the call returns. The call
        // writes at most `count` events, and the event type of rustix has the layout of the kernel.
        // Aliasing: the spare capacity is borrowed mutably.
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
        // SAFETY: the call has just written this number of events after the existing ones.
        unsafe { events.list.set_len(events.list.len() + found) };
        Ok(())
    }

    /// Calls epoll with a timeout in whole milliseconds.
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

/// Returns whether the error means that `epoll_pwait2` is not available, because the kernel is too
/// old or a sandbox rejects unknown calls.
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
        // The buffer needs room for one more event, because a notification is an event as well.
        Events {
            list: Vec::with_capacity(capacity.get() + 1),
        }
    }

    pub(in crate::net) fn clear(&mut self) {
        self.list.clear();
    }

    /// Returns whether there may be more events.
    pub(in crate::net) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// Returns the events of sockets, without notifications.
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
    fn a_time_out_is_never_early_and_a_notification_ends_the_wait() {
        let poller = Poller::new().unwrap();
        never_early(&poller);
        // From here on, the poller behaves as on a system without `epoll_pwait2`.
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
        // A notification ends one wait only, so no event is left for the next wait.
        events.clear();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.list.is_empty());
    }
}
