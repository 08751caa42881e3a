//! Timer A, as far as it is audible: in CSM mode it presses keys.
//!
//! The keys are released one frame after the timer has pressed them. A key that the key register
//! holds stays pressed. We do not follow ymfm here. As of ymfm-sys 0.2, it releases the keys only
//! at the next write, or after 4,096 frames. However, the manuals describe a mode that turns the
//! keys on and off with each overflow, and gate-level cores agree with them.
//!
//! The timer counts native frames. A frame has as many units as the prescaler, and the period is
//! computed when the timer is loaded. We leave out timer B, the flags and the interrupts on
//! purpose, because they make no sound.
//!
//! Source: the YM2151 and YM2608 application manuals, sections on timers.

/// Timer A, which presses keys in CSM mode.
#[derive(Clone, Copy, Debug)]
pub struct TimerA {
    /// The register value, 0 to 1023.
    value: u16,
    /// The number of units until the timer expires, while it runs.
    left: Option<u32>,
    /// The number of units per frame.
    unit: u32,
    csm: bool,
}

impl Default for TimerA {
    fn default() -> Self {
        Self {
            value: 0,
            left: None,
            unit: 1,
            csm: false,
        }
    }
}

impl TimerA {
    /// Sets the number of units per frame. A running period keeps its number of remaining units, so
    /// its duration changes.
    pub fn set_unit(&mut self, unit: u32) {
        self.unit = unit;
    }

    /// Sets the upper 8 bits of the value, which take effect at the next load.
    pub fn set_high(&mut self, high: u8) {
        self.value = self.value & 3 | u16::from(high) << 2;
    }

    /// Sets the lower 2 bits of the value.
    pub fn set_low(&mut self, low: u8) {
        self.value = self.value & 0x3fc | u16::from(low & 3);
    }

    /// Sets the mode: whether the timer runs and whether it presses keys.
    pub fn set_mode(&mut self, load: bool, csm: bool) {
        self.csm = csm;
        self.left = match self.left {
            _ if !load => None,
            None => Some(self.period()),
            running => running,
        };
    }

    fn period(&self) -> u32 {
        (1024 - u32::from(self.value)) * self.unit
    }

    /// Returns the number of frames until the timer presses a key, if it will.
    pub fn frames_to_key(&self) -> Option<u32> {
        let left = self.left.filter(|_| self.csm)?;
        Some(left.div_ceil(self.unit))
    }

    /// Advances by `frames`, and returns whether the timer pressed the keys at their end.
    pub fn advance(&mut self, frames: usize) -> bool {
        let (units, period) = (frames as u32 * self.unit, self.period());
        let Some(left) = &mut self.left else {
            return false;
        };
        if units < *left {
            *left -= units;
            return false;
        }
        *left = period - (units - *left) % period;
        self.csm
    }
}
