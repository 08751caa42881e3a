//! The effects of the SCSP: a processor with 128 steps per frame and a ring buffer in the sound
//! memory.
//!
//! | address | |
//! |---|---|
//! | 402 | `-------ll ppppppp`: the ring's length, 8 to 64 Ki words, and its start, in units of 4 Ki words |
//! | 700–77F | 64 coefficients of 13 bits, in the upper bits of words |
//! | 780–7BF | 32 addresses in the ring |
//! | 800–BFF | 128 steps of four words |
//!
//! | word of a step | bits | |
//! |---|---|---|
//! | 0 | `-tttttttwaaaaaaa` | TEMP read; written if w, at a |
//! | 1 | `xyy-iiiiiiwaaaaa` | sources of X and Y; which input; MEMS written if w, at a |
//! | 2 | `twrebbbbAFssYnzb` | no ring, memory written, read; EFREG at b written if e; loads of ADRS, FRC, shift, load of Y; −B, no B, B is the sum |
//! | 3 | `lcccccc--aaaaamn` | memory is not packed; coefficient; address, plus ADRS if m, plus 1 if n |
//!
//! Each step computes X × Y + B from the state before it. The result of the previous step is
//! shifted and stored. Only odd steps can access memory. Addresses and TEMP move by one every
//! frame.
//!
//! Source: Sega Saturn SCSP User's Manual, "DSP"; the timing within a step and the packed format of
//! memory as MAME has them (BSD-3-Clause, ElSemi, R. Belmont).

const STEPS: usize = 128;
const INPUTS: usize = 16;

/// A decoded step.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    temp_read: usize,
    temp_write: Option<usize>,
    x_is_input: bool,
    y: u8,
    input: usize,
    mems_write: Option<usize>,
    beyond_ring: bool,
    writes: bool,
    reads: bool,
    effect: Option<usize>,
    loads_address: bool,
    loads_fraction: bool,
    shift: u8,
    loads_y: bool,
    negates: bool,
    no_b: bool,
    b_is_sum: bool,
    unpacked: bool,
    coefficient: usize,
    address: usize,
    adds_address: bool,
    next: bool,
}

impl Step {
    fn of(number: usize, words: &[u16]) -> Step {
        let bits = |word: usize, shift: u32, bits: u32| {
            usize::from(words[word] >> shift) & ((1 << bits) - 1)
        };
        let is = |word: usize, bit: u32| bits(word, bit, 1) != 0;
        let odd = number & 1 != 0;
        Step {
            temp_read: bits(0, 8, 7),
            temp_write: is(0, 7).then(|| bits(0, 0, 7)),
            x_is_input: is(1, 15),
            y: bits(1, 13, 2) as u8,
            input: bits(1, 6, 6),
            mems_write: is(1, 5).then(|| bits(1, 0, 5)),
            beyond_ring: is(2, 15),
            writes: is(2, 14) && odd,
            reads: is(2, 13) && odd,
            effect: is(2, 12).then(|| bits(2, 8, 4)),
            loads_address: is(2, 7),
            loads_fraction: is(2, 6),
            shift: bits(2, 4, 2) as u8,
            loads_y: is(2, 3),
            negates: is(2, 2),
            no_b: is(2, 1),
            b_is_sum: is(2, 0),
            unpacked: is(3, 15),
            coefficient: bits(3, 9, 6),
            address: bits(3, 2, 5),
            adds_address: is(3, 1),
            next: is(3, 0),
        }
    }
}

/// The registers that a step passes to the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    sum: i32,
    memory: i32,
    fraction: i32,
    y: i32,
    address: u32,
}

/// The processor of the effects.
#[derive(Clone, Debug)]
pub struct Dsp {
    /// Word 402: the length and the start of the ring buffer.
    ring: u16,
    coefficients: [u16; 64],
    addresses: [u16; 32],
    program: [u16; 4 * STEPS],
    /// The program up to its last step that is not empty.
    steps: Vec<Step>,
    stale: bool,
    temp: [i32; 128],
    mems: [i32; 32],
    /// The inputs, each of which is the sum of the values that slots have sent in this frame. A
    /// value has 20 bits.
    sent: [i32; INPUTS],
    /// The outputs, 16 bits.
    effects: [i32; INPUTS],
    turn: u32,
}

