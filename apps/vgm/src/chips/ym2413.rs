//! The YM2413 (OPLL): nine channels of two operators that play instruments from a ROM, or six
//! channels and five drums. The VRC7 is the same chip with another ROM.
//!
//! | register | bits | |
//! |---|---|---|
//! | 00, 01 | `APSKmmmm` | user instrument, operators 1 and 2: tremolo, vibrato, sustaining, key scaling of rates; multiple |
//! | 02 | `kkllllll` | operator 1: key scaling of level; total level |
//! | 03 | `kk-21fff` | operator 2: key scaling of level; half waves of 2 and 1; feedback |
//! | 04, 05 | `aaaadddd` | attack, decay |
//! | 06, 07 | `ssssrrrr` | sustain level, release |
//! | 0E | `--Rbstch` | rhythm mode and the keys of its drums |
//! | 10–18 | `ffffffff` | frequency number, low 8 bits |
//! | 20–28 | `--SKbbbf` | sustain, key, block, high bit of the number |
//! | 30–38 | `iiiivvvv` | instrument (0 is the user instrument), volume |
//!
//! A frame takes 72 clocks. A key-on does not cut off the old tone, because the *depress* stage
//! lets it fall first. The chip outputs its channels one after the other on two pins, melody and
//! rhythm, with a converter of 9 bits. Like ymfm, we output their mean.
//!
//! We leave out the test register on purpose.
//!
//! Source: Yamaha YM2413 application manual; the instruments as read out by David Viens and Hubert
//! Lamontagne ("Copyright-free OPLL(x) ROM patches"); details as in ymfm.

use super::Rate;
use super::fm::envelope::Stage;
use super::fm::operator::{BLOCK, OperatorSettings, Pitch, key};
use super::opl::algorithms::Family;
use super::opl::bank::{Bank, VoiceMask};
use super::opl::channel::Role;
use super::opl::registers::{level_scaling, multiple, rates};
use super::opl::waves::WAVES;
use crate::chips::info::{ChipInfo, Create, DRUM_VOICES, Level, VoiceGroup, YMFM};
use crate::format::ChipId;

/// The entry of the YM2413 in the list of chips.
pub const INFO: ChipInfo = ChipInfo {
    chip: ChipId::Ym2413,
    name: "YM2413, VRC7",
    verification: YMFM,
    ratio: Some(5.2),
    // The core outputs the mean of nine channels.
    level: Level::new(9.0 / 16.0, 0x200, 0.5),
    voices: &[
        VoiceGroup::Counted("FM", 9),
        VoiceGroup::Named(&DRUM_VOICES),
    ],
    cost_ns: 95,
    memory_blocks: &[],
    create: Create::ByFactory,
};

const CHANNELS: usize = 9;

/// The rate of the depress stage: 20 ms for 96 dB.
const DEPRESS_RATE: u8 = 12 * 4;

/// The release rate of percussive instruments: 0.66 s for 96 dB.
const RELEASE_RATE: u8 = 7 * 4;

/// The release rate if a channel's sustain bit is set: 2.6 s for 96 dB.
const SUSTAINED_RELEASE_RATE: u8 = 5 * 4;

/// An instrument, as in registers 00 to 07.
type Instrument = [u8; 8];

/// The instruments 1 to 15.
type Instruments = [Instrument; 15];

