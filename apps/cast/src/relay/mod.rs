//! Passes the packets of N ports on to M clients each, with unchanged payloads.

mod forwarder;
mod plan;
mod report;
mod rewrite;
mod translate;

pub use crate::net::control_port::serve;
pub use plan::Plan;
pub use report::{ClientReport, PortReport};

use crate::error::Error;
use crate::lock::lock;
use crate::measure::contexts::Contexts;
use crate::media::format::Format;
use crate::net::client_registry::ClientRegistry;
use crate::net::options::socket_error;
use crate::net::overflow::{self, Overflow};
use crate::net::ports::{BufferSize, Ports, port_of_stream};
use crate::net::session::{Rtcp, RtpSession};
use crate::results::Measured;
use creel::net::UdpSocket;
use forwarder::Forwarder;
use report::Shared;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the program checks whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The open ports of a relay, whose packets go to the registered clients.
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
    /// Returns an error if a context cannot be created, a client is rejected, or no port can be
    /// opened. If only some ports fail to open, the result has a warning.
    pub fn open(plan: &'a Plan) -> Result<Self, Error> {
        let mut registry = ClientRegistry::new(plan.ports, plan.shared_port, plan.rtcp);
        let step = 1 + usize::from(plan.rtcp == Rtcp::Own);
        // If the ports exceed 65,535, the loop below reports it.
        let own =
            (0..plan.ports * step).map_while(|n| port_of_stream(plan.on, n / step, n, false).ok());
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
        let mut ports = Ports::new(BufferSize::of(16, None, plan.wait));
        for number in 0..plan.ports {
            for offset in 0..step {
                let address = port_of_stream(plan.on, number, number * step + offset, false)?;
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
            port: socket
                .local_addr()
                .map_err(socket_error(format!("cannot use {address}")))?
                .port(),
            ..PortReport::default()
        }));
        self.overflow.watch(&socket);
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

    /// Returns the registry of the clients, which you can change at any time.
    pub fn client_registry(&self) -> Arc<ClientRegistry> {
        Arc::clone(&self.registry)
    }

    /// Returns a function that returns the current figures. You can call it at any time.
    pub fn figures(&self) -> impl Fn() -> Vec<PortReport> + Send + Sync + 'static {
        let reports = self.reports.clone();
        move || reports.iter().map(|report| lock(report).clone()).collect()
    }

    /// Relays until the run is over. This function blocks. It calls `interrupted` several times per
    /// second, and ends the run early if it returns true.
    pub fn run(self, interrupted: &dyn Fn() -> bool) -> (Measured, Vec<PortReport>) {
        let tasks: Vec<_> = self
            .forwarders
            .into_iter()
            .map(|(number, forwarder)| {
                self.contexts
                    .of(number)
                    .spawn(forwarder.run())
                    .abort_on_drop()
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
        // Dropping the tasks cancels them, because each of them is waiting for the next packet.
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
        measured.notes.extend(overflow::note(overflowed));
        if dropped > 0 {
            measured.warnings.push(format!(
                "dropped {dropped} packets, because the queue of a port was full: use a longer \
                 --queue"
            ));
        }
        if refused > 0 {
            let why = reports.iter().find_map(|report| report.why.as_deref());
            measured.warnings.push(crate::send::refused(refused, why));
        }
        if measured.buffers == 0 {
            measured
                .warnings
                .push("received no packets: check the address, the port and the firewall".into());
        }
        (measured, reports)
    }
}
