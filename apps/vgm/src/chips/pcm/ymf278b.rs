//! The wave half of the YMF278B (OPL4): 24 wave memory voices. The FM half is a YMF262.
//!
//! | register of port 2 | bits | |
//! |---|---|---|
//! | 02 | `---hhh--` | address of the headers of sounds 384 and up, in units of 512 KiB |
//! | 03–05, 06 | | memory address, high byte first; a byte to store there |
//! | 08 + v | `ssssssss` | sound, low bits: loads its header |
//! | 20 + v | `fffffffs` | pitch, low bits; sound, high bit |
//! | 38 + v | `oooorfff` | octave; slow decay below −18 dB; pitch, high bits |
//! | 50 + v | `lllllllj` | level; immediately |
//! | 68 + v | `kdx-pppp` | key, damps, resets the LFO; pan |
//! | 80 + v | `--lllvvv` | LFO speed, vibrato |
//! | 98 + v | | attack, decay 1 |
//! | B0 + v | | decay level, decay 2 |
//! | C8 + v | | key scaling of rates, release |
//! | E0 + v | `-----ttt` | tremolo |
//! | F8 | `--rrrlll` | attenuation of the FM half, see [`Ymf262`](super::super::ymf262::Ymf262) |
//! | F9 | `--rrrlll` | attenuation of the waves, in 3 dB; 7 is silence |
//!
//! See [`awm`](super::awm) for the voices themselves. The memory is a ROM, and from 20 0000 on a
//! RAM.
//!
//! We leave out the status on purpose. We also ignore that register 05 of port 1 must enable this
//! half.
//!
//! Source: Yamaha YMF278B application manual; VGM specification 1.71 (header 60, command D0).

use super::super::Rate;
use super::super::rom::Rom;
use super::awm::Voices;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, TONES, VoiceGroup};
use crate::format::ChipId;

/// The entry of the YMF278B in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ymf278b,
    name: "YMF278B",
    verification: TONES,
    ratio: Some(3.0),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(0.707, 0x100, 1.0),
    voices: &[
        VoiceGroup::Counted("FM", 18),
        VoiceGroup::Named(&DRUM_VOICES),
        VoiceGroup::Counted("wave", 24),
    ],
    cost_ns: 120,
    memory_blocks: &[0x84, 0x87],
    create: Create::Samples(|_, clock_hz| Box::new(Ymf278b::new(clock_hz))),
};

const VOICES: usize = 24;

/// The number of clocks per frame.
const DIVIDER: u64 = 768;

/// The address at which the RAM of blocks begins.
const RAM: u32 = 0x20_0000;
const ADDRESS_MASK: u32 = 0x3F_FFFF;

/// Returns the clock at which a YMF262 plays like the FM half. A frame takes 288 clocks there and
/// 684 here.
pub fn fm_clock_hz(clock_hz: u32) -> u32 {
    (u64::from(clock_hz) * 288 / 684) as u32
}

/// Returns the volumes left and right of one half, in 256ths, for a value of its mix register.
pub fn mix(value: u8) -> [i32; 2] {
    [value & 7, value >> 3 & 7].map(|places| match places {
        7 => 0,
        places => (256.0 * libm::exp2(-f64::from(places) / 2.0)) as i32,
    })
}

/// The wave table half of the YMF278B (OPL4). The FM half is a YMF262.
#[derive(Clone, Debug)]
pub struct Ymf278b {
    clock_hz: u32,
    heads: u32,
    address: u32,
    voices: Voices<VOICES>,
    /// The volumes left and right, in 256ths.
    mix: [i32; 2],
    rom: Rom,
}

impl Ymf278b {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            heads: 0,
            address: 0,
            voices: Voices::new(),
            mix: [256; 2],
            rom: Rom::default(),
        }
    }

    fn set(&mut self, group: u8, number: usize, value: u8) {
        let voice = self.voices.voice(number);
        let wide = u32::from(value);
        match group {
            0 => {
                let heads = self.heads;
                let head = |sound: u32| match sound {
                    384.. if heads != 0 => heads + (sound - 384) * 12,
                    _ => sound * 12,
                };
                let ways = (head, |start: u32| start & ADDRESS_MASK);
                self.voices.choose(number, value, self.rom.read(), ways);
            }
            1 => {
                voice.number = voice.number & 0x380 | wide >> 1;
                self.voices.choose_high(number, value);
            }
            2 => {
                voice.number = voice.number & 0x07F | (wide & 7) << 7;
                // Octave 1 plays one sample per frame.
                voice.rate_octave = i32::from(value as i8 >> 4);
                voice.octave = voice.rate_octave - 1;
                voice.rings = value & 8 != 0;
            }
            3 => self.voices.set_level(number, value),
            4 => {
                voice.pan = value & 15;
                voice.damped = value & 0x40 != 0;
                let key = value & 0x80 != 0;
                // Writing a pressed key again does not restart the voice.
                if key != self.voices.key(number) {
                    self.voices.set_key(number, key, self.rom.read());
                }
            }
            5 => voice.lfo = value,
            6..=8 => voice.rates[usize::from(group - 6)] = value,
            _ => voice.tremolo = value,
        }
    }
}

impl PcmChip for Ymf278b {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let byte = value as u8;
        match reg as u8 {
            0x02 => self.heads = u32::from(byte >> 2 & 7) << 19,
            reg @ 0x03..=0x05 => {
                let shift = 8 * u32::from(5 - reg);
                self.address = self.address & !(0xFF << shift) | u32::from(byte) << shift;
            }
            0x06 => {
                self.rom.write((self.address & ADDRESS_MASK) as usize, byte);
                self.address = self.address.wrapping_add(1);
            }
            reg @ 0x08..=0xF7 => {
                let (group, number) = ((reg - 8) / 24, (reg - 8) % 24);
                self.set(group, usize::from(number), byte);
            }
            0xF9 => self.mix = mix(byte),
            _ => {}
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        let rate_hz = u64::from(self.clock_hz) / DIVIDER;
        self.voices.render(self.rom.read(), rate_hz, out);
        for frame in out.iter_mut() {
            frame[0] = (frame[0] * self.mix[0]) >> 10;
            frame[1] = (frame[1] * self.mix[1]) >> 10;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        matches!(kind, 0x84 | 0x87).then_some(&mut self.rom)
    }

    fn rom_start(&self, kind: u8) -> usize {
        if kind == 0x87 { RAM as usize } else { 0 }
    }

    fn lane(&self) -> usize {
        1
    }
}
