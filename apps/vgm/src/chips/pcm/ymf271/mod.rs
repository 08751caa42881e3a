//! Yamaha's YMF271 (OPX): twelve groups of four slots. Each slot is an FM operator or a sample
//! voice.
//!
//! A write has a port, a register and a value. Ports 0 to 3 are the slots 1 to 4 of the groups. The
//! low four bits of the register are the group (0–2, 4–6, 8–A, C–E), and the high four bits have
//! this meaning:
//!
//! | register | bits | |
//! |---|---|---|
//! | 0x | `-------k` | key |
//! | 1x | `ffffffff` | LFO speed |
//! | 2x | `aappp-ww` | tremolo, vibrato, LFO wave |
//! | 3x | `-dddmmmm` | detune, multiple |
//! | 4x | `-lllllll` | total level, in 0.75 dB |
//! | 5x | `kkkaaaaa` | key scaling, attack |
//! | 6x, 7x | `---rrrrr` | decay 1, decay 2 |
//! | 8x | `llllrrrr` | the level at which decay 2 begins, in 6 dB; release |
//! | 9x | `ffffffff` | number, low 8 bits; applies the block and the high bits |
//! | Ax | `bbbbffff` | block, −8 to 7; number, high 4 bits |
//! | Bx | `-fff-www` | feedback or modulation depth; wave (7 is samples) |
//! | Cx | `----aaaa` | algorithm |
//! | Dx | `llllrrrr` | level of outputs 1 and 2 |
//! | Ex | `llllrrrr` | level of outputs 3 and 4 |
//!
//! Port 4 sets the samples of slots. Here the low four bits of the register select a single slot.
//! The values 0, 1 and 2 are slot 1 of groups 0, 4 and 8. The values 4, 5 and 6 are slot 2 of the
//! same groups, 8 to A are slot 3, and C to E are slot 4. The high four bits have this meaning:
//!
//! | register | |
//! |---|---|
//! | 0x–2x, 3x–5x, 6x–8x | start, end and loop, low byte first; the last has 7 bits, and in 2x `a`: ping-pong |
//! | 9x | `-----bss`: 12 bits per sample; number of times that the rate is halved |
//!
//! In port 6, registers 00–0E select the mode of a group, `p-----ss`. Mode 0 is four operators, 1
//! is two pairs, 2 is three operators and a sample voice, and 3 is four voices. Registers 10–17 are
//! timers and the memory's port.
//!
//! While slots of a group play together, writes to registers 0, 9, A, C, D and E of the first slot
//! go to all of them. A frame has 384 clocks.
//!
//! Detune is that of the OPN chips, with the same key code. A ping-pong loop turns at the end and
//! at the loop start.
//!
//! We leave out several features on purpose: outputs 3 and 4, which no board uses, timers, the
//! memory's port, and modulation by samples.
//!
//! Source: Yamaha YMF271-F application manual; the connections of operators, the key scaling, the
//! start of an attack and the kind of detune follow MAME (BSD-3-Clause, Olivier Galibert,
//! R. Belmont, hap); VGM specification 1.71 (command D1, block 85).

mod group;
mod slot;

use super::super::Rate;
use super::super::rom::Rom;
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, TONES, VoiceGroup};
use crate::format::ChipId;
use group::{Group, SyncMode};
use slot::LFO_INTERVAL;

/// The entry of the YMF271 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ymf271,
    name: "YMF271",
    verification: TONES,
    ratio: Some(1.6),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Numbered(48)],
    cost_ns: 120,
    memory_blocks: &[0x85],
    create: Create::Samples(|_, clock_hz| Box::new(Ymf271::new(clock_hz))),
};

const GROUPS: usize = 12;
const DIVIDER: u64 = 384;

