//! Tests of the effects of registers according to the documentation of each chip: ends and loops,
//! levels, pans, codes and times.

use creel_vgm::chips::pcm::PcmChip;
use creel_vgm::chips::pcm::c140::C140;
use creel_vgm::chips::pcm::c352::C352;
use creel_vgm::chips::pcm::es550x::Es550x;
use creel_vgm::chips::pcm::ga20::Ga20;
use creel_vgm::chips::pcm::k053260::K053260;
use creel_vgm::chips::pcm::k054539::K054539;
use creel_vgm::chips::pcm::okim6295::Okim6295;
use creel_vgm::chips::pcm::pwm::Pwm;
use creel_vgm::chips::pcm::qsound::Qsound;
use creel_vgm::chips::pcm::rf5c68::Rf5c68;
use creel_vgm::chips::pcm::scsp::Scsp;
use creel_vgm::chips::pcm::segapcm::SegaPcm;
use creel_vgm::chips::pcm::upd7759::Upd7759;
use creel_vgm::chips::pcm::x1_010::X1010;
use creel_vgm::chips::pcm::ymf278b::Ymf278b;
use creel_vgm::chips::rom::Rom;

fn with_rom<C: PcmChip>(mut chip: C, kind: u8, bytes: &[u8]) -> C {
    *chip.rom(kind).unwrap() = Rom::of(bytes.to_vec());
    chip
}

fn write(chip: &mut impl PcmChip, writes: &[(u8, u16, u16)]) {
    for (port, reg, value) in writes {
        chip.write(*port, *reg, *value);
    }
}

fn left(chip: &mut impl PcmChip, frames: usize) -> Vec<i32> {
    both(chip, frames).iter().map(|frame| frame[0]).collect()
}

fn both(chip: &mut impl PcmChip, frames: usize) -> Vec<[i32; 2]> {
    let mut out = vec![[0; 2]; frames];
    chip.render(&mut out);
    out
}

/// Returns the ratio of two levels in dB.
fn decibels(level: i32, reference: i32) -> f64 {
    20.0 * (f64::from(level) / f64::from(reference)).log10()
}

#[test]
fn okim6295_attenuation_is_3_db_and_phrases_end() {
    // Phrase 1 consists of 16 bytes, all of them with code 7. This code raises the value until it
    // stays near its maximum.
    let mut memory = vec![0; 8];
    memory.extend([0, 0, 0x10, 0, 0, 0x1F, 0, 0]);
    memory.extend([0x77; 16]);
    let peak = |attenuation: u16| {
        let mut chip = with_rom(Okim6295::new(1_056_000, true), 0x8B, &memory);
        write(&mut chip, &[(0, 0, 0x81), (0, 0, 0x10 | attenuation)]);
        let frames = left(&mut chip, 40);
        assert_eq!(frames[32..], [0; 8], "32 codes");
        frames[31]
    };
    for steps in 1..9 {
        let less = decibels(peak(steps), peak(0));
        assert!(
            (less + 3.0 * f64::from(steps)).abs() < 0.6,
            "{steps}: {less}"
        );
    }
    assert_eq!(peak(9), 0);
    // A playing voice does not accept another phrase. A stopped voice does.
    let mut chip = with_rom(Okim6295::new(1_056_000, true), 0x8B, &memory);
    write(&mut chip, &[(0, 0, 0x81), (0, 0, 0x10)]);
    let first = left(&mut chip, 8);
    write(&mut chip, &[(0, 0, 0x81), (0, 0, 0x10)]);
    assert_ne!(left(&mut chip, 8)[..2], first[..2]);
    write(&mut chip, &[(0, 0, 0x08), (0, 0, 0x81), (0, 0, 0x10)]);
    assert_eq!(left(&mut chip, 8), first);
}

