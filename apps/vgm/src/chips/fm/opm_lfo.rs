//! The LFO and the noise of the OPM, which share a shift register.
//!
//! The shift register takes two steps a frame, whoever listens. Fourteen of
//! its steps depend on none of each other and are taken at once; the 64 bits
//! kept tell what it put out up to 46 steps ago, from which the noise output
//! that was latched last follows without clocking its counter.
//!
//! Source: the YM2151 application manual, sections on LFO and noise; the
//! step sizes, latching and the shift register follow ymfm.

use super::bank::{LfoStretch, push_stretch};
use super::operator::BLOCK;

/// The LFO's phase is in the bits from here on.
const FRACTION_BITS: u32 = 22;

/// Steps of the shift register that do not depend on each other.
const PARALLEL_STEPS: u32 = 14;

/// Shift register steps a frame.
const STEPS: u32 = 2;

/// Noise, LFO and their registers.
#[derive(Clone)]
pub struct OpmLfo {
    /// Register 18: a 4.4 floating point frequency.
    pub rate: u8,
    /// Register 19, the two depths it holds, 0 to 127.
    pub am_depth: u8,
    /// See `am_depth`.
    pub pm_depth: u8,
    /// Register 1B: sawtooth, square, triangle, noise.
    pub waveform: u8,
    /// Register 01: the LFO stands at 0.
    pub hold: bool,
    /// Register 0F, inverted: shift register steps from one noise value to the next, less 1.
    pub noise_period: u8,
    counter: u32,
    shift: u64,
    /// Steps since the noise was latched.
    noise_count: u32,
    /// The noise at each of the LFO's phases when it came by.
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
            shift: 1,
            noise_count: 0,
            noise_wave: [0; 256],
        }
    }
}

impl OpmLfo {
    /// Runs `frames`, at most [`BLOCK`]: writes the LFO's stretches and, if
    /// asked for, the noise's sign in each frame.
    pub fn run(
        &mut self,
        frames: usize,
        out: &mut Vec<LfoStretch>,
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
            push_stretch(out, here, am as u8, pm as i16);
            start += here;
        }
    }

    /// Goes to the phase of the next frame and through all frames that share
    /// it, at most `frames`; returns how many these are.
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

    /// The waveform's value for amplitude and pitch.
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

    /// The eight bits that the LFO's noise takes from the shift register.
    fn random(&self) -> u8 {
        (self.shift >> 17) as u8
    }

    fn shift_by(&mut self, steps: u32) {
        let mut left = steps;
        while left > 0 {
            let now = left.min(PARALLEL_STEPS);
            let ready = !(self.shift >> 3 ^ self.shift) & ((1 << PARALLEL_STEPS) - 1);
            self.shift = self.shift << now | ready >> (PARALLEL_STEPS - now);
            left -= now;
        }
        let period = u32::from(self.noise_period) + 1;
        self.noise_count = match self.noise_count + steps {
            before if before < period => before,
            // A period that was made shorter than the count ends at the first step.
            past if self.noise_count >= period => (past - self.noise_count - 1) % period,
            past => (past - period) % period,
        };
    }

    fn shift_with_noise(&mut self, signs: &mut [bool]) {
        for sign in signs {
            self.shift_by(STEPS);
            *sign = self.shift >> (17 + self.noise_count) & 1 != 0;
        }
    }
}
