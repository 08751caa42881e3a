//! Tests of outboxes and scratch: results have the same bits at any number of workers, messages
//! keep their order, and misuse is safe.

use creel::{Balance, Outbox, Pool, Scratch, Wait};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of items. Under Miri it is small, so that the tests take only a few seconds.
const MANY: usize = if cfg!(miri) { 44 } else { 2000 };

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// Mixes a message into the state of a receiver. The result depends on the order of the messages.
fn mix(state: u64, message: u64) -> u64 {
    state.rotate_left(5) ^ message.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn places(sender: u64, receivers: usize) -> [usize; 2] {
    let near = (sender as usize).wrapping_mul(7919) % receivers;
    [near, (near * near + 13) % receivers]
}

#[test]
fn messages_come_in_the_order_of_their_senders_at_any_number_of_workers() {
    let sizes = match cfg!(miri) {
        true => [(1, 1), (3, 20), (20, 3), (30, 7)],
        false => [(1, 1), (10, 3000), (5000, 100), (40_000, 3001)],
    };
    for (senders, receivers) in sizes {
        let first: Vec<u64> = (0..senders).collect();
        let mut expected = vec![1_u64; receivers];
        for sender in &first {
            for to in places(*sender, receivers) {
                expected[to] = mix(expected[to], *sender);
            }
        }
        // Under Miri we test only the first two entries of the list of worker numbers, because Miri
        // is slow.
        for &workers in &[1, 3, 2, 7, 64][..if cfg!(miri) { 2 } else { 5 }] {
            let pool = pool(workers);
            for balance in [Balance::Fixed, Balance::Sticky, Balance::Shared] {
                let loops = pool.with_balance(balance);
                let (mut from, mut to) = (first.clone(), vec![1; receivers]);
                let mut outbox = Outbox::new();
                loops.for_each_indexed(
                    (&mut from, outbox.for_receivers(to.len())),
                    |index, (sender, post)| {
                        for place in places(*sender, receivers) {
                            post.send(place, index as u64);
                        }
                    },
                );
                assert_eq!(outbox.len(), 2 * first.len());
                loops.deliver(&mut outbox, &mut to, |state, m| *state = mix(*state, m));
                assert!(outbox.is_empty());
                assert!(
                    to == expected,
                    "{workers} workers, {balance}, {senders} senders"
                );
            }
        }
    }
}

#[test]
fn one_loop_may_send_to_several_slices() {
    let pool = pool(3);
    let (mut even, mut odd) = (vec![0_u32; MANY], vec![String::new(); 3]);
    let (mut numbers, mut texts) = (Outbox::new(), Outbox::new());
    let mut senders: Vec<usize> = (0..MANY).collect();
    let both = (
        numbers.for_receivers(even.len()),
        texts.for_receivers(odd.len()),
    );
    pool.for_each_indexed(
        (&mut senders, both),
        |index, (_, (numbers, texts))| match index % 2 {
            0 => numbers.send(index, 7_u32),
            _ => texts.send(index % 3, 'x'),
        },
    );
    pool.deliver_indexed(&mut numbers, &mut even, |index, item, m| {
        assert_eq!(index % 2, 0);
        *item += m;
    });
    pool.deliver(&mut texts, &mut odd, |item, m| item.push(m));
    assert_eq!(even.iter().sum::<u32>() as usize, MANY / 2 * 7);
    assert_eq!(odd.iter().map(String::len).sum::<usize>(), MANY / 2);
}

#[test]
fn a_panic_names_the_missing_receiver_and_the_outbox_remains_usable() {
    let pool = pool(2);
    let (mut senders, mut receivers) = (vec![0_u8; MANY / 2], vec![0_u32; 10]);
    let mut outbox = Outbox::new();
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        pool.for_each_indexed(
            (&mut senders, outbox.for_receivers(10)),
            |index, (_, post)| {
                post.send(index % 11, Box::new(index));
            },
        );
    }));
    let text = *thrown.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(
        text,
        "cannot send a message to receiver 10, because there are only 10 receivers"
    );
    let address = outbox.for_receivers(10);
    pool.for_each_indexed((&mut senders, address), |i, (_, post)| {
        post.send(i % 10, Box::new(i))
    });
    let half = catch_unwind(AssertUnwindSafe(|| {
        pool.deliver(&mut outbox, &mut receivers, |_, m| assert!(*m != MANY / 4));
    }));
    assert!(half.is_err());
    pool.for_each((&mut senders, outbox.for_receivers(10)), |(_, post)| {
        post.send(3, Box::new(1))
    });
    pool.deliver(&mut outbox, &mut receivers, |item, _| *item += 1);
    assert_eq!(receivers[3] as usize, MANY / 2);
}

#[test]
#[should_panic(expected = "the outbox was made for")]
fn an_outbox_is_not_delivered_to_a_slice_of_another_length() {
    let mut outbox = Outbox::new();
    pool(2).for_each((&[1], outbox.for_receivers(3)), |(_, post)| {
        post.send(2, ())
    });
    pool(2).deliver(&mut outbox, &mut [0, 0], |_, ()| ());
}

#[test]
fn scratch_belongs_to_one_thread_and_limits_the_workers() {
    const ITEMS: u64 = 5 * MANY as u64;
    for (workers, have) in [(1, 1), (4, 4), (8, 3), (2, 1)] {
        let pool = pool(workers);
        let mut sums = Scratch::new(have, |_| 0_u64);
        let mut items: Vec<u64> = (0..ITEMS).collect();
        for _ in 0..5 {
            pool.for_each((&mut items, &mut sums), |(item, sum)| *sum += *item);
        }
        assert_eq!(sums.iter().sum::<u64>(), 5 * ITEMS * (ITEMS - 1) / 2);
    }
}

#[test]
fn zero_sized_receivers_may_number_up_to_usize_max() {
    let mut outbox = Outbox::<u8>::new();
    let mut receivers = vec![(); usize::MAX];
    let _ = outbox.for_receivers(receivers.len());
    pool(2).deliver(&mut outbox, &mut receivers, |(), _| ());
}
