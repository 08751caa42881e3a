//! Playing from outside: the same bits in blocks of any size, with buffers of any past; lengths
//! exact; every carried song heard and none clipped.

use creel_vgm::demo;
use creel_vgm::format::Song;
use creel_vgm::mix::Quality;
use creel_vgm::render::{Buffers, Player, Settings, SplitPlayer};

fn songs() -> Vec<(&'static str, Song)> {
    let songs = demo::CARRIED.iter();
    songs
        .map(|song| (song.name, Song::parse(song.packed.to_vec()).unwrap()))
        .collect()
}

fn once() -> Settings {
    Settings {
        loops: 1,
        fade_seconds: 0.0,
        ..Settings::default()
    }
}

/// The first `frames` frames, or all if there are fewer, asked for in blocks of `block`.
fn play(
    song: &Song,
    settings: &Settings,
    buffers: &mut Buffers,
    (block, frames): (usize, usize),
) -> Vec<[f32; 2]> {
    let mut player = Player::new(song, settings, buffers).unwrap();
    let frames = frames.min(player.frames() as usize + 1);
    let mut out = vec![[0.0; 2]; frames];
    let mut at = 0;
    while at < frames {
        let end = frames.min(at + block);
        let made = player.fill(buffers, &mut out[at..end]);
        if made == 0 {
            break;
        }
        at += made;
    }
    out.truncate(at);
    out
}

#[test]
fn the_size_of_blocks_changes_no_bit() {
    for (name, song) in songs() {
        let mut buffers = Buffers::default();
        for quality in [Quality::BandLimited, Quality::Linear] {
            let settings = Settings { quality, ..once() };
            let whole = play(&song, &settings, &mut buffers, (1024, 60_000));
            for block in [1, 37, 4096, 60_000] {
                let other = play(&song, &settings, &mut buffers, (block, 60_000));
                assert!(whole == other, "{name} in blocks of {block}");
            }
        }
    }
}

#[test]
fn a_copy_made_in_mid_song_plays_the_same_bits() {
    for (name, song) in songs() {
        let mut first = SplitPlayer::new(&song, &once()).unwrap();
        let (mut levels, mut out) = ([0.0; 16], vec![[0.0; 2]; 1000]);
        for _ in 0..7 {
            first.fill_heard(|_| true, &mut levels, &mut out);
        }
        let mut second = first.clone();
        assert_eq!(second.frame(), 7000, "{name}");
        let mut again = out.clone();
        for block in 7..20 {
            let made = first.fill_heard(|_| true, &mut levels, &mut out);
            let remade = second.fill_heard(|_| true, &mut levels, &mut again);
            assert!(out[..made] == again[..remade], "{name}, block {block}");
        }
    }
}

#[test]
fn a_part_that_is_not_heard_plays_on() {
    let heard = |song: &Song, heard: &dyn Fn(usize) -> bool| {
        let mut player = SplitPlayer::new(song, &once()).unwrap();
        let (mut levels, mut out) = ([0.0; 16], vec![[0.0; 2]; 9000]);
        player.fill_heard(heard, &mut levels, &mut out);
        (player.names().count(), levels, out)
    };
    let mut several = 0;
    for (name, song) in songs() {
        let (parts, levels, all) = heard(&song, &|_| true);
        let (_, muted, none) = heard(&song, &|_| false);
        assert_eq!(levels, muted, "{name}");
        assert!(none.iter().all(|frame| *frame == [0.0; 2]), "{name}");
        several += usize::from(parts > 1);
        let (_, _, alone) = heard(&song, &|part| part == 0);
        assert!(parts == 1 || alone != all || levels[1] == 0.0, "{name}");
    }
    assert!(several > 0);
}

#[test]
fn what_was_played_before_changes_no_bit() {
    let mut used = Buffers::default();
    for (name, song) in songs() {
        let fresh = play(&song, &once(), &mut Buffers::default(), (1024, 20_000));
        let again = play(&song, &once(), &mut used, (1024, 20_000));
        assert!(fresh == again, "{name}");
    }
}

#[test]
fn lengths_are_exact_with_loops_fades_and_rates() {
    for (name, song) in songs() {
        let looped = song.ticks() - song.repeat().expect("carried songs loop").tick;
        for (loops, fade_seconds, sample_rate) in
            [(1, 0.0, 44_100), (2, 1.5, 44_100), (1, 0.5, 8_000)]
        {
            let settings = Settings {
                loops,
                fade_seconds,
                sample_rate,
                ..Settings::default()
            };
            let ticks = song.ticks() + u64::from(loops - 1) * looped;
            let rate = u64::from(sample_rate);
            let expected =
                (ticks * rate).div_ceil(44_100) + (fade_seconds * f64::from(sample_rate)) as u64;
            let frames = play(
                &song,
                &settings,
                &mut Buffers::default(),
                (8192, usize::MAX),
            );
            assert_eq!(frames.len() as u64, expected, "{name}");
            if fade_seconds > 0.0 {
                assert!(frames[frames.len() - 1][0].abs() < 1e-4, "{name} fades out");
            }
        }
    }
}

#[test]
fn the_second_pass_of_a_loop_sounds_on() {
    for (name, song) in songs() {
        let settings = Settings { loops: 2, ..once() };
        let frames = play(
            &song,
            &settings,
            &mut Buffers::default(),
            (4096, usize::MAX),
        );
        let second = &frames[frames.len() / 2..];
        let loud = second.iter().filter(|frame| frame[0].abs() > 0.003).count();
        assert!(
            loud > second.len() / 4,
            "{name}: {loud} of {}",
            second.len()
        );
    }
}

#[test]
fn carried_songs_are_heard_and_do_not_clip() {
    for (name, song) in songs() {
        let frames = play(&song, &once(), &mut Buffers::default(), (4096, usize::MAX));
        let peak = frames
            .iter()
            .flatten()
            .fold(0.0f32, |peak, sample| peak.max(sample.abs()));
        assert!((0.05..1.0).contains(&peak), "{name}: {peak}");
    }
}

#[test]
fn the_carried_files_are_what_the_composer_writes() {
    let composed = demo::compose();
    assert_eq!(composed.len(), demo::CARRIED.len());
    for (composed, carried) in composed.iter().zip(demo::CARRIED) {
        assert_eq!(composed.name, carried.name);
        let song = Song::parse(carried.packed.to_vec()).unwrap();
        assert!(
            song.bytes() == composed.bytes,
            "{}: run `creel-vgm generate`",
            carried.name
        );
        assert!(carried.packed.len() < 100 << 10, "{}", carried.name);
    }
}

#[test]
fn a_song_split_over_workers_has_the_same_bits() {
    let settings = Settings {
        fade_seconds: 0.2,
        ..once()
    };
    let pool = creel::Pool::builder().workers(3).build().unwrap();
    for (name, song) in songs() {
        let whole = play(
            &song,
            &settings,
            &mut Buffers::default(),
            (1024, usize::MAX),
        );
        let mut player = SplitPlayer::new(&song, &settings).unwrap();
        let mut split = vec![[0.0; 2]; whole.len()];
        for block in split.chunks_mut(9000) {
            assert_eq!(player.fill(&pool, block), block.len());
        }
        assert_eq!(player.fill(&pool, &mut [[0.0; 2]]), 0);
        assert!(whole == split, "{name}");
    }
}
