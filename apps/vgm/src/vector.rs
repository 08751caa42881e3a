//! Loops that are compiled twice, for any processor and for those with AVX2, and chosen at run time.
//!
//! Invariant: both are the same source and compute the same bits. What is written here is integer
//! arithmetic, or floating point without a sum whose order could change.
//!
//! Left out on purpose: table lookups by gathers, which made a whole song half as slow again as one
//! load after the other (measured on a Cascade Lake).

/// A loop to be compiled twice. Its `run` is to be `#[inline(always)]`.
pub trait Loop {
    /// What it returns.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}

/// Runs a loop as the processor at hand does it best.
pub fn run<L: Loop>(work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
        return unsafe { with_avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<L: Loop>(work: L) -> L::Output {
    work.run()
}
