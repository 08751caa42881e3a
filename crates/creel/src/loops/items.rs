//! What a loop visits: slices, ranges and what goes with them, side by side.
//!
//! The invariant: each index is given to one thread, once; so what a thread is given of a mutable
//! slice is its own. Whoever runs a loop promises that ([`Walk`]), and nothing here checks it again:
//! a slice is one word of a loop's closure, and the closure travels in the line that calls it.
//!
//! Two traits say what a closure is given, at an index ([`HasItem`]) and for a chunk of them
//! ([`HasChunk`]), so that a slice's items may be kept for as long as the slice is borrowed, but a
//! worker's scratch for one visit only.

use std::{marker::PhantomData, ops::Range};

/// What the verbs of loops visit: one of these, or a tuple of up to eight, which are visited side
/// by side and must be equally long.
///
/// | what | its item | in chunks |
/// |---|---|---|
/// | `&[T]`, `&Vec<T>`, `&[T; N]` | `&T` | `&[T]` |
/// | `&mut [T]`, `&mut Vec<T>`, `&mut [T; N]` | `&mut T` | `&mut [T]` |
/// | `Range<usize>` | `usize` | `Range<usize>` |
/// | [`&mut Scratch<S>`](crate::Scratch) | `&mut S`, the visiting worker's own | the same |
/// | [`outbox.for_receivers(n)`](crate::Outbox::for_receivers) | `&mut OutboxSender<M>`, to send messages by | the same |
/// | [`Tiles`](super::Tiles), [`TilesMut`](super::TilesMut) | a tile of a grid | – |
///
/// Every verb's closure is told the index first, and then the item, or the tuple of items. Scratch
/// and outboxes have as many items as what stands beside them.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut place, mut speed) = (vec![0.0; 100], vec![1.0; 100]);
/// let push = vec![2.0; 100];
/// pool.for_each((&mut place, &mut speed, &push), |(x, v, push)| {
///     *v += push;
///     *x += *v;
/// });
/// assert_eq!(place[99], 3.0);
/// # Ok::<(), creel::BuildError>(())
/// ```
///
/// ParChunks that differ in length are refused:
/// ```should_panic
/// let pool = creel::Pool::builder().workers(2).build().unwrap();
/// pool.for_each((&[1, 2, 3], &[1, 2]), |(a, b)| assert_eq!(a, b));
/// ```
#[diagnostic::on_unimplemented(
    message = "a loop cannot visit `{Self}`",
    label = "not a slice, a range, or a tuple of them",
    note = "lend it: `&xs` to read, `&mut xs` to change; several go side by side as a tuple, \
            `(&mut xs, &ys)`, of at most eight"
)]
pub trait ParItems: sealed::Walk + for<'x> HasItem<'x> {}

impl<I: sealed::Walk + for<'x> HasItem<'x>> ParItems for I {}

/// [`ParItems`] that lie one behind the other, so that a loop can be given chunks of them: all but
/// tiles.
///
/// ```
/// use creel::loops::ParChunks;
///
/// /// A verb of one's own.
/// fn parts(pool: &creel::Pool, items: impl ParChunks) -> usize {
///     pool.map_chunks(items, 100, |_| ()).len()
/// }
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut a, b) = (vec![0; 250], [0; 250]);
/// assert_eq!(parts(&pool, (&mut a, &b, 0..250)), 3);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a loop cannot visit chunks of `{Self}`",
    label = "not a slice, a range, or a tuple of them",
    note = "lend it: `&xs` to read, `&mut xs` to change; several go side by side as a tuple, \
            `(&mut xs, &ys)`, of at most eight"
)]
pub trait ParChunks: ParItems + sealed::WalkChunks + for<'x> HasChunk<'x> {}

impl<I: ParItems + sealed::WalkChunks + for<'x> HasChunk<'x>> ParChunks for I {}

/// What a closure is given of [`ParItems`] at an index, for the time `'x` of its call.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{HasItem, ParItems};
///
/// /// Something that visits numbers, wherever they are.
/// fn total<I: ParItems + for<'x> HasItem<'x, Item = usize>>(pool: &creel::Pool, items: I) -> usize {
///     pool.sum(items, |n| n)
/// }
/// assert_eq!(total(&pool, 0..10), 45);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(message = "a loop cannot visit `{Self}`")]
pub trait HasItem<'x, Outlives = &'x Self> {
    /// It.
    type Item;
}

