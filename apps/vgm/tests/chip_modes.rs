//! Modes of chips that songs rarely use: keys that a timer presses, the mixing levels of an OPL4,
//! and outputs that a board leaves out.

use std::sync::Arc;

use creel_vgm::chips::pcm::{PcmChip, c352::C352};
use creel_vgm::chips::y8950::Y8950;
use creel_vgm::chips::ym2151::Ym2151;
use creel_vgm::chips::ym2203::Ym2203;
use creel_vgm::chips::ym2608::Ym2608;
use creel_vgm::chips::ym2610::Ym2610;
use creel_vgm::chips::ym2612::Ym2612;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;

/// The period of timer A, in frames. It is the longest one.
const PERIOD: usize = 1024;

/// A chip, reduced to what these tests need.
trait Fm {
    fn put(&mut self, port: u8, reg: u8, value: u8);
    fn frames(&mut self, count: usize) -> Vec<i32>;
}

macro_rules! fm {
    ($($chip:ty),*) => {$(
        impl Fm for $chip {
            fn put(&mut self, port: u8, reg: u8, value: u8) {
                self.write(port, reg, value);
            }

            fn frames(&mut self, count: usize) -> Vec<i32> {
                let mut frames = vec![[0; 2]; count];
                // The size of the blocks is uneven, so that blocks and timer periods do not end
                // together.
                for block in frames.chunks_mut(77) {
                    self.render(block);
                }
                frames.into_iter().map(|frame| frame[0]).collect()
            }
        }
    )*};
}

fm!(
    Ym2151, Ym2203, Ym2608, Ym2610, Ym2612, Ym3526, Ym3812, Y8950
);

/// Sets up channel 3 of an OPN chip with four tones that end quickly when their key is released.
fn opn(mut chip: impl Fm + 'static) -> Box<dyn Fm> {
    for operator in [0x02, 0x06, 0x0A, 0x0E] {
        for (group, value) in [
            (0x30, 1),
            (0x40, 0x10),
            (0x50, 31),
            (0x60, 0),
            (0x70, 0),
            (0x80, 15),
        ] {
            chip.put(0, group + operator, value);
        }
    }
    for (reg, value) in [
        (0xB2, 7),
        (0xB6, 0xC0),
        (0xA6, 0x2A),
        (0xA2, 0x69),
        (0xAD, 0x2A),
        (0xA9, 0x69),
        (0xAE, 0x2A),
        (0xAA, 0x69),
        (0xAC, 0x2A),
        (0xA8, 0x69),
        (0x24, 0),
        (0x25, 0),
    ] {
        chip.put(0, reg, value);
    }
    Box::new(chip)
}

fn opm() -> Box<dyn Fm> {
    let mut chip = Ym2151::new(3_579_545);
    for channel in 0..8 {
        for operator in [0, 8, 16, 24] {
            for (group, value) in [
                (0x40, 1),
                (0x60, 0x20),
                (0x80, 31),
                (0xA0, 0),
                (0xC0, 0),
                (0xE0, 15),
            ] {
                chip.write(0, group + operator + channel, value);
            }
        }
        chip.write(0, 0x20 + channel, 0xC7);
        chip.write(0, 0x28 + channel, 0x5A);
    }
    chip.write(0, 0x10, 0);
    chip.write(0, 0x11, 0);
    Box::new(chip)
}

fn opl(mut chip: impl Fm + 'static) -> Box<dyn Fm> {
    for channel in 0..9u8 {
        for operator in [0, 3] {
            let at = channel / 3 * 8 + channel % 3 + operator;
            for (group, value) in [(0x20, 0x21), (0x40, 0x10), (0x60, 0xF0), (0x80, 0x0F)] {
                chip.put(0, group + at, value);
            }
        }
        chip.put(0, 0xA0 + channel, 0x80);
        chip.put(0, 0xB0 + channel, 0x12);
        chip.put(0, 0xC0 + channel, 1);
    }
    chip.put(0, 0x02, 0);
    Box::new(chip)
}

/// A chip with CSM. The fields are its name and the chip, whose timer has the longest period. They
/// are followed by the writes that start CSM, the writes that start the timer without CSM, and the
/// write that presses a key.
type Csm = (
    &'static str,
    Box<dyn Fm>,
    &'static [(u8, u8)],
    &'static [(u8, u8)],
    (u8, u8),
);

fn csm_chips() -> Vec<Csm> {
    const OPN: &[(u8, u8)] = &[(0x27, 0x81)];
    const OPN_OFF: &[(u8, u8)] = &[(0x27, 0x01)];
    const OPL: &[(u8, u8)] = &[(0x08, 0x80), (0x04, 0x01)];
    const OPL_OFF: &[(u8, u8)] = &[(0x04, 0x01)];
    let (opn_key, opl_key) = ((0x28, 0xF2), (0xB0, 0x32));
    vec![
        ("YM2203", opn(Ym2203::new(4_000_000)), OPN, OPN_OFF, opn_key),
        ("YM2608", opn(Ym2608::new(8_000_000)), OPN, OPN_OFF, opn_key),
        ("YM2610", opn(Ym2610::new(8_000_000)), OPN, OPN_OFF, opn_key),
        ("YM2612", opn(Ym2612::new(7_670_454)), OPN, OPN_OFF, opn_key),
        (
            "YM3438",
            opn(Ym2612::new_3438(7_670_454)),
            OPN,
            OPN_OFF,
            opn_key,
        ),
        (
            "YM2151",
            opm(),
            &[(0x14, 0x81)],
            &[(0x14, 0x01)],
            (0x08, 0x78),
        ),
        ("YM3526", opl(Ym3526::new(3_579_545)), OPL, OPL_OFF, opl_key),
        ("YM3812", opl(Ym3812::new(3_579_545)), OPL, OPL_OFF, opl_key),
        ("Y8950", opl(Y8950::new(3_579_545)), OPL, OPL_OFF, opl_key),
    ]
}

