//! Batches on systems without a system call for them. This file has the same API as `mmsg.rs`, but
//! makes one call per datagram.

use super::batch::{Outgoing, Received, Slot};
use std::io;
use std::net::UdpSocket;

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

/// Fills the slots of `received` with the datagrams that have arrived. If it fills fewer than all
/// slots, there are no more datagrams.
pub(super) fn receive(socket: &UdpSocket, received: &mut Received) -> io::Result<()> {
    received.filled = 0;
    let memory = received.bytes.chunks_exact_mut(received.room);
    received.filled = receive_into(socket, memory, true, received.slots.iter_mut())?;
    Ok(())
}

/// Receives the datagrams that have arrived, one into each element of `memory`, describes them in
/// the slots with the same index, and returns their number. If the number is lower than the number
/// of slots, there are no more datagrams.
pub(super) fn receive_into<'a>(
    socket: &UdpSocket,
    memory: impl Iterator<Item = &'a mut [u8]>,
    _addresses: bool,
    slots: impl ExactSizeIterator<Item = &'a mut Slot>,
) -> io::Result<usize> {
    let mut filled = 0;
    for (slot, bytes) in slots.zip(memory) {
        match socket.recv_from(bytes) {
            Ok((len, from)) => {
                // The call does not report whether the datagram was longer than the slot. We assume
                // so if the slot is full.
                let truncated = len == bytes.len();
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
            Err(_) => break,
        }
    }
    Ok(filled)
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
