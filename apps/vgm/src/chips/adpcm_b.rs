//! ADPCM-B, or Delta-T: one voice of 4-bit ADPCM at any rate.
//!
//! | register | bits | |
//! |---|---|---|
//! | 00 | `x-------` | play |
//! | 00 | `-x------` | record |
//! | 00 | `--x-----` | use the memory instead of the CPU |
//! | 00 | `---x----` | repeat |
//! | 00 | `-------x` | reset |
//! | 01 | `LR------` | outputs left and right |
//! | 01 | `------xx` | memory: 8 bits wide, ROM |
//! | 02, 03 | `xxxxxxxx` | start address, low and high |
//! | 04, 05 | `xxxxxxxx` | end address, low and high |
//! | 08 | `xxxxxxxx` | data |
//! | 09, 0A | `xxxxxxxx` | samples per native frame in 65536ths, low and high |
//! | 0B | `xxxxxxxx` | level |
//! | 0C, 0D | `xxxxxxxx` | limit address, low and high |
//!
//! Addresses are in units of 256 bytes on the YM2610. On other chips they are in units of 32 bytes,
//! or of 4 bytes for memory that is 1 bit wide. The output is interpolated between two samples.
//!
//! We leave out reading back, the status flags, analysis and the DAC on purpose.
//!
//! Source: the YM2608 and Y8950 application manuals, sections on ADPCM; the order of events follows
//! ymfm (BSD-3-Clause, Aaron Giles).

use super::rom::Rom;

/// The step after a reset, which is also the smallest one.
const STEP_MIN: i32 = 127;

const STEP_MAX: i32 = 24576;

/// The factors of the step in 64ths, by the magnitude of a nibble.
const STEP_SCALES: [i32; 8] = [57, 57, 57, 57, 77, 102, 128, 153];

const ADDRESS_MASK: u32 = 0xff_ffff;

/// The bits of register 00.
mod control {
    pub const PLAY: u8 = 0x80;
    pub const RECORD: u8 = 0x40;
    pub const MEMORY: u8 = 0x20;
    pub const REPEAT: u8 = 0x10;
    pub const RESET: u8 = 0x01;
}

/// The memory that contains the samples.
#[derive(Clone, Debug)]
enum Memory {
    Ram(Vec<u8>),
    Rom(Rom),
}

/// The voice and its memory.
#[derive(Clone, Debug)]
pub struct AdpcmB {
    regs: [u8; 16],
    memory: Memory,
    /// The number of bits by which an address register is shifted, if it is fixed.
    address_shift: Option<u32>,
    /// The number of low bits of the output that are dropped.
    dropped: u32,
    voice: Voice,
    /// Whether the next write to the memory goes to the start address.
    rewinds: bool,
    enabled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Voice {
    playing: bool,
    second_nibble: bool,
    byte: u8,
    /// The position between two samples, in 65536ths.
    position: u16,
    address: u32,
    sample: i32,
    previous: i32,
    step: i32,
}

impl Voice {
    const RESET: Self = Self {
        playing: false,
        second_nibble: false,
        byte: 0,
        position: 0,
        address: 0,
        sample: 0,
        previous: 0,
        step: STEP_MIN,
    };
}

/// The factors of the level and output registers.
struct Level {
    factor: i32,
    shift: u32,
    /// A mask for each side, with all bits or no bits set.
    sides: [i32; 2],
}

impl Level {
    #[inline(always)]
    fn add(&self, voice: &Voice, frame: &mut [i32; 2]) {
        let position = i32::from(voice.position);
        let mixed = voice
            .previous
            .wrapping_mul(0x1_0000 - position)
            .wrapping_add(voice.sample * position);
        let value = ((mixed >> 16) * self.factor) >> self.shift;
        frame[0] += value & self.sides[0];
        frame[1] += value & self.sides[1];
    }
}

impl AdpcmB {
    /// Creates a voice in its state after reset. Its output loses the `dropped` lowest bits.
    ///
    /// `address_shift` is 8 on the YM2610. With `None`, register 01 selects it.
    pub fn new(address_shift: Option<u32>, dropped: u32) -> Self {
        let mut regs = [0; 16];
        regs[0x0c..=0x0d].fill(0xff);
        Self {
            regs,
            memory: Memory::Ram(Vec::new()),
            address_shift,
            dropped,
            voice: Voice::RESET,
            rewinds: false,
            enabled: true,
        }
    }

    /// Returns the memory as a RAM.
    ///
    /// Reading beyond its end returns 0, and writes beyond its end are ignored.
    pub fn ram_mut(&mut self) -> &mut Vec<u8> {
        if matches!(self.memory, Memory::Rom(_)) {
            self.memory = Memory::Ram(Vec::new());
        }
        match &mut self.memory {
            Memory::Ram(ram) => ram,
            Memory::Rom(_) => unreachable!("the memory was converted to a RAM above"),
        }
    }

    /// Returns the memory as a ROM.
    pub fn rom_mut(&mut self) -> &mut Rom {
        if matches!(self.memory, Memory::Ram(_)) {
            self.memory = Memory::Rom(Rom::default());
        }
        match &mut self.memory {
            Memory::Rom(rom) => rom,
            Memory::Ram(_) => unreachable!("the memory was converted to a ROM above"),
        }
    }

