//! The things that a loop can visit: slices, ranges, and tuples of them.
//!
//! Each index is passed to one thread, once. The item of a mutable slice at that index therefore
//! belongs to this thread alone. The code that runs a loop promises to pass each index once
//! ([`Walk`]), and nothing in this module checks it again. We therefore keep only the start of a
//! slice, and not its length. A slice then takes only one word of the loop's closure, which we send
//! to the workers in one cache line.
//!
//! Two traits describe what a closure receives: [`HasItem`] for an index, and [`HasChunk`] for a
//! chunk of indices. Both traits have a lifetime parameter. A closure may keep the items of a slice
//! for as long as the slice is borrowed. However, it may use a worker's scratch during one visit
//! only.

use std::{marker::PhantomData, ops::Range};

/// The things that loops visit. This is one of the types below or a tuple of up to eight of them. A
/// loop visits the parts of a tuple in step, so they must have the same length.
///
/// | type | item | chunk |
/// |---|---|---|
/// | `&[T]`, `&Vec<T>`, `&[T; N]` | `&T` | `&[T]` |
/// | `&mut [T]`, `&mut Vec<T>`, `&mut [T; N]` | `&mut T` | `&mut [T]` |
/// | `Range<usize>` | `usize` | `Range<usize>` |
/// | [`&mut Scratch<S>`](crate::Scratch) | `&mut S`, which belongs to the visiting worker | the same |
/// | [`outbox.for_receivers(n)`](crate::Outbox::for_receivers) | `&mut OutboxSender<M>`, which sends messages | the same |
/// | [`Tiles`](super::Tiles), [`TilesMut`](super::TilesMut) | a tile of a grid | – |
///
/// The closure receives the item, or the tuple of items. The `_indexed` methods pass the index
/// first. A scratch or an outbox has no length of its own, so it takes the length of the other
/// parts of the tuple.
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
/// A loop panics if the lengths differ:
/// ```should_panic
/// let pool = creel::Pool::builder().workers(2).build().unwrap();
/// pool.for_each((&[1, 2, 3], &[1, 2]), |(a, b)| assert_eq!(a, b));
/// ```
#[diagnostic::on_unimplemented(
    message = "a loop cannot visit `{Self}`",
    label = "this is not a slice, a range, or a tuple of them",
    note = "pass `&xs` to read the items, or `&mut xs` to change them. To visit up to eight side \
            by side, pass a tuple such as `(&mut xs, &ys)`"
)]
pub trait ParItems: sealed::Walk + for<'x> HasItem<'x> {}

impl<I: sealed::Walk + for<'x> HasItem<'x>> ParItems for I {}

/// [`ParItems`] that a loop can also visit in chunks of consecutive items. All types of
/// [`ParItems`] except tiles are among them.
///
/// ```
/// use creel::loops::ParChunks;
///
/// /// Counts the chunks of any items.
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
    label = "this is not a slice, a range, or a tuple of them",
    note = "pass `&xs` to read the items, or `&mut xs` to change them. To visit up to eight side \
            by side, pass a tuple such as `(&mut xs, &ys)`"
)]
pub trait ParChunks: ParItems + sealed::WalkChunks + for<'x> HasChunk<'x> {}

impl<I: ParItems + sealed::WalkChunks + for<'x> HasChunk<'x>> ParChunks for I {}

/// The type of the item that a closure receives for an index. `'x` is the lifetime of the closure's
/// call. The item itself may live longer, for example if it is an item of a slice.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{HasItem, ParItems};
///
/// /// Adds numbers, wherever they are.
/// fn total<I: ParItems + for<'x> HasItem<'x, Item = usize>>(pool: &creel::Pool, items: I) -> usize {
///     pool.sum(items, |n| n)
/// }
/// assert_eq!(total(&pool, 0..10), 45);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(message = "a loop cannot visit `{Self}`")]
pub trait HasItem<'x, Outlives = &'x Self> {
    /// The item that the closure receives for one index.
    type Item;
}

/// The type of the chunk that a closure receives. `'x` is the lifetime of the closure's call. The
/// chunk itself may live longer, for example if it is a part of a slice.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{HasChunk, ParChunks};
///
/// /// Returns the lengths of the chunks of a range.
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
    /// The chunk that the closure receives.
    type Chunk;
}

/// The item type that a closure receives for items `I`. It is short for the `Item` of [`HasItem`].
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{ItemOf, ParItems};
///
/// /// Visits every other item.
/// fn every_other<I: ParItems>(pool: &creel::Pool, items: I, f: impl Fn(ItemOf<'_, I>) + Sync) {
///     pool.for_each_indexed(items, |index, item| if index % 2 == 0 { f(item) });
/// }
/// let mut items = [1, 2, 3];
/// every_other(&pool, &mut items, |item| *item *= 10);
/// assert_eq!(items, [10, 2, 30]);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub type ItemOf<'x, I> = <I as HasItem<'x>>::Item;

