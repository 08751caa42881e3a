//! Checks the hash of the output of the FM chips for random register streams.
//!
//! The oracle test compares the same streams with ymfm. This test does not need C++.

mod streams;

use creel_vgm::chips::rom::Rom;
use creel_vgm::chips::ym2151::Ym2151;
use creel_vgm::chips::ym2203::Ym2203;
use creel_vgm::chips::ym2608::Ym2608;
use creel_vgm::chips::ym2610::Ym2610;
use creel_vgm::chips::ym2612::Ym2612;
use streams::{Step, memory, stream};

/// The number of frames of a stream. Every chip renders several streams.
const FRAMES: usize = 100_000;

const SEEDS: u64 = 8;

/// Returns the FNV-1a hash of the output of a chip for the streams of all seeds.
fn hash<C>(
    groups: &[streams::Group],
    new: impl Fn() -> C,
    write: impl Fn(&mut C, u8, u8, u8),
    render: impl Fn(&mut C, &mut [[i32; 2]]),
) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut frames = Vec::new();
    for seed in 0..SEEDS {
        let mut chip = new();
        for step in stream(groups, seed, FRAMES) {
            match step {
                Step::Write(port, reg, value) => write(&mut chip, port, reg, value),
                Step::Run(count) => {
                    frames.resize(count, [0; 2]);
                    render(&mut chip, &mut frames);
                    for value in frames.as_flattened() {
                        hash = (hash ^ u64::from(*value as u32)).wrapping_mul(0x100_0000_01b3);
                    }
                }
            }
        }
    }
    hash
}

const CLOCK_HZ: u32 = 7_200_000;

#[test]
fn ym2151_renders_the_known_samples() {
    let new = || Ym2151::new(CLOCK_HZ);
    let hash = hash(streams::YM2151, new, Ym2151::write, Ym2151::render);
    assert_eq!(hash, 0xa8ff_26da_3e73_3c91, "{hash:#x}");
}

#[test]
fn ym2151_noise_renders_the_known_samples() {
    let new = || Ym2151::new(CLOCK_HZ);
    let hash = hash(streams::YM2151_NOISE, new, Ym2151::write, Ym2151::render);
    assert_eq!(hash, 0x307a_9cdc_fb02_423e, "{hash:#x}");
}

#[test]
fn ym2203_renders_the_known_samples() {
    let new = || Ym2203::new(CLOCK_HZ);
    let hash = hash(streams::YM2203, new, Ym2203::write, Ym2203::render);
    assert_eq!(hash, 0xe623_0499_630c_e5b7, "{hash:#x}");
}

#[test]
fn ym2608_renders_the_known_samples() {
    let new = || {
        let mut chip = Ym2608::new(CLOCK_HZ);
        *chip.rhythm_rom_mut() = Rom::of(memory(1 << 13, 1));
        *chip.adpcm_b_mut() = memory(1 << 18, 2);
        chip
    };
    let hash = hash(streams::YM2608, new, Ym2608::write, Ym2608::render);
    assert_eq!(hash, 0x4348_9061_f619_431e, "{hash:#x}");
}

#[test]
fn ym2610_renders_the_known_samples() {
    for (new, known) in [
        (Ym2610::new as fn(u32) -> Ym2610, 0xc78b_189c_2a73_2218),
        (Ym2610::new_b, 0xe27b_d7d6_909a_033a),
    ] {
        let new = || {
            let mut chip = new(CLOCK_HZ);
            *chip.adpcm_a_mut() = Rom::of(memory(1 << 20, 1));
            *chip.adpcm_b_mut() = Rom::of(memory(1 << 18, 2));
            chip
        };
        let hash = hash(streams::YM2610, new, Ym2610::write, Ym2610::render);
        assert_eq!(hash, known, "{hash:#x}");
    }
}

#[test]
fn ym2612_and_ym3438_render_the_known_samples() {
    for (new, known) in [
        (Ym2612::new as fn(u32) -> Ym2612, 0xc06d_9ee8_7b05_df92),
        (Ym2612::new_3438, 0xd14f_a14f_79b0_ab61),
    ] {
        let new = || new(CLOCK_HZ);
        let hash = hash(streams::YM2612, new, Ym2612::write, Ym2612::render);
        assert_eq!(hash, known, "{hash:#x}");
    }
}

#[test]
fn ym2612_ssg_eg_renders_the_known_samples() {
    let new = || Ym2612::new(CLOCK_HZ);
    let hash = hash(streams::SSG_EG, new, Ym2612::write, Ym2612::render);
    assert_eq!(hash, 0x5a33_60e8_59d5_d988, "{hash:#x}");
}
