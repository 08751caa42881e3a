//! Memory for task cells and channels: heaps that belong to one local scheduler each.
//!
//! A [`Heap`] cuts chunks of 64 KiB, aligned to their size, into blocks of one size class.
//! Its owner takes and gives blocks without an atomic operation; any other thread gives a block
//! back by pushing it on the heap's stack of returns, which the owner takes whole when its own
//! list is empty. A block finds its heap by its address: the chunk's header tells.
//!
//! Blocks are *type-stable*: as long as the heap lives, a block that was once a cell stays a
//! cell's memory, its first word an initialized state word. The run queues' hints rest on it.
//! The price: memory is kept for the next tasks until the pool is dropped, never given back before.
//!
//! Blocks for channels come from chunks of their own, which no hint refers to and no walk visits.
//! What a channel leaves in its block may be uninitialized, so nothing here makes a reference to a
//! block: the link of a free one is reached by [`set_next`] and [`next_of`] alone.
//!
//! The heap outlives its pool while a waker outlives it: [`Heap::orphan`] leaves the heap to
//! the blocks still out, and the last one returned frees everything.
//!
//! Left out: blocks above 32 KiB (a larger future is boxed before it becomes a task).

use crate::sync::{AtomicIsize, AtomicPtr, AtomicUsize, Mutex, Ordering, UnsafeCell, lock};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// A chunk's size and alignment.
const CHUNK: usize = 64 << 10;
/// What a block's size is a multiple of, and its alignment.
pub(super) const GRAIN: usize = 16;
/// Up to here each multiple of the grain is a class, above each power of two.
const FINE_MAX: usize = 1024;
const FINE: usize = FINE_MAX / GRAIN;
/// The largest block.
pub(super) const BLOCK_MAX: usize = 32 << 10;
const CELL_CLASSES: usize = FINE + (BLOCK_MAX / FINE_MAX).ilog2() as usize;
/// The largest block for a channel; above the cells' classes each multiple of the grain is one.
pub(super) const CHANNEL_MAX: usize = 256;
const CLASSES: usize = CELL_CLASSES + CHANNEL_MAX / GRAIN;
/// How many fresh blocks are cut at a time.
const CUT: usize = 32;
/// The largest allocation, in chunks.
const REGION_MAX: usize = 16;

/// The size class of cells of `size` bytes, 1 to [`BLOCK_MAX`].
#[inline]
const fn class_of(size: usize) -> usize {
    if size <= FINE_MAX {
        (size - 1) / GRAIN
    } else {
        FINE + ((size - 1) / FINE_MAX).ilog2() as usize
    }
}

/// The size of a class's blocks.
#[inline]
const fn size_of_class(class: usize) -> usize {
    if class >= CELL_CLASSES {
        (class - CELL_CLASSES + 1) * GRAIN
    } else if class < FINE {
        (class + 1) * GRAIN
    } else {
        FINE_MAX << (class - FINE + 1)
    }
}

/// What a block must begin with.
#[repr(C)]
pub(super) struct Block {
    /// The cell's state word; the heap only keeps it initialized.
    pub(super) state: super::state::State,
    /// The next block in a free list. Touched only by who owns the block.
    pub(super) next: AtomicPtr<Block>,
}

/// At the start of each chunk.
#[repr(C)]
struct Chunk {
    heap: NonNull<Heap>,
    /// The heap's.
    scheduler_at: *const (),
    class: usize,
    /// How many blocks have been cut: these begin with an initialized [`Block`]. Stored with
    /// release by the owner, after it has initialized them; loaded with acquire by the walk.
    cut: AtomicUsize,
}

/// The first block's offset.
const FIRST: usize = size_of::<Chunk>().next_multiple_of(GRAIN);

/// What only the owner touches.
struct Own {
    /// The heap, as `new` gave it: good for freeing it, which a reference is not.
    heap: *mut Heap,
    /// Free blocks, by size class.
    free: [*mut Block; CLASSES],
    /// The chunk that fresh blocks come from, by size class.
    fresh: [*mut Chunk; CLASSES],
    /// Blocks handed out and not yet known to have come back.
    out: isize,
    /// The chunks already allocated and not yet given to a class.
    spare: Vec<*mut Chunk>,
}

