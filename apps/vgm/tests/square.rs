//! The square-wave chips: what they say as edges equals what they say tick by
//! tick.

use creel_vgm::chips::Rate;
use creel_vgm::chips::ssg::Ssg;
use creel_vgm::edges::Edges;

const TICKS: Rate = Rate {
    frames: 250_000,
    seconds: 1,
};

/// A small generator of test data (PCG, 32 bits out).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((self.0 >> 18) ^ self.0) >> 27) as u32;
        mixed.rotate_right((self.0 >> 59) as u32)
    }

    fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u32
    }
}

/// A register and a value, with low periods and long silences both likely.
fn ssg_write(random: &mut Random) -> (u8, u8) {
    let reg = random.below(14) as u8;
    let value = random.next() as u8;
    let value = match (reg, random.below(3)) {
        (0 | 2 | 4 | 11, 0) => value & 7,
        (1 | 3 | 5 | 12, 0 | 1) => 0,
        _ => value,
    };
    (reg, value)
}

#[test]
fn ssg_edges_add_up_to_its_levels() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut ticked, mut jumped) = (Ssg::new(), Ssg::new());
        let mut level = [0i32; 3];
        for run in 0..400 {
            for _ in 0..random.below(4) {
                let (reg, value) = ssg_write(&mut random);
                ticked.write(reg, value);
                jumped.write(reg, value);
            }
            let ticks = random.below(if run % 7 == 0 { 5000 } else { 50 });
            let mut levels = vec![[0; 3]; ticks as usize];
            ticked.levels(&mut levels);
            let mut deltas = vec![[0i32; 3]; ticks as usize];
            jumped.edges(ticks, |tick, channel, delta| {
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

/// Amplitude of `frames` at `turns` of a circle a frame, by correlation.
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

/// A square wave of level 0 or 16000 whose harmonics lie at odd multiples of
/// `ticks_hz / 2 / half_ticks`.
fn square(half_ticks: u32, frames: usize) -> Vec<i32> {
    let mut edges = Edges::new(TICKS, 44_100);
    let mut delta = 16_000;
    let mut out = vec![0; frames];
    for block in out.chunks_mut(1000) {
        while edges.tick() < edges.tick_of_frame(edges.frame() + block.len() as u64) {
            edges.step(0, delta);
            edges.advance(half_ticks);
            delta = -delta;
        }
        edges.read(block);
    }
    out
}

#[test]
fn a_square_wave_has_its_harmonics_and_nothing_else() {
    let half_ticks = 43;
    let wave = square(half_ticks, 60_000);
    let fundamental = 250_000.0 / f64::from(2 * half_ticks) / 44_100.0;
    for harmonic in [1.0, 3.0, 5.0] {
        let want = 16_000.0 * 2.0 / std::f64::consts::PI / harmonic;
        let db = 20.0 * (amplitude(&wave[100..], fundamental * harmonic) / want).log10();
        assert!(db.abs() < 0.05, "harmonic {harmonic}: {db} dB");
    }
    // What has folded back lies between the harmonics.
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
fn blocks_and_the_order_of_steps_change_nothing() {
    let whole = {
        let mut edges = Edges::new(TICKS, 44_100);
        for n in (0..500).rev() {
            edges.step(n * 17, if n % 2 == 0 { 12_345 } else { -12_345 });
        }
        let mut out = vec![0; 1500];
        edges.read(&mut out);
        out
    };
    let mut edges = Edges::new(TICKS, 44_100);
    let mut cut = Vec::new();
    for n in 0..500 {
        edges.step(0, if n % 2 == 0 { 12_345 } else { -12_345 });
        edges.advance(17);
        let ready = (edges.tick() * 441 / 2500).saturating_sub(1) - edges.frame();
        let mut block = vec![0; ready as usize];
        edges.read(&mut block);
        cut.extend(block);
    }
    assert_eq!(whole[..cut.len()], cut);
}
