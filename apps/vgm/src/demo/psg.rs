//! The SN76489: three square waves and a noise, with the Game Gear's stereo.

use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// The clock beside a 7.67 MHz machine's, in Hz.
pub const CLOCK_HZ: u32 = 3_579_545;

const SILENT: u8 = 15;
/// The noise's channel.
pub const NOISE: u8 = 3;

/// Sega's noise register, and silence.
pub fn begin(out: &mut Writer) {
    for (at, value) in [(0x28, 0x09), (0x2A, 16)] {
        out.header_byte(at, value);
    }
    for channel in 0..4 {
        attenuate(out, channel, SILENT);
    }
}

/// Sets how soft a channel is: 0 is loudest, 15 silent.
pub fn attenuate(out: &mut Writer, channel: u8, steps: u8) {
    out.command(&[0x50, 0x90 | channel << 5 | steps.min(SILENT)]);
}

/// A tone on one of the first three channels; notes below its range are played an octave higher.
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

/// A drum of noise.
pub fn drum(out: &mut Writer, which: i32) {
    let (noise, steps) = [(0xE2, 2), (0xE5, 4), (0xE4, 9)][which as usize % 3];
    out.command(&[0x50, noise]);
    attenuate(out, NOISE, steps);
}

/// An SN76489 alone.
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
        // The broken chords on the left, the bass and the melody in the middle.
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
