//! Receiving ports: many of them, one a stream, of which some may not be to be had.

use crate::error::Error;
use crate::net::options::{Options, receive_buffer};
use crate::net::session::RtpSession;
use creel::net::{TcpListener, UdpSocket};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What a socket's buffer is asked to hold: the packets of so much time.
const SOCKET_BUFFER_TIME: Duration = Duration::from_millis(100);
/// What the kernel counts for a packet of 10 ms in a buffer, its own overhead included.
const PACKET_IN_BUFFER_BYTES: usize = 2_304;
/// The packet time that buffers are reckoned with.
const PACKET_TIME: Duration = Duration::from_millis(10);
/// Descriptors left to the contexts' pollers, and to files.
const RESERVE: usize = 16;

/// Receiving ports that are being opened.
#[derive(Debug)]
pub(crate) struct Ports {
    /// What the buffer of each is asked to hold.
    bytes: usize,
    /// Held back until the ports are open: a program that has used up its descriptors for them
    /// could not wait for what comes.
    reserve: Vec<std::net::UdpSocket>,
    asked: usize,
    failed: usize,
    first_error: Option<(SocketAddr, std::io::Error)>,
    capped: Option<String>,
}

impl Ports {
    /// None yet; each will be asked to hold so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let reserve =
            (0..RESERVE).map_while(|_| std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok());
        Ports {
            bytes,
            reserve: reserve.collect(),
            asked: 0,
            failed: 0,
            first_error: None,
            capped: None,
        }
    }

    /// Opens one more; none if that cannot be, which [`close`](Self::close) tells.
    pub(crate) fn open(&mut self, options: &Options, session: &RtpSession) -> Option<UdpSocket> {
        self.asked += 1;
        let opened = options
            .receiver(session.address, session.source)
            .and_then(|socket| {
                let got = receive_buffer(&socket, self.bytes)?;
                Ok((UdpSocket::from_std(socket)?, got))
            });
        match opened {
            Ok((socket, got)) => {
                let capped = || capped("receive", "rmem_max", self.bytes, got);
                self.capped = self.capped.take().or_else(capped);
                Some(socket)
            }
            Err(error) => {
                self.failed += 1;
                self.first_error.get_or_insert((session.address, error));
                None
            }
        }
    }

    /// Listens on one more; none if that cannot be, which [`close`](Self::close) tells.
    pub(crate) fn listen(&mut self, address: SocketAddr) -> Option<TcpListener> {
        self.asked += 1;
        match TcpListener::bind(address) {
            Ok(listener) => Some(listener),
            Err(error) => {
                self.failed += 1;
                self.first_error.get_or_insert((address, error));
                None
            }
        }
    }

    /// Tells of those that could not be opened in one warning.
    ///
    /// # Errors
    ///
    /// If there is `any` none at all.
    pub(crate) fn close(
        self,
        warnings: &mut Vec<String>,
        notes: &mut Vec<String>,
        any: bool,
    ) -> Result<(), Error> {
        drop(self.reserve);
        notes.extend(self.capped);
        let Some((address, error)) = self.first_error else {
            return Ok(());
        };
        if !any {
            return Err(Error::Socket(address.to_string(), error));
        }
        let (failed, asked) = (self.failed, self.asked);
        warnings.push(format!(
            "{failed} of {asked} ports could not be opened; {address}: {error}"
        ));
        Ok(())
    }
}

/// The address of a stream where each has a port of its own, from `base` on.
///
/// # Errors
///
/// If its port would exceed 65,535.
pub(crate) fn port_of_stream(
    base: SocketAddr,
    stream: usize,
    shared: bool,
) -> Result<SocketAddr, Error> {
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
pub(crate) fn buffer_bytes(streams: usize, wait: Duration) -> usize {
    let time = wait + SOCKET_BUFFER_TIME;
    let packets = time.as_secs_f64() / PACKET_TIME.as_secs_f64() * streams as f64;
    packets.ceil() as usize * PACKET_IN_BUFFER_BYTES
}

/// A warning if the system has made less of it. It tells twice of what it took, the half for
/// its own overhead.
pub(crate) fn capped(which: &str, limit: &str, wanted: usize, got: usize) -> Option<String> {
    (got < wanted).then(|| {
        format!(
            "the {which} buffer holds {} KiB of the {} that the rate asks for; \
             the limit is net.core.{limit}",
            got / 1024,
            wanted / 1024
        )
    })
}
