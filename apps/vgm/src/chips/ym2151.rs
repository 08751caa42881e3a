//! The YM2151, or OPM: eight channels of four operators, LFO and noise.
//!
//! | register | bits | |
//! |---|---|---|
//! | 01 | `------x-` | hold the LFO at 0 (test register) |
//! | 08 | `-4321---` | keys of operators 4 to 1 |
//! | 08 | `-----xxx` | of this channel |
//! | 0F | `x-------` | channel 8's operator 4 is noise |
//! | 0F | `---xxxxx` | noise frequency |
//! | 10, 11 | `xxxxxxxx`, `------xx` | timer A, high and low bits |
//! | 12 | `xxxxxxxx` | timer B |
//! | 14 | `x-------` | CSM: timer A presses all keys |
//! | 14 | `-------x` | run timer A; the other bits concern flags and timer B |
//! | 18 | `xxxxxxxx` | LFO frequency |
//! | 19 | `0xxxxxxx`, `1xxxxxxx` | LFO depth, amplitude and pitch |
//! | 1B | `------xx` | LFO waveform: sawtooth, square, triangle, noise |
//! | 20–27 | `RL------` | outputs right and left |
//! | 20–27 | `--xxx---` | feedback of operator 1 |
//! | 20–27 | `-----xxx` | algorithm |
//! | 28–2F | `-xxxxxxx` | key code: octave and note |
//! | 30–37 | `xxxxxx--` | key fraction |
//! | 38–3F | `-xxx--xx` | LFO sensitivity, pitch and amplitude |
//! | 40–5F | `-xxx----` | detune |
//! | 40–5F | `----xxxx` | multiple |
//! | 60–7F | `-xxxxxxx` | total level |
//! | 80–9F | `xx-xxxxx` | key scaling, attack rate |
//! | A0–BF | `x--xxxxx` | LFO amplitude on, decay rate |
//! | C0–DF | `xx-xxxxx` | coarse detune, sustain rate |
//! | E0–FF | `xxxxxxxx` | sustain level, release rate |
//!
//! The low three address bits select the channel. The two bits above select the operator in the
//! order 1, 3, 2, 4, where the numbers are the order of computation. The output is that of the
//! YM3012: a mantissa of 10 bits and an exponent.
//!
//! We leave out reading the status, the CT outputs and timer B on purpose.
//!
//! Source: Yamaha YM2151 application manual and YM3012 datasheet; behaviour that they leave open
//! follows ymfm (BSD-3-Clause, Aaron Giles), with which the oracle test compares every bit.

use super::Rate;
use super::fm::algorithms::{FullWidth, Sums};
use super::fm::bank::{Bank, Block, ChannelLfoSegment, ChannelSettings, Family};
use super::fm::dac::through_dac;
use super::fm::operator::{BLOCK, OperatorSettings, Pitch};
use super::fm::opm_lfo::OpmLfo;
use super::fm::tables::{OPM_NOTES, detune};
use crate::chips::info::{ChipInfo, Create, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YM2151 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2151,
    name: "YM2151",
    verification: YMFM,
    ratio: Some(3.4),
    level: Level::new(1.0, 0x100, 1.0),
    voices: &[VoiceGroup::Counted("FM", 8)],
    cost_ns: 125,
    memory_blocks: &[],
    create: Create::ByFactory,
};

/// The number of clocks per native frame.
const DIVIDER: u64 = 64;

const CHANNELS: usize = 8;

/// The offset of an operator's registers, by its position in the computation.
const OPERATOR_BLOCKS: [usize; 4] = [0, 16, 8, 24];

/// Coarse detune in 1/64 semitones: 0, 600, 781 and 950 cents.
const COARSE_DETUNE: [i16; 4] = [0, 384, 500, 608];

/// The YM2151.
///
/// ```
/// use creel_vgm::chips::ym2151::Ym2151;
///
/// let mut chip = Ym2151::new(3_579_545);
/// for (reg, value) in [(0x20, 0xc7), (0x28, 0x4a), (0x60, 0), (0x80, 31), (0xe0, 15), (0x08, 8)] {
///     chip.write(0, reg, value); // A4 on operator 1 of channel 1
/// }
/// let mut frames = [[0; 2]; 100];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 8000));
/// ```
#[derive(Clone)]
pub struct Ym2151 {
    clock_hz: u32,
    regs: [u8; 256],
    /// The channels whose registers must be decoded, one bit per channel.
    stale: u8,
    bank: Bank<CHANNELS>,
    lfo: OpmLfo,
    segments: Vec<ChannelLfoSegment>,
    noise: [bool; BLOCK],
    /// The channels that are not muted.
    channel_mask: u8,
}

#[derive(Clone)]
struct Opm;

impl Family for Opm {
    fn phase_step(pitch: &Pitch, sensitivity: u8, pm: i16) -> u32 {
        let pm = i32::from(pm);
        let bend = match sensitivity {
            0 => 0,
            1..=5 => pm >> (6 - sensitivity),
            _ => pm << (sensitivity - 5),
        };
        let step = note_step(pitch.block_freq, i32::from(pitch.note_offset) + bend);
        step.wrapping_add_signed(i32::from(pitch.detune))
            .wrapping_mul(u32::from(pitch.multiple))
            >> 1
    }

    fn am_attenuation(am: u8, sensitivity: u8) -> u16 {
        if sensitivity == 0 {
            0
        } else {
            u16::from(am) << (sensitivity - 1)
        }
    }
}

