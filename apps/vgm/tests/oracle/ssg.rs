//! Compares the levels of the SSG with those of ymfm, tick by tick.

use creel_vgm::chips::ssg::Ssg;
use ymfm_sys::ffi::{ChipType, create_chip};

use super::streams::Random;

const SEEDS: u64 = 200;
const RUNS: u32 = 300;

/// Returns a register and a value. Short periods and long periods are both likely.
fn write(random: &mut Random) -> (u8, u8) {
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
fn ssg_levels_of_random_writes_equal_those_of_ymfm() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut ours = Ssg::new();
        let mut theirs = create_chip(ChipType::Ym2149, 2_000_000);
        for run in 0..RUNS {
            for _ in 0..random.below(4) {
                let (reg, value) = write(&mut random);
                ours.write(reg, value);
                theirs.pin_mut().write(0, reg);
                theirs.pin_mut().write(2, value);
            }
            let ticks = random.below(if run % 7 == 0 { 5000 } else { 60 }) as usize;
            let mut levels = vec![[0; 3]; ticks];
            let mut want = vec![0; 3 * ticks];
            ours.levels(&mut levels);
            theirs.pin_mut().generate(&mut want);
            let levels = levels.as_flattened().iter().map(|&level| i32::from(level));
            assert!(levels.eq(want.iter().copied()), "seed {seed}, run {run}");
        }
    }
}
