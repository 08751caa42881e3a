//! Sega's SCSP (315-5687, YMF292): 32 slots that play samples from a RAM and modulate each other.
//!
//! Slot s has sixteen words at 20h s, high byte first (command C5 writes bytes):
//!
//! | word | bits | |
//! |---|---|---|
//! | 00 | `---ek--s slln-aaaa`¹ | execute keys, key, source, loop, 8 bits, start |
//! | 02 | | start in bytes, low 16 bits |
//! | 04, 06 | | loop start and end in samples |
//! | 08 | `dddddccc cchaaaaa` | decay 2, decay 1, hold, attack |
//! | 0A | `-l kkkk ddddd rrrrr` | link, key scaling, decay level, release |
//! | 0C | `------iv tttttttt` | not to the ring, no envelope; level in 0.375 dB |
//! | 0E | `mmmmxxxxxxyyyyyy` | modulation: depth, and two entries of the ring |
//! | 10 | `-oooo-ffffffffff` | octave, pitch |
//! | 12 | `rfffffwwdddwwddd` | LFO: reset, speed, wave and depth of vibrato, and of tremolo |
//! | 14 | `---------iiiilll` | input of the effects, send level in 6 dB |
//! | 16 | `dddppppp eeeqqqqq` | direct level in 6 dB, pan in 3 dB; those of effect s |
//!
//! ¹ Two more bits invert the sign of samples, but no song uses them. Word 400 has the master
//! volume in its low four bits. The registers of the effects are in [`dsp`].
//!
//! Keys take effect when a byte with the execute bit is written. Envelopes are those of
//! [`envelope`](super::envelope). The output of a slot goes to a ring of 64 entries. Other slots
//! can use these entries as an offset into their samples.
//!
//! We leave out several features on purpose: external inputs of the effects, timers, interrupts,
//! MIDI, DMA, and the link of decay 1 to the loop.
//!
//! Source: Sega Saturn SCSP User's Manual; VGM specification 1.71 (header B8, command C5, block
//! E0).

mod dsp;

use super::super::Rate;
use super::envelope::{Envelope, Stage, THREE_DB, Volumes, envelope_mask};
use super::sample::{Format, detuned, step};
use super::{PcmChip, limit};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup};
use crate::format::ChipId;
use dsp::Dsp;

/// The entry of the SCSP in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Scsp,
    name: "SCSP",
    verification: "documented arithmetic; libvgm: spectra 0.0 dB, balance 0.0 dB, onsets 1.00",
    ratio: Some(1.6),
    level: Level::new(4.0, 0x20, 8.0),
    voices: &[VoiceGroup::Numbered(32)],
    cost_ns: 120,
    memory_blocks: &[0x06, 0xE0],
    create: Create::Samples(|_, clock_hz| Box::new(Scsp::new(clock_hz))),
};

const SLOTS: usize = 32;
const RAM: usize = 0x8_0000;
const RING: usize = 64;
/// The attenuation at which an attack begins, 36 dB.
const ATTACK_FROM: i32 = 0x17F;
/// The number of frames between two updates of the LFO.
const LFO_FRAMES: u32 = 64;

/// The limit below which the clock in the header is the frame rate.
const CLOCK_HZ: u32 = 1_000_000;
const DIVIDER: u64 = 512;

/// The speeds of the LFO in units of 10 mHz.
const LFO_SPEEDS: [u64; 32] = [
    17, 19, 23, 27, 34, 39, 45, 55, 68, 78, 92, 110, 139, 160, 187, 227, 287, 331, 392, 479, 615,
    718, 860, 1080, 1440, 1720, 2150, 2870, 4310, 5740, 8610, 17230,
];
/// The depths of the vibrato in cents, and of the tremolo in steps.
const VIBRATO: [f64; 8] = [0.0, 7.0, 13.5, 27.0, 55.0, 112.0, 230.0, 494.0];
const TREMOLO: [f64; 8] = [0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The decoded registers of a sound.
#[derive(Clone, Copy, Debug, Default)]
struct SoundSettings {
    /// The source: 0 is the memory, 1 is noise.
    source: u32,
    format: Format,
    base: u32,
    kind: u32,
    /// The loop start and end, in 65536ths of a sample.
    start: i64,
    end: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    words: [u16; 16],
    /// Whether the key was pressed when keys were last executed. A sound that has ended restarts
    /// only if its key is released and pressed again.
    key: bool,
    was_pressed: bool,
    envelope: Envelope,
    /// The position in 65536ths of a sample.
    at: i64,
    backwards: bool,
    lfo: u32,
    noise: u32,
    /// The value of the LFO's noise at its last update.
    lfo_noise: u8,
    /// The values for the current block.
    step: i64,
    tremolo: i32,
    sides: [i32; 2],
    /// The volumes of the effect output with the number of this slot.
    effect_sides: [i32; 2],
    /// The decoded registers of the sound.
    sound: SoundSettings,
    /// The current volume.
    volume: i32,
    /// Bits of the clock. The volume may change only in frames in which all of them are 0.
    mask: u32,
}

/// An emulated SCSP, which renders native frames.
#[derive(Clone, Debug)]
pub struct Scsp {
    clock_hz: u32,
    slots: [Slot; SLOTS],
    /// The master volume in 256ths.
    master: i32,
    ring: [i32; RING],
    clock: u32,
    volumes: Volumes,
    dsp: Box<Dsp>,
    ram: Box<[u8; RAM]>,
}

impl Scsp {
    /// Creates a chip in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        Self {
            clock_hz,
            slots: Default::default(),
            master: 256,
            ring: [0; RING],
            clock: 0,
            volumes: Volumes::new(),
            dsp: Box::default(),
            ram: vec![0; RAM]
                .try_into()
                .expect("the vector must have the length of the RAM"),
        }
    }

    fn execute(&mut self) {
        for slot in &mut self.slots {
            let key = slot.words[0] & 0x0800 != 0;
            if key && !slot.key {
                slot.press();
            } else if !key && slot.key {
                slot.envelope.release();
            }
            slot.key = key;
        }
    }

    /// Returns the approximate number of frames per second.
    fn hz(&self) -> u64 {
        self.rate().frames / self.rate().seconds
    }
}

