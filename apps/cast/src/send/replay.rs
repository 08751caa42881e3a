//! A capture, sent again at its own pace.

use super::unsent::report_unsent;
use crate::error::Error;
use crate::measure::contexts::Contexts;
use crate::net::client_registry::ClientRegistry;
use crate::net::options::{Options, socket_error};
use crate::net::pcap;
use crate::net::session::Rtcp;
use crate::net::udp::{Outbox, Reports};
use crate::results::Measured;
use creel::Observe;
use creel::time::sleep_until;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a capture that are kept in memory.
const BYTES_MAX: usize = 1 << 30;

/// What is sent again.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The capture.
    pub capture: PathBuf,
    /// The packets of the capture's nth port go to port + n of each client, or all to one.
    pub to: Vec<SocketAddr>,
    /// All go to one port.
    pub shared_port: bool,
    /// How long the context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: Observe,
    /// What is asked of the sockets.
    pub options: Options,
}

/// A datagram and when it is due after the first.
struct DueDatagram {
    after: Duration,
    port: usize,
    bytes: Vec<u8>,
}

/// Sends the capture's datagrams at the times at which they were captured. Blocks until the end;
/// `interrupted` is asked some times a second and ends it early.
///
/// # Errors
///
/// If the capture cannot be read or exceeds a gibibyte, or no socket can be opened.
pub fn replay(plan: &Replay, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    let (due, ports, warnings) = read(plan)?;
    let contexts = Contexts::new(1, plan.wait, plan.observe)?;
    let registry = ClientRegistry::new(ports, plan.shared_port, Rtcp::Off);
    for &client in &plan.to {
        registry.add(client)?;
    }
    let outbox = Outbox::open(&plan.options, Rtcp::Off, 1 << 20, Reports::default());
    let outbox = outbox.map_err(socket_error("the senders' socket"))?;
    outbox.start(contexts.of(0), false);
    let clients: Vec<_> = (0..ports).map(|port| registry.of_stream(port)).collect();
    let first = contexts.usage();
    let (sent, ended) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let stop = Arc::new(AtomicBool::new(false));
    let task = {
        let (outbox, sent, ended, stop) = (
            Arc::clone(&outbox),
            Arc::clone(&sent),
            Arc::clone(&ended),
            Arc::clone(&stop),
        );
        async move {
            let begin = Instant::now();
            for datagram in &due {
                sleep_until(begin + datagram.after).await;
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                outbox.write(&datagram.bytes, &clients[datagram.port]);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            outbox.close();
            ended.store(true, Ordering::Release);
        }
    };
    contexts.of(0).spawn(task).detach();
    while !ended.load(Ordering::Acquire) {
        if interrupted() {
            // What is waited for may be far off: it is not waited for.
            stop.store(true, Ordering::Relaxed);
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut measured = Measured {
        contexts: 1,
        buffers: sent.load(Ordering::Relaxed),
        used: contexts.usage().since(&first),
        warnings,
        ..Measured::default()
    };
    report_unsent(&[outbox], &mut measured);
    if measured.buffers == 0 {
        measured
            .warnings
            .push("there is no UDP datagram in the capture".into());
    }
    Ok(measured)
}

/// The datagrams, how many ports they go to, and what is amiss with the capture.
fn read(plan: &Replay) -> Result<(Vec<DueDatagram>, usize, Vec<String>), Error> {
    let mut due: Vec<DueDatagram> = Vec::new();
    let mut ports: HashMap<SocketAddr, usize> = HashMap::new();
    let (mut first, mut bytes, mut cut) = (None, 0, 0);
    let summary = pcap::read(&plan.capture, |packet| {
        if packet.missing > 0 {
            cut += 1;
            return;
        }
        bytes += packet.bytes.len();
        if bytes > BYTES_MAX {
            return;
        }
        let next = ports.len();
        let first = *first.get_or_insert(packet.at);
        due.push(DueDatagram {
            after: Duration::from_nanos(packet.at.saturating_sub(first)),
            port: *ports.entry(packet.to).or_insert(next),
            bytes: packet.bytes.to_vec(),
        });
    })?;
    if bytes > BYTES_MAX {
        return Err(Error::Plan(format!(
            "{}: more than a gibibyte of datagrams",
            plan.capture.display()
        )));
    }
    let mut warnings = summary.warnings(&plan.capture);
    if cut > 0 {
        warnings.push(format!(
            "{cut} packets were captured in part only, and are not sent"
        ));
    }
    Ok((due, ports.len().max(1), warnings))
}
