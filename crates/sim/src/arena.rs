//! An allocator that gives every run the same addresses.
//!
//! Two objects that share a cache line slow each other down. The system's allocator may put them
//! into one line in the first run and into two lines in the second one, because its state is
//! different. Use [`Arena`] as the global allocator to get exactly the same result in each run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

/// The bytes that we take from the system at a time.
const CHUNK: usize = 1 << 24;
/// The alignment of a chunk, so that addresses in it are the same relative to pages.
const PAGE: usize = 4096;

thread_local! {
    /// The rest of the current chunk, or `None` outside a simulation.
    static REST: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// A global allocator that is repeatable inside a simulation. Like other allocators, it gives the
/// memory that was freed last to the next allocation of the same size, so that its cache lines are
/// still in a cache. It does not reuse allocations above 4 KiB, so use it for short runs only.
/// Outside a simulation it is the system's allocator.
#[derive(Debug)]
pub struct Arena;

/// The largest allocation that is reused, in units.
const UNITS_MAX: usize = 256;

/// The sizes of allocations are multiples of this number of bytes.
const UNIT: usize = 16;

/// The alignments of allocations that are reused.
const ALIGNMENTS: [usize; 3] = [UNIT, 64, 128];

thread_local! {
    /// For each alignment and size, the address of the allocation that was freed last, or 0. Its
    /// first word has the address of the one that was freed before it.
    static FREED: [[Cell<usize>; UNITS_MAX + 1]; ALIGNMENTS.len()] =
        const { [const { [const { Cell::new(0) }; UNITS_MAX + 1] }; ALIGNMENTS.len()] };
}

/// Calls `f` with the list of freed allocations for this layout, if such allocations are reused.
fn with_list<R>(layout: Layout, f: impl FnOnce(&Cell<usize>) -> R) -> Option<R> {
    let align = layout.align().max(UNIT);
    let alignment = ALIGNMENTS.iter().position(|known| *known == align)?;
    let units = layout.size().div_ceil(UNIT);
    let call = |freed: &[[Cell<usize>; UNITS_MAX + 1]; _]| freed[alignment].get(units).map(f);
    FREED.try_with(call).ok().flatten()
}

/// Returns the allocation of this layout that was freed last, and removes it from its list.
fn reuse(layout: Layout) -> Option<*mut u8> {
    with_list(layout, |last| {
        let at = ptr::with_exposed_provenance_mut::<u8>(last.get());
        if !at.is_null() {
            // SAFETY: `dealloc` put the allocation into the list, wrote its first word, and nobody
            // has had the allocation since then.
            last.set(unsafe { at.cast::<usize>().read() });
        }
        (!at.is_null()).then_some(at)
    })
    .flatten()
}

/// Switches the calling thread to a new part of the arena, or back to the system's allocator.
pub(crate) fn switch(on: bool) {
    REST.set(on.then_some((0, 0)));
    FREED.with(|freed| freed.as_flattened().iter().for_each(|list| list.set(0)));
}

/// Runs `f` with the system's allocator, so that it does not change the addresses of the
/// simulation.
pub(crate) fn paused<R>(f: impl FnOnce() -> R) -> R {
    let rest = REST.take();
    let result = f();
    REST.set(rest);
    result
}

// SAFETY: memory comes from the system's allocator, either directly or as a part of a chunk that is
// never freed. At any time, only one allocation has such a part. See `dealloc` for how the two are
// distinguished.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Ok(Some((at, end))) = REST.try_with(Cell::get) else {
            return outside(layout);
        };
        if let Some(freed) = reuse(layout) {
            return freed;
        }
        let (align, size) = (
            layout.align().max(UNIT),
            layout.size().next_multiple_of(UNIT),
        );
        let begin = (at + HEADER).next_multiple_of(align);
        if begin + size <= end {
            REST.set(Some((begin + size, end)));
            return mark(begin, true);
        }
        let bytes = (size + align + HEADER).next_multiple_of(CHUNK);
        let Ok(chunk) = Layout::from_size_align(bytes, PAGE) else {
            return ptr::null_mut();
        };
        // SAFETY: `chunk` has a size above 0.
        let at = unsafe { System.alloc(chunk) } as usize;
        if at == 0 {
            return ptr::null_mut();
        }
        let begin = (at + HEADER).next_multiple_of(align);
        REST.set(Some((begin + size, at + bytes)));
        mark(begin, true)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: each allocation has a header in front.
        let header = unsafe { at.sub(HEADER) };
        // SAFETY: `mark` wrote the header, and its address is a multiple of 16.
        let in_arena = unsafe { header.cast::<u64>().read() } == 1;
        if in_arena {
            // What outlives its simulation is never reused.
            if let Ok(Some(_)) = REST.try_with(Cell::get) {
                with_list(layout, |last| {
                    // SAFETY: the allocation has at least one unit, is aligned to a unit, and its
                    // owner gave it back.
                    unsafe { at.cast::<usize>().write(last.get()) };
                    last.set(at.expose_provenance());
                });
            }
            return;
        }
        let (whole, before) = with_header(layout);
        // SAFETY: `outside` added this number of bytes in front of the allocation.
        let begin = unsafe { at.sub(before) };
        // SAFETY: `outside` allocated it with the same layout.
        unsafe { System.dealloc(begin, whole) };
    }
}

/// The bytes in front of an allocation that say where it comes from.
const HEADER: usize = 16;

fn with_header(layout: Layout) -> (Layout, usize) {
    let align = layout.align().max(HEADER);
    let size = layout.size() + align;
    let whole = Layout::from_size_align(size, align).expect("an allocation is small");
    (whole, align)
}

fn outside(layout: Layout) -> *mut u8 {
    let (whole, before) = with_header(layout);
    // SAFETY: the size is above 0, because it includes the header.
    let at = unsafe { System.alloc(whole) };
    match at.is_null() {
        true => at,
        false => mark(at as usize + before, false),
    }
}

/// Writes the header in front of `begin`.
fn mark(begin: usize, in_arena: bool) -> *mut u8 {
    let at = ptr::with_exposed_provenance_mut::<u8>(begin);
    // SAFETY: the caller has reserved `HEADER` bytes in front of `begin`, which is aligned to 16.
    let header = unsafe { at.sub(HEADER) };
    // SAFETY: these are the bytes that the caller has reserved, and they are aligned, because
    // `begin` and `HEADER` are multiples of 16. No reference to them exists.
    unsafe { header.cast::<u64>().write(u64::from(in_arena)) };
    at
}
