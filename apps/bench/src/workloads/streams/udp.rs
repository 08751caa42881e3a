//! UDP over loopback: 500 streams with 882 bytes, a hundred times per second, compared with bare
//! loops.
//!
//! We measure the CPU time of one side's thread. The other side is always the same bare loop. Bare
//! loops wake up every 2 ms like Creel. However, they do not generate sound and keep no statistics,
//! and Creel does both.
//!
//! The other side wakes up a little less often, so that every sample sees it at all phases. We need
//! this because the phase matters: a receiver that is awake while the sender sends gets smaller
//! batches, and both threads share cache lines.

mod bare;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use creel_cast::{Formats, Measured, Rtcp, receive, relay, send};

use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;
use bare::{Ports, Side};

const STREAMS: usize = 500;
const BUFFER_SAMPLES: usize = 441;
const BYTES: usize = BUFFER_SAMPLES * 2;
const PERIOD: Duration = Duration::from_millis(10);
const QUANTUM: Duration = Duration::from_millis(2);
/// The quantum of the other side. It is a hundredth longer than [`QUANTUM`], so the two sides have
/// been in every phase to each other after 0.2 s.
const OTHER_QUANTUM: Duration = Duration::from_micros(2_020);
/// The time at the beginning that the receiver does not count.
const RAMP_UP: Duration = Duration::from_secs(1);

const METRICS: [Metric; 2] = [
    Metric {
        name: "time",
        unit: "ns CPU a packet",
    },
    Metric {
        name: "lost",
        unit: "packets",
    },
];

pub fn cases(setting: &Setting) -> Vec<Case> {
    let sides = [("port a stream", false), ("shared port", true)];
    let mut cases: Vec<Case> = sides
        .into_iter()
        .flat_map(|(name, shared)| {
            let send = vec![creel_send(shared), bare_send(shared)];
            let receive = vec![creel_receive(shared), bare_receive(shared)];
            [("send", send), ("receive", receive)]
                .map(|(side, subjects)| case(setting, format!("UDP {side}, {name}"), subjects))
        })
        .collect();
    // In the case with ten clients, there is a tenth of the streams, so that the relay sends the
    // same number of packets in both cases.
    for clients in [1, 10] {
        let relays = vec![creel_relay(clients), bare_relay(clients)];
        cases.push(case(setting, format!("UDP relay 1:{clients}"), relays));
    }
    cases
}

fn case(setting: &Setting, name: String, subjects: Vec<Subject>) -> Case {
    Case {
        name,
        metrics: METRICS.to_vec(),
        compared: true,
        plan: setting.plan(300, 1_000).with_overhead_ms(500),
        rounds: setting.rounds(4),
        subjects,
    }
}

/// Runs `measured` while a bare receiver receives its packets.
fn received<T>(
    shared: bool,
    measured: impl FnOnce(&Ports) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let ports = Arc::new(Ports::open(Side::Receive, STREAMS, shared)?);
    let receiver = bare::start_receiver(Arc::clone(&ports), OTHER_QUANTUM)?;
    let done = measured(&ports)?;
    receiver.stop()?;
    Ok(done)
}

/// Returns the CPU time of Creel's contexts per packet.
fn of_contexts(measured: &Measured) -> f64 {
    measured.used.contexts.as_nanos() as f64 / measured.buffers.max(1) as f64
}

fn creel_send(shared: bool) -> Subject {
    Subject::with_metrics("creel", move |plan| {
        received(shared, |ports| {
            let plan = send::Plan {
                shared_port: shared,
                wait: QUANTUM,
                buffers: buffers(plan),
                ramp_up: plan.warm_up,
                raw: true,
                ..send::Plan::new(ports.base(), STREAMS)
            };
            let measured = send::run(&plan, &|| false).context("creel-cast send failed")?;
            Ok(vec![of_contexts(&measured), measured.lost as f64])
        })
    })
}

fn bare_send(shared: bool) -> Subject {
    let name = if shared { "bare sendmmsg" } else { "bare send" };
    Subject::with_metrics(name, move |plan| {
        received(shared, |ports| {
            let sender = bare::start_sender(Arc::new(ports.for_sender()?))?;
            std::thread::sleep(plan.warm_up + plan.sample);
            Ok(vec![sender.stop()?.cpu_nanos_per_packet(), 0.0])
        })
    })
}

