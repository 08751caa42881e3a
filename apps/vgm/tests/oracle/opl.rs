//! Compares the OPL family with ymfm.

use creel_vgm::chips::y8950::Y8950;
use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;
use ymfm_sys::ffi::ChipType;

use super::groups;
use super::{CLOCK_HZ, Ours, compare, memories};

pub fn ym3526(clock_hz: u32) -> Ours<Ym3526> {
    Ours {
        chip: Ym3526::new(clock_hz),
        write: Ym3526::write,
        render: Ym3526::render,
    }
}

pub fn y8950(clock_hz: u32, [_, adpcm_b]: [Vec<u8>; 2]) -> Ours<Y8950> {
    let mut chip = Y8950::new(clock_hz);
    *chip.adpcm_b_mut() = adpcm_b;
    Ours {
        chip,
        write: Y8950::write,
        render: Y8950::render,
    }
}

pub fn ym3812(clock_hz: u32) -> Ours<Ym3812> {
    Ours {
        chip: Ym3812::new(clock_hz),
        write: Ym3812::write,
        render: Ym3812::render,
    }
}

pub fn ymf262(clock_hz: u32) -> Ours<Ymf262> {
    Ours {
        chip: Ymf262::new(clock_hz),
        write: Ymf262::write,
        render: Ymf262::render,
    }
}

/// The outputs of ymfm are the two pins.
pub fn opll(chip: Ym2413) -> Ours<Ym2413> {
    Ours {
        chip,
        write: Ym2413::write,
        render: Ym2413::render_pins,
    }
}

#[test]
fn ym3526_renders_random_writes_like_ymfm() {
    compare(groups::OPL, ChipType::Ym3526, || ym3526(CLOCK_HZ));
}

#[test]
fn y8950_renders_random_writes_like_ymfm() {
    let ours = || y8950(CLOCK_HZ, memories());
    compare(groups::Y8950, ChipType::Y8950, ours);
}

#[test]
fn ym3812_renders_random_writes_like_ymfm() {
    compare(groups::OPL, ChipType::Ym3812, || ym3812(CLOCK_HZ));
}

#[test]
fn ymf262_renders_random_writes_like_ymfm() {
    compare(groups::OPL3, ChipType::Ymf262, || ymf262(CLOCK_HZ));
}

#[test]
fn ym2413_renders_random_writes_like_ymfm() {
    let ours = || opll(Ym2413::new(CLOCK_HZ));
    compare(groups::OPLL, ChipType::Ym2413, ours);
}

#[test]
fn vrc7_renders_random_writes_like_ymfm() {
    let ours = || opll(Ym2413::new_vrc7(CLOCK_HZ));
    compare(groups::OPLL, ChipType::Ds1001, ours);
}
