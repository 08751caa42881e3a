//! Reassembles the fragments of IP packets in captures. A library joins the bytes.
//!
//! Source: RFC 791 section 3.2 and RFC 8200 section 4.5.

use etherparse::defrag::IpDefragBuf;
use etherparse::{IpFragOffset, IpNumber};
use std::collections::HashMap;
use std::net::IpAddr;

/// The maximum number of packets that wait for further fragments. The oldest is dropped.
const PACKETS_MAX: usize = 1_024;
/// Fragments that are further apart than this time in nanoseconds belong to different packets,
/// because a sender uses its identifications again. Linux waits for the same time with IPv4.
const TIMEOUT: u64 = 30_000_000_000;

/// The addresses, the identification and the protocol, which the fragments of a packet have in
/// common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PacketId {
    pub(super) ips: (IpAddr, IpAddr),
    pub(super) identification: u32,
    pub(super) protocol: IpNumber,
}

/// A fragment of an IP packet.
#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) id: PacketId,
    pub(super) offset: IpFragOffset,
    pub(super) has_more: bool,
    pub(super) payload: &'a [u8],
}

/// A packet of which some fragments have been read.
#[derive(Debug)]
struct Partial {
    buffer: IpDefragBuf,
    fragments: u64,
    /// The time of the first fragment.
    begin: u64,
}

/// The packets of a capture that wait for further fragments.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    packets: HashMap<PacketId, Partial>,
    /// The number of fragments that were dropped.
    dropped: u64,
}

impl Reassembly {
    /// Adds a fragment that was captured at this time in nanoseconds. Returns the payload of its
    /// packet if the packet is complete now.
    pub(super) fn add(&mut self, fragment: &Fragment<'_>, at: u64) -> Option<Vec<u8>> {
        let id = fragment.id;
        let known = self.packets.get(&id);
        if known.is_some_and(|known| at.abs_diff(known.begin) > TIMEOUT) {
            self.drop_packet(id);
        }
        if self.packets.len() >= PACKETS_MAX && !self.packets.contains_key(&id) {
            let oldest = self.packets.iter().min_by_key(|(_, partial)| partial.begin);
            if let Some(oldest) = oldest.map(|(&id, _)| id) {
                self.drop_packet(oldest);
            }
        }
        let partial = self.packets.entry(id).or_insert_with(|| Partial {
            buffer: IpDefragBuf::new(id.protocol, Vec::new(), Vec::new()),
            fragments: 0,
            begin: at,
        });
        partial.fragments += 1;
        let added = partial
            .buffer
            .add(fragment.offset, fragment.has_more, fragment.payload);
        if added.is_err() {
            self.drop_packet(id);
            return None;
        }
        if !partial.buffer.is_complete() {
            return None;
        }
        let partial = self.packets.remove(&id)?;
        Some(partial.buffer.take_bufs().0)
    }

    fn drop_packet(&mut self, id: PacketId) {
        let fragments = self.packets.remove(&id).map_or(0, |it| it.fragments);
        self.dropped += fragments;
    }

    /// Returns the number of fragments whose packets are not complete.
    pub(super) fn incomplete(&self) -> u64 {
        let waiting = self.packets.values().map(|partial| partial.fragments);
        self.dropped + waiting.sum::<u64>()
    }
}
