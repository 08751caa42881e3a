//! The closure of a loop as a value of a few words, which fits into the cache line that publishes
//! the loop.
//!
//! A thread that runs a loop's blocks needs the closure. If the closure were behind a reference,
//! one more cache line would go from the caller to each worker. The caller would also have to get
//! that line back before its next loop. Therefore a small closure is moved into the cache line of
//! the call itself. A closure stays where it is if it is large, or if it has something to drop.

use std::{
    marker::PhantomData,
    mem::{MaybeUninit, needs_drop, size_of},
    ops::Range,
    ptr,
};

/// A closure of up to three words (for example a slice and a value of the user), or its address.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Words([MaybeUninit<*const ()>; 3]);

impl Default for Words {
    fn default() -> Self {
        Self([MaybeUninit::uninit(); 3])
    }
}

/// A closure `Fn(units, who)` that is `Sync`. It does some of a loop's units as the worker with the
/// index `who`, which is below the number of workers. No other thread has that index during this
/// loop.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Body<'a> {
    pub(in crate::loops) code: Code,
    pub(in crate::loops) words: Words,
    closure: PhantomData<&'a ()>,
}

/// A function that calls the closure in the words, or the closure whose address is in the words.
pub(in crate::loops) type Code = unsafe fn(*const Words, Range<usize>, usize);

impl<'a> Body<'a> {
    /// Creates the body of a loop from the loop's closure.
    ///
    /// # Safety
    ///
    /// While the body or a copy of it is in use, the closure must be used only through them, and
    /// must not be dropped. Afterwards the original is dropped.
    pub(in crate::loops) unsafe fn new<F: Fn(Range<usize>, usize) + Sync>(closure: &'a F) -> Self {
        let mut words = Words::default();
        let code: Code = if is_small::<F>() {
            // SAFETY: `F` fits into the words in size and alignment. It is moved there, because the
            // original is not used from here on, and it has no drop glue.
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

    /// Calls the closure for these units.
    pub(in crate::loops) fn call(&self, units: Range<usize>, who: usize) {
        // SAFETY: the code and the words were made for each other, and `'a` has not ended.
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
    // SAFETY: the words contain an `F`. It is shared by the threads that call it here, because it
    // is `Sync`.
    let closure = unsafe { &*words.cast::<F>() };
    closure(units, who);
}

unsafe fn call_there<F: Fn(Range<usize>, usize)>(
    words: *const Words,
    units: Range<usize>,
    who: usize,
) {
    // SAFETY: the caller guarantees that the words are readable.
    let Words([at, ..]) = unsafe { *words };
    // SAFETY: `Body::new` wrote the address of the closure there.
    let at = unsafe { at.assume_init() };
    // SAFETY: the closure is borrowed for as long as its body is used, and is `Sync`.
    let closure = unsafe { &*at.cast::<F>() };
    closure(units, who);
}
