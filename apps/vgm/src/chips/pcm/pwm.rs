//! The pulse-width modulation of the Sega 32X: two channels whose widths a CPU writes.
//!
//! | register | |
//! |---|---|
//! | 0 | control |
//! | 1 | cycle: clocks of a pulse and the pause after it, plus one |
//! | 2, 3, 4 | pulse width left, right, both: 12 bits |
//!
//! A width of half the cycle is the middle. Songs write widths at the times at which they are
//! audible, so each write takes effect immediately. A frame is one tick of the song.
//!
//! We leave out the queues of three entries, the timer, and the assignment of sides on purpose.
//!
//! Source: Sega 32X hardware manual, "PWM"; VGM specification 1.71, command B2.

use std::ops::Range;

use super::super::Rate;
use super::PcmChip;
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the PWM in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Pwm,
    name: "PWM",
    verification: TONES,
    ratio: Some(1.5),
    level: Level::new(1.0, 0xE0, 1.0),
    voices: &[VoiceGroup::Numbered(1)],
    cost_ns: 15,
    memory_blocks: &[],
    create: Create::Samples(|_, _| Box::new(Pwm::new())),
};

/// The cycle until the song sets one. Programs of the 32X usually set this cycle, which gives
/// 22,020 pulses per second.
const USUAL_CYCLE: u16 = 1045;

/// An emulated PWM of the 32X, which renders a frame per tick of the song.
#[derive(Clone, Debug)]
pub struct Pwm {
    cycle: u16,
    /// The widths, or `None` before the first write.
    widths: [Option<u16>; 2],
    /// The levels of these widths.
    levels: [i32; 2],
    /// The level of one clock of width. It depends on the cycle.
    step: f64,
}

impl Pwm {
    /// Creates a chip in its state after reset.
    #[allow(clippy::new_without_default, reason = "all chips are made by new")]
    pub fn new() -> Self {
        let mut pwm = Self {
            cycle: 0,
            widths: [None; 2],
            levels: [0; 2],
            step: 0.0,
        };
        pwm.set_cycle(USUAL_CYCLE);
        pwm
    }

    fn set_cycle(&mut self, cycle: u16) {
        self.cycle = cycle.max(1);
        self.step = 32_767.0 / f64::from(self.cycle.div_ceil(2));
        self.levels = self.widths.map(|width| self.level(width));
    }

    /// Returns the level of a width. It is the difference between the width and half of the cycle,
    /// times 0x7FFF, divided by half of the cycle and rounded towards 0. If the cycle is odd, the
    /// half that is subtracted is rounded down, and the divisor is rounded up.
    ///
    /// We multiply by `step`, which is 0x7FFF divided by half of the cycle. A division for each of
    /// the thousands of writes per second would take as long as everything else.
    #[inline]
    fn level(&self, width: Option<u16>) -> i32 {
        let middle = self.cycle / 2;
        let width = width.unwrap_or(middle).min(self.cycle);
        let level = f64::from(i32::from(width) - i32::from(middle)) * self.step;
        // A level that is a whole number may be slightly too small after the multiplication, and
        // must not become the number below it. All other levels are at least 1/2,048 away from the
        // next whole number, so adding the allowance does not change them.
        (level + ROUNDING.copysign(level)) as i32
    }
}

/// The amount that we add to a level before we cut off its fraction. It exceeds the rounding error
/// of the multiplication.
const ROUNDING: f64 = 1.0 / 65_536.0;

impl PcmChip for Pwm {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(crate::format::TICKS_PER_SECOND),
            seconds: 1,
        }
    }

    fn streamed_registers(&self) -> Range<u16> {
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
    fn levels_equal_those_that_a_division_gives() {
        let mut pwm = Pwm::new();
        for cycle in 0..=0xFFF_u16 {
            pwm.set_cycle(cycle);
            let cycle = i32::from(cycle.max(1));
            for width in 0..=0xFFF {
                let expected =
                    (i32::from(width).min(cycle) - cycle / 2) * 0x7FFF / ((cycle + 1) / 2);
                assert_eq!(pwm.level(Some(width)), expected, "{width} of {cycle}");
            }
            assert_eq!(pwm.level(None), 0);
        }
    }
}
