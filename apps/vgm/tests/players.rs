//! Compares random songs with another player, for chips without an independent core that we may
//! link.
//!
//! `CREEL_VGM2WAV` is the path of libvgm's `vgm2wav`. We run it on songs of our own as a separate
//! program, and compare the spectra. Without it, the test prints that it is skipped.

#[path = "players/streams.rs"]
mod streams;
#[path = "tones/mod.rs"]
#[allow(dead_code, reason = "the streams have notes of their own")]
mod tone;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use streams::streams;
use tone::play;

/// The number of notes of a song, with ten notes per second.
const NOTES: usize = 60;

/// The number of frames per comparison.
const WINDOW: usize = 4096;

/// The limit in dB. Established players differ by 4 to 5 dB.
const DISTANCE_MAX: f64 = 4.5;

/// The number of dB by which our songs are softer than those of the other player, because of our
/// default gain.
const SOFTER: f64 = 7.0;

/// Returns the frames of a WAV file of 16 bits.
fn wav(path: &Path) -> Vec<[f32; 2]> {
    let bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(4).position(|tag| tag == b"data").unwrap() + 8;
    let side = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32768.0;
    bytes[at..]
        .chunks_exact(4)
        .map(|frame| [side(&frame[..2]), side(&frame[2..])])
        .collect()
}

/// Returns the power of both sides in 20 bands from 60 Hz to 15 kHz, in dB.
fn bands(frames: &[[f32; 2]]) -> Vec<f64> {
    let turn = std::f64::consts::TAU / WINDOW as f64;
    // We transform both sides at once, as the real and imaginary parts.
    let mut values: Vec<[f64; 2]> = frames
        .iter()
        .enumerate()
        .map(|(at, frame)| {
            let window = 0.5 - 0.5 * (turn * at as f64).cos();
            frame.map(|side| f64::from(side) * window)
        })
        .collect();
    transform(&mut values);
    let power = |line: usize| values[line][0].powi(2) + values[line][1].powi(2);
    let edge =
        |band: usize| (60.0 * 250f64.powf(band as f64 / 20.0) / 44_100.0 * WINDOW as f64) as usize;
    let band = |band: usize| {
        let lines = edge(band)..edge(band + 1).max(edge(band) + 1);
        let count = lines.len() as f64;
        let sum: f64 = lines.map(|line| power(line) + power(WINDOW - line)).sum();
        10.0 * (sum / count + 1e-9).log10()
    };
    (0..20).map(band).collect()
}

/// Computes a Fourier transform in place. The number of complex values must be a power of two.
fn transform(values: &mut [[f64; 2]]) {
    let length = values.len();
    if length == 1 {
        return;
    }
    let half = |odd: usize| {
        values
            .iter()
            .skip(odd)
            .step_by(2)
            .copied()
            .collect::<Vec<_>>()
    };
    let (mut even, mut odd) = (half(0), half(1));
    transform(&mut even);
    transform(&mut odd);
    for (at, (a, b)) in even.iter().zip(&odd).enumerate() {
        let (sin, cos) = (-std::f64::consts::TAU * at as f64 / length as f64).sin_cos();
        let turned = [b[0] * cos - b[1] * sin, b[0] * sin + b[1] * cos];
        values[at] = [a[0] + turned[0], a[1] + turned[1]];
        values[at + length / 2] = [a[0] - turned[0], a[1] - turned[1]];
    }
}

/// Compares the bands of two renderings. Returns the mean absolute difference in dB, the mean of
/// `ours` minus `theirs` in dB, and the number of compared bands. `ours` is first raised by
/// [`SOFTER`].
///
/// Skips windows in which the loudest band of `theirs` is below -30 dB, and bands that are 25 dB or
/// more below the loudest band of their window.
fn distance(ours: &[[f32; 2]], theirs: &[[f32; 2]]) -> (f64, f64, usize) {
    let (mut sum, mut louder, mut count) = (0.0, 0.0, 0);
    for (ours, theirs) in ours.chunks_exact(WINDOW).zip(theirs.chunks_exact(WINDOW)) {
        let (ours, theirs) = (bands(ours), bands(theirs));
        let loudest = theirs.iter().copied().fold(f64::MIN, f64::max);
        if loudest < -30.0 {
            continue;
        }
        for (ours, theirs) in ours
            .iter()
            .zip(theirs)
            .filter(|(_, theirs)| *theirs > loudest - 25.0)
        {
            sum += (ours + SOFTER - theirs).abs();
            louder += ours + SOFTER - theirs;
            count += 1;
        }
    }
    let bands = count.max(1) as f64;
    (sum / bands, louder / bands, count)
}

#[test]
fn random_songs_match_libvgm() {
    let Some(player) = std::env::var_os("CREEL_VGM2WAV") else {
        eprintln!("skipped: CREEL_VGM2WAV names no player");
        return;
    };
    let folder = std::env::temp_dir().join(format!("creel-vgm-players-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut far = Vec::new();
    for stream in streams() {
        for seed in 1..=3 {
            let song = stream.song(seed, NOTES);
            let (from, to) = (folder.join("song.vgm"), folder.join("song.wav"));
            std::fs::write(&from, &song).unwrap();
            let run = Command::new(&player).args([&from, &to]).output().unwrap();
            assert!(run.status.success(), "{run:?}");
            let (distance, louder, count) = distance(&play(song), &wav(&to));
            println!(
                "{}, seed {seed}: {distance:.1} dB apart, {louder:+.1} dB",
                stream.chip.name
            );
            assert!(count > 300, "{} is all but silent", stream.chip.name);
            if distance > DISTANCE_MAX {
                far.push((stream.chip.name, seed, distance));
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(far.is_empty(), "{far:?}");
}

/// Returns the time that a command takes, in seconds.
fn seconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    let run = command.output().unwrap();
    assert!(run.status.success(), "{run:?}");
    start.elapsed().as_secs_f64()
}

#[test]
#[ignore = "prints measurements and asserts nothing"]
fn the_speed_relative_to_libvgm_is_printed() {
    let player = std::env::var_os("CREEL_VGM2WAV").expect("CREEL_VGM2WAV names a player");
    let folder = std::env::temp_dir().join(format!("creel-vgm-speeds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for stream in streams() {
        let (song, theirs) = (folder.join("song.vgm"), folder.join("theirs.wav"));
        std::fs::write(&song, stream.song(1, 100 * NOTES)).unwrap();
        let mut least = [f64::MAX; 2];
        for _ in 0..3 {
            let mut ours = Command::new(env!("CARGO_BIN_EXE_creel-vgm"));
            ours.args(["render", "-q", "--overwrite", "--jobs", "1", "-o"]);
            ours.arg(&folder).arg(&song);
            let mut other = Command::new(&player);
            other.args([&song, &theirs]);
            least[0] = least[0].min(seconds(&mut ours));
            least[1] = least[1].min(seconds(&mut other));
        }
        println!(
            "{}: {:.1} times as fast",
            stream.chip.name,
            least[1] / least[0]
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
