//! Namco's C352: 32 voices of 8-bit or companded samples, with four outputs.
//!
//! The chip has one noise for all voices. Here each voice has its own, so that we can render the
//! voices one by one.
//!
//! Each voice has eight words at 8 v (command E1 has address and word):
//!
//! | word | |
//! |---|---|
//! | 0, 1 | volumes front and rear: left in the high byte, right in the low |
//! | 2 | step in 65536ths of a sample |
//! | 3 | flags, below |
//! | 4 | bank: bits 16–23 of all its addresses |
//! | 5, 6, 7 | start, end (inclusive), loop |
//!
//! | flag | |
//! |---|---|
//! | 8000 | the voice plays |
//! | 4000, 2000 | key on, key off, at the next write to word 202 |
//! | 0200, 0100, 0080 | the left rear, the left front, both right outputs are inverted |
//! | 0040 | the voice plays a ping-pong loop backwards |
//! | 0020 | the loop is in the bank whose number is the start |
//! | 0010 | noise |
//! | 0008 | companded: sign and magnitude |
//! | 0004 | no interpolation |
//! | 0002, 0001 | loops; backwards; both: ping-pong |
//!
//! Volumes move by one step every half sample. We mix front and rear. If bit 31 of the clock in the
//! header is set, the board has no rear speakers, and we leave the rear out.
//!
//! We leave out the control word 200 on purpose, and the counter behind 400 and 800 that shows a
//! loop.
//!
//! Source: the registers as MAME's c352 (BSD-3-Clause, R. Belmont, superctr) describes them; VGM
//! specification 1.72 (header D6: the clocks of a frame, in fours; DC: the clock).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the C352 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::C352,
    name: "C352",
    verification: TONES,
    ratio: Some(3.2),
    // The core drops three bits, so that eight voices at their loudest fit into 16 bits. This does
    // not count their rear outputs.
    level: Level::new(8.0, 0x40, 8.0),
    voices: &[VoiceGroup::Numbered(32)],
    cost_ns: 80,
    memory_blocks: &[0x92],
    create: Create::Samples(|header, clock_hz| {
        let has_rear = !header.is_variant(ChipId::C352);
        Box::new(C352::new(clock_hz, header.byte(0xD6), has_rear))
    }),
};

const VOICES: usize = 32;

/// The number of clocks per frame if the header does not give it.
const USUAL_DIVIDER: u64 = 288;

mod flag {
    pub const BUSY: u16 = 0x8000;
    pub const KEY_ON: u16 = 0x4000;
    pub const KEY_OFF: u16 = 0x2000;
    pub const REAR_LEFT_INVERTED: u16 = 0x0200;
    pub const FRONT_LEFT_INVERTED: u16 = 0x0100;
    pub const RIGHT_INVERTED: u16 = 0x0080;
    pub const ON_THE_WAY_BACK: u16 = 0x0040;
    pub const LINKED: u16 = 0x0020;
    pub const NOISE: u16 = 0x0010;
    pub const COMPANDED: u16 = 0x0008;
    pub const NO_LINE: u16 = 0x0004;
    pub const LOOP: u16 = 0x0002;
    pub const BACKWARDS: u16 = 0x0001;
}

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    volumes: [u16; 2],
    step: u16,
    flags: u16,
    bank: u16,
    start: u16,
    end: u16,
    loop_at: u16,
    at: u32,
    fraction: u32,
    sample: i32,
    last: i32,
    noise: u16,
    /// Whether the rear outputs are heard.
    has_rear: bool,
    /// The current volumes: front left and right, rear left and right. They move towards the
    /// volumes that were set.
    now: [i32; 4],
}

/// An emulated C352, which renders native frames.
#[derive(Clone, Debug)]
pub struct C352 {
    clock_hz: u32,
    divider: u64,
    voices: [Voice; VOICES],
    companded: [i32; 256],
    rom: Rom,
}

