//! What packets are, as the command line says it: by flags, or by a session description.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::Args;
use creel_cast::{Encoding, Format, Formats, Options, Rtcp, RtpSession};
use creel_console::{Exit, Failure};

use super::rows::read_file;

/// The formats and sockets, as all programs have them.
#[derive(Args, Debug)]
pub struct Media {
    /// What a payload type is: L16/44100, 97=L16/48000/2, PCMU, PCMA, G722, opus/48000/2; again for
    /// more. The static types are known
    #[arg(long, value_name = "[N=]FORMAT", value_parser = typed)]
    codec: Vec<(u8, Format)>,
    /// Take streams, addresses and formats from this session description
    #[arg(long, value_name = "FILE")]
    pub from_sdp: Option<PathBuf>,
    /// Reports: off (those that come are understood), mux (on the port of the packets), own (on the
    /// next one; streams are two ports apart then)
    #[arg(long, value_name = "WHERE", default_value = "off")]
    pub rtcp: Rtcp,
    /// The service class of what is sent, 0 to 63: 46 is expedited forwarding
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: Option<u8>,
    /// The interface to send by and to join groups on
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Hops that a multicast packet may take
    #[arg(long, value_name = "N")]
    ttl: Option<u8>,
}

/// `NAME/CLOCK/CHANNELS`, or `N=` before it.
fn typed(text: &str) -> Result<(u8, Format), String> {
    let Some((number, format)) = text.split_once('=') else {
        let format: Format = text.parse()?;
        if format.encoding == Encoding::Other {
            return Err(format!(
                "`{text}` is not known; to measure it all the same: N={text}, with its clock"
            ));
        }
        return Ok((format.usual_payload_type(), format));
    };
    match number.parse() {
        Ok(number @ (0..=71 | 77..=127)) => Ok((number, format.parse()?)),
        _ => Err(format!(
            "`{number}` is no payload type: 0 to 127, but 72 to 76 look like reports"
        )),
    }
}

impl Media {
    /// The formats that the flags name.
    pub fn formats(&self) -> Formats {
        Formats::new(self.codec.clone())
    }

    /// The first format that the flags name.
    pub fn preferred(&self) -> Option<(u8, Format)> {
        self.codec.first().copied()
    }

    /// The sessions of the description, if one is given.
    pub fn described(&self) -> anyhow::Result<Option<Vec<RtpSession>>> {
        let Some(path) = &self.from_sdp else {
            return Ok(None);
        };
        let sessions = RtpSession::read(&read_file(path)?).map_err(|why| {
            let text = format!("{}: {why}", path.display());
            Failure::new(Exit::BadData, text)
        })?;
        Ok(Some(sessions))
    }

    /// What is asked of the sockets.
    pub fn options(&self) -> Options {
        Options {
            dscp: self.dscp,
            interface: self.interface.clone(),
            ttl: self.ttl,
        }
    }
}

/// An address that was given as a flag's value; names are looked up, which blocks.
pub fn resolve(flag: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{flag} {text}: {why}"));
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    Ok(found.next().ok_or_else(|| wrong("no such host".into()))?)
}

/// The source of a multicast group.
pub fn source(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no IP address"))
}
