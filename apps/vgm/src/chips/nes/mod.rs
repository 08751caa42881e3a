//! The APU of the NES (in the 2A03 and 2A07): two pulses, a triangle, a noise and delta modulation
//! samples. The FDS wave is a separate part.
//!
//! The registers as VGM files write them (command B4). 00 to 1F are the CPU's addresses 4000 to
//! 401F. 20 to 3E, 3F and 40 to 7F are the addresses 4080 to 409E, 4023 and 4040 to 407F of the
//! [`fds`].
//!
//! | register | |
//! |---|---|
//! | 00, 04 | pulse: `d d h c v v v v` duty, hold (envelope loops), constant, volume or envelope period |
//! | 01, 05 | sweep: `e p p p n s s s` on, period, negate, shift |
//! | 02, 06 | low 8 bits of the period |
//! | 03, 07 | `l l l l l p p p` length, high 3 bits of the period; restarts the note |
//! | 08 | triangle: `h r r r r r r r` hold, linear counter |
//! | 0A, 0B | as 02 and 03 |
//! | 0C | noise: `- - h c v v v v` |
//! | 0E | `m - - - p p p p` short mode, period |
//! | 0F | `l l l l l - - -` length; restarts the envelope |
//! | 10–13 | the registers of the [`dmc`] |
//! | 15 | which channels are on: pulses, triangle, noise, DMC from bit 0 |
//! | 17 | `m - - - - - - -` five steps of the frame counter instead of four |
//!
//! One *tick* is a cycle of the CPU. A pulse advances by an eighth of its period every
//! 2 × (period + 1) ticks, and the triangle by a 32nd every period + 1 ticks. In each round, the
//! frame counter clocks envelopes and the linear counter four times, and lengths and sweeps twice.
//! A round of four steps takes about 29,830 ticks on NTSC machines and 33,250 on PAL machines. The
//! fifth step makes it a quarter longer.
//!
//! The pulses are mixed in one resistor network and the other three channels in a second one, so
//! their sums are not linear. We report the output of each network as steps. We leave out
//! interrupts and the waits of the CPU for the DMC on purpose.
//!
//! Source: the NESdev wiki's pages "APU" (registers, tables, mixer), "APU Frame Counter", "APU
//! Sweep"; the VGM 1.71 specification.

mod dmc;
pub mod fds;
mod tone;

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;
use dmc::Dmc;
use tone::{Noise, Pulse, Triangle};

/// The entry of the NESAPU in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::NesApu,
    name: "NESAPU, FDS",
    verification: DOCUMENTS,
    ratio: Some(8.5),
    // Our core and the mixer of the chip have the same full scale, so the factor is 1.
    level: Level::new(1.0, 0x100, 2.0),
    voices: &[VoiceGroup::Named(&[
        "pulse 1", "pulse 2", "triangle", "noise", "DMC", "FDS",
    ])],
    cost_ns: 30,
    memory_blocks: &[0x07, 0xC2],
    create: Create::Steps(|clock_hz| Box::new(Nes::new(clock_hz))),
};

/// The full scale of the mixer in steps.
const FULL: f32 = 32_767.0;

/// The lengths of notes in half frames, by the five bits written.
const LENGTHS: [u8; 32] = [
    10, 254, 20, 2, 40, 4, 80, 6, 160, 8, 60, 10, 14, 12, 26, 14, 12, 16, 24, 18, 48, 20, 96, 22,
    192, 24, 72, 26, 16, 28, 32, 30,
];