impl Slot {
    fn bits(&self, word: usize, shift: u32, bits: u32) -> u32 {
        u32::from(self.words[word / 2]) >> shift & ((1 << bits) - 1)
    }

    /// Returns the octave, −8 to 7.
    fn octave(&self) -> i32 {
        (self.bits(0x10, 11, 4) as i32 ^ 8) - 8
    }

    fn press(&mut self) {
        self.was_pressed = true;
        self.at = 0;
        self.backwards = false;
        let at_once = self.bits(0x0C, 8, 1) != 0 || self.rate(self.bits(0x08, 0, 5)) >= 62;
        self.envelope.press(ATTACK_FROM, at_once);
    }

    fn rate(&self, rate: u32) -> u32 {
        let scaling = self.bits(0x0A, 10, 4) as i32;
        let added = match scaling {
            15 => 0,
            _ => 2 * (self.octave() + scaling) + self.bits(0x10, 9, 1) as i32,
        };
        match rate {
            0 => 0,
            _ => (2 * rate as i32 + added).clamp(0, 63) as u32,
        }
    }

    /// Returns the rate of the current stage.
    fn stage_rate(&self) -> u32 {
        self.rate(match self.envelope.stage {
            Stage::Attack => self.bits(0x08, 0, 5),
            Stage::Decay1 => self.bits(0x08, 6, 5),
            Stage::Decay2 => self.bits(0x08, 11, 5),
            Stage::Release => self.bits(0x0A, 0, 5),
            Stage::Off => 0,
        })
    }

    fn advance_envelope(&mut self, clock: u32) {
        let sustained = self.bits(0x0A, 5, 5) as i32 * THREE_DB;
        self.envelope.settle(sustained);
        self.envelope.advance(self.stage_rate(), clock, sustained);
    }

    /// Returns the value of a waveform of the LFO, −1 to 1.
    fn wave(&self, wave: u32) -> f64 {
        let turn = f64::from(self.lfo) / 4_294_967_296.0;
        match wave {
            0 => 2.0 * (turn - (turn + 0.5).floor()),
            1 if turn < 0.5 => 1.0,
            1 => -1.0,
            2 => 4.0 * (turn + 0.25 - (turn + 0.75).floor()).abs() - 1.0,
            _ => f64::from(self.lfo_noise) / 127.5 - 1.0,
        }
    }

    /// Returns the value of a waveform for the tremolo, 0 to 1. Except for the noise, each starts
    /// at 1.
    fn tremolo_wave(&self, wave: u32) -> f64 {
        let turn = f64::from(self.lfo) / 4_294_967_296.0;
        match wave {
            0 => 1.0 - turn,
            2 => (2.0 * turn - 1.0).abs(),
            _ => (1.0 + self.wave(wave)) / 2.0,
        }
    }

    /// Advances the LFO by the frames between two updates.
    fn advance_lfo(&mut self, hz: u64) {
        let turns = LFO_SPEEDS[self.bits(0x12, 10, 5) as usize];
        let turn = (turns << 32) / (hz.max(1) * 100);
        self.lfo = self.lfo.wrapping_add((turn * u64::from(LFO_FRAMES)) as u32);
        self.lfo_noise = (self.noise >> 24) as u8;
        self.advance_noise();
    }

    fn advance_noise(&mut self) {
        self.noise = self.noise.wrapping_mul(1_103_515_245).wrapping_add(12_345);
    }

