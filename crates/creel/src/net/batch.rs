//! Batches of datagrams, which one system call sends or receives.
//!
//! [`Outgoing`] contains datagrams to send, and [`Received`] has room for datagrams to receive. We
//! allocate their memory once and reuse it, because an allocation per datagram would cost as much
//! as a batch saves.

use std::io;
use std::iter::FusedIterator;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::SystemTime;

/// The maximum number of messages per system call. With more messages, the cost per message does
/// not decrease any further, while the stack frame of the call grows. When we send, one message can
/// contain several datagrams that the kernel separates.
pub(super) const CALL_MAX: usize = 64;

/// A batch of datagrams to send. You can reuse it, because sending empties it and keeps its memory.
///
/// ```
/// use creel::net::Outgoing;
///
/// let mut outgoing = Outgoing::new();
/// outgoing.push(b"one buffer", "127.0.0.1:5004".parse()?);
/// assert_eq!(outgoing.len(), 1);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Default)]
pub struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) datagrams: Vec<Piece>,
    /// The number of datagrams that have been sent or rejected.
    pub(super) done: usize,
}

/// One datagram of an [`Outgoing`].
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) to: SocketAddr,
}

impl Outgoing {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a copy of `bytes` as a datagram to the address `to`.
    pub fn push(&mut self, bytes: &[u8], to: SocketAddr) {
        self.push_to_many(bytes, [to]);
    }

    /// Appends one datagram with the content `bytes` for each address in `to`. Copies the bytes
    /// only once.
    pub fn push_to_many(&mut self, bytes: &[u8], to: impl IntoIterator<Item = SocketAddr>) {
        self.restart();
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let range = begin..self.bytes.len();
        let pieces = to.into_iter().map(|to| Piece {
            range: range.clone(),
            to,
        });
        self.datagrams.extend(pieces);
    }

    /// Returns the number of datagrams that have not been sent yet.
    pub fn len(&self) -> usize {
        self.datagrams.len() - self.done
    }

    /// Returns whether there are no datagrams left to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all datagrams that have not been sent. Keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
        self.done = 0;
    }

    /// Reuses the memory from the start if all datagrams have been sent.
    fn restart(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}

/// The result of sending an [`Outgoing`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Sent {
    /// The number of datagrams that the operating system accepted.
    pub sent: usize,
    /// The number of datagrams that the operating system rejected and that were skipped.
    pub failed: usize,
    /// The error for the first rejected datagram, if there is one.
    pub error: Option<io::Error>,
}

/// A buffer for received datagrams. [`Received::new`] allocates its memory once, and
/// [`UdpSocket::recv_batch`](super::UdpSocket::recv_batch) fills it.
// Invariant: `bytes` consists of one part of `room` bytes per slot, and the first `filled` slots
// describe bytes within their own part.
#[derive(Debug)]
pub struct Received {
    pub(super) bytes: Box<[u8]>,
    pub(super) room: usize,
    /// Whether to query the addresses of the senders.
    pub(super) addresses: bool,
    pub(super) slots: Vec<Slot>,
    pub(super) filled: usize,
}

/// The content of one slot of a [`Received`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) len: usize,
    /// The length of each datagram in the slot except the last one, if the kernel merged several
    /// datagrams. Otherwise it is 0.
    pub(super) segment: usize,
    pub(super) from: SocketAddr,
    pub(super) truncated: bool,
    pub(super) arrived: Option<SystemTime>,
    pub(super) dropped: u32,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        len: 0,
        segment: 0,
        from: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        truncated: false,
        arrived: None,
        dropped: 0,
    };

    /// Returns the number of datagrams in the slot. Note that an empty datagram counts as well.
    fn pieces(&self) -> usize {
        match self.segment {
            0 => 1,
            segment => self.len.div_ceil(segment).max(1),
        }
    }
}

/// The maximum size of a slot in bytes. It is enough for the longest datagram and for a merged run
/// of datagrams.
const ROOM_MAX: usize = 1 << 16;

/// A received datagram. [`Received::iter`] and [`Received::get`] return it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// The content of the datagram, up to the size of its slot.
    pub bytes: &'a [u8],
    /// The address of the sender.
    pub from: SocketAddr,
    /// Whether the datagram was longer than its slot, so that the remaining bytes are lost.
    pub truncated: bool,
    /// The time at which the kernel received the datagram, by the system's clock. It is `None`
    /// unless [`UdpSocket::set_arrival_info`](super::UdpSocket::set_arrival_info) is on.
    pub arrived: Option<SystemTime>,
    /// The number of datagrams that the socket had dropped before this one arrived, because its
    /// buffer was full. The kernel counts them modulo 2³². It is 0 unless
    /// [`UdpSocket::set_arrival_info`](super::UdpSocket::set_arrival_info) is on.
    pub dropped: u32,
}

