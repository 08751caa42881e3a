//! Plays the demo songs on the OPL family. Its chips have two operators per channel and a rhythm
//! section. Some of them also have several waveforms, stereo or ADPCM.

use super::adpcm;
use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// A chip of the family.
pub struct Opl {
    chip: ChipId,
    clock_hz: u32,
    /// The VGM commands that write to the two ports of the chip.
    commands: [u8; 2],
    /// The sample of a string for the ADPCM of the Y8950.
    string: Vec<u8>,
}

/// The frequency of the string's sample in Hz.
const STRING_HZ: f64 = 220.0;
/// The sample rate of the string's sample in Hz.
const STRING_RATE: f64 = 16_000.0;

/// The register offsets of the modulators of channels 1 to 9. The offsets of the carriers are 3
/// higher.
const MODULATORS: [u8; 9] = [0x00, 0x01, 0x02, 0x08, 0x09, 0x0A, 0x10, 0x11, 0x12];
const RHYTHM_ON: u8 = 0x20;

/// A sound. `feedback` is the register with feedback and connection. `operators` has the registers
/// 20, 40, 60, 80 and E0 of each operator.
struct Patch {
    feedback: u8,
    operators: [[u8; 5]; 2],
}

const REED: Patch = Patch {
    feedback: 0x0C,
    operators: [[0x21, 0x1C, 0xA4, 0x35, 0], [0x61, 0x04, 0xB3, 0x27, 1]],
};
const TINE: Patch = Patch {
    feedback: 0x06,
    operators: [[0x07, 0x24, 0xF6, 0x46, 0], [0x01, 0x0A, 0xF4, 0x46, 0]],
};
const PLUCK: Patch = Patch {
    feedback: 0x08,
    operators: [[0x02, 0x1A, 0xF7, 0x58, 0], [0x01, 0x0C, 0xF6, 0x48, 2]],
};
const PAD: Patch = Patch {
    feedback: 0x06,
    operators: [[0x21, 0x22, 0x53, 0x14, 0], [0x21, 0x12, 0x62, 0x15, 0]],
};
const BASS: Patch = Patch {
    feedback: 0x0A,
    operators: [[0x21, 0x16, 0xF4, 0x48, 0], [0x21, 0x02, 0xF4, 0x38, 0]],
};
/// The sounds of the bass drum, the snare (with the hi-hat) and the tom (with the cymbal).
const DRUMS: [Patch; 3] = [
    Patch {
        feedback: 0x08,
        operators: [[0x00, 0x0B, 0xF8, 0x67, 0], [0x00, 0x00, 0xF8, 0x67, 0]],
    },
    Patch {
        feedback: 0x00,
        operators: [[0x01, 0x0A, 0xFA, 0xFA, 0], [0x01, 0x02, 0xF7, 0x87, 0]],
    },
    Patch {
        feedback: 0x00,
        operators: [[0x02, 0x08, 0xF7, 0x77, 0], [0x01, 0x08, 0xF6, 0x76, 0]],
    },
];

fn patch_of(role: Role) -> &'static Patch {
    match role {
        Role::Lead | Role::Echo => &REED,
        Role::Arpeggio | Role::Drums => &PLUCK,
        Role::Chord(0) => &TINE,
        Role::Chord(_) => &PAD,
        Role::Bass => &BASS,
    }
}

const PARTS: [Role; 6] = [
    Role::Lead,
    Role::Bass,
    Role::Arpeggio,
    Role::Chord(0),
    Role::Chord(1),
    Role::Echo,
];

impl Opl {
    fn of(chip: ChipId, command: u8) -> Self {
        Opl {
            chip,
            clock_hz: 3_579_545,
            commands: [command; 2],
            string: Vec::new(),
        }
    }

    /// Creates the orchestra of the YM3526.
    pub fn ym3526() -> Self {
        Opl::of(ChipId::Ym3526, 0x5B)
    }

    /// Creates the orchestra of the YM3812.
    pub fn ym3812() -> Self {
        Opl::of(ChipId::Ym3812, 0x5A)
    }

    /// Creates the orchestra of the Y8950.
    pub fn y8950() -> Self {
        Opl {
            string: adpcm::b(&adpcm::string(STRING_HZ, 0.9, STRING_RATE), 32),
            ..Opl::of(ChipId::Y8950, 0x5C)
        }
    }

    /// Creates the orchestra of the YMF262.
    pub fn ymf262() -> Self {
        Opl {
            clock_hz: 14_318_180,
            commands: [0x5E, 0x5F],
            ..Opl::of(ChipId::Ymf262, 0x5E)
        }
    }