#[rustfmt::skip]
static YM2413_INSTRUMENTS: Instruments = [
    [0x71, 0x61, 0x1e, 0x17, 0xef, 0x7f, 0x00, 0x17], // violin
    [0x13, 0x41, 0x1a, 0x0d, 0xf8, 0xf7, 0x23, 0x13], // guitar
    [0x13, 0x01, 0x99, 0x00, 0xf2, 0xc4, 0x11, 0x23], // piano
    [0x31, 0x61, 0x0e, 0x07, 0x98, 0x64, 0x70, 0x27], // flute
    [0x22, 0x21, 0x1e, 0x06, 0xbf, 0x76, 0x00, 0x28], // clarinet
    [0x31, 0x22, 0x16, 0x05, 0xe0, 0x71, 0x0f, 0x18], // oboe
    [0x21, 0x61, 0x1d, 0x07, 0x82, 0x8f, 0x10, 0x07], // trumpet
    [0x23, 0x21, 0x2d, 0x14, 0xff, 0x7f, 0x00, 0x07], // organ
    [0x41, 0x61, 0x1b, 0x06, 0x64, 0x65, 0x10, 0x17], // horn
    [0x61, 0x61, 0x0b, 0x18, 0x85, 0xff, 0x81, 0x07], // synthesizer
    [0x13, 0x01, 0x83, 0x11, 0xfa, 0xe4, 0x10, 0x04], // harpsichord
    [0x17, 0x81, 0x23, 0x07, 0xf8, 0xf8, 0x22, 0x12], // vibraphone
    [0x61, 0x50, 0x0c, 0x05, 0xf2, 0xf5, 0x29, 0x42], // synthesizer bass
    [0x01, 0x01, 0x54, 0x03, 0xc3, 0x92, 0x03, 0x02], // acoustic bass
    [0x41, 0x41, 0x89, 0x03, 0xf1, 0xe5, 0x11, 0x13], // electric guitar
];

#[rustfmt::skip]
static VRC7_INSTRUMENTS: Instruments = [
    [0x03, 0x21, 0x05, 0x06, 0xc8, 0x81, 0x42, 0x27], // bell
    [0x13, 0x41, 0x14, 0x0d, 0xf8, 0xf7, 0x23, 0x12], // guitar
    [0x31, 0x11, 0x08, 0x08, 0xfa, 0xc2, 0x28, 0x22], // electric piano
    [0x31, 0x61, 0x0c, 0x07, 0xf8, 0x64, 0x60, 0x27], // flute
    [0x22, 0x21, 0x1e, 0x06, 0xff, 0x76, 0x00, 0x28], // clarinet
    [0x02, 0x01, 0x05, 0x00, 0xac, 0xf2, 0x03, 0x02], // synthesizer
    [0x21, 0x61, 0x1d, 0x07, 0x82, 0x8f, 0x10, 0x07], // trumpet
    [0x23, 0x21, 0x22, 0x17, 0xff, 0x73, 0x00, 0x17], // organ
    [0x15, 0x11, 0x25, 0x00, 0x41, 0x71, 0x00, 0xf1], // bells
    [0x95, 0x01, 0x10, 0x0f, 0xb8, 0xaa, 0x50, 0x02], // vibes
    [0x17, 0xc1, 0x5e, 0x07, 0xfa, 0xf8, 0x22, 0x12], // vibraphone
    [0x71, 0x23, 0x11, 0x06, 0x65, 0x74, 0x10, 0x16], // tutti
    [0x01, 0x02, 0xd3, 0x05, 0xf3, 0x92, 0x83, 0xf2], // fretless bass
    [0x61, 0x63, 0x0c, 0x00, 0xa4, 0xff, 0x30, 0x06], // synthesizer bass
    [0x21, 0x62, 0x0d, 0x00, 0xa1, 0xff, 0x50, 0x08], // sweep
];

/// The instruments of channels 6 to 8 in rhythm mode.
static DRUMS: [Instrument; 3] = [
    [0x01, 0x01, 0x18, 0x0f, 0xdf, 0xf8, 0x6a, 0x6d],
    [0x01, 0x01, 0x00, 0x00, 0xc8, 0xd8, 0xa7, 0x48],
    [0x05, 0x01, 0x00, 0x00, 0xf8, 0xaa, 0x59, 0x55],
];

#[derive(Clone)]
struct Opll;

impl Family for Opll {
    const DELAY: bool = true;
    const DROPPED: u32 = 5;
    const LIMIT: i32 = 256;
    const HAT_PHASE: usize = 0;
}

