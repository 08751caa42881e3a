//! What a block's samples are predicted by: differences of low order, or a sum of the samples before
//! whose weights come from the block's own autocorrelation.
//!
//! Invariant: what is predicted, and what it is missed by, is integer arithmetic, as decoders do it;
//! sums of floating point are computed in one fixed order.
//!
//! Source: RFC 9639, section 9.2; Levinson's and Durbin's recursion as Makhoul has it ("Linear
//! prediction: a tutorial review", 1975).

use super::rice::folded;
use crate::vector::{self, Loop};

/// The highest order of differences.
const DIFFERENCES_MAX: usize = 4;
/// The most samples that are weighed.
pub const ORDER_MAX: usize = 8;

/// The sums of what differences of each order leave, without their signs.
pub fn difference_sums(signal: &[i32]) -> [u64; DIFFERENCES_MAX + 1] {
    vector::run(DifferenceSums(signal))
}

struct DifferenceSums<'a>(&'a [i32]);

impl Loop for DifferenceSums<'_> {
    type Output = [u64; DIFFERENCES_MAX + 1];

    #[inline(always)]
    fn run(self) -> Self::Output {
        let mut sums = [0; DIFFERENCES_MAX + 1];
        for past in self.0.windows(DIFFERENCES_MAX + 1) {
            let [a, b, c, d, e] = [past[4], past[3], past[2], past[1], past[0]];
            let left = [
                a,
                a - b,
                a - 2 * b + c,
                a - 3 * (b - c) - d,
                a - 4 * (b + d) + 6 * c + e,
            ];
            for (sum, left) in sums.iter_mut().zip(left) {
                *sum += u64::from(left.unsigned_abs());
            }
        }
        sums
    }
}

/// What is left behind the first `order` samples by differences of that order, folded; whether all of
/// it fits 32 bits.
pub fn differences(signal: &[i32], order: usize, out: &mut Vec<u32>) -> bool {
    const WEIGHTS: [[i32; DIFFERENCES_MAX]; DIFFERENCES_MAX + 1] = [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [2, -1, 0, 0],
        [3, -3, 1, 0],
        [4, -6, 4, -1],
    ];
    let mut weights = Weights {
        order,
        numbers: [0; ORDER_MAX],
        shift: 0,
    };
    weights.numbers[..DIFFERENCES_MAX].copy_from_slice(&WEIGHTS[order]);
    weights.misses(signal, out)
}

/// Weights of the samples before, the last of them first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// How many there are.
    pub order: usize,
    /// Whole numbers; those beyond the order are 0.
    pub numbers: [i32; ORDER_MAX],
    /// How far the sum is shifted down.
    pub shift: u32,
}

impl Weights {
    /// What the prediction misses the samples behind the first ones by, folded; whether all of it
    /// fits 32 bits.
    pub fn misses(&self, signal: &[i32], out: &mut Vec<u32>) -> bool {
        out.clear();
        out.resize(signal.len() - self.order, 0);
        // No less than the largest sample.
        let most = signal.iter().fold(0, |most, it| most | it.unsigned_abs());
        let weights = self.numbers.iter().map(|it| u64::from(it.unsigned_abs()));
        let largest_sum = (weights.sum::<u64>() + 1) * u64::from(most);
        // The first ones of the rest have fewer before them than are looked at.
        let narrow = match largest_sum <= i32::MAX as u64 {
            true => signal.len().min(ORDER_MAX),
            false => signal.len(),
        };
        for at in self.order..narrow {
            let Some(miss) = self.miss(&signal[..at], signal[at]) else {
                return false;
            };
            out[at - self.order] = miss;
        }
        vector::run(Misses(self, signal, &mut out[narrow - self.order..]));
        true
    }

    fn miss(&self, past: &[i32], sample: i32) -> Option<u32> {
        let products = past.iter().rev().zip(&self.numbers[..self.order]);
        let sum: i64 = products.map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        let miss = i64::from(sample) - (sum >> self.shift);
        // Decoders need not take the least number.
        let miss = i32::try_from(miss).ok().filter(|it| *it != i32::MIN);
        miss.map(folded)
    }
}

/// The same where 32 bits hold the sums.
struct Misses<'a>(&'a Weights, &'a [i32], &'a mut [u32]);

impl Loop for Misses<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Misses(weights, signal, out) = self;
        let [a, b, c, d, e, f, g, h] = weights.numbers;
        for (past, out) in signal.windows(ORDER_MAX + 1).zip(out) {
            let sum = a * past[7] + b * past[6] + c * past[5] + d * past[4];
            let sum = sum + e * past[3] + f * past[2] + g * past[1] + h * past[0];
            *out = folded(past[8] - (sum >> weights.shift));
        }
    }
}

