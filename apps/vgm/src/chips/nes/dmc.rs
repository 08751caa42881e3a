//! The DMC: each bit of a sample moves a level of 7 bits up or down by two, unless the level would
//! leave the range from 0 to 127.
//!
//! | register | |
//! |---|---|
//! | 10 | `- l - - p p p p` loop, period |
//! | 11 | the level itself |
//! | 12 | the start of the sample: C000 + 64 × value |
//! | 13 | its length: 16 × value + 1 bytes |
//!
//! Source: the NESdev wiki, "APU DMC".

use crate::chips::step_chip::Countdown;

/// The size of the CPU's address space.
const MEMORY: usize = 0x1_0000;

#[derive(Clone, Debug)]
pub struct Dmc {
    pub count: Countdown,
    period: u16,
    loops: bool,
    start: u8,
    length: u8,
    /// The address of the next byte and, in `left`, the number of remaining bytes.
    at: u16,
    left: u16,
    /// The next byte, which is read before the bits of the current one run out.
    buffer: Option<u8>,
    bits: u8,
    bits_left: u8,
    silent: bool,
    level: u8,
    memory: Vec<u8>,
}

impl Dmc {
    pub fn new(period: u16) -> Self {
        Dmc {
            count: Countdown::default(),
            period,
            loops: false,
            start: 0,
            length: 0,
            at: 0,
            left: 0,
            buffer: None,
            bits: 0,
            bits_left: 8,
            silent: true,
            level: 0,
            memory: Vec::new(),
        }
    }

    pub fn load(&mut self, start: usize, data: &[u8]) {
        let start = start.min(MEMORY);
        let end = MEMORY.min(start + data.len());
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.memory[start..end].copy_from_slice(&data[..end - start]);
    }

    pub fn set_period(&mut self, period: u16, loops: bool) {
        self.period = period;
        self.loops = loops;
    }

    pub fn write(&mut self, reg: u8, value: u8) {
        match reg {
            1 => self.level = value & 0x7F,
            2 => self.start = value,
            _ => self.length = value,
        }
    }

    pub fn switch(&mut self, on: bool) {
        if !on {
            self.left = 0;
        } else if self.left == 0 {
            self.restart();
            self.fetch();
        }
    }

    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns whether the steps have no effect until the DMC is switched on.
    pub fn is_idle(&self) -> bool {
        self.silent && self.buffer.is_none() && self.left == 0
    }

    fn restart(&mut self) {
        self.at = 0xC000 | u16::from(self.start) << 6;
        self.left = u16::from(self.length) << 4 | 1;
    }

    fn fetch(&mut self) {
        if self.buffer.is_some() || self.left == 0 {
            return;
        }
        let byte = self.memory.get(usize::from(self.at));
        self.buffer = Some(byte.copied().unwrap_or(0));
        self.at = self.at.wrapping_add(1) | 0x8000;
        self.left -= 1;
        if self.left == 0 && self.loops {
            self.restart();
        }
    }

    pub fn step(&mut self) {
        if !self.silent {
            match self.bits & 1 {
                1 if self.level <= 125 => self.level += 2,
                0 if self.level >= 2 => self.level -= 2,
                _ => {}
            }
            self.bits >>= 1;
        }
        self.bits_left -= 1;
        if self.bits_left == 0 {
            self.bits_left = 8;
            self.silent = self.buffer.is_none();
            if let Some(byte) = self.buffer.take() {
                self.bits = byte;
            }
            self.fetch();
        }
        self.count = Countdown::of(self.count.left() + u32::from(self.period));
    }

    /// Advances while the DMC is idle.
    pub fn skip(&mut self, ticks: u32) {
        let steps = self.count.skip(ticks, u32::from(self.period));
        let past = (8 - u32::from(self.bits_left) + steps) % 8;
        self.bits_left = 8 - past as u8;
    }
}