    /// Computes the values that are constant until the next update of the LFO.
    fn prepare(&mut self, updates_lfo: bool, hz: u64) {
        if updates_lfo {
            self.advance_lfo(hz);
        }
        let vibrato = VIBRATO[self.bits(0x12, 5, 3) as usize];
        let step = u64::from(step(self.bits(0x10, 0, 10), self.octave()));
        self.step = match vibrato > 0.0 {
            true => detuned(step, vibrato * self.wave(self.bits(0x12, 8, 2))),
            false => step,
        } as i64;
        let depth = TREMOLO[self.bits(0x12, 0, 3) as usize];
        self.tremolo = (depth * self.tremolo_wave(self.bits(0x12, 3, 2))) as i32;
        self.sides = self.pan(8);
        self.effect_sides = self.pan(0);
        self.mask = 0;
        let [start, end] = [0x04, 0x06].map(|word| i64::from(self.bits(word, 0, 16)) << 16);
        self.sound = SoundSettings {
            source: self.bits(0x00, 7, 2),
            format: match self.bits(0x00, 4, 1) {
                0 => Format::Words,
                _ => Format::Bytes,
            },
            base: self.bits(0x00, 0, 4) << 16 | self.bits(0x02, 0, 16),
            kind: self.bits(0x00, 5, 2),
            start,
            end,
        };
    }

    /// Returns the volumes left and right of the direct output (`shift` is 8) or of an effect (0).
    /// 32768 is full volume.
    fn pan(&self, shift: u32) -> [i32; 2] {
        let (level, pan) = (self.bits(0x16, shift + 5, 3), self.bits(0x16, shift, 5));
        if level == 0 {
            return [0; 2];
        }
        let whole = 32_768 >> (7 - level);
        let less = match pan & 15 {
            15 => 0,
            places => (f64::from(whole) * libm::exp2(-f64::from(places) / 2.0)).round() as i32,
        };
        if pan & 16 == 0 {
            [less, whole]
        } else {
            [whole, less]
        }
    }

    fn sample(&self, ram: &[u8; RAM], place: i64) -> i32 {
        let byte = |at: u32| ram[at as usize & (RAM - 1)];
        self.sound
            .format
            .sample(byte, self.sound.base, place as u32)
    }

    /// Returns a frame before panning. `moved` is the modulation by other slots, in 65536ths of a
    /// sample.
    fn frame(&mut self, ram: &[u8; RAM], volumes: &Volumes, clock: u32, moved: i32) -> i32 {
        if clock & self.mask == 0 {
            self.advance_envelope(clock);
            self.volume = volumes.of(self.total());
            self.mask = envelope_mask(self.stage_rate());
        }
        if !self.envelope.is_audible() {
            return 0;
        }
        let at = self.at + i64::from(moved);
        let value = match self.sound.source {
            0 => {
                let (place, part) = (at >> 16, (at & 0xFFFF) as i32 >> 1);
                let (one, two) = (self.sample(ram, place), self.sample(ram, place + 1));
                one + (((two - one) * part) >> 15)
            }
            1 => {
                self.advance_noise();
                i32::from((self.noise >> 16) as i16)
            }
            _ => 0,
        };
        self.advance();
        (value * self.volume) >> 15
    }

    /// Returns the total attenuation in steps.
    fn total(&self) -> i32 {
        let level = (self.bits(0x0C, 0, 8) << 2) as i32;
        let envelope = match self.bits(0x0C, 8, 1) {
            0 => self.envelope.attenuation,
            _ => 0,
        };
        let held = self.envelope.stage == Stage::Attack && self.bits(0x08, 5, 1) != 0;
        let envelope = if held { 0 } else { envelope };
        envelope + level + self.tremolo
    }

    fn advance(&mut self) {
        let SoundSettings {
            start, end, kind, ..
        } = self.sound;
        self.at += if self.backwards {
            -self.step
        } else {
            self.step
        };
        let round = (end - start).max(1 << 16);
        match kind {
            0 if self.at >= end.max(start) => self.envelope.stage = Stage::Off,
            1 if self.at >= end => self.at = start + (self.at - end) % round,
            2 if !self.backwards && self.at >= start => {
                self.backwards = true;
                self.at = end - (self.at - start) % round;
            }
            2 if self.backwards && self.at < start => self.at = end - (start - self.at) % round,
            3 if !self.backwards && self.at >= end => {
                self.backwards = true;
                self.at = end - (self.at - end) % round;
            }
            3 if self.backwards && self.at < start => {
                self.backwards = false;
                self.at = start + (start - self.at) % round;
            }
            _ => {}
        }
    }

