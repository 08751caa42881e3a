//! The registers of YM3526, YM3812, Y8950 and YMF262, and their decoding.
//!
//! | register | bits | |
//! |---|---|---|
//! | 01 | `--x-----` | OPL2: enables registers E0 to F5 |
//! | 02 | `xxxxxxxx` | timer A, upper 8 of its 10 bits |
//! | 04 | `R------A` | reset flags, ignoring the rest; timer A runs |
//! | 08 | `CN------` | CSM mode (not OPL3); which bit of the number is the key code's |
//! | 20–35 | `APSKmmmm` | tremolo, vibrato, sustaining, key scaling of rates; multiple |
//! | 40–55 | `kkllllll` | key scaling of level; total level |
//! | 60–75 | `aaaadddd` | attack, decay |
//! | 80–95 | `ssssrrrr` | sustain level, release |
//! | A0–A8 | `ffffffff` | frequency number, low 8 bits |
//! | B0–B8 | `--Kbbbff` | key, block, high 2 bits of the number |
//! | BD | `APRbstch` | depths of tremolo and vibrato, rhythm mode, five drums' keys |
//! | C0–C8 | `DCBAfffc` | OPL3: outputs; feedback, connection |
//! | E0–F5 | `-----www` | waveform: 2 bits on OPL2, 3 on OPL3 |
//! | 104 | `--xxxxxx` | OPL3: four operators for channels 9–11 and 0–2 |
//! | 105 | `-------N` | OPL3: enables its new registers and bits |
//!
//! On the OPL3 the upper half, 100 to 1FF, contains the same registers for channels 9 to 17.
//! Operators are at 0–5, 8–D and 10–15 of their ranges. In each range, three first operators
//! precede three second ones.
//!
//! We leave out timer B, flags, interrupts and test bits on purpose, because they make no sound.
//!
//! Source: Yamaha YM3526, YM3812, Y8950 and YMF262 application manuals and data sheets; the
//! handling of odd cases as in ymfm.

use super::algorithms::Family;
use super::bank::{Bank, VoiceMask};
use super::channel::Role;
use super::waves::WAVES;
use crate::chips::fm::envelope::{Rates, Stage, scaled_rate, sustain_level};
use crate::chips::fm::operator::{BLOCK, OperatorSettings, Pitch, key};

/// The revision of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// YM3526 and Y8950.
    Opl,
    /// YM3812.
    Opl2,
    /// YMF262.
    Opl3,
}

/// YM3526, YM3812 and Y8950: modulation is delayed by a frame, and 13 bits are kept.
#[derive(Clone)]
pub struct EarlyOpl;

impl Family for EarlyOpl {
    const DELAY: bool = true;
    const DROPPED: u32 = 1;
    const LIMIT: i32 = 0x7fff;
    const HAT_PHASE: usize = 1;
}

/// YMF262.
#[derive(Clone)]
pub struct Opl3;

impl Family for Opl3 {
    const DELAY: bool = false;
    const DROPPED: u32 = 0;
    const LIMIT: i32 = 0x7fff;
    const HAT_PHASE: usize = 1;
}

/// The FM part of an OPL chip with its registers.
#[derive(Clone)]
pub struct Opl<const CHANNELS: usize> {
    revision: Revision,
    regs: [u8; 0x200],
    /// The channels whose registers must be decoded, one bit per channel.
    stale: u32,
    bank: Bank<CHANNELS>,
    /// The sums of a block by outputs. A is bit 0 of the index, and B is bit 1.
    sums: [[i32; BLOCK]; 4],
}

