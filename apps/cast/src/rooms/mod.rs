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
mod room;

use crate::error::Error;
use crate::measure::contexts::Contexts;
use crate::media::format::{Format, Formats};
use crate::net::options::Options;
use crate::net::overflow::{self, Overflow};
use crate::net::ports::{Ports, port_of_stream};
use crate::net::session::RtpSession;
use crate::results::Measured;
use room::Room;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the program looks what has come.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What a room's socket is asked to hold: a second of many legs.
const SOCKET_BYTES: usize = 256 * 1024;

/// What is conferred.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Room n is port + n.
    pub on: SocketAddr,
    /// Rooms.
    pub rooms: usize,
    /// What payload types mean.
    pub formats: Formats,
    /// Samples a second in the rooms: only legs of this rate are heard.
    pub rate: u32,
    /// How long a packet lasts that is sent.
    pub packet_time: Duration,
    /// Legs in one room at most.
    pub legs: usize,
    /// A leg that sends nothing for so long has left.
    pub silence: Duration,
    /// Contexts: pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: creel::Observe,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Option<Duration>,
    /// Ends after so long in any case.
    pub time_limit: Option<Duration>,
    /// What is asked of the sockets.
    pub options: Options,
}

impl Plan {
    /// Rooms of telephony: 8,000 samples a second, 20 ms a packet.
    pub fn new(on: SocketAddr, rooms: usize) -> Self {
        Plan {
            on,
            rooms,
            formats: Formats::default(),
            rate: 8_000,
            packet_time: Duration::from_millis(20),
            legs: 64,
            silence: Duration::from_secs(10),
            contexts: 1,
            wait: Duration::from_millis(5),
            observe: creel::Observe::default(),
            idle: None,
            time_limit: None,
            options: Options::default(),
        }
    }
}

/// What a leg has said and heard.
#[derive(Debug, Clone, PartialEq)]
pub struct LegReport {
    /// Its room.
    pub room: usize,
    /// Its address.
    pub from: SocketAddr,
    /// Its format.
    pub format: Format,
    /// Packets that came from it.
    pub packets: u64,
    /// Packets that were sent to it.
    pub sent: u64,
    /// Packets that came after their time.
    pub late: u64,
    /// The share of its time that was concealed, 0 to 1.
    pub concealed: f64,
    /// The keys that it pressed.
    pub keys: String,
}

/// The totals of all rooms.
#[derive(Debug, Default)]
struct Totals {
    legs: Vec<LegReport>,
    packets: u64,
    sent: u64,
    /// Packets of no leg: another rate, no codec, no room for one more, no RTP.
    refused: u64,
}

type Shared = Arc<Mutex<Totals>>;

fn lock(totals: &Shared) -> std::sync::MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        .map(|(number, room)| contexts.of(number).spawn(room.run()).cancel_on_drop())
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