/// Returns the range of the values, which ignores the small constant that some chips output.
fn swing(frames: &[i32]) -> i32 {
    let (low, high) = (frames.iter().min(), frames.iter().max());
    high.unwrap_or(&0) - low.unwrap_or(&0)
}

#[test]
fn csm_strikes_the_keys_with_each_period_of_timer_a() {
    for (name, mut chip, start, _, _) in csm_chips() {
        start
            .iter()
            .for_each(|(reg, value)| chip.put(0, *reg, *value));
        assert!(
            swing(&chip.frames(PERIOD)) < 300,
            "{name} before the first period"
        );
        for stroke in 0..6 {
            let frames = chip.frames(PERIOD);
            let (struck, rest) = (swing(&frames[..120]), swing(&frames[PERIOD - 200..]));
            assert!(struck > 1000, "{name}, stroke {stroke}: {struck}");
            assert!(rest < 300, "{name}, after stroke {stroke}: {rest}");
        }
    }
}

#[test]
fn timer_without_csm_presses_no_keys() {
    for (name, mut chip, _, start, _) in csm_chips() {
        start
            .iter()
            .for_each(|(reg, value)| chip.put(0, *reg, *value));
        assert!(swing(&chip.frames(4 * PERIOD)) < 300, "{name}");
    }
}

#[test]
fn csm_does_not_release_a_key_that_is_held() {
    for (name, mut chip, start, _, (reg, value)) in csm_chips() {
        start
            .iter()
            .for_each(|(reg, value)| chip.put(0, *reg, *value));
        chip.put(0, reg, value);
        chip.frames(PERIOD / 2);
        for _ in 0..4 {
            assert!(swing(&chip.frames(PERIOD)[PERIOD / 4..]) > 500, "{name}");
        }
    }
}

#[test]
fn opl4_fm_has_the_level_of_its_mix_register() {
    let loudest = |mix: Option<u8>| {
        let mut chip = Ymf262::new_opl4(33_868_800);
        if let Some(mix) = mix {
            chip.write(2, 0xF8, mix);
        }
        chip.write(1, 0x05, 0x01);
        let voice = [
            (0x23, 0x21),
            (0x63, 0xF0),
            (0x83, 0x0F),
            (0xC0, 0x30),
            (0xA0, 0x44),
            (0xB0, 0x32),
        ];
        for (reg, value) in voice {
            chip.write(0, reg, value);
        }
        let mut frames = vec![[0; 2]; 2000];
        chip.render(&mut frames);
        [0, 1].map(|side| frames.iter().map(|frame| frame[side].abs()).max().unwrap())
    };
    let [whole, right] = loudest(Some(0));
    assert!(whole > 3000 && whole == right, "{whole}");
    assert_eq!(loudest(Some(0x38))[1], 0);
    assert_eq!(loudest(Some(0x07)), [0, whole]);
    // A step of the register is 3 dB. After a reset, the level is 9 dB below the maximum.
    let expected = f64::from(whole) * 10f64.powf(-9.0 / 20.0);
    let reset = loudest(None).map(f64::from);
    assert!((reset[0] / expected - 1.0).abs() < 0.01, "{reset:?}");
    assert_eq!(loudest(None), loudest(Some(0x1B)));
}

/// Returns the loudest value of each side of a C352 whose only voice has these volumes.
fn c352(front: u16, rear: u16, has_rear: bool) -> [i32; 2] {
    let mut chip = C352::new(24_192_000, 72, has_rear);
    // A square wave of 16 samples.
    let wave: Vec<u8> = (0..16).map(|at| if at < 8 { 100 } else { 156 }).collect();
    let rom = chip.rom(0x92).unwrap();
    rom.add_block(0, Arc::new(wave), 0..16);
    for (word, value) in [
        (0, front),
        (1, rear),
        (2, 0x2000),
        (3, 0x4002),
        (4, 0),
        (5, 0),
        (6, 15),
        (7, 0),
    ] {
        chip.write(0, word, value);
    }
    chip.write(0, 0x202, 0);
    let mut frames = vec![[0; 2]; 20_000];
    chip.render(&mut frames);
    [0, 1].map(|side| frames.iter().map(|frame| frame[side].abs()).max().unwrap())
}

#[test]
fn c352_board_without_rear_speakers_leaves_the_rear_out() {
    let front = c352(0x8040, 0, true);
    assert!(front[0] > 1000 && front[1] > 500, "{front:?}");
    assert_eq!(c352(0, 0x8040, false), [0, 0]);
    assert_eq!(c352(0x8040, 0xFFFF, false), front);
    assert_eq!(c352(0, 0x8040, true), front);
}