impl Default for Dsp {
    fn default() -> Self {
        Dsp {
            ring: 0,
            coefficients: [0; 64],
            addresses: [0; 32],
            program: [0; 4 * STEPS],
            steps: Vec::new(),
            stale: false,
            temp: [0; 128],
            mems: [0; 32],
            sent: [0; INPUTS],
            effects: [0; INPUTS],
            turn: 0,
        }
    }
}

/// Returns a number of 24 bits, sign-extended.
fn signed_24(value: i32) -> i32 {
    value << 8 >> 8
}

impl Dsp {
    /// Writes a byte of the processor's registers. Other addresses are ignored.
    pub fn write(&mut self, address: u16, byte: u8) {
        let place = |first: u16| usize::from((address - first) >> 1);
        let word = match address {
            0x402 | 0x403 => &mut self.ring,
            0x700..=0x77F => &mut self.coefficients[place(0x700)],
            0x780..=0x7BF => &mut self.addresses[place(0x780)],
            0x800..=0xBFF => {
                self.stale = true;
                &mut self.program[place(0x800)]
            }
            _ => return,
        };
        let [mut high, mut low] = word.to_be_bytes();
        if address & 1 == 0 {
            high = byte;
        } else {
            low = byte;
        }
        *word = u16::from_be_bytes([high, low]);
    }

    /// Returns whether the program is not empty.
    pub fn works(&mut self) -> bool {
        if self.stale {
            self.stale = false;
            let steps = self.program.chunks_exact(4);
            let length = steps
                .clone()
                .rposition(|words| words != [0; 4])
                .map_or(0, |last| last + 1);
            let steps = steps.take(length).enumerate();
            self.steps = steps
                .map(|(number, words)| Step::of(number, words))
                .collect();
        }
        !self.steps.is_empty()
    }

    /// Sends the 16-bit value of a slot to an input. `level` is 1 to 7, with 6 dB per step.
    #[inline]
    pub fn send(&mut self, input: usize, value: i32, level: u32) {
        self.sent[input] += (value << 4) >> (7 - level);
    }

    /// Returns the outputs, 16 bits each.
    pub fn effects(&self) -> impl Iterator<Item = i32> {
        self.effects
            .iter()
            .map(|value| (*value).clamp(-0x8000, 0x7FFF))
    }

    /// Runs the program once. `ram` is the sound memory, which contains words with their high byte
    /// first.
    pub fn run(&mut self, ram: &mut [u8]) {
        self.effects = [0; INPUTS];
        let steps = std::mem::take(&mut self.steps);
        let mut registers = Registers::default();
        for step in &steps {
            self.step(step, &mut registers, ram);
        }
        self.steps = steps;
        self.turn = self.turn.wrapping_sub(1);
        self.sent = [0; INPUTS];
    }

    fn step(&mut self, step: &Step, r: &mut Registers, ram: &mut [u8]) {
        let temp_at = |place: usize| place.wrapping_add(self.turn as usize) & 127;
        let temp = self.temp[temp_at(step.temp_read)];
        let mut input = signed_24(match step.input {
            place @ 0..32 => self.mems[place],
            place @ 32..48 => self.sent[place - 32] << 4,
            // The external inputs, to which nothing is connected.
            _ => 0,
        });
        if let Some(place) = step.mems_write {
            self.mems[place] = r.memory;
            if place == step.input {
                input = signed_24(r.memory);
            }
        }
        let b = match (step.no_b, step.b_is_sum) {
            (true, _) => 0,
            (_, true) => r.sum,
            _ => temp,
        };
        let b = if step.negates { b.wrapping_neg() } else { b };
        let x = if step.x_is_input { input } else { temp };
        let y = match step.y {
            0 => r.fraction,
            1 => i32::from(self.coefficients[step.coefficient] >> 3),
            2 => r.y >> 11 & 0x1FFF,
            _ => r.y >> 4 & 0x0FFF,
        };
        // Sign-extends 13 bits.
        let y = y << 19 >> 19;
        if step.loads_y {
            r.y = input;
        }
        let shifted = match step.shift {
            0 => r.sum.clamp(-0x80_0000, 0x7F_FFFF),
            1 => r.sum.saturating_mul(2).clamp(-0x80_0000, 0x7F_FFFF),
            2 => signed_24(r.sum.wrapping_mul(2)),
            _ => signed_24(r.sum),
        };
        r.sum = ((i64::from(x) * i64::from(y)) >> 12) as i32;
        // Wraps to 26 bits.
        r.sum = r.sum.wrapping_add(b) << 6 >> 6;
        if let Some(place) = step.temp_write {
            self.temp[temp_at(place)] = shifted;
        }
        if step.loads_fraction {
            r.fraction = match step.shift {
                3 => shifted & 0x0FFF,
                _ => shifted >> 11 & 0x1FFF,
            };
        }
        if step.reads || step.writes {
            self.reach(step, shifted, r, ram);
        }
        if step.loads_address {
            r.address = match step.shift {
                3 => shifted >> 12 & 0xFFF,
                _ => input >> 16,
            } as u32;
        }
        if let Some(place) = step.effect {
            self.effects[place] += shifted >> 8;
        }
    }

