//! Releasing and pressing a key at the same tick starts a new note, on every chip with FM.

use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

/// A chip, and a note that fades away.
struct Voice {
    name: &'static str,
    /// The offset of its clock in the header, and the clock.
    clock: (usize, u32),
    /// The command for a write to its first port.
    command: u8,
    /// The port, register and value of each write.
    setup: &'static [(u8, u8, u8)],
    off: (u8, u8),
    on: (u8, u8),
}

/// Operator 1 of a channel with algorithm 7, which is silent after a fifth of a second.
const OPM: &[(u8, u8, u8)] = &[
    (0, 0x20, 0xC7),
    (0, 0x28, 0x4A),
    (0, 0x60, 0x08),
    (0, 0x68, 0x7F),
    (0, 0x70, 0x7F),
    (0, 0x78, 0x7F),
    (0, 0x80, 0x1F),
    (0, 0xA0, 0x0E),
    (0, 0xE0, 0xFF),
];

/// The same note on channel 2, which every OPN has.
const OPN: &[(u8, u8, u8)] = &[
    (0, 0xB1, 0x07),
    (0, 0xB5, 0xC0),
    (0, 0xA5, 0x22),
    (0, 0xA1, 0x69),
    (0, 0x41, 0x08),
    (0, 0x45, 0x7F),
    (0, 0x49, 0x7F),
    (0, 0x4D, 0x7F),
    (0, 0x51, 0x1F),
    (0, 0x61, 0x0E),
    (0, 0x81, 0xFF),
];

/// A note on operator 2 of channel 1.
const OPL: &[(u8, u8, u8)] = &[
    (0, 0x23, 0x01),
    (0, 0x40, 0x3F),
    (0, 0x43, 0x00),
    (0, 0x63, 0xF7),
    (0, 0x83, 0xF7),
    (0, 0xA0, 0x44),
    (0, 0xC0, 0x31),
];

/// A note of the bass drum.
const OPL_DRUM: &[(u8, u8, u8)] = &[
    (0, 0x30, 0x01),
    (0, 0x33, 0x01),
    (0, 0x50, 0x3F),
    (0, 0x53, 0x00),
    (0, 0x73, 0xF7),
    (0, 0x93, 0xF7),
    (0, 0xA6, 0x44),
    (0, 0xB6, 0x0A),
    (0, 0xBD, 0x20),
];

/// A user-defined instrument, because the built-in ones have tremolo.
const OPLL: &[(u8, u8, u8)] = &[
    (0, 0x00, 0x01),
    (0, 0x01, 0x01),
    (0, 0x02, 0x3F),
    (0, 0x05, 0xF7),
    (0, 0x07, 0xF7),
    (0, 0x30, 0x00),
    (0, 0x10, 0x22),
];

const OPLL_DRUM: &[(u8, u8, u8)] = &[
    (0, 0x36, 0x00),
    (0, 0x16, 0x20),
    (0, 0x26, 0x05),
    (0, 0x0E, 0x20),
];

