//! Tests of the YMF271 according to its manual: pitch, levels, envelope times, loops and
//! algorithms.

use creel_vgm::chips::pcm::PcmChip;
use creel_vgm::chips::pcm::ymf271::Ymf271;
use creel_vgm::chips::rom::Rom;

/// A write: the port, the register and the value.
type Write = (u8, u16, u16);

const CLOCK_HZ: u32 = 16_934_400;

/// Returns a chip whose group 0 has four operators with the total levels `levels`, where 0 is the
/// loudest. No operator modulates another one (algorithm 15).
///
/// The block is 3, in which frequency number n has the pitch n × 44,100 / 2^18 Hz. The number is
/// 400h.
fn operators(levels: [u16; 4]) -> Ymf271 {
    let mut chip = Ymf271::new(CLOCK_HZ);
    write(
        &mut chip,
        &[(6, 0, 0), (0, 0xC0, 15), (0, 0xA0, 0x34), (0, 0x90, 0)],
    );
    for port in 0..4 {
        let level = levels[usize::from(port)];
        write(
            &mut chip,
            &[
                (port, 0x30, 1),
                (port, 0x40, level),
                (port, 0x50, 31),
                (port, 0x80, 0x0F),
            ],
        );
    }
    chip
}

/// Returns a chip whose group 0 has four sample voices. The first one plays 8-bit samples from
/// `memory`, with one sample per frame. `writes` are made at the end.
fn voices(memory: &[u8], writes: &[Write]) -> Ymf271 {
    let mut chip = Ymf271::new(CLOCK_HZ);
    *chip.rom(0x85).unwrap() = Rom::of(memory.to_vec());
    write(
        &mut chip,
        &[
            (6, 0, 3),
            (0, 0x30, 1),
            (0, 0x50, 31),
            (0, 0xB0, 7),
            (0, 0x90, 0),
        ],
    );
    write(&mut chip, writes);
    chip
}

fn write(chip: &mut Ymf271, writes: &[Write]) {
    for (port, reg, value) in writes {
        chip.write(*port, *reg, *value);
    }
}

fn play(chip: &mut Ymf271, frames: usize) -> Vec<[i32; 2]> {
    let mut out = vec![[0; 2]; frames];
    chip.render(&mut out);
    out
}

fn left(chip: &mut Ymf271, frames: usize) -> Vec<i32> {
    play(chip, frames).iter().map(|frame| frame[0]).collect()
}

fn peak(frames: &[i32]) -> i32 {
    frames.iter().map(|value| value.abs()).max().unwrap()
}

fn decibels(level: i32, reference: i32) -> f64 {
    20.0 * (f64::from(level) / f64::from(reference)).log10()
}

/// Returns how often the values cross 0 upwards.
fn turns(frames: &[i32]) -> usize {
    let pairs = frames.windows(2);
    pairs.filter(|pair| pair[0] < 0 && pair[1] >= 0).count()
}

const OFF: u16 = 0x7F;

#[test]
fn ymf271_pitch_is_fnum_times_multiple_and_octave() {
    // At block 3 and number 400h, a second has 1024 × 44,100 / 2^18 periods.
    for (block, multiple, expected) in [
        (3u16, 1, 172.27),
        (4, 1, 344.53),
        (2, 1, 86.13),
        (0, 1, 21.53),
        (15, 1, 10.77),
        (3, 0, 86.13),
        (3, 3, 516.8),
        (3, 15, 2584.0),
    ] {
        let mut chip = operators([0, OFF, OFF, OFF]);
        write(
            &mut chip,
            &[
                (0, 0x30, multiple),
                (0, 0xA0, block << 4 | 4),
                (0, 0x90, 0),
                (0, 0, 1),
            ],
        );
        let found = turns(&left(&mut chip, 44_100)) as f64;
        assert!(
            (found - expected).abs() <= 1.0,
            "{block} {multiple}: {found}"
        );
    }
}

#[test]
fn ymf271_fnum_latches_on_low_byte_write() {
    let mut chip = operators([0, OFF, OFF, OFF]);
    write(&mut chip, &[(0, 0, 1)]);
    let before = turns(&left(&mut chip, 4_410));
    write(&mut chip, &[(0, 0xA0, 0x44)]);
    assert_eq!(
        turns(&left(&mut chip, 4_410)),
        before,
        "the high byte alone"
    );
    write(&mut chip, &[(0, 0x90, 0)]);
    let after = turns(&left(&mut chip, 4_410));
    assert!(after.abs_diff(2 * before) <= 1, "{before} {after}");
}