/// The differences between the television systems.
#[derive(Clone)]
struct System {
    /// The number of ticks before each step of the frame counter: first in the mode with four
    /// steps, then in the mode with five.
    quarters: [&'static [u32]; 2],
    noise_periods: [u16; 16],
    dmc_periods: [u16; 16],
}

const NTSC: System = System {
    quarters: [&[7457, 7456, 7458, 7459], &[7457, 7456, 7458, 14910, 1]],
    noise_periods: [
        4, 8, 16, 32, 64, 96, 128, 160, 202, 254, 380, 508, 762, 1016, 2034, 4068,
    ],
    dmc_periods: [
        428, 380, 340, 320, 286, 254, 226, 214, 190, 160, 142, 128, 106, 84, 72, 54,
    ],
};

const PAL: System = System {
    quarters: [&[8313, 8314, 8312, 8315], &[8313, 8314, 8312, 16626, 1]],
    noise_periods: [
        4, 8, 14, 30, 60, 88, 118, 148, 188, 236, 354, 472, 708, 944, 1890, 3778,
    ],
    dmc_periods: [
        398, 354, 316, 298, 276, 236, 210, 198, 176, 148, 132, 118, 98, 78, 66, 50,
    ],
};

/// An emulated APU, which reports its output as steps.
#[derive(Clone)]
pub struct Nes {
    clock_hz: u32,
    system: &'static System,
    pulses: [Pulse; 2],
    triangle: Triangle,
    noise: Noise,
    dmc: Dmc,
    /// Whether the frame counter has five steps.
    five: bool,
    /// The next step of the frame counter. `until_quarter` counts the ticks until this step.
    quarter: usize,
    until_quarter: Countdown,
    averaged: u32,
    shown: [OutputLevel; 2],
}

/// The clock in Hz below which we assume a PAL machine (1.66 MHz, compared with 1.79 MHz for NTSC).
const PAL_BELOW_HZ: u32 = 1_700_000;

impl Nes {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let system = if clock_hz < PAL_BELOW_HZ { &PAL } else { &NTSC };
        let mut nes = Nes {
            clock_hz,
            system,
            pulses: [Pulse::new(1), Pulse::new(0)],
            triangle: Triangle::new(),
            noise: Noise::new(system.noise_periods[0]),
            dmc: Dmc::new(system.dmc_periods[0]),
            five: false,
            quarter: 0,
            until_quarter: Countdown::of(system.quarters[0][0]),
            averaged: 0,
            // The triangle starts at its top. This sets the initial level of its network.
            shown: [
                OutputLevel::default(),
                OutputLevel::at(others_mixed(15.0, 0, 0)),
            ],
        };
        // Some songs never enable channels. They rely on the channels that are enabled when the
        // machine starts.
        nes.switch(0x0F);
        nes
    }

    fn switch(&mut self, value: u8) {
        let on = |bit: u8| value >> bit & 1 != 0;
        for (bit, pulse) in (0..).zip(&mut self.pulses) {
            pulse.length.switch(on(bit));
        }
        self.triangle.length.switch(on(2));
        self.noise.length.switch(on(3));
        self.dmc.switch(on(4));
    }

    fn clock_quarter(&mut self) {
        for pulse in &mut self.pulses {
            pulse.envelope.clock();
        }
        self.triangle.clock_linear();
        self.noise.envelope.clock();
    }

    fn clock_half(&mut self) {
        for pulse in &mut self.pulses {
            pulse.length.clock();
            pulse.clock_sweep();
        }
        self.triangle.length.clock();
        self.noise.length.clock();
    }

    /// Executes a step of the frame counter, and returns the number of ticks to the next one.
    fn clock_frame(&mut self) -> u32 {
        let step = self.quarter;
        let steps = self.system.quarters[usize::from(self.five)];
        // The last of five steps is the wrap-around of the counter, and clocks nothing.
        if step < 4 {
            self.clock_quarter();
            if step % 2 == 1 {
                self.clock_half();
            }
        }
        self.quarter = (step + 1) % steps.len();
        // Each entry is the number of ticks before its step.
        steps[self.quarter]
    }

    /// Runs the channels for a time in which only their own counters change them.
    fn channels(&mut self, start: u32, ticks: u32, steps: &mut dyn StepSink) {
        self.run_pulses(start, ticks, steps);
        self.run_others(start, ticks, steps);
    }

    fn run_pulses(&mut self, start: u32, ticks: u32, steps: &mut dyn StepSink) {
        let shown = &mut self.shown[0];
        let [a, b] = &mut self.pulses;
        shown.set(start, [pulses_mixed(a.level() + b.level()); 2], steps);
        let silent = [a, b].map(|pulse| {
            let silent = pulse.volume() == 0;
            if silent {
                pulse.skip(ticks);
            }
            silent
        });
        let [a, b] = &mut self.pulses;
        match silent {
            [true, true] => {}
            [false, true] => alone(a, (start, ticks), shown, steps),
            [true, false] => alone(b, (start, ticks), shown, steps),
            [false, false] => loop {
                let next = a.count.left().min(b.count.left());
                if next >= ticks {
                    a.count.skip(ticks, 1 << 30);
                    b.count.skip(ticks, 1 << 30);
                    break;
                }
                for pulse in [&mut *a, &mut *b] {
                    if pulse.count.left() == next {
                        pulse.step();
                    }
                }
                let level = pulses_mixed(a.level() + b.level());
                shown.set(start + next, [level; 2], steps);
            },
        }
    }

