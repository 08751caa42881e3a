//! The pulse-width modulation of the Sega 32X: two channels that a CPU feeds.
//!
//! | register | |
//! |---|---|
//! | 0 | control |
//! | 1 | cycle: clocks of a pulse and the pause behind it, and one |
//! | 2, 3, 4 | pulse width left, right, both: 12 bits |
//!
//! A width of half the cycle is the middle. Songs write widths at the times at which they are
//! heard, so each is heard at once; a frame is one of the song's ticks.
//!
//! Left out on purpose: the queues of three, the timer, and which side goes where.
//!
//! Source: Sega 32X hardware manual, "PWM"; VGM specification 1.71, command B2.

use std::ops::Range;

use super::super::Rate;
use super::PcmChip;

/// The cycle at which a console's program is expected to begin: 22,020 pulses a second.
const USUAL_CYCLE: u16 = 1045;

/// A step of the output: so large that the quotient of a level is exact, whatever the cycle.
const ONE: u64 = 1 << 40;

/// The chip.
#[derive(Clone, Debug)]
pub struct Pwm {
    cycle: u16,
    /// What a clock of width is, in steps of the output times [`ONE`], and a bit more.
    clock: u64,
    /// Widths; none before the first.
    widths: [Option<u16>; 2],
    /// What is heard of them.
    levels: [i32; 2],
}

impl Pwm {
    /// A chip after reset.
    #[allow(clippy::new_without_default, reason = "all chips are made by new")]
    pub fn new() -> Self {
        let mut chip = Self {
            cycle: 0,
            clock: 0,
            widths: [None; 2],
            levels: [0; 2],
        };
        chip.set_cycle(USUAL_CYCLE);
        chip
    }

    fn set_cycle(&mut self, clocks: u16) {
        self.cycle = clocks.max(1);
        self.clock = ONE / u64::from(self.cycle.div_ceil(2)) + 1;
        self.levels = self.widths.map(|width| self.level(width));
    }

    /// How far the width is from half the cycle, of which all is full scale: a product, for a
    /// division would cost as much as all else that a write does.
    fn level(&self, width: Option<u16>) -> i32 {
        let half = self.cycle / 2;
        let width = width.unwrap_or(half).min(self.cycle);
        let clocks = u64::from(width.abs_diff(half));
        let level = (clocks * 0x7FFF * self.clock / ONE) as i32;
        if width < half { -level } else { level }
    }
}

impl PcmChip for Pwm {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(crate::format::TICKS_PER_SECOND),
            seconds: 1,
        }
    }

    fn fed(&self) -> Range<u16> {
        0..5
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let value = value & 0xFFF;
        match reg {
            1 => self.set_cycle(value.wrapping_sub(1) & 0xFFF),
            2 | 3 => {
                let side = usize::from(reg - 2);
                self.widths[side] = Some(value);
                self.levels[side] = self.level(self.widths[side]);
            }
            4 => {
                self.widths = [Some(value); 2];
                self.levels = [self.level(Some(value)); 2];
            }
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill(self.levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_the_quotient_that_it_stands_for() {
        let mut chip = Pwm::new();
        for cycle in 0..0x1000 {
            chip.write(0, 1, cycle + 1);
            let clocks = i32::from(cycle.max(1));
            for width in 0..0x1000 {
                let from_half = i32::from(width).min(clocks) - clocks / 2;
                let level = from_half * 0x7FFF / ((clocks + 1) / 2);
                assert_eq!(chip.level(Some(width)), level, "{width} of {cycle}");
            }
            assert_eq!(chip.level(None), 0);
        }
    }
}
