//! ICS2115 (WaveFront): 32 oscillators that play samples, with volume ramps.
//!
//! The host has four addresses (command 44). Address 1 selects a register, and 2 and 3 are its low
//! and high byte. Registers of one byte use the high byte, except for those from 40 on, which use
//! the low byte. Register 4F selects an oscillator, whose registers are:
//!
//! | register | bits | |
//! |---|---|---|
//! | 00 | `-iqblesu` | high byte: backwards¹, interrupt, ping-pong, loop, 8 bits, stop, µ-law |
//! | 01 | `iiiiiifffffffff-` | step in bytes: whole, 512ths |
//! | 02, 03 | `a…` | loop start: bits 4–19 of the address; bits 0–3 and a fraction in the high byte |
//! | 04, 05 | | loop end, like these |
//! | 06 | `ssiiiiii` | change of the volume, of 12 bits, every 1, 8, 64 or 512 frames |
//! | 07, 08 | `eeeemmmm` | volume at which a ramp begins and ends: the high bits of 09 |
//! | 09 | `eeeemmmmmmmm----` | current volume |
//! | 0A, 0B | | current address: as the loop's, with a fraction of 9 bits in bits 3–11 |
//! | 0C | | pan, 00 left to FF right |
//! | 0D | `-iqbl-sd`¹ | ramp: down, interrupt, ping-pong, loop, -, stop, done |
//! | 0E | `---nnnnn` | number of oscillators, less one |
//! | 10 | | 0 starts the oscillator, F stops it and its ramp |
//! | 11 | `----bbbb` | bits 20–23 of the address |
//!
//! ¹ Bit 6. Bit 5 enables an interrupt, and bit 7 shows one that waits.
//!
//! A volume is a number with four bits of exponent and eight of mantissa. Each step of the exponent
//! is 6 dB. A frame has 32 clocks per oscillator, and the clock of the chip is 33.8688 MHz.
//!
//! Addresses are in bytes for all sample formats. Samples are interpolated linearly.
//!
//! We leave out interrupts, timers, DMA, MIDI and reading on purpose.
//!
//! Source: ICS2115 WaveFront Synthesizer data sheet (Integrated Circuit Systems, 1993). It does not
//! say how ramps count, so we follow the manuals of the Gravis UltraSound, whose GF1 has the same
//! oscillators. VGM specification 1.72 (header FC, command 44, block 96).

use super::super::Rate;
use super::super::rom::{Reader, Rom};
use super::sample::LoopMode;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the ICS2115 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ics2115,
    name: "ICS2115",
    verification: "documented arithmetic; libvgm: spectra 0.8 dB, balance 0.8 dB, onsets 1.00",
    ratio: Some(1.8),
    // With this scale a voice in the middle is as loud as in libvgm, which hardly pans.
    level: Level::new(8.0, 0x40, 4.0),
    voices: &[VoiceGroup::Numbered(32)],
    cost_ns: 80,
    memory_blocks: &[0x96],
    create: Create::Samples(|_, clock_hz| Box::new(Ics2115::new(clock_hz))),
};

const OSCILLATORS: usize = 32;
/// The number of frames whose samples are fetched before they are computed.
const BLOCK: usize = 64;
const CLOCKS: u64 = 32;

/// The number of fraction bits of a position.
const FRACTION: u32 = 12;
/// The number of low bits of a volume that only ramps use.
const RAMP: u32 = 10;
const VOLUME_MAX: i64 = 0xFFFF << RAMP;

/// The bits of registers 00 and 0D.
mod control {
    /// A bit of register 00: samples are µ-law.
    pub const MU_LAW: u8 = 1;
    /// A bit of both registers: the oscillator or the ramp is stopped.
    pub const STOP: u8 = 2;
    /// A bit of register 00: samples have 8 bits.
    pub const BYTES: u8 = 4;
    pub const LOOP: u8 = 8;
    pub const PING_PONG: u8 = 16;
    pub const BACKWARDS: u8 = 64;
    /// A bit of register 0D: the ramp has ended.
    pub const DONE: u8 = 1;
}

