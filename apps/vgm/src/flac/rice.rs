//! Rice's code: what a prediction misses by, in partitions of which each has the number of bits
//! that are written as they are; the rest of a number is counted in zeros.

use super::bits::Bits;

/// As often as a block is halved at most.
const HALVINGS_MAX: u32 = 6;
/// The largest parameter that fits four bits; the one behind it has another meaning.
const SHORT_MAX: u32 = 14;
/// The largest that five have.
const PARAMETER_MAX: u32 = 30;

/// How a block's numbers are written.
pub struct Plan {
    halvings: u32,
    parameters: [u32; 1 << HALVINGS_MAX],
    /// About how many bits it takes.
    pub bits: u64,
}

/// A number without its sign, which becomes its lowest bit.
#[inline(always)]
pub fn folded(number: i32) -> u32 {
    (number << 1 ^ number >> 31) as u32
}

/// About how many bits `count` folded numbers of this sum take, and with which parameter.
pub fn estimate(sum: u64, count: u64) -> (u64, u32) {
    let near = (sum / count.max(1)).max(1).ilog2();
    let cost = |parameter: u32| {
        // Of what is cut off, half of the most that can be.
        let cut = count * ((1 << parameter) - 1) / 2;
        count * u64::from(1 + parameter) + (sum.saturating_sub(cut) >> parameter)
    };
    let tried = near.saturating_sub(1)..=near + 1;
    let tried = tried.map(|parameter| parameter.min(PARAMETER_MAX));
    let costs = tried.map(|parameter| (cost(parameter), parameter));
    costs.min().expect("three are tried")
}

impl Plan {
    /// A plan for what lies behind the first `warm_up` samples of a block, folded.
    pub fn of(numbers: &[u32], warm_up: usize) -> Plan {
        let block = numbers.len() + warm_up;
        let fits =
            |halvings: &u32| block.is_multiple_of(1 << halvings) && block >> halvings > warm_up;
        let mut halvings = (0..=HALVINGS_MAX).rev().find(fits).unwrap_or(0);
        let mut sums = [0u64; 1 << HALVINGS_MAX];
        for (part, sum) in parts(numbers, warm_up, halvings).zip(&mut sums) {
            *sum = part.iter().map(|number| u64::from(*number)).sum();
        }
        let mut best = Plan::with(&sums, (numbers.len(), warm_up), halvings);
        while halvings > 0 {
            halvings -= 1;
            for part in 0..1 << halvings {
                sums[part] = sums[2 * part] + sums[2 * part + 1];
            }
            let coarser = Plan::with(&sums, (numbers.len(), warm_up), halvings);
            if coarser.bits <= best.bits {
                best = coarser;
            }
        }
        best
    }

    fn with(sums: &[u64], (numbers, warm_up): (usize, usize), halvings: u32) -> Plan {
        let mut plan = Plan {
            halvings,
            parameters: [0; 1 << HALVINGS_MAX],
            bits: 0,
        };
        let whole = (numbers + warm_up) >> halvings;
        for (part, sum) in sums[..1 << halvings].iter().enumerate() {
            let count = if part == 0 { whole - warm_up } else { whole };
            let (bits, parameter) = estimate(*sum, count as u64);
            plan.parameters[part] = parameter;
            plan.bits += bits;
        }
        plan.bits += u64::from(plan.parameter_bits()) << halvings;
        plan
    }

    fn parameter_bits(&self) -> u32 {
        let is_long = self.parameters.iter().any(|it| *it > SHORT_MAX);
        if is_long { 5 } else { 4 }
    }

    /// Writes the numbers that this is the plan of.
    pub fn write(&self, numbers: &[u32], warm_up: usize, bits: &mut Bits) {
        let parameter_bits = self.parameter_bits();
        bits.put(parameter_bits - 4, 2);
        bits.put(self.halvings, 4);
        let parts = parts(numbers, warm_up, self.halvings);
        for (part, parameter) in parts.zip(self.parameters) {
            bits.put(parameter, parameter_bits);
            let mask = (1 << parameter) - 1;
            for number in part {
                bits.put_behind_zeros(number >> parameter, number & mask, parameter);
            }
        }
    }
}

/// The numbers in 2^`halvings` parts, of which the first lacks the `warm_up`.
fn parts(numbers: &[u32], warm_up: usize, halvings: u32) -> impl Iterator<Item = &[u32]> {
    let whole = (numbers.len() + warm_up) >> halvings;
    let (first, rest) = numbers.split_at(whole - warm_up);
    std::iter::once(first).chain(rest.chunks(whole.max(1)))
}