/// Blocks of memory, with one owner at a time.
pub(super) struct Heap {
    /// Who schedules the tasks in this heap's cells.
    pub(super) scheduler: std::sync::Arc<dyn super::cell::Schedule>,
    /// Its address, for comparison.
    scheduler_at: *const (),
    own: UnsafeCell<Own>,
    /// Blocks that other threads gave back: a stack, or `ORPHANED`. Pushed with release, taken
    /// whole with acquire, so there is no ABA.
    returns: CachePadded<AtomicPtr<Block>>,
    /// Once orphaned: blocks still out. Negative while the orphaning is under way.
    out_as_orphan: AtomicIsize,
    /// The chunks that have a header, for the walk.
    chunks: Mutex<Vec<*mut Chunk>>,
    /// Every allocation made, with its length in chunks.
    regions: Mutex<Vec<(*mut Chunk, usize)>>,
}

// SAFETY: `own` is touched by the owner only, as the callers of the unsafe methods promise; the
// rest is atomic or locked.
unsafe impl Send for Heap {}
// SAFETY: through a shared heap, `own` is touched by the owner only, one thread at a time, as the
// callers of the unsafe methods promise; the rest is atomic or locked.
unsafe impl Sync for Heap {}

/// In `returns`: the heap has no owner any more.
fn orphaned() -> *mut Block {
    ptr::without_provenance_mut(1)
}

impl Heap {
    pub(super) fn new(scheduler: std::sync::Arc<dyn super::cell::Schedule>) -> NonNull<Heap> {
        let own = Own {
            heap: ptr::null_mut(),
            free: [ptr::null_mut(); CLASSES],
            fresh: [ptr::null_mut(); CLASSES],
            out: 0,
            spare: Vec::new(),
        };
        let heap = NonNull::from(Box::leak(Box::new(Heap {
            scheduler_at: std::sync::Arc::as_ptr(&scheduler).cast(),
            scheduler,
            own: UnsafeCell::new(own),
            returns: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            out_as_orphan: AtomicIsize::new(0),
            chunks: Mutex::new(Vec::new()),
            regions: Mutex::new(Vec::new()),
        })));
        // SAFETY: just made.
        let own = unsafe { &(*heap.as_ptr()).own };
        // SAFETY: nobody else knows it yet.
        own.with_mut(|own| unsafe { (*own).heap = heap.as_ptr() });
        heap
    }

    /// The heap that a block came from.
    ///
    /// # Safety
    ///
    /// The block came from [`alloc`](Self::alloc) and has not been freed.
    #[inline]
    pub(super) unsafe fn of(block: NonNull<Block>) -> NonNull<Heap> {
        // SAFETY: chunks are aligned to their size, and a live block's chunk lives.
        unsafe { (*chunk_of(block)).heap }
    }

    /// The address of the scheduler of a block's heap, for comparison.
    ///
    /// # Safety
    ///
    /// As for [`of`](Self::of).
    #[inline]
    pub(super) unsafe fn scheduler_at(block: NonNull<Block>) -> *const () {
        // SAFETY: chunks are aligned to their size, and a live block's chunk lives.
        unsafe { (*chunk_of(block)).scheduler_at }
    }

    /// A block of at least `size` bytes, beginning with an initialized [`Block`], of which other
    /// threads may still look at the state word.
    ///
    /// # Safety
    ///
    /// The caller is the heap's owner; `size` is 1 to [`BLOCK_MAX`].
    #[inline]
    pub(super) unsafe fn alloc(&self, size: usize) -> NonNull<Block> {
        // SAFETY: the caller is the owner, so `own` is its alone; the class of a size in range is
        // one of the classes.
        unsafe { self.take(class_of(size)) }
    }

