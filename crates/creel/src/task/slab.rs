//! Memory for task cells and channels. It consists of heaps, each of which belongs to one local
//! scheduler.
//!
//! A [`Heap`] cuts chunks of 64 KiB, which are aligned to their size, into blocks of one size
//! class. Its owner allocates and frees blocks without an atomic operation. Any other thread frees
//! a block by pushing it on the heap's stack of returned blocks. If the other thread has a heap
//! itself, it first collects several blocks there, so that many threads do not compete for the
//! stack. The owner takes that whole stack when its own list is empty. We find the heap of a block
//! from the block's address, because the header of the chunk contains it.
//!
//! Blocks are *type-stable*. As long as the heap lives, a block that was once a cell remains a
//! cell's memory, and its first word remains an initialized state word. The hints of the run queues
//! rely on this. The price is that the heap keeps the memory of ended tasks for later tasks. It
//! returns memory to the system only as a whole, after the pool was dropped.
//!
//! Blocks for channels come from separate chunks, which no hint refers to and no walk visits. A
//! channel may leave uninitialized bytes in its block. Therefore this module never creates a
//! reference to a block, and accesses the link of a free one only through [`set_next`] and
//! [`next_of`].
//!
//! A heap outlives its pool if a waker or a handle of one of its tasks does, or a channel in it. In
//! that case [`Heap::orphan`] leaves the heap to the blocks that are still in use, and the thread
//! that returns the last one frees everything.
//!
//! We do not support blocks above 32 KiB, because a larger future is boxed before it becomes a
//! task.

use crate::sync::{
    AtomicIsize, AtomicPtr, AtomicUsize, Mutex, Ordering, UnsafeCell, lock, prefetch_to_write,
};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// The size and alignment of a chunk, in bytes.
const CHUNK: usize = 64 << 10;
/// The alignment of a block in bytes. The size of a block is a multiple of it.
pub(super) const GRAIN: usize = 16;
/// Up to this size in bytes, each multiple of [`GRAIN`] is a size class. Above it, each power of
/// two is a size class.
const FINE_MAX: usize = 1024;
const FINE: usize = FINE_MAX / GRAIN;
/// The size of the largest block, in bytes.
pub(super) const BLOCK_MAX: usize = 32 << 10;
const CELL_CLASSES: usize = FINE + (BLOCK_MAX / FINE_MAX).ilog2() as usize;
/// The size of the largest block for a channel, in bytes. Each multiple of [`GRAIN`] is a size
/// class of channels. These classes come after those of task cells.
pub(super) const CHANNEL_MAX: usize = 256;
const CLASSES: usize = CELL_CLASSES + CHANNEL_MAX / GRAIN;
/// The maximum number of fresh blocks that a heap cuts from a chunk at a time.
const CUT: usize = 32;
/// The maximum number of blocks of another heap that a heap collects before it returns them.
const COLLECTED_MAX: isize = 16;
/// A thread that uses free blocks one after another prefetches the block that it will use after
/// this number of further blocks.
const AHEAD: isize = 8;
/// The size of the largest allocation, in chunks.
const REGION_MAX: usize = 16;

/// Returns the size class of cells of `size` bytes, which must be 1 to [`BLOCK_MAX`].
#[inline]
const fn class_of(size: usize) -> usize {
    if size <= FINE_MAX {
        (size - 1) / GRAIN
    } else {
        FINE + ((size - 1) / FINE_MAX).ilog2() as usize
    }
}

/// Returns the block size of a class.
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

/// The beginning of every block. It stays initialized while the heap exists, because stale hints
/// read it.
#[repr(C)]
pub(super) struct Block {
    /// The state word of the cell. The heap only keeps it initialized.
    pub(super) state: super::state::State,
    /// The next block in a free list, or the next task in the only queue that holds this task
    /// (`inject.rs`). Only the owner of the block accesses it, or the thread that holds the lock of
    /// that queue.
    pub(super) next: AtomicPtr<Block>,
}