#[derive(Clone, Copy, Debug, Default)]
struct Oscillator {
    control: u8,
    step: u16,
    /// The positions, with 20 bits and [`FRACTION`] fraction bits.
    start: u32,
    end: u32,
    at: u32,
    bank: u32,
    ramp_control: u8,
    ramp: u8,
    /// The volumes, up to [`VOLUME_MAX`].
    ramp_start: i64,
    ramp_end: i64,
    volume: i64,
    pan: u8,
    /// Whether the oscillator was started and has not been stopped since.
    runs: bool,
}

/// The ICS2115.
///
/// ```
/// use creel_vgm::chips::pcm::{PcmChip, ics2115::Ics2115};
///
/// let mut chip = Ics2115::new(33_868_800);
/// // Register 0E: 24 oscillators.
/// chip.write(0, 1, 0x0E);
/// chip.write(0, 3, 23);
/// assert_eq!(chip.rate().hz(), 44_100.0);
/// ```
#[derive(Clone)]
pub struct Ics2115 {
    clock_hz: u32,
    oscillators: [Oscillator; OSCILLATORS],
    last: u8,
    /// The register that the host has selected.
    register: u8,
    /// The oscillator that the host has selected.
    chosen: usize,
    low: u8,
    /// The oscillators that are not muted, one bit per oscillator.
    voice_mask: u32,
    tables: Box<Tables>,
    rom: Rom,
}

#[derive(Clone)]
struct Tables {
    /// The factors by the upper twelve bits of a volume, in 65,536ths.
    volumes: [i32; 4096],
    /// The samples by their µ-law byte.
    mu_law: [i16; 256],
    /// The attenuation by the pan of a side, in units of the upper twelve bits of a volume.
    pans: [i32; 256],
}

impl Tables {
    fn new() -> Self {
        Tables {
            volumes: std::array::from_fn(|volume| {
                let (exponent, mantissa) = (volume >> 8, volume & 0xFF);
                (((0x100 | mantissa) << 7) >> (15 - exponent)) as i32
            }),
            mu_law: std::array::from_fn(|byte| {
                let code = !(byte as u8);
                let (exponent, mantissa) = (code >> 4 & 7, i32::from(code & 15));
                let size = (((mantissa << 3) + 0x84) << exponent) - 0x84;
                (if code & 0x80 != 0 { -size } else { size }) as i16
            }),
            pans: std::array::from_fn(|pan| match pan {
                0 => 4096,
                _ => (256.0 * libm::log2(255.0 / pan as f64)).round() as i32,
            }),
        }
    }
}

impl Ics2115 {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        let oscillator = Oscillator {
            control: control::STOP,
            ramp_control: control::DONE,
            pan: 0x7F,
            ..Oscillator::default()
        };
        Self {
            clock_hz,
            oscillators: [oscillator; OSCILLATORS],
            last: 31,
            register: 0,
            chosen: 0,
            low: 0,
            voice_mask: u32::MAX,
            tables: Box::new(Tables::new()),
            rom: Rom::default(),
        }
    }

    /// Writes a register of 16 bits. Some registers use only the upper eight.
    fn set(&mut self, value: u16) {
        let high = (value >> 8) as u8;
        let of = &mut self.oscillators[self.chosen];
        let wide = u32::from(value);
        match self.register {
            0x00 => of.control = high,
            0x01 => of.step = value & !1,
            0x02 => of.start = wide << 16 | of.start & 0xFFFF,
            0x03 => of.start = of.start & !0xFFFF | wide & 0xFF00,
            0x04 => of.end = wide << 16 | of.end & 0xFFFF,
            0x05 => of.end = of.end & !0xFFFF | wide & 0xFF00,
            0x06 => of.ramp = high,
            0x07 => of.ramp_start = i64::from(value & 0xFF00) << RAMP,
            0x08 => of.ramp_end = i64::from(value & 0xFF00) << RAMP,
            0x09 => of.volume = i64::from(value) << RAMP,
            0x0A => of.at = wide << 16 | of.at & 0xFFFF,
            0x0B => of.at = of.at & !0xFFFF | wide & 0xFFF8,
            0x0C => of.pan = high,
            0x0D => of.ramp_control = high,
            0x0E => self.last = high & 31,
            0x10 => of.switch(high),
            0x11 => of.bank = u32::from(high & 15) << 20,
            _ => {}
        }
    }
}

