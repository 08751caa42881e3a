//! UDP sockets, one datagram or a batch at a time.

use super::batch::{Outgoing, Received, Sent};
use super::io::{Io, Left};
use super::mmsg;
use super::source::Direction;
use socket2::SockRef;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as Socket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// A UDP socket that tasks await.
///
/// All verbs take `&self`: several tasks may share one, and a datagram goes to one of them.
/// None blocks the thread.
pub struct UdpSocket {
    io: Io<Socket>,
    /// The kernel splits messages, and has not failed at it yet. Relaxed: it carries no data.
    splits: AtomicBool,
}

impl UdpSocket {
    /// Opens a socket on `address`; port 0 takes any free one. Does not block.
    ///
    /// # Errors
    ///
    /// If the address is not this machine's, the port is in use, or too many files are open.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::from_std(Socket::bind(address)?)
    }

    /// Takes over a socket that the program has made its own way.
    ///
    /// # Errors
    ///
    /// If it cannot be made non-blocking.
    pub fn from_std(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(UdpSocket {
            splits: AtomicBool::new(mmsg::can_split(&socket)),
            io: Io::new(socket),
        })
    }

    /// The socket itself, for its options. Leave it non-blocking.
    pub fn as_std(&self) -> &Socket {
        self.io.socket()
    }

    /// The address it is bound to.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.as_std().local_addr()
    }

    /// Sets where [`send`](Self::send) sends to, and takes datagrams from there only.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.as_std().connect(to)
    }

    /// Sends a datagram to where it is connected; waits while the socket's buffer is full.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's: of a connected socket also that a former datagram found nobody.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.writing(|socket| socket.send(bytes)).await
    }

    /// Sends a datagram; waits while the socket's buffer is full.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has sent nothing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.writing(|socket| socket.send_to(bytes, to)).await
    }

    /// Receives a datagram; what does not fit into `bytes` is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has received nothing.
    ///
    /// # Errors
    ///
    /// The system's: of a connected socket also that a former datagram found nobody.
    pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reading(|socket| socket.recv(bytes)).await
    }

    /// As [`recv`](Self::recv), for futures written by hand: `cx` is woken when there is a
    /// datagram, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    #[track_caller]
    pub fn poll_recv(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |socket| {
            Ok((socket.recv(bytes)?, Left::Unknown))
        })
    }

    /// Receives a datagram and tells its sender; what does not fit into `bytes` is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has received nothing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.reading(|socket| socket.recv_from(bytes)).await
    }

    /// Waits until there may be a datagram, and takes none: [`try_recv_from`](Self::try_recv_from)
    /// does.
    ///
    /// # Cancel safety
    ///
    /// Safe: it takes nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the socket.
    ///
    /// ```
    /// use creel::net::UdpSocket;
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let (own, mut bytes) = (socket.local_addr()?, [0; 16]);
    ///     let early = socket.try_recv_from(&mut bytes).unwrap_err();
    ///     assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    ///     socket.writable().await?;
    ///     socket.try_send_to(b"hello", own)?;
    ///     socket.readable().await?;
    ///     assert_eq!(socket.try_recv_from(&mut bytes)?, (5, own));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until there may be room to send, as [`readable`](Self::readable) does.
    ///
    /// # Cancel safety
    ///
    /// Safe: it sends nothing.
    ///
    /// # Errors
    ///
    /// If the system's poller refuses the socket.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Receives a datagram if there is one; never waits.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; or the system's.
    pub fn try_recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &Socket| Ok((socket.recv_from(bytes)?, Left::Unknown));
        self.io.try_now(Direction::Read, recv)
    }

    /// Sends a datagram if there is room; never waits.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; or the system's.
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        let send = |socket: &Socket| Ok((socket.send_to(bytes, to)?, Left::More));
        self.io.try_now(Direction::Write, send)
    }

    /// Sends all of `outgoing`, up to 64 messages a system call; waits while the socket's buffer
    /// is full. `outgoing` is empty after that.
    ///
    /// A datagram that the system refuses is left out and counted; the others go on.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, what has been sent is gone from `outgoing`, and the next call sends the rest.
    /// The counts of the [`Sent`] are lost.
    pub async fn send_batch(&self, outgoing: &mut Outgoing) -> Sent {
        let mut report = Sent::default();
        while !outgoing.is_empty() {
            let split = self.splits.load(Ordering::Relaxed);
            let sent = self
                .writing(|socket| mmsg::send(socket, outgoing, split))
                .await;
            match sent {
                Ok(sent) => {
                    outgoing.done += sent;
                    report.sent += sent;
                }
                // The way to the receiver may not allow it (a small MTU, a device): singly then.
                Err(_) if split => self.splits.store(false, Ordering::Relaxed),
                Err(error) => {
                    outgoing.done += 1;
                    report.failed += 1;
                    report.error.get_or_insert(error);
                }
            }
        }
        report
    }

    /// Receives at least one datagram, and all more that there are and `received` has slots
    /// for, in one system call. Returns how many slots it filled.
    ///
    /// # Cancel safety
    ///
    /// Safe: cancelled, it has received nothing.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn recv_batch(&self, received: &mut Received) -> io::Result<usize> {
        let receive = |socket: &Socket| receive_batch(socket, received);
        self.io.run(Direction::Read, receive).await
    }

    /// As [`recv_batch`](Self::recv_batch), for futures written by hand: `cx` is woken when there
    /// is something, unless another such future has polled since.
    ///
    /// # Errors
    ///
    /// The system's.
    #[track_caller]
    pub fn poll_recv_batch(
        &self,
        cx: &mut Context<'_>,
        received: &mut Received,
    ) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |socket| {
            receive_batch(socket, received)
        })
    }

    /// Lets the kernel merge datagrams that come in a row from one sender, so that a slot of a
    /// [`Received`] takes many. Only [`recv_batch`](Self::recv_batch) takes them apart again.
    ///
    /// # Errors
    ///
    /// If the kernel cannot.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        mmsg::set_merging(self.as_std(), on)
    }

    /// Asks for a receive buffer of `bytes`; returns what the system has made of it (Linux caps
    /// it at `net.core.rmem_max`, and counts its own overhead in).
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        let socket = SockRef::from(self.as_std());
        socket.set_recv_buffer_size(bytes)?;
        socket.recv_buffer_size()
    }

    /// Asks for a send buffer of `bytes`, as [`set_recv_buffer`](Self::set_recv_buffer) does.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        let socket = SockRef::from(self.as_std());
        socket.set_send_buffer_size(bytes)?;
        socket.send_buffer_size()
    }

    /// Receives what is sent to the multicast group, on the interface with the address `on`
    /// (of IPv6: on any interface).
    ///
    /// # Errors
    ///
    /// If it is no group, or the system has no such interface.
    pub fn join_multicast(&self, group: IpAddr, on: IpAddr) -> io::Result<()> {
        match (group, on) {
            (IpAddr::V4(group), IpAddr::V4(on)) => self.as_std().join_multicast_v4(&group, &on),
            (IpAddr::V6(group), _) => self.as_std().join_multicast_v6(&group, 0),
            (IpAddr::V4(_), IpAddr::V6(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Ends what [`join_multicast`](Self::join_multicast) began.
    ///
    /// # Errors
    ///
    /// If it had not joined.
    pub fn leave_multicast(&self, group: IpAddr, on: IpAddr) -> io::Result<()> {
        match (group, on) {
            (IpAddr::V4(group), IpAddr::V4(on)) => self.as_std().leave_multicast_v4(&group, &on),
            (IpAddr::V6(group), _) => self.as_std().leave_multicast_v6(&group, 0),
            (IpAddr::V4(_), IpAddr::V6(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    async fn writing<T>(&self, mut send: impl FnMut(&Socket) -> io::Result<T>) -> io::Result<T> {
        let send = |socket: &Socket| Ok((send(socket)?, Left::More));
        self.io.run(Direction::Write, send).await
    }

    async fn reading<T>(&self, mut receive: impl FnMut(&Socket) -> io::Result<T>) -> io::Result<T> {
        let receive = |socket: &Socket| Ok((receive(socket)?, Left::Unknown));
        self.io.run(Direction::Read, receive).await
    }
}

/// What there is, as many datagrams as there are slots.
fn receive_batch(socket: &Socket, received: &mut Received) -> io::Result<(usize, Left)> {
    mmsg::receive(socket, received)?;
    let left = match received.filled < received.slots.len() {
        true => Left::Nothing,
        false => Left::More,
    };
    Ok((received.filled, left))
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UdpSocket").field(self.as_std()).finish()
    }
}
