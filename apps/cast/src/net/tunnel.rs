//! Finds the UDP datagram in a captured packet, through the tunnels that networks put around it:
//! PPPoE, MPLS, GRE, VXLAN, Geneve, GTP-U, and IP in IP. A library parses IP and its extension
//! headers. We skip Ethernet headers and VLAN tags ourselves.
//!
//! Source: RFC 2516 (PPPoE), RFC 3032 and RFC 4448 (MPLS and Ethernet over MPLS), RFC 2784 and RFC
//! 2890 (GRE), RFC 7348 (VXLAN), RFC 1042 (SNAP), RFC 8926 (Geneve), 3GPP TS 29.281 (GTP-U).

use super::fragments::{Fragment, PacketId};
use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxIpSlice};
use std::net::IpAddr;

/// The maximum number of headers around a datagram, which is about twice the number of tunnels.
const DEPTH_MAX: usize = 16;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
/// Switches used this EtherType for the outer of two VLAN tags before there was a standard.
const OLD_VLAN: u16 = 0x9100;
const PPPOE: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const BRIDGED_ETHERNET: u16 = 0x6558;
const GRE: u8 = 47;
/// The UDP ports of tunnels.
const VXLAN: u16 = 4_789;
/// Linux used this UDP port for VXLAN before VXLAN had a port of its own.
const VXLAN_LINUX: u16 = 8_472;
const VXLAN_GPE: u16 = 4_790;
const GENEVE: u16 = 6_081;
const GTP_U: u16 = 2_152;

/// The innermost content of a packet, after the headers of all tunnels were removed.
pub(super) enum Inner<'a> {
    /// A UDP datagram with its header, and its addresses.
    Udp {
        ips: (IpAddr, IpAddr),
        datagram: &'a [u8],
    },
    /// An IP fragment.
    Fragment(Fragment<'a>),
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

/// Returns the innermost UDP datagram in the payload of an IP packet.
pub(super) fn inner_of_payload<'a>(id: &PacketId, payload: &'a [u8]) -> Inner<'a> {
    match transport(id.ips, id.protocol, payload) {
        Some(Step::Into(link, rest)) => inner(link, rest),
        Some(Step::Found(found)) => found,
        None => Inner::Other,
    }
}

enum Step<'a> {
    /// The packet contains another packet.
    Into(Link, &'a [u8]),
    Found(Inner<'a>),
}

fn step(link: Link, bytes: &[u8]) -> Step<'_> {
    let other = Step::Found(Inner::Other);
    match link {
        Link::Ethernet => {
            // We skip the header and the tags ourselves, because the library does not look behind
            // all EtherTypes that we know, such as MPLS.
            let Some((kind, rest)) = ethernet(bytes) else {
                return other;
            };
            Step::Into(Link::Type(kind), rest)
        }
        Link::Ip | Link::Type(IPV4 | IPV6) => network(bytes).unwrap_or(other),
        Link::Ppp => {
            // A PPP frame may begin with the address byte FF and the control byte 03, or leave both
            // out.
            let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
            match bytes {
                [0x00, 0x21 | 0x57, rest @ ..] => Step::Into(Link::Ip, rest),
                [0x02, 0x81, rest @ ..] => Step::Into(Link::Type(MPLS), rest),
                _ => other,
            }
        }
        Link::Type(PPPOE) => bytes
            .get(6..)
            .map_or(other, |rest| Step::Into(Link::Ppp, rest)),
        Link::Type(VLAN | SERVICE_VLAN | OLD_VLAN) => {
            let Some((tag, rest)) = bytes.split_first_chunk::<4>() else {
                return other;
            };
            Step::Into(Link::Type(u16::from_be_bytes([tag[2], tag[3]])), rest)
        }
        Link::Type(MPLS | MPLS_MULTICAST) => mpls(bytes).unwrap_or(other),
        Link::Type(_) => other,
    }
}

/// Returns the EtherType of a frame behind its VLAN tags, and the bytes after it.
fn ethernet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
        match kind {
            VLAN | SERVICE_VLAN | OLD_VLAN => at += 4,
            // The value is a length and not an EtherType. The header of SNAP follows, which ends
            // with the EtherType.
            0..0x600 => {
                let (snap, rest) = frame[at + 2..].split_first_chunk::<8>()?;
                let is_snap = snap[..6] == [0xaa, 0xaa, 0x03, 0, 0, 0];
                return is_snap.then_some((u16::from_be_bytes([snap[6], snap[7]]), rest));
            }
            kind => return Some((kind, &frame[at + 2..])),
        }
    }
}

/// Returns whether we look behind this EtherType.
fn is_known(kind: u16) -> bool {
    matches!(kind, IPV4 | IPV6 | PPPOE | MPLS | MPLS_MULTICAST)
}