    /// Memory for a channel: at least `size` bytes, aligned to [`GRAIN`], freed as a cell is.
    ///
    /// # Safety
    ///
    /// The caller is the heap's owner; `size` is 1 to [`CHANNEL_MAX`].
    #[inline]
    pub(super) unsafe fn alloc_for_channel(&self, size: usize) -> NonNull<u8> {
        // SAFETY: the caller is the owner, so `own` is its alone; the class of a size in range is
        // one of the classes for channels.
        unsafe { self.take(CELL_CLASSES + (size - 1) / GRAIN) }.cast()
    }

    /// # Safety
    ///
    /// The caller is the heap's owner.
    #[inline]
    unsafe fn take(&self, class: usize) -> NonNull<Block> {
        self.own.with_mut(|own| {
            // SAFETY: the caller is the owner, and nothing in here calls foreign code.
            let own = unsafe { &mut *own };
            own.out += 1;
            match own.pop(class) {
                Some(block) => block,
                None => self.refill(own, class),
            }
        })
    }

    #[cold]
    fn refill(&self, own: &mut Own, class: usize) -> NonNull<Block> {
        self.take_returns(own);
        loop {
            if let Some(block) = own.pop(class) {
                return block;
            }
            self.cut(own, class);
        }
    }

    /// Moves what others gave back to the owner's lists.
    fn take_returns(&self, own: &mut Own) {
        let mut next = self.returns.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(block) = NonNull::new(next) {
            // SAFETY: validity: who gave it back set its link. Aliasing: it is the owner's now.
            next = unsafe { next_of(block) };
            own.out -= 1;
            // SAFETY: validity: the header of a returned block's chunk, which lives with the heap.
            // Aliasing: `class` is written once, before the chunk is known.
            let class = unsafe { (*chunk_of(block)).class };
            // SAFETY: a block of this class, which is the owner's.
            unsafe { own.push(block, class) };
        }
    }

    /// Puts up to `CUT` fresh blocks of this class in its free list.
    fn cut(&self, own: &mut Own, class: usize) {
        let size = size_of_class(class);
        let capacity = (CHUNK - FIRST) / size;
        let mut chunk = own.fresh[class];
        // SAFETY: a class's fresh chunk lives with the heap.
        let full = |chunk: *mut Chunk| unsafe { (*chunk).cut.load(Ordering::Relaxed) } == capacity;
        if chunk.is_null() || full(chunk) {
            chunk = self.spare_chunk(own);
            let header = Chunk {
                // SAFETY: not null since `new`.
                heap: unsafe { NonNull::new_unchecked(own.heap) },
                scheduler_at: self.scheduler_at,
                class,
                cut: AtomicUsize::new(0),
            };
            // SAFETY: a spare chunk is CHUNK bytes that only the owner knows.
            unsafe { chunk.write(header) };
            self.publish(chunk);
            own.fresh[class] = chunk;
        }
        // SAFETY: validity: the header was written when the chunk became the class's, and lives
        // with the heap. Aliasing: it is only shared; `cut` is atomic, and written by the owner
        // alone.
        let header = unsafe { &*chunk };
        let first = header.cut.load(Ordering::Relaxed);
        let last = capacity.min(first + CUT);
        // Downwards, so that the list hands them out upwards.
        for index in (first..last).rev() {
            // SAFETY: within the chunk, as `index` is below its capacity.
            let block = unsafe { chunk.byte_add(FIRST + index * size) }.cast::<Block>();
            let fresh = Block {
                state: super::state::State::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
            };
            // SAFETY: aligned to GRAIN, not handed out before.
            unsafe { block.write(fresh) };
            // SAFETY: not null, as it lies behind the chunk's header.
            let block = unsafe { NonNull::new_unchecked(block) };
            // SAFETY: a block of this class, which nobody has.
            unsafe { own.push(block, class) };
        }
        header.cut.store(last, Ordering::Release);
    }

