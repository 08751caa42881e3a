//! 32 tones at once, for processors with AVX-512BW.
//!
//! What a tone costs elsewhere is two table lookups, one after the other. Here both tables lie in
//! vector registers. Of the sine a quarter, 256 words: a lookup is four permutations of 64 words, of
//! which the index's upper bits pick one. Of the exponential an octave, two words in one: half as
//! many permutations, and a subtraction.
//!
//! Invariant: every lane computes what [`tone`](super::connect::tone) does, in 16 bits: a phase
//! counts modulo 1,024, and no attenuation or sum of four operators needs more.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::connect::{Values, Width, route};
use super::operator::{BLOCK, LANES, Tone};
use super::tables::{LOG_SINE, MANTISSA};

/// Frames computed at once.
const WIDE: usize = 32;

/// Words that one permutation picks from.
const PICKED: usize = 64;

/// 256 words in registers.
type Table = [[__m512i; 2]; 256 / PICKED];

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(words: &[i16; WIDE]) -> __m512i {
    // SAFETY: a reference is readable for the 64 bytes of its array, however aligned.
    unsafe { _mm512_loadu_epi16(words.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_unsigned(words: &[u16; WIDE]) -> __m512i {
    // SAFETY: a reference is readable for the 64 bytes of its array, however aligned.
    unsafe { _mm512_loadu_epi16(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(words: &mut [i16; WIDE], lanes: __m512i) {
    // SAFETY: an exclusive reference is writable for the 64 bytes of its array, however aligned.
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

/// The words at the low 8 bits of `index`.
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

/// The exponential's octave, two words in one: the first without its two low bits, which are 0, and
/// in the three lowest bits how much less the second is.
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

/// The words of the exponential at the low 8 bits of `attenuation`.
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
    // No multiplication: wide ones slow the whole processor down.
    _mm512_slli_epi16::<2>(_mm512_mask_sub_epi16(first, second, first, less))
}

/// The value of an operator in 32 frames.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tones(
    (sine, pairs): (&Table, &[[__m512i; 2]; 2]),
    phase: __m512i,
    attenuation: __m512i,
) -> __m512i {
    let mirrored = _mm512_test_epi16_mask(phase, _mm512_set1_epi16(0x100));
    let negative = _mm512_test_epi16_mask(phase, _mm512_set1_epi16(0x200));
    // The complement of x is -1 - x.
    let index = _mm512_mask_sub_epi16(phase, mirrored, _mm512_set1_epi16(-1), phase);
    let attenuation = _mm512_add_epi16(look_up(sine, index), attenuation);
    let mantissa = exponential(pairs, attenuation);
    let value = _mm512_srlv_epi16(mantissa, _mm512_srli_epi16::<8>(attenuation));
    _mm512_mask_sub_epi16(value, negative, _mm512_setzero_si512(), value)
}

/// As [`connect`](super::connect::connect), for one algorithm.
#[target_feature(enable = "avx512f,avx512bw")]
fn connected<const ALGORITHM: u8, W: Width>(
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) {
    let sine = table(&LOG_SINE);
    let pairs = PAIRS.as_chunks::<WIDE>().0;
    let pairs = [0, 2].map(|k| [load_unsigned(&pairs[k]), load_unsigned(&pairs[k + 1])]);
    for at in (0..frames.min(BLOCK)).step_by(WIDE) {
        let part = |words: &[u16; BLOCK + LANES]| {
            load_unsigned(words[at..].first_chunk().expect("a block is whole vectors"))
        };
        let one = load(first[at..].first_chunk().expect("a block is whole vectors"));
        let sum = route::<ALGORITHM, _>(
            one,
            _mm512_setzero_si512(),
            |operator, by| {
                let source = others[operator];
                let phase = _mm512_add_epi16(part(&source.phase), _mm512_srai_epi16::<1>(by));
                tones((&sine, &pairs), phase, part(&source.attenuation))
            },
            |a, b| _mm512_add_epi16(a, b),
            |sum, value| {
                let value = match W::DROPPED {
                    0 => value,
                    1 => _mm512_srai_epi16::<1>(value),
                    _ => _mm512_srai_epi16::<5>(value),
                };
                let Some(sum) = sum else { return value };
                let sum = _mm512_add_epi16(sum, value);
                match W::LIMIT {
                    None => sum,
                    Some(limit) => {
                        let low = _mm512_set1_epi16(-limit as i16 - 1);
                        let high = _mm512_set1_epi16(limit as i16);
                        _mm512_min_epi16(_mm512_max_epi16(sum, low), high)
                    }
                }
            },
        );
        store(
            out[at..]
                .first_chunk_mut()
                .expect("a block is whole vectors"),
            sum,
        );
    }
}

/// As [`connect`](super::connect::connect); false, and nothing done, where the processor has not
/// what it takes.
pub fn connect<W: Width>(
    algorithm: u8,
    first: &Values,
    others: [&Tone; 3],
    frames: usize,
    out: &mut Values,
) -> bool {
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512bw") {
        return false;
    }
    let kernel = match algorithm & 7 {
        0 => connected::<0, W>,
        1 => connected::<1, W>,
        2 => connected::<2, W>,
        3 => connected::<3, W>,
        4 => connected::<4, W>,
        5 => connected::<5, W>,
        6 => connected::<6, W>,
        _ => connected::<7, W>,
    };
    // SAFETY: the processor has what they are compiled for.
    unsafe { kernel(first, others, frames, out) };
    true
}
