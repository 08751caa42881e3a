//! The mix: the level of each chip relative to the YM2151, measured with songs of our own.
//!
//! A song has a tone of the YM2151 in its first second and a tone of the other chip in its second
//! one. With `--nocapture`, the test prints the table of docs/design/vgm.md. If
//! `CREEL_BALANCE_SONGS` is set to a folder, it also writes the songs to it, so that other players
//! can render them.

use std::path::PathBuf;

use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

/// A tone of one chip at its loudest.
struct Tone {
    name: &'static str,
    /// The offset of its clock in the header, and the clock.
    clock: (usize, u32),
    /// The command for a write to its first port.
    command: u8,
    /// The port, register and value of each write.
    writes: &'static [(u8, u8, u8)],
    /// The writes that end the tone.
    off: &'static [(u8, u8, u8)],
    /// The expected level in dB, relative to a sine of the YM2151.
    expected: f64,
}

/// The writes for one operator with an undamped sine.
const OPM: &[(u8, u8, u8)] = &[
    (0, 0x20, 0xC7),
    (0, 0x28, 0x4A),
    (0, 0x60, 0x00),
    (0, 0x68, 0x7F),
    (0, 0x70, 0x7F),
    (0, 0x78, 0x7F),
    (0, 0x80, 0x1F),
    (0, 0xE0, 0x0F),
    (0, 0x08, 0x08),
];

const OPM_OFF: &[(u8, u8, u8)] = &[(0, 0x08, 0)];

/// The same tone on channel 2, which every OPN has.
const OPN: &[(u8, u8, u8)] = &[
    (0, 0xB1, 0x07),
    (0, 0xB5, 0xC0),
    (0, 0xA5, 0x22),
    (0, 0xA1, 0x69),
    (0, 0x41, 0x00),
    (0, 0x45, 0x7F),
    (0, 0x49, 0x7F),
    (0, 0x4D, 0x7F),
    (0, 0x51, 0x1F),
    (0, 0x81, 0x0F),
    (0, 0x28, 0x11),
];

const OPN_OFF: &[(u8, u8, u8)] = &[(0, 0x28, 1)];

/// Channel A with a square wave, whose frequency is 440 Hz if the clock of the SSG is 2 MHz.
const SSG: &[(u8, u8, u8)] = &[(0, 0, 0x1C), (0, 1, 1), (0, 7, 0x3E), (0, 8, 15)];

const SSG_OFF: &[(u8, u8, u8)] = &[(0, 8, 0)];

/// Operator 2 of channel 1 with a sine.
const OPL: &[(u8, u8, u8)] = &[
    (0, 0x23, 0x21),
    (0, 0x40, 0x3F),
    (0, 0x43, 0x00),
    (0, 0x63, 0xF0),
    (0, 0x83, 0x0F),
    (0, 0xA0, 0x44),
    (0, 0xC0, 0x31),
    (0, 0xB0, 0x32),
];

const OPL_OFF: &[(u8, u8, u8)] = &[(0, 0xB0, 0x12)];

/// A user-defined instrument with a sine.
const OPLL: &[(u8, u8, u8)] = &[
    (0, 0x00, 0x21),
    (0, 0x01, 0x21),
    (0, 0x02, 0x3F),
    (0, 0x05, 0xF0),
    (0, 0x07, 0x0F),
    (0, 0x30, 0x00),
    (0, 0x10, 0x22),
    (0, 0x20, 0x19),
];

const OPLL_OFF: &[(u8, u8, u8)] = &[(0, 0x20, 0x09)];

/// Writes without a register. The byte is the value.
const PSG: &[(u8, u8, u8)] = &[(0, 0, 0x8E), (0, 0, 0x0F), (0, 0, 0x90)];

const PSG_OFF: &[(u8, u8, u8)] = &[(0, 0, 0x9F)];

