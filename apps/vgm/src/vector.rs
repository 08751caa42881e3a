//! Loops that are compiled twice, for any processor and for those with AVX2, and chosen at run time.
//!
//! Invariant: both compute the same bits, for it is integer arithmetic, or floating point without a
//! sum whose order could change.
//!
//! Left out on purpose: table lookups by gathers, which made a whole song half as slow again as one
//! load after the other (measured on a Cascade Lake); the FM's tables fit the registers of AVX-512,
//! see `chips/fm/wide.rs`.

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
    if has_avx2() {
        // SAFETY: the processor has what it takes.
        #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
        return unsafe { with_avx2(work) };
    }
    work.run()
}

/// Whether the processor has AVX2, and BMI2 as all do that have it.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn with_avx2<L: Loop>(work: L) -> L::Output {
    work.run()
}

/// Two rows of numbers.
pub type Pair<'r, const LENGTH: usize> = (&'r [i16; LENGTH], &'r [i16; LENGTH]);

/// Adds to each sum the products of the numbers of its two rows.
pub fn add_products<'r, const LENGTH: usize>(
    pairs: impl Fn(usize) -> Pair<'r, LENGTH>,
    sums: &mut [i32],
) {
    #[cfg(target_arch = "x86_64")]
    if LENGTH.is_multiple_of(avx2::NUMBERS) && has_avx2() {
        // SAFETY: the processor has what it takes.
        #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
        return unsafe { avx2::add_products(pairs, sums) };
    }
    for (place, sum) in sums.iter_mut().enumerate() {
        *sum += products(pairs(place));
    }
}

#[inline(always)]
fn products<const LENGTH: usize>((a, b): Pair<LENGTH>) -> i32 {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// What a compiler makes of the plain loop only where nothing around it distracts.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::Pair;

    /// Numbers that are multiplied at once.
    pub const NUMBERS: usize = 16;

    #[target_feature(enable = "avx2,bmi2")]
    pub fn add_products<'r, const LENGTH: usize>(
        pairs: impl Fn(usize) -> Pair<'r, LENGTH>,
        sums: &mut [i32],
    ) {
        let (fours, rest) = sums.as_chunks_mut::<4>();
        let rest_at = 4 * fours.len();
        for (four, at) in fours.iter_mut().zip((0..).step_by(4)) {
            let (a, b) = (partial(pairs(at)), partial(pairs(at + 1)));
            let (c, d) = (partial(pairs(at + 2)), partial(pairs(at + 3)));
            let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
            let low = _mm256_castsi256_si128(halves);
            let both = _mm_add_epi32(low, _mm256_extracti128_si256::<1>(halves));
            four[0] += _mm_extract_epi32::<0>(both);
            four[1] += _mm_extract_epi32::<1>(both);
            four[2] += _mm_extract_epi32::<2>(both);
            four[3] += _mm_extract_epi32::<3>(both);
        }
        for (sum, at) in rest.iter_mut().zip(rest_at..) {
            *sum += super::products(pairs(at));
        }
    }

    /// Eight numbers that add up to the products of a pair.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn partial<const LENGTH: usize>((a, b): Pair<LENGTH>) -> __m256i {
        let chunks = a.as_chunks().0.iter().zip(b.as_chunks().0);
        let mut sum = _mm256_setzero_si256();
        for (a, b) in chunks {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(load(a), load(b)));
        }
        sum
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(numbers: &[i16; NUMBERS]) -> __m256i {
        // SAFETY: a reference is readable for the 32 bytes of its array, however aligned.
        #[expect(unsafe_code, reason = "from memory to a register")]
        unsafe {
            _mm256_loadu_si256(numbers.as_ptr().cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_the_same_however_they_are_computed() {
        let noise = |n: usize| ((n as u32).wrapping_mul(0x9E37_79B9) >> 16) as u16 as i16;
        let rows: Vec<[i16; 32]> = (0..11)
            .map(|row| std::array::from_fn(|n| noise(32 * row + n) >> 2))
            .collect();
        let pairs = |place| (&rows[place], &rows[place + 1]);
        for length in 0..=10 {
            let mut sums = vec![7; length];
            add_products(pairs, &mut sums);
            let expected: Vec<i32> = (0..length).map(|n| 7 + products(pairs(n))).collect();
            assert_eq!(sums, expected);
        }
    }
}