/// The YMF271.
///
/// ```
/// use creel_vgm::chips::pcm::{PcmChip, ymf271::Ymf271};
///
/// let mut chip = Ymf271::new(16_934_400);
/// assert_eq!(chip.rate().hz(), 44_100.0);
/// // A sine on slot 4, of 44,100 × 1024 / 2^18 Hz.
/// for (port, reg, value) in [(6, 0, 0), (3, 0x50, 31), (0, 0xC0, 15), (3, 0x30, 1)] {
///     chip.write(port, reg, value);
/// }
/// for (reg, value) in [(0xA0, 0x34), (0x90, 0), (0xD0, 0), (0x00, 1)] {
///     chip.write(0, reg, value);
/// }
/// let mut frames = [[0; 2]; 400];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 8000));
/// ```
#[derive(Clone)]
pub struct Ymf271 {
    clock_hz: u32,
    groups: [Group; GROUPS],
    /// The number of frames since the last update of the LFOs.
    lfo_frames: usize,
    /// The slots that are not muted, one bit per slot. Slots of a port are adjacent.
    voice_mask: u64,
    rom: Rom,
}

/// Returns the group in the low four bits of a register.
fn group_of(reg: u16) -> Option<usize> {
    let (four, within) = (usize::from(reg >> 2 & 3), usize::from(reg & 3));
    (within < 3).then_some(3 * four + within)
}

impl Ymf271 {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            groups: std::array::from_fn(|_| Group::default()),
            lfo_frames: 0,
            voice_mask: u64::MAX,
            rom: Rom::default(),
        }
    }

    fn write_slot(&mut self, port: usize, reg: u16, value: u8) {
        let Some(group) = group_of(reg) else {
            return;
        };
        let what = reg >> 4;
        let group = &mut self.groups[group];
        let is_shared = matches!(what, 0x0 | 0x9 | 0xA | 0xC | 0xD | 0xE);
        let slots = if is_shared {
            group.sync_mode.slots(port)
        } else {
            1 << port
        };
        for (number, slot) in group.slots.iter_mut().enumerate() {
            if slots >> number & 1 != 0 {
                slot.write(what, value);
            }
        }
    }

    fn write_samples(&mut self, reg: u16, value: u8) {
        // The low four bits of the register stand for slot 1, 2, 3 or 4 of group 0, 4 or 8. If the
        // slots are numbered port by port, these are the slots 0, 4, 8 and so on.
        if let Some(place) = group_of(reg) {
            let number = 4 * place;
            let slot = &mut self.groups[number % GROUPS].slots[number / GROUPS];
            slot.write_samples(reg >> 4, value);
        }
    }
}

impl PcmChip for Ymf271 {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    fn write(&mut self, port: u8, reg: u16, value: u16) {
        let byte = value as u8;
        match (port, reg) {
            (0..=3, _) => self.write_slot(usize::from(port), reg, byte),
            (4, _) => self.write_samples(reg, byte),
            (6, 0x00..=0x0F) => {
                if let Some(group) = group_of(reg) {
                    self.groups[group].sync_mode = SyncMode::of(byte);
                }
            }
            _ => {}
        }
    }

    fn set_voice_mask(&mut self, voices: u64) -> bool {
        self.voice_mask = voices;
        true
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let rom = self.rom.read();
        let mut rest = &mut *out;
        while !rest.is_empty() {
            // We update the LFOs rarely, and always at the same frames.
            let updates_lfo = self.lfo_frames == 0;
            let frames = (LFO_INTERVAL - self.lfo_frames).min(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            for (number, group) in self.groups.iter_mut().enumerate() {
                let heard = |slot: usize| self.voice_mask >> (GROUPS * slot + number) & 1 != 0;
                group.render(updates_lfo, std::array::from_fn(heard), rom, block);
            }
            self.lfo_frames = (self.lfo_frames + frames) % LFO_INTERVAL;
            rest = after;
        }
        for value in out.as_flattened_mut() {
            *value >>= 2;
        }
        limit(out);
    }

    fn rom(&mut self, kind: u8) -> Option<&mut Rom> {
        (kind == 0x85).then_some(&mut self.rom)
    }
}
