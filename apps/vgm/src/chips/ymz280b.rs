//! Yamaha's YMZ280B (PCMD8): eight voices of ADPCM or PCM.
//!
//! | register | |
//! |---|---|
//! | 00 + 4 × voice | pitch, low 8 bits |
//! | 01 + 4 × voice | `k m m l - - - p` key, format, loop, pitch's bit 8 |
//! | 02 + 4 × voice | level |
//! | 03 + 4 × voice | pan: 8 is the middle, 1 left, 15 right |
//! | 20–23 + 4 × voice | bits 16 to 23 of start, loop start, loop end, end |
//! | 40–43, 60–63 | bits 8 to 15, 0 to 7 of these |
//! | FF | `k m - i - - - -` enable the keys |
//!
//! Format 1 is ADPCM of 4 bits, high nibble first. Format 2 is PCM of 8 bits, and format 3 is PCM
//! of 16 bits, high byte first. Addresses are in bytes. The chip makes a frame every 384 clocks. A
//! voice advances (pitch + 1) / 256 samples per frame (for ADPCM without bit 8) and interpolates
//! linearly.
//!
//! We leave out the DSP, interrupts and reading memory on purpose.
//!
//! Source: Yamaha YMZ280B application manual (registers, rates, pan); the ADPCM: Yamaha's Y8950
//! application manual, whose figures it shares; the VGM 1.71 specification.

use super::Rate;
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the YMZ280B in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ymz280b,
    name: "YMZ280B",
    verification: DOCUMENTS,
    ratio: Some(1.7),
    // The core drops one bit, so that two voices at their loudest fit into 16 bits.
    level: Level::new(2.0, 0x98, 2.0),
    voices: &[VoiceGroup::Numbered(8)],
    cost_ns: 50,
    memory_blocks: &[0x86],
    create: Create::ByFactory,
};

const VOICES: usize = 8;

/// The number of units of a voice's position per sample. It is a power of two, because the
/// interpolation divides by it.
const ONE: u32 = 256;

/// The growth of the ADPCM step after a code in 256ths, by the low three bits of the code.
const GROWTH: [i32; 8] = [230, 230, 230, 230, 307, 409, 512, 614];

const STEP_MIN: i32 = 0x7F;
const STEP_MAX: i32 = 0x6000;

/// The state of the ADPCM decoder: the last value and the step size.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    value: i32,
    step: i32,
}

const START: Decoder = Decoder {
    value: 0,
    step: STEP_MIN,
};

impl Decoder {
    fn play(&mut self, code: u8) {
        let size = i32::from(code & 7) * 2 + 1;
        let change = self.step * size / 8;
        let change = if code & 8 != 0 { -change } else { change };
        self.value = (self.value + change).clamp(-32768, 32767);
        self.step = (self.step * GROWTH[usize::from(code & 7)] / 256).clamp(STEP_MIN, STEP_MAX);
    }
}

#[derive(Clone, Copy, Debug)]
struct Voice {
    pitch: u16,
    control: u8,
    level: u8,
    pan: u8,
    /// The addresses of start, loop start, loop end and end.
    marks: [u32; 4],
    plays: bool,
    /// The position of the next sample, in units of the format: 4, 8 or 16 bits.
    at: u32,
    decoder: Decoder,
    /// The state of the decoder at the loop start.
    looped: Decoder,
    /// The sample before the current position.
    from: i32,
    /// The sample after the current position.
    to: i32,
    /// The position between these two samples, for the interpolation.
    between: u32,
}

impl Voice {
    fn format(&self) -> u8 {
        self.control >> 5 & 3
    }

    fn loops(&self) -> bool {
        self.control & 0x10 != 0
    }

    fn start(&mut self) {
        self.plays = self.format() != 0;
        self.at = in_units(self.marks[0], self.format());
        self.decoder = START;
        self.looped = START;
        (self.from, self.to) = (0, 0);
        self.between = ONE;
    }

    /// Returns the next sample, or `None` at the end.
    fn read<const FORMAT: u8>(&mut self, memory: &[u8]) -> Option<i32> {
        let [_, from, to, end] = self.marks.map(|byte| in_units(byte, FORMAT));
        if self.loops() && self.at >= to {
            self.at = from;
            self.decoder = self.looped;
        } else if !self.loops() && self.at >= end {
            return None;
        }
        if self.at == from {
            self.looped = self.decoder;
        }
        let byte = |at: u32| memory.get(at as usize).copied().unwrap_or(0);
        let at = self.at;
        self.at += 1;
        Some(match FORMAT {
            1 => {
                let pair = byte(at >> 1);
                self.decoder
                    .play(if at & 1 == 0 { pair >> 4 } else { pair & 15 });
                self.decoder.value
            }
            2 => i32::from(byte(at) as i8) << 8,
            _ => i32::from(i16::from_be_bytes([byte(2 * at), byte(2 * at + 1)])),
        })
    }

