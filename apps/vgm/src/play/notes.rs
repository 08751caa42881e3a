//! Determines the notes of the voices from the writes to their chips.
//!
//! This is independent of the sound. We read the commands of the song a second time, and follow the
//! registers that set a pitch, a volume or a key.
//!
//! We leave out on purpose:
//!
//! - chips that play samples, because their pitch does not determine the note,
//! - detune and LFOs,
//! - envelopes, so a note that has faded away stays on until its key is released.
//!
//! Source: the registers at the heads of the chips' modules.

use crate::format::{ChipId, Instance, Song, TICKS_PER_SECOND};
use crate::render::Lane;
use crate::sequence::{Action, Sequencer};

/// The note of a voice.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Note {
    /// The pitch in Hz, if the voice is on and has a pitch.
    pub hz: Option<f32>,
    /// The number of notes so far. It wraps from 255 to 0.
    pub key_ons: u8,
}

/// The notes of a song at one position.
#[derive(Clone)]
pub(super) struct NoteTracker<'s> {
    sequencer: Sequencer<'s>,
    chips: Vec<ChipRegisters>,
    rate: u64,
}

impl<'s> NoteTracker<'s> {
    /// Creates a tracker at the start of the song. `sample_rate` is the unit of its frames.
    pub(super) fn new(song: &'s Song, sample_rate: u32) -> Self {
        let header = &song.header;
        let chip = |instance: Instance| {
            let clock = header.clock(instance)?;
            has_pitches(instance.chip).then(|| ChipRegisters::new(instance, clock))
        };
        let chips: Vec<ChipRegisters> = song.chips().filter_map(chip).collect();
        // The second lane is the SSG of an OPN chip, which we need. For a YM2612, it is the data of
        // the DAC, which we do not need.
        let lanes =
            |chip: &ChipRegisters| (chip.instance, [true, chip.instance.chip != ChipId::Ym2612]);
        NoteTracker {
            sequencer: Sequencer::new(song, chips.iter().map(lanes)),
            chips,
            rate: u64::from(sample_rate),
        }
    }

    /// Advances to a frame of the song.
    pub(super) fn advance_to(&mut self, frame: u64) {
        let tick = u128::from(frame) * u128::from(TICKS_PER_SECOND) / u128::from(self.rate);
        self.sequencer.advance(tick as u64);
        for (place, chip) in self.chips.iter_mut().enumerate() {
            for queue in self.sequencer.queues(place) {
                queue.take_all(|action| {
                    if let Action::Write { port, reg, value } = action {
                        chip.write(port, reg, value as u8);
                    }
                });
            }
        }
    }

    /// Returns the note of a voice.
    pub(super) fn of(&self, lane: Lane) -> Note {
        let chip = self.chips.iter().find(|chip| chip.instance == lane.chip);
        chip.map_or_else(Note::default, |chip| chip.note(usize::from(lane.voice)))
    }
}

/// Returns whether the registers of a chip determine its notes.
fn has_pitches(chip: ChipId) -> bool {
    matches!(
        chip,
        ChipId::Ym2612
            | ChipId::Ym2151
            | ChipId::Ym2203
            | ChipId::Ym2608
            | ChipId::Ym2610
            | ChipId::Ym2413
            | ChipId::Ym3526
            | ChipId::Ym3812
            | ChipId::Y8950
            | ChipId::Ymf262
            | ChipId::Sn76489
            | ChipId::Ay8910
            | ChipId::NesApu
            | ChipId::GameBoy
            | ChipId::Huc6280
            | ChipId::K051649
    )
}

/// The offset of the registers that hold the bytes to the right port of a T6W28.
const PSG_RIGHT: usize = 0x40;

/// The number of voices that we track per chip. No chip whose notes we track has more.
const VOICES: usize = 24;

/// The values last written to the registers of a chip.
#[derive(Clone)]
struct ChipRegisters {
    instance: Instance,
    clock: f32,
    regs: [u8; 0x400],
    latch: u8,
    /// The latch of the right port of a T6W28.
    right_latch: u8,
    on: [bool; VOICES],
    strikes: [u8; VOICES],
}