#[test]
fn segapcm_loops_after_its_last_page() {
    // Each sample contains the number of its page. 80 (hexadecimal) is the middle.
    let memory: Vec<u8> = (0..0x400).map(|at| 0x80 + (at >> 8) as u8).collect();
    let note = |flags: u16| {
        let mut chip = with_rom(SegaPcm::new(4_000_000, 0), 0x80, &memory);
        let voice = [
            (2, 4),
            (3, 8),
            (4, 0x80),
            (5, 1),
            (6, 2),
            (7, 0x80),
            (0x84, 0),
            (0x85, 1),
        ];
        voice
            .into_iter()
            .for_each(|(reg, value)| chip.write(0, reg, value));
        chip.write(0, 0x86, flags);
        both(&mut chip, 2048)
    };
    let looped = note(0);
    // The voice plays two pages at half a sample per frame, and then continues from the middle of
    // page 1.
    let pages: Vec<i32> = looped.iter().map(|frame| frame[0]).collect();
    let expected = |frame: usize| match frame {
        0..512 => 1,
        512..1024 => 2,
        _ if (frame - 1024) % 768 < 256 => 1,
        _ => 2,
    };
    assert!((0..2048).all(|frame| pages[frame] == expected(frame)));
    assert_eq!(looped[600], [2, 4]);
    let once = note(2);
    assert_eq!(
        (once[1023], once[1024], once[2047]),
        ([2, 4], [0, 0], [0, 0])
    );
}

#[test]
fn rf5c164_loops_at_ff_and_uses_sign_magnitude() {
    let mut chip = Rf5c68::new_164(12_500_000);
    for (reg, value) in [(7, 0x81), (7, 0xC2)] {
        chip.write(0, reg, value);
    }
    // The window stays where it was set before the voice was selected.
    chip.store(0, &[0x90, 0x10, 0xA0, 0xFF]);
    write(
        &mut chip,
        &[
            (0, 0, 32),
            (0, 1, 0x21),
            (0, 3, 8),
            (0, 4, 1),
            (0, 5, 0x10),
            (0, 6, 0x10),
        ],
    );
    chip.write(0, 8, !4 & 0xFF);
    let frames = both(&mut chip, 7);
    let sides = |size: i32| [size, 2 * size];
    let expected = [16, -16, 32, -16, 32, -16, 32].map(sides);
    assert_eq!(frames, expected);
    chip.write(0, 8, 0xFF);
    assert_eq!(both(&mut chip, 2), [[0; 2]; 2]);
}

#[test]
fn k053260_pans_at_constant_power_and_decodes_kadpcm() {
    let plain: Vec<u8> = vec![100; 64];
    let level = |pan: u16| {
        let mut chip = with_rom(K053260::new(3_579_545), 0x8E, &plain);
        let pitch = 0x1000 - 64;
        write(
            &mut chip,
            &[
                (0, 0x2F, 2),
                (0, 8, pitch & 0xFF),
                (0, 9, pitch >> 8),
                (0, 0x0A, 60),
            ],
        );
        write(&mut chip, &[(0, 0x0F, 0x40), (0, 0x2C, pan), (0, 0x28, 1)]);
        both(&mut chip, 8)[7]
    };
    let whole = f64::from(level(1)[0]);
    for (pan, degrees) in [
        (1, 0.0f64),
        (2, 24.0),
        (3, 35.0),
        (4, 45.0),
        (5, 55.0),
        (6, 66.0),
        (7, 90.0),
    ] {
        let [left, right] = level(pan).map(f64::from);
        let angle = degrees.to_radians();
        assert!((left - whole * angle.cos()).abs() < 1.5, "{pan}");
        assert!((right - whole * angle.sin()).abs() < 1.5, "{pan}");
    }
    assert_eq!(level(0), [0, 0]);
    // The first code is the low one of the second byte, because a voice starts one byte after its
    // start address. After the loop, the voice begins at the first byte, and the sum at 0.
    let mut chip = with_rom(K053260::new(3_579_545), 0x8E, &[0x21, 0x43, 0xF8, 0x00]);
    let pitch = 0x1000 - 64;
    write(
        &mut chip,
        &[
            (0, 0x2F, 2),
            (0, 8, pitch & 0xFF),
            (0, 9, pitch >> 8),
            (0, 0x0A, 2),
        ],
    );
    write(
        &mut chip,
        &[(0, 0x0F, 0x40), (0, 0x2C, 1), (0, 0x2A, 0x11), (0, 0x28, 1)],
    );
    let sums: Vec<_> = left(&mut chip, 9).iter().map(|level| level / 64).collect();
    // Codes 3 and 4 add 4 and 8, and codes 8 and F subtract 128 and 1. After the loop, codes 1 and
    // 2 add 1 and 2, and the codes above follow again.
    assert_eq!(sums, [4, 12, -116, -117, 1, 3, 7, 15, -113]);
}

