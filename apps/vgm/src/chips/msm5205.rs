//! OKI's MSM5205 and MSM6585: an ADPCM voice whose codes the CPU writes one by one.
//!
//! The registers as VGM files write them (command 32: register in bits 4 to 6, value in 0 to 3):
//!
//! | register | |
//! |---|---|
//! | 0 | reset: silence, and the smallest step |
//! | 1 | a code of 4 bits, or of 3 |
//! | 2 | the clock that plays codes if no divider does |
//! | 4 | pins S1 (bit 0) and S2: the divider |
//!
//! | S2 S1 | 0 0 | 0 1 | 1 0 | 1 1 |
//! |---|---|---|---|---|
//! | MSM5205 | 96 | 64 | 48 | by register 2 |
//! | MSM6585 | 160 | 80 | 40 | 20 |
//!
//! The codes are those of OKI's [ADPCM](super::oki_adpcm). Up to seven codes are queued, because
//! VGM files place writes on a grid that differs from the chip's clock. We leave out the 10-bit
//! converter on purpose, and output all 12 bits.
//!
//! Source: OKI MSM5205 data sheet (dividers, pins, block diagram); the registers: libvgm's of the
//! same name, in the format's 1.72.

use super::Rate;
use super::oki_adpcm::{Codes, Oki};
use crate::chips::info::{ChipInfo, Create, DOCUMENTS, Level, VoiceGroup};
use crate::format::ChipId;

/// The entry of the MSM5205 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Msm5205,
    name: "MSM5205, MSM6585",
    verification: DOCUMENTS,
    ratio: Some(2.2),
    // With this scale a tone is as loud as in libvgm.
    level: Level::new(1.0, 0x100, 2.0),
    voices: &[VoiceGroup::Numbered(1)],
    cost_ns: 20,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The largest number of queued codes. Further codes are dropped.
const WAITING_MAX: u32 = 7;

/// The MSM5205 or MSM6585.
///
/// ```
/// use creel_vgm::chips::msm5205::Msm5205;
///
/// let mut chip = Msm5205::new(384_000, 0b110, false); // divider 48, 4 bits
/// assert_eq!(chip.rate().hz(), 8_000.0);
/// chip.write(0, 1, 7);
/// let mut frames = [[0; 2]; 2];
/// chip.render(&mut frames);
/// // 16 + 16 / 2 + 16 / 4 + 16 / 8, of 12 bits.
/// assert_eq!(frames, [[30 << 4; 2]; 2]);
/// ```
#[derive(Clone, Debug)]
pub struct Msm5205 {
    clock_hz: u32,
    is_msm6585: bool,
    pins: u8,
    is_3_bit: bool,
    reset: bool,
    vclk: bool,
    /// The number of clocks of register 2 that have not been executed yet.
    ticked: u32,
    waiting: Codes,
    adpcm: Oki,
}

impl Msm5205 {
    /// Creates a chip at `clock_hz`.
    ///
    /// `flags` is byte 0xD7 of the VGM header. Bits 0 and 1 are the pins S1 and S2, and bit 2
    /// selects codes of 4 bits instead of 3.
    pub fn new(clock_hz: u32, flags: u8, is_msm6585: bool) -> Self {
        Msm5205 {
            clock_hz,
            is_msm6585,
            pins: flags & 3,
            is_3_bit: flags & 4 == 0,
            reset: false,
            vclk: false,
            ticked: 0,
            waiting: Codes::default(),
            adpcm: Oki::default(),
        }
    }

    fn is_slave(&self) -> bool {
        self.pins == 3 && !self.is_msm6585
    }

    /// Returns the number of codes per second, which writes to register 4 change.
    ///
    /// Without a divider, we use the rate of the smallest divider.
    pub fn rate(&self) -> Rate {
        let dividers = if self.is_msm6585 {
            [160, 80, 40, 20]
        } else {
            [96, 64, 48, 48]
        };
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: dividers[usize::from(self.pins)],
        }
    }

    /// Writes a register. `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        match reg {
            0 => {
                let reset = value & 1 != 0;
                if reset != self.reset {
                    self.adpcm = Oki::default();
                }
                self.reset = reset;
                if reset {
                    self.waiting = Codes::default();
                    self.ticked = 0;
                }
            }
            1 if self.waiting.len() < WAITING_MAX => self.waiting.push(value),
            2 => {
                let vclk = value & 1 != 0;
                self.ticked += u32::from(vclk && !self.vclk);
                self.vclk = vclk;
            }
            4 => self.pins = value & 3,
            _ => {}
        }
    }

    /// Overwrites `out` with the next frames, each side from -32768 to 32767.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        for frame in out {
            let mut codes = 1;
            if self.is_slave() {
                codes = self.ticked;
                self.ticked = 0;
            }
            for _ in 0..codes {
                if let Some(code) = self.waiting.pop() {
                    self.play(code);
                }
            }
            *frame = [self.adpcm.value() << 4; 2];
        }
    }

    fn play(&mut self, code: u8) {
        if self.reset {
            return;
        }
        let code = if self.is_3_bit { code << 1 } else { code };
        self.adpcm.step(code);
    }
}