    /// Returns the modulation by other slots: two places in the ring, and the depth. The places
    /// count forward from the place of this slot.
    ///
    /// Returns `None` if there is no modulation.
    fn moved_by(&self) -> Option<([usize; 2], u32)> {
        let [x, y] = [6, 0].map(|shift| self.bits(0x0E, shift, 6) as usize);
        let amount = self.bits(0x0E, 12, 4);
        (amount >= 5).then_some(([x, y], amount))
    }
}

impl Scsp {
    /// Adds frames in which slots modulate each other or effects are active. Each frame is computed
    /// slot by slot.
    fn add_moved(&mut self, effects: bool, out: &mut [[i32; 2]]) {
        for (now, frame) in (self.clock..).zip(out) {
            for (number, slot) in self.slots.iter_mut().enumerate() {
                let at = (now as usize * SLOTS + number) % RING;
                let moved = slot.moved_by().map_or(0, |(places, amount)| {
                    let sum: i32 = places
                        .map(|place| self.ring[(at + place) % RING])
                        .iter()
                        .sum();
                    // At depth 15, two modulators at full scale together move the position by 512
                    // samples in either direction.
                    (i64::from(sum) << 10 >> (16 - amount.min(15))) as i32
                });
                let value = slot.frame(&self.ram, &self.volumes, now, moved);
                if slot.bits(0x0C, 9, 1) == 0 {
                    self.ring[at] = value;
                }
                frame[0] += (value * slot.sides[0]) >> 15;
                frame[1] += (value * slot.sides[1]) >> 15;
                let level = slot.bits(0x14, 0, 3);
                if effects && level > 0 {
                    self.dsp.send(slot.bits(0x14, 3, 4) as usize, value, level);
                }
            }
            if effects {
                self.dsp.run(&mut self.ram[..]);
                for (slot, value) in self.slots.iter().zip(self.dsp.effects()) {
                    frame[0] += (value * slot.effect_sides[0]) >> 15;
                    frame[1] += (value * slot.effect_sides[1]) >> 15;
                }
            }
        }
    }

    fn add(&mut self, out: &mut [[i32; 2]]) {
        let (hz, updates_lfo) = (self.hz(), self.clock.is_multiple_of(LFO_FRAMES));
        for slot in &mut self.slots {
            slot.prepare(updates_lfo, hz);
        }
        let sounds = |slot: &&mut Slot| slot.envelope.is_audible();
        // We decide this from the registers only. Otherwise the boundaries of blocks would change
        // the ring.
        let moves = |slot: &Slot| slot.was_pressed && slot.moved_by().is_some();
        let effects = self.dsp.works();
        if effects || self.slots.iter().any(moves) {
            self.add_moved(effects, out);
        } else {
            for slot in self.slots.iter_mut().filter(sounds) {
                for (now, frame) in (self.clock..).zip(out.iter_mut()) {
                    let value = slot.frame(&self.ram, &self.volumes, now, 0);
                    frame[0] += (value * slot.sides[0]) >> 15;
                    frame[1] += (value * slot.sides[1]) >> 15;
                }
            }
        }
        self.clock = self.clock.wrapping_add(out.len() as u32) & 0x07FF_FFFF;
    }
}

impl PcmChip for Scsp {
    fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: if self.clock_hz < CLOCK_HZ { 1 } else { DIVIDER },
        }
    }

    fn write(&mut self, _port: u8, reg: u16, value: u16) {
        let (high, byte) = (reg & 1 == 0, value & 0xFF);
        match reg & 0xFFF {
            reg @ 0x000..=0x3FF => {
                let slot = &mut self.slots[usize::from(reg >> 5)];
                let word = &mut slot.words[usize::from(reg >> 1 & 15)];
                *word = if high {
                    *word & 0x00FF | byte << 8
                } else {
                    *word & 0xFF00 | byte
                };
                if reg & 0x1E == 0 && slot.words[0] & 0x1000 != 0 {
                    slot.words[0] &= !0x1000;
                    self.execute();
                }
            }
            0x401 => {
                self.master = match byte & 15 {
                    0 => 0,
                    level => (256.0 * libm::exp2(-f64::from(15 - level) / 2.0)) as i32,
                }
            }
            address => self.dsp.write(address, byte as u8),
        }
    }

    fn render(&mut self, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let mut rest = &mut *out;
        while !rest.is_empty() {
            // We update the LFO rarely, and always at the same frames.
            let frames = (LFO_FRAMES - self.clock % LFO_FRAMES) as usize;
            let (block, after) = rest.split_at_mut(frames.min(rest.len()));
            self.add(block);
            rest = after;
        }
        for value in out.as_flattened_mut() {
            *value = (*value * self.master) >> 10;
        }
        limit(out);
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let start = offset.min(RAM);
        let length = bytes.len().min(RAM - start);
        self.ram[start..start + length].copy_from_slice(&bytes[..length]);
    }
}