    /// Returns the port and the channel of a part. The YMF262 plays the echo and the chords on its
    /// second port.
    fn place(&self, role: Role) -> Option<(u8, u8)> {
        let channel = PARTS.iter().position(|part| *part == role)? as u8;
        let second = self.chip == ChipId::Ymf262 && channel >= 3;
        Some((u8::from(second), channel))
    }

    fn write(&self, out: &mut Writer, port: u8, reg: u8, value: u8) {
        out.command(&[self.commands[usize::from(port)], reg, value]);
    }

    fn load(&self, out: &mut Writer, (port, channel): (u8, u8), sides: u8, patch: &Patch) {
        let modulator = MODULATORS[usize::from(channel)];
        for (operator, slot) in patch.operators.iter().zip([modulator, modulator + 3]) {
            for (value, base) in operator.iter().zip([0x20, 0x40, 0x60, 0x80, 0xE0]) {
                if base != 0xE0 || matches!(self.chip, ChipId::Ym3812 | ChipId::Ymf262) {
                    self.write(out, port, base + slot, *value);
                }
            }
        }
        self.write(out, port, 0xC0 + channel, sides | patch.feedback);
    }

    fn pitch(&self, out: &mut Writer, (port, channel): (u8, u8), hz: f64, key: u8) {
        // We use the lowest of the 8 octaves in which the frequency number fits in 10 bits.
        let unit = hz * f64::from(1 << 20) / 49_716.0;
        let block = (0..8)
            .find(|block| unit / f64::from(1 << block) < 1023.0)
            .unwrap_or(7);
        let number = (unit / f64::from(1 << block)).round() as u16;
        self.write(out, port, 0xA0 + channel, number as u8);
        self.write(
            out,
            port,
            0xB0 + channel,
            key | (block as u8) << 2 | (number >> 8) as u8,
        );
    }

    /// Loads the string of the Y8950 into memory of 256 Kbit chips.
    fn load_string(&self, out: &mut Writer) {
        out.memory(0x88, &self.string);
        // Addresses are in units of 4 bytes here.
        let [low, high] = (self.string.len() as u16 / 4 - 1).to_le_bytes();
        let regs = [
            (0x08, 0x00),
            (0x09, 0),
            (0x0A, 0),
            (0x0B, low),
            (0x0C, high),
            (0x12, 0x90),
        ];
        for (reg, value) in regs {
            self.write(out, 0, reg, value);
        }
    }

    fn pluck(&self, out: &mut Writer, key: i32) {
        let rate = STRING_RATE * hz(key) / STRING_HZ;
        let step = (rate / 49_716.0 * 65_536.0).round().min(65_535.0);
        let [low, high] = (step as u16).to_le_bytes();
        for (reg, value) in [
            (0x07, 0x01),
            (0x07, 0x20),
            (0x10, low),
            (0x11, high),
            (0x07, 0xA0),
        ] {
            self.write(out, 0, reg, value);
        }
    }
}

impl Orchestra for Opl {
    fn system(&self) -> &'static str {
        self.chip.name()
    }

    fn begin(&self) -> Writer {
        let mut out = Writer::new(&[(self.chip, self.clock_hz)]);
        match self.chip {
            ChipId::Ym3812 => self.write(&mut out, 0, 0x01, 0x20),
            ChipId::Ymf262 => self.write(&mut out, 1, 0x05, 1),
            ChipId::Y8950 => self.load_string(&mut out),
            _ => {}
        }
        for role in PARTS {
            let sides = match role {
                Role::Echo => 0x10,
                Role::Chord(_) => 0x20,
                _ => 0x30,
            };
            if let Some(place) = self.place(role) {
                self.load(&mut out, place, sides, patch_of(role));
            }
        }
        for (channel, patch) in (6..).zip(&DRUMS) {
            self.load(&mut out, (0, channel), 0x30, patch);
        }
        for (channel, hz) in [(6, 55.0), (7, 190.0), (8, 110.0)] {
            self.pitch(&mut out, (0, channel), hz, 0);
        }
        // This write enables deep vibrato and tremolo, and the rhythm section.
        self.write(&mut out, 0, 0xBD, 0xC0 | RHYTHM_ON);
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        if note.role == Role::Drums {
            let drum = [0x10, 0x08, 0x01][note.key as usize % 3];
            self.write(out, 0, 0xBD, 0xC0 | RHYTHM_ON);
            return self.write(out, 0, 0xBD, 0xC0 | RHYTHM_ON | drum);
        }
        if note.role == Role::Arpeggio && self.chip == ChipId::Y8950 {
            return self.pluck(out, note.key - 12);
        }
        if let Some(place) = self.place(note.role) {
            self.pitch(out, place, hz(note.key), 0x20);
        }
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        if let Some(place) = self.place(note.role) {
            self.pitch(out, place, hz(note.key), 0);
        }
    }
}
