//! From N ports to M clients each, payloads byte for byte.

mod forwarder;
mod rewrite;

pub use crate::net::control_port::serve;

use crate::error::Error;
use crate::measure::contexts::Contexts;
use crate::media::format::Format;
use crate::net::client_registry::ClientRegistry;
use crate::net::options::{Options, socket_error};
use crate::net::overflow::{self, Overflow};
use crate::net::ports::{Ports, buffer_bytes, port_of_stream};
use crate::net::session::{Rtcp, RtpSession};
use crate::results::Measured;
use creel::net::UdpSocket;
use forwarder::Forwarder;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the program looks what has come.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What is relayed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What comes to port + n goes to port + n of each client.
    pub on: SocketAddr,
    /// How many ports.
    pub ports: usize,
    /// Clients at the beginning.
    pub to: Vec<SocketAddr>,
    /// All ports' packets go to one port of a client.
    pub shared_port: bool,
    /// Contexts: pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: creel::Observe,
    /// Sources get new names and numbers.
    pub rewrite: bool,
    /// Reports are passed on the same ports, on those next to them, or not at all.
    pub rtcp: Rtcp,
    /// Packets that wait for a client at most; then the oldest are dropped.
    pub queue: usize,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Option<Duration>,
    /// Ends after so long in any case.
    pub time_limit: Option<Duration>,
    /// What is asked of the sockets.
    pub options: Options,
}

impl Plan {
    /// One port, once in 2 ms, to nobody yet; reports on the same port.
    pub fn new(on: SocketAddr) -> Self {
        Plan {
            on,
            ports: 1,
            to: Vec::new(),
            shared_port: false,
            contexts: 1,
            wait: Duration::from_millis(2),
            observe: creel::Observe::default(),
            rewrite: false,
            rtcp: Rtcp::Mux,
            queue: 1_024,
            idle: None,
            time_limit: None,
            options: Options::default(),
        }
    }
}

/// What one client has got of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReport {
    /// Its address.
    pub to: SocketAddr,
    /// Packets that were sent to it, or tried.
    pub sent: u64,
    /// Packets that waited too long, the oldest ones.
    pub dropped: u64,
}

/// What has come to one port and gone on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortReport {
    /// The port.
    pub port: u16,
    /// Packets that came.
    pub packets: u64,
    /// Reports that came, from either side.
    pub rtcp: u64,
    /// Packets that the system refused to send.
    pub refused: u64,
    /// Why it refused the first.
    pub why: Option<String>,
    /// Of those who hear now, and who heard.
    pub clients: Vec<ClientReport>,
}

/// A port's figures, between its task and those who ask.
type Shared = Arc<Mutex<PortReport>>;

