//! Compares the levels of the SSG with those of ymfm, tick by tick.

use creel_vgm::chips::ssg::Ssg;
use ymfm_sys::ffi::{ChipType, create_chip};

use super::streams::Random;

const SEEDS: u64 = 200;
const RUNS: u32 = 300;

#[test]
fn ssg_levels_of_random_writes_equal_those_of_ymfm() {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut ours = Ssg::new();
        let mut theirs = create_chip(ChipType::Ym2149, 2_000_000);
        for run in 0..RUNS {
            for _ in 0..random.below(4) {
                let (reg, value) = random.ssg_write();
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