impl ChipRegisters {
    fn new(instance: Instance, clock: u32) -> Self {
        let mut regs = [0; 0x400];
        if instance.chip == ChipId::Sn76489 {
            // The chip is silent until the first write.
            for half in [0, PSG_RIGHT] {
                (0..4).for_each(|voice| regs[half + voice * 2 + 1] = 15);
            }
        }
        ChipRegisters {
            instance,
            clock: clock as f32,
            regs,
            latch: 0,
            right_latch: 0,
            on: [false; VOICES],
            strikes: [0; VOICES],
        }
    }

    fn reg(&self, at: usize) -> u32 {
        u32::from(self.regs[at & 0x3FF])
    }

    /// Turns a voice on or off, by a key or by a volume that acts as one. `struck` starts a new
    /// note even if the voice is on.
    fn key(&mut self, voice: usize, on: bool, struck: bool) {
        let Some(now) = self.on.get_mut(voice) else {
            return;
        };
        if on && (struck || !*now) {
            self.strikes[voice] = self.strikes[voice].wrapping_add(1);
        }
        *now = on;
    }

    fn write(&mut self, port: u8, reg: u16, value: u8) {
        let at = (usize::from(port) << 8 | usize::from(reg)) & 0x3FF;
        match self.instance.chip {
            ChipId::Sn76489 if port & 1 == 0 => {
                let is_right = port != 0 && !self.instance.second;
                return self.psg(if is_right { PSG_RIGHT } else { 0 }, value);
            }
            ChipId::Sn76489 => return,
            ChipId::Huc6280 if at == 0 => {
                self.latch = value & 7;
                return;
            }
            ChipId::Huc6280 => {
                let voice = usize::from(self.latch);
                self.regs[voice << 4 | at & 15] = value;
                if at == 4 {
                    self.key(voice, value & 0x80 != 0 && value & 0x1F != 0, false);
                }
                return;
            }
            _ => self.regs[at] = value,
        }
        match (self.instance.chip, at) {
            (ChipId::Ym2151, 0x08) => {
                self.key(usize::from(value & 7), value & 0x78 != 0, false);
            }
            (ChipId::Ym2612 | ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610, 0x28) => {
                let (half, channel) = (usize::from(value >> 2 & 1), usize::from(value & 3));
                if channel < 3 {
                    self.key(half * 3 + channel, value & 0xF0 != 0, false);
                }
            }
            (ChipId::Ym2203, 8..=10) => self.key(at - 8 + 3, value & 0x1F != 0, false),
            (ChipId::Ym2608 | ChipId::Ym2610, 8..=10) => {
                self.key(at - 8 + 6, value & 0x1F != 0, false);
            }
            (ChipId::Ay8910, 8..=10) => self.key(at - 8, value & 0x1F != 0, false),
            (ChipId::Ym2413, 0x20..=0x28) => self.key(at - 0x20, value & 0x10 != 0, false),
            (ChipId::Ym3526 | ChipId::Ym3812 | ChipId::Y8950 | ChipId::Ymf262, _)
                if at & 0x2F0 == 0x0B0 && at & 15 < 9 =>
            {
                self.key((at >> 8) * 9 + (at & 15), value & 0x20 != 0, false);
            }
            // Writing the length starts a new note.
            (ChipId::NesApu, 0x03 | 0x07 | 0x0B) => self.key(at >> 2, true, true),
            (ChipId::NesApu, 0x15) => {
                for voice in (0..3).filter(|voice| value >> voice & 1 == 0) {
                    self.key(voice, false, false);
                }
            }
            (ChipId::GameBoy, 0x04 | 0x09 | 0x0E | 0x13) => {
                self.key((at - 4) / 5, true, value & 0x80 != 0);
            }
            (ChipId::GameBoy, 0x02 | 0x07) if value & 0xF8 == 0 => {
                self.key(at / 5, false, false);
            }
            (ChipId::K051649, 0x300) => {
                for voice in 0..5 {
                    let on = value >> voice & 1 == 1 && self.regs[0x200 + voice] & 15 != 0;
                    self.key(voice, on, false);
                }
            }
            (ChipId::K051649, 0x200..=0x204) => {
                let voice = at - 0x200;
                let on = value & 15 != 0 && self.reg(0x300) >> voice & 1 == 1;
                self.key(voice, on, false);
            }
            _ => {}
        }
    }