    /// Sets whether the voice is audible. A muted voice plays on.
    pub fn set_enabled(&mut self, heard: bool) {
        self.enabled = heard;
    }

    /// Writes a register, 00 to 0F.
    pub fn write(&mut self, reg: u8, value: u8) {
        self.regs[usize::from(reg & 15)] = value;
        match reg & 15 {
            0x00 => {
                if self.asks(control::PLAY) {
                    self.start();
                }
                if self.asks(control::RESET) {
                    self.voice = Voice::RESET;
                    self.rewinds = false;
                }
                if self.asks(control::MEMORY) {
                    self.rewinds = true;
                }
            }
            0x08 if self.regs[0] & 0xe0 == control::RECORD | control::MEMORY => self.store(value),
            _ => {}
        }
    }

    /// Adds `out.len()` native frames.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        let mut plays = self.asks(control::PLAY) && !self.asks(control::RECORD);
        if let Memory::Rom(rom) = &mut self.memory
            && rom.read().is_empty()
        {
            // An empty memory reads as zeros, which would sound as a loud ramp.
            plays = false;
        }
        self.voice.playing &= plays;
        let level = Level {
            factor: i32::from(self.regs[0x0b]),
            shift: 8 + self.dropped,
            sides: [0x80, 0x40].map(|bit| {
                let on = self.enabled && self.regs[1] & bit != 0;
                if on { -1 } else { 0 }
            }),
        };
        let rate = self.word(0x09);
        let mut rest = out.iter_mut();
        while self.voice.playing {
            let Some(frame) = rest.next() else { return };
            let (position, meets) = self.voice.position.overflowing_add(rate);
            self.voice.position = position;
            if meets {
                self.next_sample();
            }
            level.add(&self.voice, frame);
        }
        if self.voice.sample != 0 || self.voice.previous != 0 {
            rest.for_each(|frame| level.add(&self.voice, frame));
        }
    }

    /// Decodes a nibble and moves to the next byte after every second one.
    fn next_sample(&mut self) {
        let external = self.asks(control::MEMORY);
        if !self.voice.second_nibble && external {
            let address = self.voice.address;
            self.voice.byte = match &mut self.memory {
                Memory::Ram(ram) => ram.get(address as usize).copied().unwrap_or(0),
                Memory::Rom(rom) => rom.read().byte(address),
            };
        }
        let nibble = if self.voice.second_nibble {
            self.voice.byte & 15
        } else {
            self.voice.byte >> 4
        };
        self.voice.second_nibble = !self.voice.second_nibble;
        if !self.voice.second_nibble {
            if !external {
                self.voice.byte = self.regs[8];
            } else if self.is_at(0x04) {
                if !self.asks(control::REPEAT) {
                    self.voice.sample = 0;
                    self.voice.previous = 0;
                    self.voice.playing = false;
                    return;
                }
                self.start();
            } else if self.is_at(0x0c) {
                self.voice.address = 0;
            } else {
                self.voice.address = (self.voice.address + 1) & ADDRESS_MASK;
            }
        }
        self.voice.take(nibble);
    }

    fn start(&mut self) {
        let address = if self.asks(control::MEMORY) {
            u32::from(self.word(0x02)) << self.address_shift()
        } else {
            0
        };
        self.voice = Voice {
            playing: true,
            address,
            ..Voice::RESET
        };
    }

    /// Stores a byte that the CPU writes to the memory.
    fn store(&mut self, value: u8) {
        if self.rewinds {
            self.start();
            self.rewinds = false;
        }
        if !self.is_at(0x04) {
            if let Memory::Ram(ram) = &mut self.memory
                && let Some(byte) = ram.get_mut(self.voice.address as usize)
            {
                *byte = value;
            }
            self.voice.address = self.voice.address.wrapping_add(1);
        }
    }

    /// Returns whether the address is the last byte of the unit in the address register at `reg`.
    fn is_at(&self, reg: usize) -> bool {
        self.voice.address == ((u32::from(self.word(reg)) + 1) << self.address_shift()) - 1
    }

    fn address_shift(&self) -> u32 {
        let by_width = if self.regs[1] & 3 != 0 { 5 } else { 2 };
        self.address_shift.unwrap_or(by_width)
    }

    fn asks(&self, bits: u8) -> bool {
        self.regs[0] & bits != 0
    }

    fn word(&self, reg: usize) -> u16 {
        u16::from_le_bytes([self.regs[reg], self.regs[reg + 1]])
    }
}

impl Voice {
    fn take(&mut self, nibble: u8) {
        let magnitude = nibble & 7;
        let delta = (2 * i32::from(magnitude) + 1) * self.step / 8;
        let delta = if nibble & 8 != 0 { -delta } else { delta };
        self.previous = self.sample;
        self.sample = (self.sample + delta).clamp(-0x8000, 0x7fff);
        let step = self.step * STEP_SCALES[usize::from(magnitude)] / 64;
        self.step = step.clamp(STEP_MIN, STEP_MAX);
    }
}
