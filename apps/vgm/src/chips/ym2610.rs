//! The YM2610 and YM2610B, or OPNB: FM, ADPCM-A and ADPCM-B.
//!
//! | port, register | |
//! |---|---|
//! | 0, 00–0D | SSG: a separate part, see [`ssg`](super::ssg) |
//! | 0, 10–1B | ADPCM-B, see [`adpcm_b`](super::adpcm_b) |
//! | 0, 1C | flags |
//! | 0, 20–B6 | FM channels 1–3, see [`opn`](super::fm::opn) |
//! | 1, 00–2F | ADPCM-A, see [`adpcm_a`](super::adpcm_a) |
//! | 1, 30–B6 | FM channels 4–6 |
//!
//! The YM2610 lacks FM channels 1 and 4. An operator loses its lowest bit, and the sum is limited
//! to 16 bits.
//!
//! We leave out the SSG on purpose, because it renders separately from the rest. We also leave out
//! the end flags.
//!
//! Source: published YM2610 register descriptions and the YM2608 application manual; behaviour
//! follows ymfm (BSD-3-Clause, Aaron Giles).

use super::Rate;
use super::adpcm_a::AdpcmA;
use super::adpcm_b::AdpcmB;
use super::fm::opn::{ALL, Opn};
use super::rom::Rom;
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YM2610 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2610,
    name: "YM2610, YM2610B",
    verification: YMFM,
    ratio: Some(3.6),
    // The core drops a bit, so that the sum fits into its converter.
    level: Level::new(2.0, 0x80, 1.0),
    voices: &[
        VoiceGroup::Counted("FM", 6),
        VoiceGroup::Counted("SSG", 3),
        VoiceGroup::Counted("ADPCM-A", 6),
        VoiceGroup::Named(&["ADPCM-B"]),
    ],
    cost_ns: 115,
    memory_blocks: &[0x82, 0x83],
    create: Create::ByFactory,
};

/// The number of clocks per native frame.
const DIVIDER: u64 = 144;

/// The number of clocks per tick of the SSG.
const SSG_DIVIDER: u64 = 32;

/// The YM2610 or YM2610B without its SSG.
///
/// ```
/// use creel_vgm::chips::rom::Rom;
/// use creel_vgm::chips::ym2610::Ym2610;
///
/// let mut chip = Ym2610::new(8_000_000);
/// *chip.adpcm_a_mut() = Rom::of(vec![0x77; 512]);
/// for (reg, value) in [(0x01, 0x3f), (0x20, 1), (0x00, 1)] {
///     chip.write(1, reg, value); // the first ADPCM-A voice
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 1000));
/// ```
#[derive(Clone)]
pub struct Ym2610 {
    clock_hz: u32,
    present: u8,
    /// The FM channels that are not muted.
    channel_mask: u8,
    fm: Opn<6>,
    adpcm_a: AdpcmA,
    adpcm_b: AdpcmB,
}

impl Ym2610 {
    /// Creates a YM2610 in its state after reset, with four FM channels.
    pub fn new(clock_hz: u32) -> Self {
        Self::with_channels(clock_hz, 0x36)
    }

    /// Creates a YM2610B in its state after reset, with six FM channels.
    pub fn new_b(clock_hz: u32) -> Self {
        Self::with_channels(clock_hz, ALL)
    }

    fn with_channels(clock_hz: u32, present: u8) -> Self {
        Self {
            clock_hz,
            present,
            channel_mask: ALL,
            fm: Opn::new(present),
            adpcm_a: AdpcmA::opnb(),
            adpcm_b: AdpcmB::new(Some(8), 1),
        }
    }

    /// Returns the native rate, which is a 144th of the clock.
    ///
    /// For example, it is 55,556 Hz at 8 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    /// Returns the number of ticks per second of the chip's SSG.
    pub fn ssg_rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: SSG_DIVIDER,
        }
    }

    /// Returns the memory of ADPCM-A.
    pub fn adpcm_a_mut(&mut self) -> &mut Rom {
        self.adpcm_a.rom_mut()
    }

    /// Returns the memory of ADPCM-B.
    pub fn adpcm_b_mut(&mut self) -> &mut Rom {
        self.adpcm_b.rom_mut()
    }

    /// Writes a register between two frames. Writes to the SSG are ignored.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match (port & 1, reg) {
            (0, 0x00..=0x0f | 0x1c) => {}
            // ADPCM-B of this chip always plays from its memory and never records.
            (0, 0x10) => self.adpcm_b.write(0, value & !0x40 | 0x20),
            (0, 0x11..=0x1b) => self.adpcm_b.write(reg & 15, value),
            (1, 0x00..=0x2f) => self.adpcm_a.write(reg, value),
            _ => self.fm.write(port, reg, value),
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice.
    ///
    /// The bits are six channels, three voices of the SSG, six of ADPCM-A and one of ADPCM-B.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.channel_mask = ALL & voices as u8;
        self.adpcm_a.set_voice_mask((voices >> 9) as u8);
        self.adpcm_b.set_enabled(voices >> 15 & 1 != 0);
    }

    /// Overwrites `out` with the next native frames, left and right, with 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        let channels = self.present & self.channel_mask;
        let adpcm = (&mut self.adpcm_a, &mut self.adpcm_b);
        self.fm.render_with_adpcm(channels, adpcm, out);
    }
}
