//! The address and the formats of a stream, and the session description of streams that we send.
//! The module `sdp` reads session descriptions.

use crate::media::format::{Format, Formats};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The packet time if a session states none. Source: RFC 3551 section 4.2.
pub(crate) const PACKET_TIME: Duration = Duration::from_millis(20);

/// The destination of RTCP reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rtcp {
    /// We send no reports, but still read those that arrive.
    #[default]
    Off,
    /// Reports go to the port of the packets.
    Mux,
    /// Reports go to a port of their own, which is the next one.
    Own,
}

impl std::str::FromStr for Rtcp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Rtcp::Off),
            "mux" => Ok(Rtcp::Mux),
            "own" => Ok(Rtcp::Own),
            _ => Err(format!("unknown value `{text}`: expected off, mux or own")),
        }
    }
}

/// The senders whose packets we accept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Senders {
    /// We accept packets of all senders.
    #[default]
    Any,
    /// We accept packets of these senders only.
    Only(Vec<IpAddr>),
    /// We accept packets of all senders except these.
    Except(Vec<IpAddr>),
}

impl Senders {
    /// Returns whether we accept packets of this sender.
    #[inline]
    pub fn accepts(&self, sender: IpAddr) -> bool {
        match self {
            Senders::Any => true,
            Senders::Only(senders) => senders.contains(&sender),
            Senders::Except(senders) => !senders.contains(&sender),
        }
    }
}

/// The address and the formats of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtpSession {
    /// The destination of the packets: a port of this machine, of a client, or of a multicast
    /// group.
    pub address: SocketAddr,
    /// The senders whose packets we accept.
    pub sources: Senders,
    /// The formats of the payload types.
    pub formats: Formats,
    /// The duration of a packet.
    pub packet_time: Duration,
    /// The destination of RTCP reports.
    pub rtcp: Rtcp,
    /// The address of the reports if they have a port of their own that is not the next one.
    pub rtcp_at: Option<SocketAddr>,
    /// Whether packets travel over TCP, with the length in front of each packet.
    pub tcp: bool,
    /// The number of hops that a multicast packet may take.
    pub ttl: Option<u8>,
}

impl RtpSession {
    /// Creates a session with packets of one payload type and format at `address`. All other fields
    /// have their defaults.
    pub fn new(address: SocketAddr, payload_type: u8, format: Format) -> Self {
        RtpSession {
            address,
            sources: Senders::Any,
            formats: Formats::new(vec![(payload_type, format)]),
            packet_time: PACKET_TIME,
            rtcp: Rtcp::Off,
            rtcp_at: None,
            tcp: false,
            ttl: None,
        }
    }

    /// Adds another session that receives on the same address, for example another medium of a
    /// bundle.
    fn add(&mut self, other: &RtpSession) {
        let mut named = self.formats.named().to_vec();
        for &(number, format) in other.formats.named() {
            if named.iter().all(|&(known, _)| known != number) {
                named.push((number, format));
            }
        }
        self.formats = Formats::new(named);
        self.packet_time = self.packet_time.min(other.packet_time);
        self.sources = match (&self.sources, &other.sources) {
            (Senders::Only(ours), Senders::Only(theirs)) => {
                Senders::Only([ours.clone(), theirs.clone()].concat())
            }
            (Senders::Except(ours), Senders::Except(theirs)) => {
                let both = ours.iter().filter(|ip| theirs.contains(ip));
                Senders::Except(both.copied().collect())
            }
            _ => Senders::Any,
        };
    }

    /// Combines the sessions that have the same address, because one socket receives all of them.
    #[must_use]
    pub fn combined(sessions: Vec<RtpSession>) -> Vec<RtpSession> {
        let mut combined: Vec<RtpSession> = Vec::new();
        for session in sessions {
            let same =
                |it: &&mut RtpSession| it.address == session.address && it.tcp == session.tcp;
            match combined.iter_mut().find(same) {
                Some(first) => first.add(&session),
                None => combined.push(session),
            }
        }
        combined
    }

    /// Returns the payload type and the format that we send.
    pub(crate) fn preferred(&self) -> (u8, Format) {
        let first = self.formats.named().first();
        first.map_or((11, Format::CD_MONO), |&(number, format)| (number, format))
    }

    /// Returns the address to which reports go.
    pub(crate) fn rtcp_address(&self) -> Option<SocketAddr> {
        match self.rtcp {
            Rtcp::Off => None,
            Rtcp::Mux => Some(self.address),
            Rtcp::Own if self.rtcp_at.is_some() => self.rtcp_at,
            Rtcp::Own => {
                let port = self.address.port().checked_add(1)?;
                Some(SocketAddr::new(self.address.ip(), port))
            }
        }
    }

    /// Returns the session description of these streams, for their clients.
    pub fn describe(sessions: &[RtpSession]) -> String {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let origin = sessions.first().map_or(any, |session| session.address);
        let mut text = format!(
            "v=0\r\no=- 0 0 IN {}\r\ns=creel-cast\r\nt=0 0\r\n",
            family(origin.ip())
        );
        for session in sessions {
            session.describe_one(&mut text);
        }
        text
    }

    fn describe_one(&self, text: &mut String) {
        let protocol = if self.tcp { "TCP/RTP/AVP" } else { "RTP/AVP" };
        let numbers: Vec<String> = self
            .formats
            .named()
            .iter()
            .map(|(number, _)| number.to_string())
            .collect();
        let ip = self.address.ip();
        let ttl = match (ip, self.ttl) {
            (IpAddr::V4(ip), ttl) if ip.is_multicast() => format!("/{}", ttl.unwrap_or(1)),
            _ => String::new(),
        };
        let (port, numbers, family) = (self.address.port(), numbers.join(" "), family(ip));
        // Writing to a string cannot fail, so we ignore the results.
        let _ = write!(
            text,
            "m=audio {port} {protocol} {numbers}\r\nc=IN {family}{ttl}\r\n"
        );
        for (number, format) in self.formats.named() {
            let _ = write!(text, "a=rtpmap:{number} {format}\r\n");
        }
        let time = self.packet_time.as_secs_f64() * 1e3;
        let _ = write!(text, "a=ptime:{time}\r\n");
        let filter = match &self.sources {
            Senders::Any => None,
            Senders::Only(senders) => Some(("incl", senders)),
            Senders::Except(senders) => Some(("excl", senders)),
        };
        if let Some((mode, senders)) = filter {
            let senders: Vec<String> = senders.iter().map(IpAddr::to_string).collect();
            let (family, senders) = (family_name(ip), senders.join(" "));
            let _ = write!(
                text,
                "a=source-filter: {mode} IN {family} {ip} {senders}\r\n"
            );
        }
        match (self.rtcp, self.rtcp_address()) {
            (Rtcp::Mux, _) => text.push_str("a=rtcp-mux\r\n"),
            (Rtcp::Own, Some(address)) if address.ip() != ip => {
                let (port, family) = (address.port(), self::family(address.ip()));
                let _ = write!(text, "a=rtcp:{port} IN {family}\r\n");
            }
            (Rtcp::Own, Some(address)) => {
                let _ = write!(text, "a=rtcp:{}\r\n", address.port());
            }
            _ => {}
        }
    }
}

fn family_name(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IP4" } else { "IP6" }
}

fn family(ip: IpAddr) -> String {
    format!("{} {ip}", family_name(ip))
}
