//! Opens the receiving ports, some of which may fail to open. Streams may have a port each, or
//! share one.

use crate::error::Error;
use crate::net::options::{Options, receive_buffer};
use crate::net::session::RtpSession;
use creel::net::{TcpListener, UdpSocket};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A socket's buffer should hold the packets that arrive within this time, for example while the
/// machine is busy with something else.
const SOCKET_BUFFER_TIME: Duration = Duration::from_millis(250);
/// The size of a packet in a socket buffer, as the kernel counts it, with its overhead.
const PACKET_IN_BUFFER_BYTES: usize = 2_304;
/// The shortest packet time in use (AES67), for which we size a buffer if we do not know the packet
/// time.
const PACKET_TIME_MIN: Duration = Duration::from_micros(125);
/// The maximum size that we request without knowing the packet time.
const UNKNOWN_BYTES_MAX: usize = 4 << 20;
/// The number of file descriptors that we leave to the pollers of the contexts, and to files.
const RESERVE: usize = 16;

/// The receiving ports while they are being opened.
#[derive(Debug)]
pub(crate) struct Ports {
    /// The receive buffer that we request for each port.
    size: BufferSize,
    /// Sockets that we hold until all ports are open. Without them, the ports could use up all
    /// descriptors, and none would be left to wait for packets.
    reserve: Vec<std::net::UdpSocket>,
    asked: usize,
    failed: usize,
    first_error: Option<(SocketAddr, std::io::Error)>,
    capped: Option<String>,
}

impl Ports {
    /// Creates an empty set, whose ports will request receive buffers of this size.
    pub(crate) fn new(size: BufferSize) -> Self {
        let reserve =
            (0..RESERVE).map_while(|_| std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok());
        Ports {
            size,
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
            .receiver(session.address, &session.sources)
            .and_then(|socket| {
                let got = receive_buffer(&socket, self.size.bytes)?;
                Ok((UdpSocket::from_std(socket)?, got))
            });
        match opened {
            Ok((socket, got)) => {
                let capped = || capped("receive", "rmem_max", self.size.bytes, got);
                if self.size.is_required {
                    self.capped = self.capped.take().or_else(capped);
                }
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

    /// Closes the sockets of the reserve, and reports the ports that failed to open in one warning.
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
            "cannot open {failed} of {asked} ports. The first of them is {address}: {error}"
        ));
        Ok(())
    }
}

/// Returns the address of a stream. Unless the port is shared, it is `offset` ports above `base`.
///
/// # Errors
///
/// Returns an error if the port would exceed 65,535.
pub(crate) fn port_of_stream(
    base: SocketAddr,
    stream: usize,
    offset: usize,
    shared: bool,
) -> Result<SocketAddr, Error> {
    if shared {
        return Ok(base);
    }
    let port = usize::from(base.port()) + offset;
    let port = u16::try_from(port).map_err(|_| {
        Error::Plan(format!(
            "cannot give stream {stream} a port of its own above {base}: use a lower port or --shared-port"
        ))
    })?;
    Ok(SocketAddr::new(base.ip(), port))
}

/// The size of the receive buffer that we request for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferSize {
    /// The number of bytes that we request.
    pub(crate) bytes: usize,
    /// Whether the streams require this number of bytes. Otherwise the number is a guess, and a
    /// smaller buffer may do.
    pub(crate) is_required: bool,
}

impl BufferSize {
    /// Returns the size for `streams` streams with packets of this duration, between two reactions
    /// of the context. Without a duration, it is enough for the shortest packets in use.
    ///
    /// The kernel uses memory only for packets that wait, so a large buffer costs nothing.
    pub(crate) fn of(streams: usize, packet_time: Option<Duration>, wait: Duration) -> Self {
        let time = wait + SOCKET_BUFFER_TIME;
        let each = packet_time.unwrap_or(PACKET_TIME_MIN).max(PACKET_TIME_MIN);
        let packets = time.as_secs_f64() / each.as_secs_f64() * streams as f64;
        // The kernel takes an `i32`, so a longer wait requests the maximum.
        let bytes = (packets.ceil() as usize).saturating_mul(PACKET_IN_BUFFER_BYTES);
        let most = match packet_time {
            Some(_) => i32::MAX as usize,
            None => UNKNOWN_BYTES_MAX,
        };
        BufferSize {
            bytes: bytes.min(most),
            is_required: packet_time.is_some(),
        }
    }
}

/// Returns a note if the system granted a smaller buffer than this rate requires. Note that the
/// system reports twice the size that we requested, because it adds as much for its own overhead.
pub(crate) fn capped(which: &str, limit: &str, wanted: usize, got: usize) -> Option<String> {
    (got < wanted).then(|| {
        format!(
            "the {which} buffer of the socket has {} KiB instead of the {} KiB that this packet \
             rate requires: raise net.core.{limit} (sysctl) to avoid dropped packets",
            got / 1024,
            wanted / 1024
        )
    })
}
