//! Reads session descriptions. A library parses the text and the attributes.
//!
//! Source: RFC 8866 (SDP), RFC 3605 (`rtcp`), RFC 5761 (`rtcp-mux`), RFC 4570 (`source-filter`),
//! RFC 4145 and RFC 4571 (TCP).
//!
//! Left out: media other than audio, which we skip, and the offer/answer model.

use super::session::{PACKET_TIME, Rtcp, RtpSession, Senders};
use crate::media::format::{Format, Formats};
use sdp_types::attributes::{
    RtcpMux, RtpMap, SourceFilter, SourceFilterAddress, SourceFilterDestination, SourceFilterMode,
};
use sdp_types::{Connection, Media, Session};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The maximum number of addresses that the connections of one media description may name.
const GROUPS_MAX: usize = 256;
/// The attributes for the direction of a stream.
const DIRECTIONS: [&str; 4] = ["sendrecv", "sendonly", "recvonly", "inactive"];

impl RtpSession {
    /// Returns all audio streams of a session description, except inactive ones.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a session description, has no active audio, or has an
    /// address, a format or a source filter that we cannot use.
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
        let whole = Session::parse(skip_title(text)).map_err(wrong)?;
        let mut sessions = Vec::new();
        let audio = whole.medias.iter().filter(|media| media.media == "audio");
        let mut inactive = 0;
        for media in audio.filter(|media| media.port != 0) {
            if is_inactive(&whole, media) {
                inactive += 1;
                continue;
            }
            sessions.extend(streams(&whole, media)?);
        }
        match (sessions.is_empty(), inactive) {
            (false, _) => Ok(sessions),
            (true, 0) => Err("it has no audio".into()),
            (true, _) => Err("all of its audio is inactive (a=inactive)".into()),
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

/// Returns whether a media description is inactive. Its own direction takes precedence over that of
/// the whole session.
fn is_inactive(whole: &Session, media: &Media) -> bool {
    let of_media = DIRECTIONS.iter().find(|name| media.has_attribute(name));
    match of_media {
        Some(direction) => *direction == "inactive",
        None => whole.has_attribute("inactive"),
    }
}

/// Returns the streams of a media description: one per port and per address.
fn streams(whole: &Session, media: &Media) -> Result<Vec<RtpSession>, String> {
    let is_encrypted = media.proto.contains("SAVP") || media.has_attribute("crypto");
    if is_encrypted {
        return Err(format!(
            "its audio is encrypted ({}), and SRTP is not supported",
            media.proto
        ));
    }
    let of_whole = whole.connection.as_ref().map(std::slice::from_ref);
    let connections = match media.connections.is_empty() {
        false => &media.connections[..],
        true => of_whole.ok_or("its audio has no connection (c=)")?,
    };
    let mut groups = Vec::new();
    for connection in connections {
        add_groups(connection, &mut groups)?;
    }
    let rtcp = rtcp(whole, media);
    let step = 1 + u16::from(rtcp == Rtcp::Own);
    let ports = usize::from(media.num_ports.unwrap_or(1).max(1));
    if ports > 1 && groups.len() > 1 && ports != groups.len() {
        return Err(format!(
            "it has {ports} ports and {} addresses, which do not belong together",
            groups.len()
        ));
    }
    let time = value(whole, media, "ptime").and_then(|text| text.trim().parse::<f64>().ok());
    let time = time.filter(|ms| *ms > 0.0 && *ms <= 1_000.0);
    let formats = formats(media)?;
    let mut sessions = Vec::new();
    for n in 0..ports.max(groups.len()) {
        let (ip, ttl) = groups[n.min(groups.len() - 1)];
        let steps = if ports > 1 { n as u16 } else { 0 };
        let port = steps
            .checked_mul(step)
            .and_then(|steps| media.port.checked_add(steps))
            .ok_or("it has more ports than there are above its first port")?;
        sessions.push(RtpSession {
            address: SocketAddr::new(ip, port),
            sources: senders(whole, media, ip)?,
            formats: formats.clone(),
            packet_time: time.map_or(PACKET_TIME, |ms| Duration::from_secs_f64(ms / 1e3)),
            rtcp,
            tcp: media.proto.starts_with("TCP"),
            ttl,
        });
    }
    Ok(sessions)
}

/// Adds all addresses of a connection, with their hop limit. For example, `239.1.1.1/4/3` are three
/// groups from 239.1.1.1 on.
fn add_groups(
    connection: &Connection,
    groups: &mut Vec<(IpAddr, Option<u8>)>,
) -> Result<(), String> {
    let address = connection
        .try_address()
        .map_err(|error| error.to_string())?;
    for n in 0..address.count.unwrap_or(1).max(1) {
        let ip: Option<IpAddr> = match address.ip {
            IpAddr::V4(ip) => u32::from(ip)
                .checked_add(n.into())
                .map(|ip| Ipv4Addr::from(ip).into()),
            IpAddr::V6(ip) => u128::from(ip)
                .checked_add(n.into())
                .map(|ip| Ipv6Addr::from(ip).into()),
        };
        let ip = ip.ok_or("it has more addresses than there are")?;
        if groups.len() >= GROUPS_MAX {
            return Err(format!("it has more than {GROUPS_MAX} addresses"));
        }
        groups.push((ip, address.ttl));
    }
    Ok(())
}

/// Returns the value of an attribute of the media description, or else of the session.
fn value<'a>(whole: &'a Session, media: &'a Media, name: &'a str) -> Option<&'a str> {
    let of_media = media.get_first_attribute_value(name).flatten();
    of_media.or_else(|| whole.get_first_attribute_value(name).flatten())
}