impl Oscillator {
    fn switch(&mut self, value: u8) {
        match value {
            0 => {
                self.control &= !control::STOP;
                self.runs = true;
            }
            0x0F => {
                self.control |= control::STOP;
                self.ramp_control |= control::DONE;
                self.runs = false;
            }
            _ => {}
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.control & bit != 0
    }

    fn stands(&self) -> bool {
        !self.runs || self.has(control::STOP)
    }

    /// Advances by a frame. At the end, the oscillator stops, loops or turns around.
    fn advance(&mut self) {
        let step = i64::from(self.step) << 2;
        let (start, end) = (i64::from(self.start), i64::from(self.end));
        let back = self.has(control::BACKWARDS);
        let at = i64::from(self.at) + if back { -step } else { step };
        let over = if back { start - at } else { at - end };
        if over < 0 {
            self.at = at as u32;
            return;
        }
        let turn = LoopMode::of(self.has(control::LOOP), self.has(control::PING_PONG));
        match turn {
            LoopMode::Stop => self.control |= control::STOP,
            LoopMode::Forward => {}
            LoopMode::PingPong => self.control ^= control::BACKWARDS,
        }
        self.at = turn.place([start, end], over, back) as u32;
    }

    /// Advances the volume by a frame.
    fn advance_ramp(&mut self) {
        let stands = control::DONE | control::STOP;
        if self.ramp_control & stands != 0 {
            return;
        }
        let step = i64::from(self.ramp & 0x3F) << (4 + RAMP - 3 * u32::from(self.ramp >> 6));
        let down = self.ramp_control & control::BACKWARDS != 0;
        let before = self.volume;
        self.volume += if down { -step } else { step };
        let over = if down {
            self.ramp_start - self.volume
        } else {
            self.volume - self.ramp_end
        };
        if over < 0 {
            return;
        }
        let has = |bit: u8| self.ramp_control & bit != 0;
        let turn = LoopMode::of(has(control::LOOP), has(control::PING_PONG));
        match turn {
            LoopMode::Stop => {
                self.ramp_control |= control::DONE;
                if over > step {
                    // It was beyond its end before, so there is nothing to move to.
                    self.volume = before;
                    return;
                }
            }
            LoopMode::Forward => {}
            LoopMode::PingPong => self.ramp_control ^= control::BACKWARDS,
        }
        let volume = turn.place([self.ramp_start, self.ramp_end], over, down);
        self.volume = volume.clamp(0, VOLUME_MAX);
    }

    fn sides(&self, tables: &Tables) -> [i32; 2] {
        let volume = (self.volume >> (RAMP + 4)) as i32;
        let of = |pan: u8| {
            let left = volume - tables.pans[usize::from(pan)];
            if left < 0 {
                0
            } else {
                tables.volumes[left as usize]
            }
        };
        [of(255 - self.pan), of(self.pan)]
    }

    fn add(&mut self, rom: Reader<'_>, tables: &Tables, out: &mut [[i32; 2]]) {
        for block in out.chunks_mut(BLOCK) {
            if self.has(control::STOP) {
                return;
            }
            if self.ramp_control & (control::DONE | control::STOP) == 0 {
                self.add_moving(rom, tables, block);
            } else {
                self.add_steady(rom, tables, block);
            }
        }
    }

    /// Adds frames while the volume moves.
    fn add_moving(&mut self, rom: Reader<'_>, tables: &Tables, block: &mut [[i32; 2]]) {
        for frame in block.chunks_mut(1) {
            let sides = self.sides(tables);
            self.look_up(rom, tables, 1).add(sides, frame);
            self.advance_ramp();
            if self.has(control::STOP) {
                return;
            }
        }
    }

    /// Adds frames of constant volume. First the samples are fetched, then all frames are computed.
    fn add_steady(&mut self, rom: Reader<'_>, tables: &Tables, block: &mut [[i32; 2]]) {
        let sides = self.sides(tables);
        self.look_up(rom, tables, block.len()).add(sides, block);
    }

    /// Advances by `frames` frames, or until the oscillator stops, and returns the samples.
    #[inline]
    fn look_up(&mut self, rom: Reader<'_>, tables: &Tables, frames: usize) -> Lines {
        let bank = self.bank;
        let at = |place: u32| bank | place & 0xF_FFFF;
        let mut lines = Lines::default();
        if self.has(control::MU_LAW) {
            let of = |place: u32| i32::from(tables.mu_law[usize::from(rom.byte(at(place)))]);
            self.go_on(line(of, 1), frames, &mut lines);
        } else if self.has(control::BYTES) {
            let of = |place: u32| rom.signed(at(place)) << 8;
            self.go_on(line(of, 1), frames, &mut lines);
        } else {
            let of = |place: u32| rom.word_le(at(place) & !1);
            self.go_on(line(of, 2), frames, &mut lines);
        }
        lines
    }

    /// Stores the samples of `frames` frames. `line` returns the two samples at a position and the
    /// fraction between them.
    #[inline]
    fn go_on(&mut self, line: impl Fn(u32) -> (i32, i32, u32), frames: usize, lines: &mut Lines) {
        let step = u32::from(self.step) << 2;
        let frames = frames.min(BLOCK);
        while lines.count < frames {
            // The number of the next frames of which none reaches the end.
            let calm = match (self.end.saturating_sub(self.at)).checked_sub(1) {
                Some(room) if !self.has(control::BACKWARDS) => room.checked_div(step).unwrap_or(0),
                _ => 0,
            };
            let run = lines.count..frames.min(lines.count + calm as usize);
            for place in run.clone() {
                lines.note(place, line(self.at));
                self.at += step;
            }
            lines.count = run.end;
            if lines.count < frames {
                lines.note(lines.count, line(self.at));
                lines.count += 1;
                self.advance();
                if self.has(control::STOP) {
                    return;
                }
            }
        }
    }
}

/// Returns a function that looks up a position.
///
/// The function returns the sample `of` the address, the sample `bytes` bytes after it, and the
/// fraction between them in 512ths.
#[inline]
fn line(of: impl Fn(u32) -> i32, bytes: u32) -> impl Fn(u32) -> (i32, i32, u32) {
    move |at| {
        let address = at >> FRACTION;
        (of(address), of(address + bytes), (at / (8 * bytes)) & 0x1FF)
    }
}

/// The samples of frames: pairs of samples to interpolate between, and the fractions.
struct Lines {
    count: usize,
    from: [i32; BLOCK],
    rise: [i32; BLOCK],
    /// The fractions in 512ths.
    part: [i32; BLOCK],
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            count: 0,
            from: [0; BLOCK],
            rise: [0; BLOCK],
            part: [0; BLOCK],
        }
    }
}

