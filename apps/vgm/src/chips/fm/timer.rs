//! Timer A, as far as it can be heard: in CSM mode it presses keys.
//!
//! It counts native frames as long as these are when it is loaded; a frame is
//! as many units as the prescaler says. Timer B, the flags and the interrupts make no
//! sound and are left out on purpose.
//!
//! Source: the YM2151 and YM2608 application manuals, sections on timers.

/// Timer A.
#[derive(Clone, Copy, Debug)]
pub struct TimerA {
    /// Register value, 0 to 1023.
    value: u16,
    /// Units until it expires, while it runs.
    left: Option<u32>,
    /// Units a frame.
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
    /// Sets the length of a frame, against what it was when the timer was loaded.
    pub fn set_unit(&mut self, unit: u32) {
        self.unit = unit;
    }

    /// Sets the upper 8 bits of the value, which the next load takes up.
    pub fn set_high(&mut self, high: u8) {
        self.value = self.value & 3 | u16::from(high) << 2;
    }

    /// Sets the lower 2 bits of the value.
    pub fn set_low(&mut self, low: u8) {
        self.value = self.value & 0x3fc | u16::from(low & 3);
    }

    /// The mode register: whether the timer runs and whether it presses keys.
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

    /// How many frames can be rendered before it presses a key, if it will.
    pub fn frames_to_key(&self) -> Option<u32> {
        let left = self.left.filter(|_| self.csm)?;
        Some(left.div_ceil(self.unit))
    }

    /// Goes on by `frames`; returns whether it pressed the keys at their end.
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
