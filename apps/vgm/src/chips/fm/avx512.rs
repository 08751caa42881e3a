//! The inner loops for processors with AVX-512BW, which compute 64 frames at once. Processors that
//! also have AVX-512VBMI get a faster variant.
//!
//! Other processors need two dependent table lookups per tone. Here both tables are in vector
//! registers: a quarter of the sine, and an octave of the exponential. A permutation is a lookup in
//! a table that fits into one or two registers. The upper bits of the index select between several
//! permutations.
//!
//! With VBMI we look up bytes, 64 frames at once, and treat low and high bytes separately. The high
//! bytes of the quarter are 0 from its half on. Without VBMI we look up words. To halve the table
//! of the octave, we pack two of its words into one and store the second as a difference.
//!
//! Invariant: every lane computes the same as [`tone`](super::algorithms::tone), in 16 bits. This
//! is sufficient, because a phase counts modulo 1,024, and no attenuation or sum of four operators
//! exceeds 16 bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::algorithms::{OutputWidth, Values, route};
use super::operator::{BEYOND, BLOCK, Tone};
use super::tables::{LOG_SINE, MANTISSA};

/// The number of words in a vector.
const WIDE: usize = 32;

/// Two vectors of words, which are the frames computed at once.
type Two = [__m512i; 2];

/// The number of words from which one permutation selects.
const PICKED: usize = 64;

/// A table of 256 words in registers.
type Table = [[__m512i; 2]; 256 / PICKED];

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(words: &[i16; WIDE]) -> __m512i {
    // SAFETY: a reference is readable for the 64 bytes of its array, and the load needs no
    // alignment.
    unsafe { _mm512_loadu_epi16(words.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_unsigned(words: &[u16; WIDE]) -> __m512i {
    // SAFETY: a reference is readable for the 64 bytes of its array, and the load needs no
    // alignment.
    unsafe { _mm512_loadu_epi16(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(words: &mut [i16; WIDE], lanes: __m512i) {
    // SAFETY: an exclusive reference is writable for the 64 bytes of its array, and the store needs
    // no alignment.
    unsafe { _mm512_storeu_epi16(words.as_mut_ptr(), lanes) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn table(words: &[u16; 256]) -> Table {
    let vectors = words.as_chunks::<WIDE>().0;
    std::array::from_fn(|k| {
        [
            load_unsigned(&vectors[2 * k]),
            load_unsigned(&vectors[2 * k + 1]),
        ]
    })
}

/// Returns the words of the table at the low 8 bits of `index`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn look_up(table: &Table, index: __m512i) -> __m512i {
    let upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80));
    let odd = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x40));
    let [a, b, c, d] = table.map(|[low, high]| _mm512_permutex2var_epi16(low, index, high));
    let low = _mm512_mask_mov_epi16(a, odd, b);
    let high = _mm512_mask_mov_epi16(c, odd, d);
    _mm512_mask_mov_epi16(low, upper, high)
}

/// The octave of the exponential with two words packed into one.
///
/// The upper bits are the first word without its two low bits, which are 0. The three lowest bits
/// are the amount by which the second word is smaller.
static PAIRS: [u16; 128] = pairs();

const fn pairs() -> [u16; 128] {
    let mut pairs = [0; 128];
    let mut place = 0;
    while place < 128 {
        let (first, second) = (MANTISSA[2 * place] >> 2, MANTISSA[2 * place + 1] >> 2);
        assert!(first - second < 8);
        pairs[place] = first << 3 | (first - second);
        place += 1;
    }
    pairs
}

/// Returns the words of the exponential at the low 8 bits of `attenuation`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn exponential(pairs: &[[__m512i; 2]; 2], attenuation: __m512i) -> __m512i {
    let upper = _mm512_test_epi16_mask(attenuation, _mm512_set1_epi16(0x80));
    let second = _mm512_test_epi16_mask(attenuation, _mm512_set1_epi16(1));
    let index = _mm512_srli_epi16::<1>(attenuation);
    let [a, b] = pairs.map(|[low, high]| _mm512_permutex2var_epi16(low, index, high));
    let pair = _mm512_mask_mov_epi16(a, upper, b);
    let (first, less) = (
        _mm512_srli_epi16::<3>(pair),
        _mm512_and_si512(pair, _mm512_set1_epi16(7)),
    );
    // We avoid a multiplication, because wide multiplications lower the clock of some processors.
    _mm512_slli_epi16::<2>(_mm512_mask_sub_epi16(first, second, first, less))
}

/// The tables of the sine and of the exponential, as words of 16 bits.
struct Words {
    sine: Table,
    pairs: [[__m512i; 2]; 2],
}

impl Words {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new() -> Self {
        let pairs = PAIRS.as_chunks::<WIDE>().0;
        Self {
            sine: table(&LOG_SINE),
            pairs: [0, 2].map(|k| [load_unsigned(&pairs[k]), load_unsigned(&pairs[k + 1])]),
        }
    }

    /// Returns the values of an operator.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn tones(&self, phase: Two, attenuation: Two) -> Two {
        std::array::from_fn(|half| {
            let (phase, attenuation) = (phase[half], attenuation[half]);
            let mirrored = _mm512_test_epi16_mask(phase, _mm512_set1_epi16(0x100));
            // The second half of each half wave is the mirrored first half. We mirror an index x by
            // its complement, which is -1 - x.
            let index = _mm512_mask_sub_epi16(phase, mirrored, _mm512_set1_epi16(-1), phase);
            let attenuation = _mm512_add_epi16(look_up(&self.sine, index), attenuation);
            volume(phase, exponential(&self.pairs, attenuation), attenuation)
        })
    }
}

/// Returns the value of a phase. The upper byte of the attenuation is the octave of the
/// exponential.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn volume(phase: __m512i, mantissa: __m512i, attenuation: __m512i) -> __m512i {
    let negative = _mm512_test_epi16_mask(phase, _mm512_set1_epi16(0x200));
    let value = _mm512_srlv_epi16(mantissa, _mm512_srli_epi16::<8>(attenuation));
    _mm512_mask_sub_epi16(value, negative, _mm512_setzero_si512(), value)
}

