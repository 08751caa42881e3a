//! What a seat's thread does: one turn after another, and a wait when a turn found nothing.
//!
//! A turn looks at every source of work in a fixed order, and each source gives a bounded
//! amount, so that none starves another:
//!
//! 1. the pool's loop, if one is under way and this seat has a share in it;
//! 2. the seat's urgent jobs;
//! 3. tasks;
//! 4. due timers and ready sockets.
//!
//! A source is anything that (a) publishes its work before it calls [`Seat::notify`], and (b)
//! can be asked in a turn. That is all it takes to be sure that no work is slept over.

use super::{current, seat::Seat, shared::Shared, wait};
use std::sync::Arc;

/// The body of a seat's thread.
pub(crate) fn run(shared: Arc<Shared>, index: usize) {
    let _entered = current::enter(Arc::clone(&shared), index);
    let seat = shared.seats.seat(index);
    loop {
        seat.begin_turn();
        if turn(seat) {
            continue;
        }
        if shared.wants_gone(index) && seat.retire(|| true) {
            return;
        }
        wait::until_notified(&shared, seat);
    }
}

/// One turn. Says whether there may be more to do at once.
fn turn(seat: &Seat) -> bool {
    seat.run_urgent()
}
