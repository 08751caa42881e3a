//! [`Pool::exchange`], which sends and delivers the messages of an outbox in one call.

use super::{Outbox, OutboxSender, choice::Way, no_receiver};
use crate::{
    loops::{
        items::{ItemOf, ParItems, Sections, Walk},
        visit::count,
    },
    pool::{Balance, Pool},
    sync::now_ns,
};

/// Sends the messages of one sender in [`Pool::exchange`].
///
/// ```
/// use creel::loops::ExchangeSender;
///
/// /// Does the work of one sender.
/// fn vote<F: Fn(&mut u32, ()) + Sync>(voter: usize, post: &mut ExchangeSender<'_, (), u32, F>) {
///     post.send(voter % 2, ());
/// }
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut outbox, mut votes) = (creel::Outbox::new(), [0, 0]);
/// pool.exchange(0..5, &mut outbox, &mut votes, |n, post| vote(n, post), |votes, ()| *votes += 1);
/// assert_eq!(votes, [3, 2]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct ExchangeSender<'x, M, T, F>(To<'x, M, T, F>);

#[derive(Debug)]
enum To<'x, M, T, F> {
    /// The calling thread runs all senders, so it can deliver each message at once.
    Receivers(&'x mut [T], &'x F),
    Buckets(OutboxSender<'x, M>),
}

impl<M, T, F: Fn(&mut T, M)> ExchangeSender<'_, M, T, F> {
    /// Sends a message to the receiver with the index `to`.
    ///
    /// # Panics
    /// Panics if `to` is not below the number of receivers.
    #[inline(always)]
    pub fn send(&mut self, to: usize, message: M) {
        match &mut self.0 {
            To::Receivers(receivers, deliver) => {
                if to >= receivers.len() {
                    no_receiver(to, receivers.len());
                }
                deliver(&mut receivers[to], message);
            }
            To::Buckets(sender) => sender.send(to, message),
        }
    }
}

