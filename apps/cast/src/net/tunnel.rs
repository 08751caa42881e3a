//! Finds the UDP datagram in a captured packet, through the tunnels that networks put around it:
//! PPPoE, MPLS, GRE, VXLAN, Geneve, GTP-U, and IP in IP. A library parses Ethernet, VLAN tags, IP
//! and its extension headers.
//!
//! Source: RFC 2516 (PPPoE), RFC 3032 and RFC 4448 (MPLS and Ethernet over MPLS), RFC 2784 and RFC
//! 2890 (GRE), RFC 7348 (VXLAN), RFC 8926 (Geneve), 3GPP TS 29.281 (GTP-U).

use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket};
use std::net::IpAddr;

/// The maximum number of tunnels around a datagram.
const DEPTH_MAX: usize = 8;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const BRIDGED_ETHERNET: u16 = 0x6558;
const GRE: u8 = 47;
/// The UDP ports of tunnels.
const VXLAN: u16 = 4_789;
const GENEVE: u16 = 6_081;
const GTP_U: u16 = 2_152;

/// What a packet contains.
pub(super) enum Inner<'a> {
    /// A UDP datagram with its header, and its addresses.
    Udp {
        ips: (IpAddr, IpAddr),
        datagram: &'a [u8],
    },
    /// An IP fragment.
    Fragment,
    /// Anything else.
    Other,
}

/// The beginning of a packet.
#[derive(Clone, Copy)]
pub(super) enum Link {
    Ethernet,
    Ip,
    /// PPP with a protocol field of two bytes.
    Ppp,
    /// A packet of this EtherType.
    Type(u16),
}

/// Returns the innermost UDP datagram of a packet.
pub(super) fn inner(link: Link, bytes: &[u8]) -> Inner<'_> {
    let (mut link, mut bytes) = (link, bytes);
    for _ in 0..DEPTH_MAX {
        match step(link, bytes) {
            Step::Into(next, rest) => (link, bytes) = (next, rest),
            Step::Found(found) => return found,
        }
    }
    Inner::Other
}

enum Step<'a> {
    /// The packet has another one inside.
    Into(Link, &'a [u8]),
    Found(Inner<'a>),
}

fn step(link: Link, bytes: &[u8]) -> Step<'_> {
    let other = Step::Found(Inner::Other);
    let sliced = match link {
        Link::Ethernet => {
            // The library does not look behind these types, so we skip the tags ourselves.
            let Some((kind, rest)) = ethernet(bytes) else {
                return other;
            };
            match kind {
                IPV4 | IPV6 => LaxSlicedPacket::from_ethernet(bytes).ok(),
                kind => return Step::Into(Link::Type(kind), rest),
            }
        }
        Link::Ip => LaxSlicedPacket::from_ip(bytes).ok(),
        Link::Ppp => {
            // The address and control bytes may be there or left out.
            let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
            return match bytes {
                [0x00, 0x21 | 0x57, rest @ ..] => Step::Into(Link::Ip, rest),
                [0x02, 0x81, rest @ ..] => Step::Into(Link::Type(MPLS), rest),
                _ => other,
            };
        }
        Link::Type(PPPOE) => {
            return bytes
                .get(6..)
                .map_or(other, |rest| Step::Into(Link::Ppp, rest));
        }
        Link::Type(MPLS | MPLS_MULTICAST) => return mpls(bytes).unwrap_or(other),
        Link::Type(kind) => Some(LaxSlicedPacket::from_ether_type(EtherType(kind), bytes)),
    };
    sliced
        .and_then(|sliced| network(&sliced, bytes))
        .unwrap_or(other)
}

/// Returns the EtherType of a frame behind its VLAN tags, and the bytes after it.
fn ethernet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
        match kind {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            kind => return Some((kind, &frame[at + 2..])),
        }
    }
}