/// What a closure is given of [`ParChunks`] for a chunk, for the time `'x` of its call.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{HasChunk, ParChunks};
///
/// /// Something that visits ranges.
/// fn lengths<I>(pool: &creel::Pool, items: I) -> Vec<usize>
/// where
///     I: ParChunks + for<'x> HasChunk<'x, Chunk = std::ops::Range<usize>>,
/// {
///     pool.map_chunks(items, 4, |part| part.len())
/// }
/// assert_eq!(lengths(&pool, 0..10), [4, 4, 2]);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(message = "a loop cannot visit chunks of `{Self}`")]
pub trait HasChunk<'x, Outlives = &'x Self> {
    /// It.
    type Chunk;
}

/// The item of `I`, as a closure is given it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{ItemOf, ParItems};
///
/// /// Every other item.
/// fn every_other<I: ParItems>(pool: &creel::Pool, items: I, f: impl Fn(ItemOf<'_, I>) + Sync) {
///     pool.for_each_indexed(items, |index, item| if index % 2 == 0 { f(item) });
/// }
/// let mut items = [1, 2, 3];
/// every_other(&pool, &mut items, |item| *item *= 10);
/// assert_eq!(items, [10, 2, 30]);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub type ItemOf<'x, I> = <I as HasItem<'x>>::Item;

/// The part of `I` in a chunk, as a closure is given it.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{ChunkOf, ParChunks};
///
/// /// Chunks of 1,000, whatever they are of.
/// fn by_thousands<I: ParChunks>(pool: &creel::Pool, items: I, f: impl Fn(ChunkOf<'_, I>) + Sync) {
///     pool.for_each_chunk(items, 1000, |part| f(part));
/// }
/// let mut items = vec![1; 2500];
/// by_thousands(&pool, &mut items, |part| part.fill(part.len()));
/// assert_eq!((items[0], items[2499]), (1000, 500));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub type ChunkOf<'x, I> = <I as HasChunk<'x>>::Chunk;

pub(super) use sealed::{Count, Walk, WalkChunks};

pub(super) mod sealed {
    use super::{HasChunk, HasItem, Range};

    /// How threads get at the items.
    ///
    /// # Safety
    /// No two threads are given the same at the same time, if the callers keep their side.
    pub unsafe trait Walk: Sized + for<'x> HasItem<'x> {
        /// Where they are: seen by all threads.
        type Base: Sync;
        /// What one thread visits some units with.
        type Hand;
        /// Whether they have a number, and not just as many as there is beside them.
        const COUNTED: bool;
        /// Whether they have something of its own for each section of the loop.
        const IN_SECTIONS: bool = false;
        /// Whether one item is as much work as many of a slice.
        const COARSE: bool = false;

        /// Says how many they are.
        fn count(&self, count: &mut Count);

        /// How many workers they can be visited by.
        fn most(&self) -> usize {
            usize::MAX
        }

        /// Lays them out for a loop of so many sections.
        fn open(self, sections: usize) -> Self::Base;

        /// What the thread `who` visits units of this section with.
        ///
        /// # Safety
        /// While the hand is in use, no other thread has this `who`, or this section. `who` is
        /// below `most`, and the section below the number opened.
        unsafe fn take(base: &Self::Base, who: usize, section: usize) -> Self::Hand;

        /// The item at this index.
        ///
        /// # Safety
        /// The index is below the number of items, and nobody was given it before in this loop.
        unsafe fn item<'x>(hand: &'x mut Self::Hand, index: usize) -> <Self as HasItem<'x>>::Item
        where
            Self: 'x;
    }

    /// The same for chunks.
    ///
    /// # Safety
    /// As for [`Walk`].
    pub unsafe trait WalkChunks: Walk + for<'x> HasChunk<'x> {
        /// The part in this range of indices.
        ///
        /// # Safety
        /// The range is not the wrong way round and inside the items, and nobody was given any of
        /// it before in this loop.
        unsafe fn chunk<'x>(
            hand: &'x mut Self::Hand,
            range: Range<usize>,
        ) -> <Self as HasChunk<'x>>::Chunk
        where
            Self: 'x;
    }

    /// Counts what is visited side by side: they must be equally many.
    #[derive(Default)]
    pub struct Count {
        pub(in crate::loops) len: Option<usize>,
        /// The place of the one that `len` is from, and of the next to be counted.
        first: usize,
        next: usize,
        /// The place and length of one that differs.
        other: Option<(usize, usize)>,
    }

    impl Count {
        /// One that has so many.
        #[inline]
        pub fn add(&mut self, len: usize) {
            match self.len {
                None => (self.len, self.first) = (Some(len), self.next),
                Some(first) if first != len && self.other.is_none() => {
                    self.other = Some((self.next, len));
                }
                Some(_) => {}
            }
            self.next += 1;
        }

        /// One that has as many as there are beside it.
        #[inline]
        pub fn pass(&mut self) {
            self.next += 1;
        }

        /// How many they are.
        #[inline]
        #[track_caller]
        pub(in crate::loops) fn all(&self) -> usize {
            let len = self.len.unwrap_or(0);
            if let Some((place, other)) = self.other {
                differ(self.first, len, place, other);
            }
            len
        }
    }

    #[cold]
    #[track_caller]
    fn differ(first: usize, len: usize, place: usize, other: usize) -> ! {
        panic!(
            "a loop visits items side by side, so they must be equally many: \
             number {} of the tuple has {len}, number {} has {other}",
            first + 1,
            place + 1
        )
    }
}