/// The information that the operating system reports about a datagram.
/// [`UdpSocket::poll_recv_into`](super::UdpSocket::poll_recv_into), which receives datagrams into
/// memory of the caller, returns it for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramInfo(pub(super) Slot);

impl Default for DatagramInfo {
    fn default() -> Self {
        Self(Slot::EMPTY)
    }
}

impl DatagramInfo {
    /// Returns the number of bytes that were received.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether the datagram has no bytes, which UDP allows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the sender.
    pub fn sender(&self) -> SocketAddr {
        self.0.from
    }

    /// Returns whether the datagram was longer than its memory, like [`Datagram::truncated`].
    pub fn truncated(&self) -> bool {
        self.0.truncated
    }

    /// Returns the time at which the kernel received the datagram, like [`Datagram::arrived`].
    pub fn arrived(&self) -> Option<SystemTime> {
        self.0.arrived
    }

    /// Returns the number of datagrams that the socket had dropped before this one, like
    /// [`Datagram::dropped`].
    pub fn dropped(&self) -> u32 {
        self.0.dropped
    }
}

impl Received {
    /// Creates a buffer with `slots` slots (1 to 64) of `bytes` bytes each.
    ///
    /// With [`UdpSocket::set_gro`](super::UdpSocket::set_gro), one slot holds many datagrams at
    /// once. Make the slots 65,536 bytes large in this case. A larger value has no effect, because
    /// no datagram is longer than that.
    ///
    /// # Panics
    ///
    /// Panics if `slots` is not between 1 and 64, or if `bytes` is 0.
    #[track_caller]
    pub fn new(slots: usize, bytes: usize) -> Self {
        assert!(
            (1..=CALL_MAX).contains(&slots),
            "a batch must have 1 to {CALL_MAX} slots, not {slots}"
        );
        assert!(bytes > 0, "a slot must have room for at least one byte");
        let bytes = bytes.min(ROOM_MAX);
        // The product cannot overflow, because it is at most 64 × 64 KiB.
        let all = slots * bytes;
        Received {
            bytes: vec![0; all].into_boxed_slice(),
            room: bytes,
            addresses: true,
            slots: vec![Slot::EMPTY; slots],
            filled: 0,
        }
    }

    /// Makes the system leave out the addresses of the senders, because a call on Linux is then
    /// faster. [`Datagram::from`] is then the unspecified address with port 0. On other systems,
    /// this method has no effect.
    pub fn without_addresses(mut self) -> Self {
        self.addresses = false;
        self
    }

    /// Returns an iterator over the datagrams that were received last, in the order in which they
    /// arrived.
    pub fn iter(&self) -> ReceivedIter<'_> {
        ReceivedIter {
            received: self,
            slot: 0,
            n: 0,
        }
    }

    /// Removes all datagrams. Keeps the memory.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Returns the datagram number `n` of the slot number `slot`, or `None` if there is no such
    /// datagram. Both numbers start at 0. A slot holds more than one datagram only with GRO.
    pub fn get(&self, slot: usize, n: usize) -> Option<Datagram<'_>> {
        let begin = slot.checked_mul(self.room)?;
        let slot = self.slots[..self.filled].get(slot)?;
        let room = &self.bytes[begin..][..self.room];
        if n >= slot.pieces() {
            return None;
        }
        let first = n * slot.segment;
        let end = match slot.segment {
            0 => slot.len,
            segment => slot.len.min(first + segment),
        };
        Some(Datagram {
            bytes: &room[first..end],
            from: slot.from,
            truncated: slot.truncated,
            arrived: slot.arrived,
            dropped: slot.dropped,
        })
    }
}

impl<'a> IntoIterator for &'a Received {
    type Item = Datagram<'a>;
    type IntoIter = ReceivedIter<'a>;

    /// Returns the iterator of [`Received::iter`].
    fn into_iter(self) -> ReceivedIter<'a> {
        self.iter()
    }
}

/// An iterator over the datagrams in a [`Received`]. [`Received::iter`] creates it.
#[derive(Debug, Clone)]
pub struct ReceivedIter<'a> {
    received: &'a Received,
    slot: usize,
    /// The number of the next datagram in its slot.
    n: usize,
}

impl<'a> Iterator for ReceivedIter<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        // A slot contains at least one datagram, so this looks at two slots at most.
        while self.slot < self.received.filled {
            if let Some(datagram) = self.received.get(self.slot, self.n) {
                self.n += 1;
                return Some(datagram);
            }
            (self.slot, self.n) = (self.slot + 1, 0);
        }
        None
    }
}

impl FusedIterator for ReceivedIter<'_> {}
