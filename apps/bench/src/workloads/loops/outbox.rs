//! Side effects: each of 100,000 senders sends 8 bytes to one of 100,000 receivers.
//!
//! The state of a receiver depends on the order of its messages. All subjects except `mutex an
//! item` deliver them in a fixed order, so they have the same result with any number of threads.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use creel::{Outbox, Pool, Wait};

use super::ITEMS;
use super::floor::{Epoch, in_lockstep};
use crate::harness::{ONE_THREAD, Plan, Subject};

/// Messages from one half of the senders. Each message has the index of its receiver, counted from
/// the beginning of the receiver's half.
struct Bucket {
    messages: Vec<(u32, u64)>,
    used: usize,
}

/// Returns Creel with two settings, and then the same work written by hand.
pub fn subjects(workers: usize) -> Vec<Subject> {
    let creel = |name: &str, wait| {
        let builder = Pool::builder().workers(workers).wait(wait);
        Subject::new(name, move |plan| {
            Ok(outbox(plan, &builder.clone().build()?))
        })
    };
    let in_one_call = Pool::builder().workers(workers).wait(Wait::Adaptive);
    vec![
        creel("creel [sticky, adaptive]", Wait::Adaptive),
        creel("creel [sticky, park]", Wait::Park),
        Subject::new("creel exchange [sticky, adaptive]", move |plan| {
            Ok(exchange(plan, &in_one_call.clone().build()?))
        }),
        Subject::new(ONE_THREAD, |plan| Ok(one_thread(plan))),
        Subject::new("one thread, stored", |plan| Ok(stored(plan))),
        Subject::new("two buckets by hand", |plan| Ok(two_buckets(plan))),
        Subject::new("mutex an item", |plan| Ok(mutex_an_item(plan))),
    ]
}

/// Returns the messages. They are numbers without a pattern, and they determine their receivers.
fn messages() -> Vec<u64> {
    (1..=ITEMS as u64)
        .map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect()
}

fn receiver_of(message: u64) -> usize {
    ((message >> 32) as usize * ITEMS) >> 32
}

/// Applies a message to its receiver. The result depends on the order of the messages, so a subject
/// that delivers them in another order would be noticed.
fn receive(receiver: &mut u64, message: u64) {
    *receiver = receiver.wrapping_mul(31).wrapping_add(message);
}

fn outbox(plan: &Plan, pool: &Pool) -> f64 {
    let (mut messages, mut receivers) = (messages(), vec![0; ITEMS]);
    let mut outbox = Outbox::new();
    plan.time(|| {
        pool.for_each(
            (&mut messages, outbox.for_receivers(ITEMS)),
            |(message, post)| {
                post.send(receiver_of(*message), *message);
            },
        );
        pool.deliver(&mut outbox, &mut receivers, |receiver, message| {
            receive(receiver, message)
        });
    })
}

/// Measures sending and delivering in one call of [`Pool::exchange`]. A pool that runs the call on
/// one thread can deliver each message at once, without storing it.
fn exchange(plan: &Plan, pool: &Pool) -> f64 {
    let (mut messages, mut receivers) = (messages(), vec![0; ITEMS]);
    let mut outbox = Outbox::new();
    plan.time(|| {
        pool.exchange(
            &mut messages,
            &mut outbox,
            &mut receivers,
            |message, post| post.send(receiver_of(*message), *message),
            receive,
        );
    })
}

fn one_thread(plan: &Plan) -> f64 {
    let (messages, mut receivers) = (messages(), vec![0; ITEMS]);
    plan.time(|| {
        for &message in &messages {
            receive(&mut receivers[receiver_of(message)], message);
        }
    })
}

/// Measures one thread that first stores all messages and then applies them. An outbox has to store
/// the messages too, because it does not know the receivers before [`Pool::deliver`]. Therefore a
/// loop and `deliver` cannot be faster than this on one thread, unless ranges of receivers help.
fn stored(plan: &Plan) -> f64 {
    let (messages, mut receivers) = (messages(), vec![0; ITEMS]);
    let mut stored = Vec::with_capacity(ITEMS);
    plan.time(|| {
        stored.clear();
        stored.extend(messages.iter().map(|&m| (receiver_of(m) as u32, m)));
        for &(receiver, message) in &stored {
            receive(&mut receivers[receiver as usize], message);
        }
    })
}

/// Measures two threads that own one half of the senders and of the receivers each.
///
/// Both threads first sort their messages by the half of the receiver. Then both apply the messages
/// for their own half. They begin with the messages from the first half of the senders.
fn two_buckets(plan: &Plan) -> f64 {
    struct Half {
        index: usize,
        senders: Range<usize>,
        receivers: Vec<u64>,
        met: u64,
    }
    let half = |index| Half {
        index,
        senders: index * ITEMS / 2..(index + 1) * ITEMS / 2,
        receivers: vec![0; ITEMS / 2],
        met: 0,
    };
    let messages = messages();
    let bucket = || {
        Mutex::new(Bucket {
            messages: vec![(0, 0); ITEMS / 2],
            used: 0,
        })
    };
    // The first index is the half of the sender, and the second one is the half of the receiver. A
    // thread takes each of its locks once per phase, and never waits for it.
    let buckets = [[bucket(), bucket()], [bucket(), bucket()]];
    let sorted: [Epoch; 2] = Default::default();
    let side = |half: &mut Half| {
        sort(
            &messages[half.senders.clone()],
            buckets[half.index].each_ref().map(open),
        );
        half.met += 1;
        sorted[half.index].set(half.met);
        sorted[1 - half.index].wait_for(half.met);
        for from in &buckets {
            let bucket = open(&from[half.index]);
            for &(receiver, message) in &bucket.messages[..bucket.used] {
                receive(&mut half.receivers[receiver as usize], message);
            }
        }
    };
    in_lockstep([half(0), half(1)], side, |call| plan.time(call))
}

/// Puts each message into the bucket for its receiver's half.
///
/// We write each message into both buckets and advance the index of only one. Without this, a
/// branch would choose the bucket, and a processor would mispredict it every other time, which
/// takes twice as long.
fn sort(messages: &[u64], [mut low, mut high]: [MutexGuard<'_, Bucket>; 2]) {
    let (lows, highs) = (&mut low.messages[..], &mut high.messages[..]);
    let (mut in_low, mut in_high) = (0, 0);
    for &message in messages {
        let receiver = receiver_of(message);
        let is_high = receiver >= ITEMS / 2;
        let place = (receiver - if is_high { ITEMS / 2 } else { 0 }) as u32;
        // A half has as many messages as a bucket has places. Therefore no index is beyond the end
        // of its bucket here, and `min` never changes one. It only shows the compiler that the
        // access is within bounds.
        lows[in_low.min(ITEMS / 2 - 1)] = (place, message);
        highs[in_high.min(ITEMS / 2 - 1)] = (place, message);
        in_low += usize::from(!is_high);
        in_high += usize::from(is_high);
    }
    (low.used, high.used) = (in_low, in_high);
}

/// Measures two threads that process one half of the senders each, and lock each receiver. The
/// order of messages is not determined.
fn mutex_an_item(plan: &Plan) -> f64 {
    let messages = messages();
    let receivers: Vec<Mutex<u64>> = (0..ITEMS).map(|_| Mutex::new(0)).collect();
    let side = |senders: &mut Range<usize>| {
        for &message in &messages[senders.clone()] {
            receive(&mut open(&receivers[receiver_of(message)]), message);
        }
    };
    let halves = [0..ITEMS / 2, ITEMS / 2..ITEMS];
    in_lockstep(halves, side, |call| plan.time(call))
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it holds the lock")
}
