//! Datagrams by the batch: what one system call sends or receives, in memory made once.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

/// The most datagrams that one system call takes here: with more the cost a datagram does not
/// fall any more, and the call's stack frame grows.
pub(super) const CALL_MAX: usize = 64;

/// Datagrams to send. Reused: sending empties it and keeps its memory.
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
    /// How many have been dealt with.
    pub(super) done: usize,
}

/// One datagram of an [`Outgoing`].
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) to: SocketAddr,
}

impl Outgoing {
    /// No datagram yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a datagram. Copies it.
    pub fn push(&mut self, bytes: &[u8], to: SocketAddr) {
        self.push_to_many(bytes, [to]);
    }

    /// Appends the same bytes for each receiver. Copies them once.
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

    /// The datagrams not yet sent.
    pub fn len(&self) -> usize {
        self.datagrams.len() - self.done
    }

    /// Whether all has been sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets what has not been sent.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
        self.done = 0;
    }

    /// After everything has been sent, begins anew.
    fn restart(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}

/// What became of an [`Outgoing`].
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams that the system took.
    pub sent: usize,
    /// Datagrams that it refused, and which were left out.
    pub failed: usize,
    /// Why it refused the first of these.
    pub error: Option<io::Error>,
}

/// Room for received datagrams, in memory made once.
///
/// Invariant: `bytes` is `slots` pieces of `room` bytes, and the first `filled` slots tell of
/// bytes within their piece.
#[derive(Debug)]
pub struct Received {
    pub(super) bytes: Box<[u8]>,
    pub(super) room: usize,
    pub(super) slots: Vec<Slot>,
    pub(super) filled: usize,
}

/// What lies in one slot of a [`Received`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) len: usize,
    /// The length of each datagram in it but the last, if the system merged several.
    pub(super) segment: usize,
    pub(super) from: SocketAddr,
    pub(super) truncated: bool,
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        len: 0,
        segment: 0,
        from: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        truncated: false,
    };

    /// How many datagrams it holds; an empty one is one, too.
    fn pieces(&self) -> usize {
        match self.segment {
            0 => 1,
            segment => self.len.div_ceil(segment).max(1),
        }
    }
}

/// The most bytes that a slot is given: of the longest datagram, or of many in a row.
const ROOM_MAX: usize = 1 << 16;

/// A received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Its bytes, as many as there was room for.
    pub bytes: &'a [u8],
    /// Its sender.
    pub from: SocketAddr,
    /// It was longer than the room: the rest is lost.
    pub truncated: bool,
}

impl Received {
    /// Room for `slots` datagrams (1 to 64) of `bytes` each.
    ///
    /// With [`UdpSocket::set_gro`](super::UdpSocket::set_gro) a slot takes many
    /// datagrams at once; give it 65,536 bytes then.
    ///
    /// No datagram is longer than that, so no more is kept for one.
    ///
    /// # Panics
    ///
    /// If one of the numbers is out of range.
    #[track_caller]
    pub fn new(slots: usize, bytes: usize) -> Self {
        assert!(
            (1..=CALL_MAX).contains(&slots),
            "1 to {CALL_MAX} slots, not {slots}"
        );
        assert!(bytes > 0, "a slot has room for some bytes");
        let bytes = bytes.min(ROOM_MAX);
        // At most 64 × 64 KiB: the product does not wrap.
        let all = slots * bytes;
        Received {
            bytes: vec![0; all].into_boxed_slice(),
            room: bytes,
            slots: vec![Slot::EMPTY; slots],
            filled: 0,
        }
    }

    /// The datagrams of the last receipt, in the order of their coming.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.filled).flat_map(move |slot| (0..).map_while(move |n| self.get(slot, n)))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The `n`th of the datagrams in a slot (of several only with GRO), both counted from zero.
    pub fn get(&self, slot: usize, n: usize) -> Option<Datagram<'_>> {
        let room = self.bytes.chunks_exact(self.room).nth(slot)?;
        let slot = self.slots[..self.filled].get(slot)?;
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
        })
    }
}
