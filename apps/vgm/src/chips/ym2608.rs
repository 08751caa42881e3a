//! The YM2608, or OPNA: FM, rhythm (ADPCM-A) and ADPCM-B.
//!
//! | port, register | |
//! |---|---|
//! | 0, 00–0F | SSG: a separate part, see [`ssg`](super::ssg) |
//! | 0, 10–1D | rhythm, see [`adpcm_a`](super::adpcm_a); start and end are fixed |
//! | 0, 20–B6 | FM channels 1–3, see [`opn`](super::fm::opn) |
//! | 0, 29 | `x-------` six FM channels instead of three |
//! | 0, 2D, 2E, 2F | prescaler 6, 3 (only from 6), 2; the value does not matter |
//! | 1, 00–0F | ADPCM-B, see [`adpcm_b`](super::adpcm_b) |
//! | 1, 10 | flags |
//! | 1, 30–B6 | FM channels 4–6 |
//!
//! The samples of the rhythm are in a ROM of 8 KiB inside the chip, which is not part of this
//! project. We play songs with our own [`drums`](super::drums). Without a ROM the rhythm is silent.
//!
//! We leave out the SSG on purpose, because it renders separately from the rest. We also leave out
//! flags and interrupts.
//!
//! Source: the YM2608 application manual; behaviour that it leaves open follows ymfm (BSD-3-Clause,
//! Aaron Giles).

use super::Rate;
use super::adpcm_a::AdpcmA;
use super::adpcm_b::AdpcmB;
use super::fm::opn::{ALL, Opn, Prescaler};
use super::rom::Rom;
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the YM2608 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2608,
    name: "YM2608",
    verification: "bit-exact comparison with ymfm on random streams and songs; the samples of its \
        rhythm are replaced",
    ratio: Some(4.2),
    // The core drops a bit, so that the sum fits into its converter.
    level: Level::new(2.0, 0x80, 1.0),
    voices: &[
        VoiceGroup::Counted("FM", 6),
        VoiceGroup::Counted("SSG", 3),
        VoiceGroup::Counted("drum", 6),
        VoiceGroup::Named(&["ADPCM-B"]),
    ],
    cost_ns: 125,
    memory_blocks: &[0x81],
    create: Create::ByFactory,
};

/// The number of clocks per native frame for each step of the prescaler.
const DIVIDER: u64 = 24;

/// The usual size of the ADPCM-B memory.
const MEMORY_BYTES: usize = 256 << 10;

/// The FM channels that are audible unless register 29 enables all.
const THREE_CHANNELS: u8 = 0b111;

/// The YM2608 without its SSG.
///
/// ```
/// use creel_vgm::chips::ym2608::Ym2608;
///
/// let mut chip = Ym2608::new(7_987_200);
/// assert_eq!(chip.rate().hz().round(), 55_467.0);
/// chip.write(0, 0x2f, 0); // prescaler 2
/// assert_eq!(chip.rate().hz(), 166_400.0);
/// ```
#[derive(Clone)]
pub struct Ym2608 {
    clock_hz: u32,
    audible: u8,
    /// The FM channels that are not muted.
    channel_mask: u8,
    prescaler: Prescaler,
    fm: Opn<6>,
    rhythm: AdpcmA,
    adpcm_b: AdpcmB,
}

impl Ym2608 {
    /// Creates a YM2608 in its state after reset, with 256 KiB for ADPCM-B.
    pub fn new(clock_hz: u32) -> Self {
        let mut adpcm_b = AdpcmB::new(None, 1);
        adpcm_b.ram_mut().resize(MEMORY_BYTES, 0);
        let prescaler = Prescaler::default();
        let mut fm = Opn::new(ALL);
        fm.set_prescaler(prescaler);
        Self {
            clock_hz,
            audible: THREE_CHANNELS,
            channel_mask: ALL,
            prescaler,
            fm,
            rhythm: AdpcmA::opna(),
            adpcm_b,
        }
    }

    /// Returns the native rate, which is a 144th of the clock, or a 72nd or a 48th with another
    /// prescaler.
    pub fn rate(&self) -> Rate {
        let seconds = DIVIDER * u64::from(self.prescaler.fm());
        Rate {
            frames: u64::from(self.clock_hz),
            seconds,
        }
    }

    /// Returns the number of ticks per second of the chip's SSG, which also depends on the
    /// prescaler.
    pub fn ssg_rate(&self) -> Rate {
        let seconds = 8 * u64::from(self.prescaler.ssg());
        Rate {
            frames: u64::from(self.clock_hz),
            seconds,
        }
    }

    /// Returns the ROM of the rhythm.
    pub fn rhythm_rom_mut(&mut self) -> &mut Rom {
        self.rhythm.rom_mut()
    }

    /// Returns the memory of ADPCM-B.
    pub fn adpcm_b_mut(&mut self) -> &mut Vec<u8> {
        self.adpcm_b.ram_mut()
    }

    /// Writes a register between two frames. Writes to the SSG are ignored.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match (port & 1, reg) {
            (0, 0x00..=0x0f) | (1, 0x10) => {}
            (0, 0x10..=0x1f) => self.rhythm.write(reg & 15, value),
            (0, 0x29) => {
                self.audible = if value & 0x80 != 0 {
                    ALL
                } else {
                    THREE_CHANNELS
                }
            }
            (1, 0x00..=0x0f) => self.adpcm_b.write(reg, value),
            _ => {
                self.prescaler.select(port, reg);
                self.fm.set_prescaler(self.prescaler);
                self.fm.write(port, reg, value);
            }
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice.
    ///
    /// The bits are six channels, three voices of the SSG, six of ADPCM-A and one of ADPCM-B.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.channel_mask = ALL & voices as u8;
        self.rhythm.set_voice_mask((voices >> 9) as u8);
        self.adpcm_b.set_enabled(voices >> 15 & 1 != 0);
    }

    /// Overwrites `out` with the next native frames, left and right, with 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        let channels = self.audible & self.channel_mask;
        let adpcm = (&mut self.rhythm, &mut self.adpcm_b);
        self.fm.render_with_adpcm(channels, adpcm, out);
    }
}
