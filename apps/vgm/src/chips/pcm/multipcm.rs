//! Sega's MultiPCM (315-5560, a Yamaha YMW258-F): 28 wave memory voices.
//!
//! The CPU writes three bytes (command B5): 0 is the value for the selected register of the
//! selected voice, 1 selects the voice, and 2 the register. Command C3 selects banks.
//!
//! | register | |
//! |---|---|
//! | 0 | pan in the high four bits |
//! | 1 | sound, low eight bits |
//! | 2 | sound, bit 8; pitch, low six bits above |
//! | 3 | octave and one in the high four bits; pitch, high four bits |
//! | 4 | bit 7 key |
//! | 5 | level in the high seven bits; bit 0 immediately |
//! | 6 | LFO speed and vibrato |
//! | 7 | tremolo |
//!
//! Voices have the numbers 0–6, 8–14, 16–22 and 24–30. See [`awm`](super::awm) for the voices
//! themselves.
//!
//! Source: the registers as MAME's multipcm (BSD-3-Clause, Miguel Angel Horna) describes them; VGM
//! specification 1.71 (header 88, commands B5, C3).

use super::super::Rate;
use super::super::rom::Rom;
use super::awm::Voices;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the MultiPCM in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::MultiPcm,
    name: "MultiPCM",
    verification: TONES,
    ratio: Some(1.8),
    level: Level::new(4.0, 0x40, 4.0),
    voices: &[VoiceGroup::Numbered(28)],
    cost_ns: 80,
    memory_blocks: &[0x89],
    create: Create::Samples(|_, clock_hz| Box::new(MultiPcm::new(clock_hz))),
};

const VOICES: usize = 28;

/// The number of clocks per frame.
const DIVIDER: u64 = 180;

/// The start address from which sounds are banked.
const BANKED: u32 = 0x10_0000;

/// An emulated MultiPCM, which renders native frames.
#[derive(Clone, Debug)]
pub struct MultiPcm {
    clock_hz: u32,
    voice: Option<usize>,
    register: u8,
    voices: Voices<VOICES>,
    /// The bank of voices with a pan of 0 to 7 (from the middle to the right), and the bank of
    /// voices with a pan of 8 to 15 (silent, or on the left).
    banks: [u32; 2],
    rom: Rom,
}

impl MultiPcm {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            voice: None,
            register: 0,
            voices: Voices::new(),
            banks: [0; 2],
            rom: Rom::default(),
        }
    }

    fn set(&mut self, number: usize, value: u8) {
        let voice = self.voices.voice(number);
        let wide = u32::from(value);
        match self.register {
            0 => voice.pan = value >> 4,
            1 => {
                let bank = self.banks[usize::from(voice.pan & 8 != 0)];
                let place = |start: u32| {
                    if start >= BANKED {
                        bank | start & (BANKED - 1)
                    } else {
                        start
                    }
                };
                let ways = (|sound: u32| sound * 12, place);
                self.voices.choose(number, value, self.rom.read(), ways);
            }
            2 => {
                voice.number = voice.number & 0x3C0 | wide >> 2;
                self.voices.choose_high(number, value);
            }
            3 => {
                voice.number = voice.number & 0x03F | (wide & 15) << 6;
                voice.octave = i32::from((value as i8).wrapping_sub(0x10) >> 4);
                voice.rate_octave = voice.octave;
            }
            4 => self
                .voices
                .set_key(number, value & 0x80 != 0, self.rom.read()),
            5 => self.voices.set_level(number, value),
            6 => voice.lfo = value,
            _ => voice.tremolo = value,
        }
    }
}

impl PcmChip for MultiPcm {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    /// A write to port 1 selects a bank. Bit 0 of the register number selects it for voices with a
    /// pan of 0 to 7, and bit 1 for voices with a pan of 8 to 15.
    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let byte = value as u8;
        match (port, reg) {
            (0, 0) => {
                if let Some(voice) = self.voice {
                    self.set(voice, byte);
                }
            }
            (0, 1) => {
                let number = byte & 31;
                self.voice = (number & 7 != 7).then(|| usize::from(number - number / 8));
            }
            (0, 2) => self.register = byte.min(7),
            (1, _) => {
                for (side, bank) in self.banks.iter_mut().enumerate() {
                    if reg >> side & 1 != 0 {
                        *bank = u32::from(value) << 16;
                    }
                }
            }
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        let rate_hz = u64::from(self.clock_hz) / DIVIDER;
        self.voices.render(self.rom.read(), rate_hz, out);
        for value in out.as_flattened_mut() {
            *value >>= 2;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x89).then_some(&mut self.rom)
    }
}