impl<const CHANNELS: usize> Opl<CHANNELS> {
    /// Creates a chip in its state after reset, in which all registers are 0.
    pub fn new(revision: Revision) -> Self {
        Self {
            revision,
            regs: [0; 0x200],
            stale: u32::MAX,
            bank: Bank::default(),
            sums: [[0; BLOCK]; 4],
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice: the channels, then the drums.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.bank.voice_mask = VoiceMask::of_voices(voices, CHANNELS as u32);
    }

    fn is_new(&self) -> bool {
        self.regs[0x105] & 1 != 0
    }

    /// Writes a register of the upper half (`port` 1) or the lower half.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        let upper = self.revision == Revision::Opl3 && port & 1 != 0 && (self.is_new() || reg == 5);
        let half = if upper { 0x100 } else { 0 };
        let address = half | usize::from(reg);
        self.bank.mark_written();
        if address == 0x04 && value & 0x80 != 0 {
            // A reset of the flags does not change the timers.
            return;
        }
        self.regs[address] = value;
        match address {
            0x02 => self.bank.timer.set_high(value),
            0x04 | 0x08 => {
                let csm = self.regs[0x08] & 0x80 != 0 && self.revision != Revision::Opl3;
                self.bank.timer.set_mode(self.regs[0x04] & 1 != 0, csm);
                self.stale = u32::MAX;
            }
            0xbd => {
                self.bank.lfo.deep_am = value & 0x80 != 0;
                self.bank.lfo.deep_pm = value & 0x40 != 0;
                self.bank
                    .set_drum_keys(if value & 0x20 != 0 { value } else { 0 });
                self.stale = u32::MAX;
            }
            0x01 | 0x104 | 0x105 => self.stale = u32::MAX,
            _ => self.mark(half, reg),
        }
        if reg & 0xf0 == 0xb0 && reg & 15 < 9 {
            let channel = self.channel(half, usize::from(reg & 15));
            self.bank
                .set_keys(channel, key::NORMAL, if value & 0x20 != 0 { 15 } else { 0 });
        }
    }

    fn channel(&self, half: usize, n: usize) -> usize {
        if half != 0 { 9 + n } else { n }
    }

    /// Marks the channel of a register for decoding, and the channel that may share its operators.
    fn mark(&mut self, half: usize, reg: u8) {
        let n = match reg {
            0x20..=0x9f | 0xe0..=0xff => {
                let slot = usize::from(reg & 0x1f);
                slot / 8 * 3 + slot % 8 % 3
            }
            0xa0..=0xcf => usize::from(reg & 15),
            _ => return,
        };
        if n < 9 {
            let channel = self.channel(half, n);
            self.stale |= 1 << channel | 1 << (channel + 3);
        }
    }

