//! NEC's µPD7759: one ADPCM voice that plays phrases from memory, or data that a CPU writes byte by
//! byte.
//!
//! The registers as VGM files write them (command B6):
//!
//! | register | |
//! |---|---|
//! | 00 | reset: 0 stops the chip |
//! | 01 | start: a change from 0 to another value starts a phrase |
//! | 02 | the phrase's number, or a byte of data in slave mode |
//! | 03 | which 128 KiB of memory the chip addresses |
//!
//! The memory begins with the number of the last phrase and a mark of four bytes. The word at 5 + 2
//! n, high byte first, is the start of phrase n in units of two bytes. A phrase consists of blocks:
//!
//! | byte | |
//! |---|---|
//! | 00 | silence; the end if another block came before |
//! | 01–3F | silence of n + 1 times 1,024 clocks |
//! | 40–7F | 256 codes, each lasting n + 1 units of 4 clocks |
//! | 80–BF | the same, but the next byte is the number of codes less one |
//! | C0–FF | the following blocks are played n + 1 times, n in the low three bits |
//!
//! A code has four bits, and the high nibble is first. The code and one of the chip's sixteen
//! states select a step for the output. The code also changes the state. We use frames of 16 clocks
//! and average the output over each frame.
//!
//! Source: NEC µPD7759 data sheet (memory map, blocks, timing); the steps as MAME's upd7759
//! (BSD-3-Clause, Juergen Buchmueller and others) has measured them; VGM specification 1.71.

use std::collections::VecDeque;

use super::super::Rate;
use super::super::rom::Rom;
use super::PcmChip;
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the uPD7759 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Upd7759,
    name: "uPD7759, uPD7756",
    verification: TONES,
    ratio: Some(6.3),
    level: Level::new(1.0, 0x11E, 1.0),
    voices: &[VoiceGroup::Numbered(1)],
    cost_ns: 15,
    memory_blocks: &[0x8A],
    create: Create::Samples(|header, clock_hz| {
        Box::new(Upd7759::new(clock_hz, header.is_variant(ChipId::Upd7759)))
    }),
};

/// The number of clocks per unit. `UNITS` is the number of units per native frame.
const UNIT: u32 = 4;
const UNITS: u32 = 4;

/// The largest number of queued bytes. Further bytes replace the oldest ones.
const WAITING_MAX: usize = 1 << 16;

/// The number of units between a start and the first block. `BYTE_UNITS` is the number of units for
/// reading a byte.
const START_UNITS: u32 = 60;
const BYTE_UNITS: u32 = 9;

/// The change of the output, by the state and the low three bits of a code.
#[rustfmt::skip]
pub const STEPS: [[i32; 8]; 16] = [
    [0, 0, 1, 2, 3, 5, 7, 10], [0, 1, 2, 3, 4, 6, 8, 13], [0, 1, 2, 4, 5, 7, 10, 15],
    [0, 1, 3, 4, 6, 9, 13, 19], [0, 2, 3, 5, 8, 11, 15, 23], [0, 2, 4, 7, 10, 14, 19, 29],
    [0, 3, 5, 8, 12, 16, 22, 33], [1, 4, 7, 10, 15, 20, 29, 43], [1, 4, 8, 13, 18, 25, 35, 53],
    [1, 6, 10, 16, 22, 31, 43, 64], [2, 7, 12, 19, 27, 37, 51, 76], [2, 9, 16, 24, 34, 46, 64, 96],
    [3, 11, 19, 29, 41, 57, 79, 117], [4, 13, 24, 36, 50, 69, 96, 143],
    [4, 16, 29, 44, 62, 85, 118, 175], [6, 20, 36, 54, 76, 104, 144, 214],
];

/// The change of the state, by the low three bits of a code.
const MOVES: [i32; 8] = [-1, -1, 0, 0, 1, 2, 2, 3];

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Idle,
    /// The next byte begins a block.
    Block,
    /// The next byte is the number of codes.
    Count,
    /// The next code is the high nibble of the next byte. In `Low`, it is the given low nibble.
    High,
    Low(u8),
}

/// An emulated µPD7759, which renders native frames.
#[derive(Clone, Debug)]
pub struct Upd7759 {
    clock_hz: u32,
    /// Whether the chip is in slave mode, in which a CPU writes the data.
    is_slave: bool,
    running: bool,
    started: bool,
    port: u8,
    bank: u32,
    waiting: VecDeque<u8>,
    state: State,
    /// The number of units until the next change of the state machine.
    left: u32,
    at: u32,
    /// The number of units per code.
    period: u32,
    /// The number of remaining codes.
    codes: u32,
    /// Whether a block other than 00 came before, so that 00 is the end.
    begun: bool,
    repeats: u8,
    repeat_at: u32,
    step: i32,
    sample: i32,
    rom: Rom,
}

