//! Tests of the ICS2115 according to its data sheet: pitch, volumes, ramps, pans, loops and codes.

use creel_vgm::chips::pcm::PcmChip;
use creel_vgm::chips::pcm::ics2115::Ics2115;
use creel_vgm::chips::rom::Rom;

/// Writes a register in the way that the host does.
fn set(chip: &mut Ics2115, register: u16, value: u16) {
    for (address, byte) in [(1, register), (2, value & 0xFF), (3, value >> 8)] {
        chip.write(0, address, byte);
    }
}

/// Writes a position in samples to a pair of registers.
fn place(chip: &mut Ics2115, register: u16, samples: u32) {
    set(chip, register, (samples >> 4) as u16);
    set(chip, register + 1, (samples << 12) as u16);
}

/// Returns a chip with 24 oscillators. The first one has this control register, the greatest volume
/// and a pan to the right. It plays one byte of the memory per frame, up to address `end`.
fn chip(memory: &[u8], control: u16, end: u32) -> Ics2115 {
    let mut chip = Ics2115::new(33_868_800);
    *chip.rom(0x96).unwrap() = Rom::of(memory.to_vec());
    for (register, value) in [
        (0x0E, 23 << 8),
        (0x4F, 0),
        (0x00, control << 8),
        (0x01, 0x400),
        (0x09, 0xFFF0),
        (0x0C, 0xFF00),
        (0x0D, 0x0100),
        (0x11, 0),
    ] {
        set(&mut chip, register, value);
    }
    place(&mut chip, 0x02, 0);
    place(&mut chip, 0x04, end);
    place(&mut chip, 0x0A, 0);
    chip
}

fn start(chip: &mut Ics2115) {
    set(chip, 0x10, 0);
}

fn both(chip: &mut Ics2115, frames: usize) -> Vec<[i32; 2]> {
    let mut out = vec![[0; 2]; frames];
    chip.render(&mut out);
    out
}

fn right(chip: &mut Ics2115, frames: usize) -> Vec<i32> {
    both(chip, frames).iter().map(|frame| frame[1]).collect()
}

fn decibels(level: i32, reference: i32) -> f64 {
    20.0 * (f64::from(level) / f64::from(reference)).log10()
}

const BYTES: u16 = 4;
const LOOP: u16 = 8;
const TO_AND_FRO: u16 = 16;

#[test]
fn ics2115_frame_rate_depends_on_oscillator_count() {
    let mut chip = Ics2115::new(33_868_800);
    assert_eq!(chip.rate().hz(), 33_075.0);
    set(&mut chip, 0x0E, 23 << 8);
    assert_eq!(chip.rate().hz(), 44_100.0);
}

#[test]
fn ics2115_oscillator_registers_are_separate() {
    let mut chip = chip(&[0x7F; 64], BYTES | LOOP, 32);
    start(&mut chip);
    let one = right(&mut chip, 8)[7];
    // The last oscillator plays the same constant at half of the volume, so both together are 1.5
    // times as loud as the first one.
    for (register, value) in [
        (0x4F, 23),
        (0, (BYTES | LOOP) << 8),
        (1, 0x400),
        (9, 0xEFF0),
    ] {
        set(&mut chip, register, value);
    }
    set(&mut chip, 0x0C, 0xFF00);
    place(&mut chip, 0x04, 32);
    start(&mut chip);
    let two = right(&mut chip, 8)[7];
    assert!((two * 2 - one * 3).abs() <= 4, "{one} {two}");
}

#[test]
fn ics2115_interpolates_and_stops_at_the_end() {
    let memory: Vec<u8> = (0..64).collect();
    let mut one = chip(&memory, BYTES, 32);
    start(&mut one);
    let played = right(&mut one, 60);
    for (frame, value) in played[..32].iter().enumerate() {
        // A step is 64. The volume, which is slightly below 1, and the two dropped bits change the
        // result by at most a sixteenth of it.
        assert!((value - frame as i32 * 64).abs() <= 4, "{frame}: {value}");
    }
    assert!(played[33..].iter().all(|value| *value == 0), "it stops");
    // With half a sample per frame, every second value is interpolated.
    let mut half = chip(&memory, BYTES, 32);
    set(&mut half, 1, 0x200);
    start(&mut half);
    let played = right(&mut half, 60);
    for (frame, value) in played.iter().enumerate() {
        assert!((value - frame as i32 * 32).abs() <= 4, "{frame}: {value}");
    }
}

