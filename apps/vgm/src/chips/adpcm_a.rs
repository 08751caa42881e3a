//! ADPCM-A: six voices of 4-bit ADPCM. They are the rhythm part of the YM2608 and the sample part
//! of the YM2610.
//!
//! | register | bits | |
//! |---|---|---|
//! | 00 | `0-xxxxxx`, `1-xxxxxx` | start, stop these voices |
//! | 01 | `--xxxxxx` | total level |
//! | 08–0D | `LR------` | outputs left and right |
//! | 08–0D | `---xxxxx` | level |
//! | 10–15, 18–1D | `xxxxxxxx` | start address, low and high |
//! | 20–25, 28–2D | `xxxxxxxx` | end address, low and high |
//!
//! Addresses are in units of 256 bytes on the YM2610. On the YM2608 they are fixed. A voice decodes
//! one nibble per envelope tick, which is a third of the native rate. The last two voices of the
//! YM2608 decode one per two ticks.
//!
//! Source: Yamaha YM2608 application manual (rhythm) and published YM2610 register descriptions;
//! the 12-bit wrap, the 20-bit end and the level steps follow ymfm (BSD-3-Clause, Aaron Giles).

use super::fm::envelope::EnvelopeClock;
use super::rom::{Reader, Rom};

const VOICES: usize = 6;

/// The bits of an address that are compared with the end address. The comparison ignores higher
/// bits.
const END_MASK: u32 = 0xf_ffff;

/// The attenuation from which a voice is silent.
const OFF: u8 = 63;

/// The step sizes of 12-bit OKI ADPCM. Each is about a tenth larger than the one before.
const STEPS: [u16; 49] = [
    16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118, 130,
    143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796,
    876, 963, 1060, 1166, 1282, 1411, 1552,
];

/// The changes of the step index, by the magnitude of a nibble.
const STEP_MOVES: [i8; 8] = [-1, -1, -1, -1, 2, 5, 7, 9];

/// The end addresses of the YM2608's drums in its ROM. The first drum begins at 0.
pub const DRUM_ENDS: [u16; VOICES] = [0x01bf, 0x043f, 0x1b7f, 0x1cff, 0x1f7f, 0x1fff];