/// Returns where reports go.
fn rtcp(whole: &Session, media: &Media) -> Rtcp {
    let is_mux = media.get_first_attribute_typed::<RtcpMux>().is_some()
        || whole.get_first_attribute_typed::<RtcpMux>().is_some();
    if is_mux || media.has_attribute("rtcp-mux-only") || whole.has_attribute("rtcp-mux-only") {
        return Rtcp::Mux;
    }
    let stated = media.get_first_attribute_typed::<sdp_types::attributes::Rtcp>();
    match stated.and_then(Result::ok).map(|stated| stated.port) {
        None => Rtcp::Own,
        Some(port) if Some(port) == media.port.checked_add(1) => Rtcp::Own,
        Some(port) if port == media.port => Rtcp::Mux,
        Some(_) => Rtcp::Off,
    }
}

/// Returns the senders that the source filters for `destination` accept. Filters of the media
/// description override those of the session.
fn senders(whole: &Session, media: &Media, destination: IpAddr) -> Result<Senders, String> {
    let mut filters: Vec<_> = media.attributes_typed::<SourceFilter>().collect();
    if filters.is_empty() {
        filters = whole.attributes_typed::<SourceFilter>().collect();
    }
    let (mut only, mut except) = (Vec::new(), Vec::new());
    for filter in filters {
        let filter = filter.map_err(|error| format!("its source filter: {error}"))?;
        let is_ours = match &filter.destination {
            SourceFilterDestination::Wildcard => true,
            SourceFilterDestination::Address(SourceFilterAddress::IpAddr(ip)) => *ip == destination,
            SourceFilterDestination::Address(SourceFilterAddress::FQDN(name)) => {
                return Err(format!(
                    "its source filter has the host name {name}: expected an IP address"
                ));
            }
        };
        if !is_ours {
            continue;
        }
        for source in &filter.sources {
            let SourceFilterAddress::IpAddr(ip) = source else {
                return Err(format!(
                    "its source filter has the host name {source}: expected an IP address"
                ));
            };
            match filter.mode {
                SourceFilterMode::Incl => only.push(*ip),
                SourceFilterMode::Excl => except.push(*ip),
            }
        }
    }
    // A sender that is both included and excluded is excluded.
    only.retain(|ip| !except.contains(ip));
    Ok(match (only.is_empty(), except.is_empty()) {
        (false, _) => Senders::Only(only),
        (true, false) => Senders::Except(except),
        (true, true) => Senders::Any,
    })
}

