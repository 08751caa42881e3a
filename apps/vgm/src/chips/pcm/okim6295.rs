//! The OKI MSM6295: four ADPCM voices that play numbered phrases.
//!
//! The registers as VGM files write them (command B8):
//!
//! | register | |
//! |---|---|
//! | 00 | command, see below |
//! | 08–0B | clock in Hz, low byte first; takes effect with the last byte |
//! | 0C | pin 7: 0 for a frame every 165 clocks, otherwise 132 |
//! | 0E | bank circuit (NMK112): bit 7 also banks the phrase table; 0 is none |
//! | 0F | bank of the whole 256 KiB |
//! | 10–13 | banks of the four 64 KiB of the bank circuit |
//!
//! | command | |
//! |---|---|
//! | `1ppppppp`, then `vvvvaaaa` | plays phrase p on the voices of v, attenuated by a |
//! | `0vvvv---` | stops the voices of v |
//!
//! A phrase has an entry of eight bytes at 8 p. It contains the first and last address of 18 bits,
//! high byte first. A voice that plays ignores other phrases. Attenuation has the values 0 to 8, in
//! steps of 3 dB. Higher values are silent. The codes are those of the MSM6258, high nibble first,
//! and the sum is exact.
//!
//! We leave out the 12-bit converter on purpose, so the sum of the voices keeps its bits.
//!
//! Source: OKI MSM6295 data sheet (commands, phrase table, sampling rates, attenuation); the step
//! sizes: Dialogic ADPCM Algorithm, appendix A; the bank circuit as MAME's nmk112 (BSD-3-Clause)
//! describes it; VGM specification 1.71, command B8.

use super::super::Rate;
use super::super::oki_adpcm::Oki;
use super::super::rom::{Reader, Rom};
use super::PcmChip;
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the OKIM6295 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Okim6295,
    name: "OKIM6295",
    verification: TONES,
    ratio: Some(2.3),
    // The scale is the same as that of the SegaPCM. With it, four voices fit into 16 bits.
    level: Level::new(4.0, 0x100, 2.0),
    voices: &[VoiceGroup::Numbered(4)],
    cost_ns: 15,
    memory_blocks: &[0x8B],
    create: Create::Samples(|header, clock_hz| {
        Box::new(Okim6295::new(clock_hz, header.is_variant(ChipId::Okim6295)))
    }),
};

const VOICES: usize = 4;

/// The volumes by attenuation. 32 is full volume.
const VOLUMES: [i32; 16] = [32, 22, 16, 11, 8, 6, 4, 3, 2, 0, 0, 0, 0, 0, 0, 0];

/// The 18 bits of an address.
const ADDRESS_MASK: u32 = 0x3_FFFF;

#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    /// The number of codes of the phrase that have not been played yet.
    left: u32,
    /// The position of the next code. A byte has two codes.
    at: u32,
    volume: i32,
    oki: Oki,
}

/// The bank circuit, which maps addresses to the whole memory.
#[derive(Clone, Copy, Debug, Default)]
struct Banks {
    whole: u32,
    circuit: u8,
    quarters: [u8; 4],
}

impl Banks {
    fn place(&self, address: u32) -> u32 {
        if self.circuit == 0 {
            return self.whole << 18 | address;
        }
        let quarter = if address < 0x400 && self.circuit & 0x80 != 0 {
            address >> 8
        } else {
            address >> 16
        };
        u32::from(self.quarters[quarter as usize & 3]) << 16 | address & 0xFFFF
    }
}

