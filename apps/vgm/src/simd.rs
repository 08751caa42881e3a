//! Loops that are compiled twice on x86-64: for any processor, and for AVX2. The program selects
//! one at run time.
//!
//! Invariant: both variants compute the same bits. The loops use either integer arithmetic, or
//! floating point without sums, because the order of a sum would change its bits.
//!
//! We do not use gathers for table lookups. With gathers, whole songs took 1.5 times as long as
//! with separate loads (measured on a Cascade Lake). The tables of the FM chips fit into the
//! registers of AVX-512, see `chips/fm/avx512.rs`.

/// A loop to be compiled twice. Its `run` should be `#[inline(always)]`, so that it is compiled for
/// the caller's processor features.
pub trait Loop {
    /// The result of the loop.
    type Output;
    /// Runs the loop.
    fn run(self) -> Self::Output;
}

/// Runs the variant of a loop that is the fastest on this processor.
pub fn run<L: Loop>(work: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: `has_avx2` has checked that the processor supports the enabled features.
        #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
        return unsafe { with_avx2(work) };
    }
    work.run()
}

/// Returns whether the processor has AVX2, and also BMI2, which processors with AVX2 usually have.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn with_avx2<L: Loop>(work: L) -> L::Output {
    work.run()
}

/// A row of numbers, and one row per side to multiply it with.
pub type Rows<'r, const LENGTH: usize, const SIDES: usize> =
    (&'r [i16; LENGTH], [&'r [i16; LENGTH]; SIDES]);

/// Adds to each sum, one per side, the dot product of its rows.
pub fn add_products<'r, const LENGTH: usize, const SIDES: usize>(
    rows: impl Fn(usize) -> Rows<'r, LENGTH, SIDES>,
    sums: &mut [[i32; SIDES]],
) {
    #[cfg(target_arch = "x86_64")]
    if LENGTH.is_multiple_of(avx2::NUMBERS) && avx2::SUMS.is_multiple_of(SIDES) && has_avx2() {
        // SAFETY: `has_avx2` has checked that the processor supports the enabled features.
        #[expect(unsafe_code, reason = "the compiler cannot know the processor")]
        return unsafe { avx2::add_products(rows, sums) };
    }
    for (place, sums) in sums.iter_mut().enumerate() {
        add(rows(place), sums);
    }
}

#[inline(always)]
fn add<const LENGTH: usize, const SIDES: usize>(
    (row, sides): Rows<LENGTH, SIDES>,
    sums: &mut [i32; SIDES],
) {
    for (sum, side) in sums.iter_mut().zip(sides) {
        let pairs = row.iter().zip(side);
        *sum += pairs
            .map(|(a, b)| i32::from(*a) * i32::from(*b))
            .sum::<i32>();
    }
}

/// An explicit version, because the compiler vectorises the plain loop this well only in isolation.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::Rows;

    /// The number of numbers that are multiplied at once.
    pub const NUMBERS: usize = 16;

    /// The number of sums that are computed at once.
    pub const SUMS: usize = 4;

    #[target_feature(enable = "avx2,bmi2")]
    pub fn add_products<'r, const LENGTH: usize, const SIDES: usize>(
        rows: impl Fn(usize) -> Rows<'r, LENGTH, SIDES>,
        sums: &mut [[i32; SIDES]],
    ) {
        let (fours, _) = sums.as_flattened_mut().as_chunks_mut::<SUMS>();
        let mut at = 0;
        for four in fours {
            let mut partials = [_mm256_setzero_si256(); SUMS];
            for partials in partials.chunks_exact_mut(SIDES) {
                let (row, sides) = rows(at);
                for (partial, side) in partials.iter_mut().zip(sides) {
                    *partial = products(row, side);
                }
                at += 1;
            }
            let [a, b, c, d] = partials;
            let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
            let low = _mm256_castsi256_si128(halves);
            let both = _mm_add_epi32(low, _mm256_extracti128_si256::<1>(halves));
            add_to(four, both);
        }
        for (sums, at) in sums[at..].iter_mut().zip(at..) {
            super::add(rows(at), sums);
        }
    }

    /// Returns eight numbers whose sum is the dot product of two rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn products<const LENGTH: usize>(a: &[i16; LENGTH], b: &[i16; LENGTH]) -> __m256i {
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
        // SAFETY: a reference is readable for the 32 bytes of its array, and the load needs no
        // alignment.
        #[expect(unsafe_code, reason = "from memory to a register")]
        unsafe {
            _mm256_loadu_si256(numbers.as_ptr().cast())
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_to(sums: &mut [i32; SUMS], more: __m128i) {
        let place = sums.as_mut_ptr().cast();
        // SAFETY: an exclusive reference is readable for the 16 bytes of its array, and the load
        // needs no alignment.
        #[expect(unsafe_code, reason = "from memory to a register")]
        let sum = unsafe { _mm_loadu_si128(place) };
        let sum = _mm_add_epi32(sum, more);
        // SAFETY: the exclusive reference is also writable for these 16 bytes, and the store needs
        // no alignment.
        #[expect(unsafe_code, reason = "from a register to memory")]
        unsafe {
            _mm_storeu_si128(place, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_with_avx2_equal_those_without() {
        let noise = |n: usize| ((n as u32).wrapping_mul(0x9E37_79B9) >> 16) as u16 as i16;
        let rows: Vec<[i16; 32]> = (0..11)
            .map(|row| std::array::from_fn(|n| noise(32 * row + n) >> 2))
            .collect();
        let mono = |place: usize| (&rows[place], [&rows[place + 1]]);
        let stereo = |place: usize| (&rows[place], [&rows[place + 1], &rows[10 - place]]);
        for length in 0..=10 {
            let (mut one, mut both) = (vec![[7]; length], vec![[7, 8]; length]);
            add_products(mono, &mut one);
            add_products(stereo, &mut both);
            for place in 0..length {
                let (mut single, mut double) = ([7], [7, 8]);
                add(mono(place), &mut single);
                add(stereo(place), &mut double);
                assert_eq!((one[place], both[place]), (single, double));
            }
        }
    }
}
