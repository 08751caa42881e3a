//! The LFO and the noise of the OPL family, which both run at fixed speeds.
//!
//! Source: YM3812 application manual (depths); counters, phase and the noise's feedback as in ymfm.
//! At 49,716 frames per second the counters give 3.7 Hz and 6.1 Hz, where the manual has 3.7 Hz and
//! 6.4 Hz.

use crate::chips::fm::operator::BLOCK;

/// The number of frames in a period of the amplitude's triangle.
const AM_PERIOD: u16 = 210 * 64;
const AM_PEAK: u16 = AM_PERIOD / 2;

/// The number of frames per step of the vibrato.
const PM_STEP: u16 = 1024;

/// The triangle of the amplitude and the eight steps of the vibrato.
#[derive(Clone, Debug, Default)]
pub struct Lfo {
    am_frame: u16,
    pm_frame: u16,
    /// Whether the depth of the amplitude modulation is 4.8 dB instead of 1.
    pub deep_am: bool,
    /// Whether the depth of the vibrato is 14 cents instead of 7.
    pub deep_pm: bool,
}

impl Lfo {
    /// Returns the number of low bits of the triangle that are dropped. It sets the depth of the
    /// tremolo.
    fn am_shift(&self) -> u32 {
        if self.deep_am { 7 } else { 9 }
    }

    /// Returns the height of the triangle. Note that it is above 0 at the end of the way down.
    fn am_height(&self) -> u16 {
        match self.am_frame {
            up @ ..AM_PEAK => up,
            down => AM_PERIOD + 63 - down,
        }
    }

    /// Returns the attenuation that the LFO adds in the next frame.
    pub fn am(&self) -> u16 {
        self.am_height() >> self.am_shift()
    }

    /// Returns the vibrato of the next frame, -8 to 8.
    pub fn pm(&self) -> i32 {
        let full = [8, 4, 0, -4, -8, -4, 0, 4][usize::from(self.pm_frame / PM_STEP % 8)];
        if self.deep_pm { full } else { full >> 1 }
    }

    /// Returns the number of frames until either value may change.
    pub fn frames_to_change(&self) -> usize {
        let below = self.am_height() & ((1 << self.am_shift()) - 1);
        let am = match self.am_frame {
            up @ ..AM_PEAK => ((1 << self.am_shift()) - below).min(AM_PEAK - up),
            down => (below + 1).min(AM_PERIOD - down),
        };
        usize::from(am.min(PM_STEP - self.pm_frame % PM_STEP))
    }

    /// Advances by at most a block.
    pub fn advance(&mut self, frames: usize) {
        let frames = frames as u16;
        self.am_frame = (self.am_frame + frames) % AM_PERIOD;
        self.pm_frame = self.pm_frame.wrapping_add(frames);
    }
}

/// The noise of the drums, a shift register that we run only if it is needed.
#[derive(Clone, Debug)]
pub struct Noise {
    register: u32,
    /// The number of shifts that were skipped so far.
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

    /// Advances by `frames` without computing the noise.
    pub fn skip(&mut self, frames: usize) {
        self.behind += frames as u64;
    }

    /// Writes the noise of the next `frames`, 0 or 1 for each frame.
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
