//! Replays a capture at its own pace.

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

/// The maximum number of bytes of a capture that we keep in memory.
const BYTES_MAX: usize = 1 << 30;

/// The configuration of a replay.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The path of the capture.
    pub capture: PathBuf,
    /// The clients. We number the destinations of the capture (address and port) from 0 on. The
    /// packets to destination n go to port + n of each client, unless the port is shared.
    pub to: Vec<SocketAddr>,
    /// Whether all packets go to the same port of a client.
    pub shared_port: bool,
    /// How long the context waits before it handles packets and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: Observe,
    /// The options of the sockets.
    pub options: Options,
}

/// A datagram, and the time at which it is due after the first one.
struct DueDatagram {
    after: Duration,
    port: usize,
    bytes: Vec<u8>,
}

/// Sends the datagrams of the capture at the intervals at which they were captured. This function
/// blocks until the end. It calls `interrupted` several times per second, and ends the replay early
/// if it returns true.
///
/// # Errors
///
/// Returns an error if the capture cannot be read or has more than a gibibyte of datagrams, or if
/// no socket can be opened.
pub fn replay(plan: &Replay, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    let (due, ports, warnings) = read(plan)?;
    let contexts = Contexts::new(1, plan.wait, plan.observe)?;
    let registry = ClientRegistry::new(ports, plan.shared_port, Rtcp::Off);
    for &client in &plan.to {
        registry.add(client)?;
    }
    let outbox = Outbox::open(&plan.options, Rtcp::Off, 1 << 20, Reports::default());
    let outbox = outbox.map_err(socket_error("cannot open a socket for sending"))?;
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
            // We do not wait for the task, because its next datagram may be due much later.
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
        overflowed: Some(0),
        ..Measured::default()
    };
    report_unsent(&[outbox], &mut measured);
    if measured.buffers == 0 {
        measured
            .warnings
            .push("the capture has no UDP datagrams".into());
    }
    Ok(measured)
}

/// Returns the datagrams, the number of destinations, and warnings about the capture.
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
            "cannot replay {}: it has more than a gibibyte of datagrams",
            plan.capture.display()
        )));
    }
    let mut warnings = summary.warnings(&plan.capture);
    if cut > 0 {
        warnings.push(format!(
            "{cut} packets were not sent, because the capture contains only parts of them"
        ));
    }
    Ok((due, ports.len().max(1), warnings))
}