/// The header at the start of each chunk.
#[repr(C)]
struct Chunk {
    heap: NonNull<Heap>,
    /// A copy of the heap's `scheduler_at`, which is the address of the scheduler.
    scheduler_at: *const (),
    class: usize,
    /// The number of blocks that have been cut, and that therefore begin with an initialized
    /// [`Block`]. The owner's `Release` store comes after it has initialized them, and synchronizes
    /// with the `Acquire` load of the walk. Otherwise, the walk could read uninitialized memory.
    cut: AtomicUsize,
}

/// The offset of the first block.
const FIRST: usize = size_of::<Chunk>().next_multiple_of(GRAIN);

/// The state that only the owner accesses.
struct Own {
    /// The heap, as `new` created it. This pointer can be used to free the heap, which a reference
    /// cannot.
    heap: *mut Heap,
    /// The free blocks of each size class.
    free: [*mut Block; CLASSES],
    /// The chunk that fresh blocks come from, for each size class.
    fresh: [*mut Chunk; CLASSES],
    /// The number of blocks that were handed out and are not known to have been returned.
    out: isize,
    /// The chunks that are allocated and that no size class uses yet.
    spare: Vec<*mut Chunk>,
    /// The blocks of another heap that the owner has freed and not yet returned.
    collected: Option<Collected>,
}

/// Blocks of one heap, which are linked from the first one to the last one.
struct Collected {
    heap: NonNull<Heap>,
    first: NonNull<Block>,
    last: NonNull<Block>,
    count: isize,
}

/// A heap of blocks, which has one owner at a time.
pub(super) struct Heap {
    /// The scheduler of the tasks in this heap's cells.
    pub(super) scheduler: std::sync::Arc<dyn super::cell::Schedule>,
    /// The address of the scheduler, for comparison.
    scheduler_at: *const (),
    own: UnsafeCell<Own>,
    /// The blocks that other threads returned, as a stack, or the value of `orphaned()`. A push
    /// (`Release`) synchronizes with the owner's swap (`Acquire`). Therefore everything that a
    /// thread did with a block happens before the owner reuses the block. The owner takes all
    /// blocks at once, which avoids the ABA problem.
    returns: CachePadded<AtomicPtr<Block>>,
    /// Once the heap is orphaned, the number of blocks that are still in use. It is 0 before that,
    /// and it may be negative while the heap is being orphaned.
    out_as_orphan: AtomicIsize,
    /// The chunks that have a header, for a walk over all cells.
    chunks: Mutex<Vec<*mut Chunk>>,
    /// All allocations and their lengths in chunks.
    regions: Mutex<Vec<(*mut Chunk, usize)>>,
}

// SAFETY: only the owner accesses `own`, as the callers of the unsafe methods guarantee. Everything
// else is atomic or locked.
unsafe impl Send for Heap {}
// SAFETY: through a shared reference, only the owner accesses `own`, one thread at a time, as the
// callers of the unsafe methods guarantee. Everything else is atomic or locked.
unsafe impl Sync for Heap {}

