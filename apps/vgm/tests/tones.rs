//! Tones of chips without FM. Each tone has the pitch of the documentation and the level of the
//! mix, and each key press starts a note.
//!
//! If `CREEL_BALANCE_SONGS` is set to a folder, the test writes the songs of the level comparison
//! to it, so that other players can render them.

#[path = "tones/mod.rs"]
mod tone;

use std::path::PathBuf;

use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};
use tone::{SECOND, Tone, pitch, play, tones, wait};

fn rms(frames: &[[f32; 2]]) -> f64 {
    let left = || frames.iter().map(|frame| f64::from(frame[0]));
    let mean = left().sum::<f64>() / frames.len() as f64;
    (left().map(|sample| (sample - mean).powi(2)).sum::<f64>() / frames.len() as f64).sqrt()
}

#[test]
fn each_chip_tone_has_its_pitch() {
    for tone in tones() {
        let commands = [&tone.setup[..], &tone.on, &wait(SECOND / 2)].concat();
        let frames = play(tone.song(false, &commands));
        let (found, part) = pitch(&frames[2_000..19_000], tone.hz);
        let cents = 1200.0 * (found / tone.hz).log2();
        println!(
            "{}: {found:.2} Hz, {cents:+.1} cents, {part:.2} of the power",
            tone.name
        );
        assert!(cents.abs() < 2.0, "{}", tone.name);
        assert!(
            part > 0.5,
            "{}: {part:.3} of its power at its pitch",
            tone.name
        );
        let peak = frames
            .iter()
            .flatten()
            .fold(0.0f32, |peak, side| peak.max(side.abs()));
        assert!((0.01..1.0).contains(&peak), "{}: peak {peak}", tone.name);
    }
}

#[test]
fn eight_key_ons_give_eight_attacks() {
    for tone in tones() {
        for patched in [false, true] {
            let mut commands = tone.setup.clone();
            let data = tone.setup[0] == 0x67;
            for _ in 0..8 {
                commands.extend(&tone.off);
                if patched && !data {
                    commands.extend(&tone.setup);
                }
                commands.extend(&tone.on);
                commands.extend(wait(SECOND / 2));
            }
            let frames = play(tone.song(false, &commands));
            let notes = frames.chunks(frames.len() / 8);
            let attacks: Vec<_> = notes
                .take(8)
                .map(|note| rms(&note[..2205]) * 32768.0)
                .collect();
            let printed: Vec<_> = attacks.iter().map(|rms| rms.round()).collect();
            println!("{}: {printed:?}", tone.name);
            let loudest = attacks.iter().copied().fold(0.0, f64::max);
            let quietest = attacks.iter().copied().fold(f64::MAX, f64::min);
            assert!(loudest > 300.0, "{} is heard: {printed:?}", tone.name);
            assert!(quietest > 0.7 * loudest, "{}: {printed:?}", tone.name);
        }
    }
}

#[test]
fn output_is_independent_of_block_size() {
    for tone in tones() {
        let commands = [
            &tone.setup[..],
            &tone.on,
            &wait(3_000),
            &tone.off,
            &tone.on,
            &wait(3_000),
        ];
        let song = Song::parse(tone.song(false, &commands.concat())).unwrap();
        let (settings, mut buffers) = (Settings::default(), Buffers::default());
        let mut in_blocks = |block: usize| {
            let mut player = Player::new(&song, &settings, &mut buffers).unwrap();
            let mut frames = vec![[0.0f32; 2]; 6_000];
            for block in frames.chunks_mut(block) {
                player.fill(&mut buffers, block);
            }
            frames
        };
        let whole = in_blocks(6_000);
        for block in [1, 37, 1_024] {
            assert!(
                whole == in_blocks(block),
                "{} in blocks of {block}",
                tone.name
            );
        }
    }
}

#[test]
fn damaged_songs_play_or_fail_cleanly() {
    let mut seed = 7u64;
    let mut below = |end: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % end
    };
    let mut buffers = Buffers::default();
    for tone in tones() {
        let commands = [
            &tone.setup[..],
            &tone.on,
            &wait(600),
            &tone.off,
            &tone.on,
            &wait(600),
        ];
        let whole = tone.song(false, &commands.concat());
        let mut played = 0;
        for _ in 0..300 {
            let mut song = whole.clone();
            for _ in 0..1 + below(12) {
                let at = 0x100 + below(song.len() - 0x100);
                song[at] = below(256) as u8;
            }
            let Ok(song) = Song::parse(song) else {
                continue;
            };
            let Ok(mut player) = Player::new(&song, &Settings::default(), &mut buffers) else {
                continue;
            };
            let mut frames = vec![[0.0f32; 2]; 3_000];
            player.fill(&mut buffers, &mut frames);
            assert!(frames.iter().flatten().all(|side| side.is_finite()));
            played += 1;
        }
        assert!(played > 20, "{}: {played} of 300", tone.name);
    }
}

/// The writes that start one operator of the YM2151 with an undamped sine.
const OPM: [(u8, u8); 9] = [
    (0x20, 0xC7),
    (0x28, 0x4A),
    (0x60, 0x00),
    (0x68, 0x7F),
    (0x70, 0x7F),
    (0x78, 0x7F),
    (0x80, 0x1F),
    (0xE0, 0x0F),
    (0x08, 0x08),
];

/// Creates a song with one second of the YM2151's sine and one second of the tone.
fn balance(tone: &Tone) -> Vec<u8> {
    let sine: Vec<u8> = OPM
        .iter()
        .flat_map(|(reg, value)| [0x54, *reg, *value])
        .collect();
    let second = wait(SECOND);
    let parts = [
        &tone.setup[..],
        &tone.off,
        &sine,
        &second,
        &[0x54, 8, 0],
        &tone.on,
        &second,
        &tone.off,
    ];
    let mut song = tone.song(true, &parts.concat());
    song[0x18..0x1C].copy_from_slice(&(2 * SECOND as u32).to_le_bytes());
    song
}

#[test]
fn each_chip_has_its_documented_level() {
    let folder = std::env::var_os("CREEL_BALANCE_SONGS").map(PathBuf::from);
    println!("| chip | dB beside the YM2151 |\n|---|---|");
    let mut wrong = Vec::new();
    for tone in tones() {
        let song = balance(&tone);
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(tone.name).with_extension("vgm"), &song).unwrap();
        }
        let frames = play(song);
        let [sine, loud] = [(4_410, 39_690), (SECOND + 4_410, SECOND + 19_000)]
            .map(|(from, end)| rms(&frames[from..end]));
        let level = 20.0 * (loud / sine).log10();
        println!("| {} | {level:+.1} |", tone.name);
        if (level - tone.decibels).abs() > 0.2 {
            wrong.push(format!(
                "{}: {level:+.1} dB, not {:+.1}",
                tone.name, tone.decibels
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