/// The chunk type that a closure receives for items `I`. It is short for the `Chunk` of
/// [`HasChunk`].
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::loops::{ChunkOf, ParChunks};
///
/// /// Visits any items in chunks of 1,000.
/// fn by_thousands<I: ParChunks>(pool: &creel::Pool, items: I, f: impl Fn(ChunkOf<'_, I>) + Sync) {
///     pool.for_each_chunk(items, 1000, |part| f(part));
/// }
/// let mut items = vec![1; 2500];
/// by_thousands(&pool, &mut items, |part| part.fill(part.len()));
/// assert_eq!((items[0], items[2499]), (1000, 500));
/// # Ok::<(), creel::BuildError>(())
/// ```
pub type ChunkOf<'x, I> = <I as HasChunk<'x>>::Chunk;

pub(super) use sealed::{Count, Sections, Walk, WalkChunks};

pub(super) mod sealed {
    use super::{HasChunk, HasItem, Range};

    /// The sections that a loop is cut into. One thread visits the units (items or chunks) of a
    /// section, in order.
    #[derive(Clone, Copy)]
    pub struct Sections {
        pub(in crate::loops) count: usize,
        /// The maximum number of threads that visit the sections.
        pub(in crate::loops) threads: usize,
    }

    impl Sections {
        /// One section for the calling thread.
        pub(in crate::loops) const ONE: Self = Self {
            count: 1,
            threads: 1,
        };
    }

    /// The way in which the threads of a loop access the items.
    ///
    /// # Safety
    /// If the callers obey the rules of these functions, no two threads receive the same item at
    /// the same time.
    pub unsafe trait Walk: Sized + for<'x> HasItem<'x> {
        /// The location of the items, which all threads share.
        type Base: Sync;
        /// The state that one thread needs while it visits some units (items or chunks). We call it
        /// the thread's *hand*.
        type Hand;
        /// Whether the items have a length of their own. For example, a slice has one, but a
        /// scratch does not, and takes the length of the other parts of the tuple.
        const COUNTED: bool;
        /// Whether the items have separate data for each section of the loop. For example, an
        /// outbox has a row of buckets per section.
        const IN_SECTIONS: bool = false;
        /// Whether one item is as much work as many items of a slice. For example, a tile is.
        const COARSE: bool = false;

        /// Adds the number of items to `count`.
        fn count(&self, count: &mut Count);

        /// Returns the maximum number of workers that can visit the items.
        fn most(&self) -> usize {
            usize::MAX
        }

        /// Returns whether one thread has visited the items faster than several threads in the
        /// measurements so far. Only an outbox measures this.
        fn prefers_one_thread(&self) -> bool {
            false
        }

        /// Prepares the items for a loop that is cut into these sections.
        fn open(self, sections: Sections) -> Self::Base;

        /// Returns the hand with which the thread `who` visits units of this section.
        ///
        /// # Safety
        /// While the hand is in use, no other thread uses the same `who` or the same section. `who`
        /// is below `most`, and the section is below the number that was opened.
        unsafe fn take(base: &Self::Base, who: usize, section: usize) -> Self::Hand;

        /// Returns the item at this index.
        ///
        /// # Safety
        /// The index is below the number of items, and nobody has received its item before in this
        /// loop.
        unsafe fn item<'x>(hand: &'x mut Self::Hand, index: usize) -> <Self as HasItem<'x>>::Item
        where
            Self: 'x;
    }

    /// Does the same as [`Walk`], for chunks.
    ///
    /// # Safety
    /// If the callers obey the rules of these functions, no two threads receive the same item at
    /// the same time.
    pub unsafe trait WalkChunks: Walk + for<'x> HasChunk<'x> {
        /// Returns the chunk with this range of indices.
        ///
        /// # Safety
        /// The range's start is not after its end, the range is inside the items, and nobody has
        /// received any of its items before in this loop.
        unsafe fn chunk<'x>(
            hand: &'x mut Self::Hand,
            range: Range<usize>,
        ) -> <Self as HasChunk<'x>>::Chunk
        where
            Self: 'x;
    }

    /// Collects the lengths of the parts of a tuple, so that a loop can panic with a clear message
    /// if two parts differ.
    #[derive(Default)]
    pub struct Count {
        pub(in crate::loops) len: Option<usize>,
        /// The position of the part that `len` comes from, and of the next part.
        first: usize,
        next: usize,
        /// The position and length of a part that differs.
        other: Option<(usize, usize)>,
    }

    impl Count {
        /// Records the length of the next part of the tuple.
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

        /// Skips a part of the tuple that has no length of its own.
        #[inline]
        pub fn pass(&mut self) {
            self.next += 1;
        }

        /// Returns the common length. Panics if two parts differ.
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
            "all parts of a loop must have the same number of items: number {} of the tuple has \
             {len}, number {} has {other}",
            first + 1,
            place + 1
        )
    }
}

/// The start of a mutable slice whose items go to different threads.
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

