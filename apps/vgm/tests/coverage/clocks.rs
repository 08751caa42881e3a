//! Unusual clocks in the header. A song must be heard or cause a warning, and must not take
//! forever. Below 1 MHz it may be silent.

use creel_vgm::batch::Warnings;
use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

use crate::{samples, steps};

/// The clocks to try, with bits 30 and 31 in some of them.
const CLOCKS: [u32; 14] = [
    0,
    1,
    99,
    4_000,
    99_999,
    100_000,
    1_000_000,
    40_000_000,
    40_000_001,
    0x3FFF_FFFF,
    1 << 30,
    1 << 31,
    0xC000_0001,
    u32::MAX,
];

/// The length of a song in frames, which must be enough for a sound.
const FRAMES: usize = 4_410;

/// Returns the name of each chip, the offset of its clock in the header, and a song with one note.
fn songs() -> Vec<(&'static str, usize, Vec<u8>)> {
    let samples = samples::TONES.iter().map(|tone| {
        let silence = [&[0x61][..], &(samples::NOTE as u16).to_le_bytes()].concat();
        let mut song = tone.song();
        // We remove the tone of the YM2151 that precedes the notes: its wait and its clock.
        let at = song.windows(3).position(|bytes| bytes == silence);
        let at = at.expect("the song has a wait");
        song.drain(at..at + 3);
        song[0x30..0x34].fill(0);
        (tone.name, tone.header[0].0, song)
    });
    let steps = steps::tones().into_iter().map(|tone| {
        let commands = [&tone.setup[..], &tone.on, &steps::wait(FRAMES)].concat();
        let song = tone.song(false, &commands);
        (tone.name, tone.clock.0, song)
    });
    samples.chain(steps).collect()
}

#[test]
fn any_clock_is_played_or_reported() {
    for (name, at, song) in songs() {
        for clock in CLOCKS {
            let mut song = song.clone();
            // Bit 31 may select the part of the chip that the song plays.
            let clock = clock | u32::from(song[at + 3] & 0x80) << 24;
            song[at..at + 4].copy_from_slice(&clock.to_le_bytes());
            let song = Song::parse(song).unwrap();
            let warnings = Warnings::of(&song);
            let (settings, mut buffers) = (Settings::default(), Buffers::default());
            let has_chip = clock << 2 != 0;
            match Player::new(&song, &settings, &mut buffers) {
                Ok(mut player) => {
                    let mut frames = vec![[0.0f32; 2]; FRAMES];
                    player.fill(&mut buffers, &mut frames);
                    let is_finite = frames.iter().flatten().all(|side| side.is_finite());
                    assert!(is_finite, "{name} at {clock:#x}");
                    let is_heard = frames.iter().flatten().any(|side| *side != 0.0);
                    let is_reported = !warnings.warnings.is_empty();
                    assert!(
                        is_heard || is_reported || clock << 2 < 4_000_000,
                        "{name} at {clock:#x} is silent"
                    );
                }
                Err(_) if has_chip => assert!(!warnings.is_complete(), "{name} at {clock:#x}"),
                Err(_) => assert!(!warnings.warnings.is_empty(), "{name} at {clock:#x}"),
            }
        }
    }
}
