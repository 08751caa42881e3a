//! Tests of playing: the same bits for blocks of any size and for reused buffers, exact lengths,
//! and built-in songs that are audible and do not clip.

use creel_vgm::demo;
use creel_vgm::format::Song;
use creel_vgm::mix::Quality;
use creel_vgm::render::{Buffers, LOOKAHEAD, Lane, Player, Settings, SplitPlayer};

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

/// Renders the first `frames` frames, or all if there are fewer, in blocks of `block` frames.
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
fn output_is_independent_of_block_size() {
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

/// Returns the settings of [`once`] for a song whose voices are muted and unmuted while it plays.
fn live() -> Settings {
    let mut settings = once();
    settings.chips.live = true;
    settings
}

#[test]
fn cloned_player_continues_identically() {
    for (name, song) in songs() {
        let mut first = SplitPlayer::new(&song, &once()).unwrap();
        let mut out = vec![[0.0; 2]; 1000];
        for _ in 0..7 {
            first.fill_here(&mut out);
        }
        let mut second = first.clone();
        assert_eq!(second.frame(), 7000, "{name}");
        let mut again = out.clone();
        for block in 7..20 {
            let made = first.fill_here(&mut out);
            let remade = second.fill_here(&mut again);
            assert!(out[..made] == again[..remade], "{name}, block {block}");
        }
    }
}

#[test]
fn muted_voice_keeps_running() {
    for (name, song) in songs() {
        let mut muted = SplitPlayer::new(&song, &live()).unwrap();
        let mut whole = SplitPlayer::new(&song, &once()).unwrap();
        let lanes = muted.lanes();
        let (mut out, mut other) = (vec![[0.0; 2]; 4410], vec![[0.0; 2]; 4410]);
        muted.fill_here(&mut out);
        whole.fill_here(&mut other);
        assert!(
            out == other,
            "{name}: the song differs although no voice is muted"
        );
        // We mute one voice after another. At the end, only decaying sound is left.
        for count in 1..=lanes.len() {
            muted.set_voices(|lane| !lanes[..count].contains(&lane));
            muted.fill_here(&mut out);
            whole.fill_here(&mut other);
        }
        assert!(out != other, "{name}");
        (0..40).for_each(|_| {
            muted.fill_here(&mut out);
            whole.fill_here(&mut other);
        });
        let peak = out
            .iter()
            .flatten()
            .fold(0.0f32, |peak, it| peak.max(it.abs()));
        assert!(
            peak < 1e-3,
            "{name}: a peak of {peak} is left after muting all voices"
        );
        // We unmute all voices.
        muted.set_voices(|_| true);
        (0..80).for_each(|_| {
            muted.fill_here(&mut out);
            whole.fill_here(&mut other);
        });
        let far = out.iter().flatten().zip(other.iter().flatten());
        let far = far.fold(0.0f32, |far, (a, b)| far.max((a - b).abs()));
        assert!(
            far < 1e-2,
            "{name}: differs by {far} after unmuting all voices"
        );
    }
}

#[test]
fn voice_numbers_match_mute_numbers() {
    for (name, song) in songs() {
        let lanes = SplitPlayer::new(&song, &live()).unwrap().lanes();
        let are_next =
            |pair: &[Lane]| pair[0].chip != pair[1].chip || pair[0].voice < pair[1].voice;
        assert!(lanes.windows(2).all(are_next), "{name}: {lanes:?}");
    }
}

#[test]
fn voices_alone_add_up_to_the_song() {
    for (name, song) in songs() {
        let mut player = SplitPlayer::new(&song, &live()).unwrap();
        let mut out = vec![[0.0; 2]; 44_100];
        player.fill_here(&mut out);
        let (mut sum, mut alone) = (vec![0.0; 500], vec![0.0; 500]);
        for lane in player.lanes() {
            let mut scratch = Default::default();
            assert_eq!(player.render_voice(lane, &mut scratch, &mut alone), 500);
            sum.iter_mut().zip(&alone).for_each(|(sum, it)| *sum += it);
        }
        player.fill_here(&mut out[..LOOKAHEAD]);
        player.fill_here(&mut out[..500]);
        // Outputs that swing between 0 and a level settle slowly around their mean. We ignore such
        // slow changes.
        let high = |wave: Vec<f32>| {
            let (mut last, mut passed) = (wave[0], 0.0f32);
            wave.into_iter().map(move |it| {
                passed = 0.95 * (passed + it - last);
                last = it;
                passed
            })
        };
        let whole = out[..500].iter().map(|frame| 0.5 * (frame[0] + frame[1]));
        let (mut off, mut all) = (0.0, 0.0);
        for (whole, sum) in high(whole.collect()).zip(high(sum)) {
            (off, all) = (off + (whole - sum) * (whole - sum), all + whole * whole);
        }
        // Converters round and clip, and the step caused by muting the other voices rings for a
        // while. The largest error is two thousandths, with the SN76489.
        assert!(off < 0.003 * all, "{name}: {off} of {all}");
    }
}

#[test]
fn tempo_changes_duration_and_keeps_position() {
    for (name, song) in songs() {
        let mut player = SplitPlayer::new(&song, &once()).unwrap();
        let mut out = vec![[0.0; 2]; 1000];
        player.fill_here(&mut out);
        player.set_tempo(2000);
        player.fill_here(&mut out);
        assert_eq!(player.frame(), 3000, "{name}");
        let mut frames = 2000;
        loop {
            let made = player.fill_here(&mut out);
            frames += made as u64;
            if made < out.len() {
                break;
            }
        }
        let wanted = 1000 + (player.frames() - 1000) / 2;
        assert!(
            frames.abs_diff(wanted) <= 1,
            "{name}: {frames} for {wanted}"
        );
    }
}

#[test]
fn output_is_independent_of_previous_songs() {
    let mut used = Buffers::default();
    for (name, song) in songs() {
        let fresh = play(&song, &once(), &mut Buffers::default(), (1024, 20_000));
        let again = play(&song, &once(), &mut used, (1024, 20_000));
        assert!(fresh == again, "{name}");
    }
}

#[test]
fn song_lengths_are_exact() {
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
fn second_loop_pass_is_audible() {
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
fn bundled_songs_are_audible_and_do_not_clip() {
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
fn bundled_songs_are_those_that_the_generator_composes() {
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
fn split_player_matches_single_player() {
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
