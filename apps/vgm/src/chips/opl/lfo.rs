//! The LFO and the noise of the OPL family: both run at fixed speeds.
//!
//! Source: YM3812 application manual (3.7 Hz, 6.4 Hz, depths); counters, phase
//! and the noise's feedback as in ymfm.

use crate::chips::fm::operator::BLOCK;

/// Frames of the amplitude's triangle.
const AM_PERIOD: u16 = 210 * 64;
const AM_PEAK: u16 = AM_PERIOD / 2;

/// Frames for which the vibrato stands still.
const PM_STEP: u16 = 1024;

/// The amplitude's triangle and the vibrato's eight steps.
#[derive(Clone, Debug, Default)]
pub struct Lfo {
    am_frame: u16,
    pm_frame: u16,
    /// Whether the amplitude moves by 4.8 dB instead of 1.
    pub deep_am: bool,
    /// Whether the vibrato moves by 14 cents instead of 7.
    pub deep_pm: bool,
}

impl Lfo {
    /// Bits of the triangle below its value.
    fn am_shift(&self) -> u32 {
        if self.deep_am { 7 } else { 9 }
    }

    /// The triangle's height, above 0 also at its foot on the way down.
    fn am_height(&self) -> u16 {
        match self.am_frame {
            up @ ..AM_PEAK => up,
            down => AM_PERIOD + 63 - down,
        }
    }

    /// The attenuation it adds in the next frame.
    pub fn am(&self) -> u16 {
        self.am_height() >> self.am_shift()
    }

    /// The vibrato of the next frame, -8 to 8.
    pub fn pm(&self) -> i32 {
        let full = [8, 4, 0, -4, -8, -4, 0, 4][usize::from(self.pm_frame / PM_STEP % 8)];
        if self.deep_pm { full } else { full >> 1 }
    }

    /// Frames until either may change.
    pub fn frames_to_change(&self) -> usize {
        let below = self.am_height() & ((1 << self.am_shift()) - 1);
        let am = match self.am_frame {
            up @ ..AM_PEAK => ((1 << self.am_shift()) - below).min(AM_PEAK - up),
            down => (below + 1).min(AM_PERIOD - down),
        };
        usize::from(am.min(PM_STEP - self.pm_frame % PM_STEP))
    }

    /// Goes on by at most a block.
    pub fn advance(&mut self, frames: usize) {
        let frames = frames as u16;
        self.am_frame = (self.am_frame + frames) % AM_PERIOD;
        self.pm_frame = self.pm_frame.wrapping_add(frames);
    }
}

/// The noise of the drums, a shift register that is run only for them.
#[derive(Clone, Debug)]
pub struct Noise {
    register: u32,
    /// Shifts that are owed.
    behind: u64,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            register: 1,
            behind: 0,
        }
    }
}

impl Noise {
    fn shift(&mut self) {
        let old = self.register;
        self.register = old << 1 | (old >> 22 ^ old >> 8 ^ old >> 7 ^ old) & 1;
    }

    /// Goes on by `frames` without listening.
    pub fn skip(&mut self, frames: usize) {
        self.behind += frames as u64;
    }

    /// Writes the noise of the next `frames`, 0 or 1 each.
    pub fn run(&mut self, frames: usize, out: &mut [u16; BLOCK]) {
        for _ in 0..std::mem::take(&mut self.behind) {
            self.shift();
        }
        for bit in &mut out[..frames] {
            self.shift();
            *bit = (self.register >> 23 & 1) as u16;
        }
    }
}
