//! Conferences. Everyone that sends to a room's port receives the sum of all others.
//!
//! A room is a task that waits for a packet. While there are legs in it, it wakes up once per
//! packet time. It then processes the packets that have arrived, plays the buffer of each leg, and
//! adds the samples. Each leg receives the sum without its own samples. An empty room only waits,
//! so it costs no CPU time.
//!
//! A leg is an SSRC and an address that sends RTP. Two packets in sequence make a leg. We send to
//! its address in the format of its newest packet, even while it is alone, because telephones hang
//! up if they receive nothing. A leg leaves with an RTCP BYE, or by sending nothing for some time.
//!
//! Left out: access control and legs of another rate than the room's. Everyone that knows a room's
//! port can enter, so put a proxy in front of it if you need access control.

mod leg;
mod plan;
mod report;
mod room;

pub use plan::Plan;
pub use report::LegReport;

use crate::error::Error;
use crate::lock::lock;
use crate::measure::contexts::Contexts;
use crate::media::format::Format;
use crate::net::overflow::{self, Overflow};
use crate::net::ports::{BufferSize, Ports, port_of_stream};
use crate::net::session::{Rtcp, RtpSession};
use crate::results::Measured;
use report::Shared;
use room::Room;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the program checks whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The receive buffer that we request for a room's socket, in bytes. It holds a few hundred
/// packets, for example those of several legs for a second.
const SOCKET_BYTES: usize = 256 * 1024;

/// Opens the rooms and mixes until the run is over. This function blocks. It calls `interrupted`
/// several times per second, and ends the run early if it returns true.
///
/// # Errors
///
/// Returns an error if a context cannot be created or no port can be opened. If only some ports
/// fail to open, the result has a warning.
pub fn run(
    plan: &Plan,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Measured, Vec<LegReport>), Error> {
    let contexts = Contexts::new(plan.contexts, plan.wait, plan.observe)?;
    let mut measured = Measured::default();
    let totals: Shared = Arc::default();
    let mut ports = Ports::new(BufferSize {
        bytes: SOCKET_BYTES,
        is_required: false,
    });
    let mut rooms = Vec::new();
    let mut overflow = Overflow::default();
    let step = 1 + usize::from(plan.rtcp == Rtcp::Own);
    for number in 0..plan.rooms {
        let address = port_of_stream(plan.on, number, number * step, false)?;
        let session = |address| RtpSession::new(address, 0, Format::CD_MONO);
        let Some(socket) = ports.open(&plan.options, &session(address)) else {
            continue;
        };
        overflow.watch(&socket);
        let mut room = Room::new(number, socket, plan, Arc::clone(&totals));
        if plan.rtcp == Rtcp::Own {
            let address = port_of_stream(address, number, 1, false)?;
            if let Some(socket) = ports.open(&plan.options, &session(address)) {
                room.set_rtcp_socket(socket);
            }
        }
        rooms.push((number, room));
    }
    let any = !rooms.is_empty();
    ports.close(&mut measured.warnings, &mut measured.notes, any)?;
    let tasks: Vec<_> = rooms
        .into_iter()
        .map(|(number, room)| contexts.of(number).spawn(room.run()).abort_on_drop())
        .collect();
    let start = Instant::now();
    let first = contexts.usage();
    let mut last = (0, start);
    while !interrupted() {
        std::thread::sleep(POLL_INTERVAL);
        let (packets, now) = (lock(&totals).packets, Instant::now());
        if packets > last.0 {
            last = (packets, now);
        }
        let is_idle = plan
            .idle
            .is_some_and(|idle| last.0 > 0 && now - last.1 >= idle);
        if is_idle || plan.time_limit.is_some_and(|limit| now - start >= limit) {
            break;
        }
    }
    measured.used = contexts.usage().since(&first);
    measured.contexts = contexts.count();
    measured.overflowed = overflow.dropped();
    let overflowed = overflow::warning(measured.overflowed);
    measured.warnings.extend(overflowed);
    measured.notes.extend(overflow::note(measured.overflowed));
    // Dropping the tasks cancels them. The rooms add their results to the totals when they are
    // dropped.
    drop(tasks);
    drop(contexts);
    let mut totals = std::mem::take(&mut *lock(&totals));
    totals.legs.sort_by_key(|leg| (leg.room, leg.from));
    measured.buffers = totals.packets;
    if totals.refused > 0 {
        let refused = totals.refused;
        measured.notes.push(format!(
            "{refused} packets belong to no participant, because their sample rate is not that of the rooms (--rate), there is no codec for them, or the room is full (--legs)"
        ));
    }
    Ok((measured, totals.legs))
}