/// Returns the value of `returns` if the heap has no owner any more.
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
            collected: None,
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
        // SAFETY: the heap has just been created.
        let own = unsafe { &(*heap.as_ptr()).own };
        // SAFETY: no other thread knows the heap yet.
        own.with_mut(|own| unsafe { (*own).heap = heap.as_ptr() });
        heap
    }

    /// Returns the heap that a block came from.
    ///
    /// # Safety
    ///
    /// The block must come from [`alloc`](Self::alloc) or
    /// [`alloc_for_channel`](Self::alloc_for_channel), and must not have been freed.
    #[inline]
    pub(super) unsafe fn of(block: NonNull<Block>) -> NonNull<Heap> {
        // SAFETY: chunks are aligned to their size, and the chunk of a live block is alive.
        unsafe { (*chunk_of(block)).heap }
    }

    /// Returns the address of the scheduler of a block's heap, for comparison.
    ///
    /// # Safety
    ///
    /// The same conditions as for [`of`](Self::of) apply.
    #[inline]
    pub(super) unsafe fn scheduler_at(block: NonNull<Block>) -> *const () {
        // SAFETY: chunks are aligned to their size, and the chunk of a live block is alive.
        unsafe { (*chunk_of(block)).scheduler_at }
    }

    /// Allocates a block of at least `size` bytes. It begins with an initialized [`Block`]. Other
    /// threads may still read its state word.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the heap, and `size` must be 1 to [`BLOCK_MAX`].
    #[inline]
    pub(super) unsafe fn alloc(&self, size: usize) -> NonNull<Block> {
        // SAFETY: the caller is the owner, so only it accesses `own`. The class of a size in range
        // is a valid class.
        unsafe { self.take(class_of(size)) }
    }

    /// Allocates memory for a channel. It has at least `size` bytes, is aligned to [`GRAIN`], and
    /// is freed like a cell.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the heap, and `size` must be 1 to [`CHANNEL_MAX`].
    #[inline]
    pub(super) unsafe fn alloc_for_channel(&self, size: usize) -> NonNull<u8> {
        // SAFETY: the caller is the owner, so only it accesses `own`. The class of a size in range
        // is one of the classes for channels.
        unsafe { self.take(CELL_CLASSES + (size - 1) / GRAIN) }.cast()
    }

    /// Takes a block of this class.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the heap.
    #[inline]
    unsafe fn take(&self, class: usize) -> NonNull<Block> {
        self.own.with_mut(|own| {
            // SAFETY: the caller is the owner, and nothing in this closure calls foreign code.
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

    /// Moves the blocks that other threads returned to the owner's lists.
    fn take_returns(&self, own: &mut Own) {
        let mut next = self.returns.swap(ptr::null_mut(), Ordering::Acquire);
        while let Some(block) = NonNull::new(next) {
            // SAFETY: validity: the thread that returned the block has set its link. Aliasing: the
            // block now belongs to the owner.
            next = unsafe { next_of(block) };
            prefetch_after(block, next);
            own.out -= 1;
            // SAFETY: validity: this is the header of a returned block's chunk, which lives as long
            // as the heap. Aliasing: `class` is written once, before any other thread knows the
            // chunk.
            let class = unsafe { (*chunk_of(block)).class };
            // SAFETY: the block is of this class and belongs to the owner.
            unsafe { own.push(block, class) };
        }
    }

    /// Adds up to `CUT` fresh blocks to the free list of this class.
    fn cut(&self, own: &mut Own, class: usize) {
        let size = size_of_class(class);
        let capacity = (CHUNK - FIRST) / size;
        let mut chunk = own.fresh[class];
        // SAFETY: the fresh chunk of a class lives as long as the heap.
        let full = |chunk: *mut Chunk| unsafe { (*chunk).cut.load(Ordering::Relaxed) } == capacity;
        if chunk.is_null() || full(chunk) {
            chunk = self.spare_chunk(own);
            let header = Chunk {
                // SAFETY: the pointer is not null, since `new` has set it.
                heap: unsafe { NonNull::new_unchecked(own.heap) },
                scheduler_at: self.scheduler_at,
                class,
                cut: AtomicUsize::new(0),
            };
            // SAFETY: a spare chunk has CHUNK bytes that only the owner knows.
            unsafe { chunk.write(header) };
            self.publish(chunk);
            own.fresh[class] = chunk;
        }
        // SAFETY: validity: the header was written when the class got the chunk, and lives as long
        // as the heap. Aliasing: the reference is shared. `cut` is atomic, and only the owner
        // writes it.
        let header = unsafe { &*chunk };
        let first = header.cut.load(Ordering::Relaxed);
        let last = capacity.min(first + CUT);
        // The free list is last-in, first-out. We add the blocks from the last to the first, so
        // that they are used in the order of their addresses.
        for index in (first..last).rev() {
            // SAFETY: the block is inside the chunk, because `index` is below its capacity.
            let block = unsafe { chunk.byte_add(FIRST + index * size) }.cast::<Block>();
            let fresh = Block {
                state: super::state::State::new(0),
                next: AtomicPtr::new(ptr::null_mut()),
            };
            // SAFETY: the block is aligned to GRAIN and has not been handed out before.
            unsafe { block.write(fresh) };
            // SAFETY: the pointer is not null, because it is behind the chunk's header.
            let block = unsafe { NonNull::new_unchecked(block) };
            // SAFETY: the block is of this class, and no other thread has it.
            unsafe { own.push(block, class) };
        }
        header.cut.store(last, Ordering::Release);
    }

    /// Returns a chunk of uninitialized memory.
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
        // We take chunks from the end of this list. Therefore the last chunk comes first, and the
        // chunks are used in the order of their addresses.
        let later = (1..chunks).rev();
        // SAFETY: the chunks are inside the region.
        own.spare
            .extend(later.map(|i| unsafe { region.byte_add(i * CHUNK) }));
        region
    }

    /// Makes a chunk visible to a walk over all cells.
    fn publish(&self, chunk: *mut Chunk) {
        lock(&self.chunks).push(chunk);
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// The block must come from `alloc` or `alloc_for_channel`. It must not be used again, except
    /// that stale hints may read the state word of a cell. If `mine` is the block's heap, the
    /// caller must be the owner of that heap.
    #[inline]
    pub(super) unsafe fn free(block: NonNull<Block>, mine: Option<NonNull<Heap>>) {
        // SAFETY: the block has not been freed yet.
        let heap = unsafe { Self::of(block) };
        let Some(mine) = mine else {
            let alone = Collected::new(heap, block);
            // SAFETY: the block came from that heap, and the caller does not use it again.
            return unsafe { Self::give_back(alone) };
        };
        if mine != heap {
            // SAFETY: the caller is the owner of this heap, which is alive.
            let mine = unsafe { mine.as_ref() };
            let full = mine.own.with_mut(|own| {
                // SAFETY: the caller is the owner, and nothing in this closure calls foreign code.
                let own = unsafe { &mut *own };
                own.collect(heap, block)
            });
            if let Some(full) = full {
                // SAFETY: these blocks came from their heap, and no thread uses them any more.
                unsafe { Self::give_back(full) };
            }
            return;
        }
        // SAFETY: a heap lives as long as one of its blocks is in use.
        unsafe { heap.as_ref() }.own.with_mut(|own| {
            // SAFETY: the caller is the owner, and nothing in this closure calls foreign code.
            let own = unsafe { &mut *own };
            own.out -= 1;
            // SAFETY: validity: the block's chunk lives as long as the heap. Aliasing: `class` is
            // written once, before any other thread knows the chunk.
            let class = unsafe { (*chunk_of(block)).class };
            // SAFETY: the block is of this class, and the caller gives it up.
            unsafe { own.push(block, class) };
        });
    }

    /// Returns the blocks of another heap that the owner of this one has collected.
    ///
    /// # Safety
    ///
    /// The caller must be the owner of the heap.
    pub(super) unsafe fn return_collected(&self) {
        // SAFETY: the caller is the owner.
        let collected = self
            .own
            .with_mut(|own| unsafe { &mut *own }.collected.take());
        if let Some(collected) = collected {
            // SAFETY: these blocks came from their heap, and no thread uses them any more.
            unsafe { Self::give_back(collected) };
        }
    }

    /// Returns blocks from a thread that is not the owner of their heap.
    ///
    /// # Safety
    ///
    /// The same conditions as for [`free`](Self::free) apply to each of the blocks. All of them must
    /// come from the given heap.
    unsafe fn give_back(blocks: Collected) {
        let Collected {
            heap,
            first,
            last,
            count,
        } = blocks;
        // We do not create a reference to the heap, because other threads may free the heap once
        // the blocks are returned.
        // SAFETY: a heap lives as long as one of its blocks is in use.
        let returns = unsafe { &(*heap.as_ptr()).returns };
        let mut head = returns.load(Ordering::Relaxed);
        while head != orphaned() {
            // SAFETY: the blocks belong to the caller until they are pushed.
            unsafe { set_next(last, head) };
            let pushed = returns.compare_exchange_weak(
                head,
                first.as_ptr(),
                Ordering::Release,
                Ordering::Acquire,
            );
            match pushed {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
        // SAFETY: the blocks are still in use.
        let out = unsafe { &(*heap.as_ptr()).out_as_orphan };
        // The changes of `out_as_orphan` are `AcqRel`. Each of them synchronizes with the later
        // ones, so that every other thread's last access to the heap happens before the thread that
        // reaches 0 frees it.
        if out.fetch_sub(count, Ordering::AcqRel) == count {
            // SAFETY: the last block has been returned, and the owner left before.
            unsafe { Self::end(heap) };
        }
    }

    /// Leaves the heap to the blocks that are still in use.
    ///
    /// # Safety
    ///
    /// The caller must be the owner and must not use the heap again. No hint to a block of this
    /// heap may be left.
    pub(super) unsafe fn orphan(heap: NonNull<Heap>) {
        // SAFETY: the heap lives until `out_as_orphan` is settled below.
        let this = unsafe { heap.as_ref() };
        // SAFETY: the caller is the owner.
        unsafe { this.return_collected() };
        let mut next = this.returns.swap(orphaned(), Ordering::AcqRel);
        let out = this.own.with_mut(|own| {
            // SAFETY: the caller is the owner.
            let own = unsafe { &mut *own };
            while let Some(block) = NonNull::new(next) {
                // SAFETY: validity: the thread that returned the block has set its link. Aliasing:
                // the block now belongs to the owner.
                next = unsafe { next_of(block) };
                own.out -= 1;
            }
            own.out
        });
        if this.out_as_orphan.fetch_add(out, Ordering::AcqRel) + out == 0 {
            // SAFETY: every block has been returned.
            unsafe { Self::end(heap) };
        }
    }

    /// Frees the heap and its memory.
    ///
    /// # Safety
    ///
    /// No block may be in use, and no thread may use the heap any more.
    unsafe fn end(heap: NonNull<Heap>) {
        // SAFETY: the heap was created by `Box::leak` in `new`, and is freed once.
        let heap = unsafe { Box::from_raw(heap.as_ptr()) };
        for (region, chunks) in lock(&heap.regions).drain(..) {
            // SAFETY: the region was allocated with this layout in `spare_chunk`.
            unsafe { dealloc(region.cast(), region_layout(chunks)) };
        }
    }

    /// Calls `f` with every cell that has ever been cut, whether it is in use or not.
    ///
    /// # Safety
    ///
    /// The heap must not have been orphaned. `f` may use only the block's state word, unless that
    /// word permits more.
    pub(super) unsafe fn walk(&self, mut f: impl FnMut(NonNull<Block>)) {
        let chunks = lock(&self.chunks).clone();
        for chunk in chunks {
            // SAFETY: a published chunk has a header and lives as long as the heap.
            let header = unsafe { &*chunk };
            if header.class >= CELL_CLASSES {
                continue;
            }
            let size = size_of_class(header.class);
            for index in 0..header.cut.load(Ordering::Acquire) {
                // SAFETY: the block is inside the chunk.
                let block = unsafe { chunk.byte_add(FIRST + index * size) }.cast::<Block>();
                // SAFETY: the pointer is not null.
                f(unsafe { NonNull::new_unchecked(block) });
            }
        }
    }
}

impl Own {
    #[inline]
    fn pop(&mut self, class: usize) -> Option<NonNull<Block>> {
        let block = NonNull::new(self.free[class])?;
        // SAFETY: a free block belongs to the owner, and `push` has set its link.
        self.free[class] = unsafe { next_of(block) };
        Some(block)
    }

    /// Collects a block of another heap, which the owner of this one has freed. Returns blocks that
    /// must be returned to their heap now.
    #[inline]
    fn collect(&mut self, heap: NonNull<Heap>, block: NonNull<Block>) -> Option<Collected> {
        match &mut self.collected {
            Some(collected) if collected.heap == heap => {
                prefetch_after(collected.first, block.as_ptr());
                // SAFETY: the block belongs to the caller, who has freed it.
                unsafe { set_next(block, collected.first.as_ptr()) };
                collected.first = block;
                collected.count += 1;
                let full = collected.count >= COLLECTED_MAX;
                self.collected.take_if(|_| full)
            }
            _ => self.collected.replace(Collected::new(heap, block)),
        }
    }

    /// Adds a block to the free list of its class.
    ///
    /// # Safety
    ///
    /// The block must be of this class and in one of the heap's chunks. No other thread may have or
    /// use it, except that stale hints may read its state word.
    #[inline]
    unsafe fn push(&mut self, block: NonNull<Block>, class: usize) {
        // SAFETY: the block belongs to the owner.
        unsafe { set_next(block, self.free[class]) };
        self.free[class] = block.as_ptr();
    }
}

impl Collected {
    fn new(heap: NonNull<Heap>, block: NonNull<Block>) -> Self {
        Self {
            heap,
            first: block,
            last: block,
            count: 1,
        }
    }
}

/// Prefetches a block after `next`, if a thread uses blocks in the order of their addresses and has
/// used `block` before `next`. Blocks often have this order, because programs tend to wait for tasks
/// in the order in which they spawn them. If other cores have used the blocks, this saves most of
/// the time until their cache lines arrive.
#[inline]
fn prefetch_after(block: NonNull<Block>, next: *mut Block) {
    let step = (next.addr() as isize).wrapping_sub(block.addr().get() as isize);
    if step.unsigned_abs() <= FINE_MAX {
        prefetch_to_write(next.wrapping_byte_offset(AHEAD * step).cast());
    }
}

/// Links a free block to the next one. The memory of the link may be uninitialized before.
///
/// # Safety
///
/// The block must belong to the caller. Other threads may read its state word.
#[inline]
unsafe fn set_next(block: NonNull<Block>, next: *mut Block) {
    // SAFETY: validity: the link is inside a block. Aliasing: we create a pointer and not a
    // reference.
    let link = unsafe { &raw mut (*block.as_ptr()).next };
    // SAFETY: validity: the same as above, and an atomic has nothing to drop. Aliasing: the link
    // belongs to the caller.
    unsafe { link.write(AtomicPtr::new(next)) };
}

/// Returns the block that a free one is linked to.
///
/// # Safety
///
/// The block must belong to the caller, and [`set_next`] must have been the last to write the link.
#[inline]
unsafe fn next_of(block: NonNull<Block>) -> *mut Block {
    // SAFETY: validity: the caller guarantees that the link is initialized, and we refer only to
    // the link. Aliasing: no other thread writes to the caller's block.
    unsafe { &(*block.as_ptr()).next }.load(Ordering::Relaxed)
}

/// Returns the chunk that contains a block.
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
    fn every_size_fits_into_a_block_of_its_size_class() {
        for size in 1..=BLOCK_MAX {
            let class = class_of(size);
            assert!(size_of_class(class) >= size, "{size}");
            assert!(class == 0 || size_of_class(class - 1) < size, "{size}");
            assert!(class < CELL_CLASSES);
        }
    }
}
