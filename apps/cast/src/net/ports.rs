//! Opens the receiving ports. There is one per stream, and some of them may fail to open.

use crate::error::Error;
use crate::net::options::{Options, receive_buffer};
use crate::net::session::RtpSession;
use creel::net::{TcpListener, UdpSocket};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A socket's buffer should hold the packets that arrive within this time.
const SOCKET_BUFFER_TIME: Duration = Duration::from_millis(100);
/// The size of a packet of 10 ms in a socket buffer, as the kernel counts it, with its overhead.
const PACKET_IN_BUFFER_BYTES: usize = 2_304;
/// The packet time on which the buffer sizes are based.
const PACKET_TIME: Duration = Duration::from_millis(10);
/// The number of descriptors that we leave to the pollers of the contexts, and to files.
const RESERVE: usize = 16;

/// The receiving ports while they are being opened.
#[derive(Debug)]
pub(crate) struct Ports {
    /// The receive buffer that we request for each port, in bytes.
    bytes: usize,
    /// Sockets that we hold until all ports are open. Without them, the ports could use up all
    /// descriptors, and none would be left to wait for packets.
    reserve: Vec<std::net::UdpSocket>,
    asked: usize,
    failed: usize,
    first_error: Option<(SocketAddr, std::io::Error)>,
    capped: Option<String>,
}

impl Ports {
    /// Creates an empty set, whose ports will request receive buffers of `bytes` bytes.
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

    /// Opens one more port. Returns `None` if it fails, which [`close`](Self::close) reports.
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

    /// Listens on one more TCP port. Returns `None` if it fails, which [`close`](Self::close)
    /// reports.
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

    /// Releases the reserve, and reports the ports that failed to open in one warning.
    ///
    /// # Errors
    ///
    /// Returns an error if a port failed to open and `any` is false, which means that no port is
    /// open.
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
            return Err(Error::Socket(format!("cannot open {address}"), error));
        }
        let (failed, asked) = (self.failed, self.asked);
        warnings.push(format!(
            "cannot open {failed} of {asked} ports, the first of which is {address}: {error}"
        ));
        Ok(())
    }
}

/// Returns the address of a stream. Unless the port is shared, each stream has a port of its own
/// from `base` on.
///
/// # Errors
///
/// Returns an error if the port would exceed 65,535.
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
            "cannot give stream {stream} a port of its own above {base}: use a lower port or --shared-port"
        ))
    })?;
    Ok(SocketAddr::new(base.ip(), port))
}

/// Returns the number of bytes that a socket's buffer must hold for `streams` streams between two
/// reactions of the context.
pub(crate) fn buffer_bytes(streams: usize, wait: Duration) -> usize {
    let time = wait + SOCKET_BUFFER_TIME;
    let packets = time.as_secs_f64() / PACKET_TIME.as_secs_f64() * streams as f64;
    // The kernel takes an `i32`, so a longer wait requests the maximum.
    let bytes = (packets.ceil() as usize).saturating_mul(PACKET_IN_BUFFER_BYTES);
    bytes.min(i32::MAX as usize)
}

/// Returns a note if the system granted a smaller buffer than this rate requires. Note that the
/// system reports twice the size that we requested, because it adds as much for its own overhead.
pub(crate) fn capped(which: &str, limit: &str, wanted: usize, got: usize) -> Option<String> {
    (got < wanted).then(|| {
        format!(
            "the {which} buffer has {} KiB instead of the {} KiB that this rate requires: \
             raise net.core.{limit} to avoid dropped packets",
            got / 1024,
            wanted / 1024
        )
    })
}
