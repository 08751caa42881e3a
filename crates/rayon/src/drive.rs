//! Drives an indexed parallel iterator on a pool.
//!
//! We cut the iterator into pieces, run a loop over the pieces, and reduce their results. rayon's
//! own bridge cuts when its workers steal, because it uses rayon's `join`. We make all cuts first,
//! along a tree that depends only on the number of items and of pieces. The pieces are then the
//! items of an ordinary loop of Creel, which already knows how to share and steal them and how to
//! keep each on its worker.
//!
//! Invariant: `leaves` has the pieces in order. `reducers` has one reducer per cut. The reducer of
//! a cut comes before those of its left side, and these come before those of its right side.
//!
//! If a closure panics, we drop the leaves as they are. The producers then drop their items, and
//! the results drop their contents.

use crate::OnPool;
use creel::{Balance, Pool};
use rayon::iter::IndexedParallelIterator;
use rayon::iter::plumbing::{Consumer, Folder, Producer, ProducerCallback, Reducer};
use std::mem;

/// Runs the iterator on its pool and returns the result of the consumer.
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

/// The callback that receives the producer from rayon.
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
        // From here on, the leaves own the consumers, so we do not use them directly any more.
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

/// The pieces of a producer and the reducers of the cuts. Each piece has its own part of the
/// consumer.
struct Tree<P, C, R, Rd> {
    leaves: Vec<Leaf<P, C, R>>,
    reducers: Vec<Rd>,
}

/// The state of a piece.
enum Leaf<P, C, R> {
    /// The piece has not started.
    Ready(P, C),
    /// The closures of the piece are running, or one of them has panicked.
    Running,
    /// The piece is done.
    Done(R),
}

impl<P: Producer, C: Consumer<P::Item>> Tree<P, C, C::Result, C::Reducer> {
    fn new(pieces: usize) -> Self {
        Self {
            leaves: Vec::with_capacity(pieces),
            reducers: Vec::with_capacity(pieces - 1),
        }
    }

    /// Cuts `len` items into `pieces` pieces whose lengths differ by at most one. Each cut is as
    /// close to the middle as possible.
    fn cut(&mut self, len: usize, pieces: usize, producer: P, consumer: C) {
        if pieces == 1 {
            self.leaves.push(Leaf::Ready(producer, consumer));
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
    /// Runs the piece, and keeps its result. Until then, the leaf is in the state `Running`, so
    /// that a panic leaves it there.
    fn fold(&mut self) {
        if let Leaf::Ready(producer, consumer) = mem::replace(self, Leaf::Running) {
            *self = Leaf::Done(fold(producer, consumer));
        }
    }
}

/// Passes the items of a piece to its consumer and returns the consumer's result. If the consumer
/// needs no more items, for example because another piece has found a match, passes none.
fn fold<P: Producer, C: Consumer<P::Item>>(producer: P, consumer: C) -> C::Result {
    if consumer.full() {
        consumer.into_folder().complete()
    } else {
        producer.fold_with(consumer.into_folder()).complete()
    }
}

/// Reduces the results of the pieces along the tree of cuts.
fn put_together<P, C, R, Rd: Reducer<R>>(
    pieces: usize,
    leaves: &mut impl Iterator<Item = Leaf<P, C, R>>,
    reducers: &mut impl Iterator<Item = Rd>,
) -> R {
    if pieces == 1 {
        match leaves.next() {
            Some(Leaf::Done(result)) => return result,
            _ => unreachable!("the loop returned without running a piece"),
        }
    }
    let reducer = reducers.next().expect("there is one reducer per cut");
    let left = put_together(pieces / 2, leaves, reducers);
    let right = put_together(pieces - pieces / 2, leaves, reducers);
    reducer.reduce(left, right)
}
