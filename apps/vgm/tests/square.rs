//! The square-wave chips. Rendering by steps gives the same result as rendering tick by tick.

#[path = "streams/random.rs"]
mod random;

use creel_vgm::blep::{Blep, Sides, StereoBlep};
use creel_vgm::chips::Rate;
use creel_vgm::chips::ay8910::Ay8910;
use creel_vgm::chips::sn76489::{Sn76489, Variant};
use creel_vgm::chips::ssg::Ssg;
use random::Random;

const TICKS: Rate = Rate {
    frames: 250_000,
    seconds: 1,
};

#[test]
fn ssg_steps_add_up_to_its_levels() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut ticked, mut jumped) = (Ssg::new(), Ssg::new());
        let mut level = [0i32; 3];
        for run in 0..400 {
            for _ in 0..random.below(4) {
                let (reg, value) = random.ssg_write();
                ticked.write(reg, value);
                jumped.write(reg, value);
            }
            let ticks = random.below(if run % 7 == 0 { 5000 } else { 50 });
            let mut levels = vec![[0; 3]; ticks as usize];
            ticked.levels(&mut levels);
            let mut deltas = vec![[0i32; 3]; ticks as usize];
            jumped.run(ticks, |tick, channel, delta| {
                assert_ne!(delta, 0);
                deltas[tick as usize][channel] += delta;
            });
            for (tick, (want, delta)) in levels.iter().zip(&deltas).enumerate() {
                for channel in 0..3 {
                    level[channel] += delta[channel];
                    assert_eq!(
                        level[channel],
                        i32::from(want[channel]),
                        "seed {seed}, run {run}, tick {tick} of {ticks}, channel {channel}: {jumped:?}"
                    );
                }
            }
        }
    }
}

/// Runs two copies of a chip with the same random writes and blocks, and compares their stereo
/// frames. One copy renders tick by tick, and the other by its steps.
fn compare_stereo<C>(
    seed: u64,
    mut chips: [C; 2],
    write: impl Fn(&mut C, u32, u8),
    render: impl Fn(&mut C, &mut [[i32; 2]]),
    run_steps: impl Fn(&mut C, u32, &mut dyn FnMut(u32, Sides, i32)),
) {
    let mut random = Random(seed);
    let mut level = [0; 2];
    for run in 0..300 {
        for _ in 0..random.below(5) {
            let (kind, value) = (random.next() as u32, random.next() as u8);
            chips.iter_mut().for_each(|chip| write(chip, kind, value));
        }
        let ticks = random.below(if run % 7 == 0 { 6000 } else { 60 });
        let mut want = vec![[0; 2]; ticks as usize];
        let mut deltas = want.clone();
        render(&mut chips[0], &mut want);
        run_steps(&mut chips[1], ticks, &mut |tick, sides, delta| {
            for (sum, gain) in deltas[tick as usize].iter_mut().zip(sides.gains()) {
                *sum += gain * delta;
            }
        });
        for (tick, (want, delta)) in want.iter().zip(&deltas).enumerate() {
            level = [level[0] + delta[0], level[1] + delta[1]];
            assert_eq!(
                level, *want,
                "seed {seed}, run {run}, tick {tick} of {ticks}"
            );
        }
    }
}

#[test]
fn sn76489_steps_add_up_to_its_frames() {
    for seed in 0..32 {
        let variant = Variant {
            taps: [0x0009, 0x0003, 0x0006, 0x0022][seed as usize % 4],
            width: [16, 15, 16, 16][seed as usize % 4],
            flags: (seed * 7 % 32) as u8,
        };
        compare_stereo(
            seed,
            std::array::from_fn(|_| Sn76489::new(3_579_545, variant)),
            |chip, kind, value| match kind % 12 {
                0 => chip.write(1, 0, value),
                // A high part of 0 or 1 gives short periods.
                1..4 => chip.write(0, 0, value & 1),
                _ => chip.write(0, 0, value | (kind >> 8) as u8 & 0x80),
            },
            |chip, out| chip.render(out),
            |chip, ticks, sink| chip.run(ticks, sink),
        );
    }
}

#[test]
fn ay8910_steps_add_up_to_its_frames() {
    for seed in 0..32 {
        let kind = [0x00, 0x10][seed as usize % 2];
        compare_stereo(
            seed,
            std::array::from_fn(|_| Ay8910::new(1_789_773, kind, 0)),
            |chip, kind, value| match kind % 16 {
                14 => chip.set_stereo(value),
                reg @ (1 | 3 | 5 | 12) => chip.write(0, reg as u8, value & (kind >> 8) as u8 & 1),
                reg => chip.write(0, reg as u8, value),
            },
            |chip, out| chip.render(out),
            |chip, ticks, sink| chip.run(ticks, sink),
        );
    }
}

/// Returns the ticks at which a channel of a chip changes.
fn sn76489_changes(variant: Variant, writes: &[u8], ticks: u32) -> Vec<u32> {
    let mut chip = Sn76489::new(3_579_545, variant);
    writes.iter().for_each(|&byte| chip.write(0, 0, byte));
    let mut changes = Vec::new();
    chip.run(ticks, |tick, _, _| changes.push(tick));
    changes
}