    /// Handles a byte to an SN76489. Even registers are pitches, odd ones are volumes. `half` is 0,
    /// or [`PSG_RIGHT`] for the right port of a T6W28.
    fn psg(&mut self, half: usize, value: u8) {
        let latch = if half == 0 {
            &mut self.latch
        } else {
            &mut self.right_latch
        };
        if value & 0x80 != 0 {
            *latch = value >> 4 & 7;
        }
        let place = half + usize::from(*latch);
        let voice = (place - half) >> 1;
        if place & 1 == 1 {
            let louder = value & 15 < self.regs[place];
            self.regs[place] = value & 15;
            let is_on = [0, PSG_RIGHT]
                .iter()
                .any(|half| self.regs[half + voice * 2 + 1] < 15);
            self.key(voice, is_on, louder);
        } else if value & 0x80 != 0 {
            self.regs[place] = value & 15;
        } else {
            self.regs[0x10 + place] = value & 0x3F;
        }
    }

    fn note(&self, voice: usize) -> Note {
        let on = self.on.get(voice).copied().unwrap_or(false);
        let hz = on.then(|| self.hz(voice)).flatten();
        Note {
            hz: hz.filter(|hz| hz.is_finite() && *hz > 0.0),
            key_ons: self.strikes.get(voice).copied().unwrap_or(0),
        }
    }

    fn hz(&self, voice: usize) -> Option<f32> {
        let pair = |low: usize, high: usize, mask: u32| {
            (self.reg(low) | (self.reg(high) & mask) << 8) as f32
        };
        let ssg = |first: usize, divider: f32| {
            let at = (voice - first) * 2;
            Some(self.clock / (divider * pair(at, at + 1, 15)))
        };
        match (self.instance.chip, voice) {
            (ChipId::Ym2612 | ChipId::Ym2608 | ChipId::Ym2610, 0..=5) => self.opn(voice, 144.0),
            (ChipId::Ym2203, 0..=2) => self.opn(voice, 72.0),
            (ChipId::Ym2203, 3..=5) => ssg(3, 32.0),
            (ChipId::Ym2608 | ChipId::Ym2610, 6..=8) => ssg(6, 64.0),
            (ChipId::Ay8910, _) => ssg(0, 16.0),
            (ChipId::Ym2151, _) => self.opm(voice),
            (ChipId::Ym2413, 0..=8) => {
                let high = self.reg(0x20 + voice);
                let number = (self.reg(0x10 + voice) | (high & 1) << 8) as f32;
                Some(number * self.clock / 72.0 / (1u32 << (19 - (high >> 1 & 7))) as f32)
            }
            (ChipId::Ym3526 | ChipId::Ym3812 | ChipId::Y8950, 0..=8) => self.opl(voice, 72.0),
            (ChipId::Ymf262, 0..=17) => self.opl(voice, 288.0),
            (ChipId::Sn76489, 0..=2) => {
                let period = self.reg(0x10 + voice * 2) << 4 | self.reg(voice * 2);
                Some(self.clock / (32 * period.max(1)) as f32)
            }
            (ChipId::NesApu, 0..=2) => {
                let period = pair(voice * 4 + 2, voice * 4 + 3, 7) + 1.0;
                Some(self.clock / (period * if voice == 2 { 32.0 } else { 16.0 }))
            }
            (ChipId::GameBoy, 0..=2) => {
                let period = 2048.0 - pair(voice * 5 + 3, voice * 5 + 4, 7);
                Some(if voice == 2 { 65_536.0 } else { 131_072.0 } / period)
            }
            (ChipId::Huc6280, 0..=5) => {
                let at = voice << 4;
                Some(self.clock / (32.0 * pair(at | 2, at | 3, 15)))
            }
            (ChipId::K051649, 0..=4) => {
                let at = 0x100 + voice * 2;
                Some(self.clock / (16.0 * (pair(at, at + 1, 15) + 1.0)))
            }
            _ => None,
        }
    }

