//! Plays notes of the demo songs on the SSG and the AY-3-8910: three square waves and noise.

use super::perform::{Orchestra, hz};
use super::score::{Note, Role};
use super::writer::Writer;
use crate::format::ChipId;

/// An SSG.
#[derive(Debug, Clone, Copy)]
pub struct Ssg {
    /// The command that writes its registers.
    pub command: u8,
    /// Its clock in Hz. A tone of period n has clock / (16 n) Hz.
    pub clock_hz: f64,
}

/// The channel that plays the drums, which are noise, a tone or both.
const NOISE: u8 = 2;

impl Ssg {
    fn write(self, out: &mut Writer, reg: u8, value: u8) {
        out.command(&[self.command, reg, value]);
    }

    /// Silences the chip and sets the mixer: tone on all channels, and with `drums`, also noise on
    /// the last channel.
    pub fn begin(self, out: &mut Writer, drums: bool) {
        self.write(out, 0x07, if drums { 0b011_000 } else { 0b111_000 });
        for channel in 0..3 {
            self.write(out, 0x08 + channel, 0);
        }
    }

    /// Plays a tone on a channel, with a level from 0 to 15.
    pub fn tone(self, out: &mut Writer, channel: u8, key: i32, level: u8) {
        let period = (self.clock_hz / (16.0 * hz(key))).round() as u16;
        let [low, high] = period.clamp(1, 0xFFF).to_le_bytes();
        self.write(out, 2 * channel, low);
        self.write(out, 2 * channel + 1, high);
        self.write(out, 0x08 + channel, level);
    }

    /// Plays a drum on the last channel: a tone, noise, or both, which fade with the envelope.
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

    /// Silences a channel.
    pub fn rest(self, out: &mut Writer, channel: u8) {
        self.write(out, 0x08 + channel, 0);
    }
}

/// An orchestra with only an AY-3-8910.
pub struct Ay8910;

const AY: Ssg = Ssg {
    command: 0xA0,
    clock_hz: 1_789_750.0,
};

/// Returns the channel of a part. There are only three, so the drums briefly take the channel of
/// the bass.
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
                // A drum may have switched the channel to noise.
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