#[rustfmt::skip]
const TONES: &[Tone] = &[
    Tone { name: "SN76489", clock: (0x0C, 3_579_545), command: 0x50, writes: PSG, off: PSG_OFF, expected: -9.0 },
    Tone { name: "YM2413", clock: (0x10, 3_579_545), command: 0x51, writes: OPLL, off: OPLL_OFF, expected: -6.0 },
    Tone { name: "YM2612", clock: (0x2C, 7_670_454), command: 0x52, writes: OPN, off: OPN_OFF, expected: 0.0 },
    Tone { name: "YM2203", clock: (0x44, 3_993_600), command: 0x55, writes: OPN, off: OPN_OFF, expected: 0.0 },
    Tone { name: "YM2203 SSG", clock: (0x44, 3_993_600), command: 0x55, writes: SSG, off: SSG_OFF, expected: -9.0 },
    Tone { name: "YM2608", clock: (0x48, 7_987_200), command: 0x56, writes: OPN, off: OPN_OFF, expected: -6.0 },
    Tone { name: "YM2608 SSG", clock: (0x48, 7_987_200), command: 0x56, writes: SSG, off: SSG_OFF, expected: -9.0 },
    Tone { name: "YM2610", clock: (0x4C, 8_000_000), command: 0x58, writes: OPN, off: OPN_OFF, expected: -6.0 },
    Tone { name: "YM2610 SSG", clock: (0x4C, 8_000_000), command: 0x58, writes: SSG, off: SSG_OFF, expected: -9.0 },
    Tone { name: "YM3812", clock: (0x50, 3_579_545), command: 0x5A, writes: OPL, off: OPL_OFF, expected: -6.0 },
    Tone { name: "YM3526", clock: (0x54, 3_579_545), command: 0x5B, writes: OPL, off: OPL_OFF, expected: -6.0 },
    Tone { name: "Y8950", clock: (0x58, 3_579_545), command: 0x5C, writes: OPL, off: OPL_OFF, expected: -6.0 },
    Tone { name: "YMF262", clock: (0x5C, 14_318_180), command: 0x5E, writes: OPL, off: OPL_OFF, expected: -6.0 },
    Tone { name: "AY8910", clock: (0x74, 1_789_772), command: 0xA0, writes: SSG, off: SSG_OFF, expected: -3.0 },
];

/// The number of ticks per second.
const SECOND: usize = 44_100;

impl Tone {
    fn song(&self) -> Vec<u8> {
        let mut song = vec![0; 0x100];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x61, 0x01]);
        song[0x34] = 0xCC;
        song[0x18..0x1C].copy_from_slice(&(2 * SECOND as u32).to_le_bytes());
        song[0x30..0x34].copy_from_slice(&3_579_545u32.to_le_bytes());
        song[self.clock.0..][..4].copy_from_slice(&self.clock.1.to_le_bytes());
        // The usual noise of a PSG, and the usual flags of the AY.
        song[0x28..0x2C].copy_from_slice(&[9, 0, 16, 0]);
        song[0x79] = 1;
        let write = |song: &mut Vec<u8>, command: u8, writes: &[(u8, u8, u8)]| {
            for (port, reg, value) in writes {
                match command {
                    0x50 => song.extend([command, *value]),
                    _ => song.extend([command + port, *reg, *value]),
                }
            }
        };
        let second = [0x61, 0x44, 0xAC];
        if self.command == 0x50 {
            write(
                &mut song,
                0x50,
                &[(0, 0, 0x9F), (0, 0, 0xBF), (0, 0, 0xDF), (0, 0, 0xFF)],
            );
        }
        write(&mut song, 0x54, OPM);
        song.extend(second);
        write(&mut song, 0x54, OPM_OFF);
        write(&mut song, self.command, self.writes);
        song.extend(second);
        write(&mut song, self.command, self.off);
        song.push(0x66);
        song
    }

    /// Returns the level of the tone in dB, relative to the sine of the YM2151.
    fn level(&self) -> f64 {
        let [sine, tone] = seconds(self.song());
        20.0 * (tone / sine).log10()
    }
}