    /// A chunk of uninitialized memory.
    fn spare_chunk(&self, own: &mut Own) -> *mut Chunk {
        if let Some(chunk) = own.spare.pop() {
            return chunk;
        }
        let mut regions = lock(&self.regions);
        let chunks = (1 << regions.len().min(8)).min(REGION_MAX);
        let layout = region_layout(chunks);
        // SAFETY: the layout is not empty.
        let region = unsafe { alloc(layout) }.cast::<Chunk>();
        if region.is_null() {
            handle_alloc_error(layout);
        }
        regions.push((region, chunks));
        // The last first, so that they are used upwards.
        let later = (1..chunks).rev();
        // SAFETY: within the region.
        own.spare
            .extend(later.map(|i| unsafe { region.byte_add(i * CHUNK) }));
        region
    }

    /// Lets the walk see a chunk.
    fn publish(&self, chunk: *mut Chunk) {
        lock(&self.chunks).push(chunk);
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// The block came from `alloc` of the heap that [`of`](Self::of) tells and is not used again,
    /// but for its state word by stale hints. If `mine` is that heap, the caller is its owner.
    #[inline]
    pub(super) unsafe fn free(block: NonNull<Block>, mine: Option<NonNull<Heap>>) {
        // SAFETY: the block is not freed yet.
        let heap = unsafe { Self::of(block) };
        if mine != Some(heap) {
            // SAFETY: validity: the block came from that heap, which lives while the block is out.
            // Aliasing: it is not used again, says the caller, but for its state word.
            unsafe { Self::return_lease(heap, block) };
            return;
        }
        // SAFETY: a heap lives while one of its blocks is out.
        unsafe { heap.as_ref() }.own.with_mut(|own| {
            // SAFETY: the caller is the owner, and nothing in here calls foreign code.
            let own = unsafe { &mut *own };
            own.out -= 1;
            // SAFETY: validity: the block's chunk lives with the heap. Aliasing: `class` is written
            // once, before the chunk is known.
            let class = unsafe { (*chunk_of(block)).class };
            // SAFETY: a block of this class, which the caller gives up.
            unsafe { own.push(block, class) };
        });
    }

    /// Gives a block back from a thread that is not the owner.
    ///
    /// # Safety
    ///
    /// As for [`free`](Self::free), with the block's heap; it is not used again by the caller.
    unsafe fn return_lease(heap: NonNull<Heap>, block: NonNull<Block>) {
        // Not a reference to the heap: once the block is back, others may free it.
        // SAFETY: a heap lives while one of its blocks is out.
        let returns = unsafe { &(*heap.as_ptr()).returns };
        let mut head = returns.load(Ordering::Relaxed);
        while head != orphaned() {
            // SAFETY: the block is the caller's until it is pushed.
            unsafe { set_next(block, head) };
            let pushed = returns.compare_exchange_weak(
                head,
                block.as_ptr(),
                Ordering::Release,
                Ordering::Acquire,
            );
            match pushed {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
        // SAFETY: the block is still out.
        let out = unsafe { &(*heap.as_ptr()).out_as_orphan };
        // Acquire and release, so that the one that ends the heap has seen all others leave it.
        if out.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the last block is back, and the owner left before.
            unsafe { Self::end(heap) };
        }
    }

    /// Leaves the heap to the blocks that are still out.
    ///
    /// # Safety
    ///
    /// The caller is the owner, no hint to a block of this heap is left, and the caller does not
    /// use the heap again.
    pub(super) unsafe fn orphan(heap: NonNull<Heap>) {
        // SAFETY: the heap lives until `out_as_orphan` is settled below.
        let this = unsafe { heap.as_ref() };
        let mut next = this.returns.swap(orphaned(), Ordering::AcqRel);
        let out = this.own.with_mut(|own| {
            // SAFETY: the caller is the owner.
            let own = unsafe { &mut *own };
            while let Some(block) = NonNull::new(next) {
                // SAFETY: validity: who gave it back set its link. Aliasing: it is the owner's now.
                next = unsafe { next_of(block) };
                own.out -= 1;
            }
            own.out
        });
        if this.out_as_orphan.fetch_add(out, Ordering::AcqRel) + out == 0 {
            // SAFETY: every block is back.
            unsafe { Self::end(heap) };
        }
    }

    /// Frees the heap and its memory.
    ///
    /// # Safety
    ///
    /// No block is out and nobody uses the heap any more.
    unsafe fn end(heap: NonNull<Heap>) {
        // SAFETY: made by `Box::leak` in `new`, ended once.
        let heap = unsafe { Box::from_raw(heap.as_ptr()) };
        for (region, chunks) in lock(&heap.regions).drain(..) {
            // SAFETY: allocated with this layout in `spare_chunk`.
            unsafe { dealloc(region.cast(), region_layout(chunks)) };
        }
    }

    /// Calls `f` with every cell that has ever been cut, in use or not.
    ///
    /// # Safety
    ///
    /// The heap has not been orphaned. `f` may use the block's state word only, unless that tells
    /// it more.
    pub(super) unsafe fn walk(&self, mut f: impl FnMut(NonNull<Block>)) {
        let chunks = lock(&self.chunks).clone();
        for chunk in chunks {
            // SAFETY: a published chunk has a header and lives with the heap.
            let header = unsafe { &*chunk };
            if header.class >= CELL_CLASSES {
                continue;
            }
            let size = size_of_class(header.class);
            for index in 0..header.cut.load(Ordering::Acquire) {
                // SAFETY: within the chunk.
                let block = unsafe { chunk.byte_add(FIRST + index * size) }.cast::<Block>();
                // SAFETY: not null.
                f(unsafe { NonNull::new_unchecked(block) });
            }
        }
    }
}

impl Own {
    #[inline]
    fn pop(&mut self, class: usize) -> Option<NonNull<Block>> {
        let block = NonNull::new(self.free[class])?;
        // SAFETY: a free block is the owner's, and `push` set its link.
        self.free[class] = unsafe { next_of(block) };
        Some(block)
    }

    /// # Safety
    ///
    /// A block of this class, in one of the heap's chunks, which nobody else has or uses, but for
    /// its state word by stale hints.
    #[inline]
    unsafe fn push(&mut self, block: NonNull<Block>, class: usize) {
        // SAFETY: the block is the owner's.
        unsafe { set_next(block, self.free[class]) };
        self.free[class] = block.as_ptr();
    }
}

/// Links a free block to the next. What was in the place may be uninitialized.
///
/// # Safety
///
/// The block is the caller's; others may look at its state word.
#[inline]
unsafe fn set_next(block: NonNull<Block>, next: *mut Block) {
    // SAFETY: validity: inside a block. Aliasing: a pointer, no reference.
    let link = unsafe { &raw mut (*block.as_ptr()).next };
    // SAFETY: validity: as the line before; an atomic has nothing to drop. Aliasing: the link is
    // the caller's alone.
    unsafe { link.write(AtomicPtr::new(next)) };
}

/// The block that a free one is linked to.
///
/// # Safety
///
/// The block is the caller's, and [`set_next`] was the last to write there.
#[inline]
unsafe fn next_of(block: NonNull<Block>) -> *mut Block {
    // SAFETY: validity: the link is initialized, as the caller says; this refers to it alone.
    // Aliasing: nobody writes to the caller's block.
    unsafe { &(*block.as_ptr()).next }.load(Ordering::Relaxed)
}

/// The chunk that a block lies in.
#[inline]
fn chunk_of(block: NonNull<Block>) -> *mut Chunk {
    block.as_ptr().map_addr(|a| a & !(CHUNK - 1)).cast()
}

fn region_layout(chunks: usize) -> Layout {
    Layout::from_size_align(chunks * CHUNK, CHUNK).unwrap_or_else(|e| unreachable!("{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class() {
        for size in 1..=BLOCK_MAX {
            let class = class_of(size);
            assert!(size_of_class(class) >= size, "{size}");
            assert!(class == 0 || size_of_class(class - 1) < size, "{size}");
            assert!(class < CELL_CLASSES);
        }
    }
}
