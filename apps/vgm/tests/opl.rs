//! Checks the hash of the output of the OPL family for random register streams.
//!
//! The oracle test compares the same streams with ymfm. This test does not need C++.

mod streams;

#[path = "streams/opl.rs"]
mod groups;

use creel_vgm::chips::y8950::Y8950;
use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;
use groups::{OPL, OPL3, OPLL};
use streams::{Group, Step, memory, stream};

/// The number of frames of a stream. Every chip renders several streams.
const FRAMES: usize = 50_000;

const SEEDS: u64 = 8;

/// The functions that write to a chip and render it.
type Paths<C> = (fn(&mut C, u8, u8, u8), fn(&mut C, &mut [[i32; 2]]));

/// Returns the FNV-1a hash of the output of a chip for the streams of all seeds. Each run is
/// divided into blocks of at most `block` frames.
fn hash<C>(groups: &[Group], block: usize, new: impl Fn() -> C, (write, render): Paths<C>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut frames = Vec::new();
    for seed in 0..SEEDS {
        let mut chip = new();
        for step in stream(groups, seed, FRAMES) {
            match step {
                Step::Write(port, reg, value) => write(&mut chip, port, reg, value),
                Step::Run(count) => {
                    frames.resize(count, [0; 2]);
                    frames
                        .chunks_mut(block)
                        .for_each(|block| render(&mut chip, block));
                    for value in frames.as_flattened() {
                        hash = (hash ^ u64::from(*value as u32)).wrapping_mul(0x100_0000_01b3);
                    }
                }
            }
        }
    }
    hash
}

/// Asserts the hash for whole runs and for small blocks.
macro_rules! assert_hash {
    ($groups:expr, $new:expr, $paths:expr, $want:expr) => {
        for block in [usize::MAX, 37] {
            let hash = hash($groups, block, || $new, $paths);
            assert_eq!(hash, $want, "{hash:#x} in blocks of {block}");
        }
    };
}

#[test]
fn ym3526_renders_the_known_samples() {
    let paths = (Ym3526::write as _, Ym3526::render as _);
    assert_hash!(OPL, Ym3526::new(3_579_545), paths, 0xc181_f2dd_c3ec_9ced);
}

#[test]
fn y8950_renders_the_known_samples() {
    let new = || {
        let mut chip = Y8950::new(3_579_545);
        *chip.adpcm_b_mut() = memory(1 << 18, 2);
        chip
    };
    let paths = (Y8950::write as _, Y8950::render as _);
    assert_hash!(groups::Y8950, new(), paths, 0x4e66_2f0d_bdb2_eaf7);
}

#[test]
fn ym3812_renders_the_known_samples() {
    let paths = (Ym3812::write as _, Ym3812::render as _);
    assert_hash!(OPL, Ym3812::new(3_579_545), paths, 0x2602_0111_631c_587d);
}

#[test]
fn ymf262_renders_the_known_samples() {
    let paths = (Ymf262::write as _, Ymf262::render as _);
    assert_hash!(OPL3, Ymf262::new(14_318_180), paths, 0xfb9d_bcbc_396c_1c54);
}

#[test]
fn ym2413_renders_the_known_samples() {
    let paths = (Ym2413::write as _, Ym2413::render_pins as _);
    assert_hash!(OPLL, Ym2413::new(3_579_545), paths, 0x2e92_84f5_0aa4_6a3f);
}

#[test]
fn vrc7_renders_the_known_samples() {
    let paths = (Ym2413::write as _, Ym2413::render_pins as _);
    assert_hash!(
        OPLL,
        Ym2413::new_vrc7(3_579_545),
        paths,
        0x0cab_d0df_8f61_2cf2
    );
}

#[test]
fn dual_ym3812_is_panned_left_and_right() {
    let mut chip = Ym3812::new(3_579_545);
    chip.set_sides([true, false]);
    for (reg, value) in [(0x23, 0x21), (0x63, 0xF0), (0xA0, 0x41), (0xB0, 0x32)] {
        chip.write(0, reg, value);
    }
    let mut frames = [[0; 2]; 200];
    chip.render(&mut frames);
    assert!(frames.iter().any(|frame| frame[0] > 1000));
    assert!(frames.iter().all(|frame| frame[1] == 0));
}