    /// Overwrites `out` with the sums of left and right in the next frames.
    pub fn render<F: Family>(&mut self, out: &mut [[i32; 2]]) {
        let mut rest = out;
        while !rest.is_empty() {
            let frames = self.render_sums::<F>(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            let [_, left, right, both] = &self.sums;
            for (i, frame) in block.iter_mut().enumerate() {
                *frame = [left[i] + both[i], right[i] + both[i]];
            }
            rest = after;
        }
    }

    /// Renders a block of at most `wanted` frames into `sums`, and returns the number of frames.
    fn render_sums<F: Family>(&mut self, wanted: usize) -> usize {
        if self.stale != 0 {
            self.decode();
        }
        let frames = self.bank.begin(wanted);
        let sums = &mut self.sums;
        for sum in sums.iter_mut() {
            sum[..frames].fill(0);
        }
        self.bank.render::<F>(frames, |outputs, values| {
            let sum = &mut sums[usize::from(outputs & 3)];
            for (sum, &value) in sum[..frames].iter_mut().zip(values) {
                *sum += i32::from(value);
            }
        });
        frames
    }

    fn decode(&mut self) {
        for i in 0..CHANNELS {
            if self.stale >> i & 1 != 0 {
                self.bank.channels[i].role = self.role(i);
                self.decode_channel(i);
            }
        }
        self.stale = 0;
    }

    fn role(&self, i: usize) -> Role {
        let pair = |first: usize| {
            let bit = first % 9 + first / 9 * 3;
            self.revision == Revision::Opl3 && self.regs[0x104] >> bit & 1 != 0
        };
        match (i % 9, self.regs[0xbd] & 0x20 != 0, i) {
            (0..3, ..) if pair(i) => Role::Four,
            (3..6, ..) if pair(i - 3) => Role::Lent,
            (.., true, 6) => Role::BassDrum,
            (.., true, 7) => Role::HatAndSnare,
            (.., true, 8) => Role::TomAndCymbal,
            _ => Role::Pair,
        }
    }

    fn decode_channel(&mut self, i: usize) {
        let (half, n) = (i / 9 * 0x100, i % 9);
        let lent = self.bank.channels[i].role == Role::Lent;
        let tuned = half + if lent { n - 3 } else { n };
        let block_freq =
            u16::from(self.regs[0xb0 + tuned] & 31) << 8 | u16::from(self.regs[0xa0 + tuned]);
        let connection = self.regs[0xc0 + half + n];
        let outputs = match (self.revision, self.is_new()) {
            (Revision::Opl3, true) => connection >> 4,
            _ => 3,
        };
        let key_code = self.key_code(block_freq);
        let decoded: [_; 2] = std::array::from_fn(|k| {
            let slot = half + n / 3 * 8 + n % 3 + 3 * k;
            let regs = [0x20, 0x40, 0x60, 0x80].map(|base| self.regs[base + slot]);
            (
                decode_operator(block_freq, key_code, regs),
                self.wave(self.regs[0xe0 + slot]),
            )
        });
        let channel = &mut self.bank.channels[i];
        channel.feedback.level = connection >> 1 & 7;
        channel.additive = connection & 1 != 0;
        channel.outputs = outputs;
        for (k, (settings, wave)) in decoded.into_iter().enumerate() {
            channel.operators[k].settings = settings;
            channel.waves[k] = &WAVES[wave];
            channel.vibrato[k] = self.regs[half + 0x20 + n / 3 * 8 + n % 3 + 3 * k] & 0x40 != 0;
        }
    }

    fn key_code(&self, block_freq: u16) -> u8 {
        let number_bit = if self.regs[0x08] & 0x40 != 0 { 8 } else { 9 };
        (block_freq >> 9 & 14 | block_freq >> number_bit & 1) as u8
    }

    fn wave(&self, reg: u8) -> usize {
        let mask = match self.revision {
            Revision::Opl2 if self.regs[0x01] & 0x20 != 0 => 3,
            Revision::Opl3 if self.is_new() => 7,
            Revision::Opl3 => 3,
            Revision::Opl | Revision::Opl2 => 0,
        };
        usize::from(reg & mask)
    }
}

/// Decodes an operator from its registers 20, 40, 60 and 80.
fn decode_operator(block_freq: u16, key_code: u8, regs: [u8; 4]) -> OperatorSettings {
    let [control, level, attack_decay, sustain_release] = regs;
    let scaling = [0, 2, 1, 3][usize::from(level >> 6)];
    OperatorSettings {
        pitch: Pitch {
            block_freq,
            multiple: multiple(control),
            ..Pitch::default()
        },
        rates: rates(control, key_code, [attack_decay, sustain_release]),
        total_level: (u16::from(level & 63) << 3) + level_scaling(block_freq, scaling),
        am: control & 0x80 != 0,
        ..OperatorSettings::default()
    }
}

/// Returns twice the multiple in the low 4 bits of a control register.
///
/// A value of 0 is a multiple of one half, and values of 1 to 10 are the multiple itself. The chip
/// has no multiples of 11, 13 and 14, so values of 11 to 15 give 10, 12, 12, 15 and 15.
pub fn multiple(control: u8) -> u8 {
    [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 20, 24, 24, 30, 30][usize::from(control & 15)]
}

/// Returns the attenuation by which higher notes are softer.
///
/// It is 0 at `scaling` 0. At higher values it is 1.5, 3 and 6 dB per octave.
pub fn level_scaling(block_freq: u16, scaling: u8) -> u16 {
    const TOP_OCTAVE: [i16; 16] = [
        0, 24, 32, 37, 40, 43, 45, 47, 48, 50, 51, 52, 53, 54, 55, 56,
    ];
    if scaling == 0 {
        return 0;
    }
    let octaves_below = 7 - (block_freq >> 10 & 7) as i16;
    let level = TOP_OCTAVE[usize::from(block_freq >> 6 & 15)] - 8 * octaves_below;
    (level.max(0) as u16) << scaling
}

/// Returns the rates from a control register (20) and the envelope registers (60, 80).
pub fn rates(control: u8, key_code: u8, envelope: [u8; 2]) -> Rates {
    let [attack_decay, sustain_release] = envelope;
    let key_scale = if control & 0x10 != 0 {
        key_code
    } else {
        key_code >> 2
    };
    let scaled = |four_bits: u8| scaled_rate(4 * (four_bits & 15), key_scale);
    let mut rates = Rates {
        sustain_level: sustain_level(sustain_release >> 4),
        ..Rates::default()
    };
    rates.rate[Stage::Attack as usize] = scaled(attack_decay >> 4);
    rates.rate[Stage::Decay as usize] = scaled(attack_decay);
    rates.rate[Stage::Sustain as usize] = if control & 0x20 != 0 {
        0
    } else {
        scaled(sustain_release)
    };
    rates.rate[Stage::Release as usize] = scaled(sustain_release);
    rates
}
