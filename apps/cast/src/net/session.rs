//! The address and the formats of a stream, from flags or from a session description.
//!
//! Source: RFC 8866 (SDP), RFC 3605 (`rtcp`), RFC 5761 (`rtcp-mux`), RFC 4570 (`source-filter`),
//! RFC 4145 and RFC 4571 (TCP).
//!
//! Left out: media other than audio, which we skip, and the offer/answer model.

use crate::media::format::{Format, Formats};
use sdp_types::{Connection, Media};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The packet time if a session states none. Source: RFC 3551 section 4.2.
pub(crate) const PACKET_TIME: Duration = Duration::from_millis(20);

/// Where RTCP reports go.
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

/// The address and the formats of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtpSession {
    /// The destination of the packets: a port of this machine, of a client, or of a multicast
    /// group.
    pub address: SocketAddr,
    /// The only sender of a multicast group whose packets we accept.
    pub source: Option<IpAddr>,
    /// The formats of the payload types.
    pub formats: Formats,
    /// The duration of a packet.
    pub packet_time: Duration,
    /// Where reports go.
    pub rtcp: Rtcp,
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
            source: None,
            formats: Formats::new(vec![(payload_type, format)]),
            packet_time: PACKET_TIME,
            rtcp: Rtcp::Off,
            tcp: false,
            ttl: None,
        }
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
            Rtcp::Own => {
                let port = self.address.port().checked_add(1)?;
                Some(SocketAddr::new(self.address.ip(), port))
            }
        }
    }

    /// Returns all audio streams of a session description.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a session description, has no audio, or has an address
    /// or format that we cannot parse.
    ///
    /// ```
    /// use creel_cast::RtpSession;
    ///
    /// let text = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    ///             m=audio 5004 RTP/AVP 97\r\na=rtpmap:97 L16/48000/2\r\na=ptime:5\r\n";
    /// let sessions = RtpSession::read(text.as_bytes())?;
    /// assert_eq!(sessions[0].address.port(), 5004);
    /// assert_eq!(sessions[0].packet_time.as_millis(), 5);
    /// # Ok::<(), String>(())
    /// ```
    pub fn read(text: &[u8]) -> Result<Vec<RtpSession>, String> {
        let wrong = |error| format!("not a session description: {error}");
        let whole = sdp_types::Session::parse(skip_title(text)).map_err(wrong)?;
        let mut sessions = Vec::new();
        let audio = whole.medias.iter().filter(|media| media.media == "audio");
        for media in audio.filter(|media| media.port != 0) {
            let connection = media.connections.first().or(whole.connection.as_ref());
            let inherited = |name: &'static str| {
                let of_media = media.get_first_attribute_value(name).flatten();
                let of_whole = || whole.get_first_attribute_value(name).flatten();
                of_media.or_else(of_whole)
            };
            let first = first_stream(media, connection, inherited("source-filter"))?;
            let step = 1 + u16::from(first.rtcp == Rtcp::Own);
            for n in 0..media.num_ports.unwrap_or(1) {
                let port = n
                    .checked_mul(step)
                    .and_then(|n| first.address.port().checked_add(n));
                let port = port.ok_or("it has more ports than there are above its first port")?;
                let address = SocketAddr::new(first.address.ip(), port);
                sessions.push(RtpSession {
                    address,
                    ..first.clone()
                });
            }
        }
        if sessions.is_empty() {
            return Err("it has no audio".into());
        }
        Ok(sessions)
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
        if let Some(source) = self.source {
            let filter = family_name(ip);
            let _ = write!(text, "a=source-filter: incl IN {filter} {ip} {source}\r\n");
        }
        match (self.rtcp, self.rtcp_address()) {
            (Rtcp::Mux, _) => text.push_str("a=rtcp-mux\r\n"),
            (Rtcp::Own, Some(address)) => {
                let _ = write!(text, "a=rtcp:{}\r\n", address.port());
            }
            _ => {}
        }
    }
}

/// Removes the lines that ffmpeg prints before a session description.
fn skip_title(text: &[u8]) -> &[u8] {
    let begin = text.windows(4).position(|four| four == b"\nv=0");
    match (text.starts_with(b"v=0"), begin) {
        (false, Some(at)) => &text[at + 1..],
        _ => text,
    }
}

fn family_name(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IP4" } else { "IP6" }
}

fn family(ip: IpAddr) -> String {
    format!("{} {ip}", family_name(ip))
}

/// Returns the first stream of a media description.
fn first_stream(
    media: &Media,
    connection: Option<&Connection>,
    filter: Option<&str>,
) -> Result<RtpSession, String> {
    let is_encrypted = media.proto.contains("SAVP") || media.has_attribute("crypto");
    if is_encrypted {
        return Err(format!(
            "its audio is encrypted ({}), and SRTP is not supported",
            media.proto
        ));
    }
    let connection = connection.ok_or("its audio has no connection (c=)")?;
    let address = connection
        .try_address()
        .map_err(|error| error.to_string())?;
    let value = |name: &'static str| media.get_first_attribute_value(name).flatten();
    let own_port = value("rtcp").and_then(|text| text.split_whitespace().next()?.parse().ok());
    let rtcp = if media.has_attribute("rtcp-mux") {
        Rtcp::Mux
    } else if own_port.is_none_or(|port: u16| port == media.port.wrapping_add(1)) {
        Rtcp::Own
    } else if own_port == Some(media.port) {
        Rtcp::Mux
    } else {
        Rtcp::Off
    };
    let time = value("ptime").and_then(|text| text.trim().parse::<f64>().ok());
    let time = time.filter(|ms| *ms > 0.0 && *ms <= 1_000.0);
    Ok(RtpSession {
        address: SocketAddr::new(address.ip, media.port),
        source: filter.and_then(|text| text.split_whitespace().last()?.parse().ok()),
        formats: formats(media)?,
        packet_time: time.map_or(PACKET_TIME, |ms| Duration::from_secs_f64(ms / 1e3)),
        rtcp,
        tcp: media.proto.starts_with("TCP"),
        ttl: address.ttl,
    })
}