#[test]
fn k054539_stops_or_loops_at_end_markers_and_delays_its_echo() {
    let setup = [(2, 0x2F, 1), (0, 2, 1), (0, 4, 0xFF), (0, 5, 0x11 + 14)];
    let note = |kind: u16, looping: u16, memory: &[u8]| {
        let mut chip = with_rom(K054539::new(18_432_000, 0), 0x8C, memory);
        write(&mut chip, &setup);
        write(
            &mut chip,
            &[
                (2, 0, kind),
                (2, 1, looping),
                (0, 8, 2),
                (0, 0x0C, 0),
                (2, 0x14, 1),
            ],
        );
        left(&mut chip, 6)
            .iter()
            .map(|level| level * 4)
            .collect::<Vec<_>>()
    };
    // A voice begins one sample after its start address.
    let bytes = [9, 16, 32, 0x80];
    assert_eq!(note(0, 0, &bytes), [16 << 8, 32 << 8, 0, 0, 0, 0]);
    assert_eq!(
        note(0, 1, &bytes),
        [16, 32, 32, 32, 32, 32].map(|value| value << 8)
    );
    let words = [9, 9, 0, 16, 0, 32, 0, 0x80];
    assert_eq!(note(4, 0, &words)[..3], [16 << 8, 32 << 8, 0]);
    // Codes 1, 2, 3 add 1, 4, 9. The first code is skipped.
    let codes = [0x10, 0x32, 0x88];
    assert_eq!(note(8, 0, &codes)[..4], [0x100, 0x500, 0xE00, 0]);
    // The echo comes 256 frames later on both sides, at half of the level.
    let mut chip = with_rom(K054539::new(18_432_000, 0), 0x8C, &[0, 64, 0x80]);
    write(&mut chip, &setup);
    write(
        &mut chip,
        &[(0, 4, 0), (0, 7, 8), (0, 0x0C, 0), (2, 0x14, 1)],
    );
    let frames = both(&mut chip, 300);
    let heard: Vec<_> = (0..300).filter(|frame| frames[*frame] != [0, 0]).collect();
    assert_eq!(heard, [0, 256]);
    assert_eq!((frames[0], frames[256]), ([4096, 0], [2048, 2048]));
}

#[test]
fn qsound_loops_and_pans() {
    let memory: Vec<u8> = (0..16).collect();
    let note = |pan: u16| {
        let mut chip = with_rom(Qsound::new(60_000_000), 0x8F, &memory);
        let voice = [
            (1, 4),
            (2, 0x1000),
            (4, 3),
            (5, 8),
            (6, 0x4000),
            (0x80, pan),
        ];
        voice
            .into_iter()
            .for_each(|(reg, value)| chip.write(0, reg, value));
        // The left side is delayed by 26 frames, the right side by 28.
        both(&mut chip, 36)[26..].to_vec()
    };
    let samples: Vec<_> = note(0x110)[..8].iter().map(|frame| frame[0] >> 6).collect();
    assert_eq!(samples, [4, 5, 6, 7, 5, 6, 7, 5]);
    // Without the filters, the pan has constant power.
    let whole = f64::from(note(0x140)[3][0]);
    for place in 0..33 {
        let played = note(0x140 + place);
        let [left, right] = [played[3][0], played[5][1]].map(f64::from);
        assert!((left.hypot(right) - whole).abs() < 4.0, "{place}");
    }
    assert_eq!(note(0x160)[3][0], 0);
    // With the filters, a constant signal that is panned left also reaches the right side. There it
    // settles at four fifths of the level, with the opposite sign.
    let mut chip = with_rom(Qsound::new(60_000_000), 0x8F, &[64; 16]);
    for (reg, value) in [
        (1, 4),
        (2, 0x1000),
        (4, 3),
        (5, 8),
        (6, 0x4000),
        (0x80, 0x110),
    ] {
        chip.write(0, reg, value);
    }
    let [left, right] = both(&mut chip, 200)[199].map(f64::from);
    assert!((right / left + 0.8).abs() < 0.03, "{left} {right}");
}

