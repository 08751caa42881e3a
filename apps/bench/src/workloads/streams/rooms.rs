//! Conference rooms over UDP: a thousand legs in rooms of four, and empty rooms.
//!
//! We measure the CPU time of the rooms' own thread as a share of a core. The legs are a bare loop.
//! It sends a packet of µ-law for each leg every 20 ms, and does not read the packets that it
//! receives.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use creel_cast::rooms::{self, Plan};

use crate::harness::{Case, Metric, Subject};
use crate::setting::Setting;

/// The port of the first room. Room n has the port `PORT + n`.
const PORT: u16 = 43_000;
const PACKET_TIME: Duration = Duration::from_millis(20);
const LEGS_A_ROOM: usize = 4;

pub fn cases(setting: &Setting) -> Vec<Case> {
    [
        ("rooms, 1000 legs", 250, 1_000),
        ("rooms, 400 idle", 400, 0),
    ]
    .map(|(name, rooms, legs)| Case {
        name: name.into(),
        metrics: vec![
            Metric {
                name: "time",
                unit: "% of a core",
            },
            Metric {
                name: "sent",
                unit: "packets",
            },
        ],
        compared: false,
        plan: setting.plan(500, 1_500).with_overhead_ms(50),
        rounds: setting.rounds(3),
        subjects: vec![creel(rooms, legs)],
    })
    .into()
}

fn creel(rooms: usize, legs: usize) -> Subject {
    Subject::with_metrics("creel", move |plan| {
        let over = AtomicBool::new(false);
        let on = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let time = plan.warm_up + plan.sample;
        std::thread::scope(|scope| {
            let talking = scope.spawn(|| talk(legs, on, &over));
            let plan = Plan {
                time_limit: Some(time),
                ..Plan::new(on, rooms)
            };
            let ran = rooms::run(&plan, &|| false).context("creel-cast rooms failed");
            over.store(true, Ordering::Relaxed);
            talking
                .join()
                .map_err(|_| anyhow::anyhow!("the thread of the legs panicked"))??;
            let (measured, legs) = ran?;
            let share = measured.used.contexts.as_secs_f64() / measured.used.time.as_secs_f64();
            let sent: u64 = legs.iter().map(|leg| leg.sent).sum();
            Ok(vec![100.0 * share, sent as f64])
        })
    })
}

/// Sends the packets of all legs, which are evenly spread over a packet time.
fn talk(legs: usize, on: SocketAddr, over: &AtomicBool) -> anyhow::Result<()> {
    let open = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let sockets: Vec<UdpSocket> = (0..legs).map(open).collect::<Result<_, _>>()?;
    let begin = Instant::now();
    let mut sent = 0_u64;
    let mut packet = [0xff_u8; 172];
    while !over.load(Ordering::Relaxed) {
        let due = begin.elapsed().as_nanos() * legs as u128 / PACKET_TIME.as_nanos();
        while u128::from(sent) < due {
            let (leg, n) = (sent as usize % legs, (sent / legs as u64) as u32);
            packet[..2].copy_from_slice(&[0x80, 0]);
            packet[2..4].copy_from_slice(&(n as u16).to_be_bytes());
            packet[4..8].copy_from_slice(&(n * 160).to_be_bytes());
            packet[8..12].copy_from_slice(&(leg as u32).to_be_bytes());
            let room = SocketAddr::new(on.ip(), on.port() + (leg / LEGS_A_ROOM) as u16);
            // We ignore errors, because sending fails until the rooms are open.
            let _ = sockets[leg].send_to(&packet, room);
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