    fn run_others(&mut self, start: u32, ticks: u32, steps: &mut dyn StepSink) {
        let (triangle, noise, dmc) = (&mut self.triangle, &mut self.noise, &mut self.dmc);
        let averaged = triangle.is_inaudible(self.averaged);
        let silent = noise.volume() == 0;
        if silent {
            noise.skip(ticks);
        }
        if averaged || !triangle.runs() {
            triangle.skip(ticks);
        }
        let moves = !averaged && triangle.runs();
        let mut at = 0;
        loop {
            let level = others_mixed(
                if averaged {
                    7.5
                } else {
                    f32::from(triangle.level())
                },
                noise.level(),
                dmc.level(),
            );
            self.shown[1].set(start + at, [level; 2], steps);
            let nexts = [
                if moves {
                    triangle.count.left()
                } else {
                    u32::MAX
                },
                if silent { u32::MAX } else { noise.count.left() },
                if dmc.is_idle() {
                    u32::MAX
                } else {
                    dmc.count.left()
                },
            ];
            at = nexts[0].min(nexts[1]).min(nexts[2]);
            if at >= ticks {
                break;
            }
            if nexts[0] == at {
                triangle.step();
            }
            if nexts[1] == at {
                noise.step();
            }
            if nexts[2] == at {
                dmc.step();
            }
        }
        if moves {
            triangle.count.skip(ticks, 1 << 30);
        }
        if !silent {
            noise.count.skip(ticks, 1 << 30);
        }
        if dmc.is_idle() {
            dmc.skip(ticks);
        } else {
            dmc.count.skip(ticks, 1 << 30);
        }
    }
}

/// Runs one pulse while the other is silent.
fn alone(
    pulse: &mut Pulse,
    (start, ticks): (u32, u32),
    shown: &mut OutputLevel,
    steps: &mut dyn StepSink,
) {
    while pulse.count.left() < ticks {
        let at = pulse.count.left();
        pulse.step();
        shown.set(start + at, [pulses_mixed(pulse.level()); 2], steps);
    }
    pulse.count.skip(ticks, 1 << 30);
}

/// Returns the output of the pulses' network for the sum of their levels.
fn pulses_mixed(sum: u8) -> i32 {
    let sum = f32::from(sum);
    (95.88 * FULL * sum / (8128.0 + 100.0 * sum)).round() as i32
}

/// Returns the output of the second network for the levels of the other three channels.
fn others_mixed(triangle: f32, noise: u8, dmc: u8) -> i32 {
    let sum = triangle / 8227.0 + f32::from(noise) / 12241.0 + f32::from(dmc) / 22638.0;
    (159.79 * FULL * sum / (1.0 + 100.0 * sum)).round() as i32
}

impl StepChip for Nes {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x00..=0x07 => self.pulses[usize::from(reg / 4)].write(reg & 3, value),
            0x08..=0x0B => self.triangle.write(reg & 3, value),
            0x0E => {
                let period = self.system.noise_periods[usize::from(value & 15)];
                self.noise.set_period(period, value >> 7 != 0);
            }
            0x0C..=0x0F => self.noise.write(reg & 3, value),
            0x10 => {
                let period = self.system.dmc_periods[usize::from(value & 15)];
                self.dmc.set_period(period, value >> 6 & 1 != 0);
            }
            0x11..=0x13 => self.dmc.write(reg & 3, value),
            0x15 => self.switch(value),
            0x17 => {
                self.five = value >> 7 != 0;
                self.quarter = 0;
                let steps = self.system.quarters[usize::from(self.five)];
                self.until_quarter = Countdown::of(steps[0]);
                if self.five {
                    self.clock_quarter();
                    self.clock_half();
                }
            }
            _ => {}
        }
    }

    fn load(&mut self, _kind: u8, start: usize, data: &[u8]) {
        self.dmc.load(start, data);
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let mut at = 0;
        while at < ticks {
            if self.until_quarter.left() == 0 {
                let next = self.clock_frame();
                self.until_quarter = Countdown::of(next);
            }
            let run = self.until_quarter.left().min(ticks - at);
            self.channels(at, run, steps);
            self.until_quarter = Countdown::of(self.until_quarter.left() - run);
            at += run;
        }
    }
}