// SAFETY: Through a shared `Base`, threads get `&mut T` of different items, because `item` and
// `part` require it. Sending the items would give them the same access, so `T: Send` is enough.
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
        // SAFETY: The caller promises that the index is inside the slice.
        let item = unsafe { self.first.add(index) };
        // SAFETY: Validity: this is an item of a slice that is borrowed mutably for `'a`. Aliasing:
        // the caller promises that nobody else uses it.
        unsafe { &mut *item }
    }

    /// # Safety
    /// The range's start is not after its end, the range is inside the slice, and nobody else uses
    /// its items during `'a`.
    #[inline]
    pub(super) unsafe fn part(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: The caller promises that the start is inside the slice or at its end.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: Validity: these items belong to a slice that is borrowed mutably for `'a`.
        // Aliasing: the caller promises that nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(first, range.end - range.start) }
    }
}

/// The start of a slice that is only read.
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

// SAFETY: This represents a `&[T]`, which threads may share if `T` is `Sync`.
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
        // SAFETY: The caller promises that the index is inside the slice.
        let item = unsafe { self.first.add(index) };
        // SAFETY: This is an item of a slice that is borrowed for `'a` and only read.
        unsafe { &*item }
    }

    /// # Safety
    /// The range's start is not after its end, and the range is inside the slice.
    #[inline]
    unsafe fn part(self, range: Range<usize>) -> &'a [T] {
        // SAFETY: The caller promises that the start is inside the slice or at its end.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: These items belong to a slice that is borrowed for `'a` and only read.
        unsafe { std::slice::from_raw_parts(first, range.end - range.start) }
    }
}

/// Implements the traits for a reference to a slice. The arguments are the types of its items and
/// chunks, its base, and the trait that an item needs so that other threads may use it.
macro_rules! slices {
    ($([$($of:tt)*] $slice:ty: $item:ty, $part:ty, $base:ident, $may:ident;)*) => {$(
        impl<'a, $($of)*> HasItem<'_> for $slice {
            type Item = $item;
        }

        impl<'a, $($of)*> HasChunk<'_> for $slice {
            type Chunk = $part;
        }

        // SAFETY: A shared slice is only read, by threads that may share its items. For a mutable
        // slice, the callers promise that nobody receives an item twice, and the items are `Send`.
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
            fn open(self, _: Sections) -> Self::Base {
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
                // SAFETY: The caller promises that the index is inside the slice and is passed once
                // in the loop, which borrows the slice for `'a`.
                unsafe { hand.item(index) }
            }
        }

        // SAFETY: The reasons are the same as for `Walk`, which is implemented above.
        unsafe impl<'a, $($of)*> WalkChunks for $slice
        where
            T: $may,
        {
            #[inline]
            unsafe fn chunk<'x>(hand: &'x mut Self::Hand, range: Range<usize>) -> $part
            where
                Self: 'x,
            {
                // SAFETY: The caller promises that the range is inside the slice and is passed once
                // in the loop, which borrows the slice for `'a`.
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

// SAFETY: The items are numbers, and not places in memory.
unsafe impl Walk for Range<usize> {
    type Base = usize;
    type Hand = usize;
    const COUNTED: bool = true;

    #[inline]
    fn count(&self, count: &mut Count) {
        count.add(self.len());
    }

    #[inline]
    fn open(self, _: Sections) -> usize {
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

// SAFETY: The reasons are the same as for `Walk`, which is implemented above.
unsafe impl WalkChunks for Range<usize> {
    #[inline]
    unsafe fn chunk<'x>(hand: &'x mut usize, range: Range<usize>) -> Range<usize>
    where
        Self: 'x,
    {
        *hand + range.start..*hand + range.end
    }
}

/// Implements the traits for a tuple, by passing each call on to all parts.
macro_rules! tuple {
    ($($part:ident $at:tt),*) => {
        impl<'x, $($part: HasItem<'x>),*> HasItem<'x> for ($($part,)*) {
            type Item = ($($part::Item,)*);
        }

        impl<'x, $($part: HasChunk<'x>),*> HasChunk<'x> for ($($part,)*) {
            type Chunk = ($($part::Chunk,)*);
        }

        // SAFETY: Each part gives a thread only what belongs to the thread, and the parts are
        // different borrows.
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
            fn prefers_one_thread(&self) -> bool {
                $(self.$at.prefers_one_thread())||*
            }

            #[inline]
            fn open(self, sections: Sections) -> Self::Base {
                ($(self.$at.open(sections),)*)
            }

            #[inline]
            unsafe fn take(base: &Self::Base, who: usize, section: usize) -> Self::Hand {
                ($(
                    // SAFETY: The caller's promise applies to each part.
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
                    // SAFETY: The caller's promise applies to each part.
                    unsafe { $part::item(&mut hand.$at, index) },
                )*)
            }
        }

        // SAFETY: The reasons are the same as for `Walk`, which is implemented above.
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
                    // SAFETY: The caller's promise applies to each part.
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
