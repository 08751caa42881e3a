//! Eight notes of each chip, with the key released and pressed at the same tick. The first note has
//! the right pitch, and its level relative to the YM2151. The others are as loud, and none clips.
//!
//! If `CREEL_BALANCE_SONGS` is set to a folder, the test writes the songs to it for other players.

use std::path::PathBuf;

use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

use crate::tones::{NOTE, NOTES, TONES};

fn render(song: Vec<u8>) -> Vec<[f32; 2]> {
    let song = Song::parse(song).unwrap();
    let (settings, mut buffers) = (Settings::default(), Buffers::default());
    let mut player = Player::new(&song, &settings, &mut buffers).unwrap();
    let mut frames = vec![[0.0f32; 2]; player.frames() as usize];
    player.fill(&mut buffers, &mut frames);
    frames
}

/// Returns the part from 1/20 to 7/20 of a note, in which the sound has its full level.
fn middle(note: &[[f32; 2]]) -> Vec<f64> {
    let part = &note[NOTE / 20..NOTE * 7 / 20];
    let left = || part.iter().map(|frame| f64::from(frame[0]));
    let mean = left().sum::<f64>() / part.len() as f64;
    left().map(|sample| sample - mean).collect()
}

fn rms(samples: &[f64]) -> f64 {
    let sum: f64 = samples.iter().map(|sample| sample * sample).sum();
    (sum / samples.len() as f64).sqrt()
}

/// Returns the pitch, measured between the first and the last rise from well below the middle to
/// above it.
fn pitch(samples: &[f64]) -> f64 {
    let below = -0.5 * rms(samples);
    let (mut rises, mut was_below) = (Vec::new(), false);
    for (at, pair) in samples.windows(2).enumerate() {
        was_below |= pair[0] < below;
        if was_below && pair[0] < 0.0 && pair[1] >= 0.0 {
            rises.push(at as f64 - pair[0] / (pair[1] - pair[0]));
            was_below = false;
        }
    }
    match rises[..] {
        [first, .., last] => (rises.len() - 1) as f64 / (last - first) * 44_100.0,
        _ => 0.0,
    }
}

#[test]
fn pcm_chips_play_eight_notes_at_their_pitch_and_level() {
    let folder = std::env::var_os("CREEL_BALANCE_SONGS").map(PathBuf::from);
    println!("| chip | dB beside the YM2151 | Hz |\n|---|---|---|");
    let mut wrong = Vec::new();
    for tone in TONES {
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).unwrap();
            let name = format!("{}.vgm", tone.name);
            std::fs::write(folder.join(name), tone.song()).unwrap();
        }
        let frames = render(tone.song());
        let (sine, notes) = frames.split_at(NOTE);
        let sine = rms(&middle(sine));
        let notes: Vec<_> = notes.chunks(NOTE).map(middle).collect();
        let loudness = |note: &Vec<f64>| 20.0 * (rms(note) / sine).log10();
        let (level, hz) = (loudness(&notes[0]), pitch(&notes[0]));
        println!("| {} | {level:+.1} | {hz:.2} |", tone.name);
        let mut check = |right: bool, what: &str| {
            if !right {
                wrong.push(format!("{}: {what}", tone.name));
            }
        };
        check(notes.len() == NOTES, "eight notes");
        check((level - tone.decibels).abs() < 0.3, "its level");
        let cents = 1200.0 * (hz / tone.hz).log2();
        check(cents.abs() < 5.0, &format!("{cents:+.1} cents"));
        for note in &notes {
            check(
                (loudness(note) - level).abs() < 0.5,
                "each note is an attack",
            );
        }
        let loudest = frames
            .as_flattened()
            .iter()
            .fold(0.0f32, |a, b| a.max(b.abs()));
        check(loudest < 0.99, "it does not clip");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