/// Returns the RMS of each of the two seconds of a song.
fn seconds(song: Vec<u8>) -> [f64; 2] {
    let song = Song::parse(song).unwrap();
    let (settings, mut buffers) = (Settings::default(), Buffers::default());
    let mut player = Player::new(&song, &settings, &mut buffers).unwrap();
    let mut frames = vec![[0.0f32; 2]; player.frames() as usize];
    player.fill(&mut buffers, &mut frames);
    [0, 1].map(|second| {
        // We skip the beginning of each second, in which the previous sound still decays.
        let part = &frames[second * SECOND + 4410..][..SECOND - 8820];
        let left = || part.iter().map(|frame| f64::from(frame[0]));
        let mean = left().sum::<f64>() / part.len() as f64;
        (left().map(|sample| (sample - mean).powi(2)).sum::<f64>() / part.len() as f64).sqrt()
    })
}

fn tone(name: &str) -> &'static Tone {
    TONES.iter().find(|tone| tone.name == name).unwrap()
}

#[test]
fn unused_chip_does_not_change_the_level() {
    let alone = seconds(tone("YM2612").song());
    // A YM3812 has the same weight as the YM2151 and the YM2612 together.
    let mut declared = tone("YM2612").song();
    declared[0x50..0x54].copy_from_slice(&3_579_545u32.to_le_bytes());
    assert_eq!(seconds(declared.clone()), alone);
    declared.splice(0x100..0x100, [0x5A, 0x01, 0x20, 0x5A, 0xB0, 0x00]);
    assert_eq!(seconds(declared.clone()), alone);
    let last = declared.len() - 1;
    declared.splice(last..last, [0x5A, 0xB0, 0x00]);
    assert!(seconds(declared)[0] < 0.6 * alone[0], "it plays");
}

/// The tracks of an album have the same loudness, whether the volumes of their chips are in the
/// header or not. A higher volume makes the song softer if the sum of the weights crosses a power of
/// two.
#[test]
fn header_volumes_keep_album_levels_consistent() {
    let with = |fm: u16, ssg: u16| {
        let mut song = tone("YM2203").song();
        song[0x30..0x34].fill(0);
        // The extra header follows the header: its size, no clocks, volumes after 4 bytes, 2
        // entries.
        let extra = [12, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2];
        song.splice(0x100..0x100, extra);
        let volumes = [[6, 0], fm.to_le_bytes(), [0x86, 0], ssg.to_le_bytes()].concat();
        song.splice(0x10D..0x10D, volumes);
        song[0x34] = 0xE1;
        song[0xBC] = 0x44;
        seconds(song)[1]
    };
    let usual = with(0x100, 0x80);
    let decibels = |rms: f64| 20.0 * (rms / usual).log10();
    let mut without = tone("YM2203").song();
    without[0x30..0x34].fill(0);
    assert_eq!(seconds(without)[1], usual);
    for (fm, ssg, expected) in [
        (0x10, 0x08, 0.0),     // both chips softer: the loudness of the song stays the same
        (0x8100, 0x8100, 0.0), // relative, unity
        (0x110, 0x80, -5.5),   // slightly louder: crosses the next power of two
        (0x80, 0x100, -6.0),   // the SSG also counts
    ] {
        let level = decibels(with(fm, ssg));
        assert!(
            (level - expected).abs() < 0.2,
            "{fm:#x} {ssg:#x}: {level:+.1} dB"
        );
    }
}

#[test]
fn each_chip_has_its_documented_level() {
    if let Some(folder) = std::env::var_os("CREEL_BALANCE_SONGS").map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        for tone in TONES {
            std::fs::write(folder.join(tone.name).with_extension("vgm"), tone.song()).unwrap();
        }
    }
    println!("| chip | dB beside the YM2151 |\n|---|---|");
    for tone in TONES {
        let level = tone.level();
        println!("| {} | {level:+.1} |", tone.name);
        assert!(
            (level - tone.expected).abs() < 0.2,
            "{}: {level:+.1} dB",
            tone.name
        );
    }
}
