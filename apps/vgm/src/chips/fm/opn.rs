//! The FM part of the OPN family: registers, LFO and channels.
//!
//! | register | bits | |
//! |---|---|---|
//! | 22 | `----x---` | LFO on (not on the YM2203) |
//! | 22 | `-----xxx` | LFO frequency |
//! | 24, 25 | `xxxxxxxx`, `------xx` | timer A, high and low bits |
//! | 26 | `xxxxxxxx` | timer B |
//! | 27 | `xx------` | channel 3: four frequencies if not 0; keys by timer A (CSM) if 2 |
//! | 27 | `-------x` | run timer A; the other bits concern flags and timer B |
//! | 28 | `4321----` | keys of operators 4 to 1 |
//! | 28 | `-----xxx` | of this channel: 0–2, 4–6 |
//! | 30–3F | `-xxx----` | detune |
//! | 30–3F | `----xxxx` | multiple |
//! | 40–4F | `-xxxxxxx` | total level |
//! | 50–5F | `xx-xxxxx` | key scaling, attack rate |
//! | 60–6F | `x--xxxxx` | LFO amplitude on, decay rate |
//! | 70–7F | `---xxxxx` | sustain rate |
//! | 80–8F | `xxxxxxxx` | sustain level, release rate |
//! | 90–9F | `----xxxx` | SSG-EG |
//! | A0–A2 | `xxxxxxxx` | frequency number, low; applies the latched high bits |
//! | A4–A6 | `--xxxxxx` | block, frequency number, high |
//! | A8–AA, AC–AE | | the same for operators 3, 1, 2 of channel 3 |
//! | B0–B2 | `--xxxxxx` | feedback, algorithm |
//! | B4–B6 | `LR------` | outputs (not on the YM2203) |
//! | B4–B6 | `--xx-xxx` | LFO sensitivity, amplitude and pitch |
//!
//! On chips with six channels, registers from 30 on exist once per port. The low two address bits
//! select the channel. The two bits above select the operator in the order 1, 3, 2, 4, where the
//! numbers are the order of computation.
//!
//! Source: the YM2203, YM2608 and YM2612 application manuals; what they leave open follows ymfm
//! (BSD-3-Clause, Aaron Giles) as of ymfm-sys 0.2, in which the high bits of a frequency number are
//! latched once for both ports.

use super::algorithms::{OutputWidth, Sums, ThirteenBits, Values};
use super::bank::{Bank, Block, ChannelLfoSegment, ChannelSettings, Family, push_segment};
use super::operator::{BLOCK, OperatorSettings, Pitch};
use super::ssg_eg::SsgEg;
use super::tables::detune;
use crate::chips::adpcm_a::AdpcmA;
use crate::chips::adpcm_b::AdpcmB;

/// The register offset of an operator, by its position in the computation.
const OPERATOR_OFFSETS: [usize; 4] = [0, 8, 4, 12];

/// The registers of channel 3's additional frequencies, by the operator's position in the
/// computation. The fourth operator uses the channel's frequency.
const OWN_FREQUENCIES: [usize; 3] = [1, 2, 0];

/// Channel 3, which can have four frequencies and keys pressed by timer A.
const SPECIAL: usize = 2;

/// The number of channels per port.
const PER_PORT: usize = 3;

/// The channels of a complete OPNA. An OPN has the first three of them.
pub const ALL: u8 = 0x3f;

/// The FM part of a chip with `CHANNELS` channels: 3 (OPN) or 6.
#[derive(Clone)]
pub struct Opn<const CHANNELS: usize> {
    regs: [[u8; 256]; 2],
    /// The latched high bits of a frequency number, for A4 to A6 and for AC to AE.
    latches: [u8; 2],
    /// The channels whose registers must be decoded, one bit per channel.
    stale: u8,
    bank: Bank<CHANNELS>,
    lfo: OpnLfo,
    segments: Vec<ChannelLfoSegment>,
}

/// The prescaler of YM2203 and YM2608.
#[derive(Clone, Copy, Debug)]
pub struct Prescaler(u8);

impl Default for Prescaler {
    fn default() -> Self {
        Self(6)
    }
}

