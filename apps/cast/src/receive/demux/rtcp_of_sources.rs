//! Handles RTCP packets about received sources. Such a packet may arrive on another port than the
//! RTP packets of its source, or before them.

use super::{Config, Demux, IndexMap, SOURCES_MAX};
use crate::lock::lock;
use crate::net::arrival;
use crate::net::rtcp::{self, Item, SenderInfo};
use crate::net::xr::{self, Block};
use crate::receive::rtp_source::{Reported, RtpSource};
use std::time::Duration;

/// RTCP of a source that no demultiplexer has attributed yet.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::receive) struct PendingRtcp {
    /// The last sender report, and the time of its arrival.
    sender: Option<(SenderInfo, u64)>,
    has_left: bool,
    reported: Reported,
}

/// Updates what was reported about a source, or about one that no demultiplexer has attributed yet.
/// Ignores a new SSRC if [`SOURCES_MAX`] of them are still unattributed.
fn update(
    sources: &mut [RtpSource],
    by_ssrc: &IndexMap<u32>,
    config: &Config,
    ssrc: u32,
    change: impl FnOnce(&mut Reported),
) {
    if let Some(&at) = by_ssrc.get(&ssrc) {
        return change(sources[at].reported_mut());
    }
    let mut pending = lock(&config.pending_rtcp);
    if pending.len() < SOURCES_MAX || pending.contains_key(&ssrc) {
        change(&mut pending.entry(ssrc).or_default().reported);
    }
}

impl Demux {
    pub(super) fn receive_rtcp(&mut self, datagram: &[u8], arrival: u64) {
        self.unrecognized.rtcp += 1;
        self.receive_extended(datagram, arrival);
        let (sources, by_ssrc, config) = (&mut self.sources, &self.by_ssrc, &self.config);
        let is_rtcp = rtcp::read(datagram, |item| {
            let ssrc = match item {
                Item::Sender(ssrc, _) | Item::Bye(ssrc) => ssrc,
                // This block is about a stream that we send, or one in the other direction of a
                // capture.
                Item::Block(block) => {
                    let reported = |reported: &mut Reported| reported.block = Some(block);
                    return update(sources, by_ssrc, config, block.ssrc, reported);
                }
            };
            match (by_ssrc.get(&ssrc).map(|&at| &mut sources[at]), item) {
                (Some(source), Item::Sender(_, info)) => source.set_sender_info(info, arrival),
                (Some(source), _) => source.mark_left(),
                (None, item) => {
                    let mut pending_rtcp = lock(&config.pending_rtcp);
                    if pending_rtcp.len() >= SOURCES_MAX && !pending_rtcp.contains_key(&ssrc) {
                        return;
                    }
                    let pending = pending_rtcp.entry(ssrc).or_default();
                    match item {
                        // A BYE does not discard the last sender report.
                        Item::Sender(_, info) => pending.sender = Some((info, arrival)),
                        _ => pending.has_left = true,
                    }
                }
            }
        });
        if !is_rtcp {
            self.unrecognized.rtcp -= 1;
            self.unrecognized.malformed += 1;
        }
    }

    /// Records what extended reports state about our sources.
    fn receive_extended(&mut self, datagram: &[u8], arrival: u64) {
        let (sources, by_ssrc, config) = (&mut self.sources, &self.by_ssrc, &self.config);
        xr::read(datagram, |block| match block {
            Block::Voip(voip) => {
                let reported = |reported: &mut Reported| reported.voip = Some(voip);
                update(sources, by_ssrc, config, voip.ssrc, reported);
            }
            Block::Delay(sender, delay) if delay.receiver == config.ssrc => {
                // The datagram may have waited in the socket's buffer.
                let waited = Duration::from_nanos(arrival::now().saturating_sub(arrival));
                let at = rtcp::ntp(arrival::since_1970(None).saturating_sub(waited));
                let reported = |reported: &mut Reported| reported.round_trip = delay.round_trip(at);
                update(sources, by_ssrc, config, sender, reported);
            }
            Block::Delay(..) | Block::ReferenceTime(..) => {}
        });
    }

    /// Applies the RTCP of our sources that arrived on other ports.
    pub(super) fn apply_pending_rtcp(&mut self) {
        let pending_rtcp = lock(&self.config.pending_rtcp);
        for source in &mut self.sources {
            let Some(pending) = pending_rtcp.get(&source.ssrc()) else {
                continue;
            };
            if let Some((info, arrival)) = pending.sender {
                source.set_sender_info(info, arrival);
            }
            if pending.has_left {
                source.mark_left();
            }
            source.reported_mut().add(&pending.reported);
        }
    }
}
