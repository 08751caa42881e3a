//! The OPL family against ymfm.

use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;
use ymfm_sys::ffi::{ChipType, Fidelity};

use super::groups::{OPL, OPL3, OPLL};
use super::reference::Reference;
use super::streams::{Group, Step, stream};

const SEEDS: u64 = 60;

/// Frames of a random stream.
const FRAMES: usize = 100_000;

/// Which of ymfm's outputs a chip's two sides are.
#[derive(Clone, Copy)]
enum Pins {
    Mono,
    FirstTwo,
}

/// What a test does with a chip of ours.
struct Ours<C> {
    new: fn(u32) -> C,
    write: fn(&mut C, u8, u8, u8),
    render: fn(&mut C, &mut [[i32; 2]]),
}

fn compare<C>((kind, clock_hz): (ChipType, u32), groups: &[Group], pins: Pins, ours: &Ours<C>) {
    for seed in 0..SEEDS {
        let mut chip = (ours.new)(clock_hz);
        let none = [Vec::new(), Vec::new()];
        let mut theirs = Reference::new(kind, clock_hz, Fidelity::Min, none);
        let mut frames = Vec::new();
        let mut at = 0;
        for step in stream(groups, seed, FRAMES) {
            match step {
                Step::Write(port, reg, value) => {
                    (ours.write)(&mut chip, port, reg, value);
                    theirs.write(port, reg, value);
                }
                Step::Run(count) => {
                    frames.resize(count, [0; 2]);
                    (ours.render)(&mut chip, &mut frames);
                    for frame in &frames {
                        let outputs = theirs.frame();
                        let want = match pins {
                            Pins::Mono => [outputs[0]; 2],
                            Pins::FirstTwo => [outputs[0], outputs[1]],
                        };
                        assert_eq!(*frame, want, "seed {seed}, frame {at}");
                        at += 1;
                    }
                }
            }
        }
    }
}

#[test]
fn ym3526_streams() {
    let ours = Ours {
        new: Ym3526::new,
        write: Ym3526::write,
        render: Ym3526::render,
    };
    compare((ChipType::Ym3526, 3_579_545), OPL, Pins::Mono, &ours);
}

#[test]
fn ym3812_streams() {
    let ours = Ours {
        new: Ym3812::new,
        write: Ym3812::write,
        render: Ym3812::render,
    };
    compare((ChipType::Ym3812, 3_579_545), OPL, Pins::Mono, &ours);
}

#[test]
fn ymf262_streams() {
    let ours = Ours {
        new: Ymf262::new,
        write: Ymf262::write,
        render: Ymf262::render,
    };
    compare((ChipType::Ymf262, 14_318_180), OPL3, Pins::FirstTwo, &ours);
}

#[test]
fn ym2413_streams() {
    let ours = Ours {
        new: Ym2413::new,
        write: Ym2413::write,
        render: Ym2413::render_pins,
    };
    compare((ChipType::Ym2413, 3_579_545), OPLL, Pins::FirstTwo, &ours);
}

#[test]
fn vrc7_streams() {
    let ours = Ours {
        new: Ym2413::new_vrc7,
        write: Ym2413::write,
        render: Ym2413::render_pins,
    };
    compare((ChipType::Ds1001, 3_579_545), OPLL, Pins::FirstTwo, &ours);
}
