//! The wave of the Famicom Disk System: 64 samples of 6 bits, whose pitch a table modulates.
//!
//! The registers as VGM files write them, with the CPU's addresses:
//!
//! | register | address | |
//! |---|---|---|
//! | 40–7F | 4040–407F | the wave's samples, 6 bits, accepted while bit 7 of 29 is set |
//! | 20 | 4080 | `m d v v v v v v` fixed volume (m), or its envelope: up (d), speed |
//! | 22, 23 | 4082, 4083 | pitch, 12 bits; 23: `h e - -` stop the wave, stop both envelopes |
//! | 24 | 4084 | as 20, for the modulation's gain |
//! | 25 | 4085 | the modulation's counter, 7 bits signed |
//! | 26, 27 | 4086, 4087 | the modulation's pitch, 12 bits; 27: `h` stop it |
//! | 28 | 4088 | the modulation's table, 3 bits, two steps per write, accepted while it is stopped |
//! | 29 | 4089 | `w - - - - - v v` write the wave; level 30, 20, 15, 12 of 30 |
//! | 2A | 408A | the envelopes' period |
//! | 3F | 4023 | bit 1: sound on |
//!
//! The wave advances by a step every 65,536 / pitch ticks, and so does the modulation. An envelope
//! advances every 8 × (speed + 1) × (period + 1) ticks, up to 32.
//!
//! The machine has a low-pass for this output.
//!
//! Source: the NESdev wiki, "FDS audio".

use crate::chips::Rate;
use crate::chips::step_chip::{Countdown, OutputLevel, StepChip, StepSink};

/// The loudest level in steps of the mixer, which is 2.4 times that of one pulse.
const FULL: i32 = 11_750;

/// The cutoff frequency of the disk system's output.
const LOW_PASS_HZ: u32 = 2_000;

/// The number of fraction bits in the position of the wave, which has 6 bits otherwise.
const FRACTION: u32 = 16;

/// An envelope of the volume or of the modulation's gain.
#[derive(Clone, Debug, Default)]
struct Envelope {
    fixed: bool,
    up: bool,
    speed: u8,
    value: u8,
    count: Countdown,
}

impl Envelope {
    fn write(&mut self, value: u8, pace: u8) {
        self.fixed = value & 0x80 != 0;
        self.up = value & 0x40 != 0;
        self.speed = value & 0x3F;
        if self.fixed {
            self.value = self.speed;
        }
        self.count = Countdown::of(self.period(pace));
    }

    fn period(&self, pace: u8) -> u32 {
        8 * (u32::from(self.speed) + 1) * (u32::from(pace) + 1)
    }

    fn step(&mut self, pace: u8) {
        if self.up && self.value < 32 {
            self.value += 1;
        } else if !self.up && self.value > 0 {
            self.value -= 1;
        }
        self.count = Countdown::of(self.period(pace));
    }
}

/// The sound of the disk system.
#[derive(Clone, Debug)]
pub struct Fds {
    clock_hz: u32,
    on: bool,
    wave: [u8; 64],
    writes_wave: bool,
    master: u8,
    volume: Envelope,
    gain: Envelope,
    pace: u8,
    halted: bool,
    envelopes_halted: bool,
    pitch: u16,
    /// The position in the wave, with [`FRACTION`] fraction bits.
    place: u32,
    counter: i8,
    table: [u8; 64],
    table_place: u32,
    table_pitch: u16,
    table_halted: bool,
    averaged: u32,
    shown: OutputLevel,
}

impl Fds {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Fds {
            clock_hz,
            on: true,
            wave: [0; 64],
            writes_wave: false,
            master: 0,
            volume: Envelope::default(),
            gain: Envelope::default(),
            pace: 0xE8,
            halted: true,
            envelopes_halted: true,
            pitch: 0,
            place: 0,
            counter: 0,
            table: [0; 64],
            table_place: 0,
            table_pitch: 0,
            table_halted: true,
            averaged: 0,
            shown: OutputLevel::default(),
        }
    }

    fn modulated(&self) -> u32 {
        let pitch = i32::from(self.pitch);
        let product = i32::from(self.counter) * i32::from(self.gain.value);
        let mut bend = product >> 4;
        // If the shift has cut off bits and bit 7 of the result is clear, the chip adds 2, or
        // subtracts 1 if the counter is negative.
        if product & 15 != 0 && bend & 0x80 == 0 {
            bend += if self.counter < 0 { -1 } else { 2 };
        }
        if bend >= 192 {
            bend -= 256;
        } else if bend < -64 {
            bend += 256;
        }
        (pitch + ((pitch * bend + 32) >> 6)).max(0) as u32
    }

    fn level(&self, averaged: bool) -> [i32; 2] {
        const MASTERS: [i32; 4] = [30, 20, 15, 12];
        let sample = if averaged {
            self.wave
                .iter()
                .map(|sample| i32::from(*sample))
                .sum::<i32>()
                / 64
        } else {
            i32::from(self.wave[(self.place >> FRACTION) as usize & 63])
        };
        let volume = i32::from(self.volume.value.min(32));
        let level = if self.on {
            // With all factors at their maximum, the result is almost the full level.
            sample * volume * MASTERS[usize::from(self.master)] * (FULL / 63) / (32 * 30)
        } else {
            0
        };
        [level; 2]
    }

    fn bend(&mut self) {
        const BENDS: [i8; 8] = [0, 1, 2, 4, 0, -4, -2, -1];
        let step = self.table[(self.table_place >> FRACTION) as usize & 63];
        self.counter = if step == 4 {
            0
        } else {
            ((self.counter + BENDS[usize::from(step)]) << 1) >> 1
        };
    }
}

