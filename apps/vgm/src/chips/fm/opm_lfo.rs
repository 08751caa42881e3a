//! The LFO and the noise of the OPM, which share a shift register.
//!
//! The shift register advances two steps per frame, even if its output is not used. The output is
//! periodic. Therefore we compute it once and store the register as a position in it. The noise
//! value that was latched last is at an earlier position of the same output.
//!
//! Source: the YM2151 application manual, sections on LFO and noise; the step sizes, latching and
//! the shift register follow ymfm.

use std::sync::LazyLock;

use super::bank::{ChannelLfoSegment, push_segment};
use super::operator::BLOCK;

/// The lowest bit of the LFO's phase in its counter.
const FRACTION_BITS: u32 = 22;

/// The number of bits before the first step, which represent the initial state of the register.
const INITIAL_BITS: usize = 64;

/// The number of steps after which the shift register repeats.
const PERIOD: usize = (1 << 17) - 1;

/// The position in [`BITS`] at which we subtract a period. All bits that are read after this are
/// beyond the initial state.
const WRAP: usize = PERIOD + 2 * INITIAL_BITS;

/// The output of the shift register. The first bit is the lowest bit of each byte.
static BITS: LazyLock<[u8; WRAP / 8 + 1]> = LazyLock::new(|| {
    let mut bits = [0; WRAP / 8 + 1];
    let get = |bits: &[u8], at: usize| bits[at / 8] >> (at % 8) & 1;
    bits[(INITIAL_BITS - 1) / 8] = 0x80;
    for at in INITIAL_BITS..WRAP {
        let new = !(get(&bits, at - 17) ^ get(&bits, at - 14)) & 1;
        bits[at / 8] |= new << (at % 8);
    }
    bits
});

/// The number of steps of the shift register per frame.
const STEPS: u32 = 2;

/// The noise, the LFO and their registers.
#[derive(Clone)]
pub struct OpmLfo {
    /// Register 18: the frequency as a 4.4 floating-point number.
    pub rate: u8,
    /// Register 19: the amplitude depth, 0 to 127.
    pub am_depth: u8,
    /// Register 19: the pitch depth, 0 to 127.
    pub pm_depth: u8,
    /// Register 1B: sawtooth, square, triangle, noise.
    pub waveform: u8,
    /// Register 01: whether the LFO is held at 0.
    pub hold: bool,
    /// Register 0F, inverted: the number of steps between two noise values, less 1.
    pub noise_period: u8,
    counter: u32,
    /// The position of the shift register, as the number of bits in its output.
    place: usize,
    /// The number of steps since the noise was latched.
    noise_count: u32,
    /// The noise at each phase of the LFO when the phase was last reached.
    noise_wave: [u8; 256],
}

impl Default for OpmLfo {
    fn default() -> Self {
        Self {
            rate: 0,
            am_depth: 0,
            pm_depth: 0,
            waveform: 0,
            hold: false,
            noise_period: 31,
            counter: 0,
            place: INITIAL_BITS,
            noise_count: 0,
            noise_wave: [0; 256],
        }
    }
}

impl OpmLfo {
    /// Runs `frames`, at most [`BLOCK`].
    ///
    /// Writes the segments of the LFO to `out` and, if requested, the sign of the noise in each
    /// frame to `signs`.
    pub fn run(
        &mut self,
        frames: usize,
        out: &mut Vec<ChannelLfoSegment>,
        mut signs: Option<&mut [bool; BLOCK]>,
    ) {
        out.clear();
        let mut start = 0;
        while start < frames {
            let here = self.advance_phase(frames - start);
            match &mut signs {
                Some(signs) => self.shift_with_noise(&mut signs[start..start + here]),
                None => self.shift_by(here as u32 * STEPS),
            }
            let phase = self.phase();
            let (am, pm) = self.wave(phase);
            self.noise_wave[usize::from(phase.wrapping_add(1))] = self.random();
            let am = (u32::from(am) * u32::from(self.am_depth)) >> 7;
            let pm = (i32::from(pm) * i32::from(self.pm_depth)) >> 7;
            push_segment(out, here, am as u8, pm as i16);
            start += here;
        }
    }

    /// Advances to the phase of the next frame and through all frames with the same phase, at most
    /// `frames`.
    ///
    /// Returns the number of these frames.
    fn advance_phase(&mut self, frames: usize) -> usize {
        if self.hold {
            self.counter = 0;
            return frames;
        }
        let step = (0x10 | u32::from(self.rate & 15)) << (self.rate >> 4);
        self.counter = self.counter.wrapping_add(step);
        let room = (1 << FRACTION_BITS) - 1 - (self.counter & ((1 << FRACTION_BITS) - 1));
        let more = (room / step).min(frames as u32 - 1);
        self.counter = self.counter.wrapping_add(more * step);
        1 + more as usize
    }

    fn phase(&self) -> u8 {
        (self.counter >> FRACTION_BITS) as u8
    }

    /// Returns the waveform's values for amplitude and pitch.
    fn wave(&self, phase: u8) -> (u8, i8) {
        let second_half = phase & 0x80 != 0;
        match self.waveform & 3 {
            0 => (!phase, phase as i8),
            1 if second_half => (0, 0x80u8 as i8),
            1 => (0xff, 0x7f),
            2 => {
                let am = if second_half { phase << 1 } else { !phase << 1 };
                (
                    am,
                    if phase & 0x40 != 0 {
                        am as i8
                    } else {
                        !am as i8
                    },
                )
            }
            _ => {
                let noise = self.noise_wave[usize::from(phase)];
                (noise, noise as i8)
            }
        }
    }

    /// Returns the eight bits of the LFO's noise from the shift register, newest bit lowest.
    fn random(&self) -> u8 {
        let oldest = self.place - 25;
        let pair = u16::from_le_bytes([BITS[oldest / 8], BITS[oldest / 8 + 1]]);
        ((pair >> (oldest % 8)) as u8).reverse_bits()
    }

    fn shift_by(&mut self, steps: u32) {
        self.place += steps as usize;
        if self.place >= WRAP {
            self.place -= PERIOD;
        }
        let period = u32::from(self.noise_period) + 1;
        self.noise_count = match self.noise_count + steps {
            before if before < period => before,
            // If a write has made the period shorter than the current count, the period ends at the
            // first step.
            past if self.noise_count >= period => (past - self.noise_count - 1) % period,
            past => (past - period) % period,
        };
    }

    fn shift_with_noise(&mut self, signs: &mut [bool]) {
        let period = u32::from(self.noise_period) + 1;
        let mut rest = signs;
        while !rest.is_empty() {
            self.shift_by(STEPS);
            let at = self.place - 18 - self.noise_count as usize;
            let sign = BITS[at / 8] >> (at % 8) & 1 != 0;
            // The sign stays the same up to the frame in which the noise is latched again.
            let more = (period - 1).saturating_sub(self.noise_count) / STEPS;
            let more = more.min(rest.len() as u32 - 1);
            self.shift_by(more * STEPS);
            let (alike, after) = rest.split_at_mut(1 + more as usize);
            alike.fill(sign);
            rest = after;
        }
    }
}