#[rustfmt::skip]
const VOICES: &[Voice] = &[
    Voice { name: "YM2151", clock: (0x30, 3_579_545), command: 0x54, setup: OPM, off: (0x08, 0), on: (0x08, 0x08) },
    Voice { name: "YM2203", clock: (0x44, 3_993_600), command: 0x55, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM2608", clock: (0x48, 7_987_200), command: 0x56, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM2610", clock: (0x4C, 8_000_000), command: 0x58, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM2610B", clock: (0x4C, 8_000_000 | 1 << 31), command: 0x58, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM2612", clock: (0x2C, 7_670_454), command: 0x52, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM3438", clock: (0x2C, 7_670_454 | 1 << 31), command: 0x52, setup: OPN, off: (0x28, 1), on: (0x28, 0x11) },
    Voice { name: "YM2413", clock: (0x10, 3_579_545), command: 0x51, setup: OPLL, off: (0x20, 0x09), on: (0x20, 0x19) },
    Voice { name: "YM2413, drum", clock: (0x10, 3_579_545), command: 0x51, setup: OPLL_DRUM, off: (0x0E, 0x20), on: (0x0E, 0x30) },
    Voice { name: "VRC7", clock: (0x10, 3_579_545 | 1 << 31), command: 0x51, setup: OPLL, off: (0x20, 0x09), on: (0x20, 0x19) },
    Voice { name: "YM3526", clock: (0x54, 3_579_545), command: 0x5B, setup: OPL, off: (0xB0, 0x12), on: (0xB0, 0x32) },
    Voice { name: "YM3812", clock: (0x50, 3_579_545), command: 0x5A, setup: OPL, off: (0xB0, 0x12), on: (0xB0, 0x32) },
    Voice { name: "YM3812, drum", clock: (0x50, 3_579_545), command: 0x5A, setup: OPL_DRUM, off: (0xBD, 0x20), on: (0xBD, 0x30) },
    Voice { name: "Y8950", clock: (0x58, 3_579_545), command: 0x5C, setup: OPL, off: (0xB0, 0x12), on: (0xB0, 0x32) },
    Voice { name: "YMF262", clock: (0x5C, 14_318_180), command: 0x5E, setup: OPL, off: (0xB0, 0x12), on: (0xB0, 0x32) },
];

const NOTES: usize = 8;
/// The length of a note in ticks.
const NOTE: u16 = 22_050;

impl Voice {
    /// Creates a song of eight notes with `apart` ticks between releasing and pressing the key. If
    /// `patched`, the sound is written again in between.
    fn song(&self, apart: u16, patched: bool) -> Song {
        let mut song = vec![0; 0x100];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x61, 0x01]);
        song[0x34] = 0xCC;
        song[self.clock.0..][..4].copy_from_slice(&self.clock.1.to_le_bytes());
        let command = self.command;
        let patch: Vec<u8> = self
            .setup
            .iter()
            .flat_map(|(port, reg, value)| [command + port, *reg, *value])
            .collect();
        song.extend(&patch);
        for _ in 0..NOTES {
            song.extend([command, self.off.0, self.off.1]);
            if patched {
                song.extend(&patch);
            }
            song.push(0x61);
            song.extend(apart.to_le_bytes());
            song.extend([command, self.on.0, self.on.1]);
            song.push(0x61);
            song.extend((NOTE - apart).to_le_bytes());
        }
        song.push(0x66);
        Song::parse(song).unwrap()
    }

    /// Returns the RMS of the first 50 ms of each note.
    fn attacks(&self, apart: u16, patched: bool) -> Vec<f64> {
        let song = self.song(apart, patched);
        let (settings, mut buffers) = (Settings::default(), Buffers::default());
        let mut player = Player::new(&song, &settings, &mut buffers).unwrap();
        let mut frames = vec![[0.0f32; 2]; player.frames() as usize];
        assert_eq!(player.fill(&mut buffers, &mut frames), frames.len());
        let notes = frames.chunks(usize::from(NOTE));
        let rms = |note: &[[f32; 2]]| {
            let front = &note[usize::from(apart)..2205];
            let sum: f64 = front.iter().map(|frame| f64::from(frame[0]).powi(2)).sum();
            (sum / front.len() as f64).sqrt() * 32768.0
        };
        notes.map(rms).collect()
    }
}

#[test]
fn eight_key_ons_give_eight_attacks() {
    for voice in VOICES {
        for (apart, patched) in [(0, false), (0, true), (1, false)] {
            let attacks = voice.attacks(apart, patched);
            let printed: Vec<_> = attacks.iter().map(|rms| rms.round()).collect();
            println!(
                "{}, {apart} ticks, patch {patched}: {printed:?}",
                voice.name
            );
            assert_eq!(attacks.len(), NOTES);
            let loudest = attacks.iter().copied().fold(0.0, f64::max);
            let quietest = attacks.iter().copied().fold(f64::MAX, f64::min);
            assert!(loudest > 300.0, "{} is heard: {printed:?}", voice.name);
            assert!(quietest > 0.7 * loudest, "{}: {printed:?}", voice.name);
        }
    }
}