#[test]
fn c352_loops_forward_or_to_and_fro_and_ramps_its_volume() {
    let memory: Vec<u8> = (0..64).collect();
    let note = |flags: u16| {
        let mut chip = with_rom(C352::new(24_192_000, 72, true), 0x92, &memory);
        let voice = [
            (0, 0xFF00),
            (2, 0xFFFF),
            (5, 4),
            (6, 8),
            (7, 6),
            (3, 0x4004 | flags),
        ];
        voice
            .into_iter()
            .for_each(|(reg, value)| chip.write(0, reg, value));
        chip.write(0, 0x202, 0);
        // Each frame except one takes a sample. The volume has settled after 256 frames.
        left(&mut chip, 400)
    };
    let kinds = |frames: &[i32]| {
        let mut seen: Vec<_> = frames.iter().map(|level| level / 31).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(note(0)[8..], [0; 392], "once");
    assert_eq!(
        kinds(&note(2)[300..]),
        [6, 7, 8],
        "from the loop to the end"
    );
    assert_eq!(kinds(&note(3)[300..]), [6, 7, 8], "to and fro");
    // The volume moves towards 255 by a step per half sample, which here is a step per frame.
    let mut chip = with_rom(C352::new(24_192_000, 72, true), 0x92, &[64; 64]);
    let voice = [
        (0, 0xFF00),
        (2, 0x8000),
        (5, 0),
        (6, 32),
        (7, 0),
        (3, 0x4006),
    ];
    voice
        .into_iter()
        .for_each(|(reg, value)| chip.write(0, reg, value));
    chip.write(0, 0x202, 0);
    let frames = left(&mut chip, 600);
    let at = |steps: i32| ((0x4000 * steps) >> 8) >> 3;
    assert_eq!([frames[99], frames[199]], [at(100), at(200)]);
    assert_eq!(frames[599], at(255));
}

#[test]
fn c140_decodes_companded_samples_and_c219_swaps_bytes() {
    let note = |kind: u8, mode: u16, memory: &[u8]| {
        let mut chip = with_rom(C140::new(21_390, kind), 0x8D, memory);
        let end = memory.len() as u16 / if kind == 2 { 2 } else { 1 };
        // With step 8000h, each frame moves on by exactly one sample, so nothing is interpolated.
        let voice = [
            (0, 128),
            (1, 128),
            (2, 0x80),
            (9, end),
            (11, 2),
            (5, 0x80 | mode),
        ];
        voice
            .into_iter()
            .for_each(|(reg, value)| chip.write(0, reg, value));
        left(&mut chip, 8)
    };
    // A sample is output in the frame that takes the next one. Full scale is 4096, of which a step
    // of a byte is 32.
    let plain = note(0, 0x10, &[1, 2, 3, 4]);
    assert_eq!(plain, [0, 2, 3, 4, 3, 4, 3, 4].map(|value| value * 32));
    // The codes decode to (1 << 2) + 48 and to -(2 << 1) - 16.
    let codes = note(0, 0x18, &[0, 0x0A, 0xF1, 0x0A]);
    assert_eq!(codes[1..4], [(1 << 2) + 48, -(2 << 1) - 16, (1 << 2) + 48]);
    // The bytes of a word are swapped. F1 is minus 71 in sign and magnitude (both hexadecimal).
    let swapped = note(2, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(swapped[1..4], [1, 4, 3].map(|value| value * 32));
    assert_eq!(note(2, 1, &[0xF1, 0, 0, 0])[1], -0x71 * 32);
}

#[test]
fn upd7759_plays_silences_and_repeats_blocks_and_ends() {
    // Phrase 0 is at address 8. After the byte with its kind, it has these blocks:
    //
    // - 09: silence of 10 × 1,024 clocks, which is 16 ms.
    // - C1: the following blocks are played twice.
    // - 80 + 24 and 3: four codes (4, 0, 4, 0), each of which lasts 25 units of four clocks.
    // - 00: the end of the repeated blocks, and finally of the phrase.
    let mut memory = vec![0, 0x5A, 0xA5, 0x69, 0x55, 0, 4, 0, 0, 9];
    memory.extend([0xC1, 0x80 + 24, 3, 0x40, 0x40, 0, 0, 0]);
    let mut chip = with_rom(Upd7759::new(640_000, false), 0x8A, &memory);
    write(&mut chip, &[(0, 0, 1), (0, 1, 0), (0, 2, 0), (0, 1, 1)]);
    let frames = left(&mut chip, 4_000);
    let first = frames.iter().position(|level| *level != 0).unwrap();
    // The silence has 256 units for each 1,024 clocks, and a frame has four units. We allow for
    // some more frames, because the chip needs time to start and to read bytes.
    let expected = 10 * 256 / 4;
    assert!((expected..expected + 40).contains(&first), "{first}");
    // Code 4 adds 3 in state 0, and raises the state to 1. Code 0 then adds nothing, and lowers the
    // state again. The level therefore rises to 6, and to 12 if the codes are played twice. A frame
    // is the mean of four units, so the first frame after a code may have a value in between.
    let held = frames.windows(3).filter(|frames| frames[0] == frames[2]);
    let mut tops: Vec<_> = held.map(|frames| frames[0] >> 7).collect();
    tops.dedup();
    assert_eq!(tops[1], 3);
    assert!(tops.contains(&12), "played twice: {tops:?}");
    assert!(
        frames[3_000..].iter().all(|level| *level == frames[3_999]),
        "it ends"
    );
}

#[test]
fn ga20_volume_follows_its_curve_and_rate_f0_plays_a_sample_per_frame() {
    let level = |volume: u16| {
        let mut chip = with_rom(Ga20::new(3_579_545), 0x93, &[0xC0; 64]);
        let voice = [(2, 4), (4, 0xF0), (5, volume), (6, 2)];
        voice
            .into_iter()
            .for_each(|(reg, value)| chip.write(0, reg, value));
        let frames = left(&mut chip, 80);
        // A sample lasts sixteen ticks, which is one frame. The 64 samples therefore last 64
        // frames.
        assert_eq!(frames.iter().filter(|level| **level != 0).count(), 64);
        frames[9]
    };
    for volume in [1, 10, 30, 90, 255] {
        let expected = (64 * (256 * volume / (volume + 10))) >> 2;
        assert_eq!(level(volume as u16), expected, "{volume}");
    }
}

#[test]
fn x1_010_plays_wavetables_with_envelopes() {
    let mut chip = X1010::new(16_000_000);
    for n in 0..128 {
        chip.write(0, 0x1080 + n, if n < 64 { 100 } else { 0x9C });
        chip.write(0, 0x80 + n, if n < 64 { 0xF0 } else { 0x0F });
    }
    // The wave has a period of 128 frames, and the envelope lasts 1,024.
    let voice = [(1, 1), (2, 0), (3, 4), (4, 128), (5, 1), (0, 7)];
    voice
        .into_iter()
        .for_each(|(reg, value)| chip.write(0, reg, value));
    let frames = both(&mut chip, 1200);
    assert_eq!((frames[10], frames[70]), ([3000, 0], [-3000, 0]));
    assert_eq!((frames[522], frames[582]), ([0, 3000], [0, -3000]));
    assert_eq!(frames[1024..], [[0, 0]; 176], "once");
}

#[test]
fn pwm_is_silent_at_a_width_of_half_a_cycle() {
    let mut chip = Pwm::new();
    write(&mut chip, &[(0, 1, 1001), (0, 2, 500), (0, 3, 1000)]);
    assert_eq!(both(&mut chip, 1), [[0, 0x7FFF]]);
    chip.write(0, 4, 0);
    assert_eq!(both(&mut chip, 1), [[-0x7FFF, -0x7FFF]]);
}

/// Returns a YMF278B that plays a constant. The rates are three bytes of the sound: attack and
/// decay 1, level and decay 2, and correction and release.
fn opl4(rates: [u8; 3]) -> Ymf278b {
    let mut memory = vec![
        0, 0, 0x10, 0, 0, 0xFF, 0xF0, 0, rates[0], rates[1], rates[2], 0,
    ];
    memory.resize(0x10, 0);
    memory.extend([127; 32]);
    let mut chip = with_rom(Ymf278b::new(33_868_800), 0x84, &memory);
    write(
        &mut chip,
        &[
            (2, 0x20, 0),
            (2, 0x38, 0x10),
            (2, 8, 0),
            (2, 0x50, 1),
            (2, 0x68, 0x80),
        ],
    );
    chip
}

#[test]
fn ymf278b_envelope_times_match_the_manual() {
    // Rates 16, 24 and 32. Rate 4 takes 88.6 s for 90 dB, and every four rates halve the time.
    for (rate, seconds) in [(4u8, 88.6 / 8.0), (6, 88.6 / 32.0), (8, 88.6 / 128.0)] {
        let mut chip = opl4([0xF0 | rate, 0xF0, 0xF0]);
        let frames = left(&mut chip, 44_100 * 6);
        let whole = frames[0];
        let fallen = frames
            .iter()
            .position(|level| decibels((*level).max(1), whole) < -30.0);
        let expected = seconds * 30.0 / 90.0;
        let took = fallen.unwrap() as f64 / 44_100.0;
        assert!(
            (took / expected - 1.0).abs() < 0.06,
            "rate {rate}: {took} s"
        );
    }
    // The attack at rate 16 takes 778 ms, within a tenth.
    let mut chip = opl4([0x40, 0, 0xF0]);
    let frames = left(&mut chip, 88_200);
    let top = *frames.last().unwrap();
    let took = frames.iter().position(|level| *level == top).unwrap() as f64 / 44.1;
    assert!((700.0..856.0).contains(&took), "{took} ms");
}

#[test]
fn ymf278b_decay_2_begins_even_if_decay_1_has_no_rate() {
    for rate in [6u8, 8] {
        // Decay 2 begins at 0 dB, after an attack that ends immediately or after a while.
        for attack in [0xF0, 0xE0] {
            let mut chip = opl4([attack, rate, 0xF0]);
            let frames = left(&mut chip, 44_100 * 2);
            let whole = *frames.iter().max().unwrap();
            let start = frames.iter().position(|level| *level == whole).unwrap();
            let mut after = frames[start..].iter();
            let fallen = after.position(|level| decibels((*level).max(1), whole) < -30.0);
            let expected = 88.6 / f64::from(1u32 << (rate - 1)) * 30.0 / 90.0;
            let took = fallen.unwrap() as f64 / 44_100.0;
            assert!((took / expected - 1.0).abs() < 0.1, "{rate}: {took} s");
        }
    }
}

#[test]
fn ymf278b_damps_a_pressed_key_and_rings_below_18_db() {
    let mut chip = opl4([0xF0, 0, 0xF0]);
    let whole = left(&mut chip, 100)[99];
    write(&mut chip, &[(2, 0x68, 0xC0)]);
    assert_eq!(left(&mut chip, 2_000)[1_999], 0);
    // Decay 1 is fast down to silence, but the voice rings.
    let mut chip = opl4([0xFC, 0xF0, 0xF0]);
    write(&mut chip, &[(2, 0x38, 0x18)]);
    let frames = left(&mut chip, 44_100);
    for at in [8_820, 44_099] {
        let fallen = decibels(frames[at].max(1), whole);
        assert!((-21.0..-17.5).contains(&fallen), "{at}: {fallen}");
    }
}

#[test]
fn ymf278b_level_is_0_375_db_and_pan_3_db_per_step() {
    let level = |level: u16, pan: u16| {
        let mut chip = opl4([0xF0, 0, 0xF0]);
        write(
            &mut chip,
            &[(2, 0x50, level << 1 | 1), (2, 0x68, 0x80 | pan)],
        );
        both(&mut chip, 4)[3]
    };
    let [whole, _] = level(0, 0);
    for steps in [8, 16, 32, 64] {
        let less = decibels(level(steps, 0)[0], whole);
        assert!(
            (less + 0.376 * f64::from(steps)).abs() < 0.1,
            "{steps}: {less}"
        );
    }
    for pan in 1..7 {
        let [left, right] = level(0, pan);
        assert_eq!(right, whole);
        assert!(
            (decibels(left, whole) + 3.01 * f64::from(pan)).abs() < 0.05,
            "{pan}"
        );
        assert_eq!(level(0, 16 - pan), [right, left]);
    }
    assert_eq!(
        (level(0, 7), level(0, 8), level(0, 9)),
        ([0, whole], [0, 0], [whole, 0])
    );
}

/// Writes all bytes of a register of an ES5506.
fn es5506(chip: &mut Es550x, register: u16, value: u32) {
    for (byte, value) in (0..).zip(value.to_be_bytes()) {
        chip.write(0, 4 * register + byte, u16::from(value));
    }
}

#[test]
fn es5506_loops_to_and_fro_and_a_volume_exponent_is_6_db() {
    let memory: Vec<u8> = (0..64u16).flat_map(|n| (n * 256).to_be_bytes()).collect();
    let note = |control: u32, volume: u32| {
        let mut chip = with_rom(Es550x::new(16_000_000), 0x90, &memory);
        let below = [
            (15, 0),
            (1, 0x800),
            (2, volume),
            (4, volume),
            (7, 0xFFFF),
            (9, 0xFFFF),
            (11, 31),
        ];
        below
            .into_iter()
            .for_each(|(register, value)| es5506(&mut chip, register, value));
        let above = [
            (15, 0x20),
            (1, 4 << 11),
            (2, 8 << 11),
            (3, 4 << 11),
            (0, 0x300 | control),
        ];
        above
            .into_iter()
            .for_each(|(register, value)| es5506(&mut chip, register, value));
        left(&mut chip, 24)
    };
    // A fully open filter passes everything except some of the first frames.
    let turns: Vec<_> = note(0x18, 0xFFF0)[12..]
        .iter()
        .map(|level| (level + 32) / 64)
        .collect();
    let first = turns.iter().position(|level| *level == 4).unwrap();
    assert_eq!(turns[first..first + 5], [4, 5, 6, 7, 8]);
    assert_eq!(turns[first + 5], 7);
    let (loud, soft) = (note(8, 0xFFF0), note(8, 0xEFF0));
    assert!((decibels(soft[20], loud[20]) + 6.02).abs() < 0.3);
    assert!(
        note(0, 0xFFF0)[16..].iter().all(|level| *level == 0),
        "once"
    );
}

#[test]
fn scsp_send_level_is_6_db_per_step_and_an_octave_doubles_the_speed() {
    let note = |send: u16, octave: u16| {
        let mut chip = Scsp::new(22_579_200);
        let memory: Vec<u8> = (0..256u16).flat_map(|n| (n * 64).to_be_bytes()).collect();
        chip.store(0, &memory);
        let word = |chip: &mut Scsp, word: u16, value: u16| {
            chip.write(0, word + 1, value & 0xFF);
            chip.write(0, word, value >> 8);
        };
        let words = [
            (4, 0),
            (6, 256),
            (8, 31),
            (0x0A, 0x3C1F),
            (0x10, octave << 11),
            (0x16, send << 8),
        ];
        words
            .into_iter()
            .for_each(|(at, value)| word(&mut chip, at, value));
        word(&mut chip, 0, 0x1820);
        both(&mut chip, 64)
    };
    let whole = note(0xE0, 0);
    assert_eq!(whole[60], [(60 * 64) >> 2; 2]);
    assert_eq!(note(0xE0, 1)[30], whole[60]);
    assert_eq!(note(0xE0, 15)[60], whole[30]);
    for level in 1..7 {
        let less = decibels(note(level << 5, 0)[60][0], whole[60][0]);
        assert!(
            (less + 6.02 * f64::from(7 - level)).abs() < 0.6,
            "{level}: {less}"
        );
    }
    assert_eq!(note(0, 0)[60], [0, 0]);
    // Pan 2 lowers the left side by 6 dB. If bit 4 is also set, it lowers the right side instead.
    let [left, right] = note(0xE2, 0)[60];
    assert_eq!([right, left * 2], whole[60]);
    assert_eq!(note(0xF2, 0)[60], [right, left]);
}