    fn gains(&self) -> [i32; 2] {
        let level = i32::from(self.level);
        let pan = i32::from(self.pan & 15);
        match pan {
            8 => [level; 2],
            0..=7 => [level, level * (pan - 1).max(0) / 7],
            _ => [level * (15 - pan) / 7, level],
        }
    }

    fn pace(&self) -> u32 {
        let pitch = if self.format() == 1 {
            self.pitch & 0xFF
        } else {
            self.pitch
        };
        u32::from(pitch) + 1
    }

    fn add_to(&mut self, out: &mut [[i32; 2]], memory: &[u8]) {
        if !self.plays {
            return;
        }
        match self.format() {
            1 => self.add::<1>(out, memory),
            2 => self.add::<2>(out, memory),
            _ => self.add::<3>(out, memory),
        }
    }

    fn add<const FORMAT: u8>(&mut self, out: &mut [[i32; 2]], memory: &[u8]) {
        let (pace, gains) = (self.pace(), self.gains());
        for frame in out {
            while self.between >= ONE {
                self.between -= ONE;
                self.from = self.to;
                let Some(next) = self.read::<FORMAT>(memory) else {
                    self.plays = false;
                    return;
                };
                self.to = next;
            }
            let sample = self.from + (((self.to - self.from) * self.between as i32) >> 8);
            for side in 0..2 {
                frame[side] += (sample * gains[side]) >> 9;
            }
            self.between += pace;
        }
    }
}

/// Returns an address in units of a format.
fn in_units(byte: u32, format: u8) -> u32 {
    match format {
        1 => byte << 1,
        2 => byte,
        _ => byte >> 1,
    }
}

/// An emulated YMZ280B, which renders native frames.
#[derive(Clone, Debug)]
pub struct Ymz280b {
    clock_hz: u32,
    voices: [Voice; VOICES],
    keys_work: bool,
    memory: Vec<u8>,
}

impl Ymz280b {
    /// Creates a silent chip at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let voice = Voice {
            pitch: 0,
            control: 0,
            level: 0,
            pan: 8,
            marks: [0; 4],
            plays: false,
            at: 0,
            decoder: START,
            looped: START,
            from: 0,
            to: 0,
            between: ONE,
        };
        Ymz280b {
            clock_hz,
            voices: [voice; VOICES],
            keys_work: false,
            memory: Vec::new(),
        }
    }

    /// Returns the number of native frames per second. For example, it is 44,100 at 16.9344 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 384,
        }
    }

    /// Returns the memory that contains the samples.
    pub fn memory_mut(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    /// Writes a register. `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        let voice = &mut self.voices[usize::from(reg >> 2 & 7)];
        match (reg, reg & 3) {
            (0x00..=0x1F, 0) => voice.pitch = voice.pitch & 0x100 | u16::from(value),
            (0x00..=0x1F, 1) => {
                let was = voice.control;
                voice.control = value;
                voice.pitch = voice.pitch & 0xFF | u16::from(value & 1) << 8;
                match (was & 0x80 != 0, value & 0x80 != 0) {
                    (false, true) if self.keys_work => voice.start(),
                    (true, false) => voice.plays = false,
                    _ => {}
                }
            }
            (0x00..=0x1F, 2) => voice.level = value,
            (0x00..=0x1F, _) => voice.pan = value,
            (0x20..=0x7F, which) => {
                let place = 8 * (3 - u32::from(reg >> 5));
                let mark = &mut voice.marks[usize::from(which)];
                *mark = *mark & !(0xFF << place) | u32::from(value) << place;
            }
            (0xFF, _) => {
                let works = value & 0x80 != 0;
                for voice in &mut self.voices {
                    if !works {
                        voice.plays = false;
                    } else if !self.keys_work && voice.control & 0x90 == 0x90 {
                        // When keys are enabled again, a looping voice whose key is pressed
                        // continues.
                        voice.plays = voice.format() != 0;
                    }
                }
                self.keys_work = works;
            }
            _ => {}
        }
    }

    /// Overwrites `out` with the next frames. A voice at its loudest uses half of the 16-bit range.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        for voice in &mut self.voices {
            voice.add_to(out, &self.memory);
        }
    }
}
