//! The poller on systems other than Linux. It uses the `polling` crate, because each of these
//! systems has an interface of its own.

use super::{AsSource, Event, Interest, Mode};
use polling::PollMode;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The number of descriptors that belong to the poller itself. Their events may use up room in the
/// buffer, but the poller does not return them.
const POLLERS_OWN: usize = 2;

/// Whether the poller of this system is kqueue.
const KQUEUE: bool = cfg!(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd",
));

/// The poller of the operating system.
pub(in crate::net) struct Poller(polling::Poller);

/// A buffer for the events of one call.
pub(in crate::net) struct Events {
    list: polling::Events,
    room: usize,
}

impl Poller {
    pub(in crate::net) fn new() -> io::Result<Self> {
        polling::Poller::new().map(Poller)
    }

    pub(in crate::net) fn supports(&self, mode: Mode) -> bool {
        match mode {
            // On systems with kqueue, a change of an existing registration does not change how it
            // is reported (`EV_CLEAR` is kept as it was, see kqueue(2)). The driver switches a
            // socket from level to edge if no task reads from it. There, the switch would have no
            // effect, and each poll would return at once. We therefore never use levels on these
            // systems.
            Mode::Level => !KQUEUE && self.0.supports_level(),
            Mode::Edge => self.0.supports_edge(),
            Mode::Oneshot => true,
        }
    }

    /// Adds a socket. The caller must delete it before it is closed.
    pub(in crate::net) fn add(
        &self,
        socket: &(impl AsSource + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> io::Result<()> {
        let socket = borrow(socket);
        // SAFETY: the socket is deleted from the poller before it is closed. This is so because a
        // source keeps its socket until its place is taken out, and the registration in the place
        // deletes the socket.
        unsafe { self.0.add_with_mode(&socket, event(interest), by(mode)) }
    }

    /// Changes the directions and the mode of a socket. The kernel reports immediately if the
    /// socket is ready now.
    pub(in crate::net) fn modify(
        &self,
        socket: &(impl AsSource + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> io::Result<()> {
        self.0
            .modify_with_mode(borrow(socket), event(interest), by(mode))
    }

    pub(in crate::net) fn delete(&self, socket: &(impl AsSource + ?Sized)) -> io::Result<()> {
        self.0.delete(borrow(socket))
    }

    /// Ends the current wait of another thread, or the next one.
    pub(in crate::net) fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }

    /// Waits for an event, a notification or the timeout. Does not wait if the timeout is zero.
    pub(in crate::net) fn wait(
        &self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        self.0.wait(&mut events.list, timeout).map(|_| ())
    }
}

#[cfg(unix)]
fn borrow(socket: &(impl AsSource + ?Sized)) -> std::os::fd::BorrowedFd<'_> {
    socket.as_fd()
}

#[cfg(windows)]
fn borrow(socket: &(impl AsSource + ?Sized)) -> std::os::windows::io::BorrowedSocket<'_> {
    socket.as_socket()
}

fn event(interest: Interest) -> polling::Event {
    polling::Event::new(interest.key, interest.read, interest.write)
}

fn by(mode: Mode) -> PollMode {
    match mode {
        Mode::Level => PollMode::Level,
        Mode::Edge => PollMode::Edge,
        Mode::Oneshot => PollMode::Oneshot,
    }
}

impl Events {
    pub(in crate::net) fn with_capacity(capacity: NonZeroUsize) -> Self {
        Events {
            list: polling::Events::with_capacity(capacity),
            room: capacity.get(),
        }
    }

    pub(in crate::net) fn clear(&mut self) {
        self.list.clear();
    }

    /// Returns whether there may be more events.
    pub(in crate::net) fn is_full(&self) -> bool {
        self.list.len() + POLLERS_OWN >= self.room
    }

    /// Returns the events of sockets.
    pub(in crate::net) fn iter(&self) -> impl Iterator<Item = Event> {
        self.list.iter().map(|event| Event {
            key: event.key,
            readable: event.readable,
            writable: event.writable,
            ended: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn unread_data_is_reported_once_after_a_switch_from_level_to_edge() {
        let poller = Poller::new().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let interest = Interest {
            key: 7,
            read: true,
            write: false,
        };
        if !poller.supports(Mode::Level) || !poller.supports(Mode::Edge) {
            return;
        }
        poller.add(&socket, interest, Mode::Level).unwrap();
        socket.send_to(b"unread", to).unwrap();
        let mut events = Events::with_capacity(NonZeroUsize::new(8).unwrap());
        let mut reported = |timeout| {
            events.clear();
            poller.wait(&mut events, Some(timeout)).unwrap();
            events.iter().count()
        };
        let (long, short) = (Duration::from_secs(10), Duration::from_millis(20));
        assert_eq!((reported(long), reported(long)), (1, 1), "by level");
        poller.modify(&socket, interest, Mode::Edge).unwrap();
        assert_eq!(reported(long), 1, "at the switch");
        assert_eq!(reported(short), 0, "there is no new arrival");
        socket.send_to(b"more", to).unwrap();
        assert_eq!(reported(long), 1, "of the new arrival");
        poller.delete(&socket).unwrap();
    }

    #[test]
    fn an_armed_socket_is_reported_and_can_be_removed() {
        let poller = Poller::new().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (key, read, write) = (7, true, false);
        let interest = Interest { key, read, write };
        poller.add(&socket, interest, Mode::Oneshot).unwrap();
        socket
            .send_to(b"hello", socket.local_addr().unwrap())
            .unwrap();
        let mut events = Events::with_capacity(NonZeroUsize::new(8).unwrap());
        poller
            .wait(&mut events, Some(Duration::from_secs(10)))
            .unwrap();
        let found: Vec<_> = events.iter().collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].key == key && found[0].readable && !found[0].writable);
        assert!(!events.is_full() && poller.supports(Mode::Oneshot));
        // A report disarms the socket. After it is armed again, it is reported again.
        poller.modify(&socket, interest, Mode::Oneshot).unwrap();
        events.clear();
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.iter().count(), 1);
        poller.delete(&socket).unwrap();
        poller.notify().unwrap();
        poller.wait(&mut events, None).unwrap();
    }
}