/// The MSM6295.
///
/// ```
/// use creel_vgm::chips::pcm::PcmChip;
/// use creel_vgm::chips::pcm::okim6295::Okim6295;
/// use creel_vgm::chips::rom::Rom;
///
/// // Phrase 1: addresses 10 to 13.
/// let mut memory = vec![0; 8];
/// memory.extend([0, 0, 0x10, 0, 0, 0x13, 0, 0, 0x77, 0x77, 0x77, 0x77]);
/// let mut chip = Okim6295::new(1_056_000, true);
/// *chip.rom(0x8B).unwrap() = Rom::of(memory);
/// assert_eq!(chip.rate().hz(), 8_000.0);
/// chip.write(0, 0, 0x81);
/// chip.write(0, 0, 0x10);
/// let mut frames = [[0; 2]; 2];
/// chip.render(&mut frames);
/// assert_eq!(frames, [[28 * 4, 28 * 4], [91 * 4, 91 * 4]]);
/// ```
#[derive(Clone, Debug)]
pub struct Okim6295 {
    clock_hz: u32,
    clock_bytes: [u8; 4],
    pin_7: bool,
    banks: Banks,
    /// The phrase of a command whose second byte has not been written yet.
    phrase: Option<u8>,
    voices: [Voice; VOICES],
    rom: Rom,
}

impl Okim6295 {
    /// Creates a chip at `clock_hz`. `pin_7` is the state of its pin 7.
    pub fn new(clock_hz: u32, pin_7: bool) -> Self {
        Self {
            clock_hz,
            clock_bytes: clock_hz.to_le_bytes(),
            pin_7,
            banks: Banks::default(),
            phrase: None,
            voices: Default::default(),
            rom: Rom::default(),
        }
    }

    fn command(&mut self, value: u8) {
        if let Some(phrase) = self.phrase.take() {
            self.start(phrase, value);
        } else if value & 0x80 != 0 {
            self.phrase = Some(value & 0x7F);
        } else {
            for (number, voice) in self.voices.iter_mut().enumerate() {
                if value >> (3 + number) & 1 != 0 {
                    voice.left = 0;
                }
            }
        }
    }

    fn start(&mut self, phrase: u8, value: u8) {
        let (banks, rom) = (self.banks, self.rom.read());
        let address = |at: u32| {
            let byte = |at| u32::from(rom.byte(banks.place(at)));
            (byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2)) & ADDRESS_MASK
        };
        let entry = u32::from(phrase) * 8;
        let (first, last) = (address(entry), address(entry + 3));
        if first >= last {
            return;
        }
        for (number, voice) in self.voices.iter_mut().enumerate() {
            if value >> (4 + number) & 1 != 0 && voice.left == 0 {
                *voice = Voice {
                    left: 2 * (last - first + 1),
                    at: 2 * first,
                    volume: VOLUMES[usize::from(value & 15)],
                    oki: Oki::from_below(),
                };
            }
        }
    }
}

impl Voice {
    fn add(&mut self, rom: Reader<'_>, banks: Banks, out: &mut [[i32; 2]]) {
        let codes = out.len().min(self.left as usize);
        for frame in &mut out[..codes] {
            let byte = rom.byte(banks.place(self.at >> 1 & ADDRESS_MASK));
            let code = byte >> (4 * (!self.at & 1)) & 15;
            frame[0] += self.oki.step(code) * self.volume;
            self.at += 1;
        }
        self.left -= codes as u32;
    }
}

impl PcmChip for Okim6295 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: if self.pin_7 { 132 } else { 165 },
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let value = value as u8;
        match reg {
            0x00 => self.command(value),
            0x08..=0x0B => {
                self.clock_bytes[usize::from(reg - 8)] = value;
                let clock_hz = u32::from_le_bytes(self.clock_bytes) & 0x7FFF_FFFF;
                if reg == 0x0B && clock_hz != 0 {
                    self.clock_hz = clock_hz;
                }
            }
            0x0C => self.pin_7 = value != 0,
            0x0E => self.banks.circuit = value,
            0x0F => self.banks.whole = u32::from(value),
            0x10..=0x13 => self.banks.quarters[usize::from(reg & 3)] = value,
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        if self.voices.iter().all(|voice| voice.left == 0) {
            return;
        }
        let (banks, rom) = (self.banks, self.rom.read());
        for voice in &mut self.voices {
            voice.add(rom, banks, out);
        }
        for frame in out {
            // The sum has four voices of 12 bits and 5 bits of volume.
            *frame = [frame[0] >> 3; 2];
        }
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x8B).then_some(&mut self.rom)
    }
}
