//! Reads session descriptions. A library parses the text and the attributes.
//!
//! Source: RFC 8866 (SDP), RFC 3605 (`rtcp`), RFC 5761 (`rtcp-mux`), RFC 4570 (`source-filter`),
//! RFC 4145 and RFC 4571 (TCP), RFC 9143 (bundles).
//!
//! Left out: media other than audio, which we skip unless they share the port of an audio stream,
//! and the offer/answer model.

use super::session::{PACKET_TIME, Rtcp, RtpSession, Senders};
use crate::media::format::{Format, Formats};
use sdp_types::attributes::{
    RtcpMux, RtpMap, SourceFilter, SourceFilterAddrType, SourceFilterAddress,
    SourceFilterDestination, SourceFilterMode,
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
        let mut whole = Session::parse(skip_title(text)).map_err(wrong)?;
        resolve_bundles(&mut whole);
        let mut sessions = Vec::new();
        let audio = whole.medias.iter().filter(|media| is_audio(media));
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
            (true, 0) => Err("the session description has no audio".into()),
            (true, _) => {
                Err("all audio of the session description is inactive (a=inactive)".into())
            }
        }
    }
}

fn is_audio(media: &Media) -> bool {
    media.media.eq_ignore_ascii_case("audio")
}

/// Returns the identifications of the media in each bundle.
fn bundles(whole: &Session) -> impl Iterator<Item = Vec<&str>> {
    let groups = whole.get_attribute_values("group").flatten();
    groups.filter_map(|group| {
        let mut words = group.split_whitespace();
        let is_bundle = words.next()?.eq_ignore_ascii_case("BUNDLE");
        is_bundle.then(|| words.collect())
    })
}

/// Returns the port of the bundle to which a medium without a port belongs.
fn bundled_port(whole: &Session, media: &Media) -> Option<u16> {
    let id = |media: &Media| {
        let id = media.get_first_attribute_value("mid").flatten();
        id.unwrap_or_default().to_owned()
    };
    let own = id(media);
    let bundle = bundles(whole).find(|ids| ids.contains(&&own[..]))?;
    let others = whole
        .medias
        .iter()
        .filter(|other| bundle.contains(&&id(other)[..]));
    let mut ports = others.map(|other| other.port);
    ports.find(|&port| port != 0)
}

/// Gives the media that only exist within a bundle the port of that bundle.
///
/// Source: RFC 9143 section 6.
fn resolve_bundles(whole: &mut Session) {
    let is_within = |media: &&Media| media.port == 0 && media.has_attribute("bundle-only");
    let port = |media| {
        Some(media)
            .filter(is_within)
            .and_then(|media| bundled_port(whole, media))
    };
    let ports: Vec<Option<u16>> = whole.medias.iter().map(port).collect();
    for (media, port) in whole.medias.iter_mut().zip(ports) {
        media.port = port.unwrap_or(media.port);
    }
}

