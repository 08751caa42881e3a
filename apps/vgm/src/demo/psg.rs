//! Plays a demo song on the SN76489: three square waves and noise, with the stereo of the Game
//! Gear.

use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// The clock in Hz, also in the Mega Drive, whose YM2612 runs at 7.67 MHz.
pub const CLOCK_HZ: u32 = 3_579_545;

const SILENT: u8 = 15;
/// The channel of the noise.
pub const NOISE: u8 = 3;

/// Sets the header to Sega's noise register, and silences all channels.
pub fn begin(out: &mut Writer) {
    for (at, value) in [(0x28, 0x09), (0x2A, 16)] {
        out.header_byte(at, value);
    }
    for channel in 0..4 {
        attenuate(out, channel, SILENT);
    }
}

/// Sets the attenuation of a channel, from 0 (loudest) to 15 (silent).
pub fn attenuate(out: &mut Writer, channel: u8, steps: u8) {
    out.command(&[0x50, 0x90 | channel << 5 | steps.min(SILENT)]);
}

/// Plays a tone on one of the first three channels. Notes below the range are raised by octaves.
pub fn tone(out: &mut Writer, channel: u8, key: i32, steps: u8) {
    let mut key = key;
    let period = loop {
        let period = (f64::from(CLOCK_HZ) / (32.0 * hz(key))).round() as u32;
        if period < 1024 {
            break period.max(1);
        }
        key += 12;
    };
    out.command(&[0x50, 0x80 | channel << 5 | (period & 15) as u8]);
    out.command(&[0x50, (period >> 4) as u8]);
    attenuate(out, channel, steps);
}

/// Plays a drum with the noise.
pub fn drum(out: &mut Writer, which: i32) {
    let (noise, steps) = [(0xE2, 2), (0xE5, 4), (0xE4, 9)][which as usize % 3];
    out.command(&[0x50, noise]);
    attenuate(out, NOISE, steps);
}

/// An orchestra with only an SN76489.
pub struct MasterSystem;

fn channel(role: Role) -> Option<u8> {
    match role {
        Role::Lead => Some(0),
        Role::Arpeggio => Some(1),
        Role::Bass => Some(2),
        Role::Drums => Some(NOISE),
        _ => None,
    }
}

impl Orchestra for MasterSystem {
    fn system(&self) -> &'static str {
        "SN76489"
    }

    fn begin(&self) -> Writer {
        let mut out = Writer::new(&[(ChipId::Sn76489, CLOCK_HZ)]);
        begin(&mut out);
        // The broken chords are on the left, the bass and the melody in the middle.
        out.command(&[0x4F, 0b1111_1101]);
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        match (note.role, channel(note.role)) {
            (Role::Drums, _) => drum(out, note.key),
            (Role::Lead, Some(channel)) => tone(out, channel, note.key, 1),
            (_, Some(channel)) => tone(out, channel, note.key, 5),
            _ => {}
        }
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        if let Some(channel) = channel(note.role) {
            attenuate(out, channel, SILENT);
        }
    }
}