impl StepChip for Fds {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 1,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        let high = u16::from(value & 15) << 8;
        match reg {
            0x40..=0x7F if self.writes_wave => self.wave[usize::from(reg & 63)] = value & 63,
            0x20 => self.volume.write(value, self.pace),
            0x22 => self.pitch = self.pitch & 0xF00 | u16::from(value),
            0x23 => {
                self.pitch = self.pitch & 0xFF | high;
                self.halted = value & 0x80 != 0;
                self.envelopes_halted = value & 0x40 != 0;
                if self.halted {
                    self.place = 0;
                }
                if self.envelopes_halted {
                    for envelope in [&mut self.volume, &mut self.gain] {
                        envelope.count = Countdown::of(envelope.period(self.pace));
                    }
                }
            }
            0x24 => self.gain.write(value, self.pace),
            0x25 => self.counter = (value << 1) as i8 >> 1,
            0x26 => self.table_pitch = self.table_pitch & 0xF00 | u16::from(value),
            0x27 => {
                self.table_pitch = self.table_pitch & 0xFF | high;
                self.table_halted = value & 0x80 != 0;
                if self.table_halted {
                    // The fraction is reset, but the position is not.
                    self.table_place &= !0xFFFF;
                }
            }
            0x28 if self.table_halted => {
                for _ in 0..2 {
                    self.table[(self.table_place >> FRACTION) as usize & 63] = value & 7;
                    self.table_place = self.table_place.wrapping_add(1 << FRACTION);
                }
            }
            0x29 => {
                self.writes_wave = value & 0x80 != 0;
                self.master = value & 3;
            }
            0x2A => self.pace = value,
            0x3F => self.on = value & 2 != 0,
            _ => {}
        }
    }

    fn set_inaudible_period(&mut self, ticks: u32) {
        self.averaged = ticks;
    }

    fn low_pass_hz(&self) -> Option<u32> {
        Some(LOW_PASS_HZ)
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        let limit = self.averaged;
        let mut at = 0;
        while at < ticks {
            let table_pitch = if self.table_halted {
                0
            } else {
                self.table_pitch.into()
            };
            let pitch = if self.halted || self.writes_wave {
                0
            } else {
                self.modulated()
            };
            let averaged = pitch > 0 && (64 << FRACTION) / pitch <= limit;
            self.shown.set(at, self.level(averaged), steps);
            let moved = |envelope: &Envelope| {
                !envelope.fixed && !self.envelopes_halted && self.pace > 0 && !self.halted
            };
            let [volume_moves, gain_moves] = [moved(&self.volume), moved(&self.gain)];
            let nexts = [
                if averaged {
                    u32::MAX
                } else {
                    ticks_to_step(self.place, pitch)
                },
                ticks_to_step(self.table_place, table_pitch),
                if volume_moves {
                    self.volume.count.left()
                } else {
                    u32::MAX
                },
                if gain_moves {
                    self.gain.count.left()
                } else {
                    u32::MAX
                },
            ];
            let run = nexts.iter().copied().fold(ticks - at, u32::min);
            at += run;
            self.place = self.place.wrapping_add(pitch * run);
            let bends = nexts[1] == run;
            if bends {
                self.bend();
            }
            self.table_place = self.table_place.wrapping_add(table_pitch * run);
            let pace = self.pace;
            for (envelope, moves) in [
                (&mut self.volume, volume_moves),
                (&mut self.gain, gain_moves),
            ] {
                if moves {
                    envelope.count = Countdown::of(envelope.count.left() - run);
                    if envelope.count.left() == 0 {
                        envelope.step(pace);
                    }
                }
            }
        }
    }
}

/// Returns the number of ticks until a position that grows by `pitch` per tick reaches the next
/// step.
fn ticks_to_step(place: u32, pitch: u32) -> u32 {
    if pitch == 0 {
        return u32::MAX;
    }
    let left = (1 << FRACTION) - (place & 0xFFFF);
    left.div_ceil(pitch)
}