/// Returns the values of the companded codes.
///
/// The segments have steps of 1, 2, 4, 8 and 16, in units of 32. A code with the high bit set gives
/// the complement of the value without this bit, in which we clear the low five bits.
fn companded() -> [i32; 256] {
    let mut table = [0; 256];
    let mut size = 0;
    for code in 0..128 {
        table[code] = size << 5;
        table[code + 128] = i32::from((!(size << 5) & 0xFFE0) as i16);
        size += match code {
            0..16 => 1,
            16..24 => 2,
            24..48 => 4,
            48..100 => 8,
            _ => 16,
        };
    }
    table
}

impl C352 {
    /// Creates a chip in its state after reset.
    ///
    /// `divider` is byte D6 of the VGM header. `has_rear` is whether the board has rear speakers.
    pub fn new(clock_hz: u32, divider: u8, has_rear: bool) -> Self {
        Self {
            clock_hz,
            divider: match divider {
                0 => USUAL_DIVIDER,
                fours => u64::from(fours) * 4,
            },
            voices: std::array::from_fn(|number| Voice {
                noise: 0x1234 + number as u16,
                has_rear,
                ..Voice::default()
            }),
            companded: companded(),
            rom: Rom::default(),
        }
    }
}

impl Voice {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn write(&mut self, word: u16, value: u16) {
        match word {
            0 | 1 => self.volumes[usize::from(word)] = value,
            2 => self.step = value,
            3 => self.flags = value,
            4 => self.bank = value,
            5 => self.start = value,
            6 => self.end = value,
            _ => self.loop_at = value,
        }
    }

    /// Executes the key flags. A key-on starts the voice, and a key-off stops it.
    fn execute(&mut self) {
        if self.has(flag::KEY_ON) {
            self.at = u32::from(self.bank) << 16 | u32::from(self.start);
            (self.sample, self.last) = (0, 0);
            self.fraction = 0xFFFF;
            self.now = [0; 4];
            self.flags = self.flags & !flag::KEY_ON | flag::BUSY;
        } else if self.has(flag::KEY_OFF) {
            self.flags &= !(flag::BUSY | flag::KEY_OFF);
            self.fraction = 0xFFFF;
        }
    }

    fn fetch(&mut self, rom: Reader<'_>, companded: &[i32; 256]) {
        self.last = self.sample;
        if self.has(flag::NOISE) {
            let turned = (self.noise & 1).wrapping_neg() & 0xFFF6;
            self.noise = self.noise >> 1 ^ turned;
            self.sample = i32::from(self.noise as i16);
            return;
        }
        let byte = rom.byte(self.at & 0xFF_FFFF);
        self.sample = if self.has(flag::COMPANDED) {
            companded[usize::from(byte)]
        } else {
            i32::from(byte as i8) << 8
        };
        self.advance();
    }

    fn advance(&mut self) {
        let place = self.at as u16;
        let both = flag::LOOP | flag::BACKWARDS;
        let backwards = if self.flags & both == both {
            if place == self.loop_at && self.has(flag::ON_THE_WAY_BACK) {
                self.flags &= !flag::ON_THE_WAY_BACK;
            } else if place == self.end {
                self.flags |= flag::ON_THE_WAY_BACK;
            }
            self.has(flag::ON_THE_WAY_BACK)
        } else if place == self.end {
            let bank = match (self.has(flag::LOOP), self.has(flag::LINKED)) {
                (false, _) => {
                    self.flags = self.flags & !flag::BUSY | flag::KEY_OFF;
                    self.sample = 0;
                    return;
                }
                (true, true) => u32::from(self.start) << 16,
                (true, false) => self.at & !0xFFFF,
            };
            self.at = bank | u32::from(self.loop_at);
            return;
        } else {
            self.has(flag::BACKWARDS)
        };
        self.at = if backwards {
            self.at.wrapping_sub(1)
        } else {
            self.at.wrapping_add(1)
        };
    }

    fn move_volumes(&mut self) {
        let [front, rear] = self.volumes.map(u16::to_be_bytes);
        let targets = [front[0], front[1], rear[0], rear[1]];
        for (now, target) in self.now.iter_mut().zip(targets) {
            *now += (i32::from(target) - *now).signum();
        }
    }