#[test]
fn ymf271_total_level_is_0_75_db_per_step() {
    let loudest = |level: u16, outputs: u16| {
        let mut chip = operators([level, OFF, OFF, OFF]);
        write(&mut chip, &[(0, 0xD0, outputs), (0, 0, 1)]);
        let frames = play(&mut chip, 2_000);
        [0, 1].map(|side| frames.iter().map(|frame| frame[side]).max().unwrap())
    };
    let [whole, other] = loudest(0, 0);
    assert!((8_150..=8_191).contains(&whole), "{whole}");
    assert_eq!(whole, other);
    for level in [1, 8, 16, 40] {
        let less = decibels(loudest(level, 0)[0], whole);
        assert!(
            (less + 0.75 * f64::from(level)).abs() < 0.1,
            "{level}: {less}"
        );
    }
    for (outputs, expected) in [
        (0x02, [0.0, -6.0]),
        (0x40, [-12.0, 0.0]),
        (0x1B, [-2.5, -32.6]),
    ] {
        let found = loudest(0, outputs).map(|side| decibels(side, whole));
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.3, "{outputs:x}: {found}");
        }
    }
    assert!(loudest(0, 0x0F)[1] <= 1, "15 is nothing");
}

#[test]
fn ymf271_envelope_times_match_the_manual() {
    // Constant samples show the envelope itself.
    let memory = [0x40; 64];
    let until = |chip: &mut Ymf271, db: f64, up: bool| {
        let whole = 0x4000 >> 2;
        let mut frames = left(chip, 200_000);
        if !up {
            // We measure from the peak on. The fastest attack takes less than half a millisecond.
            let top = *frames.iter().max().unwrap();
            let first = frames.iter().position(|value| *value == top).unwrap();
            frames.drain(..first);
        }
        let reached = |value: &i32| {
            let now = decibels((*value).max(1), whole);
            if up { now >= db } else { now <= db }
        };
        frames.iter().position(reached).unwrap() as f64 / 44.1
    };
    let ends = [(4, 0x30, 63), (4, 0x60, 0)];
    // The manual gives the time for the whole range, which is 255 steps. An attack starts at
    // -60 dB, so only 160 of these steps remain.
    for (attack, ms) in [(10, 386.76), (16, 48.34), (20, 12.09), (24, 3.02)] {
        let mut chip = voices(&memory, &ends);
        write(&mut chip, &[(0, 0x50, attack), (0, 0, 1)]);
        let found = until(&mut chip, -0.5, true);
        let ms = ms * 160.0 / 255.0;
        assert!(
            (found / ms - 1.0).abs() < 0.05,
            "attack {attack}: {found} {ms}"
        );
    }
    // Decay 2 starts at once. The whole range of 96 dB takes the time of the manual, 48 dB half of
    // it.
    for (decay, ms) in [(12, 2_924.99), (16, 731.25), (20, 182.81)] {
        let mut chip = voices(&memory, &ends);
        write(&mut chip, &[(0, 0x70, decay), (0, 0x80, 0x0F), (0, 0, 1)]);
        let found = until(&mut chip, -48.0, false);
        assert!(
            (found / (ms / 2.0) - 1.0).abs() < 0.02,
            "decay {decay}: {found}"
        );
        // Key scaling 4 adds the key code, which is 8 for block 2 and number 0.
        let mut chip = voices(&memory, &ends);
        write(
            &mut chip,
            &[
                (0, 0x50, 4 << 5 | 31),
                (0, 0x70, decay),
                (0, 0xA0, 0x20),
                (0, 0x90, 0),
                (0, 0, 1),
            ],
        );
        let found = until(&mut chip, -48.0, false);
        assert!(
            (found / (ms / 8.0) - 1.0).abs() < 0.02,
            "scaled {decay}: {found}"
        );
    }
    // Release 8 is rate 32.
    let mut chip = voices(&memory, &ends);
    write(&mut chip, &[(0, 0x80, 0x08), (0, 0, 1)]);
    play(&mut chip, 100);
    write(&mut chip, &[(0, 0, 0)]);
    let found = until(&mut chip, -48.0, false);
    assert!(
        (found / (731.25 / 2.0) - 1.0).abs() < 0.02,
        "release: {found}"
    );
    // Decay 1 stops at its level, with 6 dB per step.
    let mut chip = voices(&memory, &ends);
    write(&mut chip, &[(0, 0x60, 25), (0, 0x80, 0x4F), (0, 0, 1)]);
    let last = *left(&mut chip, 20_000).last().unwrap();
    assert!((decibels(last, 0x1000) + 24.0).abs() < 0.5, "{last}");
}

