//! What a loop does: a closure as a plain value, which fits into the line that calls the loop.
//!
//! A thread that runs a loop's blocks needs the closure. Behind a reference it would be one more
//! line that goes from the caller to each worker, and that the caller has to get back before its
//! next loop. So a small closure is moved into the call's own line; only a large one, or one that
//! has something to drop, stays where it is.

use std::{
    marker::PhantomData,
    mem::{MaybeUninit, needs_drop, size_of},
    ops::Range,
    ptr,
};

/// A closure of up to three words (a slice and something of the user's), or where it is.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Words([MaybeUninit<*const ()>; 3]);

impl Default for Words {
    fn default() -> Self {
        Self([MaybeUninit::uninit(); 3])
    }
}

/// A closure `Fn(units, who)` that is `Sync`: does some of a loop's units, as the one with the
/// index `who` (below the number of workers), which no other thread has during this loop.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Body<'a> {
    pub(in crate::loops) code: Code,
    pub(in crate::loops) words: Words,
    closure: PhantomData<&'a ()>,
}

/// Calls the closure that is, or whose address is, in the words.
pub(in crate::loops) type Code = unsafe fn(*const Words, Range<usize>, usize);

impl<'a> Body<'a> {
    /// # Safety
    /// While the body or a copy is in use, the closure is used through that one only, and nobody
    /// drops it. What is dropped after that is the original.
    pub(in crate::loops) unsafe fn new<F: Fn(Range<usize>, usize) + Sync>(closure: &'a F) -> Self {
        let mut words = Words::default();
        let code: Code = if is_small::<F>() {
            // SAFETY: `F` fits into the words in size and alignment; it is moved there, as no one
            // uses the original from here on, and has no drop glue.
            unsafe { ptr::copy_nonoverlapping(closure, words.0.as_mut_ptr().cast::<F>(), 1) };
            call_here::<F>
        } else {
            words.0[0].write(ptr::from_ref(closure).cast());
            call_there::<F>
        };
        Self {
            code,
            words,
            closure: PhantomData,
        }
    }

    /// Does these units.
    pub(in crate::loops) fn call(&self, units: Range<usize>, who: usize) {
        // SAFETY: the code and the words were made for each other, and `'a` is not over.
        unsafe { (self.code)(&self.words, units, who) }
    }
}

fn is_small<F>() -> bool {
    size_of::<F>() <= size_of::<Words>()
        && align_of::<F>() <= align_of::<Words>()
        && !needs_drop::<F>()
}

unsafe fn call_here<F: Fn(Range<usize>, usize)>(
    words: *const Words,
    units: Range<usize>,
    who: usize,
) {
    // SAFETY: the words hold an `F`, which is shared by those who call it here (it is `Sync`).
    let closure = unsafe { &*words.cast::<F>() };
    closure(units, who);
}

unsafe fn call_there<F: Fn(Range<usize>, usize)>(
    words: *const Words,
    units: Range<usize>,
    who: usize,
) {
    // SAFETY: the words are readable, says the caller.
    let Words([at, ..]) = unsafe { *words };
    // SAFETY: `Body::new` wrote the closure's address there.
    let at = unsafe { at.assume_init() };
    // SAFETY: the closure is borrowed for as long as its body is used, and is `Sync`.
    let closure = unsafe { &*at.cast::<F>() };
    closure(units, who);
}
