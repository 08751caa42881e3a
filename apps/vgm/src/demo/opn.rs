//! Plays the demo songs on the OPN family. Its chips have FM with four operators, and some of them
//! also have an SSG, two kinds of ADPCM, or a DAC.

use super::adpcm;
use super::patch::{Patch, is_heard, patch_of, softer};
use super::perform::{Orchestra, hz};
use super::psg;
use super::score::{Note, Role};
use super::ssg::Ssg;
use super::writer::Writer;
use crate::format::ChipId;

/// The section of the chip that plays a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Player {
    /// An FM channel, given by a port of the chip and a channel of this port.
    Fm(u8, u8),
    /// A square wave of the SSG.
    Square(u8),
    /// The noise and the envelope of the SSG.
    Noise,
    /// The string on ADPCM-B.
    Sample,
    /// The drums on ADPCM-A, with one channel per drum.
    Samples,
    /// The drums on the DAC, played by a stream.
    Dac,
    /// A square wave of the SN76489 in the same machine.
    Psg(u8),
    /// The part is left out.
    None,
}

use Player::{Dac, Fm, Noise, Psg, Sample, Samples, Square};

/// A chip of the family, and the assignment of parts to its sections.
pub struct Opn {
    chip: ChipId,
    clock_hz: u32,
    /// The number of clocks per native frame of the FM.
    divider: f64,
    /// The VGM commands that write to the two ports of the chip.
    commands: [u8; 2],
    ssg: Option<Ssg>,
    /// The players of the lead, the echo, the arpeggio, three chord notes, the bass and the drums.
    players: [Player; 8],
    system: &'static str,
    /// The samples of ADPCM-A or of the DAC, with the position and length of each drum.
    drums: (Vec<u8>, [(u32, u32); adpcm::DRUMS]),
    /// The samples of ADPCM-B.
    string: Vec<u8>,
}

/// The frequency of the string's sample in Hz.
const STRING_HZ: f64 = 220.0;
/// The sample rate of the string's sample in Hz.
const STRING_RATE: f64 = 16_000.0;
const STRING_SECONDS: f64 = 0.9;
/// The sample rate of the drums on the DAC in Hz.
const DAC_RATE: u32 = 11_025;

const PARTS: [Role; 8] = [
    Role::Lead,
    Role::Echo,
    Role::Arpeggio,
    Role::Chord(0),
    Role::Chord(1),
    Role::Chord(2),
    Role::Bass,
    Role::Drums,
];

impl Opn {
    fn of(chip: ChipId, clock_hz: u32, commands: [u8; 2], players: [Player; 8]) -> Self {
        Opn {
            chip,
            clock_hz,
            divider: 144.0,
            commands,
            ssg: Some(Ssg {
                command: commands[0],
                clock_hz: f64::from(clock_hz) / 4.0,
            }),
            players,
            system: chip.name(),
            drums: (Vec::new(), [(0, 0); adpcm::DRUMS]),
            string: Vec::new(),
        }
    }

    /// Creates the orchestra of the YM2203, which has three FM channels and an SSG.
    pub fn ym2203() -> Self {
        let clock_hz = 4_000_000;
        let players = [
            Fm(0, 0),
            Square(0),
            Fm(0, 1),
            Square(1),
            Player::None,
            Player::None,
            Fm(0, 2),
            Noise,
        ];
        Opn {
            divider: 72.0,
            ssg: Some(Ssg {
                command: 0x55,
                clock_hz: f64::from(clock_hz) / 2.0,
            }),
            ..Opn::of(ChipId::Ym2203, clock_hz, [0x55, 0x55], players)
        }
    }

    /// Creates the orchestra of the YM2608, which has six FM channels, an SSG and ADPCM-B. We do
    /// not use its rhythm section, because we may not distribute its ROM.
    pub fn ym2608() -> Self {
        let players = [
            Fm(0, 0),
            Fm(0, 1),
            Sample,
            Fm(0, 2),
            Fm(1, 0),
            Fm(1, 1),
            Fm(1, 2),
            Noise,
        ];
        let mut opn = Opn::of(ChipId::Ym2608, 8_000_000, [0x56, 0x57], players);
        opn.string = adpcm::b(&string(), 32);
        opn
    }

    /// Creates the orchestra of the YM2610, which has four FM channels, an SSG, ADPCM-A and
    /// ADPCM-B.
    pub fn ym2610() -> Self {
        let players = [
            Fm(0, 1),
            Fm(0, 2),
            Sample,
            Fm(1, 1),
            Square(0),
            Square(1),
            Fm(1, 2),
            Samples,
        ];
        let mut opn = Opn::of(ChipId::Ym2610, 8_000_000, [0x58, 0x59], players);
        opn.drums = places(|which| adpcm::a(&adpcm::drum(which, 8_000_000.0 / 432.0)));
        opn.string = adpcm::b(&string(), 256);
        opn
    }