impl Pool {
    /// Calls `send(item, post)` once for each item and `deliver(receiver, message)` for each
    /// message that is sent with `post`. A receiver gets its messages in the order of their
    /// senders' indices, and the messages of one sender in the order in which they were sent.
    /// Blocks until all messages are delivered.
    ///
    /// The result is that of a loop over the items with the [`Outbox`], followed by
    /// [`deliver`](Self::deliver). This call is faster if little work is done for each message. In
    /// this case, the pool may let the calling thread do everything and deliver each message at
    /// once, without storing it. The outbox measures both ways, so create it once. Since `deliver`
    /// may be called while `send` runs, `send` must not hold a lock that `deliver` takes.
    ///
    /// The senders and the receivers cannot be the same slice. Use the two separate calls for that.
    ///
    /// # Panics
    /// Panics if slices in a tuple differ in length. Resumes the first panic of `send` or
    /// `deliver`. It is unspecified which messages were delivered in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let cars = [(0, 2.0), (1, 3.0), (0, 4.0)]; // a road and a weight
    /// let mut roads = [0.0, 0.0];
    /// let mut outbox = creel::Outbox::new();
    /// pool.exchange(
    ///     &cars,
    ///     &mut outbox,
    ///     &mut roads,
    ///     |(road, weight), post| post.send(*road, *weight),
    ///     |load, weight| *load += weight,
    /// );
    /// assert_eq!(roads, [6.0, 3.0]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn exchange<I: ParItems, M: Send, T: Send, F: Fn(&mut T, M) + Sync>(
        &self,
        items: I,
        outbox: &mut Outbox<M>,
        receivers: &mut [T],
        send: impl Fn(ItemOf<'_, I>, &mut ExchangeSender<'_, M, T, F>) + Sync,
        deliver: F,
    ) {
        let len = count(&items);
        let bound = outbox.for_receivers(receivers.len());
        // In a loop that is not sticky, calls may wait for each other, so the caller must not run
        // all of them alone.
        let alone = self.balance == Balance::Sticky && bound.prefers_one_thread();
        if alone || self.threads_for(len, items.most()) <= 1 {
            let begun_ns = now_ns();
            let base = items.open(Sections::ONE);
            // SAFETY: only this thread visits the items. Its index 0 is below any maximum, and
            // there is one section.
            let mut hand = unsafe { I::take(&base, 0, 0) };
            let mut post = ExchangeSender(To::Receivers(receivers, &deliver));
            let mut visit = |index| {
                // SAFETY: this closure is called once for each index.
                send(unsafe { I::item(&mut hand, index) }, &mut post);
            };
            // Four calls per iteration are a fifth faster than one, if `send` is short.
            let fours = len / 4 * 4;
            for index in (0..fours).step_by(4) {
                visit(index);
                visit(index + 1);
                visit(index + 2);
                visit(index + 3);
            }
            (fours..len).for_each(visit);
            let ns = now_ns().saturating_sub(begun_ns);
            outbox.choice.learn(Way::Alone, ns, 1);
            return;
        }
        self.walk((items, bound), |(hand, post), range, _| {
            for index in range {
                let sender = OutboxSender {
                    row: &mut *post.row,
                    shift: post.shift,
                    receivers: post.receivers,
                };
                // SAFETY: `walk` passes each index once, so no item is passed twice.
                let item = unsafe { I::item(hand, index) };
                send(item, &mut ExchangeSender(To::Buckets(sender)));
            }
        });
        self.deliver(outbox, receivers, deliver);
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    const RECEIVERS: usize = 3001;

    fn places(sender: usize) -> [usize; 2] {
        let near = sender.wrapping_mul(7919) % RECEIVERS;
        [near, (near * near + 13) % RECEIVERS]
    }

    /// Mixes a message into a receiver. The result depends on the order of the messages.
    fn receive(state: &mut usize, message: usize) {
        *state = state.rotate_left(5) ^ message.wrapping_mul(0x9E37_79B9);
    }

    /// Sends messages several times. Returns the receivers after each time.
    fn run(pool: &Pool, senders: usize, in_one_call: bool, forced: Option<Way>) -> Vec<Vec<usize>> {
        let (mut outbox, mut receivers) = (Outbox::new(), vec![1; RECEIVERS]);
        outbox.choice.forced = forced;
        let once = |_| {
            if in_one_call {
                let send = |sender, post: &mut ExchangeSender<'_, _, _, _>| {
                    places(sender)
                        .into_iter()
                        .for_each(|to| post.send(to, sender));
                };
                pool.exchange(0..senders, &mut outbox, &mut receivers, send, receive);
            } else {
                pool.for_each(
                    (0..senders, outbox.for_receivers(RECEIVERS)),
                    |(sender, post)| {
                        places(sender)
                            .into_iter()
                            .for_each(|to| post.send(to, sender));
                    },
                );
                assert_eq!(outbox.len(), 2 * senders);
                pool.deliver(&mut outbox, &mut receivers, receive);
            }
            assert!(outbox.is_empty());
            receivers.clone()
        };
        (0..20).map(once).collect()
    }

    #[test]
    fn exchanges_on_one_thread_and_on_several_have_the_same_result() {
        for senders in [0, 3, 300, 20_000] {
            let mut expected = vec![vec![1; RECEIVERS]; 20];
            let mut receivers = expected[0].clone();
            for after in &mut expected {
                for sender in 0..senders {
                    for to in places(sender) {
                        receive(&mut receivers[to], sender);
                    }
                }
                after.clone_from(&receivers);
            }
            for workers in [1, 2, 5] {
                for balance in [Balance::Sticky, Balance::Fixed, Balance::Shared] {
                    let builder = Pool::builder().workers(workers).balance(balance);
                    let pool = builder.build().expect("in range");
                    for forced in [None, Some(Way::Alone), Some(Way::Shared)] {
                        for in_one_call in [false, true] {
                            let got = run(&pool, senders, in_one_call, forced);
                            assert!(
                                got == expected,
                                "{workers} workers, {balance}, {senders} senders, {forced:?}, \
                                 in one call: {in_one_call}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// An outbox must use the way that a test forces. Otherwise, the test above would compare one
    /// way with itself.
    #[test]
    fn a_test_can_force_one_thread_or_several() {
        // A pool that adapts shares no sticky loop on a machine with one CPU.
        let builder = Pool::builder().workers(2).wait(crate::Wait::Park);
        let pool = builder.build().expect("in range");
        for (way, sections) in [(Way::Alone, 1), (Way::Shared, 16)] {
            let mut outbox = Outbox::new();
            outbox.choice.forced = Some(way);
            pool.for_each(
                (0..100_000, outbox.for_receivers(RECEIVERS)),
                |(n, post)| {
                    post.send(n % RECEIVERS, n);
                },
            );
            assert_eq!(outbox.sections, sections);
            assert_eq!(outbox.ranges > 1, way == Way::Shared);
        }
    }

    #[test]
    #[should_panic(
        expected = "cannot send a message to receiver 7, because there are only 7 receivers"
    )]
    fn a_message_to_a_missing_receiver_panics_with_its_index() {
        let pool = Pool::builder().workers(2).build().expect("in range");
        let (mut outbox, mut receivers) = (Outbox::new(), [0; 7]);
        pool.exchange(
            0..8,
            &mut outbox,
            &mut receivers,
            |n, post| post.send(n, n),
            |receiver, n| *receiver = n,
        );
    }
}