/// The tables as bytes, 64 per vector.
struct Bytes {
    sine_low: [__m512i; 4],
    /// The first half of the quarter. The second half is all zeros.
    sine_high: [__m512i; 2],
    octave_low: [__m512i; 4],
    octave_high: [__m512i; 4],
}

/// Returns one byte of each word.
const fn bytes(words: &[u16; 256], shift: u32) -> [i8; 256] {
    let mut bytes = [0; 256];
    let mut place = 0;
    while place < 256 {
        bytes[place] = (words[place] >> shift) as i8;
        place += 1;
    }
    bytes
}

static SINE_LOW: [i8; 256] = bytes(&LOG_SINE, 0);
static SINE_HIGH: [i8; 256] = bytes(&LOG_SINE, 8);
static OCTAVE_LOW: [i8; 256] = bytes(&MANTISSA, 0);
static OCTAVE_HIGH: [i8; 256] = bytes(&MANTISSA, 8);

const _: () = assert!(
    LOG_SINE[128] < 0x100,
    "the high bytes of the second half must be 0"
);

/// Loads the first `64 * VECTORS` of 256 bytes into registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn byte_table<const VECTORS: usize>(bytes: &[i8; 256]) -> [__m512i; VECTORS] {
    let vectors = bytes.as_chunks::<64>().0;
    // SAFETY: a reference is readable for the 64 bytes of its array, and the load needs no
    // alignment.
    std::array::from_fn(|k| unsafe { _mm512_loadu_epi8(vectors[k].as_ptr()) })
}

/// Returns the bytes of the table at `index`. The masks are bits 7 and 6 of the index.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up_bytes(
    [a, b, c, d]: [__m512i; 4],
    index: __m512i,
    (upper, odd): (__mmask64, __mmask64),
) -> __m512i {
    let low = _mm512_permutexvar_epi8(index, a);
    let low = _mm512_mask_permutexvar_epi8(low, odd, index, b);
    let high = _mm512_permutexvar_epi8(index, c);
    let high = _mm512_mask_permutexvar_epi8(high, odd, index, d);
    _mm512_mask_mov_epi8(low, upper, high)
}

/// Returns the low bytes of both vectors, and the masks of their bits 7 and 6.
///
/// [`words`] restores the original order of the bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn low_bytes([a, b]: Two) -> (__m512i, (__mmask64, __mmask64)) {
    let index = _mm512_packus_epi16(a, b);
    let odd = _mm512_test_epi8_mask(index, _mm512_set1_epi8(0x40));
    (index, (_mm512_movepi8_mask(index), odd))
}

/// Returns the words that consist of these low and high bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn words(low: __m512i, high: __m512i) -> Two {
    [
        _mm512_unpacklo_epi8(low, high),
        _mm512_unpackhi_epi8(low, high),
    ]
}

impl Bytes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new() -> Self {
        Self {
            sine_low: byte_table(&SINE_LOW),
            sine_high: byte_table(&SINE_HIGH),
            octave_low: byte_table(&OCTAVE_LOW),
            octave_high: byte_table(&OCTAVE_HIGH),
        }
    }

    /// Returns the values of an operator.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn tones(&self, phase: Two, attenuation: Two) -> Two {
        let byte = _mm512_set1_epi16(0xff);
        let (index, masks) = low_bytes(phase.map(|phase| {
            let mirror = _mm512_srai_epi16::<15>(_mm512_slli_epi16::<7>(phase));
            // The instruction computes `(phase ^ mirror) & byte`.
            _mm512_ternarylogic_epi32::<0x28>(phase, mirror, byte)
        }));
        let low = look_up_bytes(self.sine_low, index, masks);
        let [a, b] = self.sine_high;
        let (upper, odd) = masks;
        let high = _mm512_maskz_permutexvar_epi8(!upper, index, a);
        let high = _mm512_mask_permutexvar_epi8(high, !upper & odd, index, b);
        let [sine_a, sine_b] = words(low, high);
        let attenuation = [
            _mm512_add_epi16(sine_a, attenuation[0]),
            _mm512_add_epi16(sine_b, attenuation[1]),
        ];
        let (index, masks) = low_bytes(attenuation.map(|level| _mm512_and_si512(level, byte)));
        let mantissa = words(
            look_up_bytes(self.octave_low, index, masks),
            look_up_bytes(self.octave_high, index, masks),
        );
        [
            volume(phase[0], mantissa[0], attenuation[0]),
            volume(phase[1], mantissa[1], attenuation[1]),
        ]
    }
}

