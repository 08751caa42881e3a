//! The flags that say what packets contain: formats, or a session description.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use creel_cast::{Encoding, Format, Formats, Options, Rtcp, RtpSession};
use creel_console::{Exit, Failure};

use super::rows::read_file;

/// The flags for formats and sockets that `send`, `receive` and `rooms` have in common.
#[derive(Args, Debug)]
pub struct Media {
    /// Define a payload type, for example PCMA, L16/44100 or 97=L16/48000/2: its number N, and its
    /// format as NAME/CLOCK/CHANNELS. Repeat the flag for more types. The static types of RTP, such
    /// as 0 for PCMU, are already defined
    #[arg(long, value_name = "[N=]FORMAT", value_parser = typed, help_heading = "Formats")]
    codec: Vec<(u8, Format)>,
    /// Read streams, addresses and formats from this session description (SDP)
    #[arg(long, value_name = "FILE", help_heading = "Formats")]
    pub from_sdp: Option<PathBuf>,
    /// Exchange RTCP reports: off (send none, but read those that arrive), mux (on the port of the
    /// packets), own (on the next port, so that streams are two ports apart)
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "off",
        help_heading = "Network"
    )]
    pub rtcp: Rtcp,
    /// Mark sent packets with this DSCP service class, 0 to 63. For example, 46 is expedited
    /// forwarding
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(0..64), help_heading = "Network")]
    dscp: Option<u8>,
    /// Send on this network interface, and join multicast groups on it
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    interface: Option<String>,
    /// Limit multicast packets to N hops
    #[arg(long, value_name = "N", help_heading = "Network")]
    ttl: Option<u8>,
}

/// Parses `NAME/CLOCK/CHANNELS`, optionally with `N=` in front of it.
fn typed(text: &str) -> Result<(u8, Format), String> {
    let Some((number, format)) = text.split_once('=') else {
        let format: Format = text.parse()?;
        if format.encoding == Encoding::Other {
            return Err(format!(
                "unknown encoding `{text}`: to measure such packets without decoding them, give \
                 the payload type and the clock rate as well, such as 96={text}/48000"
            ));
        }
        return Ok((format.usual_payload_type(), format));
    };
    match number.parse() {
        Ok(number @ (0..=71 | 77..=127)) => Ok((number, format.parse()?)),
        _ => Err(format!(
            "`{number}` is not a payload type: expected 0 to 71 or 77 to 127, because RTCP uses 72 \
             to 76"
        )),
    }
}

impl Media {
    /// Returns the formats that the flags name.
    pub fn formats(&self) -> Formats {
        Formats::new(self.codec.clone())
    }

    /// Returns the first format that the flags name.
    pub fn preferred(&self) -> Option<(u8, Format)> {
        self.codec.first().copied()
    }

    /// Returns the sessions of the session description, if the user gave one.
    pub fn described(&self) -> anyhow::Result<Option<Vec<RtpSession>>> {
        let Some(path) = &self.from_sdp else {
            return Ok(None);
        };
        let sessions = RtpSession::read(&read_file(path)?).map_err(|why| {
            let text = format!(
                "cannot use the session description {}: {why}",
                path.display()
            );
            Failure::new(Exit::BadData, text)
        })?;
        Ok(Some(sessions))
    }

    /// Returns the options for the sockets.
    pub fn options(&self) -> Options {
        Options {
            dscp: self.dscp,
            interface: self.interface.clone(),
            ttl: self.ttl,
        }
    }
}

/// Resolves the address given as the value of `flag`. The function blocks while it looks up a host
/// name.
pub fn resolve(flag: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let wrong =
        |why: String| Failure::new(Exit::Usage, format!("cannot resolve {flag} {text}: {why}"));
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    Ok(found
        .next()
        .ok_or_else(|| wrong("the host has no address".into()))?)
}

/// Parses the address of the sender of a multicast group.
pub fn source(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not an IP address"))
}
