//! The chips against ymfm, bit by bit, on random register streams and songs.
//!
//! `cargo test -p creel-vgm --features oracle --test oracle`

#[path = "../streams/mod.rs"]
mod streams;

mod reference;

use creel_vgm::chips::ym2151::Ym2151;
use reference::Reference;
use streams::{Group, Step, stream};
use ymfm_sys::ffi::{ChipType, Fidelity};

const SEEDS: u64 = 60;

/// Frames of a random stream.
const FRAMES: usize = 200_000;

#[test]
fn ym2151_streams() {
    ym2151(streams::YM2151, SEEDS);
}

#[test]
fn ym2151_noise_streams() {
    ym2151(streams::YM2151_NOISE, SEEDS);
}

fn ym2151(groups: &[Group], seeds: u64) {
    for seed in 0..seeds {
        let mut ours = Ym2151::new(4_000_000);
        let none = [Vec::new(), Vec::new()];
        let mut theirs = Reference::new(ChipType::Ym2151, 4_000_000, Fidelity::Min, none);
        let mut frames = Vec::new();
        let mut at = 0;
        for step in stream(streams::YM2151, seed, FRAMES) {
            match step {
                Step::Write(port, reg, value) => {
                    ours.write(port, reg, value);
                    theirs.write(port, reg, value);
                }
                Step::Run(count) => {
                    frames.resize(count, [0; 2]);
                    ours.render(&mut frames);
                    for ours in &frames {
                        assert_eq!(ours, theirs.frame(), "seed {seed}, frame {at}");
                        at += 1;
                    }
                }
            }
        }
    }
}
