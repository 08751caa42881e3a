//! Tests of the MSM6258: how it decodes codes, and its control, pan and clock.

use creel_vgm::chips::okim6258::Okim6258;
use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

/// Returns the MSM6258 of an X68000, which plays at its highest rate.
fn playing(flags: u8) -> Okim6258 {
    let mut chip = Okim6258::new(8_000_000, flags);
    chip.write(0, 0, 2);
    chip
}

/// Returns the output of the left side while the chip receives `bytes` as it needs them.
fn decode(chip: &mut Okim6258, bytes: &[u8]) -> Vec<i32> {
    let mut left = Vec::new();
    for &byte in bytes {
        chip.write(0, 1, byte);
        let mut frames = [[0; 2]; 2];
        chip.render(&mut frames);
        left.extend(frames.map(|frame| frame[0]));
    }
    left
}

#[test]
fn okim6258_adpcm_follows_the_step_table() {
    // We computed the values by hand:
    //
    // - Code 7 moves the value by 30, because the step size is 16. The size then climbs by 8 places
    //   to 34.
    // - The second code 7 moves it by 34 + 17 + 8 + 4 = 63. The size climbs to 73.
    // - Code 8 moves it down by an eighth of 73, which is 9. The size falls by one place to 66.
    // - The second code 8 moves it down by an eighth of 66, which is 8.
    //
    // At each code, 245/256 of the previous value remain. The values are therefore -1.9 + 30,
    // 26.9 + 63, 86.0 - 9 and 73.7 - 8.
    let left = decode(&mut playing(0b1010), &[0x77, 0x88]);
    let values: Vec<_> = left.iter().map(|level| level >> 4).collect();
    assert_eq!(values, [28, 89, 77, 65]);
}

#[test]
fn okim6258_value_and_step_saturate() {
    let up = decode(&mut playing(0b1010), &[0x77; 40]);
    assert_eq!(up.last(), Some(&(2047 << 4)));
    let down = decode(&mut playing(0b1010), &[0xff; 40]);
    assert_eq!(down.last(), Some(&(-2048 << 4)));
}

/// Encodes a tone of `codes` codes. The encoder has an exact sum and chooses the code whose step is
/// nearest. The tone ends at its peak, so the sum stays there.
fn tone(codes: usize) -> Vec<u8> {
    const MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];
    let (mut sum, mut step) = (0.0f64, 0i32);
    let mut nibbles = Vec::new();
    for n in 0..codes {
        let cycles = 10.25 * (n + 1) as f64 / codes as f64;
        let wanted = 400.0 * (std::f64::consts::TAU * cycles).sin();
        let size = 16.0 * 1.1f64.powi(step);
        let of = |code: usize| {
            let parts = (2 * (code & 7) + 1) as f64 / 8.0 * size;
            if code & 8 == 0 { parts } else { -parts }
        };
        let away = |code: &usize| (sum + of(*code) - wanted).abs();
        let code = (0..16).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap();
        sum += of(code);
        step = (step + MOVES[code & 7]).clamp(0, 48);
        nibbles.push(code as u8);
    }
    nibbles
        .chunks(2)
        .map(|pair| pair[0] | pair[1] << 4)
        .collect()
}

/// Joins several tones without resetting the chip between them, as drivers do.
#[test]
fn okim6258_dc_offset_does_not_accumulate() {
    let sound = tone(400);
    let mut chip = playing(0b1010);
    for seconds in [4, 8, 12, 16] {
        let bytes: Vec<u8> = sound.iter().copied().cycle().take(4 * 7812).collect();
        let left = decode(&mut chip, &bytes);
        let mean = left.iter().map(|level| f64::from(*level)).sum::<f64>() / left.len() as f64;
        assert!(mean.abs() < 1000.0, "up to {seconds} s: {mean}");
    }
}

#[test]
fn okim6258_ten_bit_output_drops_two_bits() {
    let bytes: Vec<u8> = (0..200u32).map(|n| (n * 37) as u8).collect();
    let twelve = decode(&mut playing(0b1010), &bytes);
    let ten = decode(&mut playing(0b0010), &bytes);
    assert!(twelve.iter().any(|level| level & 0x30 != 0));
    let masked: Vec<_> = twelve.iter().map(|level| level & !0x3f).collect();
    assert_eq!(ten, masked);
}

#[test]
fn okim6258_stop_mutes_and_play_resets() {
    let mut chip = playing(0b1010);
    let first = decode(&mut chip, &[0x35, 0x71, 0x0a]);
    chip.write(0, 0, 1);
    assert_eq!(decode(&mut chip, &[0x77]), [0, 0]);
    chip.write(0, 0, 2);
    assert_eq!(decode(&mut chip, &[0x35, 0x71, 0x0a]), first);
}

#[test]
fn okim6258_holds_output_without_data() {
    let mut chip = playing(0b1010);
    let last = *decode(&mut chip, &[0x77]).last().expect("two values");
    let mut frames = [[0; 2]; 5];
    chip.render(&mut frames);
    assert_eq!(frames, [[last; 2]; 5]);
}

#[test]
fn okim6258_applies_pan_and_clock_writes() {
    let mut chip = playing(0b1010);
    chip.write(0, 2, 1);
    chip.write(0, 1, 0x77);
    let mut frame = [[0; 2]];
    chip.render(&mut frame);
    assert_eq!(frame, [[28 << 4, 0]]);
    for (reg, value) in (0x08..).zip(4_000_000u32.to_le_bytes()) {
        chip.write(0, reg, value);
    }
    chip.write(0, 0x0c, 0);
    assert_eq!(chip.rate().hz(), 3_906.25);
}

/// Creates a song that feeds the chip at its highest rate, and then at the middle rate.
fn song_of_two_rates() -> Song {
    let mut song = vec![0; 0x100];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x72, 0x01]);
    song[0x34] = 0xCC;
    song[0x90..0x94].copy_from_slice(&8_000_000u32.to_le_bytes());
    song[0x94] = 0b1010;
    song.extend([0xB7, 0, 2]);
    for (divider, ticks) in [(2, 6), (1, 8)] {
        song.extend([0xB7, 0x0C, divider]);
        for byte in tone(4000) {
            song.extend([0xB7, 1, byte, 0x70 + ticks - 1]);
        }
    }
    song.push(0x66);
    Song::parse(song).unwrap()
}

#[test]
fn okim6258_rate_change_keeps_every_code() {
    let song = song_of_two_rates();
    let played = |block: usize| {
        let mut buffers = Buffers::default();
        let mut player = Player::new(&song, &Settings::default(), &mut buffers).unwrap();
        let mut frames = vec![[0.0; 2]; player.frames() as usize];
        for block in frames.chunks_mut(block) {
            player.fill(&mut buffers, block);
        }
        frames
    };
    let whole = played(usize::MAX);
    let (before, behind) = whole.split_at(whole.len() * 6 / 14);
    for half in [before, behind] {
        let peak = half.iter().map(|frame| frame[0].abs()).fold(0.0, f32::max);
        assert!(peak > 0.02, "{peak}");
    }
    for block in [1, 64, 1024] {
        assert!(played(block) == whole, "in blocks of {block}");
    }
}
