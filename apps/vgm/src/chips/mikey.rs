//! The sound of the Atari Lynx's Mikey: four shift registers with selectable taps.
//!
//! The registers as VGM files write them (command 40), which are the CPU's addresses minus FD00:
//!
//! | register | |
//! |---|---|
//! | 20 + 8 × channel | volume, signed |
//! | + 1 | taps: bits 0 to 5 of the register, bits 6 and 7 its 10 and 11 |
//! | + 2 | the output itself |
//! | + 3 | the register's low 8 bits |
//! | + 4 | the counter's period, less 1 |
//! | + 5 | `t d i r c p p p` tap 7, integrate (i), reload (r), count (c) every 2^p µs, or (p = 7) when the previous channel runs out; d is ignored |
//! | + 6 | the counter |
//! | + 7 | bits 4 to 7: the register's high 4 bits |
//! | 40–43 | `l l l l r r r r` volume of each channel on the two sides, if enabled by 44 |
//! | 44 | which sides are attenuated: bits 4 to 7 left, 0 to 3 right |
//! | 50 | which sides are switched off, likewise |
//!
//! A tick is 16 clocks, or a microsecond at 16 MHz. When a counter runs out, its register shifts
//! left. The inverted parity of the taps is shifted in. The output is the volume, or its negative
//! if bit 0 is clear. With `i` these values are added up within 8 bits.
//!
//! We leave out two features on purpose: clocking channel 0 with timer 7, and the other inputs of
//! the DAC.
//!
//! Source: Epyx, "Handy specification", "Audio"; the VGM 1.72 specification.

use super::Rate;
use super::step_chip::{Countdown, OutputLevel, StepChip, StepSink};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the Mikey in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Mikey,
    name: "Mikey",
    verification: "documented figures; libvgm: spectra 1.6 dB, balance 0.1 dB",
    ratio: Some(13.8),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(0.94, 0x100, 2.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 30,
    memory_blocks: &[],
    create: Create::Steps(|clock_hz| Box::new(Mikey::new(clock_hz))),
};

/// The number of output steps per step of the chip, which has 128 × 16 levels.
const SCALE: i32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    volume: i8,
    taps: u16,
    output: i8,
    register: u16,
    period: u8,
    control: u8,
    /// The remaining count, if this channel counts when the counter of the previous channel runs
    /// out.
    linked: u8,
    count: Countdown,
    shown: OutputLevel,
}

impl Channel {
    fn is_linked(&self) -> bool {
        self.control & 7 == 7
    }

    fn counts(&self) -> bool {
        self.control & 8 != 0
    }

    fn integrates(&self) -> bool {
        self.control & 0x20 != 0
    }

    fn reloads(&self) -> bool {
        self.control & 0x10 != 0
    }

    fn ticks(&self, counts: u8) -> u32 {
        (u32::from(counts) + 1) << (self.control & 7)
    }

    fn shift(&mut self) {
        let parity = (self.register & self.taps).count_ones() & 1;
        self.register = (self.register << 1 | (parity as u16 ^ 1)) & 0xFFF;
        let change = if self.register & 1 != 0 {
            i32::from(self.volume)
        } else {
            -i32::from(self.volume)
        };
        let sum = if self.integrates() {
            i32::from(self.output) + change
        } else {
            change
        };
        self.output = sum.clamp(-128, 127) as i8;
        if !self.reloads() {
            self.control &= !8;
        }
    }

    fn set_taps(&mut self, seven: u8) {
        self.taps = self.taps & !0x80 | u16::from(seven & 0x80);
    }
}

/// The emulated sound of a Mikey, which reports its output as steps.
#[derive(Clone, Debug)]
pub struct Mikey {
    clock_hz: u32,
    channels: [Channel; 4],
    attenuations: [u8; 4],
    attenuated: u8,
    off: u8,
}

impl Mikey {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        Mikey {
            clock_hz,
            channels: [Channel::default(); 4],
            attenuations: [0xFF; 4],
            attenuated: 0,
            off: 0,
        }
    }

    fn gains(&self, index: usize) -> [i32; 2] {
        let loud = self.attenuations[index];
        [(4, loud >> 4), (0, loud & 15)].map(|(side, level)| {
            let has = |mask: u8| mask >> (side + index) & 1 != 0;
            match (has(self.off), has(self.attenuated)) {
                (true, _) => 0,
                (false, true) => i32::from(level) * SCALE,
                (false, false) => 16 * SCALE,
            }
        })
    }

    fn show(&mut self, index: usize, tick: u32, steps: &mut dyn StepSink) {
        let output = i32::from(self.channels[index].output);
        let level = self.gains(index).map(|gain| gain * output);
        self.channels[index].shown.set(tick, level, steps);
    }

    /// Handles the end of a channel's counter, and clocks the channels that are linked to it.
    fn run_out(&mut self, index: usize, tick: u32, steps: &mut dyn StepSink) {
        self.channels[index].shift();
        self.show(index, tick, steps);
        let Some(next) = self.channels.get_mut(index + 1) else {
            return;
        };
        if next.is_linked() && next.counts() {
            if next.linked > 0 {
                next.linked -= 1;
            } else {
                next.linked = next.period;
                self.run_out(index + 1, tick, steps);
            }
        }
    }

    fn write_channel(&mut self, index: usize, reg: u8, value: u8) {
        let channel = &mut self.channels[index];
        match reg {
            0 => channel.volume = value as i8,
            1 => {
                let bits = u16::from(value);
                channel.taps = channel.taps & 0x80 | bits & 0x3F | (bits & 0xC0) << 4;
            }
            2 => channel.output = value as i8,
            3 => channel.register = channel.register & 0xF00 | u16::from(value),
            4 => channel.period = value,
            5 => {
                let was = channel.control;
                channel.control = value;
                channel.set_taps(value);
                // A counter that is started, or whose rate changes, begins a whole period.
                if (was ^ value) & 0x0F != 0 {
                    channel.count = Countdown::of(channel.ticks(channel.period));
                    channel.linked = channel.period;
                }
            }
            6 => {
                channel.count = Countdown::of(channel.ticks(value));
                channel.linked = value;
            }
            _ => channel.register = channel.register & 0xFF | u16::from(value & 0xF0) << 4,
        }
    }
}

impl StepChip for Mikey {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 16,
        }
    }

    fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0x20..=0x3F => self.write_channel(usize::from(reg - 0x20) / 8, reg & 7, value),
            0x40..=0x43 => self.attenuations[usize::from(reg & 3)] = value,
            0x44 => self.attenuated = value,
            0x50 => self.off = value,
            _ => {}
        }
    }

    fn run(&mut self, ticks: u32, steps: &mut dyn StepSink) {
        for index in 0..4 {
            self.show(index, 0, steps);
        }
        loop {
            let own = |channel: &Channel| channel.counts() && !channel.is_linked();
            let nexts = self.channels.iter().filter(|channel| own(channel));
            let next = nexts.map(|channel| channel.count.left()).min();
            let Some(next) = next.filter(|next| *next < ticks) else {
                break;
            };
            for index in 0..4 {
                let channel = &mut self.channels[index];
                if own(channel) && channel.count.left() == next {
                    channel.count = Countdown::of(next + channel.ticks(channel.period));
                    self.run_out(index, next, steps);
                }
            }
        }
        for channel in &mut self.channels {
            if channel.counts() && !channel.is_linked() {
                channel.count.skip(ticks, 1 << 30);
            }
        }
    }
}