impl Prescaler {
    /// Applies a write. The prescaler depends on the address of the register, and the value is
    /// ignored.
    pub fn select(&mut self, port: u8, reg: u8) {
        self.0 = match (port & 1, reg) {
            (0, 0x2d) => 6,
            (0, 0x2e) if self.0 == 6 => 3,
            (0, 0x2f) => 2,
            _ => self.0,
        };
    }

    /// Returns the divider of the FM: 6, 3 or 2.
    pub fn fm(self) -> u32 {
        u32::from(self.0)
    }

    /// Returns the divider of the SSG: 4, 2 or 1.
    pub fn ssg(self) -> u32 {
        u32::from(self.0 * 2 / 3)
    }
}

#[derive(Clone)]
struct OpnFamily;

impl Family for OpnFamily {
    fn phase_step(pitch: &Pitch, sensitivity: u8, pm: i16) -> u32 {
        let number = i32::from(pitch.block_freq & 0x7ff) << 1;
        let bend = bend(pitch.block_freq >> 4 & 0x7f, sensitivity, pm);
        let block = pitch.block_freq >> 11 & 7;
        let step = ((((number + bend) & 0xfff) as u32) << block) >> 2;
        let step = step.wrapping_add_signed(i32::from(pitch.detune)) & 0x1_ffff;
        (step * u32::from(pitch.multiple)) >> 1
    }

    fn am_attenuation(am: u8, sensitivity: u8) -> u16 {
        [0, u16::from(am) >> 2, u16::from(am), u16::from(am) << 1][usize::from(sensitivity & 3)]
    }
}

/// Returns the change that the LFO makes to a frequency number with these upper seven bits.
fn bend(upper: u16, sensitivity: u8, pm: i16) -> i32 {
    /// Two right shifts for each sensitivity and LFO level. The change is the sum of both results.
    const SHIFTS: [[u8; 8]; 6] = [
        [0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77],
        [0x77, 0x77, 0x77, 0x77, 0x72, 0x72, 0x72, 0x72],
        [0x77, 0x77, 0x77, 0x72, 0x72, 0x72, 0x17, 0x17],
        [0x77, 0x77, 0x72, 0x72, 0x17, 0x17, 0x12, 0x12],
        [0x77, 0x77, 0x72, 0x17, 0x17, 0x17, 0x12, 0x07],
        [0x77, 0x77, 0x17, 0x12, 0x07, 0x07, 0x02, 0x01],
    ];
    let sensitivity = usize::from(sensitivity & 7);
    let shifts = SHIFTS[sensitivity.min(5)][usize::from(pm.unsigned_abs() & 7)];
    let sum = (upper >> (shifts & 15)) + (upper >> (shifts >> 4));
    let moved = i32::from(sum) << sensitivity.saturating_sub(5) >> 2;
    if pm < 0 { -moved } else { moved }
}

impl<const CHANNELS: usize> Opn<CHANNELS> {
    const IS_OPNA: bool = CHANNELS > PER_PORT;

    /// Creates the FM part in its state after reset, with the channels in `present`.
    pub fn new(present: u8) -> Self {
        let mut regs = [[0; 256]; 2];
        for port in &mut regs {
            port[0xb4..=0xb6].fill(0xc0);
        }
        Self {
            regs,
            latches: [0; 2],
            stale: ALL,
            bank: Bank::new(present, 1 << SPECIAL),
            lfo: OpnLfo::default(),
            segments: Vec::with_capacity(BLOCK),
        }
    }

    /// Returns the channels with their clocks.
    pub fn bank(&self) -> &Bank<CHANNELS> {
        &self.bank
    }

    /// Returns the outputs of channel 6, which the DAC of the YM2612 uses.
    pub fn last_outputs(&self) -> [bool; 2] {
        [0x80, 0x40].map(|bit| self.regs[1][0xb6] & bit != 0)
    }

    /// Sets the prescaler of the chip.
    pub fn set_prescaler(&mut self, prescaler: Prescaler) {
        self.bank.timer.set_unit(prescaler.fm());
    }

