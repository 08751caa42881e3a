//! Drives an indexed iterator on a pool: cut into pieces, a loop over them, put together.
//!
//! rayon's own bridge cuts as its workers steal, by its own `join`. Here all cuts are made first,
//! along a tree that depends on the number of items and of pieces only; the pieces are then the
//! items of an ordinary loop of Creel's, which knows how to share, steal and keep them at home.
//!
//! The invariant: `leaves` has the pieces in order, `reducers` one for each cut, a cut's before
//! those of its left side, and these before those of its right.
//!
//! When a closure panics, the leaves are dropped as they are: producers drop their items, results
//! what they hold.

use crate::OnPool;
use creel::{Balance, Pool};
use rayon::iter::IndexedParallelIterator;
use rayon::iter::plumbing::{Consumer, Folder, Producer, ProducerCallback, Reducer};
use std::mem;

pub(crate) fn drive<I: IndexedParallelIterator, C: Consumer<I::Item>>(
    on: OnPool<'_, I>,
    consumer: C,
) -> C::Result {
    let len = on.iterator.len();
    let (pool, balance, pieces) = (on.pool, on.balance, on.pieces);
    on.iterator.with_producer(Drive {
        pool,
        balance,
        len,
        pieces,
        consumer,
    })
}

/// What is to be done with a producer, once rayon gives it.
struct Drive<'p, C> {
    pool: &'p Pool,
    balance: Option<Balance>,
    len: usize,
    pieces: usize,
    consumer: C,
}

impl<T, C: Consumer<T>> ProducerCallback<T> for Drive<'_, C> {
    type Output = C::Result;

    fn callback<P: Producer<Item = T>>(self, producer: P) -> C::Result {
        let (least, most) = (producer.min_len().max(1), producer.max_len().max(1));
        let pieces = self.pieces.min(self.len / least);
        let pieces = pieces.max(self.len.div_ceil(most)).max(1);
        if pieces == 1 {
            return fold(producer, self.consumer);
        }
        let mut tree = Tree::new(pieces);
        tree.cut(self.len, pieces, producer, self.consumer);
        // The consumers are in the leaves now.
        let each = |leaf: &mut Leaf<P, C, C::Result>| leaf.fold();
        match self.balance {
            None => self.pool.for_each(&mut tree.leaves, each),
            Some(balance) => self
                .pool
                .with_balance(balance)
                .for_each(&mut tree.leaves, each),
        }
        let mut leaves = tree.leaves.into_iter();
        put_together(pieces, &mut leaves, &mut tree.reducers.into_iter())
    }
}

/// The pieces of a producer, each with its part of the consumer.
struct Tree<P, C, R, Rd> {
    leaves: Vec<Leaf<P, C, R>>,
    reducers: Vec<Rd>,
}

enum Leaf<P, C, R> {
    Ahead(P, C),
    /// Its closure runs, or has panicked.
    Begun,
    Done(R),
}

impl<P: Producer, C: Consumer<P::Item>> Tree<P, C, C::Result, C::Reducer> {
    fn new(pieces: usize) -> Self {
        Self {
            leaves: Vec::with_capacity(pieces),
            reducers: Vec::with_capacity(pieces - 1),
        }
    }

    /// Cuts `len` items into `pieces` of even length, as near the middle as can be.
    fn cut(&mut self, len: usize, pieces: usize, producer: P, consumer: C) {
        if pieces == 1 {
            self.leaves.push(Leaf::Ahead(producer, consumer));
            return;
        }
        let left = pieces / 2;
        let middle = (len as u128 * left as u128 / pieces as u128) as usize;
        let (left_producer, right_producer) = producer.split_at(middle);
        let (left_consumer, right_consumer, reducer) = consumer.split_at(middle);
        self.reducers.push(reducer);
        self.cut(middle, left, left_producer, left_consumer);
        self.cut(len - middle, pieces - left, right_producer, right_consumer);
    }
}

impl<P: Producer, C: Consumer<P::Item>> Leaf<P, C, C::Result> {
    fn fold(&mut self) {
        if let Leaf::Ahead(producer, consumer) = mem::replace(self, Leaf::Begun) {
            *self = Leaf::Done(fold(producer, consumer));
        }
    }
}

/// Feeds all items to the consumer, unless it wants no more.
fn fold<P: Producer, C: Consumer<P::Item>>(producer: P, consumer: C) -> C::Result {
    if consumer.full() {
        consumer.into_folder().complete()
    } else {
        producer.fold_with(consumer.into_folder()).complete()
    }
}

fn put_together<P, C, R, Rd: Reducer<R>>(
    pieces: usize,
    leaves: &mut impl Iterator<Item = Leaf<P, C, R>>,
    reducers: &mut impl Iterator<Item = Rd>,
) -> R {
    if pieces == 1 {
        match leaves.next() {
            Some(Leaf::Done(result)) => return result,
            _ => unreachable!("a loop that returns has visited each piece"),
        }
    }
    let reducer = reducers.next().expect("a reducer for each cut");
    let left = put_together(pieces / 2, leaves, reducers);
    let right = put_together(pieces - pieces / 2, leaves, reducers);
    reducer.reduce(left, right)
}
