//! Batches where the system has no call for them: one datagram at a time, the same API.

use super::batch::{Outgoing, Received, Slot};
use std::io;
use std::net::UdpSocket;

/// Sends what it can of `outgoing`: how many datagrams it was.
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

/// Fills the slots of `received` with what there is; fewer than all slots means that there was
/// no more.
pub(super) fn receive(socket: &UdpSocket, received: &mut Received) -> io::Result<()> {
    received.filled = 0;
    let room = received.room;
    let bytes = received.bytes.chunks_exact_mut(room);
    for (slot, bytes) in received.slots.iter_mut().zip(bytes) {
        match socket.recv_from(bytes) {
            Ok((len, from)) => {
                // What did not fit is not told here; a full slot is taken for it.
                let truncated = len == room;
                *slot = Slot {
                    len,
                    segment: 0,
                    from,
                    truncated,
                };
                received.filled += 1;
            }
            Err(error) if received.filled == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(())
}

/// Whether this system can split messages.
pub(super) fn can_split(_socket: &UdpSocket) -> bool {
    false
}

/// Lets the system merge datagrams that come in a row from one sender.
pub(super) fn set_merging(_socket: &UdpSocket, on: bool) -> io::Result<()> {
    match on {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(()),
    }
}
