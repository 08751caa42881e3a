//! UDP sockets that send and receive single datagrams or batches.
//!
//! Use batches if your program handles many datagrams per second. On Linux, one system call then
//! moves up to 64 messages. `batch.rs` has the memory of a batch, `mmsg.rs` makes the calls on
//! Linux, and `single.rs` replaces it on other systems. `io.rs` waits when a call would block.

use super::batch::{CALL_MAX, DatagramInfo, Outgoing, Received, Sent};
use super::io::{Io, Left};
use super::mmsg;
use super::source::Direction;
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket as Socket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// A UDP socket for tasks.
///
/// All methods take `&self`, so that several tasks can share a socket. Each datagram goes to one of
/// them. No method blocks the thread.
///
/// If you handle many datagrams per second, use [`send_batch`](Self::send_batch) and
/// [`recv_batch`](Self::recv_batch), because on Linux they move many datagrams with one system
/// call.
///
/// ```
/// use creel::net::UdpSocket;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let length = pool.block_on(async {
///     let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
///     let sender = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
///     sender.send_to(b"hello", receiver.local_addr()?).await?;
///     let mut bytes = [0; 16];
///     let (length, _) = receiver.recv_from(&mut bytes).await?;
///     Ok::<_, std::io::Error>(length)
/// })?;
/// assert_eq!(length, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UdpSocket {
    io: Io<Socket>,
    /// Whether the kernel can split one message into datagrams (GSO) and has not failed to do so
    /// yet. Relaxed is enough, because the flag publishes no data.
    splits: AtomicBool,
}

