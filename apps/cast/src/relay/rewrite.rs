//! Replaces SSRCs, sequence numbers and timestamps, so that clients cannot recognize a source.

use crate::net::identity::Random;
use crate::net::rtcp::{self, Item, ReportBlock};
use crate::net::rtp::is_rtcp;
use std::collections::HashMap;

/// The maximum number of sources per port. Packets of further sources are dropped.
const SOURCES_MAX: usize = 32_768;

/// The new SSRC of a source, and the offsets of its other numbers.
#[derive(Debug, Clone, Copy)]
struct Shift {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

/// Rewrites the packets of one port.
#[derive(Debug)]
pub(super) struct Rewrite {
    random: Random,
    cname: String,
    shifts: HashMap<u32, Shift>,
    back: HashMap<u32, u32>,
}

impl Rewrite {
    pub(super) fn new() -> Self {
        let mut random = Random::new(None);
        Rewrite {
            cname: format!("{:016x}", random.next()),
            random,
            shifts: HashMap::new(),
            back: HashMap::new(),
        }
    }

    fn shift(&mut self, ssrc: u32) -> Option<Shift> {
        if let Some(&shift) = self.shifts.get(&ssrc) {
            return Some(shift);
        }
        if self.shifts.len() >= SOURCES_MAX {
            return None;
        }
        let (name, numbers) = (self.random.next() as u32, self.random.next());
        let shift = Shift {
            ssrc: name,
            sequence: numbers as u16,
            timestamp: (numbers >> 32) as u32,
        };
        self.shifts.insert(ssrc, shift);
        self.back.insert(name, ssrc);
        Some(shift)
    }

    /// Writes the datagram for the clients to `into`. Returns `None` if it must not be passed on.
    pub(super) fn forward(&mut self, datagram: &[u8], into: &mut Vec<u8>) -> Option<()> {
        into.clear();
        if is_rtcp(datagram) {
            return self.forward_report(datagram, into);
        }
        into.extend_from_slice(datagram);
        let header: &mut [u8; 12] = into.first_chunk_mut()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let shift = self.shift(word(8))?;
        let sequence = u16::from_be_bytes([header[2], header[3]]).wrapping_add(shift.sequence);
        let timestamp = word(4).wrapping_add(shift.timestamp);
        header[2..4].copy_from_slice(&sequence.to_be_bytes());
        header[4..8].copy_from_slice(&timestamp.to_be_bytes());
        header[8..].copy_from_slice(&shift.ssrc.to_be_bytes());
        Some(())
    }

    /// Rewrites a sender report with the new SSRC and timestamp.
    fn forward_report(&mut self, datagram: &[u8], into: &mut Vec<u8>) -> Option<()> {
        let (mut sender, mut leaves) = (None, None);
        rtcp::read(datagram, |item| match item {
            Item::Sender(ssrc, info) => sender = Some((ssrc, info)),
            Item::Bye(ssrc) => leaves = Some(ssrc),
            Item::Block(_) => {}
        });
        let ssrc = sender.map(|(ssrc, _)| ssrc).or(leaves)?;
        let shift = self.shift(ssrc)?;
        let mut info = sender.map(|(_, info)| info).unwrap_or_default();
        info.timestamp = info.timestamp.wrapping_add(shift.timestamp);
        *into = rtcp::sender_report(shift.ssrc, info, &[], &self.cname, leaves.is_some());
        Some(())
    }

    /// Rewrites a receiver report with the original SSRC of the source.
    pub(super) fn backward(&self, datagram: &[u8], into: &mut Vec<u8>) -> Option<()> {
        let mut blocks: Vec<ReportBlock> = Vec::new();
        rtcp::read(datagram, |item| {
            if let Item::Block(block) = item
                && let Some(&ssrc) = self.back.get(&block.ssrc)
            {
                let sequence = self.shifts.get(&ssrc).map_or(0, |shift| shift.sequence);
                let highest_sequence = block.highest_sequence.wrapping_sub(sequence.into());
                blocks.push(ReportBlock {
                    ssrc,
                    highest_sequence,
                    ..block
                });
            }
        });
        if blocks.is_empty() {
            return None;
        }
        let ssrc = datagram.get(4..8).and_then(|bytes| bytes.try_into().ok());
        *into = rtcp::receiver_report(ssrc.map_or(0, u32::from_be_bytes), &blocks, &self.cname);
        Some(())
    }
}
