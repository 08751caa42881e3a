//! Bare loops, which send and receive without a runtime.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use rustix::event::epoll;
use socket2::SockRef;

use super::{BUFFER_SAMPLES, BYTES, OTHER_QUANTUM, PERIOD, QUANTUM};

/// The first port. Each stream has its own port from here on, or all share the first one.
const PORT: u16 = 42_000;
/// The size of the RTP header.
const HEADER_BYTES: usize = 12;
/// The buffer size of a socket. It is large, so that no side loses packets because the other is
/// slow.
const SOCKET_BYTES: usize = 4 << 20;
/// The number of datagrams per call of `sendmmsg` or `recvmmsg`.
const BATCH: usize = 64;
/// The size of the buffer for one datagram, in bytes.
const ROOM: usize = 2_048;

/// The side of the connection on which a loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Send,
    Receive,
}

/// The ports to which all streams send.
#[derive(Debug)]
pub struct Ports {
    streams: usize,
    shared: bool,
    /// The sockets of the receiver, one per port, or the single socket of the sender.
    sockets: Vec<UdpSocket>,
}

impl Ports {
    /// Returns ports without opening them. Use it if the measured side, for example Creel's
    /// receiver, opens them itself.
    pub fn reserve(streams: usize, shared: bool) -> anyhow::Result<Self> {
        let sockets = Vec::new();
        Ok(Ports {
            streams,
            shared,
            sockets,
        })
    }

    /// Opens the sockets of one side for `streams` streams.
    pub fn open(side: Side, streams: usize, shared: bool) -> anyhow::Result<Self> {
        let mut ports = Ports::reserve(streams, shared)?;
        let addresses = match side {
            Side::Send => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            Side::Receive if shared => vec![ports.base()],
            Side::Receive => (0..streams).map(|stream| ports.of(stream)).collect(),
        };
        for address in addresses {
            let socket = UdpSocket::bind(address)
                .with_context(|| format!("cannot open the port {address}"))?;
            socket.set_nonblocking(true)?;
            SockRef::from(&socket).set_recv_buffer_size(SOCKET_BYTES)?;
            SockRef::from(&socket).set_send_buffer_size(SOCKET_BYTES)?;
            ports.sockets.push(socket);
        }
        Ok(ports)
    }

    /// Opens a sender's socket for these ports.
    pub fn for_sender(&self) -> anyhow::Result<Self> {
        Ports::open(Side::Send, self.streams, self.shared)
    }

    /// Returns the address of the first port.
    pub fn base(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, PORT).into()
    }

    fn of(&self, stream: usize) -> SocketAddr {
        let offset = if self.shared { 0 } else { stream as u16 };
        (Ipv4Addr::LOCALHOST, PORT + offset).into()
    }
}

/// A bare loop, which uses no runtime, on a thread of its own.
pub struct Running {
    thread: JoinHandle<anyhow::Result<Duration>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    packets: AtomicU64,
}

/// The CPU time and the packets of a bare loop.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    pub cpu: Duration,
    pub packets: u64,
}

impl Used {
    pub fn cpu_nanos_per_packet(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.packets.max(1) as f64
    }
}