    /// Creates the orchestra of the Mega Drive, which has a YM2612 and an SN76489.
    pub fn mega_drive() -> Self {
        let players = [
            Fm(0, 0),
            Psg(0),
            Fm(0, 1),
            Fm(0, 2),
            Fm(1, 0),
            Psg(1),
            Fm(1, 1),
            Dac,
        ];
        let mut opn = Opn::of(ChipId::Ym2612, 7_670_453, [0x52, 0x53], players);
        opn.ssg = None;
        opn.system = "YM2612 and SN76489";
        opn.drums = places(|which| {
            let sound = adpcm::drum(which, f64::from(DAC_RATE));
            sound
                .iter()
                .map(|sample| (128.0 + 100.0 * sample) as u8)
                .collect()
        });
        opn
    }

    fn player(&self, role: Role) -> Player {
        let place = PARTS.iter().position(|part| *part == role);
        place.map_or(Player::None, |place| self.players[place])
    }

    fn write(&self, out: &mut Writer, port: u8, reg: u8, value: u8) {
        out.command(&[self.commands[usize::from(port)], reg, value]);
    }

    fn load(&self, out: &mut Writer, role: Role, port: u8, channel: u8) {
        let patch = patch_of(role);
        let Patch {
            algorithm,
            feedback,
            operators,
        } = patch;
        for (place, operator) in operators.iter().enumerate() {
            let slot = [0, 8, 4, 12][place];
            let quieter = if is_heard(*algorithm, place) {
                softer(role)
            } else {
                0
            };
            let slot = slot + channel;
            let [attack, decay, sustain_rate, release] = operator.rates;
            self.write(
                out,
                port,
                0x30 + slot,
                operator.pitch.0 << 4 | operator.pitch.1,
            );
            self.write(out, port, 0x40 + slot, (operator.level + quieter).min(127));
            self.write(out, port, 0x50 + slot, 0x40 | attack);
            self.write(out, port, 0x60 + slot, decay);
            self.write(out, port, 0x70 + slot, sustain_rate);
            self.write(out, port, 0x80 + slot, operator.sustain << 4 | release);
            self.write(out, port, 0x90 + slot, 0);
        }
        self.write(out, port, 0xB0 + channel, feedback << 3 | algorithm);
        let sides = match role {
            Role::Echo => 0x80,
            Role::Chord(_) => 0x40,
            _ => 0xC0,
        };
        let vibrato = if role == Role::Lead { 3 } else { 0 };
        self.write(out, port, 0xB4 + channel, sides | vibrato);
    }

    fn key_on(&self, out: &mut Writer, (port, channel): (u8, u8), key: i32) {
        // We use the lowest octave in which the frequency number fits in 11 bits.
        let unit = hz(key) * self.divider * f64::from(1 << 20) / f64::from(self.clock_hz);
        let block = (1..8)
            .find(|block| unit / f64::from(1 << (block - 1)) < 2047.0)
            .unwrap_or(7);
        let number = (unit / f64::from(1 << (block - 1))).round() as u16;
        self.write(
            out,
            port,
            0xA4 + channel,
            (block as u8) << 3 | (number >> 8) as u8,
        );
        self.write(out, port, 0xA0 + channel, number as u8);
        self.write(out, 0, 0x28, 0xF0 | port << 2 | channel);
    }

    /// Plays the string from its first sample, at the pitch of a key.
    fn pluck(&self, out: &mut Writer, key: i32) {
        let rate = STRING_RATE * hz(key) / STRING_HZ;
        let step = (rate * self.divider / f64::from(self.clock_hz) * 65_536.0).round();
        let [low, high] = (step.min(65_535.0) as u16).to_le_bytes();
        if self.chip == ChipId::Ym2610 {
            for (reg, value) in [
                (0x10, 0x01),
                (0x10, 0x00),
                (0x19, low),
                (0x1A, high),
                (0x10, 0x80),
            ] {
                self.write(out, 0, reg, value);
            }
        } else {
            for (reg, value) in [
                (0x00, 0x01),
                (0x00, 0x20),
                (0x09, low),
                (0x0A, high),
                (0x00, 0xA0),
            ] {
                self.write(out, 1, reg, value);
            }
        }
    }

    /// Loads the string, and sets its position, level and stereo sides.
    fn load_string(&self, out: &mut Writer) {
        if self.chip == ChipId::Ym2610 {
            out.memory(0x83, &self.string);
            let [low, high] = (self.string.len() as u16 / 256 - 1).to_le_bytes();
            for (reg, value) in [
                (0x11, 0xC0),
                (0x12, 0),
                (0x13, 0),
                (0x14, low),
                (0x15, high),
                (0x1B, 0x90),
            ] {
                self.write(out, 0, reg, value);
            }
        } else if self.chip == ChipId::Ym2608 {
            out.memory(0x81, &self.string);
            let [low, high] = (self.string.len() as u16 / 32 - 1).to_le_bytes();
            // The memory has 8 bits and is addressed in units of 32 bytes.
            let regs = [
                (0x00, 0x20),
                (0x01, 0xC2),
                (0x02, 0),
                (0x03, 0),
                (0x04, low),
                (0x05, high),
            ];
            for (reg, value) in regs
                .into_iter()
                .chain([(0x0C, 0xFF), (0x0D, 0xFF), (0x0B, 0x90)])
            {
                self.write(out, 1, reg, value);
            }
        }
    }