/// Defines [`render_algorithm`](super::algorithms::render_algorithm) for one algorithm and one kind
/// of tables.
macro_rules! algorithm_kernel {
    ($name:ident, $features:literal, $tables:ident) => {
        #[target_feature(enable = $features)]
        fn $name<const ALGORITHM: u8, W: OutputWidth>(
            first: &Values,
            others: [&Tone; 3],
            frames: usize,
            out: &mut Values,
        ) {
            let tables = $tables::new();
            for at in (0..frames.min(BLOCK)).step_by(2 * WIDE) {
                let part = |words: &[u16; BLOCK + BEYOND]| {
                    two(&words[at..]).map(|half| load_unsigned(half))
                };
                let one = two(&first[at..]).map(|half| load(half));
                let sum = route::<ALGORITHM, Two>(
                    one,
                    [_mm512_setzero_si512(); 2],
                    |operator, by| {
                        let source = others[operator];
                        let by = by.map(|by| _mm512_srai_epi16::<1>(by));
                        let phase = plus(part(&source.phase), by);
                        tables.tones(phase, part(&source.attenuation))
                    },
                    |a, b| plus(a, b),
                    |sum, value| carry::<W>(sum, value),
                );
                let out = out[at..].as_chunks_mut().0;
                store(&mut out[0], sum[0]);
                store(&mut out[1], sum[1]);
            }
        }
    };
}

algorithm_kernel!(render_by_words, "avx512f,avx512bw", Words);
algorithm_kernel!(render_by_bytes, "avx512f,avx512bw,avx512vbmi", Bytes);

/// Returns the first two vectors of words.
#[inline]
fn two<T>(words: &[T]) -> [&[T; WIDE]; 2] {
    let vectors = words.as_chunks().0;
    [&vectors[0], &vectors[1]]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn plus(a: Two, b: Two) -> Two {
    [_mm512_add_epi16(a[0], b[0]), _mm512_add_epi16(a[1], b[1])]
}

/// Returns the sum plus one more carrier.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn carry<W: OutputWidth>(sum: Option<Two>, value: Two) -> Two {
    let value = value.map(|value| match W::DROPPED {
        0 => value,
        1 => _mm512_srai_epi16::<1>(value),
        _ => _mm512_srai_epi16::<5>(value),
    });
    let Some(sum) = sum else { return value };
    let sum = plus(sum, value);
    let Some(limit) = W::LIMIT else { return sum };
    let low = _mm512_set1_epi16(-limit as i16 - 1);
    let high = _mm512_set1_epi16(limit as i16);
    sum.map(|sum| _mm512_min_epi16(_mm512_max_epi16(sum, low), high))
}

/// A variant of [`render_algorithm`](super::algorithms::render_algorithm) for one algorithm.
type Kernel = unsafe fn(&Values, [&Tone; 3], usize, &mut Values);

/// Returns the kernels that the processor supports, fastest first.
fn kernels<W: OutputWidth>(algorithm: u8) -> impl Iterator<Item = Kernel> {
    macro_rules! of_algorithm {
        ($connected:ident) => {
            match algorithm & 7 {
                0 => $connected::<0, W> as Kernel,
                1 => $connected::<1, W>,
                2 => $connected::<2, W>,
                3 => $connected::<3, W>,
                4 => $connected::<4, W>,
                5 => $connected::<5, W>,
                6 => $connected::<6, W>,
                _ => $connected::<7, W>,
            }
        };
    }
    let has_words = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let has_bytes = has_words && is_x86_feature_detected!("avx512vbmi");
    let bytes = has_bytes.then_some(of_algorithm!(render_by_bytes));
    let words = has_words.then_some(of_algorithm!(render_by_words));
    bytes.into_iter().chain(words)
}

/// Computes the same as [`render_algorithm`](super::algorithms::render_algorithm).
///
/// Returns false and does nothing if the processor does not support any kernel.
pub fn render_algorithm<W: OutputWidth>(
    algorithm: u8,
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) -> bool {
    let best = kernels::<W>(algorithm).next();
    if let Some(kernel) = best {
        // SAFETY: `kernels` returns only kernels whose processor features were detected.
        unsafe { kernel(first, others, frames, out) };
    }
    best.is_some()
}

/// Returns the output of each kernel that the processor supports.
#[cfg(test)]
pub fn render_with_each_kernel<W: OutputWidth>(
    algorithm: u8,
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
) -> Vec<Values> {
    let each = kernels::<W>(algorithm).map(|kernel| {
        let mut out = [0; BLOCK];
        // SAFETY: `kernels` returns only kernels whose processor features were detected.
        unsafe { kernel(first, others, frames, &mut out) };
        out
    });
    each.collect()
}