impl Running {
    /// Ends the loop and returns what it has used.
    pub fn stop(self) -> anyhow::Result<Used> {
        self.shared.ends.store(true, Ordering::Relaxed);
        let cpu = self.thread.join();
        let cpu = cpu.map_err(|_| anyhow::anyhow!("the thread of a bare loop panicked"))??;
        Ok(Used {
            cpu,
            packets: self.shared.packets.load(Ordering::Relaxed),
        })
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    fn count(&self, packets: usize) {
        self.packets.fetch_add(packets as u64, Ordering::Relaxed);
    }
}

/// Starts a sender.
pub fn start_sender(ports: Arc<Ports>) -> anyhow::Result<Running> {
    let mut packet = vec![0; BYTES];
    spawn(move |running| {
        paced(running, &ports, QUANTUM, |streams| match ports.shared {
            true => send_many(&ports, streams, &packet),
            false => send_each(&ports, streams, &mut packet, |_, _| ()),
        })
    })
}

/// Starts a receiver that receives once per `quantum`.
pub fn start_receiver(ports: Arc<Ports>, quantum: Duration) -> anyhow::Result<Running> {
    spawn(move |running| match ports.shared {
        true => receive_many(running, &ports.sockets[0], quantum),
        false => receive_each(running, &ports.sockets, quantum),
    })
}

/// Starts the other side of a receiver, which sends RTP. A receiver can detect lost packets by
/// their sequence numbers.
pub fn start_rtp(ports: Arc<Ports>) -> anyhow::Result<Running> {
    let mut packet = vec![0; HEADER_BYTES + BUFFER_SAMPLES * 2];
    let mut sequences = vec![0_u16; ports.streams];
    spawn(move |running| {
        paced(running, &ports, OTHER_QUANTUM, |streams| {
            send_each(&ports, streams, &mut packet, |stream, packet| {
                let sequence = sequences[stream];
                sequences[stream] = sequence.wrapping_add(1);
                // The first two bytes of an RTP header are the version, which is 2, and the payload
                // type. Type 11 is L16. Source: RFC 3550 section 5.1, and RFC 3551 section 6.
                packet[..2].copy_from_slice(&[0x80, 11]);
                packet[2..4].copy_from_slice(&sequence.to_be_bytes());
                let timestamp = u32::from(sequence) * BUFFER_SAMPLES as u32;
                packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
                packet[8..12].copy_from_slice(&(stream as u32).to_be_bytes());
            })
        })
    })
}

/// Opens the sockets of clients that read nothing. The kernel drops packets that do not fit.
pub fn open_clients(count: usize) -> anyhow::Result<Vec<(UdpSocket, SocketAddr)>> {
    let open = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    (0..count).map(open).collect()
}

/// Starts a relay from the shared port to all clients.
pub fn start_relay(ports: Arc<Ports>, clients: Vec<SocketAddr>) -> anyhow::Result<Running> {
    spawn(move |running| {
        let socket = &ports.sockets[0];
        let mut bytes = vec![[0_u8; ROOM]; BATCH];
        let begin = Instant::now();
        let to: Vec<Option<SockaddrIn>> = clients
            .iter()
            .flat_map(|client| match client {
                SocketAddr::V4(to) => Some(Some((*to).into())),
                SocketAddr::V6(_) => None,
            })
            .collect();
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        let mut sending = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        while running.goes_on() {
            loop {
                let lengths = receive_batch(socket, &mut headers, &mut bytes)?;
                let pairs: Vec<(&[u8], Option<SockaddrIn>)> = lengths
                    .iter()
                    .zip(&bytes)
                    .flat_map(|(&len, bytes)| to.iter().map(move |to| (&bytes[..len], *to)))
                    .collect();
                for pairs in pairs.chunks(BATCH) {
                    let parts: Vec<_> = pairs
                        .iter()
                        .map(|(bytes, _)| [IoSlice::new(bytes)])
                        .collect();
                    let to: Vec<_> = pairs.iter().map(|(_, to)| *to).collect();
                    sendmmsg(
                        socket.as_raw_fd(),
                        &mut sending,
                        &parts,
                        &to,
                        [],
                        MsgFlags::empty(),
                    )?;
                }
                running.count(pairs.len());
                // We also check for the end here. If packets arrive faster than the relay can send,
                // this loop would otherwise never end.
                if lengths.len() < BATCH || !running.goes_on() {
                    break;
                }
            }
            sleep_until_tick(begin, QUANTUM);
        }
        Ok(())
    })
}

/// Receives the available datagrams, up to one batch, and returns their lengths.
fn receive_batch(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<SockaddrIn>,
    bytes: &mut [[u8; ROOM]],
) -> anyhow::Result<Vec<usize>> {
    let mut parts: Vec<_> = bytes.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
    let flags = MsgFlags::MSG_DONTWAIT;
    match recvmmsg(socket.as_raw_fd(), headers, parts.iter_mut(), flags, None) {
        Ok(received) => Ok(received.map(|message| message.bytes).collect()),
        Err(nix::errno::Errno::EAGAIN) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn spawn(
    work: impl FnOnce(&Shared) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<Running> {
    let shared = Arc::new(Shared::default());
    let running = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .name("bare".into())
        .spawn(move || {
            work(&running)?;
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
        })?;
    Ok(Running { thread, shared })
}

/// Passes the streams that are due to `send` once per quantum, in the order of their phases.
fn paced(
    running: &Shared,
    ports: &Ports,
    quantum: Duration,
    mut send: impl FnMut(&[usize]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (begin, period) = (Instant::now(), PERIOD.as_nanos() as u64);
    let streams = ports.streams as u64;
    let mut due = Vec::with_capacity(ports.streams);
    let mut sent = 0_u64;
    while running.goes_on() {
        let now = begin.elapsed().as_nanos() as u64;
        let wanted = now * streams / period;
        due.clear();
        due.extend((sent..wanted).map(|packet| (packet % streams) as usize));
        send(&due)?;
        running.count(due.len());
        sent = wanted;
        sleep_until_tick(begin, quantum);
    }
    Ok(())
}

fn sleep_until_tick(begin: Instant, quantum: Duration) {
    let quantum = quantum.as_nanos() as u64;
    let now = begin.elapsed().as_nanos() as u64;
    std::thread::sleep(Duration::from_nanos(quantum - now % quantum));
}

fn send_each(
    ports: &Ports,
    streams: &[usize],
    packet: &mut [u8],
    mut prepare: impl FnMut(usize, &mut [u8]),
) -> anyhow::Result<()> {
    for &stream in streams {
        prepare(stream, packet);
        ports.sockets[0].send_to(packet, ports.of(stream))?;
    }
    Ok(())
}

fn send_many(ports: &Ports, streams: &[usize], packet: &[u8]) -> anyhow::Result<()> {
    let parts = [[IoSlice::new(packet)]; BATCH];
    let to: [Option<SockaddrIn>; BATCH] = match ports.base() {
        SocketAddr::V4(to) => [Some(to.into()); BATCH],
        SocketAddr::V6(_) => [None; BATCH],
    };
    let mut headers = MultiHeaders::preallocate(BATCH, None);
    for batch in streams.chunks(BATCH) {
        let (parts, to) = (&parts[..batch.len()], &to[..batch.len()]);
        let fd = ports.sockets[0].as_raw_fd();
        sendmmsg(fd, &mut headers, parts, to, [], MsgFlags::empty())?;
    }
    Ok(())
}

/// Once per quantum, receives one datagram from each ready socket, until no socket is ready.
fn receive_each(running: &Shared, sockets: &[UdpSocket], quantum: Duration) -> anyhow::Result<()> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, socket) in sockets.iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poller, socket, data, epoll::EventFlags::IN)?;
    }
    let mut events = Vec::with_capacity(1_024);
    let (mut bytes, begin) = ([0; ROOM], Instant::now());
    while running.goes_on() {
        loop {
            events.clear();
            let at_once = rustix::event::Timespec::default();
            epoll::wait(
                &poller,
                rustix::buffer::spare_capacity(&mut events),
                Some(&at_once),
            )?;
            if events.is_empty() || !running.goes_on() {
                break;
            }
            for event in &events {
                match sockets[event.data.u64() as usize].recv_from(&mut bytes) {
                    Ok(_) => running.count(1),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        sleep_until_tick(begin, quantum);
    }
    Ok(())
}

/// Once per quantum, receives all available datagrams from one socket.
fn receive_many(running: &Shared, socket: &UdpSocket, quantum: Duration) -> anyhow::Result<()> {
    let mut bytes = vec![[0_u8; ROOM]; BATCH];
    let begin = Instant::now();
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    while running.goes_on() {
        loop {
            let received = receive_batch(socket, &mut headers, &mut bytes)?.len();
            running.count(received);
            if received < BATCH || !running.goes_on() {
                break;
            }
        }
        sleep_until_tick(begin, quantum);
    }
    Ok(())
}
