//! Plays a demo song on the YM2151 together with the MSM6258, as in the Sharp X68000.

use super::adpcm;
use super::patch::{Patch, is_heard, patch_of, softer};
use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// The orchestra of the X68000.
pub struct X68000 {
    samples: Vec<u8>,
    /// The position and the length of each drum in the samples, in bytes.
    places: [(u32, u32); adpcm::DRUMS],
}

const OPM_HZ: u32 = 4_000_000;
const OKI_HZ: u32 = 8_000_000;
/// The flags for 12-bit output and one code every 512 clocks.
const OKI_FLAGS: u8 = 0x0A;
const CODES_A_SECOND: u32 = OKI_HZ / 512;

/// Register offsets of operators 1 to 4.
const SLOTS: [u8; 4] = [0, 16, 8, 24];
/// The number that the chip uses for each note of an octave, which begins at C#.
const NOTE_CODES: [u8; 12] = [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14];
const LEFT: u8 = 0x40;
const RIGHT: u8 = 0x80;

fn channel(role: Role) -> u8 {
    match role {
        Role::Lead => 0,
        Role::Echo => 1,
        Role::Arpeggio => 2,
        Role::Chord(voice) => 3 + voice,
        Role::Bass => 6,
        Role::Drums => 7,
    }
}

const PARTS: [Role; 7] = [
    Role::Lead,
    Role::Echo,
    Role::Arpeggio,
    Role::Chord(0),
    Role::Chord(1),
    Role::Chord(2),
    Role::Bass,
];

fn sides(role: Role) -> u8 {
    match role {
        Role::Echo | Role::Chord(1) => LEFT,
        Role::Arpeggio | Role::Chord(2) => RIGHT,
        _ => LEFT | RIGHT,
    }
}

impl X68000 {
    /// Creates the orchestra and its drums.
    pub fn new() -> Self {
        let mut samples = Vec::new();
        let places = std::array::from_fn(|which| {
            let sound = adpcm::oki(&adpcm::drum(which, f64::from(CODES_A_SECOND)));
            let start = samples.len() as u32;
            samples.extend(&sound);
            (start, sound.len() as u32)
        });
        X68000 { samples, places }
    }
}

fn write(out: &mut Writer, reg: u8, value: u8) {
    out.command(&[0x54, reg, value]);
}

fn load(out: &mut Writer, role: Role) {
    let (channel, patch) = (channel(role), patch_of(role));
    let Patch {
        algorithm,
        feedback,
        operators,
    } = patch;
    write(out, 0x20 + channel, sides(role) | feedback << 3 | algorithm);
    // Only the melody uses the LFO.
    let sensitivity = if role == Role::Lead { 0x30 } else { 0 };
    write(out, 0x38 + channel, sensitivity);
    for (place, operator) in operators.iter().enumerate() {
        let slot = SLOTS[place] + channel;
        let quieter = if is_heard(*algorithm, place) {
            softer(role)
        } else {
            0
        };
        let [attack, decay, sustain_rate, release] = operator.rates;
        write(out, 0x40 + slot, operator.pitch.0 << 4 | operator.pitch.1);
        write(out, 0x60 + slot, (operator.level + quieter).min(127));
        write(out, 0x80 + slot, 0x40 | attack);
        write(out, 0xA0 + slot, decay);
        write(out, 0xC0 + slot, sustain_rate);
        write(out, 0xE0 + slot, operator.sustain << 4 | release);
    }
}

/// Returns the key code and the key fraction of a frequency. The scale of the chip is correct at a
/// clock of 3.579545 MHz.
fn key_code(hz: f64) -> (u8, u8) {
    // At that clock, 0 is the C# of 17.3 Hz. A semitone has 64 steps.
    let hz = hz * 3_579_545.0 / f64::from(OPM_HZ);
    let place = (libm::log2(hz / 277.18) * 768.0).round() as i32 + 4 * 768;
    let place = place.clamp(0, 8 * 768 - 1);
    let note = NOTE_CODES[(place / 64 % 12) as usize];
    let octave = (place / 768) as u8;
    (octave << 4 | note, (place % 64) as u8)
}

impl Orchestra for X68000 {
    fn system(&self) -> &'static str {
        "YM2151 and MSM6258"
    }

    fn begin(&self) -> Writer {
        let mut out = Writer::new(&[(ChipId::Ym2151, OPM_HZ), (ChipId::Okim6258, OKI_HZ)]);
        out.header_byte(0x94, OKI_FLAGS);
        out.block(0x04, &self.samples);
        // Stream 0 writes the bytes of bank 4 to register 1 of chip 0x17, the MSM6258.
        out.command(&[0x90, 0, 0x17, 0, 1]);
        out.command(&[0x91, 0, 4, 1, 0]);
        let [a, b, c, d] = (CODES_A_SECOND / 2).to_le_bytes();
        out.command(&[0x92, 0, a, b, c, d]);
        // The LFO is a triangle of about 5 Hz that changes the pitch.
        for (reg, value) in [(0x18, 0xC0), (0x19, 0x80 | 0x30), (0x1B, 2)] {
            write(&mut out, reg, value);
        }
        for role in PARTS {
            load(&mut out, role);
        }
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        if note.role == Role::Drums {
            let (start, length) = self.places[note.key as usize % adpcm::DRUMS];
            // We stop and start the chip, because this resets its step size.
            out.command(&[0xB7, 0, 1]);
            out.command(&[0xB7, 0, 2]);
            let mut command = vec![0x93, 0];
            command.extend(start.to_le_bytes());
            command.push(1);
            command.extend(length.to_le_bytes());
            return out.command(&command);
        }
        let channel = channel(note.role);
        let (code, fraction) = key_code(hz(note.key));
        write(out, 0x28 + channel, code);
        write(out, 0x30 + channel, fraction << 2);
        write(out, 0x08, 0x78 | channel);
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        if note.role != Role::Drums {
            write(out, 0x08, channel(note.role));
        }
    }
}