    fn opn(&self, voice: usize, divider: f32) -> Option<f32> {
        let at = (voice / 3) << 8 | (0xA0 + voice % 3);
        let high = self.reg(at + 4);
        let number = (self.reg(at) | (high & 7) << 8) as f32;
        Some(number * self.clock / divider / (1u32 << (21 - (high >> 3 & 7))) as f32)
    }

    fn opl(&self, voice: usize, divider: f32) -> Option<f32> {
        let at = (voice / 9) << 8 | (0xA0 + voice % 9);
        let high = self.reg(at + 0x10);
        let number = (self.reg(at) | (high & 3) << 8) as f32;
        Some(number * self.clock / divider / (1u32 << (20 - (high >> 2 & 7))) as f32)
    }

    /// Returns the frequency for a key code of octave and note, which starts at C sharp. The manual
    /// gives the frequencies at a clock of 3,579,545 Hz.
    fn opm(&self, voice: usize) -> Option<f32> {
        let code = self.reg(0x28 + voice);
        let (octave, note) = (code >> 4 & 7, code & 15);
        // Numbers 3, 7, 11 and 15 have the note of the next number.
        let step = note - (note >> 2) + 1;
        let from_a4 = (octave * 12 + step) as f32 - 57.0;
        Some(440.0 * libm::exp2f(from_a4 / 12.0) * self.clock / 3_579_545.0)
    }
}

/// Returns the name of the note with its octave. For example, 440 Hz is A4.
///
/// ```
/// use creel_vgm::play::note_name;
///
/// assert_eq!(note_name(440.0), "A4");
/// assert_eq!(note_name(65.4), "C2");
/// ```
pub fn note_name(hz: f32) -> String {
    const NAMES: [&str; 12] = [
        "C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B",
    ];
    let key = (69.0 + 12.0 * libm::log2f(hz / 440.0)).round() as i32;
    let name = NAMES[key.rem_euclid(12) as usize];
    format!("{name}{}", key.div_euclid(12) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the note of a voice and its number of notes after these writes (port, register,
    /// value).
    fn after(chip: ChipId, clock: u32, voice: usize, writes: &[(u8, u16, u8)]) -> (String, u8) {
        let second = false;
        let mut chip = ChipRegisters::new(Instance { chip, second }, clock);
        for &(port, reg, value) in writes {
            chip.write(port, reg, value);
        }
        let note = chip.note(voice);
        (note.hz.map_or("-".into(), note_name), note.key_ons)
    }

    #[test]
    fn notes_are_derived_from_registers() {
        let a4 = ("A4".to_owned(), 1);
        let opm = after(
            ChipId::Ym2151,
            3_579_545,
            2,
            &[(0, 0x2A, 0x4A), (0, 8, 0x7A)],
        );
        assert_eq!(opm, a4);
        let opn = [(1, 0xA4, 0x22), (1, 0xA0, 0x84), (0, 0x28, 0xF4)];
        assert_eq!(after(ChipId::Ym2612, 7_670_454, 3, &opn).0, "C4");
        let psg = after(
            ChipId::Sn76489,
            3_579_545,
            1,
            &[(0, 0, 0xAE), (0, 0, 0x0F), (0, 0, 0xB3)],
        );
        assert_eq!(psg, a4);
        let off = after(ChipId::Sn76489, 3_579_545, 1, &[(0, 0, 0xB3), (0, 0, 0xBF)]);
        assert_eq!(off, ("-".to_owned(), 1));
        let ay = after(
            ChipId::Ay8910,
            1_789_772,
            0,
            &[(0, 0, 0xFE), (0, 1, 0), (0, 8, 15)],
        );
        assert_eq!(ay, a4);
        let opl = [
            (0, 0xA0, 0x44),
            (0, 0xB0, 0x32),
            (0, 0xB0, 0x12),
            (0, 0xB0, 0x32),
        ];
        assert_eq!(
            after(ChipId::Ym3812, 3_579_545, 0, &opl),
            ("A4".to_owned(), 2)
        );
        let nes = after(ChipId::NesApu, 1_789_773, 0, &[(0, 2, 0xFD), (0, 3, 0)]);
        assert_eq!(nes, a4);
    }
}
