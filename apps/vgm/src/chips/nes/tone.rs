//! The pulses, the triangle and the noise, and their common parts: lengths and envelopes.

use super::LENGTHS;
use crate::chips::step_chip::{Countdown, is_inaudible};

/// A counter that ends a note after a given number of half frames, unless the song holds it. There
/// are two half frames in a round of the frame counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    on: bool,
    hold: bool,
    left: u8,
}

impl Length {
    pub fn switch(&mut self, on: bool) {
        self.on = on;
        if !on {
            self.left = 0;
        }
    }

    pub fn clock(&mut self) {
        if !self.hold {
            self.left = self.left.saturating_sub(1);
        }
    }

    fn set(&mut self, value: u8) {
        if self.on {
            self.left = LENGTHS[usize::from(value >> 3)];
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// A volume that is either constant or decays from 15.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope {
    constant: bool,
    loops: bool,
    /// The constant volume, or the period less 1.
    value: u8,
    starts: bool,
    divider: u8,
    decay: u8,
}

impl Envelope {
    fn write(&mut self, value: u8) {
        self.loops = value & 0x20 != 0;
        self.constant = value & 0x10 != 0;
        self.value = value & 15;
    }

    pub fn clock(&mut self) {
        if self.starts {
            self.starts = false;
            self.decay = 15;
            self.divider = self.value;
        } else if self.divider > 0 {
            self.divider -= 1;
        } else {
            self.divider = self.value;
            if self.decay > 0 {
                self.decay -= 1;
            } else if self.loops {
                self.decay = 15;
            }
        }
    }

    fn level(&self) -> u8 {
        if self.constant {
            self.value
        } else {
            self.decay
        }
    }
}

/// A pulse. Its duty selects the eighths of its period that are high.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    pub envelope: Envelope,
    pub length: Length,
    pub count: Countdown,
    period: u16,
    duty: u8,
    /// The current eighth of the period, which counts down.
    phase: u8,
    sweep: u8,
    sweep_divider: u8,
    sweep_starts: bool,
    /// The additional amount to subtract when the sweep lowers the period. It is 1 for the first
    /// pulse, because that pulse adds the ones' complement, and otherwise 0.
    less: u16,
}

/// The eighths of the period that are high, from bit 0, as the phase counts down.
const DUTIES: [u8; 4] = [0b1000_0000, 0b1100_0000, 0b1111_0000, 0b0011_1111];

impl Pulse {
    pub fn new(less: u16) -> Self {
        Pulse {
            envelope: Envelope::default(),
            length: Length::default(),
            count: Countdown::default(),
            period: 0,
            duty: 0,
            phase: 0,
            sweep: 0,
            sweep_divider: 0,
            sweep_starts: false,
            less,
        }
    }

    pub fn write(&mut self, reg: u8, value: u8) {
        match reg {
            0 => {
                self.duty = value >> 6;
                self.length.hold = value & 0x20 != 0;
                self.envelope.write(value);
            }
            1 => {
                self.sweep = value;
                self.sweep_starts = true;
            }
            2 => self.period = self.period & 0x700 | u16::from(value),
            _ => {
                self.period = self.period & 0xFF | u16::from(value & 7) << 8;
                self.length.set(value);
                self.envelope.starts = true;
                self.phase = 0;
            }
        }
    }

    /// Returns the period that the sweep would set.
    fn target(&self) -> u16 {
        let change = self.period >> (self.sweep & 7);
        if self.sweep & 8 != 0 {
            self.period.saturating_sub(change + self.less)
        } else {
            self.period + change
        }
    }

    pub fn clock_sweep(&mut self) {
        let period = self.sweep >> 4 & 7;
        let target = self.target();
        let acts = self.sweep & 0x80 != 0 && self.sweep & 7 != 0;
        if self.sweep_divider == 0 && acts && self.period >= 8 && target < 0x800 {
            self.period = target;
        }
        if self.sweep_divider == 0 || self.sweep_starts {
            self.sweep_divider = period;
            self.sweep_starts = false;
        } else {
            self.sweep_divider -= 1;
        }
    }

    /// Returns the level of the high part of the pulse.
    pub fn volume(&self) -> u8 {
        let muted = self.length.is_over() || self.period < 8 || self.target() >= 0x800;
        if muted { 0 } else { self.envelope.level() }
    }

    pub fn level(&self) -> u8 {
        if DUTIES[usize::from(self.duty)] >> self.phase & 1 != 0 {
            self.volume()
        } else {
            0
        }
    }

