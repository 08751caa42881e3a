//! Chips that render steps. The result does not depend on how the ticks are divided into runs, and
//! times, noises and levels match the documentation.

#[path = "streams/random.rs"]
mod random;

use creel_vgm::blep::Sides;
use creel_vgm::chips::game_boy::GameBoy;
use creel_vgm::chips::huc6280::Huc6280;
use creel_vgm::chips::k007232::K007232;
use creel_vgm::chips::k051649::K051649;
use creel_vgm::chips::mikey::Mikey;
use creel_vgm::chips::nes::Nes;
use creel_vgm::chips::nes::fds::Fds;
use creel_vgm::chips::pokey::Pokey;
use creel_vgm::chips::saa1099::Saa1099;
use creel_vgm::chips::step_chip::StepChip;
use creel_vgm::chips::vsu::Vsu;
use creel_vgm::chips::wonderswan::WonderSwan;
use random::Random;

/// A chip: its name, its ports and registers, and a function that creates it.
type Kind = (&'static str, u32, u32, fn() -> Box<dyn StepChip>);

const KINDS: &[Kind] = &[
    ("NES", 1, 0x18, || Box::new(Nes::new(1_789_773))),
    ("FDS", 1, 0x80, || Box::new(Fds::new(1_789_773))),
    ("GameBoy", 1, 0x30, || Box::new(GameBoy::new(4_194_304))),
    ("HuC6280", 1, 10, || Box::new(Huc6280::new(3_579_545))),
    ("K051649", 6, 0xA0, || Box::new(K051649::new(1_789_772))),
    ("WonderSwan", 2, 0xC0, || {
        Box::new(WonderSwan::new(3_072_000))
    }),
    ("SAA1099", 1, 0x1D, || Box::new(Saa1099::new(8_000_000))),
    ("Pokey", 1, 10, || Box::new(Pokey::new(1_789_790))),
    ("VSU", 2, 0xC0, || Box::new(Vsu::new(5_000_000))),
    ("Mikey", 1, 0x51, || Box::new(Mikey::new(16_000_000))),
    ("K007232", 1, 0x14, || Box::new(K007232::new(3_579_545))),
];

/// Returns the level on each side after each of the next ticks, starting at `level`.
fn levels(chip: &mut dyn StepChip, ticks: u32, mut level: [i32; 2]) -> Vec<[i32; 2]> {
    let mut changes = vec![[0; 2]; ticks as usize];
    let mut take = |tick: u32, sides: Sides, delta: i32| {
        assert!((-32768..=32767).contains(&delta), "{delta}");
        for (sum, gain) in changes[tick as usize].iter_mut().zip(sides.gains()) {
            *sum += gain * delta;
        }
    };
    chip.run(ticks, &mut take);
    for change in &mut changes {
        level = [level[0] + change[0], level[1] + change[1]];
        *change = level;
    }
    changes
}

fn memory() -> Vec<u8> {
    let mut random = Random(9);
    // We add an end mark from time to time.
    let mut byte = || random.next() as u8 & if random.below(99) > 0 { 0x7F } else { 0xFF };
    (0..0x3_0000).map(|_| byte()).collect()
}

#[test]
fn step_chip_levels_are_independent_of_run_length() {
    let memory = memory();
    for (name, ports, regs, new) in KINDS {
        let mut moved = 0;
        for seed in 0..12 {
            let mut random = Random(seed);
            let mut chips = [new(), new()];
            for chip in &mut chips {
                chip.load(0x94, 0, &memory);
                chip.load(0xC2, 0x8000, &memory[..0x8000]);
                if seed % 2 == 1 {
                    chip.set_inaudible_period(66);
                }
            }
            let mut last = [[0; 2]; 2];
            for step in 0..150 {
                for _ in 0..random.below(40) {
                    let (port, reg) = (random.below(*ports) as u8, random.below(*regs) as u8);
                    let value = random.next() as u8 | if random.below(2) == 0 { 0x80 } else { 0 };
                    for chip in &mut chips {
                        chip.write(port, reg, value);
                    }
                }
                let ticks = 1 + random.below(if step % 9 == 0 { 40_000 } else { 900 });
                let whole = levels(&mut *chips[0], ticks, last[0]);
                let mut cut = Vec::new();
                let mut level = last[1];
                while cut.len() < whole.len() {
                    let left = ticks - cut.len() as u32;
                    let run = (1 + random.below(300)).min(left);
                    cut.extend(levels(&mut *chips[1], run, level));
                    level = cut[cut.len() - 1];
                }
                let same = whole.iter().zip(&cut).position(|(a, b)| a != b);
                assert_eq!(
                    same, None,
                    "{name}, seed {seed}, step {step} of {ticks} ticks"
                );
                moved += whole.windows(2).filter(|pair| pair[0] != pair[1]).count();
                last = [whole.last().copied().unwrap_or(last[0]), level];
            }
        }
        assert!(moved > 500, "{name} is all but silent: {moved} changes");
    }
}

fn write_all(chip: &mut dyn StepChip, writes: &[(u8, u8)]) {
    for (reg, value) in writes {
        chip.write(0, *reg, *value);
    }
}

/// Returns the ticks at which the left level changes.
fn changes(chip: &mut dyn StepChip, ticks: u32) -> Vec<(u32, i32)> {
    let all = levels(chip, ticks, [0; 2]);
    let mut found = Vec::new();
    let mut last = 0;
    for (tick, level) in (0..).zip(all) {
        if level[0] != last {
            found.push((tick, level[0]));
            last = level[0];
        }
    }
    found
}

#[test]
fn nes_mixer_matches_resistor_networks() {
    // One pulse reaches 95.88 / (8128 / 15 + 100) of full scale, and both pulses together reach
    // 95.88 / (8128 / 30 + 100).
    for (pulses, expected) in [(1, 4_895), (3, 8_470)] {
        let mut nes = Nes::new(1_789_773);
        write_all(
            &mut nes,
            &[(0x15, pulses), (0, 0xBF), (4, 0xBF), (1, 8), (5, 8)],
        );
        write_all(&mut nes, &[(2, 0xFD), (6, 0xFD), (3, 0), (7, 0)]);
        let loudest = changes(&mut nes, 20_000)
            .iter()
            .map(|change| change.1)
            .max();
        assert_eq!(loudest, Some(expected));
    }
}

#[test]
fn nes_frame_counter_clocks_lengths_and_envelopes() {
    let mut nes = Nes::new(1_789_773);
    // The length is 10 half frames, and the volume falls at each quarter frame.
    write_all(&mut nes, &[(0x15, 1), (0, 0x80), (1, 8), (2, 0xFD), (3, 0)]);
    let all = changes(&mut nes, 900_000);
    let last = all.last().unwrap().0;
    // The envelope reaches 0 after 16 quarter frames, before the length ends: 4 frames of 29,830.
    assert!((last as i32 - 4 * 29_830).abs() < 4_100, "{last}");
    let mut nes = Nes::new(1_789_773);
    write_all(&mut nes, &[(0x15, 1), (0, 0x9F), (1, 8), (2, 0xFD), (3, 0)]);
    let last = changes(&mut nes, 900_000).last().unwrap().0;
    assert!((last as i32 - 5 * 29_830).abs() < 4_100, "{last}");
}

/// Returns the number of shifts until a sequence of bits repeats.
fn noise_cycle(chip: &mut dyn StepChip, period: u32, most: u32) -> Option<usize> {
    let all = levels(chip, 2 * most * period + 64 * period, [0; 2]);
    let bits: Vec<bool> = all
        .iter()
        .step_by(period as usize)
        .map(|level| level[0] > 0)
        .collect();
    let from = 40;
    (1..=most as usize).find(|cycle| {
        let (a, b) = (&bits[from..], &bits[from + cycle..]);
        a.iter().zip(b).take(most as usize).all(|(a, b)| a == b)
    })
}

#[test]
fn noise_periods_match_lfsr_polynomials() {
    let nes = |mode: u8| {
        let mut nes = Nes::new(1_789_773);
        write_all(&mut nes, &[(0x15, 8), (12, 0x3F), (14, mode), (15, 0xF8)]);
        nes
    };
    assert_eq!(noise_cycle(&mut nes(0), 4, 32_767), Some(32_767));
    assert!(matches!(noise_cycle(&mut nes(0x80), 4, 200), Some(93 | 31)));
    let game_boy = |mode: u8| {
        let mut chip = GameBoy::new(4_194_304);
        write_all(&mut chip, &[(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF)]);
        write_all(&mut chip, &[(0x11, 0xF0), (0x12, mode), (0x13, 0x80)]);
        chip
    };
    assert_eq!(noise_cycle(&mut game_boy(0), 4, 32_767), Some(32_767));
    assert_eq!(noise_cycle(&mut game_boy(8), 4, 200), Some(127));
    let mut pokey = Pokey::new(1_789_790);
    // We read a bit of the 4-bit noise every 16 clocks. The bits then come in another order, but
    // the noise still runs through all of its states.
    write_all(&mut pokey, &[(8, 0x40), (0, 12), (1, 0xCF)]);
    assert_eq!(noise_cycle(&mut pokey, 16, 100), Some(15));
    let mut vsu = Vsu::new(5_000_000);
    for (reg, value) in [
        (0x51, 0xFF),
        (0x52, 0xFF),
        (0x53, 7),
        (0x54, 0xF0),
        (0x55, 0),
        (0x50, 0x80),
    ] {
        vsu.write(1, reg, value);
    }
    // The taps are 14 and 7 of 15 bits.
    assert_eq!(noise_cycle(&mut vsu, 10, 32_767), Some(32_767));
    let mut swan = WonderSwan::new(3_072_000);
    write_all(
        &mut swan,
        &[(6, 0xFF), (7, 7), (0x0B, 0xFF), (0x0E, 0x18), (0x10, 0x88)],
    );
    assert_eq!(noise_cycle(&mut swan, 1, 32_767), Some(32_767));
    let mut mikey = Mikey::new(16_000_000);
    // Taps 11 and 10 alone cannot give a maximal sequence. 11, 10, 7 and 5 do, because
    // x^12 + x^11 + x^8 + x^6 + 1 is primitive.
    write_all(
        &mut mikey,
        &[(0x20, 0x40), (0x21, 0xE0), (0x24, 0), (0x25, 0x98)],
    );
    assert_eq!(noise_cycle(&mut mikey, 1, 4_095), Some(4_095));
}

#[test]
fn game_boy_frame_sequencer_runs_at_512_hz() {
    let mut chip = GameBoy::new(4_194_304);
    write_all(&mut chip, &[(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF)]);
    // The level falls by a step every 2/64 s, from 15 to 0, which is 15 steps.
    write_all(&mut chip, &[(1, 0x80), (2, 0xF2), (3, 0), (4, 0x87)]);
    let last = changes(&mut chip, 2_100_000).last().unwrap().0;
    let expected = 15 * 2 * 32_768;
    assert!((last as i32 - expected).abs() < 33_000, "{last}");
    // The length is 32/256 s.
    let mut chip = GameBoy::new(4_194_304);
    write_all(&mut chip, &[(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF)]);
    write_all(&mut chip, &[(1, 0x80 | 32), (2, 0xF0), (3, 0), (4, 0xC7)]);
    let last = changes(&mut chip, 2_100_000).last().unwrap().0;
    assert!((last as i32 - 32 * 8_192).abs() <= 8_192, "{last}");
    // The sweep raises the value of the pitch register by half every 1/128 s. Beyond the limit, the
    // channel is silent.
    let mut chip = GameBoy::new(4_194_304);
    write_all(&mut chip, &[(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF)]);
    write_all(
        &mut chip,
        &[(0, 0x11), (1, 0x80), (2, 0xF0), (3, 0), (4, 0x84)],
    );
    let last = changes(&mut chip, 2_100_000).last().unwrap().0;
    // The first clock of the sweep sets the pitch to 1024 + 512 = 1536. The next value would be
    // 1536 + 768, which is beyond the limit, so the channel is silent from then on.
    assert!((last as i32 - 3 * 4_096).abs() <= 4_096, "{last}");
}

#[test]
fn volumes_and_panning_match_the_documentation() {
    // HuC6280: a step of the channel volume is 1.5 dB, and a step of the balance is 3 dB.
    let huc = |volume: u8, balance: u8| {
        let mut chip = Huc6280::new(3_579_545);
        write_all(
            &mut chip,
            &[(0, 0), (1, 0xFF), (5, balance), (4, 0xC0 | volume), (6, 31)],
        );
        levels(&mut chip, 1, [0; 2])[0]
    };
    let decibels = |a: i32, b: i32| 20.0 * (f64::from(a) / f64::from(b)).log10();
    let [loud, _] = huc(31, 0xFF);
    assert!((decibels(huc(30, 0xFF)[0], loud) + 1.5).abs() < 0.02);
    assert!((decibels(huc(31, 0xEF)[0], loud) + 3.0).abs() < 0.02);
    assert_eq!(huc(31, 0xF0), [loud, 0]);
    assert!((decibels(huc(1, 0xFF)[0], loud) + 45.0).abs() < 0.2);
    assert_eq!(huc(0, 0xFF), [0, 0]);
    // Game Boy: bits enable the sides, and their volumes are n + 1.
    let game_boy = |volumes: u8, sides: u8| {
        let mut chip = GameBoy::new(4_194_304);
        write_all(&mut chip, &[(0x16, 0x80), (0x14, volumes), (0x15, sides)]);
        write_all(&mut chip, &[(1, 0x80), (2, 0xF0), (3, 0), (4, 0x87)]);
        levels(&mut chip, 4_096, [0; 2]).into_iter().max().unwrap()
    };
    assert_eq!(game_boy(0x77, 0x11), [7_680, 7_680]);
    assert_eq!(game_boy(0x30, 0x11), [3_840, 960]);
    assert_eq!(game_boy(0x77, 0x10), [7_680, 0]);
    // VSU: (level × volume) / 8 + 1.
    let mut vsu = Vsu::new(5_000_000);
    vsu.write(0, 0, 63);
    for (reg, value) in [(1, 0xF8), (4, 0x70), (0, 0x80)] {
        vsu.write(1, reg, value);
    }
    assert_eq!(
        levels(&mut vsu, 1, [0; 2])[0],
        [63 * 4 * (7 * 15 / 8 + 1), 63 * 4 * (7 * 8 / 8 + 1)]
    );
    // WonderSwan: the voice with whole and with half volume.
    let mut swan = WonderSwan::new(3_072_000);
    write_all(&mut swan, &[(0x10, 0x22), (0x14, 0x06), (9, 200)]);
    assert_eq!(levels(&mut swan, 1, [0; 2])[0], [200 * 32, 100 * 32]);
    // Mikey: one register attenuates a side, and another one turns it off.
    let mut mikey = Mikey::new(16_000_000);
    write_all(
        &mut mikey,
        &[(0x22, 100), (0x40, 0x84), (0x44, 0x10), (0x50, 0x00)],
    );
    assert_eq!(
        levels(&mut mikey, 1, [0; 2])[0],
        [100 * 8 * 4, 100 * 16 * 4]
    );
    mikey.write(0, 0x50, 0x01);
    assert_eq!(
        levels(&mut mikey, 1, [0; 2])[0][1],
        -100 * 16 * 4,
        "it goes"
    );
}

#[test]
fn dmc_level_changes_by_two_per_bit() {
    let mut nes = Nes::new(1_789_773);
    nes.load(0xC2, 0xC000, &[0xFF, 0x00]);
    write_all(
        &mut nes,
        &[(0x10, 0x0F), (0x11, 64), (0x12, 0), (0x13, 0), (0x15, 0x10)],
    );
    let all = changes(&mut nes, 54 * 40);
    // First comes the level itself, and then eight steps up, 54 ticks apart.
    let gaps: Vec<u32> = all[1..]
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert_eq!(all.len(), 1 + 8, "{all:?}");
    assert!(gaps.iter().all(|gap| *gap == 54), "{gaps:?}");
    assert!(all.windows(2).all(|pair| pair[1].1 > pair[0].1));
}

#[test]
fn k007232_loops_at_end_mark_or_stops() {
    for (repeats, expected) in [(0, 3), (1, 12)] {
        let mut chip = K007232::new(3_579_545);
        chip.load(0x94, 0, &[0x41, 0x42, 0x43, 0xC4]);
        // A sample has 4096 - 4086 ticks.
        write_all(
            &mut chip,
            &[(0, 0xF6), (1, 0x0F), (0x0D, repeats), (0x10, 1), (5, 0)],
        );
        let all = changes(&mut chip, 115);
        let heard = all.iter().filter(|change| change.1 != 0).count();
        assert_eq!(heard, expected, "{all:?}");
        assert_eq!(&all[..3], [(0, 1), (10, 2), (20, 3)]);
    }
}

#[test]
fn scc_truncates_low_bits_and_stops_at_short_periods() {
    let mut chip = K051649::new(1_789_772);
    for reg in 0..32 {
        chip.write(0, reg, if reg < 16 { 100 } else { 0x9C });
    }
    for (port, reg, value) in [(1, 0, 9), (2, 0, 7), (3, 0, 1)] {
        chip.write(port, reg, value);
    }
    let all = changes(&mut chip, 1_000);
    assert_eq!(all[0].1, ((100 * 7) >> 4) * 16);
    assert_eq!(all[1].1, ((-100 * 7) >> 4) * 16);
    assert_eq!(all[2].0 - all[1].0, 16 * 10);
    chip.write(1, 0, 8);
    chip.run(20, &mut |_: u32, _: Sides, _: i32| {});
    assert_eq!(
        levels(&mut chip, 1_000, [0; 2])[999],
        [0; 2],
        "it stands still"
    );
}

#[test]
fn pokey_reset_stops_only_channels_that_count_its_base_clock() {
    // Channel 0 counts either the base clock or the clocks of the chip.
    for (control, counts_clocks) in [(0x00, false), (0x40, true)] {
        let mut chip = Pokey::new(1_789_790);
        write_all(&mut chip, &[(8, control), (0, 72), (1, 0xAF)]);
        let moves = |chip: &mut Pokey| changes(chip, 40_000).len() > 2;
        assert!(moves(&mut chip), "the initial state");
        for (skctl, expected) in [
            (0, counts_clocks),
            (3, true),
            (0x10, counts_clocks),
            (1, true),
        ] {
            chip.write(0, 0x0F, skctl);
            assert_eq!(moves(&mut chip), expected, "{control:x}, {skctl:x}");
        }
    }
}

#[test]
fn saa1099_envelopes_shape_the_volume() {
    let mut chip = Saa1099::new(8_000_000);
    // Envelope 0 controls channel 2. It falls once with 4 bits, is clocked by tone 1, and is
    // inverted on the right.
    write_all(
        &mut chip,
        &[(0x1C, 1), (2, 0xFF), (0x0A, 0xFF), (0x11, 7), (0x14, 4)],
    );
    write_all(&mut chip, &[(9, 0xFF), (0x10, 0x00), (0x18, 0x85)]);
    let all = levels(&mut chip, 256 * 128 * 17, [0; 2]);
    // Tone 1 toggles every 256 × 128 ticks.
    let at = |step: usize| {
        let part = &all[step * 256 * 128 + 1..][..1_200];
        [0, 1].map(|side| part.iter().map(|level| level[side]).max().unwrap())
    };
    for step in 0..15 {
        // The first toggle comes immediately.
        let left = 14 - step as i32;
        assert_eq!(at(step), [left * 14 * 20, (15 - left) * 14 * 20], "{step}");
    }
}

#[test]
fn saa1099_envelope_is_audible_without_tone_and_noise() {
    let heard = |writes: &[(u8, u8)]| {
        let mut chip = Saa1099::new(8_000_000);
        write_all(&mut chip, &[(0x1C, 1), (2, 0x0F), (9, 0xFF), (0x10, 0x70)]);
        write_all(&mut chip, writes);
        // Tone 1 toggles every 256 ticks, and each toggle is a step of the envelope.
        let all = levels(&mut chip, 256 * 40, [0; 2]);
        (0..34)
            .map(|step| all[step * 256 + 100][0])
            .collect::<Vec<_>>()
    };
    // The envelope falls and repeats.
    let saw: Vec<_> = (0..34)
        .map(|step: i32| (14 - step).rem_euclid(16) * 14 * 20)
        .collect();
    assert_eq!(heard(&[(0x18, 0x86)]), saw);
    // The envelope stays at its maximum, so the level follows the amplitude without its lowest bit,
    // like a converter.
    assert_eq!(heard(&[(0x18, 0x82), (2, 0x07)]), [15 * 6 * 20; 34]);
    // The channel is silent if the envelope is off, or if only other channels have a volume.
    assert_eq!(heard(&[(0x18, 0x06)]), [0; 34]);
    assert_eq!(
        heard(&[(0x18, 0x86), (2, 0), (1, 0xFF), (3, 0xFF)]),
        [0; 34]
    );
}