fn formats(media: &Media) -> Result<Formats, String> {
    let mut named = Vec::new();
    let maps: Vec<(u8, &str)> = media
        .attributes
        .iter()
        .filter(|attribute| attribute.attribute == "rtpmap")
        .filter_map(|attribute| attribute.value.as_deref()?.split_once(' '))
        .filter_map(|(number, format)| Some((number.parse().ok()?, format.trim())))
        .collect();
    for number in media.fmt.split_whitespace() {
        let number: u8 = number
            .parse()
            .ok()
            .filter(|&n| n < 128)
            .ok_or(format!("`{number}` is not a payload type"))?;
        let map = maps.iter().find(|(of, _)| *of == number);
        let format = match map {
            Some((_, format)) => Some(format.parse()?),
            None => Format::of_payload_type(number),
        };
        let format = format.ok_or(format!("payload type {number} has no a=rtpmap"))?;
        named.push((number, format));
    }
    if named.is_empty() {
        return Err("its audio has no payload type".into());
    }
    Ok(Formats::new(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_before_the_description_is_skipped() {
        let text = b"SDP:\nv=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\n\
            m=audio 7010 RTP/AVP 97\nb=AS:1536\na=rtpmap:97 L16/48000/2\n\n";
        let sessions = RtpSession::read(text).unwrap();
        assert_eq!(sessions[0].preferred().0, 97);
        assert!(RtpSession::read(b"SDP:\n").is_err());
    }

    #[test]
    fn descriptions_round_trip() {
        let stereo = "L16/48000/2".parse().unwrap();
        let mut first = RtpSession::new("127.0.0.1:5004".parse().unwrap(), 97, stereo);
        first.packet_time = Duration::from_millis(5);
        first.rtcp = Rtcp::Own;
        let mut second = RtpSession::new(
            "[ff15::1]:6000".parse().unwrap(),
            0,
            "PCMU".parse().unwrap(),
        );
        second.rtcp = Rtcp::Mux;
        second.source = Some("::1".parse().unwrap());
        let mut third = RtpSession::new(
            "239.1.2.3:7000".parse().unwrap(),
            8,
            "PCMA".parse().unwrap(),
        );
        third.rtcp = Rtcp::Mux;
        third.ttl = Some(4);
        third.formats = Formats::new(vec![
            (8, "PCMA".parse().unwrap()),
            (101, "telephone-event/8000".parse().unwrap()),
        ]);
        let sessions = [first, second, third];
        let text = RtpSession::describe(&sessions);
        assert_eq!(
            RtpSession::read(text.as_bytes()).unwrap(),
            sessions,
            "{text}"
        );
    }

    #[test]
    fn a_description_written_by_ffmpeg_is_parsed() {
        let text = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\n\
                    a=tool:libavformat\nm=video 6000 RTP/AVP 96\nm=audio 5004/2 RTP/AVP 0\nb=AS:64\n";
        let sessions = RtpSession::read(text.as_bytes()).unwrap();
        assert_eq!(sessions.len(), 2);
        assert_eq!(sessions[1].address, "127.0.0.1:5006".parse().unwrap());
        assert_eq!(sessions[0].preferred(), (0, "PCMU".parse().unwrap()));
    }

    #[test]
    fn encrypted_or_incomplete_media_is_rejected() {
        let text = |line: &str| {
            format!("v=0\r\no=- 0 0 IN IP4 a\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n{line}\r\n")
        };
        let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA";
        for (line, why) in [
            ("m=audio 5004 RTP/SAVP 0", "SRTP"),
            ("m=audio 5004 UDP/TLS/RTP/SAVPF 0", "SRTP"),
            (&format!("m=audio 5004 RTP/AVP 0\r\n{key}"), "SRTP"),
            ("m=audio 5004 RTP/AVP 96", "rtpmap"),
            ("m=audio 5004 RTP/AVP 0 96", "rtpmap"),
        ] {
            let error = RtpSession::read(text(line).as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
        assert!(RtpSession::read(text("m=audio 5004 RTP/AVP 0 8").as_bytes()).is_ok());
    }

    #[test]
    fn malformed_descriptions_are_rejected_without_a_panic() {
        let text = RtpSession::describe(&[RtpSession::new(
            "1.2.3.4:5".parse().unwrap(),
            0,
            "PCMU".parse().unwrap(),
        )]);
        for len in 0..text.len() {
            let _ = RtpSession::read(&text.as_bytes()[..len]);
        }
        for text in ["", "hello", "v=0\r\no=- 0 0 IN IP4 a\r\ns=-\r\nt=0 0\r\n"] {
            assert!(RtpSession::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
