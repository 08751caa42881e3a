//! The FM chips on random register streams, by the hash of what they put out.
//!
//! The oracle test compares the same streams with ymfm; this one needs no C++.

mod streams;

use creel_vgm::chips::ym2151::Ym2151;
use streams::{Step, stream};

/// Frames of a stream; every chip renders several.
const FRAMES: usize = 100_000;

const SEEDS: u64 = 8;

/// FNV-1a over what a chip renders for the streams of all seeds.
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

#[test]
fn ym2151() {
    let hash = hash(
        streams::YM2151,
        || Ym2151::new(4_000_000),
        Ym2151::write,
        Ym2151::render,
    );
    assert_eq!(hash, 0xfdf0_39aa_8324_0325, "{hash:#x}");
}

#[test]
fn ym2151_noise() {
    let new = || Ym2151::new(4_000_000);
    let hash = hash(streams::YM2151_NOISE, new, Ym2151::write, Ym2151::render);
    assert_eq!(hash, 0x307a_9cdc_fb02_423e, "{hash:#x}");
}