#[test]
fn sn76489_noise_repeats_after_16_or_57337_shifts() {
    // Periodic noise outputs its only set bit at every 16th shift of 32 ticks. The register starts
    // with that bit at the far end.
    let periodic = sn76489_changes(Variant::SEGA, &[0xe0, 0xf0], 1100);
    assert_eq!(periodic, [479, 511, 991, 1023]);
    // White noise of 16 bits and Sega's taps repeats after 57337 shifts.
    let mut chip = Sn76489::new(3_579_545, Variant::SEGA);
    [0xe4, 0xf0].iter().for_each(|&byte| chip.write(0, 0, byte));
    let mut levels = vec![[0; 4]; 32 * 57_337 * 2];
    chip.levels(&mut levels);
    let shown: Vec<i16> = levels
        .iter()
        .skip(31)
        .step_by(32)
        .map(|level| level[3])
        .collect();
    let (first, second) = shown.split_at(57_337);
    assert_eq!(first[20..], second[20..first.len()]);
    assert_ne!(first[..2000], first[2000..4000]);
}

#[test]
fn sn76489_period_zero_follows_the_variant() {
    let zero_is_1024 = Variant {
        flags: 1,
        ..Variant::SEGA
    };
    assert_eq!(
        sn76489_changes(Variant::SEGA, &[0x80, 0x00, 0x90], 3000),
        [0]
    );
    assert_eq!(
        sn76489_changes(zero_is_1024, &[0x80, 0x00, 0x90], 3000),
        [0, 1024, 2048]
    );
}

#[test]
fn ay8910_envelope_has_half_the_ym2149_levels() {
    let distinct = |kind| {
        let mut chip = Ay8910::new(2_000_000, kind, 0);
        for (reg, value) in [(7, 0x3f), (8, 16), (11, 3), (13, 12)] {
            chip.write(0, reg, value);
        }
        let mut frames = vec![[0; 2]; 3 * 32];
        chip.render(&mut frames);
        frames.dedup();
        frames.len()
    };
    assert_eq!((distinct(0x00), distinct(0x10)), (17, 33));
}

/// Returns the amplitude of `frames` at a frequency of `turns` periods per frame, by correlation.
fn amplitude(frames: &[i32], turns: f64) -> f64 {
    let (mut re, mut im) = (0.0, 0.0);
    for (n, &frame) in frames.iter().enumerate() {
        let x = std::f64::consts::PI * 2.0;
        let window = 0.5 - 0.5 * (x * n as f64 / frames.len() as f64).cos();
        let (sin, cos) = (x * turns * n as f64).sin_cos();
        re += window * cos * f64::from(frame);
        im += window * sin * f64::from(frame);
    }
    4.0 * re.hypot(im) / frames.len() as f64
}

/// A square wave with levels 0 and 16000. Its harmonics are at odd multiples of
/// `ticks_hz / 2 / half_ticks`.
fn square(half_ticks: u32, frames: usize) -> Vec<i32> {
    let mut blep = Blep::new(TICKS, 44_100);
    let mut delta = 16_000;
    let mut out = vec![0; frames];
    for block in out.chunks_mut(1000) {
        while blep.tick() < blep.tick_of_frame(blep.frame() + block.len() as u64) {
            blep.step(0, delta);
            blep.advance(half_ticks);
            delta = -delta;
        }
        blep.read(block);
    }
    out
}

#[test]
fn blep_square_wave_is_band_limited() {
    let half_ticks = 43;
    let wave = square(half_ticks, 60_000);
    let fundamental = 250_000.0 / f64::from(2 * half_ticks) / 44_100.0;
    for harmonic in [1.0, 3.0, 5.0] {
        let want = 16_000.0 * 2.0 / std::f64::consts::PI / harmonic;
        let db = 20.0 * (amplitude(&wave[100..], fundamental * harmonic) / want).log10();
        assert!(db.abs() < 0.05, "harmonic {harmonic}: {db} dB");
    }
    // The aliases are between the harmonics.
    for alias in 1..=30 {
        let turns = fundamental * f64::from(2 * alias + 1);
        let folded = (turns - turns.round()).abs();
        if turns > 0.5 && folded < 0.38 {
            let db = 20.0 * (amplitude(&wave[100..], folded) / 16_000.0).log10();
            println!("harmonic {} folds to {folded}: {db}", 2 * alias + 1);
            assert!(
                db < -72.0,
                "harmonic {} folds to {folded} at {db} dB",
                2 * alias + 1
            );
        }
    }
}

#[test]
fn blep_is_independent_of_block_size_and_step_order() {
    let whole = {
        let mut blep = Blep::new(TICKS, 44_100);
        for n in (0..500).rev() {
            blep.step(n * 17, if n % 2 == 0 { 12_345 } else { -12_345 });
        }
        let mut out = vec![0; 1500];
        blep.read(&mut out);
        out
    };
    let mut blep = Blep::new(TICKS, 44_100);
    let mut cut = Vec::new();
    for n in 0..500 {
        blep.step(0, if n % 2 == 0 { 12_345 } else { -12_345 });
        blep.advance(17);
        let ready = (blep.tick() * 441 / 2500).saturating_sub(1) - blep.frame();
        let mut block = vec![0; ready as usize];
        blep.read(&mut block);
        cut.extend(block);
    }
    assert_eq!(whole[..cut.len()], cut);
}

#[test]
fn each_side_of_a_stereo_signal_keeps_its_own_level() {
    let mut stereo = StereoBlep::new(TICKS, 44_100);
    stereo.advance(2_500);
    let mut frames = [[0; 2]; 441];
    stereo.read(&mut frames);
    stereo.step(100, Sides::Both, 1_000);
    stereo.step(200, Sides::Left, 50);
    stereo.read(&mut frames);
    assert_eq!((frames[0], frames[440]), ([0, 0], [1_050, 1_000]));
}