    /// Writes an FM register. The YM2203 has port 0 only.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        let port = if Self::IS_OPNA {
            usize::from(port & 1)
        } else {
            0
        };
        self.bank.mark_written();
        match reg {
            0xa0..=0xaf => self.write_frequency(port, reg, value),
            0xb8..=0xbf => {}
            0x30.. => {
                self.regs[port][usize::from(reg)] = value;
                self.mark_stale(port, reg & 3);
            }
            _ if port == 0 => self.write_global(reg, value),
            _ => {}
        }
    }

    fn write_frequency(&mut self, port: usize, reg: u8, value: u8) {
        let latch = &mut self.latches[usize::from(reg >> 3 & 1)];
        if reg & 3 == 3 {
        } else if reg & 4 != 0 {
            *latch = value & 0x3f;
        } else {
            self.regs[port][usize::from(reg)] = value;
            self.regs[port][usize::from(reg | 4)] = *latch;
            let channel = if reg & 8 != 0 { SPECIAL as u8 } else { reg & 3 };
            self.mark_stale(port, channel);
        }
    }

    fn write_global(&mut self, reg: u8, value: u8) {
        self.regs[0][usize::from(reg)] = value;
        match reg {
            0x22 if Self::IS_OPNA => {
                self.lfo.control = value;
                self.stale = ALL;
            }
            0x24 => self.bank.timer.set_high(value),
            0x25 => self.bank.timer.set_low(value),
            0x27 => {
                self.bank.timer.set_mode(value & 1 != 0, value >> 6 == 2);
                self.mark_stale(0, SPECIAL as u8);
            }
            0x28 if value & 3 != 3 => {
                let upper = if Self::IS_OPNA && value & 4 != 0 {
                    PER_PORT
                } else {
                    0
                };
                self.bank
                    .set_keys(usize::from(value & 3) + upper, value >> 4);
            }
            _ => {}
        }
    }

    fn mark_stale(&mut self, port: usize, channel: u8) {
        self.stale |= 1 << (port * PER_PORT + usize::from(channel.min(2)));
    }

    /// Applies the written registers and returns the number of frames in the next block, at most
    /// `wanted`.
    ///
    /// You must call this before each block.
    pub fn begin(&mut self, wanted: usize) -> usize {
        for i in 0..CHANNELS {
            if self.stale >> i & 1 != 0 {
                self.decode_channel(i);
            }
        }
        self.stale = 0;
        self.bank.begin(wanted)
    }

    /// Renders the block of `frames` that [`begin`](Self::begin) returned.
    ///
    /// Calls `sink` with the settings and values of each channel in `audible` that may be audible.
    pub fn render<W: OutputWidth>(
        &mut self,
        frames: usize,
        audible: u8,
        sink: impl FnMut(&ChannelSettings, &Values),
    ) {
        if Self::IS_OPNA {
            self.lfo.run(frames, &mut self.segments);
        } else {
            self.segments.clear();
            self.segments.push(ChannelLfoSegment {
                frames,
                am: 0,
                pm: 0,
            });
        }
        let block = Block {
            lfo: &self.segments,
            audible,
            noise: None,
        };
        self.bank.render::<OpnFamily, W>(block, sink);
    }

    /// Overwrites `out` with the sum of the FM channels in `audible` and of ADPCM-A and ADPCM-B, left
    /// and right, with 16 bits per value. The YM2608 and the YM2610 have such a sum.
    pub fn render_with_adpcm(
        &mut self,
        audible: u8,
        (adpcm_a, adpcm_b): (&mut AdpcmA, &mut AdpcmB),
        out: &mut [[i32; 2]],
    ) {
        let mut rest = out;
        while !rest.is_empty() {
            let frames = self.begin(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            let clock = self.bank.clock;
            let mut sums = Sums::new(frames, 0);
            self.render::<ThirteenBits>(frames, audible, |channel, values| {
                sums.add(channel.outputs, values, |value| value);
            });
            sums.write(block, |value| value);
            adpcm_a.render(&clock, block);
            adpcm_b.render(block);
            for value in block.as_flattened_mut() {
                *value = (*value).clamp(-0x8000, 0x7fff);
            }
            rest = after;
        }
    }

    fn decode_channel(&mut self, i: usize) {
        let (regs, offset) = (&self.regs[i / PER_PORT], i % PER_PORT);
        let channel = &mut self.bank.channels[i];
        let (connection, control) = (regs[0xb0 + offset], regs[0xb4 + offset]);
        let bends = self.lfo.control & 8 != 0;
        channel.settings = ChannelSettings {
            algorithm: connection & 7,
            outputs: [0x80, 0x40].map(|bit| !Self::IS_OPNA || control & bit != 0),
            pm_sensitivity: if bends { control & 7 } else { 0 },
            am_sensitivity: control >> 4 & 3,
        };
        channel.feedback.level = connection >> 3 & 7;
        let own = i == SPECIAL && regs[0x27] & 0xc0 != 0;
        for (k, operator) in channel.operators.iter_mut().enumerate() {
            let at = match OWN_FREQUENCIES.get(k) {
                Some(place) if own => 0xa8 + place,
                _ => 0xa0 + offset,
            };
            let block_freq = u16::from_be_bytes([regs[at | 4] & 0x3f, regs[at]]);
            let at = OPERATOR_OFFSETS[k] + offset;
            let regs = std::array::from_fn(|group| regs[0x30 + 0x10 * group + at]);
            operator.settings = decode_operator(block_freq, regs);
        }
    }
}