/// Where a mutable slice begins whose items go to different threads.
pub struct Base<'a, T> {
    first: *mut T,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Base<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Base<'_, T> {}

// SAFETY: through a shared `Base` threads get `&mut T` of different items (`item` and `part` demand
// it), which is what sending those items would give them; so `T: Send` is enough.
unsafe impl<T: Send> Sync for Base<'_, T> {}

impl<'a, T> Base<'a, T> {
    pub(super) fn new(items: &'a mut [T]) -> Self {
        Self {
            first: items.as_mut_ptr(),
            borrow: PhantomData,
        }
    }

    /// # Safety
    /// The index is inside the slice, and nobody else uses its item during `'a`.
    #[inline]
    pub(super) unsafe fn item(self, index: usize) -> &'a mut T {
        // SAFETY: inside the slice, says the caller.
        let item = unsafe { self.first.add(index) };
        // SAFETY: validity: an item of a slice that is borrowed mutably for `'a`. Aliasing: nobody
        // else uses it, says the caller.
        unsafe { &mut *item }
    }

    /// # Safety
    /// The range is not the wrong way round and inside the slice, and nobody else uses its items
    /// during `'a`.
    #[inline]
    pub(super) unsafe fn part(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: inside the slice or at its end, says the caller.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: validity: these items are of a slice that is borrowed mutably for `'a`. Aliasing:
        // nobody else uses them, says the caller.
        unsafe { std::slice::from_raw_parts_mut(first, range.end - range.start) }
    }
}

/// The same for a slice that is only read.
pub struct ReadBase<'a, T> {
    first: *const T,
    borrow: PhantomData<&'a [T]>,
}

impl<T> Clone for ReadBase<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ReadBase<'_, T> {}

// SAFETY: it stands for a `&[T]`, which threads may share if `T` is `Sync`.
unsafe impl<T: Sync> Sync for ReadBase<'_, T> {}

impl<'a, T> ReadBase<'a, T> {
    fn new(items: &'a [T]) -> Self {
        Self {
            first: items.as_ptr(),
            borrow: PhantomData,
        }
    }

    /// # Safety
    /// The index is inside the slice.
    #[inline]
    unsafe fn item(self, index: usize) -> &'a T {
        // SAFETY: inside the slice, says the caller.
        let item = unsafe { self.first.add(index) };
        // SAFETY: an item of a slice that is borrowed for `'a`, and only read.
        unsafe { &*item }
    }

    /// # Safety
    /// The range is not the wrong way round and inside the slice.
    #[inline]
    unsafe fn part(self, range: Range<usize>) -> &'a [T] {
        // SAFETY: inside the slice or at its end, says the caller.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: items of a slice that is borrowed for `'a`, and only read.
        unsafe { std::slice::from_raw_parts(first, range.end - range.start) }
    }
}

/// For something that lends a slice: what its items and parts are, where it begins, and what threads
/// must be allowed to do with an item.
macro_rules! slices {
    ($([$($of:tt)*] $slice:ty: $item:ty, $part:ty, $base:ident, $may:ident;)*) => {$(
        impl<'a, $($of)*> HasItem<'_> for $slice {
            type Item = $item;
        }

        impl<'a, $($of)*> HasChunk<'_> for $slice {
            type Chunk = $part;
        }

        // SAFETY: what is lent to be read is only read, by threads that may share it; of what is lent
        // to be changed nobody is given an item twice, say the callers, and items may be sent.
        unsafe impl<'a, $($of)*> Walk for $slice
        where
            T: $may,
        {
            type Base = $base<'a, T>;
            type Hand = $base<'a, T>;
            const COUNTED: bool = true;

            #[inline]
            fn count(&self, count: &mut Count) {
                count.add(self.len());
            }

            #[inline]
            fn open(self, _: usize) -> Self::Base {
                $base::new(self)
            }

            #[inline]
            unsafe fn take(base: &Self::Base, _: usize, _: usize) -> Self::Hand {
                *base
            }

            #[inline]
            unsafe fn item<'x>(hand: &'x mut Self::Hand, index: usize) -> $item
            where
                Self: 'x,
            {
                // SAFETY: inside the slice, and given once in the loop, which has it for `'a`, says
                // the caller.
                unsafe { hand.item(index) }
            }
        }

        // SAFETY: as above.
        unsafe impl<'a, $($of)*> WalkChunks for $slice
        where
            T: $may,
        {
            #[inline]
            unsafe fn chunk<'x>(hand: &'x mut Self::Hand, range: Range<usize>) -> $part
            where
                Self: 'x,
            {
                // SAFETY: inside the slice, and given once in the loop, which has it for `'a`, says
                // the caller.
                unsafe { hand.part(range) }
            }
        }
    )*};
}