impl UdpSocket {
    /// Creates a socket that is bound to `address`. If you pass port 0, the operating system
    /// chooses a free port. Does not block.
    ///
    /// # Errors
    ///
    /// Returns an error if the address does not belong to this machine, if the port is in use, or
    /// if the process has too many open files.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::from_std(Socket::bind(address)?)
    }

    /// Creates a socket from one of the standard library, for example one that you configured
    /// yourself. Makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be made non-blocking.
    pub fn from_std(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(UdpSocket {
            splits: AtomicBool::new(mmsg::can_split(&socket)),
            io: Io::new(socket),
        })
    }

    /// Returns the socket of the standard library, for example to set its options. Do not make it
    /// blocking, because the `async` methods would then block their thread.
    pub fn as_std(&self) -> &Socket {
        self.io.socket()
    }

    /// Returns the address to which the socket is bound.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.as_std().local_addr()
    }

    /// Sets the address to which [`send`](Self::send) sends. From then on the socket receives
    /// datagrams from this address only.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.as_std().connect(to)
    }

    /// Sends a datagram to the connected address and returns the number of bytes sent. Waits while
    /// the buffer of the socket is full.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been sent.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system. Note that it can also report that nothing
    /// received an earlier datagram.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.writing(|socket| socket.send(bytes)).await
    }

    /// Sends a datagram to the address `to` and returns the number of bytes sent. Waits while the
    /// buffer of the socket is full.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been sent.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.writing(|socket| socket.send_to(bytes, to)).await
    }

    /// Receives a datagram into `bytes` and returns its length. Waits until there is one. Bytes
    /// that do not fit into `bytes` are lost.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been received.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system. Note that on a connected socket it can also
    /// report that nothing received an earlier datagram.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reading(|socket| mmsg::recv(socket, bytes)).await
    }

    /// Receives a datagram like [`recv`](Self::recv), for futures written by hand. If there is
    /// none, it arranges that the task of `cx` is woken when one arrives. If several such futures
    /// wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    #[track_caller]
    pub fn poll_recv(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll(cx, Direction::Read, |socket| {
            Ok((mmsg::recv(socket, bytes)?, Left::Unknown))
        })
    }

    /// Receives a datagram into `bytes` and returns its length and its sender. Waits until there is
    /// one. Bytes that do not fit into `bytes` are lost.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been received.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    pub async fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.reading(|socket| mmsg::recv_from(socket, bytes)).await
    }

    /// Waits until there may be a datagram. It receives nothing. Call
    /// [`try_recv_from`](Self::try_recv_from) to receive.
    ///
    /// # Cancel safety
    ///
    /// Safe. It receives nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the socket.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
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

    /// Waits until there may be room to send. It sends nothing. Call
    /// [`try_send_to`](Self::try_send_to) to send.
    ///
    /// # Cancel safety
    ///
    /// Safe. It sends nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot poll the socket.
    ///
    /// # Panics
    ///
    /// May panic on a thread that is neither a worker of a pool nor inside `block_on`. See the
    /// [module documentation](crate::net).
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
    }

    /// Receives a datagram if there is one, and returns its length and its sender. Never waits.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no datagram.
    /// Otherwise returns the error of the operating system.
    pub fn try_recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let recv = |socket: &Socket| Ok((mmsg::recv_from(socket, bytes)?, Left::Unknown));
        self.io.try_now(Direction::Read, recv)
    }

    /// Sends a datagram to the address `to` if there is room in the buffer of the socket, and
    /// returns the number of bytes sent. Never waits.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room.
    /// Otherwise returns the error of the operating system.
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        let send = |socket: &Socket| Ok((socket.send_to(bytes, to)?, Left::More));
        self.io.try_now(Direction::Write, send)
    }

    /// Sends all datagrams of `outgoing` and returns how many were sent. Waits while the buffer of
    /// the socket is full. `outgoing` is empty afterwards.
    ///
    /// On Linux, one system call sends up to 64 messages, and one message can contain several
    /// datagrams. Other systems need one call per datagram.
    ///
    /// If the operating system rejects a datagram, this method skips and counts it, and sends the
    /// others.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, the datagrams that were sent have left
    /// `outgoing`, and the next call sends the rest. However, the counts of the [`Sent`] are lost.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    ///
    /// ```
    /// use creel::net::{Outgoing, Received, UdpSocket};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let own = socket.local_addr()?;
    ///     let mut outgoing = Outgoing::new();
    ///     outgoing.push(b"left", own);
    ///     outgoing.push(b"right", own);
    ///     assert_eq!(socket.send_batch(&mut outgoing).await.sent, 2);
    ///
    ///     let mut received = Received::new(8, 1500); // 8 datagrams of up to 1,500 bytes
    ///     let mut bytes = 0;
    ///     while bytes < 9 {
    ///         socket.recv_batch(&mut received).await?;
    ///         for datagram in &received {
    ///             assert_eq!(datagram.from, own);
    ///             bytes += datagram.bytes.len();
    ///         }
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn send_batch(&self, outgoing: &mut Outgoing) -> Sent {
        let mut report = Sent::default();
        let mut is_repeated = false;
        while !outgoing.is_empty() {
            let split = self.splits.load(Ordering::Relaxed);
            let sent = self
                .writing(|socket| mmsg::send(socket, outgoing, split))
                .await;
            self.count_sent(sent, outgoing, split, &mut is_repeated, &mut report);
        }
        report
    }

    /// Receives at least one datagram, and more if they have arrived and `received` has slots for
    /// them. Returns the number of slots that it filled. Waits until there is a datagram. On Linux,
    /// one system call receives all of them. Other systems need one call per datagram.
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped before it is ready, nothing has been received.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    ///
    /// [`send_batch`](Self::send_batch) has an example.
    pub async fn recv_batch(&self, received: &mut Received) -> io::Result<usize> {
        let receive = |socket: &Socket| receive_batch(socket, received);
        self.io.run(Direction::Read, receive).await
    }

    /// Receives datagrams like [`recv_batch`](Self::recv_batch), for futures written by hand. If no
    /// datagram has arrived, it arranges that the task of `cx` is woken when one does. If several
    /// such futures wait, only the last one that polled is woken.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
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

    /// Receives datagrams like [`poll_recv_batch`](Self::poll_recv_batch), but into memory of your
    /// own. Each element of `memory` receives one datagram. Returns the number of datagrams, and
    /// describes each of them in the element of `infos` with the same index. Use it to receive into
    /// memory that another library has allocated, without a copy.
    ///
    /// At most 64 datagrams are received, even if `memory` has more elements. Turn
    /// [GRO](Self::set_gro) off, because nothing separates merged datagrams here.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system. Returns an error of kind
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `memory` is empty, or if `infos` is
    /// shorter than `memory`, of which only the first 64 elements count.
    ///
    /// # Panics
    ///
    /// May panic if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`. See the [module documentation](crate::net).
    ///
    /// ```
    /// use creel::net::{DatagramInfo, UdpSocket};
    /// use std::{future::poll_fn, io::IoSliceMut};
    ///
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// pool.block_on(async {
    ///     let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
    ///     let own = socket.local_addr()?;
    ///     socket.send_to(b"left", own).await?;
    ///     let (mut left, mut right) = ([0; 16], [0; 16]);
    ///     let mut infos = [DatagramInfo::default(); 2];
    ///     let count = poll_fn(|cx| {
    ///         let mut memory = [IoSliceMut::new(&mut left), IoSliceMut::new(&mut right)];
    ///         socket.poll_recv_into(cx, &mut memory, &mut infos)
    ///     });
    ///     assert_eq!(count.await?, 1);
    ///     assert_eq!((&left[..infos[0].len()], infos[0].sender()), (&b"left"[..], own));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn poll_recv_into(
        &self,
        cx: &mut Context<'_>,
        memory: &mut [IoSliceMut<'_>],
        infos: &mut [DatagramInfo],
    ) -> Poll<io::Result<usize>> {
        let count = memory.len().min(CALL_MAX);
        if count == 0 || infos.len() < count {
            return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
        }
        let (memory, infos) = (&mut memory[..count], &mut infos[..count]);
        self.io.poll(cx, Direction::Read, |socket| {
            let memory = memory.iter_mut().map(|memory| &mut **memory);
            let slots = infos.iter_mut().map(|info| &mut info.0);
            mmsg::receive_pieces(socket, memory, true, slots)
        })
    }

    /// Sends datagrams of `outgoing` like [`send_batch`](Self::send_batch), but never waits. If the
    /// buffer of the socket is full, the datagrams that do not fit stay in `outgoing`.
    ///
    /// ```
    /// use creel::net::{Outgoing, UdpSocket};
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    /// let mut outgoing = Outgoing::new();
    /// outgoing.push(b"hello", socket.local_addr()?);
    /// assert_eq!(socket.try_send_batch(&mut outgoing).sent, 1);
    /// assert!(outgoing.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_send_batch(&self, outgoing: &mut Outgoing) -> Sent {
        let mut report = Sent::default();
        let mut is_repeated = false;
        while !outgoing.is_empty() {
            let split = self.splits.load(Ordering::Relaxed);
            let sent = self.io.try_now(Direction::Write, |socket| {
                Ok((mmsg::send(socket, outgoing, split)?, Left::More))
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                sent => self.count_sent(sent, outgoing, split, &mut is_repeated, &mut report),
            }
        }
        report
    }

    /// Adds the result of one system call to the report, and removes from `outgoing` what has been
    /// sent or rejected. `is_repeated` says whether the next datagram has been tried before.
    fn count_sent(
        &self,
        sent: io::Result<usize>,
        outgoing: &mut Outgoing,
        split: bool,
        is_repeated: &mut bool,
        report: &mut Sent,
    ) {
        match sent {
            Ok(sent) => {
                outgoing.done += sent;
                report.sent += sent;
                *is_repeated = false;
            }
            // A host has answered an earlier datagram, and this call only reported the answer. We
            // try the same datagram once more.
            Err(error) if is_about_earlier(&error) && !*is_repeated => *is_repeated = true,
            // The route to the receiver may not allow splitting, for example because of a small MTU
            // or the network device. We then send each datagram separately.
            Err(error) if split && !is_about_earlier(&error) => {
                self.splits.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                *is_repeated = false;
                outgoing.done += 1;
                report.failed += 1;
                report.error.get_or_insert(error);
            }
        }
    }

    /// Sets whether the kernel merges consecutive datagrams from one sender (GRO), so that one slot
    /// of a [`Received`] holds many of them. Use [`recv_batch`](Self::recv_batch) or
    /// [`poll_recv_batch`](Self::poll_recv_batch) to receive, because no other method separates
    /// them again.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support it.
    ///
    /// ```
    /// use creel::net::{Received, UdpSocket};
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    /// // A slot must have room for all datagrams that the kernel merges.
    /// let received = match socket.set_gro(true) {
    ///     Ok(()) => Received::new(8, 65_536),
    ///     Err(_) => Received::new(64, 1_500), // this system does not merge datagrams
    /// };
    /// # drop(received);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        mmsg::set_merging(self.as_std(), on)
    }

    /// Sets whether the kernel reports for each datagram when it arrived and how many datagrams the
    /// socket had dropped before. You find this information in
    /// [`Datagram::arrived`](super::Datagram::arrived) and
    /// [`Datagram::dropped`](super::Datagram::dropped). Use [`recv_batch`](Self::recv_batch),
    /// [`poll_recv_batch`](Self::poll_recv_batch) or [`poll_recv_into`](Self::poll_recv_into) to
    /// receive, because no other method returns this information.
    ///
    /// The time of arrival does not depend on when the task runs. For example, it shows the jitter
    /// of the network even if a worker sleeps for 20 ms between two calls. Note that Linux starts
    /// its time stamps shortly after the first socket of the machine asks for them. Until then, it
    /// reports the time of the call that receives.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not support it.
    pub fn set_arrival_info(&self, on: bool) -> io::Result<()> {
        mmsg::set_arrival_info(self.as_std(), on)
    }

    /// Requests a receive buffer of `bytes` bytes and returns the size that the operating system
    /// has set. For example, Linux limits the size to `net.core.rmem_max` and includes its own
    /// overhead.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn set_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        let socket = SockRef::from(self.as_std());
        socket.set_recv_buffer_size(bytes)?;
        socket.recv_buffer_size()
    }

    /// Requests a send buffer of `bytes` bytes and returns the size that the operating system has
    /// set, like [`set_recv_buffer`](Self::set_recv_buffer).
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    ///
    /// ```
    /// use creel::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    /// // A larger buffer holds larger batches of `send_batch`.
    /// let bytes = socket.set_send_buffer(64 << 10)?;
    /// assert!(bytes > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        let socket = SockRef::from(self.as_std());
        socket.set_send_buffer_size(bytes)?;
        socket.send_buffer_size()
    }

    /// Joins the multicast group `group` on the network interface with the address `on`. For IPv6,
    /// it ignores `on` and lets the operating system choose the interface.
    ///
    /// # Errors
    ///
    /// Returns an error if `group` is not a multicast address, or if this machine has no such
    /// interface. Returns an error of kind [`InvalidInput`](io::ErrorKind::InvalidInput) if `group`
    /// is an IPv4 address and `on` is not.
    ///
    /// ```no_run
    /// use creel::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("0.0.0.0:5004".parse()?)?;
    /// socket.join_multicast("239.1.2.3".parse()?, "192.168.0.10".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join_multicast(&self, group: IpAddr, on: IpAddr) -> io::Result<()> {
        match (group, on) {
            (IpAddr::V4(group), IpAddr::V4(on)) => self.as_std().join_multicast_v4(&group, &on),
            (IpAddr::V6(group), _) => self.as_std().join_multicast_v6(&group, 0),
            (IpAddr::V4(_), IpAddr::V6(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Leaves a multicast group that [`join_multicast`](Self::join_multicast) joined.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket has not joined the group. Returns an error of kind
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `group` is an IPv4 address and `on` is not.
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

/// Returns whether an error may be about a datagram that was sent before. The system reports it if
/// a host answers that the port is closed, and if the socket is connected or asks for such errors.
fn is_about_earlier(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable
    )
}

/// Receives the datagrams that have arrived, at most as many as `received` has slots.
fn receive_batch(socket: &Socket, received: &mut Received) -> io::Result<(usize, Left)> {
    let left = mmsg::receive(socket, received)?;
    Ok((received.filled, left))
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UdpSocket").field(self.as_std()).finish()
    }
}