/// Finds weights for blocks.
#[derive(Default)]
pub struct Finder {
    window: Vec<f64>,
    /// A block with its ends faded, between as many zeros as are looked back, and some behind.
    faded: Vec<f64>,
}

/// Samples that are summed side by side.
const LANES: usize = 4;

impl Finder {
    /// The weights, of `precision` bits, that are expected to leave least of a block of samples of
    /// `bits` bits; none if no weights serve.
    pub fn find(&mut self, signal: &[i32], bits: u32, precision: u32) -> Option<Weights> {
        if signal.len() <= 4 * ORDER_MAX {
            return None;
        }
        if self.window.len() != signal.len() {
            self.window = window(signal.len());
        }
        let length = signal.len().next_multiple_of(LANES);
        self.faded.clear();
        self.faded.resize(ORDER_MAX + length, 0.0);
        let (window, faded) = (&self.window, &mut self.faded);
        let sums = vector::run(Autocorrelation(signal, window, faded));
        let (order, weights) = best(&sums, signal.len(), bits + precision)?;
        quantized(&weights[..order], precision)
    }
}

/// A window with a flat middle, whose ends are a quarter each (Tukey's).
fn window(length: usize) -> Vec<f64> {
    let end = (length / 4) as f64;
    let at = |place: usize| {
        let from_end = place.min(length - 1 - place) as f64;
        match from_end < end {
            true => 0.5 - 0.5 * (std::f64::consts::PI * (from_end + 0.5) / end).cos(),
            false => 1.0,
        }
    };
    (0..length).map(at).collect()
}

/// Fades a block, and sums its products with itself, later by nothing up to the highest order.
struct Autocorrelation<'a>(&'a [i32], &'a [f64], &'a mut [f64]);

impl Loop for Autocorrelation<'_> {
    type Output = [f64; ORDER_MAX + 1];

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Autocorrelation(signal, window, faded) = self;
        let middle = &mut faded[ORDER_MAX..];
        for ((faded, sample), window) in middle.iter_mut().zip(signal).zip(window) {
            *faded = f64::from(*sample) * window;
        }
        let mut sums = [[0.0; LANES]; ORDER_MAX + 1];
        let places = faded.windows(ORDER_MAX + LANES).step_by(LANES);
        for place in places {
            for (lag, sums) in sums.iter_mut().enumerate() {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    *sum += place[ORDER_MAX + lane] * place[ORDER_MAX + lane - lag];
                }
            }
        }
        sums.map(|lanes| (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
    }
}

/// The order and the weights that are expected to take the fewest bits, where each weight takes
/// `weight_bits`, its sample included.
fn best(
    sums: &[f64; ORDER_MAX + 1],
    length: usize,
    weight_bits: u32,
) -> Option<(usize, [f64; ORDER_MAX])> {
    let mut weights = [0.0; ORDER_MAX];
    let mut left = sums[0];
    let mut best: Option<(f64, usize, [f64; ORDER_MAX])> = None;
    for order in 1..=ORDER_MAX {
        if left <= 0.0 {
            break;
        }
        let known = weights[..order - 1].iter().zip(sums[1..order].iter().rev());
        let sum = known.map(|(weight, sum)| weight * sum).sum::<f64>();
        let new = (sums[order] - sum) / left;
        let before = weights;
        for at in 0..order - 1 {
            weights[at] = before[at] - new * before[order - 2 - at];
        }
        weights[order - 1] = new;
        left *= 1.0 - new * new;
        // As a noise of that power, in steps of the samples, would take.
        let power = (left / length as f64).max(0.25);
        let bits = 0.5 * power.log2() * (length - order) as f64;
        let bits = bits + (order * weight_bits as usize) as f64;
        if best.is_none_or(|(least, ..)| bits < least) {
            best = Some((bits, order, weights));
        }
    }
    best.map(|(_, order, weights)| (order, weights))
}

/// Weights as whole numbers of `precision` bits; what one is rounded by is made good by the next.
fn quantized(weights: &[f64], precision: u32) -> Option<Weights> {
    let largest = weights.iter().fold(0.0f64, |most, it| most.max(it.abs()));
    if largest <= 0.0 || !largest.is_finite() {
        return None;
    }
    let shift = precision as i32 - 2 - largest.log2().floor() as i32;
    // Five bits with a sign, and no decoder takes less than none.
    let shift = u32::try_from(shift).ok()?.min(15);
    let most = (1 << (precision - 1)) - 1;
    let mut numbers = [0; ORDER_MAX];
    let mut owed = 0.0;
    for (number, weight) in numbers.iter_mut().zip(weights) {
        let exact = weight * f64::from(1 << shift) + owed;
        *number = (exact.round() as i32).clamp(-most - 1, most);
        owed = exact - f64::from(*number);
    }
    Some(Weights {
        order: weights.len(),
        numbers,
        shift,
    })
}
