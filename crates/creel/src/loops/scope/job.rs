//! A job of a scope as a value of a few words, so that spawning a small closure allocates nothing.

use crate::worker::panics::FirstPanic;
use std::mem::MaybeUninit;

/// A closure of up to three words, or the address of a box with a larger one.
type Words = [MaybeUninit<*const ()>; 3];

/// A job of a scope. It must be run. Dropping it leaks its closure.
#[must_use = "the scope waits until it has been run"]
pub(super) struct ScopeJob {
    run: unsafe fn(Words, &FirstPanic),
    words: Words,
}

// SAFETY: the closure in it is `Send`, because `new` requires this.
unsafe impl Send for ScopeJob {}

impl ScopeJob {
    /// Creates a job from a closure.
    ///
    /// # Safety
    ///
    /// The job must be run while `'a` lasts.
    #[inline(always)]
    pub(super) unsafe fn new<'a, F: FnOnce() + Send + 'a>(f: F) -> Self {
        let mut words = [MaybeUninit::uninit(); 3];
        if is_small::<F>() {
            // SAFETY: validity: `F` fits into the words in size and alignment. Aliasing: the words
            // are local.
            unsafe { words.as_mut_ptr().cast::<F>().write(f) };
            return Self {
                run: run_here::<F>,
                words,
            };
        }
        words[0].write(Box::into_raw(Box::new(f)).cast_const().cast());
        Self {
            run: run_there::<F>,
            words,
        }
    }

    /// Runs the closure. If it panics, keeps the panic, unless an earlier job has panicked.
    #[inline(always)]
    pub(super) fn run(self, panic: &FirstPanic) {
        // SAFETY: the function and the words were made for each other, and this is the only call,
        // because it consumes the job. What the closure borrows still exists, as the caller of
        // `new` guarantees.
        unsafe { (self.run)(self.words, panic) }
    }
}

const fn is_small<F>() -> bool {
    size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>()
}

unsafe fn run_here<F: FnOnce()>(words: Words, panic: &FirstPanic) {
    // SAFETY: validity: `new` wrote an `F` there, which is read once. Aliasing: the words are
    // local.
    let f = unsafe { words.as_ptr().cast::<F>().read() };
    panic.catch(f);
}

unsafe fn run_there<F: FnOnce()>(words: Words, panic: &FirstPanic) {
    // SAFETY: `new` wrote the address of a box there.
    let at = unsafe { words[0].assume_init() };
    // SAFETY: validity: it came from `Box::into_raw`, and is used once. Aliasing: nobody else has
    // the address.
    let f = unsafe { Box::from_raw(at.cast_mut().cast::<F>()) };
    panic.catch(f);
}
