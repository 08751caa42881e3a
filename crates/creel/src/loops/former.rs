//! The names that loops had before: each calls the one that has taken its place. For one version,
//! so that a program which compiled yesterday does today, and is told what to write.

use super::{Addressed, Post};
use crate::pool::Pool;
use std::ops::Range;

impl Pool {
    /// Now [`each`](Self::each).
    #[deprecated(note = "`each(items, f)` visits shared slices, too")]
    #[track_caller]
    pub fn for_each<T: Sync>(&self, items: &[T], f: impl Fn(usize, &T) + Sync) {
        self.each(items, f);
    }

    /// Now [`each`](Self::each).
    #[deprecated(note = "now `each(items, f)`")]
    #[track_caller]
    pub fn for_each_mut<T: Send>(&self, items: &mut [T], f: impl Fn(usize, &mut T) + Sync) {
        self.each(items, f);
    }

    /// Now [`each`](Self::each) of a range.
    #[deprecated(note = "now `each(range, |_, index| …)`")]
    #[track_caller]
    pub fn for_each_index(&self, range: Range<usize>, f: impl Fn(usize) + Sync) {
        self.each(range, |_, index| f(index));
    }

    /// Now [`chunks`](Self::chunks), which tells where a chunk begins, not which one it is.
    #[deprecated(note = "now `chunks(items, len, |start, chunk| …)`")]
    #[track_caller]
    pub fn for_each_chunk_mut<T: Send>(
        &self,
        items: &mut [T],
        len: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        self.chunks(items, len, |start, chunk| f(start / len, chunk));
    }

    /// Now [`each`](Self::each) with an outbox beside the senders.
    #[deprecated(note = "now `each((senders, outbox), |index, (sender, post)| …)`")]
    #[track_caller]
    pub fn for_each_sending<T: Send, M: Send>(
        &self,
        senders: &mut [T],
        outbox: Addressed<'_, M>,
        f: impl Fn(usize, &mut T, &mut Post<'_, M>) + Sync,
    ) {
        self.each((senders, outbox), |index, (sender, post)| {
            f(index, sender, post)
        });
    }

    /// Now [`map_reduce`](Self::map_reduce).
    #[deprecated(note = "now `map_reduce(items, f, combine)`")]
    #[track_caller]
    pub fn reduce<T: Sync, R: Send>(
        &self,
        items: &[T],
        f: impl Fn(usize, &T) -> R + Sync,
        combine: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        self.map_reduce(items, f, combine)
    }
}
