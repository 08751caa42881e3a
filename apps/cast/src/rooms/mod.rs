//! Conferences: whoever sends to a room's port hears all others who do.
//!
//! A room is a task that waits for a packet. While somebody is in it, it wakes once a packet time:
//! it takes what has come, plays each leg's buffer, adds all up, and sends each leg the sum without
//! its own voice. A room with nobody in it waits, and costs nothing.
//!
//! A leg is an address that sends RTP; it is answered there, in the format that it uses. It leaves
//! by RTCP's good-bye, or by silence.
//!
//! Left out: who may enter (a room's port is its secret; put a proxy before it), and legs of
//! another rate than the room's.

mod leg;
mod plan;
mod report;
mod room;

pub use plan::Plan;
pub use report::LegReport;

use crate::error::Error;
use crate::measure::contexts::Contexts;
use crate::media::format::Format;
use crate::net::overflow::{self, Overflow};
use crate::net::ports::{Ports, port_of_stream};
use crate::net::session::RtpSession;
use crate::results::Measured;
use report::{Shared, lock};
use room::Room;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the program looks what has come.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What a room's socket is asked to hold: a second of many legs.
const SOCKET_BYTES: usize = 256 * 1024;

/// Opens the rooms and lets people talk. Blocks until it is over; `interrupted` is asked some times
/// a second and ends it, too.
///
/// # Errors
///
/// If a context cannot be made, or no port can be opened. Some ports that cannot are a warning.
pub fn run(
    plan: &Plan,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Measured, Vec<LegReport>), Error> {
    let contexts = Contexts::new(plan.contexts, plan.wait, plan.observe)?;
    let mut measured = Measured::default();
    let totals: Shared = Arc::default();
    let mut ports = Ports::new(SOCKET_BYTES);
    let mut rooms = Vec::new();
    let mut overflow = Overflow::default();
    for number in 0..plan.rooms {
        let address = port_of_stream(plan.on, number, false)?;
        if let Some(socket) =
            ports.open(&plan.options, &RtpSession::new(address, 0, Format::CD_MONO))
        {
            overflow.watch(socket.as_std().as_fd());
            let room = Room::new(number, socket, plan, Arc::clone(&totals));
            rooms.push((number, room));
        }
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
    // Dropped, they are cancelled, and tell what they have.
    drop(tasks);
    drop(contexts);
    let mut totals = std::mem::take(&mut *lock(&totals));
    totals.legs.sort_by_key(|leg| (leg.room, leg.from));
    measured.buffers = totals.packets;
    if totals.refused > 0 {
        let refused = totals.refused;
        measured.notes.push(format!(
            "{refused} packets were of no leg: another rate than the rooms', no codec, or too many"
        ));
    }
    Ok((measured, totals.legs))
}
