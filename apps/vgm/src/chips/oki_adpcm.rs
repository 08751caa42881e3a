//! The ADPCM of OKI's chips: codes of 4 bits that change a value of 12 bits in adaptive steps.
//!
//! The low three bits of a code select a multiple of the current step size. The value moves by this
//! amount, or downwards if bit 3 is set. Then the step size itself changes. There are 49 sizes, and
//! each is 1.1 times the one before. The parts of a step are truncated separately, because the
//! chips use shifters.
//!
//! Source: OKI MSM5205, MSM6258 and MSM6295 data sheets; Dialogic ADPCM Algorithm, appendix A.

/// The step sizes: 16 × 1.1^n, truncated.
const SIZES: [i32; 49] = [
    16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118, 130,
    143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796,
    876, 963, 1060, 1166, 1282, 1411, 1552,
];

/// The changes of the size index after a code, by the low three bits of the code.
const MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

/// The change of the value and the next size index, by size index and code.
static STEPS: [[(i16, u8); 16]; 49] = steps();

const fn steps() -> [[(i16, u8); 16]; 49] {
    let mut steps = [[(0, 0); 16]; 49];
    let mut place = 0;
    while place < 49 * 16 {
        let (at, code) = (place / 16, place % 16);
        let size = SIZES[at];
        let [half, quarter, eighth] = [size / 2, size / 4, size / 8];
        let bits = [code as i32 >> 2 & 1, code as i32 >> 1 & 1, code as i32 & 1];
        let moved = bits[0] * size + bits[1] * half + bits[2] * quarter + eighth;
        let moved = if code & 8 != 0 { -moved } else { moved };
        let mut next = at as i32 + MOVES[code & 7];
        if next < 0 {
            next = 0;
        }
        if next > 48 {
            next = 48;
        }
        steps[at][code] = (moved as i16, next as u8);
        place += 1;
    }
    steps
}

/// A queue of at most sixteen codes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codes {
    /// The codes. The next one is in the lowest bits.
    bits: u64,
    count: u32,
}

impl Codes {
    /// Returns the number of queued codes.
    #[inline]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Appends a code of 4 bits. If the queue is full, the code is dropped.
    #[inline]
    pub fn push(&mut self, code: u8) {
        if self.count < 16 {
            self.bits |= u64::from(code & 15) << (4 * self.count);
            self.count += 1;
        }
    }

    /// Removes the next code and returns it.
    #[inline]
    pub fn pop(&mut self) -> Option<u8> {
        let code = self.bits as u8 & 15;
        self.count = self.count.checked_sub(1)?;
        self.bits >>= 4;
        Some(code)
    }

    /// Removes the two codes after the first `kept` ones.
    #[inline]
    pub fn drop_pair(&mut self, kept: u32) {
        let low = (1 << (4 * kept)) - 1;
        self.bits = self.bits & low | self.bits >> 8 & !low;
        self.count -= 2;
    }
}

/// The current step size, as an index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps(u8);

impl Steps {
    /// Decodes a code of 4 bits and returns the change of the value.
    #[inline]
    pub fn take(&mut self, code: u8) -> i32 {
        let (moved, next) = STEPS[usize::from(self.0)][usize::from(code & 15)];
        self.0 = next;
        i32::from(moved)
    }
}

/// A decoder whose value is the sum of the steps. The value starts in the middle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oki {
    value: i32,
    steps: Steps,
}

impl Oki {
    /// Creates a decoder whose value starts half a step of a 10-bit output below the middle.
    pub fn from_below() -> Self {
        Oki {
            value: -2,
            ..Oki::default()
        }
    }

    /// Decodes a code and returns the new value.
    #[inline]
    pub fn step(&mut self, code: u8) -> i32 {
        self.value = (self.value + self.steps.take(code)).clamp(-2048, 2047);
        self.value
    }

    /// Returns the value, -2048 to 2047.
    pub fn value(&self) -> i32 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn code_queue_is_fifo_and_drops_pairs() {
        let (mut codes, mut model) = (Codes::default(), VecDeque::new());
        let mut random = 1u32;
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let code = (random >> 24) as u8;
            match random >> 20 & 7 {
                0..=3 => {
                    codes.push(code);
                    if model.len() < 16 {
                        model.push_back(code & 15);
                    }
                }
                4..=6 => assert_eq!(codes.pop(), model.pop_front()),
                _ => {
                    let kept = u32::from(code & 1);
                    if model.len() as u32 >= kept + 2 {
                        codes.drop_pair(kept);
                        model.drain(kept as usize..kept as usize + 2);
                    }
                }
            }
            assert_eq!(codes.len() as usize, model.len());
        }
    }
}