impl Lines {
    #[inline]
    fn note(&mut self, place: usize, (one, two, part): (i32, i32, u32)) {
        self.from[place] = one;
        self.rise[place] = two - one;
        self.part[place] = part as i32;
    }

    /// Adds the frames with the volumes of the sides, in 65,536ths.
    fn add(&self, sides: [i32; 2], out: &mut [[i32; 2]]) {
        let [left, right] = sides.map(|side| side >> 1);
        let places = self.from.iter().zip(&self.rise).zip(&self.part);
        for (frame, ((from, rise), part)) in out[..self.count].iter_mut().zip(places) {
            let value = from + ((rise * part) >> 9);
            frame[0] += (value * left) >> 15;
            frame[1] += (value * right) >> 15;
        }
    }
}

impl PcmChip for Ics2115 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: CLOCKS * (u64::from(self.last) + 1),
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let value = value as u8;
        match reg {
            1 => self.register = value,
            2 if self.register == 0x4F => self.chosen = usize::from(value & 31),
            2 => self.low = value,
            3 => {
                let word = u16::from_be_bytes([value, self.low]);
                self.set(word);
            }
            _ => {}
        }
    }

    /// The oscillators do not affect each other, so we do not run muted ones.
    fn set_voice_mask(&mut self, voices: u64) -> bool {
        self.voice_mask = voices as u32;
        true
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        let playing = usize::from(self.last) + 1;
        for (number, of) in self.oscillators[..playing].iter_mut().enumerate() {
            if !of.stands() && self.voice_mask >> number & 1 != 0 {
                of.add(rom, &self.tables, out);
            }
        }
        for side in out.as_flattened_mut() {
            // With this shift, four oscillators at their loudest fit into 16 bits.
            *side >>= 2;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x96).then_some(&mut self.rom)
    }
}