    fn eighth(&self) -> u32 {
        2 * (u32::from(self.period) + 1)
    }

    pub fn step(&mut self) {
        self.phase = self.phase.wrapping_sub(1) & 7;
        let next = self.eighth();
        self.count = Countdown::of(self.count.left() + next);
    }

    pub fn skip(&mut self, ticks: u32) {
        let steps = self.count.skip(ticks, self.eighth());
        self.phase = (u32::from(self.phase).wrapping_sub(steps) & 7) as u8;
    }
}

/// The triangle, which moves from 15 to 0 and back in 32 steps.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    pub length: Length,
    pub count: Countdown,
    period: u16,
    linear: u8,
    linear_set: u8,
    linear_starts: bool,
    step: u8,
}

impl Triangle {
    /// Creates a triangle that starts at 15, as on the chip. The mixer prevents a click at the
    /// start of a song.
    pub fn new() -> Self {
        Triangle {
            length: Length::default(),
            count: Countdown::default(),
            period: 0,
            linear: 0,
            linear_set: 0,
            linear_starts: false,
            step: 0,
        }
    }

    pub fn write(&mut self, reg: u8, value: u8) {
        match reg {
            0 => {
                self.length.hold = value & 0x80 != 0;
                self.linear_set = value & 0x7F;
            }
            2 => self.period = self.period & 0x700 | u16::from(value),
            3 => {
                self.period = self.period & 0xFF | u16::from(value & 7) << 8;
                self.length.set(value);
                self.linear_starts = true;
            }
            _ => {}
        }
    }

    pub fn clock_linear(&mut self) {
        if self.linear_starts {
            self.linear = self.linear_set;
        } else {
            self.linear = self.linear.saturating_sub(1);
        }
        if !self.length.hold {
            self.linear_starts = false;
        }
    }

    /// Returns whether the triangle advances. Otherwise it keeps its level.
    pub fn runs(&self) -> bool {
        !self.length.is_over() && self.linear > 0
    }

    /// Returns whether the triangle advances, but too fast to be audible.
    pub fn is_inaudible(&self, limit: u32) -> bool {
        self.runs() && is_inaudible(32, u32::from(self.period) + 1, limit)
    }

    pub fn level(&self) -> u8 {
        if self.step < 16 {
            15 - self.step
        } else {
            self.step - 16
        }
    }

    pub fn step(&mut self) {
        self.step = (self.step + 1) & 31;
        self.count = Countdown::of(self.count.left() + u32::from(self.period) + 1);
    }

    pub fn skip(&mut self, ticks: u32) {
        let steps = self.count.skip(ticks, u32::from(self.period) + 1);
        if self.runs() {
            self.step = ((u32::from(self.step) + steps) & 31) as u8;
        }
    }
}

/// The noise: a shift register of 15 bits.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub envelope: Envelope,
    pub length: Length,
    pub count: Countdown,
    period: u16,
    short: bool,
    register: u16,
}

impl Noise {
    pub fn new(period: u16) -> Self {
        Noise {
            envelope: Envelope::default(),
            length: Length::default(),
            count: Countdown::default(),
            period,
            short: false,
            register: 1,
        }
    }

    pub fn write(&mut self, reg: u8, value: u8) {
        match reg {
            0 => {
                self.length.hold = value & 0x20 != 0;
                self.envelope.write(value);
            }
            3 => {
                self.length.set(value);
                self.envelope.starts = true;
            }
            _ => {}
        }
    }

    pub fn set_period(&mut self, period: u16, short: bool) {
        self.period = period;
        self.short = short;
    }

    pub fn volume(&self) -> u8 {
        if self.length.is_over() {
            0
        } else {
            self.envelope.level()
        }
    }

    pub fn level(&self) -> u8 {
        if self.register & 1 == 0 {
            self.volume()
        } else {
            0
        }
    }

    fn shift(&mut self) {
        let tap = if self.short { 6 } else { 1 };
        let fed = (self.register ^ self.register >> tap) & 1;
        self.register = self.register >> 1 | fed << 14;
    }

    pub fn step(&mut self) {
        self.shift();
        self.count = Countdown::of(self.count.left() + u32::from(self.period));
    }

    pub fn skip(&mut self, ticks: u32) {
        for _ in 0..self.count.skip(ticks, u32::from(self.period)) {
            self.shift();
        }
    }
}