/// Removes a byte order mark, and the lines that ffmpeg prints before a session description.
fn skip_title(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
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

/// Returns the streams of a media description: one per port, or one per address if there are more
/// addresses than ports.
fn streams(whole: &Session, media: &Media) -> Result<Vec<RtpSession>, String> {
    let proto = media.proto.to_ascii_uppercase();
    let is_encrypted = proto.contains("SAVP") || media.has_attribute("crypto");
    if is_encrypted {
        return Err(format!(
            "the audio is encrypted ({}), and this program does not support SRTP",
            media.proto
        ));
    }
    let of_whole = whole.connection.as_ref().map(std::slice::from_ref);
    let connections = match media.connections.is_empty() {
        false => &media.connections[..],
        true => of_whole.ok_or("the audio has no address, because a line `c=` is missing")?,
    };
    let mut groups = Vec::new();
    for connection in connections {
        add_groups(connection, &mut groups)?;
    }
    let (rtcp, rtcp_at) = rtcp(whole, media)?;
    let step = 1 + u16::from(rtcp == Rtcp::Own);
    let ports = usize::from(media.num_ports.unwrap_or(1).max(1));
    if ports > 1 && groups.len() > 1 && ports != groups.len() {
        return Err(format!(
            "the audio has {ports} ports and {} addresses, so they do not form pairs",
            groups.len()
        ));
    }
    let time = value(whole, media, "ptime").and_then(|text| text.trim().parse::<f64>().ok());
    let time = time.filter(|ms| *ms > 0.0 && *ms <= 1_000.0);
    let mut formats = formats(media)?.named().to_vec();
    // Other media at the same port arrive at the same socket.
    let same = whole.medias.iter().filter(|other| other.port == media.port);
    for other in same.filter(|other| !is_audio(other)) {
        if let Ok(others) = self::formats(other) {
            formats.extend(others.named());
        }
    }
    let formats = Formats::new(formats);
    let mut sessions = Vec::new();
    for n in 0..ports.max(groups.len()) {
        let (ip, ttl) = groups[n.min(groups.len() - 1)];
        let steps = if ports > 1 { n as u16 } else { 0 };
        let port = steps
            .checked_mul(step)
            .and_then(|steps| media.port.checked_add(steps))
            .ok_or("the audio has more ports than there are above its first port")?;
        sessions.push(RtpSession {
            address: SocketAddr::new(ip, port),
            sources: senders(whole, media, ip)?,
            formats: formats.clone(),
            packet_time: time.map_or(PACKET_TIME, |ms| Duration::from_secs_f64(ms / 1e3)),
            rtcp,
            // The attribute states the port for the reports of the first stream only.
            rtcp_at: rtcp_at
                .filter(|_| n == 0)
                .map(|(to, port)| SocketAddr::new(to.unwrap_or(ip), port)),
            tcp: proto.starts_with("TCP"),
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
        let ip = ip.ok_or("the range of addresses (c=) goes beyond the last IP address")?;
        if groups.len() >= GROUPS_MAX {
            return Err(format!("the audio has more than {GROUPS_MAX} addresses"));
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

/// The address and the port for reports. `None` means that reports go to the address of the
/// packets.
type ReportAddress = (Option<IpAddr>, u16);

/// Returns the place to which reports go, and their address and port if these are not simply those
/// of the next port.
///
/// # Errors
///
/// Returns an error if the attribute is malformed, or has a host name.
fn rtcp(whole: &Session, media: &Media) -> Result<(Rtcp, Option<ReportAddress>), String> {
    let is_mux = media.get_first_attribute_typed::<RtcpMux>().is_some()
        || whole.get_first_attribute_typed::<RtcpMux>().is_some();
    if is_mux || media.has_attribute("rtcp-mux-only") || whole.has_attribute("rtcp-mux-only") {
        return Ok((Rtcp::Mux, None));
    }
    let stated = media.get_first_attribute_typed::<sdp_types::attributes::Rtcp>();
    let Some(stated) = stated else {
        return Ok((Rtcp::Own, None));
    };
    let stated = stated
        .map_err(|error| format!("the address for RTCP reports (a=rtcp) is invalid: {error}"))?;
    let to = match stated.connection_address.as_deref() {
        None => None,
        Some(text) => Some(text.parse::<IpAddr>().map_err(|_| {
            format!("the address for RTCP reports (a=rtcp) is {text}: expected an IP address")
        })?),
    };
    let port = stated.port;
    Ok(match to {
        None if Some(port) == media.port.checked_add(1) => (Rtcp::Own, None),
        None if port == media.port => (Rtcp::Mux, None),
        to => (Rtcp::Own, Some((to, port))),
    })
}

/// Returns the senders that the source filters for `destination` accept. Filters of the media
/// description override those of the session.
fn senders(whole: &Session, media: &Media, destination: IpAddr) -> Result<Senders, String> {
    let mut filters: Vec<_> = media.attributes_typed::<SourceFilter>().collect();
    if filters.is_empty() {
        filters = whole.attributes_typed::<SourceFilter>().collect();
    }
    let (mut only, mut except) = (Vec::new(), Vec::new());
    let mut has_included = false;
    for filter in filters {
        let filter = filter
            .map_err(|error| format!("the source filter (a=source-filter) is invalid: {error}"))?;
        let is_ours = match &filter.destination {
            SourceFilterDestination::Wildcard => true,
            SourceFilterDestination::Address(SourceFilterAddress::IpAddr(ip)) => *ip == destination,
            SourceFilterDestination::Address(SourceFilterAddress::FQDN(name)) => {
                return Err(format!(
                    "the source filter (a=source-filter) has the host name {name}: expected an IP \
                     address"
                ));
            }
        };
        let is_of_family = match filter.addrtype {
            SourceFilterAddrType::Any => true,
            SourceFilterAddrType::Ip4 => destination.is_ipv4(),
            SourceFilterAddrType::Ip6 => destination.is_ipv6(),
        };
        if !is_ours || !is_of_family {
            continue;
        }
        has_included |= filter.mode == SourceFilterMode::Incl;
        for source in &filter.sources {
            let SourceFilterAddress::IpAddr(ip) = source else {
                return Err(format!(
                    "the source filter (a=source-filter) has the host name {source}: expected an \
                     IP address"
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
    Ok(match (has_included, except.is_empty()) {
        (true, _) => Senders::Only(only),
        (false, false) => Senders::Except(except),
        (false, true) => Senders::Any,
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
        let format = format.ok_or(format!(
            "the payload type {number} has no format, because a line `a=rtpmap` is missing"
        ))?;
        named.push((number, format));
    }
    if named.is_empty() {
        return Err("the audio has no payload type in its line `m=`".into());
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
    fn a_filter_for_another_address_family_does_not_apply() {
        let media = ["m=audio 5004 RTP/AVP 0", "c=IN IP6 ff15::1"];
        let filters = |lines: &[&str]| {
            let sessions = read(&[&media[..], lines].concat()).unwrap();
            sessions[0].sources.clone()
        };
        let four = "a=source-filter: incl IN IP4 * 127.0.0.9";
        assert_eq!(filters(&[four]), Senders::Any);
        let six = "a=source-filter: INCL IN IP6 * ::9";
        assert_eq!(filters(&[four, six]), Senders::Only(vec![ip("::9")]));
        let none = filters(&[six, "a=source-filter: excl IN * * ::9"]);
        assert_eq!(none, Senders::Only(Vec::new()));
    }

    #[test]
    fn reports_may_have_any_port_and_address() {
        let with = |own: &str| read(&["m=audio 5004 RTP/AVP 0", "c=IN IP4 127.0.0.1", own]);
        let to = |own: &str| with(own).unwrap()[0].rtcp_address().unwrap().to_string();
        assert_eq!(to("a=rtcp:53020"), "127.0.0.1:53020");
        assert_eq!(to("a=rtcp:5009 IN IP4 127.0.0.2"), "127.0.0.2:5009");
        assert_eq!(to("a=rtcp:5005 IN IP4 127.0.0.2"), "127.0.0.2:5005");
        assert_eq!(to("a=rtcp:5005"), "127.0.0.1:5005");
        assert_eq!(with("a=rtcp:5004").unwrap()[0].rtcp, Rtcp::Mux);
        assert!(with("a=rtcp:port").is_err());
        assert!(with("a=rtcp:5009 IN IP4 example.com").is_err());
    }

    #[test]
    fn the_media_of_a_bundle_share_a_port() {
        let lines = [
            "a=group:BUNDLE 0 1 2",
            "a=rtcp-mux",
            "m=audio 5004 RTP/AVP 0",
            "c=IN IP4 127.0.0.1",
            "a=mid:0",
            "m=audio 0 RTP/AVP 96",
            "c=IN IP4 127.0.0.1",
            "a=rtpmap:96 L16/48000",
            "a=mid:1",
            "a=bundle-only",
            "m=video 5004 RTP/AVP 97",
            "a=rtpmap:97 H264/90000",
            "a=mid:2",
        ];
        let sessions = RtpSession::combined(read(&lines).unwrap());
        assert_eq!(sessions.len(), 1);
        let mut named = sessions[0].formats.named().to_vec();
        named.sort_by_key(|(number, _)| *number);
        let clocks: Vec<_> = named
            .iter()
            .map(|(number, it)| (*number, it.clock))
            .collect();
        assert_eq!(clocks, [(0, 8_000), (96, 48_000), (97, 90_000)]);
        // Without the bundle, a port of zero means that the medium was rejected.
        assert_eq!(read(&lines[1..]).unwrap().len(), 1);
    }

    #[test]
    fn keywords_may_have_any_case() {
        let lines = [
            "m=Audio 5004 rtp/avp 0 96",
            "c=in ip4 127.0.0.1",
            "a=RTPMAP:96 l16/48000",
            "a=PTIME:5",
            "a=RTCP-MUX",
        ];
        let session = &read(&lines).unwrap()[0];
        assert_eq!(session.formats.of(96).unwrap().clock, 48_000);
        assert_eq!(
            (session.packet_time.as_millis(), session.rtcp),
            (5, Rtcp::Mux)
        );
        assert!(read(&["m=audio 5004 rtp/savp 0", "c=IN IP4 127.0.0.1"]).is_err());
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
    fn session_descriptions_survive_a_round_trip_through_text() {
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