#[test]
fn ymf271_8_and_12_bit_samples_loop() {
    let memory: Vec<u8> = (1..=12).map(|value| value * 4).collect();
    // The sound begins at address 2. Sample 5 (counted from 0) is its last one. After it, the
    // position is one sample beyond the end, and therefore continues one sample after the start of
    // the loop (sample 2). So the samples 3, 4 and 5 repeat.
    let place = [(4, 0x00, 2), (4, 0x30, 5), (4, 0x60, 2)];
    let mut chip = voices(&memory, &place);
    write(&mut chip, &[(0, 0, 1)]);
    play(&mut chip, 100);
    let played = left(&mut chip, 40);
    let found: Vec<i32> = played.iter().map(|value| value / 0x100 - 3).collect();
    let at = found.iter().position(|value| *value == 3).unwrap();
    for (frame, value) in found[at..].iter().enumerate() {
        assert_eq!(*value, 3 + frame as i32 % 3, "{found:?}");
    }
    // Three bytes have two samples of twelve bits, 126h and 453h.
    let packed = [0x12, 0x63, 0x45].repeat(400);
    let place = [(4, 0x30, 0x10), (4, 0x40, 1), (4, 0x90, 4)];
    let mut chip = voices(&packed, &place);
    write(&mut chip, &[(0, 0, 1)]);
    play(&mut chip, 100);
    let pair = left(&mut chip, 2);
    let mut sorted = pair.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0x1260 >> 2, 0x4530 >> 2], "{pair:x?}");
    // With each halving of the rate, every sample lasts twice as long.
    let steps: Vec<u8> = (0..200).map(|value| value / 2).collect();
    let mut chip = voices(&steps, &[(4, 0x30, 199), (4, 0x60, 199), (4, 0x90, 1)]);
    write(&mut chip, &[(0, 0, 1)]);
    let played = left(&mut chip, 300);
    assert_eq!(played[200] / 0x40, 50, "sample 100 at frame 200");
}

#[test]
fn ymf271_ping_pong_loop_reverses_at_both_ends() {
    let memory: Vec<u8> = (1..40).collect();
    let to = |place: u16| {
        let mut writes = vec![(4, 0x30, 9), (4, 0x60, 4), (4, 0x20, place), (0, 0, 1)];
        writes.insert(0, (0, 0xD0, 0));
        writes
    };
    let heard = |turns: u16| {
        let frames = left(&mut voices(&memory, &to(turns << 7)), 400);
        // After the attack, the level shows which sample is playing.
        let loud = &frames[300..];
        let top = *loud.iter().max().unwrap();
        let place = |value: &i32| (f64::from(*value) / f64::from(top) * 10.0).round() as i32 - 1;
        loud.iter().map(place).collect::<Vec<_>>()
    };
    let leaps = heard(0);
    assert!(
        leaps
            .windows(2)
            .all(|pair| pair[1] == pair[0] + 1 || pair == [9, 5]),
        "{leaps:?}"
    );
    let turns = heard(1);
    assert!(
        turns.windows(2).all(|pair| (pair[1] - pair[0]).abs() == 1),
        "{turns:?}"
    );
    assert_eq!(
        (turns.iter().min(), turns.iter().max()),
        (Some(&4), Some(&9))
    );
}

