//! Converts the kernel's times of arrival to the clock of the program.
//!
//! The kernel states the time of arrival by the system's clock, which an administrator or NTP can
//! set. Our figures use the monotonic clock. We therefore know the distance between the two clocks,
//! and measure it again several times per second, and whenever a time is implausible.
//!
//! A time of arrival does not depend on when a context wakes up, so neither do the figures.

use creel::net::{Datagram, UdpSocket};
use creel::time::Clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long we use a measured distance, in nanoseconds.
const REFRESH: u64 = 100_000_000;
/// No packet waits longer than this in the buffer of a socket, in nanoseconds. A packet that seems
/// to have done so means that the system's clock was set.
const WAIT_MAX: u64 = 10_000_000_000;
/// The number of attempts to read both clocks without an interruption in between.
const ATTEMPTS: usize = 4;
/// The reading of both clocks takes less time than this, unless the thread is interrupted.
const UNINTERRUPTED: u64 = 5_000;

/// Converts times of arrival.
#[derive(Debug)]
pub(crate) struct ArrivalClock {
    clock: Clock,
    /// The system's clock minus the monotonic clock, in nanoseconds.
    distance: i64,
    /// The monotonic time at which we measured it, or `None` before the first time.
    measured: Option<u64>,
}

/// Requests the times of arrival and the drop counts of a socket. A system without them makes the
/// program fall back to the time at which it reads a packet.
pub(crate) fn request(socket: &UdpSocket) {
    let _ = socket.set_arrival_info(true);
}

impl Default for ArrivalClock {
    fn default() -> Self {
        ArrivalClock {
            clock: Clock::monotonic(),
            distance: 0,
            measured: None,
        }
    }
}

impl ArrivalClock {
    /// Returns the current time of the monotonic clock in nanoseconds.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.nanos()
    }

    /// Returns when a datagram arrived, in nanoseconds of the monotonic clock. `now` is the current
    /// time of that clock.
    #[inline]
    pub(crate) fn arrival(&mut self, datagram: &Datagram<'_>, now: u64) -> u64 {
        match datagram.arrived {
            Some(at) => self.convert(at, now),
            None => now,
        }
    }

    #[inline]
    fn convert(&mut self, at: SystemTime, now: u64) -> u64 {
        let at = nanos(at);
        if self.measured.is_none_or(|before| now - before > REFRESH) {
            self.measure(now);
        }
        let arrival = at.wrapping_sub(self.distance) as u64;
        if now.wrapping_sub(arrival) <= WAIT_MAX {
            return arrival;
        }
        // The system's clock was set, or the distance is a little wrong. We measure again. If the
        // time is still implausible, we use `now`.
        self.measure(now);
        let arrival = at.wrapping_sub(self.distance) as u64;
        match now.wrapping_sub(arrival) <= WAIT_MAX {
            true => arrival,
            false => now,
        }
    }

    #[cold]
    fn measure(&mut self, now: u64) {
        let mut best = u64::MAX;
        for _ in 0..ATTEMPTS {
            let before = self.clock.nanos();
            let system = nanos(SystemTime::now());
            let took = self.clock.nanos() - before;
            if took < best {
                best = took;
                self.distance = system.wrapping_sub((before + took / 2) as i64);
            }
            if took < UNINTERRUPTED {
                break;
            }
        }
        self.measured = Some(now);
    }
}

/// Returns a time as nanoseconds since 1970.
fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as i64
}

/// Returns the time of arrival of a datagram since 1970, for captures and reports.
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
        let mut clock = ArrivalClock::default();
        let before = clock.now();
        let at = SystemTime::now();
        let after = clock.now();
        // We read the datagrams 20 ms after they have arrived.
        let read = clock.now() + 20_000_000;
        let arrival = clock.convert(at, read);
        // The two clocks are compared one after the other, so we allow for a small error.
        let allowed = before - 1_000_000..=after + 1_000_000;
        assert!(
            allowed.contains(&arrival),
            "{arrival} is not in {allowed:?}"
        );
        // Two datagrams keep their distance, however late we read them.
        let later = clock.convert(at + Duration::from_micros(250), read);
        assert_eq!(later - arrival, 250_000);
    }

    #[test]
    fn implausible_times_count_as_now() {
        let mut clock = ArrivalClock::default();
        let now = clock.now();
        for at in [UNIX_EPOCH, SystemTime::now() + Duration::from_secs(3_600)] {
            assert_eq!(clock.convert(at, now), now);
        }
    }
}