/// Returns the phase step of an octave, note and fraction, moved by `offset` 1/64 semitones.
fn note_step(block_freq: u16, offset: i32) -> u32 {
    const OCTAVE: i32 = 12 * 64;
    let octave = i32::from(block_freq >> 10 & 7);
    // The note numbers have a gap after every third one: 0 1 2 - 4 5 6 - and so on.
    let note = i32::from(block_freq >> 6 & 15) - i32::from(block_freq >> 8 & 3);
    let place = octave * OCTAVE + (note << 6 | i32::from(block_freq & 63)) + offset;
    let (octave, place) = match place {
        ..0 => (0, 0),
        _ if place >= 8 * OCTAVE => (7, OCTAVE - 1),
        _ => (place / OCTAVE, place % OCTAVE),
    };
    u32::from(OPM_NOTES[place as usize]) << 5 >> (7 - octave)
}

impl Ym2151 {
    /// Creates a YM2151 in its state after reset.
    pub fn new(clock_hz: u32) -> Self {
        let mut regs = [0; 256];
        regs[0x20..0x28].fill(0xc0);
        Self {
            clock_hz,
            regs,
            stale: 0xff,
            bank: Bank::new(0xff, 0xff),
            lfo: OpmLfo::default(),
            segments: Vec::with_capacity(BLOCK),
            noise: [false; BLOCK],
            channel_mask: 0xff,
        }
    }

    /// Returns the native rate, which is a 64th of the clock.
    ///
    /// For example, it is 55,930 Hz at 3.579545 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: DIVIDER,
        }
    }

    /// Writes a register between two frames.
    ///
    /// `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        self.bank.mark_written();
        self.regs[usize::from(reg)] = value;
        match reg {
            0x01 => self.lfo.hold = value & 2 != 0,
            0x08 => self.bank.set_keys(usize::from(value & 7), value >> 3 & 15),
            0x0f => self.lfo.noise_period = value & 31 ^ 31,
            0x10 => self.bank.timer.set_high(value),
            0x11 => self.bank.timer.set_low(value),
            0x14 => self.bank.timer.set_mode(value & 1 != 0, value & 0x80 != 0),
            0x18 => self.lfo.rate = value,
            0x19 if value & 0x80 == 0 => self.lfo.am_depth = value,
            0x19 => {
                self.lfo.pm_depth = value & 0x7f;
                self.stale = 0xff;
            }
            0x1b => self.lfo.waveform = value & 3,
            0x20.. => self.stale |= 1 << (reg & 7),
            _ => {}
        }
    }

    /// Mutes all voices except those in `voices`, one bit per channel.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.channel_mask = voices as u8;
    }

    /// Overwrites `out` with the next native frames, left and right, with 16 bits per value.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        let mut rest = out;
        while !rest.is_empty() {
            self.decode();
            let frames = self.bank.begin(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            self.render_block(block);
            rest = after;
        }
    }

    fn render_block(&mut self, out: &mut [[i32; 2]]) {
        let noise = self.regs[0x0f] & 0x80 != 0;
        self.lfo.run(
            out.len(),
            &mut self.segments,
            noise.then_some(&mut self.noise),
        );
        let block = Block {
            lfo: &self.segments,
            audible: self.channel_mask,
            noise: noise.then_some(&self.noise),
        };
        let mut sums = Sums::new(out.len(), 0);
        self.bank
            .render::<Opm, FullWidth>(block, |channel, values| {
                sums.add(channel.outputs, values, |value| value);
            });
        sums.write(out, through_dac);
    }

    fn decode(&mut self) {
        for i in 0..CHANNELS {
            if self.stale >> i & 1 != 0 {
                self.decode_channel(i);
            }
        }
        self.stale = 0;
    }

    fn decode_channel(&mut self, i: usize) {
        let [connection, code, fraction, sensitivity] =
            [0x20, 0x28, 0x30, 0x38].map(|base| self.regs[base + i]);
        let channel = &mut self.bank.channels[i];
        channel.settings = ChannelSettings {
            algorithm: connection & 7,
            outputs: [connection & 0x40 != 0, connection & 0x80 != 0],
            pm_sensitivity: if self.lfo.pm_depth == 0 {
                0
            } else {
                sensitivity >> 4 & 7
            },
            am_sensitivity: sensitivity & 3,
        };
        channel.feedback.level = connection >> 3 & 7;
        let block_freq = u16::from(code & 0x7f) << 6 | u16::from(fraction >> 2);
        for (operator, base) in channel.operators.iter_mut().zip(OPERATOR_BLOCKS) {
            let regs = std::array::from_fn(|k| self.regs[0x40 + 0x20 * k + base + i]);
            operator.settings = decode_operator(block_freq, regs);
        }
    }
}

/// Decodes an operator from its registers 40, 60, 80, A0, C0 and E0.
fn decode_operator(block_freq: u16, regs: [u8; 6]) -> OperatorSettings {
    let [pitch, level, attack, decay, sustain, release] = regs;
    let key_code = (block_freq >> 8) as u8;
    let mut settings = OperatorSettings {
        pitch: Pitch {
            block_freq,
            note_offset: COARSE_DETUNE[usize::from(sustain >> 6)],
            detune: detune(pitch >> 4 & 7, key_code) as i8,
            multiple: ((pitch & 15) * 2).max(1),
        },
        total_level: u16::from(level & 0x7f) << 3,
        am: decay & 0x80 != 0,
        ..OperatorSettings::default()
    };
    settings.rates.set(
        key_code >> (attack >> 6 ^ 3),
        [attack, decay, sustain, release],
    );
    settings.step = Opm::phase_step(&settings.pitch, 0, 0);
    settings
}