fn creel_receive(shared: bool) -> Subject {
    Subject::with_metrics("creel", move |plan| {
        let ports = Ports::reserve(STREAMS, shared)?;
        let (wait, on) = (plan.sample, ports.base());
        let receiver = std::thread::spawn(move || -> Result<Measured, _> {
            let ports = if shared { 1 } else { STREAMS };
            let sessions = receive::Plan::sessions(on, ports, &Formats::default(), Rtcp::Off)?;
            let plan = receive::Plan {
                streams: Some(STREAMS),
                wait: QUANTUM,
                idle: Duration::from_millis(500),
                ..receive::Plan::new(sessions)
            };
            receive::run(&plan, &|| false)
        });
        // The receiver needs some time to open its ports. Packets before that would be lost.
        std::thread::sleep(plan.warm_up / 2);
        let sender = bare::start_rtp(Arc::new(ports.for_sender()?))?;
        std::thread::sleep(RAMP_UP + wait);
        sender.stop()?;
        let measured = receiver
            .join()
            .map_err(|_| anyhow::anyhow!("the thread of the receiver panicked"))?
            .context("creel-cast receive failed")?;
        Ok(vec![of_contexts(&measured), measured.lost as f64])
    })
}

fn bare_receive(shared: bool) -> Subject {
    let name = if shared {
        "bare recvmmsg"
    } else {
        "bare epoll and receive"
    };
    Subject::with_metrics(name, move |plan| {
        let ports = Arc::new(Ports::open(Side::Receive, STREAMS, shared)?);
        let receiver = bare::start_receiver(Arc::clone(&ports), QUANTUM)?;
        let sender = bare::start_rtp(Arc::new(ports.for_sender()?))?;
        std::thread::sleep(RAMP_UP + plan.sample);
        let of_sender = sender.stop()?;
        std::thread::sleep(PERIOD);
        let of_receiver = receiver.stop()?;
        let lost = of_sender.packets.saturating_sub(of_receiver.packets);
        Ok(vec![of_receiver.cpu_nanos_per_packet(), lost as f64])
    })
}

/// Sends packets to a relay for the time of a sample. The number of streams is chosen so that all
/// clients together receive the same number of packets in each case.
///
/// `relayed` runs the relay on another thread until its argument becomes true.
fn fed<T: Send>(
    plan: &Plan,
    clients: usize,
    relayed: impl FnOnce(&AtomicBool) -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let over = AtomicBool::new(false);
    let ports = Ports::reserve(STREAMS / clients, true)?;
    std::thread::scope(|scope| {
        let relay = scope.spawn(|| relayed(&over));
        // The relay needs some time to open its ports. Packets before that would be lost.
        std::thread::sleep(plan.warm_up / 2);
        let sender = bare::start_rtp(Arc::new(ports.for_sender()?))?;
        std::thread::sleep(plan.sample);
        over.store(true, Ordering::Relaxed);
        let done = relay.join();
        sender.stop()?;
        done.map_err(|_| anyhow::anyhow!("the thread of the relay panicked"))?
    })
}

fn creel_relay(clients: usize) -> Subject {
    Subject::with_metrics("creel", move |plan| {
        let to = bare::open_clients(clients)?;
        fed(plan, clients, |over| {
            let plan = relay::Plan {
                to: to.iter().map(|(_, address)| *address).collect(),
                wait: QUANTUM,
                rtcp: Rtcp::Off,
                ..relay::Plan::new(Ports::reserve(STREAMS, true)?.base())
            };
            let relay = relay::Relay::open(&plan)?;
            let (measured, reports) = relay.run(&|| over.load(Ordering::Relaxed));
            let sent: u64 = reports[0].clients.iter().map(|client| client.sent).sum();
            let nanos = measured.used.contexts.as_nanos() as f64;
            Ok(vec![nanos / sent.max(1) as f64, measured.lost as f64])
        })
    })
}

fn bare_relay(clients: usize) -> Subject {
    Subject::with_metrics("bare recvmmsg and sendmmsg", move |plan| {
        let to = bare::open_clients(clients)?;
        fed(plan, clients, |over| {
            let ports = Arc::new(Ports::open(Side::Receive, STREAMS, true)?);
            let relay = bare::start_relay(ports, to.iter().map(|(_, address)| *address).collect())?;
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(PERIOD);
            }
            Ok(vec![relay.stop()?.cpu_nanos_per_packet(), 0.0])
        })
    })
}

/// Returns the number of buffers of each stream in a sample.
fn buffers(plan: &Plan) -> u64 {
    (plan.sample.as_nanos() / PERIOD.as_nanos()).max(1) as u64
}