/// Skips the labels. The packet does not state what is behind them.
fn mpls(mut bytes: &[u8]) -> Option<Step<'_>> {
    loop {
        let (label, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest;
        if label[2] & 1 == 1 {
            break;
        }
    }
    Some(match bytes.first()? >> 4 {
        4 | 6 => Step::Into(Link::Ip, bytes),
        // A control word precedes an Ethernet frame.
        0 => Step::Into(Link::Ethernet, bytes.get(4..)?),
        _ => Step::Into(Link::Ethernet, bytes),
    })
}

/// Returns the datagram, or the packet in the tunnel, of a parsed IP packet.
fn network<'a>(sliced: &LaxSlicedPacket<'a>, whole: &'a [u8]) -> Option<Step<'a>> {
    let ips: (IpAddr, IpAddr) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        Some(LaxNetSlice::Ipv6(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        _ => return None,
    };
    // The slice borrows from the packet, but the library ties it to the parsed headers. We find the
    // same bytes in the packet.
    let ip = sliced.ip_payload()?;
    let begin = (ip.payload.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let payload = whole.get(begin..begin + ip.payload.len())?;
    if ip.fragmented {
        return Some(Step::Found(Inner::Fragment));
    }
    Some(match ip.ip_number {
        IpNumber::UDP => tunnel_over_udp(payload).unwrap_or(Step::Found(Inner::Udp {
            ips,
            datagram: payload,
        })),
        IpNumber::IPV4 | IpNumber::IPV6 => Step::Into(Link::Ip, payload),
        IpNumber(GRE) => gre(payload)?,
        _ => return None,
    })
}

/// Returns the packet in a tunnel over UDP, if the datagram belongs to one.
fn tunnel_over_udp(datagram: &[u8]) -> Option<Step<'_>> {
    let port = u16::from_be_bytes(datagram.get(2..4)?.try_into().ok()?);
    let body = datagram.get(8..)?;
    match (port, body) {
        (VXLAN, [0x08, 0, 0, 0, _, _, _, 0, rest @ ..]) => Some(Step::Into(Link::Ethernet, rest)),
        (GENEVE, [head, _, high, low, _, _, _, 0, rest @ ..]) if head >> 6 == 0 => {
            let options = usize::from(head & 0x3f) * 4;
            let kind = u16::from_be_bytes([*high, *low]);
            let rest = rest.get(options..)?;
            Some(match kind {
                BRIDGED_ETHERNET => Step::Into(Link::Ethernet, rest),
                kind => Step::Into(Link::Type(kind), rest),
            })
        }
        (GTP_U, [head, 0xff, ..]) if head >> 5 == 1 => {
            let mut at = 8;
            if head & 0x07 != 0 {
                // The optional fields, and extension headers whose lengths count words.
                let mut next = *body.get(11)?;
                at = 12;
                while next != 0 {
                    let words = usize::from(*body.get(at)?);
                    at += words.max(1) * 4;
                    next = *body.get(at - 1)?;
                }
            }
            Some(Step::Into(Link::Ip, body.get(at..)?))
        }
        _ => None,
    }
}

fn gre(bytes: &[u8]) -> Option<Step<'_>> {
    let flags = bytes.first()?;
    let version = bytes.get(1)? & 0x07;
    let kind = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let optional = [0x80, 0x20, 0x10].map(|flag| usize::from(flags & flag != 0) * 4);
    let mut rest = bytes.get(4 + optional.iter().sum::<usize>()..)?;
    if version == 1 {
        // PPTP has an acknowledgement as well, and PPP inside.
        rest = rest.get(usize::from(bytes[1] & 0x80 != 0) * 4..)?;
        return Some(Step::Into(Link::Ppp, rest));
    }
    Some(match kind {
        BRIDGED_ETHERNET => Step::Into(Link::Ethernet, rest),
        // Mirrored traffic (ERSPAN), types II and III.
        0x88be if flags & 0x10 != 0 => Step::Into(Link::Ethernet, rest.get(8..)?),
        0x88be => Step::Into(Link::Ethernet, rest),
        0x22eb => Step::Into(Link::Ethernet, rest.get(12..)?),
        kind => Step::Into(Link::Type(kind), rest),
    })
}
