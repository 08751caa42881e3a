//! Receiving ports: many of them, one a stream, of which some may not be to be had.

use crate::audio::BUFFER_TIME;
use crate::run::Error;
use creel::net::UdpSocket;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What a socket's buffer is asked to hold: the packets of so much time.
const SOCKET_BUFFER_TIME: Duration = Duration::from_millis(100);
/// What the kernel counts for a packet of 10 ms in a buffer, its own overhead included.
const PACKET_IN_BUFFER_BYTES: usize = 2_304;
/// Descriptors left to the contexts' pollers, and to files.
const RESERVE: usize = 16;

/// Ports in a row.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// The first.
    pub on: SocketAddr,
    /// How many.
    pub ports: usize,
    /// What the buffer of each is asked to hold.
    pub bytes: usize,
}

impl Ports {
    /// Opens them: index and socket. Those that cannot be opened are told in one warning.
    ///
    /// # Errors
    ///
    /// If none can be opened, or a port would exceed 65,535.
    pub fn open(self, warnings: &mut Vec<String>) -> Result<Vec<(usize, UdpSocket)>, Error> {
        // Held back until the ports are open: a program that has used up its descriptors for
        // them could not wait for what comes.
        let reserve: Vec<_> = (0..RESERVE)
            .map_while(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).ok())
            .collect();
        let mut sockets = Vec::new();
        let mut failed: Option<(usize, String)> = None;
        let mut is_capped = None;
        for index in 0..self.ports {
            let address = port_of_stream(self.on, index, false)?;
            let opened = UdpSocket::bind(address).and_then(|socket| {
                let got = socket.set_recv_buffer(self.bytes)?;
                Ok((socket, got))
            });
            match opened {
                Ok((socket, got)) => {
                    is_capped =
                        is_capped.or_else(|| capped("receive", "rmem_max", self.bytes, got));
                    sockets.push((index, socket));
                }
                Err(error) if sockets.is_empty() && index + 1 == self.ports => {
                    return Err(Error::Socket(address.to_string(), error));
                }
                Err(error) => {
                    let first = || (0, format!("{address}: {error}"));
                    failed.get_or_insert_with(first).0 += 1;
                }
            }
        }
        drop(reserve);
        warnings.extend(is_capped);
        if let Some((count, first)) = failed {
            let ports = self.ports;
            warnings.push(format!(
                "{count} of {ports} ports could not be opened; {first}"
            ));
        }
        Ok(sockets)
    }
}

/// The address of a stream where each has a port of its own, from `base` on.
///
/// # Errors
///
/// If its port would exceed 65,535.
pub fn port_of_stream(base: SocketAddr, stream: usize, shared: bool) -> Result<SocketAddr, Error> {
    if shared {
        return Ok(base);
    }
    let port = usize::from(base.port()) + stream;
    let port = u16::try_from(port).map_err(|_| {
        Error::Plan(format!(
            "{base}: stream {stream} has no port above it; use --shared-port"
        ))
    })?;
    Ok(SocketAddr::new(base.ip(), port))
}

/// What a socket's buffer must hold for `streams` streams between two reactions.
pub fn buffer_bytes(streams: usize, wait: Duration) -> usize {
    let time = wait + SOCKET_BUFFER_TIME;
    let packets = time.as_secs_f64() / BUFFER_TIME.as_secs_f64() * streams as f64;
    packets.ceil() as usize * PACKET_IN_BUFFER_BYTES
}

/// A warning if the system has made less of it. It tells twice of what it took, the half for
/// its own overhead.
pub fn capped(which: &str, limit: &str, wanted: usize, got: usize) -> Option<String> {
    (got < wanted).then(|| {
        format!(
            "the {which} buffer holds {} KiB of the {} that the rate asks for; \
             the limit is net.core.{limit}",
            got / 1024,
            wanted / 1024
        )
    })
}