impl Upd7759 {
    /// Creates a chip in its state after reset. It is in slave mode if `fed` is set, and otherwise
    /// reads its own memory.
    pub fn new(clock_hz: u32, fed: bool) -> Self {
        Self {
            clock_hz,
            is_slave: fed,
            running: true,
            started: true,
            port: 0,
            bank: 0,
            waiting: VecDeque::new(),
            state: State::Idle,
            left: 0,
            at: 0,
            period: 1,
            codes: 0,
            begun: false,
            repeats: 0,
            repeat_at: 0,
            step: 0,
            sample: 0,
            rom: Rom::default(),
        }
    }

    fn stop(&mut self) {
        self.state = State::Idle;
        (self.step, self.sample) = (0, 0);
        self.waiting.clear();
    }

    fn start(&mut self) {
        self.stop();
        (self.begun, self.repeats) = (false, 0);
        self.state = State::Block;
        self.left = START_UNITS;
        if !self.is_slave {
            let (rom, bank) = (self.rom.read(), self.bank);
            let entry = bank + 5 + 2 * u32::from(self.port);
            let word = u16::from_be_bytes([rom.byte(entry), rom.byte(entry + 1)]);
            if self.port > rom.byte(bank) {
                self.state = State::Idle;
            }
            // The first byte is the kind of the phrase.
            self.at = 2 * u32::from(word) + 1;
        }
    }

    /// Returns the next byte of the ROM. In slave mode, it instead returns the next byte that the
    /// CPU has written, or `None` until the CPU writes one.
    fn byte(&mut self) -> Option<u8> {
        if self.is_slave {
            return self.waiting.pop_front();
        }
        let byte = self.rom.read().byte(self.bank + (self.at & 0x1_FFFF));
        self.at += 1;
        Some(byte)
    }

    /// Advances the state machine when the units have passed.
    fn advance(&mut self) {
        match self.state {
            State::Idle => self.left = u32::MAX,
            State::Low(code) => self.code(code, State::High),
            State::High if self.codes == 0 => {
                (self.state, self.left) = (State::Block, BYTE_UNITS);
            }
            _ => match self.byte() {
                None => self.left = 1,
                Some(byte) => self.take(byte),
            },
        }
    }

    fn take(&mut self, byte: u8) {
        match self.state {
            State::Count => {
                self.codes = u32::from(byte) + 1;
                (self.state, self.left) = (State::High, BYTE_UNITS);
            }
            State::High => self.code(byte >> 4, State::Low(byte & 15)),
            _ => self.block(byte),
        }
    }

    fn block(&mut self, byte: u8) {
        if self.repeats > 0 && byte == 0 {
            self.repeats -= 1;
            self.at = self.repeat_at;
            self.left = BYTE_UNITS;
            return;
        }
        let low = u32::from(byte & 0x3F);
        match byte >> 6 {
            0 => {
                (self.step, self.sample) = (0, 0);
                self.left = 256 * (low + 1);
                if byte == 0 && self.begun {
                    self.state = State::Idle;
                }
            }
            1 | 2 => {
                self.period = low + 1;
                self.codes = 256;
                self.left = BYTE_UNITS;
                self.state = if byte >> 6 == 1 {
                    State::High
                } else {
                    State::Count
                };
            }
            _ => {
                self.repeats = byte & 7;
                self.repeat_at = self.at;
                self.left = BYTE_UNITS;
            }
        }
        self.begun |= byte != 0;
    }

    fn code(&mut self, code: u8, next: State) {
        let size = STEPS[self.step as usize][usize::from(code & 7)];
        self.sample += if code & 8 != 0 { -size } else { size };
        self.sample = self.sample.clamp(-256, 255);
        self.step = (self.step + MOVES[usize::from(code & 7)]).clamp(0, 15);
        self.codes -= 1;
        self.left = self.period;
        self.state = match next {
            State::Low(_) if self.codes == 0 => State::High,
            next => next,
        };
    }
}

impl PcmChip for Upd7759 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: u64::from(UNIT * UNITS),
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let value = value as u8;
        match reg {
            0x00 => {
                self.running = value != 0;
                if !self.running {
                    self.stop();
                }
            }
            0x01 => {
                if value != 0 && !self.started && self.state == State::Idle {
                    self.start();
                }
                self.started = value != 0;
            }
            0x02 if self.is_slave => {
                if self.waiting.len() == WAITING_MAX {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(value);
            }
            0x02 => self.port = value,
            0x03 => self.bank = u32::from(value) << 17,
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            let mut sum = 0;
            let mut units = UNITS;
            while units > 0 && self.running && self.state != State::Idle {
                if self.left == 0 {
                    self.advance();
                }
                let some = self.left.min(units);
                sum += self.sample * some as i32;
                self.left -= some;
                units -= some;
            }
            sum += self.sample * units as i32;
            *frame = [(sum << 7) / UNITS as i32; 2];
        }
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8A).then_some(&mut self.rom)
    }
}