/// The YM2413 or VRC7.
///
/// ```
/// use creel_vgm::chips::ym2413::Ym2413;
///
/// let mut chip = Ym2413::new(3_579_545);
/// for (reg, value) in [(0x30, 0x80), (0x10, 0x22), (0x20, 0x19)] {
///     chip.write(0, reg, value); // A4 on the organ
/// }
/// let mut frames = [[0; 2]; 1000];
/// chip.render(&mut frames);
/// assert!(frames.iter().any(|frame| frame[0] > 1000));
/// ```
#[derive(Clone)]
pub struct Ym2413 {
    clock_hz: u32,
    instruments: &'static Instruments,
    regs: [u8; 0x40],
    /// The channels whose registers must be decoded, one bit per channel.
    stale: u16,
    bank: Bank<CHANNELS>,
    /// The sums of a block for melody and rhythm.
    sums: [[i32; BLOCK]; 2],
}

impl Ym2413 {
    /// Creates a YM2413 in its state after reset, at `clock_hz`.
    pub fn new(clock_hz: u32) -> Self {
        let mut bank = Bank::default();
        bank.lfo.deep_am = true;
        bank.lfo.deep_pm = true;
        Self {
            clock_hz,
            instruments: &YM2413_INSTRUMENTS,
            regs: [0; 0x40],
            stale: u16::MAX,
            bank,
            sums: [[0; BLOCK]; 2],
        }
    }

    /// Creates a VRC7 (DS1001) in its state after reset, at `clock_hz`.
    pub fn new_vrc7(clock_hz: u32) -> Self {
        Self {
            instruments: &VRC7_INSTRUMENTS,
            ..Self::new(clock_hz)
        }
    }

    /// Returns the native rate, which is a 72nd of the clock.
    ///
    /// For example, it is 49,716 Hz at 3.579545 MHz.
    pub fn rate(&self) -> Rate {
        Rate {
            frames: u64::from(self.clock_hz),
            seconds: 72,
        }
    }

    /// Writes a register between two frames.
    ///
    /// `_port` is ignored, because the chip has only one port.
    pub fn write(&mut self, _port: u8, reg: u8, value: u8) {
        self.bank.mark_written();
        let Some(slot) = self.regs.get_mut(usize::from(reg)) else {
            return;
        };
        *slot = value;
        self.stale |= match reg {
            0x10..=0x3f if reg & 15 < 9 => 1 << (reg & 15),
            0x10.. => 0,
            _ => u16::MAX,
        };
        match reg {
            0x0e => self
                .bank
                .set_drum_keys(if value & 0x20 != 0 { value } else { 0 }),
            0x20..=0x28 => {
                let keys = if value & 0x10 != 0 { 3 } else { 0 };
                self.bank.set_keys(usize::from(reg & 15), key::NORMAL, keys);
            }
            _ => {}
        }
    }

    /// Mutes all voices except those in `voices`, one bit per voice: nine channels, then five
    /// drums.
    pub fn set_voice_mask(&mut self, voices: u64) {
        self.bank.voice_mask = VoiceMask::of_voices(voices, CHANNELS as u32);
    }