/// Returns whether the bytes begin with an IP header whose length fits.
fn is_ip(bytes: &[u8]) -> bool {
    let half = |at: usize| {
        bytes
            .get(at..at + 2)
            .map(|it| usize::from(it[0]) << 8 | usize::from(it[1]))
    };
    match bytes.first().map(|first| first >> 4) {
        Some(4) => half(2).is_some_and(|len| len >= 20 && len <= bytes.len()),
        Some(6) => half(4).is_some_and(|len| len + 40 <= bytes.len()),
        _ => false,
    }
}

/// Skips the labels. The packet does not state what is behind them, so we try what fits: IP, an
/// Ethernet frame, and one behind a control word.
fn mpls(mut bytes: &[u8]) -> Option<Step<'_>> {
    loop {
        let (label, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest;
        if label[2] & 1 == 1 {
            break;
        }
    }
    if is_ip(bytes) {
        return Some(Step::Into(Link::Ip, bytes));
    }
    let control = bytes.get(4..).filter(|_| bytes[0] >> 4 == 0);
    let mut frames = [control, Some(bytes)].into_iter().flatten();
    let frame = frames.find(|frame| ethernet(frame).is_some_and(|(kind, _)| is_known(kind)));
    Some(match frame {
        Some(frame) => Step::Into(Link::Ethernet, frame),
        // The end of a packet may not have been captured, so its length does not fit.
        None if matches!(bytes.first()? >> 4, 4 | 6) => Step::Into(Link::Ip, bytes),
        None => Step::Found(Inner::Other),
    })
}

/// Returns the UDP datagram or the fragment in an IP packet, or the inner packet if the payload is
/// a tunnel.
fn network(bytes: &[u8]) -> Option<Step<'_>> {
    let (packet, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let ips = (packet.source_addr(), packet.destination_addr());
    let ip = packet.payload();
    let payload = ip.payload;
    if ip.fragmented {
        let fragment = fragment(&packet, ips, ip.ip_number, payload)?;
        return Some(Step::Found(Inner::Fragment(fragment)));
    }
    transport(ips, ip.ip_number, payload)
}

/// Returns the fragment in a parsed IP packet.
fn fragment<'a>(
    packet: &LaxIpSlice<'_>,
    ips: (IpAddr, IpAddr),
    protocol: IpNumber,
    payload: &'a [u8],
) -> Option<Fragment<'a>> {
    let (identification, offset, has_more) = match packet {
        LaxIpSlice::Ipv4(ip) => {
            let header = ip.header();
            (
                header.identification().into(),
                header.fragments_offset(),
                header.more_fragments(),
            )
        }
        LaxIpSlice::Ipv6(ip) => {
            let mut extensions = ip.extensions().clone().into_iter();
            let header = extensions.find_map(|extension| match extension {
                Ipv6ExtensionSlice::Fragment(header) => Some(header.to_header()),
                _ => None,
            })?;
            (
                header.identification,
                header.fragment_offset,
                header.more_fragments,
            )
        }
    };
    Some(Fragment {
        id: PacketId {
            ips,
            identification,
            protocol,
        },
        offset,
        has_more,
        payload,
    })
}

/// Returns the UDP datagram in the payload of an IP packet, or the inner packet if the payload is a
/// tunnel.
fn transport(ips: (IpAddr, IpAddr), protocol: IpNumber, payload: &[u8]) -> Option<Step<'_>> {
    Some(match protocol {
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
        (VXLAN_GPE, [flags, _, _, kind, _, _, _, _, rest @ ..]) if flags & 0x0c == 0x0c => {
            match kind {
                1 | 2 => Some(Step::Into(Link::Ip, rest)),
                3 => Some(Step::Into(Link::Ethernet, rest)),
                5 => Some(Step::Into(Link::Type(MPLS), rest)),
                _ => None,
            }
        }
        // The other flags of a VXLAN header, and the bytes after them, belong to extensions such as
        // group policies.
        (VXLAN | VXLAN_LINUX | VXLAN_GPE, [flags, _, _, _, _, _, _, 0, rest @ ..])
            if flags & 0x08 != 0 && ethernet(rest).is_some_and(|(kind, _)| is_known(kind)) =>
        {
            Some(Step::Into(Link::Ethernet, rest))
        }
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
                // We skip the optional fields and the extension headers. The length of an extension
                // header is in words of four bytes.
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
        // In version 1, which PPTP uses, an acknowledgement number can follow. The content is PPP.
        rest = rest.get(usize::from(bytes[1] & 0x80 != 0) * 4..)?;
        return Some(Step::Into(Link::Ppp, rest));
    }
    Some(match kind {
        BRIDGED_ETHERNET => Step::Into(Link::Ethernet, rest),
        // This and the next two cases are mirrored traffic: ERSPAN of type II, I and III.
        0x88be if flags & 0x10 != 0 => Step::Into(Link::Ethernet, rest.get(8..)?),
        0x88be => Step::Into(Link::Ethernet, rest),
        0x22eb => Step::Into(Link::Ethernet, rest.get(12..)?),
        kind => Step::Into(Link::Type(kind), rest),
    })
}