slices! {
    [T] &'a [T]: &'a T, &'a [T], ReadBase, Sync;
    [T] &'a Vec<T>: &'a T, &'a [T], ReadBase, Sync;
    [T, const N: usize] &'a [T; N]: &'a T, &'a [T], ReadBase, Sync;
    [T] &'a mut [T]: &'a mut T, &'a mut [T], Base, Send;
    [T] &'a mut Vec<T>: &'a mut T, &'a mut [T], Base, Send;
    [T, const N: usize] &'a mut [T; N]: &'a mut T, &'a mut [T], Base, Send;
}

impl HasItem<'_> for Range<usize> {
    type Item = usize;
}

impl HasChunk<'_> for Range<usize> {
    type Chunk = Range<usize>;
}

// SAFETY: numbers are given, nothing that is somewhere.
unsafe impl Walk for Range<usize> {
    type Base = usize;
    type Hand = usize;
    const COUNTED: bool = true;

    #[inline]
    fn count(&self, count: &mut Count) {
        count.add(self.len());
    }

    #[inline]
    fn open(self, _: usize) -> usize {
        self.start
    }

    #[inline]
    unsafe fn take(base: &usize, _: usize, _: usize) -> usize {
        *base
    }

    #[inline]
    unsafe fn item<'x>(hand: &'x mut usize, index: usize) -> usize
    where
        Self: 'x,
    {
        *hand + index
    }
}

// SAFETY: as above.
unsafe impl WalkChunks for Range<usize> {
    #[inline]
    unsafe fn chunk<'x>(hand: &'x mut usize, range: Range<usize>) -> Range<usize>
    where
        Self: 'x,
    {
        *hand + range.start..*hand + range.end
    }
}

/// For a tuple: each does its part.
macro_rules! tuple {
    ($($part:ident $at:tt),*) => {
        impl<'x, $($part: HasItem<'x>),*> HasItem<'x> for ($($part,)*) {
            type Item = ($($part::Item,)*);
        }

        impl<'x, $($part: HasChunk<'x>),*> HasChunk<'x> for ($($part,)*) {
            type Chunk = ($($part::Chunk,)*);
        }

        // SAFETY: each gives a thread what is its own, and they are different borrows.
        unsafe impl<$($part: Walk),*> Walk for ($($part,)*) {
            type Base = ($($part::Base,)*);
            type Hand = ($($part::Hand,)*);
            const COUNTED: bool = $($part::COUNTED)||*;
            const IN_SECTIONS: bool = $($part::IN_SECTIONS)||*;
            const COARSE: bool = $($part::COARSE)||*;

            #[inline]
            fn count(&self, count: &mut Count) {
                $(self.$at.count(count);)*
            }

            #[inline]
            fn most(&self) -> usize {
                usize::MAX$(.min(self.$at.most()))*
            }

            #[inline]
            fn open(self, sections: usize) -> Self::Base {
                ($(self.$at.open(sections),)*)
            }

            #[inline]
            unsafe fn take(base: &Self::Base, who: usize, section: usize) -> Self::Hand {
                ($(
                    // SAFETY: the caller promises each of them what it promises all.
                    unsafe { $part::take(&base.$at, who, section) },
                )*)
            }

            #[inline]
            unsafe fn item<'x>(
                hand: &'x mut Self::Hand,
                index: usize,
            ) -> <Self as HasItem<'x>>::Item
            where
                Self: 'x,
            {
                ($(
                    // SAFETY: the caller promises each of them what it promises all.
                    unsafe { $part::item(&mut hand.$at, index) },
                )*)
            }
        }

        // SAFETY: as above.
        unsafe impl<$($part: WalkChunks),*> WalkChunks for ($($part,)*) {
            #[inline]
            unsafe fn chunk<'x>(
                hand: &'x mut Self::Hand,
                range: Range<usize>,
            ) -> <Self as HasChunk<'x>>::Chunk
            where
                Self: 'x,
            {
                ($(
                    // SAFETY: the caller promises each of them what it promises all.
                    unsafe { $part::chunk(&mut hand.$at, range.clone()) },
                )*)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
