//! How a worker waits when a turn found nothing: the fourth knob's mechanism.

use super::{Wait, seat::Seat, shared::Shared};
use std::{
    hint::spin_loop,
    time::{Duration, Instant},
};

/// What `Adaptive` spins for at most.
const ADAPTIVE_SPIN: Duration = Duration::from_micros(20);

/// Returns when the seat was notified since its turn began, or for no reason.
pub(crate) fn until_notified(shared: &Shared, seat: &Seat) {
    let spin = match shared.wait {
        Wait::Spin(time) => time,
        Wait::Adaptive => ADAPTIVE_SPIN,
        Wait::Park | Wait::Throttle(_) => Duration::ZERO,
    };
    if !spin.is_zero() && spun(seat, spin) {
        return;
    }
    let begin = Instant::now();
    seat.park(None, || false);
    let parked = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    seat.counters.parks.add(1);
    seat.counters.parked_ns.add(parked);
}

/// Spins for at most `time`; says whether a notification ended it.
fn spun(seat: &Seat, time: Duration) -> bool {
    let begin = Instant::now();
    loop {
        // Reading the clock costs some 20 ns: look at the word many times between.
        for _ in 0..32 {
            if seat.notified() {
                return true;
            }
            spin_loop();
        }
        if begin.elapsed() >= time {
            return false;
        }
    }
}
