//! Plays a demo song on the YM2413, with sounds of its ROM, one sound of our own, and its rhythm
//! section.

use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// The orchestra of the YM2413.
pub struct Opll;

const CLOCK_HZ: u32 = 3_579_545;
const RHYTHM_ON: u8 = 0x20;

/// Returns the channel, the instrument and the attenuation (from 0 to 15) of a part.
fn voice(role: Role) -> Option<(u8, u8, u8)> {
    match role {
        // The lead and the echo use instrument 0, which is the sound that we define.
        Role::Lead => Some((0, 0, 1)),
        Role::Echo => Some((1, 0, 7)),
        Role::Arpeggio => Some((2, 2, 4)),
        Role::Chord(0) => Some((3, 3, 4)),
        Role::Chord(1) => Some((4, 8, 6)),
        Role::Bass => Some((5, 14, 1)),
        _ => None,
    }
}

fn write(out: &mut Writer, reg: u8, value: u8) {
    out.command(&[0x51, reg, value]);
}

fn pitch(out: &mut Writer, channel: u8, hz: f64, key: u8) {
    // We use the lowest of the 8 octaves in which the frequency number fits in 9 bits.
    let unit = hz * f64::from(1 << 19) / (f64::from(CLOCK_HZ) / 72.0);
    let block = (0..8)
        .find(|block| unit / f64::from(1 << block) < 511.0)
        .unwrap_or(7);
    let number = (unit / f64::from(1 << block)).round() as u16;
    write(out, 0x10 + channel, number as u8);
    write(
        out,
        0x20 + channel,
        key | (block as u8) << 1 | (number >> 8) as u8,
    );
}

impl Orchestra for Opll {
    fn system(&self) -> &'static str {
        "YM2413"
    }

    fn begin(&self) -> Writer {
        let mut out = Writer::new(&[(ChipId::Ym2413, CLOCK_HZ)]);
        // The sound is a reed. Both operators sustain, and the modulator is soft.
        let reed = [0x21, 0x61, 0x1C, 0x05, 0xA4, 0xB3, 0x35, 0x27];
        for (reg, value) in (0..).zip(reed) {
            write(&mut out, reg, value);
        }
        for role in [
            Role::Lead,
            Role::Echo,
            Role::Arpeggio,
            Role::Chord(0),
            Role::Chord(1),
            Role::Bass,
        ] {
            if let Some((channel, instrument, softness)) = voice(role) {
                write(&mut out, 0x30 + channel, instrument << 4 | softness);
            }
        }
        // The pitches of the rhythm section (registers 16 to 18 and 26 to 28) are those of the
        // manual. Its levels (registers 36 to 38) follow.
        let rhythm = [
            (0x16, 0x20),
            (0x17, 0x50),
            (0x18, 0xC0),
            (0x26, 0x05),
            (0x27, 0x05),
            (0x28, 0x01),
            (0x36, 0x01),
            (0x37, 0x31),
            (0x38, 0x33),
            (0x0E, RHYTHM_ON),
        ];
        for (reg, value) in rhythm {
            write(&mut out, reg, value);
        }
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        if note.role == Role::Drums {
            let drum = [0x10, 0x08, 0x01][note.key as usize % 3];
            write(out, 0x0E, RHYTHM_ON);
            return write(out, 0x0E, RHYTHM_ON | drum);
        }
        if let Some((channel, _, _)) = voice(note.role) {
            pitch(out, channel, hz(note.key), 0x10);
        }
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        if let Some((channel, _, _)) = voice(note.role) {
            pitch(out, channel, hz(note.key), 0);
        }
    }
}