    fn load_drums(&self, out: &mut Writer) {
        match self.player(Role::Drums) {
            Samples => {
                out.memory(0x82, &self.drums.0);
                self.write(out, 1, 0x01, 0x3F);
                for (channel, (start, length)) in (0u8..).zip(self.drums.1) {
                    let [low, high] = ((start / 256) as u16).to_le_bytes();
                    let [last_low, last_high] = (((start + length) / 256 - 1) as u16).to_le_bytes();
                    for (reg, value) in [
                        (0x08, 0xC0 | 0x1C),
                        (0x10, low),
                        (0x18, high),
                        (0x20, last_low),
                        (0x28, last_high),
                    ] {
                        self.write(out, 1, reg + channel, value);
                    }
                }
            }
            Dac => {
                out.block(0x00, &self.drums.0);
                out.command(&[0x90, 0, 0x02, 0, 0x2A]);
                out.command(&[0x91, 0, 0, 1, 0]);
                let [a, b, c, d] = DAC_RATE.to_le_bytes();
                out.command(&[0x92, 0, a, b, c, d]);
                self.write(out, 0, 0x2B, 0x80);
                self.write(out, 1, 0xB4 + 2, 0xC0);
            }
            _ => {}
        }
    }

    fn hit(&self, out: &mut Writer, which: usize) {
        match self.player(Role::Drums) {
            Samples => self.write(out, 1, 0x00, 1 << which),
            Dac => {
                let (start, length) = self.drums.1[which];
                let mut command = vec![0x93, 0];
                command.extend(start.to_le_bytes());
                command.push(1);
                command.extend(length.to_le_bytes());
                out.command(&command);
            }
            _ => {}
        }
    }
}

fn string() -> Vec<f64> {
    adpcm::string(STRING_HZ, STRING_SECONDS, STRING_RATE)
}

/// Returns all drums one after another, with the position and length of each.
fn places(encode: impl Fn(usize) -> Vec<u8>) -> (Vec<u8>, [(u32, u32); adpcm::DRUMS]) {
    let mut data = Vec::new();
    let places = std::array::from_fn(|which| {
        let sound = encode(which);
        let start = data.len() as u32;
        data.extend(&sound);
        (start, sound.len() as u32)
    });
    (data, places)
}

impl Orchestra for Opn {
    fn system(&self) -> &'static str {
        self.system
    }

    fn begin(&self) -> Writer {
        let mut out = if self.chip == ChipId::Ym2612 {
            let mut out =
                Writer::new(&[(ChipId::Sn76489, psg::CLOCK_HZ), (self.chip, self.clock_hz)]);
            psg::begin(&mut out);
            out
        } else {
            Writer::new(&[(self.chip, self.clock_hz)])
        };
        if self.chip == ChipId::Ym2608 {
            // This write enables all six channels.
            self.write(&mut out, 0, 0x29, 0x80);
        }
        // The LFO has 6 Hz. The YM2203 ignores this register, because it has no LFO.
        self.write(&mut out, 0, 0x22, 0x0A);
        if let Some(ssg) = self.ssg {
            ssg.begin(&mut out, false);
        }
        self.load_string(&mut out);
        self.load_drums(&mut out);
        for role in PARTS {
            if let Fm(port, channel) = self.player(role) {
                self.load(&mut out, role, port, channel);
            }
        }
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        let level = if note.role == Role::Echo { 9 } else { 8 };
        match (self.player(note.role), self.ssg) {
            (Fm(port, channel), _) => self.key_on(out, (port, channel), note.key),
            (Square(channel), Some(ssg)) => ssg.tone(out, channel, note.key, level),
            (Noise, Some(ssg)) => ssg.drum(out, note.key),
            (Sample, _) => self.pluck(out, note.key - 12),
            (Samples | Dac, _) => self.hit(out, note.key as usize % adpcm::DRUMS),
            (Psg(channel), _) => psg::tone(out, channel, note.key, 15 - level),
            _ => {}
        }
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        match (self.player(note.role), self.ssg) {
            (Fm(port, channel), _) => self.write(out, 0, 0x28, port << 2 | channel),
            (Square(channel), Some(ssg)) => ssg.rest(out, channel),
            (Psg(channel), _) => psg::attenuate(out, channel, 15),
            _ => {}
        }
    }
}