    /// Reads and writes memory.
    fn reach(&self, step: &Step, shifted: i32, r: &mut Registers, ram: &mut [u8]) {
        let mut at = u32::from(self.addresses[step.address]);
        if !step.beyond_ring {
            at = at.wrapping_add(self.turn);
        }
        if step.adds_address {
            at = at.wrapping_add(r.address & 0x0FFF);
        }
        at = at.wrapping_add(u32::from(step.next));
        at &= match step.beyond_ring {
            true => 0xFFFF,
            false => (0x2000 << (self.ring >> 7 & 3)) - 1,
        };
        at += u32::from(self.ring & 0x7F) << 12;
        let Some(word) = ram.as_chunks_mut::<2>().0.get_mut(at as usize) else {
            r.memory = 0;
            return;
        };
        if step.reads {
            let value = u16::from_be_bytes(*word);
            r.memory = match step.unpacked {
                true => i32::from(value as i16) << 8,
                false => unpacked(value),
            };
        }
        if step.writes {
            let value = match step.unpacked {
                true => (shifted >> 8) as u16,
                false => packed(shifted),
            };
            *word = value.to_be_bytes();
        }
    }
}

/// Packs a number of 24 bits into 16.
///
/// The result has the sign, the number of following bits that equal the sign (at most 12, in four
/// bits), and eleven bits of mantissa.
fn packed(value: i32) -> u16 {
    let sign = value >> 23 & 1;
    let differing = (value ^ value << 1) & 0xFF_FFFF;
    let exponent = ((differing.leading_zeros() as i32) - 8).min(12);
    let mantissa = match exponent {
        0..12 => (value << exponent & 0x3F_FFFF) >> 11,
        _ => value & 0x7FF,
    };
    (sign << 15 | exponent << 11 | mantissa & 0x7FF) as u16
}

