//! The OPL family against ymfm.

use creel_vgm::chips::y8950::Y8950;
use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;
use ymfm_sys::ffi::ChipType;

use super::groups::{OPL, OPL3, OPLL, Y8950 as Y8950_GROUPS};
use super::{CLOCK_HZ, Ours, compare, memories};

#[test]
fn ym3526_streams() {
    compare(OPL, ChipType::Ym3526, || Ours {
        chip: Ym3526::new(CLOCK_HZ),
        write: Ym3526::write,
        render: Ym3526::render,
    });
}

#[test]
fn y8950_streams() {
    compare(Y8950_GROUPS, ChipType::Y8950, || {
        let mut chip = Y8950::new(CLOCK_HZ);
        let [_, adpcm_b] = memories();
        *chip.adpcm_b_mut() = adpcm_b;
        Ours {
            chip,
            write: Y8950::write,
            render: Y8950::render,
        }
    });
}

#[test]
fn ym3812_streams() {
    compare(OPL, ChipType::Ym3812, || Ours {
        chip: Ym3812::new(CLOCK_HZ),
        write: Ym3812::write,
        render: Ym3812::render,
    });
}

#[test]
fn ymf262_streams() {
    compare(OPL3, ChipType::Ymf262, || Ours {
        chip: Ymf262::new(CLOCK_HZ),
        write: Ymf262::write,
        render: Ymf262::render,
    });
}

#[test]
fn ym2413_streams() {
    compare(OPLL, ChipType::Ym2413, || opll(Ym2413::new(CLOCK_HZ)));
}

#[test]
fn vrc7_streams() {
    compare(OPLL, ChipType::Ds1001, || opll(Ym2413::new_vrc7(CLOCK_HZ)));
}

/// ymfm's outputs are the two pins.
fn opll(chip: Ym2413) -> Ours<Ym2413> {
    Ours {
        chip,
        write: Ym2413::write,
        render: Ym2413::render_pins,
    }
}