/// Open ports, from which packets go to an audience.
#[derive(Debug)]
pub struct Relay<'a> {
    plan: &'a Plan,
    contexts: Contexts,
    registry: Arc<ClientRegistry>,
    reports: Vec<Shared>,
    overflow: Overflow,
    forwarders: Vec<(usize, Forwarder)>,
    warnings: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Relay<'a> {
    /// Opens the ports.
    ///
    /// # Errors
    ///
    /// If a context cannot be made, or no port can be opened. Some ports that cannot are a warning.
    pub fn open(plan: &'a Plan) -> Result<Self, Error> {
        let mut registry = ClientRegistry::new(plan.ports, plan.shared_port, plan.rtcp);
        let step = 1 + usize::from(plan.rtcp == Rtcp::Own);
        // More ports than there are is told below.
        let own = (0..plan.ports * step).map_while(|n| port_of_stream(plan.on, n, false).ok());
        registry.exclude(own.collect());
        for &client in &plan.to {
            registry.add(client)?;
        }
        let mut relay = Relay {
            plan,
            contexts: Contexts::new(plan.contexts, plan.wait, plan.observe)?,
            registry: Arc::new(registry),
            reports: Vec::new(),
            overflow: Overflow::default(),
            forwarders: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
        };
        let mut ports = Ports::new(buffer_bytes(16, plan.wait));
        for number in 0..plan.ports {
            for offset in 0..step {
                let address = port_of_stream(plan.on, number * step + offset, false)?;
                let session = RtpSession::new(address, 11, Format::CD_MONO);
                if let Some(socket) = ports.open(&plan.options, &session) {
                    relay.add(number, socket, address, offset as u16)?;
                }
            }
        }
        let any = !relay.forwarders.is_empty();
        ports.close(&mut relay.warnings, &mut relay.notes, any)?;
        Ok(relay)
    }

    fn add(
        &mut self,
        number: usize,
        socket: UdpSocket,
        address: SocketAddr,
        offset: u16,
    ) -> Result<(), Error> {
        let other = self.plan.options.sender(!address.is_ipv4());
        let other = other.and_then(UdpSocket::from_std).ok();
        let shared: Shared = Arc::new(Mutex::new(PortReport {
            port: socket.local_addr().map_err(socket_error(address))?.port(),
            ..PortReport::default()
        }));
        self.overflow.watch(socket.as_std().as_fd());
        let clients = self.registry.of_stream(number);
        let forwarder = Forwarder::new(
            socket,
            other,
            clients,
            offset,
            self.plan,
            Arc::clone(&shared),
        );
        self.reports.push(shared);
        self.forwarders.push((number, forwarder));
        Ok(())
    }

    /// Who hears: it may be changed at any time.
    pub fn client_registry(&self) -> Arc<ClientRegistry> {
        Arc::clone(&self.registry)
    }

    /// Gives the figures, at any time.
    pub fn figures(&self) -> impl Fn() -> Vec<PortReport> + Send + Sync + 'static {
        let reports = self.reports.clone();
        move || reports.iter().map(|report| lock(report).clone()).collect()
    }

    /// Relays until it is over. Blocks; `interrupted` is asked some times a second and ends it,
    /// too.
    pub fn run(self, interrupted: &dyn Fn() -> bool) -> (Measured, Vec<PortReport>) {
        let tasks: Vec<_> = self
            .forwarders
            .into_iter()
            .map(|(number, forwarder)| {
                self.contexts
                    .of(number)
                    .spawn(forwarder.run())
                    .cancel_on_drop()
            })
            .collect();
        let start = Instant::now();
        let first = self.contexts.usage();
        let mut last = (0, start);
        while !interrupted() {
            std::thread::sleep(POLL_INTERVAL);
            let packets = self.reports.iter().map(|report| lock(report).packets).sum();
            let now = Instant::now();
            if packets > last.0 {
                last = (packets, now);
            }
            let is_idle = self
                .plan
                .idle
                .is_some_and(|idle| last.0 > 0 && now - last.1 >= idle);
            if is_idle
                || self
                    .plan
                    .time_limit
                    .is_some_and(|limit| now - start >= limit)
            {
                break;
            }
        }
        let overflowed = self.overflow.dropped();
        // Dropped, they are cancelled: each is waiting for what may come.
        drop(tasks);
        let used = self.contexts.usage().since(&first);
        let reports: Vec<PortReport> = self
            .reports
            .iter()
            .map(|report| lock(report).clone())
            .collect();
        let mut measured = Measured {
            contexts: self.contexts.count(),
            buffers: reports.iter().map(|report| report.packets).sum(),
            used,
            overflowed,
            warnings: self.warnings,
            notes: self.notes,
            ..Measured::default()
        };
        let dropped: u64 = reports
            .iter()
            .flat_map(|report| &report.clients)
            .map(|client| client.dropped)
            .sum();
        let refused: u64 = reports.iter().map(|report| report.refused).sum();
        measured.lost = dropped + refused;
        measured.warnings.extend(overflow::warning(overflowed));
        if dropped > 0 {
            measured.warnings.push(format!(
                "{dropped} packets waited too long and were dropped"
            ));
        }
        if refused > 0 {
            let why = reports.iter().find_map(|report| report.why.as_deref());
            measured.warnings.push(crate::send::refused(refused, why));
        }
        if measured.buffers == 0 {
            measured.warnings.push("nothing was received".into());
        }
        (measured, reports)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
