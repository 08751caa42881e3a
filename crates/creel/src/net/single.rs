//! Sends and receives batches on systems that have no system call for batches. This file has the
//! same API as `mmsg.rs`, but makes one call per datagram.

use super::batch::{Outgoing, Received, Slot};
use super::io::Left;
use socket2::{MaybeUninitSlice, SockRef};
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Sends as many datagrams of `outgoing` as possible and returns their number.
pub(super) fn send(socket: &UdpSocket, outgoing: &Outgoing, _split: bool) -> io::Result<usize> {
    let rest = &outgoing.datagrams[outgoing.done..];
    let mut sent = 0;
    for piece in rest {
        let bytes = &outgoing.bytes[piece.range.clone()];
        match socket.send_to(bytes, piece.to) {
            Ok(_) => sent += 1,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// Fills the slots of `received` with the datagrams that have arrived, and returns whether there
/// may be more.
pub(super) fn receive(socket: &UdpSocket, received: &mut Received) -> io::Result<Left> {
    received.filled = 0;
    let memory = received.bytes.chunks_exact_mut(received.room);
    let (filled, left) = receive_pieces(socket, memory, true, received.slots.iter_mut())?;
    received.filled = filled;
    Ok(left)
}

/// Receives the datagrams that have arrived, one into each element of `memory`, and describes them
/// in the slots with the same index. Returns their number, and whether there may be more.
pub(super) fn receive_pieces<'a>(
    socket: &UdpSocket,
    memory: impl Iterator<Item = &'a mut [u8]>,
    _addresses: bool,
    slots: impl ExactSizeIterator<Item = &'a mut Slot>,
) -> io::Result<(usize, Left)> {
    let mut filled = 0;
    for (slot, bytes) in slots.zip(memory) {
        match receive_into(socket, bytes) {
            Ok((len, from, truncated)) => {
                *slot = Slot {
                    len,
                    segment: 0,
                    from,
                    truncated,
                    ..Slot::EMPTY
                };
                filled += 1;
            }
            Err(error) if filled == 0 => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok((filled, Left::Nothing));
            }
            // This call has failed, for example because the system reports that a datagram which we
            // sent has reached no one. We return the datagrams that were received before, so the
            // error itself is lost. There may be more datagrams after it.
            Err(_) => return Ok((filled, Left::Unknown)),
        }
    }
    Ok((filled, Left::More))
}

/// Receives one datagram from any sender. Bytes that do not fit into `bytes` are lost.
pub(super) fn recv_from(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    let (len, from, _) = receive_into(socket, bytes)?;
    Ok((len, from))
}

/// Receives one datagram. Bytes that do not fit into `bytes` are lost.
pub(super) fn recv(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(receive_into(socket, bytes)?.0)
}

/// Receives one datagram and returns its length in `bytes`, its sender, and whether it was longer
/// than `bytes`. The functions of the standard library do not report that. On Windows, they also
/// fail if a datagram does not fit.
fn receive_into(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr, bool)> {
    let (start, room) = (bytes.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes.len());
    // SAFETY: validity: the pointer and the length are those of `bytes`, and every byte is a valid
    // `MaybeUninit<u8>`. The call below only writes initialized bytes, so `bytes` stays valid.
    // Aliasing: `bytes` is borrowed mutably and not used until the call has returned.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start, room) };
    let mut parts = [MaybeUninitSlice::new(bytes)];
    let (len, flags, from) = SockRef::from(socket).recv_from_vectored(&mut parts)?;
    let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let from = from.as_socket().unwrap_or(unspecified);
    // Windows does not return the length of a datagram that it has cut.
    match flags.is_truncated() {
        true => Ok((room, from, true)),
        false => Ok((len.min(room), from, false)),
    }
}

/// Returns whether the system can split messages.
pub(super) fn can_split(_socket: &UdpSocket) -> bool {
    false
}

/// Sets whether the system merges consecutive datagrams from one sender.
pub(super) fn set_merging(_socket: &UdpSocket, on: bool) -> io::Result<()> {
    match on {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(()),
    }
}

/// Sets whether the system reports the time of arrival and the drop count with each datagram.
pub(super) fn set_arrival_info(_socket: &UdpSocket, on: bool) -> io::Result<()> {
    match on {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(()),
    }
}
