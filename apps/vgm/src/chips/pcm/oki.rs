//! The ADPCM of OKI's chips: codes of four bits that move a value of 12 by a step that itself moves.
//!
//! Source: OKI MSM6258 and MSM6295 data sheets; Dialogic ADPCM Algorithm, appendix A.

/// Step sizes: 16 × 1.1^n, cut.
const SIZES: [i32; 49] = [
    16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118, 130,
    143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796,
    876, 963, 1060, 1166, 1282, 1411, 1552,
];

/// How the step moves after a code, by its low three bits.
const MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

/// A decoder.
#[derive(Clone, Copy, Debug)]
pub struct Oki {
    value: i32,
    step: i32,
}

impl Default for Oki {
    /// After a start the value is half a step below the middle.
    fn default() -> Self {
        Oki { value: -2, step: 0 }
    }
}

impl Oki {
    /// Takes a code; the value then.
    #[inline]
    pub fn step(&mut self, code: u8) -> i32 {
        let size = SIZES[self.step as usize];
        let bit = |bit: u8, part: i32| if code & bit != 0 { part } else { 0 };
        let moved = bit(4, size) + bit(2, size / 2) + bit(1, size / 4) + size / 8;
        let moved = if code & 8 != 0 { -moved } else { moved };
        self.value = (self.value + moved).clamp(-2048, 2047);
        self.step = (self.step + MOVES[usize::from(code & 7)]).clamp(0, 48);
        self.value
    }
}