    /// Returns the sums of front and rear, left and right.
    fn sides(&self) -> [i32; 2] {
        let rear = if self.has_rear { self.now } else { [0; 4] };
        let turned = |turn, volume: i32| if self.has(turn) { -volume } else { volume };
        let left = turned(flag::FRONT_LEFT_INVERTED, self.now[0]);
        let rear_left = turned(flag::REAR_LEFT_INVERTED, rear[2]);
        [
            left + rear_left,
            turned(flag::RIGHT_INVERTED, self.now[1] + rear[3]),
        ]
    }
}

/// The number of frames whose samples are fetched before they are computed.
const BLOCK: usize = 64;

impl Voice {
    /// Adds frames until the voice ends.
    fn add(&mut self, rom: Reader<'_>, companded: &[i32; 256], out: &mut [[i32; 2]]) {
        for block in out.chunks_mut(BLOCK) {
            if !self.has(flag::BUSY) {
                return;
            }
            let [front, rear] = self.volumes.map(u16::to_be_bytes);
            let targets = [front[0], front[1], rear[0], rear[1]].map(i32::from);
            if self.now == targets {
                self.add_steady(rom, companded, block);
            } else {
                self.add_moving(rom, companded, block);
            }
        }
    }

    /// Adds frames while the volumes move, which they do every half sample.
    fn add_moving(&mut self, rom: Reader<'_>, companded: &[i32; 256], block: &mut [[i32; 2]]) {
        let mut sides = self.sides();
        for frame in block {
            let next = self.fraction + u32::from(self.step);
            if next & 0x1_0000 != 0 {
                self.fetch(rom, companded);
            }
            if (next ^ self.fraction) & 0x1_8000 != 0 {
                self.move_volumes();
                sides = self.sides();
            }
            self.fraction = next & 0xFFFF;
            let (from, rise) = self.line();
            let sample = from + ((rise * (self.fraction >> 1) as i32) >> 15);
            frame[0] += (sample * sides[0]) >> 8;
            frame[1] += (sample * sides[1]) >> 8;
            if !self.has(flag::BUSY) {
                return;
            }
        }
    }

    /// Adds frames of constant volume. First the samples are fetched, then all frames are computed.
    fn add_steady(&mut self, rom: Reader<'_>, companded: &[i32; 256], block: &mut [[i32; 2]]) {
        let (mut froms, mut rises, mut parts) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
        let step = u32::from(self.step);
        let mut line = self.line();
        let mut frames = 0;
        for place in 0..block.len() {
            let next = self.fraction + step;
            self.fraction = next & 0xFFFF;
            frames = place + 1;
            if next & 0x1_0000 != 0 {
                self.fetch(rom, companded);
                line = self.line();
            }
            (froms[place], rises[place]) = line;
            parts[place] = (self.fraction >> 1) as i32;
            if !self.has(flag::BUSY) {
                break;
            }
        }
        let sides = self.sides();
        let places = froms.iter().zip(&rises).zip(&parts);
        for (frame, ((from, rise), part)) in block[..frames].iter_mut().zip(places) {
            let sample = from + ((rise * part) >> 15);
            frame[0] += (sample * sides[0]) >> 8;
            frame[1] += (sample * sides[1]) >> 8;
        }
    }

    /// Returns the sample at which the interpolation starts, and the difference to the next sample.
    /// The difference is 0 if the voice does not interpolate.
    fn line(&self) -> (i32, i32) {
        if self.has(flag::NO_LINE) {
            (self.sample, 0)
        } else {
            (self.last, self.sample - self.last)
        }
    }
}

impl PcmChip for C352 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: self.divider,
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        match reg {
            0x000..=0x0FF => self.voices[usize::from(reg >> 3)].write(reg & 7, value),
            0x202 => self.voices.iter_mut().for_each(Voice::execute),
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        let busy = |voice: &&mut Voice| voice.has(flag::BUSY);
        for voice in self.voices.iter_mut().filter(busy) {
            voice.add(rom, &self.companded, out);
        }
        for value in out.as_flattened_mut() {
            *value >>= 3;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x92).then_some(&mut self.rom)
    }
}