fn unpacked(value: u16) -> i32 {
    let (sign, exponent) = (i32::from(value >> 15), i32::from(value >> 11 & 15));
    let mantissa = i32::from(value & 0x7FF) << 11;
    let (exponent, top) = match exponent {
        // The first bit that differs from the sign is not stored, unless there is none.
        0..12 => (exponent, sign ^ 1),
        _ => (11, sign),
    };
    signed_24(mantissa | top << 22 | sign << 23) >> exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_keep_twelve_bits() {
        for bits in 1..24 {
            for value in [
                (1 << bits) - 1,
                -(1 << bits),
                1 << (bits - 1),
                (5 << bits) >> 3,
            ] {
                let value: i32 = value;
                let back = unpacked(packed(value));
                let most = (value.abs() >> 11).max(0);
                assert!((back - value).abs() <= most, "{value:#x} {back:#x}");
                assert_eq!(back < 0, value < 0);
            }
        }
        assert_eq!(unpacked(packed(0)), 0);
        assert_eq!(unpacked(packed(-1)), -1);
    }

    /// Creates a processor with a program of these steps, of four words each.
    fn dsp(steps: &[[u16; 4]]) -> Dsp {
        let mut dsp = Dsp::default();
        let bytes = steps.iter().flatten().flat_map(|word| word.to_be_bytes());
        for (address, byte) in (0x800..).zip(bytes) {
            dsp.write(address, byte);
        }
        assert!(dsp.works());
        dsp
    }

    /// Returns word 1 of a step that multiplies input `input` (X) by its coefficient (Y).
    const fn times(input: u16) -> u16 {
        1 << 15 | 1 << 13 | input << 6
    }

    /// Word 2 of a step that adds nothing to the product.
    const NO_B: u16 = 2;
    /// Returns word 2 of a step that adds nothing to the product, and stores a sum in EFREG `at`.
    const fn to_effect(at: u16) -> u16 {
        1 << 12 | at << 8 | NO_B
    }

    #[test]
    fn dsp_multiplies_input_by_coefficient() {
        // The program multiplies input 3 (place 23h) by one half, and stores the result in EFREG 5.
        let mut dsp = dsp(&[[0, times(0x23), NO_B, 0], [0, 0, to_effect(5), 0]]);
        dsp.write(0x700, 0x40);
        let mut ram = vec![0; 0x8_0000];
        dsp.send(3, 20_000, 7);
        dsp.run(&mut ram);
        let back: Vec<i32> = dsp.effects().collect();
        // The 16 bits of an input are extended to 24, and the result is reduced to 16 again.
        assert_eq!(back[5], 10_000);
        assert_eq!(back.iter().filter(|value| **value != 0).count(), 1);
        dsp.send(3, 20_000, 4);
        dsp.run(&mut ram);
        assert_eq!(
            dsp.effects().nth(5),
            Some(1_250),
            "the level must be 18 dB lower"
        );
    }

    #[test]
    fn dsp_ring_delay_is_the_address_difference() {
        // Step 0: X = input 0 × 1. Step 1 writes it at address 0 of the list. Step 3 reads address
        // 1. Step 4 copies it to MEMS 0, step 5 multiplies, and step 6 writes to EFREG 0.
        let steps = [
            [0, times(0x20), NO_B, 1 << 9],
            [0, 0, 1 << 14 | NO_B, 1 << 15],
            [0; 4],
            [0, 0, 1 << 13 | NO_B, 1 << 15 | 1 << 2],
            [0, 1 << 5, NO_B, 0],
            [0, times(0), NO_B, 1 << 9],
            [0, 0, to_effect(0), 0],
        ];
        let mut dsp = dsp(&steps);
        // Coefficient 1 is almost 1. Address 1 of the list is 100 words after address 0.
        for (address, byte) in [(0x702, 0x7F), (0x703, 0xF8), (0x783, 100), (0x403, 2)] {
            dsp.write(address, byte);
        }
        let mut ram = vec![0; 0x8_0000];
        let mut found = Vec::new();
        for frame in 0..300 {
            dsp.send(0, if frame == 10 { 16_000 } else { 0 }, 7);
            dsp.run(&mut ram);
            found.push(dsp.effects().next().unwrap());
        }
        let heard: Vec<_> = (0..300).filter(|frame| found[*frame].abs() > 8).collect();
        assert_eq!(heard, [110]);
        assert!((found[110] - 16_000).abs() < 30, "{}", found[110]);
        assert!(
            ram[..0x4000].iter().all(|byte| *byte == 0),
            "the ring must begin at 4000h"
        );
    }

    #[test]
    fn dsp_temp_index_advances_once_per_frame() {
        // The program writes the input to TEMP 1 and reads TEMP 2. It therefore finds the input a
        // frame later.
        let steps = [
            [0, times(0x20), NO_B, 1 << 9],
            [1 << 7 | 1, 0, NO_B, 0],
            [2 << 8, 1 << 13, NO_B, 1 << 9],
            [0, 0, to_effect(0), 0],
        ];
        let mut dsp = dsp(&steps);
        dsp.write(0x702, 0x7F);
        dsp.write(0x703, 0xF8);
        let mut ram = vec![0; 0x8_0000];
        let found: Vec<i32> = [9_000, 0, 0]
            .map(|sent| {
                dsp.send(0, sent, 7);
                dsp.run(&mut ram);
                dsp.effects().next().unwrap()
            })
            .to_vec();
        assert!(
            found[0] == 0 && (found[1] - 9_000).abs() < 20 && found[2] == 0,
            "{found:?}"
        );
    }
}