fn formats(media: &Media) -> Result<Formats, String> {
    let mut named = Vec::new();
    let maps: Vec<RtpMap> = media.attributes_typed().filter_map(Result::ok).collect();
    for number in media.fmt.split_whitespace() {
        let number: u8 = number
            .parse()
            .ok()
            .filter(|&n| n < 128)
            .ok_or(format!("`{number}` is not a payload type"))?;
        let format = match maps.iter().find(|map| map.payload_type == number) {
            Some(map) => {
                let channels = map
                    .encoding_params
                    .iter()
                    .map(|params| format!("/{params}"));
                let channels: String = channels.collect();
                let text = format!("{}/{}{channels}", map.encoding_name, map.clock_rate);
                Some(text.parse()?)
            }
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

    /// Returns the sessions of a description with these lines after its head.
    fn read(lines: &[&str]) -> Result<Vec<RtpSession>, String> {
        let head = ["v=0", "o=- 0 0 IN IP4 a", "s=-", "t=0 0"];
        let lines: Vec<&str> = head.iter().chain(lines).copied().collect();
        RtpSession::read((lines.join("\r\n") + "\r\n").as_bytes())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn source_filters_include_and_exclude_any_number_of_senders() {
        let media = ["m=audio 5004 RTP/AVP 0", "c=IN IP4 127.0.0.1"];
        let filtered = |lines: &[&str]| {
            let sessions = read(&[&media[..], lines].concat())?;
            Ok::<_, String>(sessions[0].sources.clone())
        };
        let two = filtered(&["a=source-filter: incl IN IP4 127.0.0.1 127.0.0.8 127.0.0.9"]);
        let two = two.unwrap();
        assert!(two.accepts(ip("127.0.0.8")) && two.accepts(ip("127.0.0.9")));
        assert!(!two.accepts(ip("127.0.0.7")));
        let other = filtered(&["a=source-filter:excl IN IP4 * 127.0.0.9"]).unwrap();
        assert!(other.accepts(ip("127.0.0.8")) && !other.accepts(ip("127.0.0.9")));
        // A filter for another destination does not apply.
        let none = filtered(&["a=source-filter: incl IN IP4 127.0.0.2 127.0.0.9"]);
        assert_eq!(none.unwrap(), Senders::Any);
        assert!(filtered(&["a=source-filter: incl IN * 127.0.0.1 example.com"]).is_err());
        // The filter of the session applies to media without one.
        let session = "a=source-filter: excl IN IP4 * 127.0.0.9";
        let sessions = read(&[&[session], &media[..]].concat()).unwrap();
        assert!(!sessions[0].sources.accepts(ip("127.0.0.9")));
    }

    #[test]
    fn a_connection_may_have_several_groups() {
        let addresses = |media: &str, connection: &str| {
            let found = read(&[media, connection, "a=rtcp-mux"])?;
            let all = found.iter().map(|session| session.address.to_string());
            Ok::<_, String>(all.collect::<Vec<_>>())
        };
        let found = addresses("m=audio 5004 RTP/AVP 0", "c=IN IP4 239.1.1.255/4/3");
        let groups = ["239.1.1.255:5004", "239.1.2.0:5004", "239.1.2.1:5004"];
        assert_eq!(found.unwrap(), groups);
        let found = addresses("m=audio 5004 RTP/AVP 0", "c=IN IP6 ff15::1/2");
        assert_eq!(found.unwrap(), ["[ff15::1]:5004", "[ff15::2]:5004"]);
        // With several ports, each group has one.
        let found = addresses("m=audio 5004/2 RTP/AVP 0", "c=IN IP4 239.1.1.1/4/2");
        assert_eq!(found.unwrap(), ["239.1.1.1:5004", "239.1.1.2:5005"]);
        assert!(addresses("m=audio 5004/2 RTP/AVP 0", "c=IN IP4 239.1.1.1/4/3").is_err());
    }

    #[test]
    fn attributes_of_the_session_apply_to_its_media() {
        let media = ["m=audio 5004 RTP/AVP 0", "c=IN IP4 127.0.0.1"];
        let with = |session: &str, own: &str| read(&[session, media[0], media[1], own]);
        assert_eq!(with("a=rtcp-mux", "a=ptime:20").unwrap()[0].rtcp, Rtcp::Mux);
        let error = with("a=inactive", "a=ptime:20").unwrap_err();
        assert!(error.contains("inactive"), "{error}");
        assert!(with("a=sendrecv", "a=inactive").is_err());
        assert_eq!(with("a=inactive", "a=sendrecv").unwrap().len(), 1);
    }

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
        second.sources = Senders::Only(vec!["::1".parse().unwrap(), "::2".parse().unwrap()]);
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
