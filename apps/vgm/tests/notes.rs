//! Short notes of many chips, made by others. Those in [`NOTES`] have the right pitch, none clips,
//! and only those in [`SILENT`] are silent.
//!
//! The songs are not part of the project. They are in the folder `CREEL_SHARED`, or in `../shared`
//! next to the project. Without them, the test prints that it is skipped.

#[path = "tones/mod.rs"]
#[allow(dead_code, reason = "the notes bring their own commands")]
mod tone;

use std::path::{Path, PathBuf};

use tone::{pitch, play};

/// The files, the pitch that the documentation of the chip gives for their writes, and the number
/// of frames with this pitch.
const NOTES: &[(&str, f64, usize)] = &[
    ("gb_dmg_a4", 131_072.0 / 298.0, 22_000),
    ("huc6280_a4", 3_579_545.0 / 32.0 / 254.0, 22_000),
    // The header has the clock of the bus, so everything is an octave higher.
    ("k051649_a4", 3_579_545.0 / 16.0 / 255.0, 22_000),
    // The envelope ends within four video frames.
    ("nes_apu_a4", 1_789_773.0 / 16.0 / 254.0, 3_000),
    ("pokey_a4", 1_789_790.0 / 28.0 / 73.0 / 2.0, 22_000),
    ("saa1099_a4", 8_000_000.0 / 128.0 / 284.0, 22_000),
    // The FM of the chip is a YMF262 with 684 clocks per frame.
    (
        "ymf278b_fm_a4",
        123.0 * 33_868_800.0 / 684.0 / 32_768.0,
        22_000,
    ),
    ("wonderswan_a4", 3_072_000.0 / 32.0 / 55.0, 22_000),
];

fn folder() -> Option<PathBuf> {
    let default_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("CREEL_SHARED").map_or(default_path, PathBuf::from);
    Some(shared.join("vgm/notes")).filter(|folder| folder.is_dir())
}

#[test]
fn test_songs_have_the_expected_pitch() {
    let Some(folder) = folder() else {
        eprintln!("skipped: no vgm/notes in CREEL_SHARED or ../shared");
        return;
    };
    for (name, hz, frames) in NOTES {
        let song = std::fs::read(folder.join(name).with_extension("vgm")).unwrap();
        let played = play(song);
        let frames = &played[100..*frames.min(&played.len())];
        let (found, part) = pitch(frames, *hz);
        let cents = 1200.0 * (found / hz).log2();
        println!("{name}: {found:.2} Hz, {cents:+.1} cents, {part:.2} of the power");
        assert!(cents.abs() <= 5.0, "{name}");
        assert!(part > 0.1, "{name}");
        let peak = played
            .iter()
            .flatten()
            .fold(0.0f32, |peak, side| peak.max(side.abs()));
        assert!((0.01..1.0).contains(&peak), "{name}: peak {peak}");
    }
}

/// Files without an audible note. One presses keys whose attack never starts, and the other has
/// silence in its name.
const SILENT: [&str; 2] = ["ymf271_fm_a4", "vsu_a4_no_sound"];

#[test]
fn no_test_song_is_silent_or_clips() {
    let Some(folder) = folder() else {
        eprintln!("skipped: no vgm/notes in CREEL_SHARED or ../shared");
        return;
    };
    let mut songs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let played = play(std::fs::read(&path).unwrap());
        let sides = played.as_flattened().iter();
        let peak = sides.fold(0.0f32, |peak, side| peak.max(side.abs()));
        assert!(peak < 1.0, "{name}: peak {peak}");
        assert_eq!(peak < 0.001, SILENT.contains(&&name[..]), "{name}: {peak}");
        songs += 1;
    }
    assert!(songs > 25, "{songs} songs");
}