#[test]
fn ics2115_loops_forward_and_ping_pong() {
    let memory: Vec<u8> = (0..64).collect();
    let mut round = chip(&memory, BYTES | LOOP, 12);
    place(&mut round, 0x02, 4);
    start(&mut round);
    let found: Vec<i32> = right(&mut round, 30)
        .iter()
        .map(|value| (value + 32) / 64)
        .collect();
    let expected: Vec<i32> = (0..30)
        .map(|n| if n < 12 { n } else { 4 + (n - 12) % 8 })
        .collect();
    assert_eq!(found, expected);
    let mut turns = chip(&memory, BYTES | LOOP | TO_AND_FRO, 12);
    place(&mut turns, 0x02, 4);
    start(&mut turns);
    let found: Vec<i32> = right(&mut turns, 30)
        .iter()
        .map(|value| (value + 32) / 64)
        .collect();
    let expected: Vec<i32> = (0..30i32)
        .map(|n| {
            if n < 12 {
                n
            } else {
                4 + (8 - (n - 12) % 16).abs()
            }
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn ics2115_volume_exponent_is_6_db() {
    let level = |volume: u16| {
        let mut chip = chip(&[0x7F; 64], BYTES | LOOP, 32);
        set(&mut chip, 9, volume);
        start(&mut chip);
        right(&mut chip, 4)[3]
    };
    let whole = level(0xF000);
    assert!((level(0xFFF0) - 0x7F00 / 4).abs() < 40, "{}", level(0xFFF0));
    for exponent in 10..15u16 {
        let less = decibels(level(exponent << 12), whole);
        let expected = -6.02 * f64::from(15 - exponent);
        assert!((less - expected).abs() < 0.3, "{exponent}: {less}");
    }
    let half_way = f64::from(level(0xF800)) / f64::from(whole);
    assert!(
        (half_way - 1.5).abs() < 0.01,
        "the mantissa is linear: {half_way}"
    );
}

#[test]
fn ics2115_pan_is_linear() {
    let sides = |pan: u16| {
        let mut chip = chip(&[0x7F; 64], BYTES | LOOP, 32);
        set(&mut chip, 0x0C, pan << 8);
        start(&mut chip);
        both(&mut chip, 4)[3]
    };
    let whole = sides(0xFF)[1];
    assert_eq!(sides(0xFF)[0], 0);
    assert_eq!(sides(0), [whole, 0]);
    let middle = sides(0x80).map(|side| decibels(side, whole));
    assert!(
        middle.iter().all(|side| (side + 6.0).abs() < 0.3),
        "{middle:?}"
    );
}

#[test]
fn ics2115_volume_ramps_follow_their_rate() {
    // The ramp goes from 800h to FF0h. The first three rows move by 63 every frame, every 8 frames
    // and every 64 frames. The last one moves by 32 every 8 frames.
    for (ramp, frames) in [(0x3F, 32), (0x7F, 258), (0xBF, 2_064), (0x60, 508)] {
        let mut chip = chip(&[0x7F; 64], BYTES | LOOP, 32);
        for (register, value) in [(6, ramp << 8), (7, 0x8000), (8, 0xFF00), (9, 0x8000)] {
            set(&mut chip, register, value);
        }
        set(&mut chip, 0x0D, 0);
        start(&mut chip);
        let played = right(&mut chip, 6_000);
        let last = *played.last().unwrap();
        let there = played.iter().position(|value| *value == last).unwrap();
        assert!(
            there.abs_diff(frames) <= 2 + frames / 50,
            "{ramp:x}: {there}"
        );
        assert!(
            played[..there].windows(2).all(|pair| pair[0] <= pair[1]),
            "it rises"
        );
    }
}

#[test]
fn ics2115_ramp_that_begins_beyond_its_end_keeps_the_volume() {
    let level = |ramp_control: u16| {
        let mut chip = chip(&[0x7F; 64], BYTES | LOOP, 32);
        for (register, value) in [(6, 0), (7, 0), (8, 0), (9, 0xF000)] {
            set(&mut chip, register, value);
        }
        set(&mut chip, 0x0D, ramp_control);
        start(&mut chip);
        right(&mut chip, 100)[99]
    };
    // The ramp is stopped, or rises to 0.
    assert!(level(0x0300) > 0);
    assert_eq!(level(0), level(0x0300));
}

#[test]
fn ics2115_decodes_mu_law_and_16_bit_samples() {
    // In ITU-T G.711, code FF is 0, code 80 is 32,124, and code 00 is -32,124.
    for (code, expected) in [
        (0xFF, 0),
        (0x80, 32_124),
        (0x00, -32_124),
        (0xEF, 132),
        (0x9F, 8_316),
    ] {
        let mut chip = chip(&[code; 64], 1 | LOOP, 32);
        start(&mut chip);
        let found = right(&mut chip, 4)[3] * 4;
        assert!((found - expected).abs() <= 80, "{code:x}: {found}");
    }
    let memory: Vec<u8> = (0..64i16).flat_map(|n| (n * 256).to_le_bytes()).collect();
    let mut words = chip(&memory, 0, 64);
    set(&mut words, 1, 0x800);
    start(&mut words);
    let played = right(&mut words, 30);
    assert!(
        played
            .iter()
            .enumerate()
            .all(|(frame, value)| (value - frame as i32 * 64).abs() <= 4)
    );
}
