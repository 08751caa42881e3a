//! The SSG and the AY-3-8910: three square waves and a noise.

use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// Where an SSG's registers are written.
#[derive(Debug, Clone, Copy)]
pub struct Ssg {
    /// The command that writes it.
    pub command: u8,
    /// Clocks a second of its own, so that a tone of period n has clock / 16 n Hz.
    pub clock_hz: f64,
}

/// The channel that plays the drums as noise.
const NOISE: u8 = 2;

impl Ssg {
    fn write(self, out: &mut Writer, reg: u8, value: u8) {
        out.command(&[self.command, reg, value]);
    }

    /// Silence, with tone on the first channels and noise, too, on the last one if `drums`.
    pub fn begin(self, out: &mut Writer, drums: bool) {
        self.write(out, 0x07, if drums { 0b011_000 } else { 0b111_000 });
        for channel in 0..3 {
            self.write(out, 0x08 + channel, 0);
        }
    }

    /// A tone on a channel, 0 to 15 loud.
    pub fn tone(self, out: &mut Writer, channel: u8, key: i32, level: u8) {
        let period = (self.clock_hz / (16.0 * hz(key))).round() as u16;
        let [low, high] = period.clamp(1, 0xFFF).to_le_bytes();
        self.write(out, 2 * channel, low);
        self.write(out, 2 * channel + 1, high);
        self.write(out, 0x08 + channel, level);
    }

    /// A drum on the last channel: noise and tone that the envelope lets fall.
    pub fn drum(self, out: &mut Writer, which: i32) {
        let (tone, noise, fall) = [
            (0x900u16, 31, 0x0700u16),
            (0x200, 12, 0x0500),
            (1, 1, 0x0180),
        ][which as usize % 3];
        let mixer = [0b111_000, 0b011_000, 0b011_100][which as usize % 3];
        self.write(out, 0x04, tone as u8);
        self.write(out, 0x05, (tone >> 8) as u8);
        self.write(out, 0x06, noise);
        self.write(out, 0x07, mixer);
        self.write(out, 0x0B, fall as u8);
        self.write(out, 0x0C, (fall >> 8) as u8);
        self.write(out, 0x08 + NOISE, 0x10);
        self.write(out, 0x0D, 0);
    }

    /// Silence on a channel.
    pub fn rest(self, out: &mut Writer, channel: u8) {
        self.write(out, 0x08 + channel, 0);
    }
}

/// An AY-3-8910 alone.
pub struct Ay8910;

const AY: Ssg = Ssg {
    command: 0xA0,
    clock_hz: 1_789_750.0,
};

/// What each part has on three channels: the drums take the bass's for a moment.
fn channel(role: Role) -> Option<u8> {
    match role {
        Role::Lead => Some(0),
        Role::Arpeggio => Some(1),
        Role::Bass | Role::Drums => Some(2),
        _ => None,
    }
}

impl Orchestra for Ay8910 {
    fn system(&self) -> &'static str {
        "AY-3-8910"
    }

    fn begin(&self) -> Writer {
        let mut out = Writer::new(&[(ChipId::Ay8910, AY.clock_hz as u32)]);
        AY.begin(&mut out, true);
        out
    }

    fn on(&self, out: &mut Writer, note: &Note) {
        match (note.role, channel(note.role)) {
            (Role::Drums, _) => AY.drum(out, note.key),
            (Role::Bass, Some(channel)) => {
                // The drum may have left the channel to the noise.
                AY.write(out, 0x07, 0b111_000);
                AY.tone(out, channel, note.key + 12, 12);
            }
            (Role::Lead, Some(channel)) => AY.tone(out, channel, note.key, 13),
            (_, Some(channel)) => AY.tone(out, channel, note.key, 9),
            _ => {}
        }
    }

    fn off(&self, out: &mut Writer, note: &Note) {
        if let (Some(channel), true) = (channel(note.role), note.role != Role::Drums) {
            AY.rest(out, channel);
        }
    }
}