    /// Overwrites `out` with the next native frames, with equal sides.
    ///
    /// A value is the sum of melody and rhythm and fits into 17 bits.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        self.render_pins(out);
        for frame in out {
            *frame = [frame[0] + frame[1]; 2];
        }
    }

    /// Overwrites `out` with the next native frames of the two pins, melody and rhythm, with 16
    /// bits each.
    pub fn render_pins(&mut self, out: &mut [[i32; 2]]) {
        let mut rest = out;
        while !rest.is_empty() {
            let frames = self.render_sums(rest.len());
            let (block, after) = rest.split_at_mut(frames);
            let [melody, rhythm] = &self.sums;
            for (frame, (melody, rhythm)) in block.iter_mut().zip(melody.iter().zip(rhythm)) {
                *frame = [melody, rhythm].map(|sum| sum * 128 / CHANNELS as i32);
            }
            rest = after;
        }
    }

    /// Renders a block of at most `wanted` frames into `sums`, and returns the number of frames.
    fn render_sums(&mut self, wanted: usize) -> usize {
        for i in 0..CHANNELS {
            if self.stale >> i & 1 != 0 {
                self.decode_channel(i);
            }
        }
        self.stale = 0;
        let frames = self.bank.begin(wanted);
        let sums = &mut self.sums;
        for sum in sums.iter_mut() {
            sum[..frames].fill(0);
        }
        self.bank.render::<Opll>(frames, |outputs, values| {
            let sum = &mut sums[usize::from(outputs >> 1 & 1)];
            for (sum, &value) in sum[..frames].iter_mut().zip(values) {
                *sum += i32::from(value);
            }
        });
        frames
    }

    fn role(&self, i: usize) -> Role {
        match (self.regs[0x0e] & 0x20 != 0, i) {
            (true, 6) => Role::BassDrum,
            (true, 7) => Role::HatAndSnare,
            (true, 8) => Role::TomAndCymbal,
            _ => Role::Pair,
        }
    }

    fn instrument(&self, i: usize, role: Role) -> Instrument {
        match (role, self.regs[0x30 + i] >> 4) {
            (Role::Pair, 0) => std::array::from_fn(|reg| self.regs[reg]),
            (Role::Pair, number) => self.instruments[usize::from(number) - 1],
            _ => DRUMS[i - 6],
        }
    }

    fn decode_channel(&mut self, i: usize) {
        let role = self.role(i);
        let instrument = self.instrument(i, role);
        let [tune, volumes] = [0x20, 0x30].map(|base| self.regs[base + i]);
        let number = u16::from(tune & 15) << 8 | u16::from(self.regs[0x10 + i]);
        let channel = &mut self.bank.channels[i];
        channel.role = role;
        channel.outputs = if role == Role::Pair { 1 } else { 2 };
        channel.feedback.level = instrument[3] & 7;
        let drum_pair = matches!(role, Role::HatAndSnare | Role::TomAndCymbal);
        let levels = [
            if drum_pair {
                volumes >> 4 << 2
            } else {
                instrument[2] & 63
            },
            (volumes & 15) << 2,
        ];
        for (k, level) in levels.into_iter().enumerate() {
            channel.operators[k].settings =
                decode_operator(&instrument, k, number, tune & 0x20 != 0);
            channel.operators[k].settings.total_level += u16::from(level) << 3;
            channel.waves[k] = &WAVES[usize::from(instrument[3] >> (3 + k) & 1)];
            channel.vibrato[k] = instrument[k] & 0x40 != 0;
        }
    }
}

/// Decodes operator `k` of an instrument, without its level.
fn decode_operator(
    instrument: &Instrument,
    k: usize,
    number: u16,
    sustained: bool,
) -> OperatorSettings {
    // The format is that of the OPL, with one bit less in the number.
    let block_freq = number << 1;
    let control = instrument[k];
    let mut rates = rates(
        control,
        (number >> 8) as u8,
        [instrument[4 + k], instrument[6 + k]],
    );
    rates.rate[Stage::Depress as usize] = DEPRESS_RATE;
    let is_percussive = control & 0x20 == 0;
    if sustained {
        rates.rate[Stage::Release as usize] = SUSTAINED_RELEASE_RATE;
    } else if is_percussive {
        rates.rate[Stage::Release as usize] = RELEASE_RATE;
    }
    OperatorSettings {
        pitch: Pitch {
            block_freq,
            multiple: multiple(control),
            ..Pitch::default()
        },
        rates,
        total_level: level_scaling(block_freq, instrument[2 + k] >> 6),
        am: control & 0x80 != 0,
        ..OperatorSettings::default()
    }
}
