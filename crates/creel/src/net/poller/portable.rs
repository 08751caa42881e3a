//! The poller of other systems, by the `polling` crate.

use super::{AsSource, Event, Interest, Mode};
use polling::PollMode;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The poller's own descriptors, which may take places of an answer and are not told of.
const POLLERS_OWN: usize = 2;

/// The system's poller.
pub(in crate::net) struct Poller(polling::Poller);

/// Room for an answer.
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
            Mode::Level => self.0.supports_level(),
            Mode::Edge => self.0.supports_edge(),
            Mode::Oneshot => true,
        }
    }

    /// Looks at a socket, which is deleted before it is closed.
    pub(in crate::net) fn add(
        &self,
        socket: &(impl AsSource + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> io::Result<()> {
        let socket = borrow(socket);
        // SAFETY: the socket is deleted from the poller before it is closed: a source holds its
        // socket until its place, by whose watch it is deleted, is taken out.
        unsafe { self.0.add_with_mode(&socket, event(interest), by(mode)) }
    }

    /// Looks at it in another way. The kernel tells at once if there is something now.
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

    /// Ends the present wait of another thread, or the next.
    pub(in crate::net) fn notify(&self) -> io::Result<()> {
        self.0.notify()
    }

    /// Waits for an event, a notification or the time-out; with zero it does not wait.
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

    /// Whether there may be more.
    pub(in crate::net) fn is_full(&self) -> bool {
        self.list.len() + POLLERS_OWN >= self.room
    }

    /// What was reported of sockets.
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
    fn a_socket_is_reported_and_let_go() {
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
        // A report disarms the socket. Once it is armed again, it is reported again.
        poller.modify(&socket, interest, Mode::Oneshot).unwrap();
        events.clear();
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.iter().count(), 1);
        poller.delete(&socket).unwrap();
        poller.notify().unwrap();
        poller.wait(&mut events, None).unwrap();
    }
}
