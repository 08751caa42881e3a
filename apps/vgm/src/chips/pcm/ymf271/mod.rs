//! Yamaha's YMF271 (OPX): twelve groups of four slots, each an FM operator or a voice of samples.
//!
//! A write names a port, a register and a value. Ports 0 to 3 are the slots 1 to 4 of the groups;
//! the register's low four bits are the group (0–2, 4–6, 8–A, C–E), its high four bits say what:
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
//! | 8x | `llllrrrr` | the level where decay 2 begins, in 6 dB; release |
//! | 9x | `ffffffff` | number, low 8 bits; the block and the high bits count with it |
//! | Ax | `bbbbffff` | block, −8 to 7; number, high 4 bits |
//! | Bx | `afffwwww` | feedback, or how far others move it; wave (7 is samples) |
//! | Cx | `----aaaa` | algorithm |
//! | Dx | `llllrrrr` | level of outputs 1 and 2 |
//! | Ex | `llllrrrr` | level of outputs 3 and 4 |
//!
//! Port 4 has the samples of slot 1 of a group, in the register's low bits as above but each a slot
//! of its own (group 0, slots 1–4: 0, 1, 2 are groups 0, 4, 8 …):
//!
//! | register | |
//! |---|---|
//! | 0x–2x, 3x–5x, 6x–8x | start, end and loop, low byte first; the last has 7 bits, and in 2x `a`: to and fro |
//! | 9x | `-----bss`: 12 bits a sample; the rate halved so often |
//!
//! Port 6: registers 00–0E are the groups' ways to play, `p-----ss`: 0 four operators, 1 two pairs,
//! 2 three operators and a voice of samples, 3 four voices. 10–17 are timers and the memory's port.
//!
//! While slots of a group play together, what is written to the first one's registers 0, 9, A, C, D
//! and E is written to all of them. A frame has 384 clocks.
//!
//! Detune is that of the OPN chips, by the same key code; a loop to and fro turns at the end and at
//! the loop's start.
//!
//! Left out on purpose: outputs 3 and 4, which no board leads anywhere; timers, the memory's port,
//! modulation by samples.
//!
//! Source: Yamaha YMF271-F application manual; the ways of the operators, the key scaling, where an
//! attack begins and whose detune it has as MAME tells (BSD-3-Clause, Olivier Galibert, R. Belmont,
//! hap); VGM specification 1.71 (command D1, block 85).

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

/// The chip.
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
    /// Frames since the LFOs last leaped.
    lfo_frames: usize,
    /// Slots that are heard, a bit each, those of a port neighbours.
    voice_mask: u64,
    rom: Rom,
}

/// The group that the low four bits of a register name.
fn group_of(reg: u16) -> Option<usize> {
    let (four, within) = (usize::from(reg >> 2 & 3), usize::from(reg & 3));
    (within < 3).then_some(3 * four + within)
}

impl Ymf271 {
    /// A chip after reset.
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
            group.together.slots(port)
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
        // Each of these is slot 1, 2, 3 or 4 of a group: slots are numbered port by port.
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
                    self.groups[group].together = SyncMode::of(byte);
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
            // The LFOs go by leaps, always at the same frames.
            let leaps = self.lfo_frames == 0;
            let frames = (LFO_INTERVAL - self.lfo_frames).min(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            for (number, group) in self.groups.iter_mut().enumerate() {
                let heard = |slot: usize| self.voice_mask >> (GROUPS * slot + number) & 1 != 0;
                group.render(leaps, std::array::from_fn(heard), rom, block);
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
