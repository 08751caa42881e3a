//! Converts the kernel's times of arrival to the clock of the program.
//!
//! The kernel states the time of arrival by the system's clock, which an administrator or NTP can
//! set. Our figures use the monotonic clock. We therefore measure the distance between the two
//! clocks, and repeat this several times per second, and whenever a time is implausible.
//!
//! A time of arrival does not depend on when a context wakes up, so neither do the figures.

use creel::net::{Datagram, UdpSocket};
use creel::time::Clock;
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long we use a measured distance, in nanoseconds.
const REFRESH: u64 = 100_000_000;
/// No packet waits longer than this in the buffer of a socket, in nanoseconds. A packet that seems
/// to have done so means that the system's clock was set.
const WAIT_MAX: u64 = 10_000_000_000;
/// The number of attempts to read both clocks without an interruption in between.
const ATTEMPTS: usize = 4;
/// A reading of both clocks that takes less than this number of nanoseconds was not interrupted, so
/// we make no further attempt.
const UNINTERRUPTED: u64 = 5_000;

/// The distance of the two clocks.
#[derive(Debug, Clone, Copy)]
struct Distance {
    /// The system's clock minus the monotonic clock, in nanoseconds.
    nanos: i64,
    /// The monotonic time until which we use this distance. It is zero before the first
    /// measurement.
    until: u64,
}

thread_local! {
    /// The last measurement. It is thread-local, because the sockets of a context share it. With
    /// thousands of sockets, a measurement by each of them would cost more than the conversions.
    static DISTANCE: Cell<Distance> = const { Cell::new(Distance { nanos: 0, until: 0 }) };
}

/// Requests the times of arrival and the drop counts of a socket. A system without them makes the
/// program fall back to the time at which it reads a packet.
pub(crate) fn request(socket: &UdpSocket) {
    let _ = socket.set_arrival_info(true);
}

/// Returns the current time of the monotonic clock in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    Clock::monotonic().nanos()
}

/// Returns when a datagram arrived, in nanoseconds of the monotonic clock. `now` is the current
/// time of that clock.
#[inline]
pub(crate) fn arrival(datagram: &Datagram<'_>, now: u64) -> u64 {
    match datagram.arrived {
        Some(at) => convert(at, now),
        None => now,
    }
}

#[inline]
fn convert(at: SystemTime, now: u64) -> u64 {
    let at = nanos(at);
    let mut distance = DISTANCE.get();
    if now > distance.until {
        distance = measure(now);
    }
    let arrival = at.wrapping_sub(distance.nanos) as u64;
    match now.wrapping_sub(arrival) <= WAIT_MAX {
        true => arrival,
        false => convert_implausible(at, now),
    }
}

/// Converts a time that seems to be in the future or long ago. The system's clock was set, or the
/// distance is a little wrong.
#[cold]
fn convert_implausible(at: i64, now: u64) -> u64 {
    // We measure the distance once and keep the result, even if the time stays implausible.
    // Otherwise, each of the next datagrams would measure it again.
    let arrival = at.wrapping_sub(measure(now).nanos) as u64;
    match now.wrapping_sub(arrival) <= WAIT_MAX {
        true => arrival,
        false => now,
    }
}

#[cold]
fn measure(now: u64) -> Distance {
    let clock = Clock::monotonic();
    let (mut best, mut nanos) = (u64::MAX, 0);
    for _ in 0..ATTEMPTS {
        let before = clock.nanos();
        let system = self::nanos(SystemTime::now());
        let took = clock.nanos() - before;
        if took < best {
            best = took;
            nanos = system.wrapping_sub((before + took / 2) as i64);
        }
        if took < UNINTERRUPTED {
            break;
        }
    }
    let until = now + REFRESH;
    let distance = Distance { nanos, until };
    DISTANCE.set(distance);
    distance
}

/// Returns a time as nanoseconds since 1970.
fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The product fits until the year 2262. `as_nanos` would multiply 128-bit numbers.
    (since.as_secs() as i64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(since.subsec_nanos().into())
}

/// Returns the time of arrival of a datagram since 1970, or the current time if the time of arrival
/// is unknown. It is for captures and reports.
pub(crate) fn since_1970(arrived: Option<SystemTime>) -> Duration {
    arrived
        .unwrap_or_else(SystemTime::now)
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_arrival_is_converted_to_the_monotonic_clock() {
        let before = now();
        let at = SystemTime::now();
        let after = now();
        // We read the datagrams 20 ms after they have arrived.
        let read = now() + 20_000_000;
        let arrival = convert(at, read);
        // The two clocks are compared one after the other, so we allow for a small error.
        let allowed = before - 1_000_000..=after + 1_000_000;
        assert!(
            allowed.contains(&arrival),
            "{arrival} is not in {allowed:?}"
        );
        // Two datagrams keep their distance, however late we read them.
        let later = convert(at + Duration::from_micros(250), read);
        assert_eq!(later - arrival, 250_000);
    }

    #[test]
    fn implausible_times_of_arrival_are_replaced_by_the_current_time() {
        let now = now();
        for at in [UNIX_EPOCH, SystemTime::now() + Duration::from_secs(3_600)] {
            assert_eq!(convert(at, now), now);
        }
    }
}