/// The six voices and their memory.
#[derive(Clone, Debug)]
pub struct AdpcmA {
    voices: [Voice; VOICES],
    total_level: u8,
    rom: Rom,
    /// The number of bits by which an address register is shifted.
    address_shift: u32,
    /// The voices that decode on every second tick only.
    slow: u8,
    /// The voices that are not muted. Muted voices play on.
    voice_mask: u8,
    /// The sums of all voices per tick, left and right. The first entry is the sum before the first
    /// tick.
    sums: Vec<[i32; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Voice {
    start: u16,
    end: u16,
    /// The outputs and the level, as in the register.
    level: u8,
    playing: bool,
    address: u32,
    byte: u8,
    second_nibble: bool,
    /// The current sample. It has 12 bits, and wraps around when it overflows.
    sample: u16,
    step: u8,
}

impl AdpcmA {
    /// Creates the ADPCM-A of the YM2610, whose voices play from any address of an external memory.
    pub fn opnb() -> Self {
        Self::new(8, 0)
    }

    /// Creates the ADPCM-A of the YM2608.
    ///
    /// It plays six instruments in the chip's own ROM, the last two at half the rate.
    pub fn opna() -> Self {
        let mut adpcm = Self::new(0, 0b11_0000);
        let mut start = 0;
        for (voice, end) in adpcm.voices.iter_mut().zip(DRUM_ENDS) {
            (voice.start, voice.end) = (start, end);
            start = end + 1;
        }
        adpcm
    }

    fn new(address_shift: u32, slow: u8) -> Self {
        let voice = Voice {
            start: 0,
            end: 0,
            level: 0xdf,
            playing: false,
            address: 0,
            byte: 0,
            second_nibble: false,
            sample: 0,
            step: 0,
        };
        Self {
            voices: [voice; VOICES],
            total_level: 0,
            rom: Rom::default(),
            address_shift,
            slow,
            voice_mask: 0xff,
            sums: Vec::new(),
        }
    }

    /// Returns the memory. Reading beyond its end returns 0. If it is empty, the voices are silent.
    pub fn rom_mut(&mut self) -> &mut Rom {
        &mut self.rom
    }

    /// Mutes all voices except those in `voices`, one bit per voice. Muted voices play on.
    pub fn set_voice_mask(&mut self, voices: u8) {
        self.voice_mask = voices;
    }

    /// Writes a register, 00 to 2F.
    pub fn write(&mut self, reg: u8, value: u8) {
        let (group, index) = (reg & 0x38, usize::from(reg & 7));
        match (reg, self.voices.get_mut(index)) {
            (0, _) => {
                for (i, voice) in self.voices.iter_mut().enumerate() {
                    if value >> i & 1 != 0 {
                        voice.key(value & 0x80 == 0, self.address_shift);
                    }
                }
            }
            (1, _) => self.total_level = value & 0x3f,
            (_, Some(voice)) => match group {
                0x08 => voice.level = value,
                0x10 => voice.start = voice.start & 0xff00 | u16::from(value),
                0x18 => voice.start = voice.start & 0x00ff | u16::from(value) << 8,
                0x20 => voice.end = voice.end & 0xff00 | u16::from(value),
                0x28 => voice.end = voice.end & 0x00ff | u16::from(value) << 8,
                _ => {}
            },
            _ => {}
        }
    }

    /// Adds `out.len()` native frames. `clock` is the state of the envelope clock at the first
    /// frame.
    pub fn render(&mut self, clock: &EnvelopeClock, out: &mut [[i32; 2]]) {
        let rom = self.rom.read();
        if rom.is_empty() {
            // An empty memory reads as zeros, which would sound as a loud ramp.
            for voice in &mut self.voices {
                (voice.playing, voice.sample) = (false, 0);
            }
            return;
        }
        let (tick, from) = clock.next();
        let ticks = out.len().saturating_sub(tick).div_ceil(clock.divider());
        self.sums.clear();
        self.sums.resize(1 + ticks, [0; 2]);
        let mut sounds = false;
        for (i, voice) in self.voices.iter_mut().enumerate() {
            let mut level = Level::new(voice.level, self.total_level);
            if self.voice_mask >> i & 1 == 0 {
                level.outputs = [false; 2];
            }
            let slow = self.slow >> i & 1 != 0;
            let (first, rest) = self
                .sums
                .split_first_mut()
                .expect("`sums` must have one entry more than there are ticks");
            level.add(voice.sample, first);
            sounds |= voice.sample != 0;
            for (sum, count) in rest.iter_mut().zip(0u32..) {
                if !voice.playing && voice.sample == 0 {
                    break;
                }
                if !slow || from.wrapping_add(count) & 1 == 0 {
                    voice.clock(rom, self.address_shift);
                }
                level.add(voice.sample, sum);
                sounds = true;
            }
        }
        if !sounds {
            return;
        }
        let (before, after) = out.split_at_mut(tick.min(out.len()));
        let after = after.chunks_mut(clock.divider());
        for (frames, sum) in [before].into_iter().chain(after).zip(&self.sums) {
            for frame in frames {
                frame[0] += sum[0];
                frame[1] += sum[1];
            }
        }
    }
}

impl Voice {
    fn key(&mut self, on: bool, address_shift: u32) {
        self.playing = on;
        if on {
            self.address = u32::from(self.start) << address_shift;
            self.second_nibble = false;
            self.byte = 0;
            self.sample = 0;
            self.step = 0;
        }
    }

    /// Decodes a nibble if the voice is playing.
    fn clock(&mut self, rom: Reader<'_>, address_shift: u32) {
        if !self.playing {
            self.sample = 0;
            return;
        }
        let nibble = if self.second_nibble {
            self.byte & 15
        } else {
            // The end address is inclusive. The voice ends when it reaches the byte after it.
            let end = (u32::from(self.end) + 1) << address_shift;
            if (self.address ^ end) & END_MASK == 0 {
                self.playing = false;
                self.sample = 0;
                return;
            }
            self.byte = rom.byte(self.address);
            self.address = self.address.wrapping_add(1);
            self.byte >> 4
        };
        self.second_nibble = !self.second_nibble;
        (self.sample, self.step) = decoded(self.sample, self.step, nibble);
    }
}

/// Returns the sample and the step index after a nibble.
fn decoded(sample: u16, step: u8, nibble: u8) -> (u16, u8) {
    let magnitude = nibble & 7;
    let delta = (2 * u16::from(magnitude) + 1) * STEPS[usize::from(step)] / 8;
    let sample = if nibble & 8 != 0 {
        sample.wrapping_sub(delta)
    } else {
        sample.wrapping_add(delta)
    };
    let step = step as i8 + STEP_MOVES[usize::from(magnitude)];
    (sample & 0xfff, step.clamp(0, 48) as u8)
}

/// Encodes samples of 12 bits, two per byte. For each sample we choose the nibble with the smallest
/// error.
pub fn packed(samples: impl Iterator<Item = i32>) -> Vec<u8> {
    let (mut sample, mut step) = (0, 0);
    let nibbles: Vec<u8> = samples
        .map(|wanted| {
            let off = |nibble: &u8| {
                let (sample, _) = decoded(sample, step, *nibble);
                (i32::from((sample << 4) as i16 >> 4) - wanted).abs()
            };
            let nearest = (0..16)
                .min_by_key(off)
                .expect("there must be a nearest nibble");
            (sample, step) = decoded(sample, step, nearest);
            nearest
        })
        .collect();
    let bytes = nibbles.chunks(2);
    bytes
        .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0))
        .collect()
}

/// The factors of the level registers.
#[derive(Clone, Copy)]
struct Level {
    factor: i32,
    shift: u32,
    outputs: [bool; 2],
}

impl Level {
    fn new(voice: u8, total: u8) -> Self {
        let attenuation = (voice & 0x1f ^ 0x1f) + (total ^ 0x3f);
        let on = attenuation < OFF;
        Self {
            factor: 15 - i32::from(attenuation & 7),
            shift: 5 + u32::from(attenuation >> 3),
            outputs: [on && voice & 0x80 != 0, on && voice & 0x40 != 0],
        }
    }

    fn add(&self, sample: u16, sum: &mut [i32; 2]) {
        let wide = i32::from((sample << 4) as i16);
        let value = (wide * self.factor) >> self.shift & !3;
        let [left, right] = self.outputs.map(|on| if on { value } else { 0 });
        sum[0] += left;
        sum[1] += right;
    }
}