#[test]
fn ymf271_detune_depends_on_key_code() {
    let heard = |number: u16, detune: u16| {
        let mut chip = operators([0, OFF, OFF, OFF]);
        // We set the detune of all slots, because disabled slots are not completely silent.
        for port in 0..4 {
            write(&mut chip, &[(port, 0x30, detune << 4 | 1)]);
        }
        // In this octave, a step of the detune equals a step of the number.
        let high = 0x10 | number >> 8;
        let pitch = [(0, 0xA0, high), (0, 0x90, number & 0xFF), (0, 0, 1)];
        write(&mut chip, &pitch);
        left(&mut chip, 3_000)
    };
    // Key code 5 comes from block 1 and a number of 780h or more.
    for (detune, moved) in [
        (0u16, 0i32),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 0),
        (5, -1),
        (7, -3),
    ] {
        let number = (0x800 + moved) as u16;
        assert!(heard(0x800, detune) == heard(number, 0), "{detune}");
    }
    assert!(heard(0x800, 1) != heard(0x800, 0));
}

#[test]
fn ymf271_algorithms_output_their_carriers() {
    // Only one operator at a time has a level. A carrier is then a sine, and a modulator is
    // inaudible.
    const CARRIERS: [u8; 16] = [
        0b1000, 0b1000, 0b1000, 0b1000, 0b1000, 0b1000, 0b1100, 0b1100, 0b1001, 0b1001, 0b1110,
        0b1110, 0b1110, 0b1011, 0b1101, 0b1111,
    ];
    for (number, carriers) in (0u16..).zip(CARRIERS) {
        for slot in 0..4u8 {
            let mut levels = [OFF; 4];
            levels[usize::from(slot)] = 0;
            let mut chip = operators(levels);
            write(&mut chip, &[(0, 0xC0, number), (0, 0, 1)]);
            let found = peak(&left(&mut chip, 2_000));
            // In `CARRIERS`, bit 0 stands for slot 1, bit 1 for slot 2, and so on.
            let heard = carriers >> slot & 1 != 0;
            assert_eq!(
                found > 8_000,
                heard,
                "algorithm {number}, slot {}: {found}",
                slot + 1
            );
            assert_eq!(
                found < 20,
                !heard,
                "algorithm {number}, slot {}: {found}",
                slot + 1
            );
        }
    }
}

#[test]
fn ymf271_modulation_depth_follows_its_register() {
    // Slots 1 and 3 are a pair, in which slot 1 modulates slot 3. Slot 1 is a constant (wave 6),
    // and the phase of slot 3 stands still. The output is therefore the sine of the modulation,
    // which we count in turns.
    let level = |depth: u16| {
        let mut chip = Ymf271::new(CLOCK_HZ);
        write(
            &mut chip,
            &[(6, 0, 1), (0, 0xC0, 0), (0, 0xA0, 0), (0, 0x90, 0)],
        );
        for port in [0, 2] {
            write(
                &mut chip,
                &[(port, 0x50, 31), (port, 0x80, 0x0F), (port, 0x30, 1)],
            );
        }
        write(&mut chip, &[(0, 0xB0, 6), (2, 0xB0, depth << 4), (0, 0, 1)]);
        f64::from(*left(&mut chip, 400).last().unwrap()) / 8_191.0
    };
    // Level 4 is an eighth of a period, and each lower level is twice the one above it.
    for (depth, turn) in [(4u16, 0.125), (3, 0.25), (2, 0.5), (1, 1.0), (0, 2.0)] {
        let expected = (turn * std::f64::consts::TAU).sin();
        let found = level(depth);
        assert!(
            (found - expected).abs() < 0.03,
            "{depth}: {found} {expected}"
        );
    }
}

#[test]
fn ymf271_lfo_frequency_and_depth_match_the_manual() {
    // The samples are constant. A square LFO lowers them by 23.6 dB in the first half of each of
    // its periods.
    let mut chip = voices(&[0x40; 64], &[(4, 0x30, 63)]);
    // Speed 240 has 2048 frames (16 × 2^7) per period, which is 21.533 Hz.
    write(&mut chip, &[(0, 0x10, 240), (0, 0x20, 0xC2), (0, 0, 1)]);
    let played = left(&mut chip, 44_100);
    let falls = played
        .windows(2)
        .filter(|pair| pair[1] < pair[0] / 4)
        .count();
    assert!((20..=22).contains(&falls), "{falls}");
    let low = *played[1_000..].iter().min().unwrap();
    assert!((decibels(low, 0x1000) + 23.6).abs() < 0.4, "{low}");
}