/// Decodes an operator from its registers 30, 40, 50, 60, 70, 80 and 90.
fn decode_operator(block_freq: u16, regs: [u8; 7]) -> OperatorSettings {
    let [pitch, level, attack, decay, sustain, release, ssg_eg] = regs;
    // The last bit of the key code depends on the upper four bits of the frequency number. The
    // highest one decides, unless the other three are all equal to its opposite.
    let note = 0xfe80u16 >> (block_freq >> 7 & 15) & 1;
    let key_code = ((block_freq >> 10 & 15) << 1 | note) as u8;
    let mut settings = OperatorSettings {
        pitch: Pitch {
            block_freq,
            note_offset: 0,
            detune: detune(pitch >> 4 & 7, key_code) as i8,
            multiple: ((pitch & 15) * 2).max(1),
        },
        total_level: u16::from(level & 0x7f) << 3,
        am: decay & 0x80 != 0,
        ssg_eg: SsgEg(ssg_eg & 15),
        ..OperatorSettings::default()
    };
    settings.rates.set(
        key_code >> (attack >> 6 ^ 3),
        [attack, decay, sustain, release],
    );
    settings.step = OpnFamily::phase_step(&settings.pitch, 0, 0);
    settings
}

/// The LFO: a divider and a triangle of 128 steps.
#[derive(Clone, Debug, Default)]
struct OpnLfo {
    /// Register 22, with the frequency and the bit that switches the LFO on.
    control: u8,
    /// The count of frames, which restarts at 2 with each step of the triangle.
    divider: u8,
    /// The position in the triangle of 128 steps.
    step: u8,
}

impl OpnLfo {
    /// The value of `divider` after which a step is due, for each frequency.
    const LIMITS: [u8; 8] = [109, 78, 72, 68, 63, 45, 9, 6];

    fn run(&mut self, frames: usize, out: &mut Vec<ChannelLfoSegment>) {
        out.clear();
        if self.control & 8 == 0 {
            (self.divider, self.step) = (0, 0);
            push_segment(out, frames, 0x3f, 0);
            return;
        }
        let limit = Self::LIMITS[usize::from(self.control & 7)];
        let mut left = frames;
        while left > 0 {
            let stays = usize::from(limit.saturating_sub(self.divider));
            let here = stays.min(left);
            if here > 0 {
                self.divider += here as u8;
                self.push(here, out);
            }
            left -= here;
            if left > 0 {
                self.step = (self.step + 1) & 0x7f;
                self.divider = 2;
                self.push(1, out);
                left -= 1;
            }
        }
    }

    fn push(&self, frames: usize, out: &mut Vec<ChannelLfoSegment>) {
        let am = if self.step & 0x40 != 0 {
            self.step & 0x3f
        } else {
            !self.step & 0x3f
        };
        let quarter = self.step >> 2;
        let level = i16::from(if quarter & 8 != 0 {
            !quarter & 7
        } else {
            quarter & 7
        });
        push_segment(
            out,
            frames,
            am,
            if quarter & 0x10 != 0 { -level } else { level },
        );
    }
}
