//! Tests that the second chip of each kind sounds like the first one.

use creel_vgm::batch::Warnings;
use creel_vgm::format::{Command, Song, decode};

use crate::{samples, steps};

/// Chips whose commands have no bit for a second chip, or none for its memory.
const SINGLE: [&str; 4] = ["RF5C68", "RF5C164", "PWM", "QSound"];

/// Returns the same song with all commands for the second chip, except those of the YM2151.
fn for_second(song: &[u8], clock: usize) -> Vec<u8> {
    let mut second = song.to_vec();
    second[clock + 3] |= 0x40;
    let mut at = 0x100;
    while let Ok((command, next)) = decode(song, at, 0x172) {
        match second[at] {
            0x54 if clock != 0x30 => {}
            0x50 => second[at] = 0x30,
            0x4F => second[at] = 0x3F,
            0x51..=0x5F => second[at] += 0x50,
            0x67 => second[at + 6] |= 0x80,
            0x68 => second[at + 2] |= 0x80,
            // The address has its low byte first.
            0xC0 => second[at + 2] |= 0x80,
            0x30..=0x4E | 0xA0..=0xDF | 0xE1 => second[at + 1] |= 0x80,
            _ => {}
        }
        at = next;
        if command == Command::End {
            break;
        }
    }
    second
}

#[test]
fn second_chip_sounds_like_the_first() {
    let sampled = samples::TONES.iter();
    let sampled = sampled.map(|tone| (tone.name, tone.header[0].0, tone.song()));
    let stepped = steps::tones().into_iter().map(|tone| {
        let commands = [&tone.setup[..], &tone.on, &steps::wait(4_000)].concat();
        (tone.name, tone.clock.0, tone.song(false, &commands))
    });
    for (name, clock, song) in sampled.chain(stepped) {
        if SINGLE.iter().any(|single| name.starts_with(single)) {
            continue;
        }
        let second = for_second(&song, clock);
        let warnings = Warnings::of(&Song::parse(second.clone()).unwrap());
        assert!(warnings.warnings.is_empty(), "{name}: {warnings:?}");
        let [first, second] = [song, second].map(steps::play);
        assert!(first.iter().flatten().any(|side| *side != 0.0), "{name}");
        assert!(first == second, "{name}");
    }
}
