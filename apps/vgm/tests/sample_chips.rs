//! Chips that play samples: steps, loops, ends and stereo sides according to the documentation.

use creel_vgm::chips::es5503::Es5503;
use creel_vgm::chips::msm5205::Msm5205;
use creel_vgm::chips::ymz280b::Ymz280b;

fn ymz280b(memory: &[u8], writes: &[(u8, u8)]) -> Ymz280b {
    let mut chip = Ymz280b::new(16_934_400);
    *chip.memory_mut() = memory.to_vec();
    for (reg, value) in writes {
        chip.write(0, *reg, *value);
    }
    chip
}

fn left<const FRAMES: usize>(mut render: impl FnMut(&mut [[i32; 2]])) -> [i32; FRAMES] {
    let mut frames = [[0; 2]; FRAMES];
    render(&mut frames);
    frames.map(|frame| frame[0])
}

#[test]
fn ymz280b_loops_between_its_addresses() {
    // The voice plays PCM of 8 bits at 44,100 Hz and at full volume. It is panned to the middle.
    let memory: Vec<u8> = (1..=9).collect();
    let setup = [(0xFF, 0x80), (0, 0xFF), (2, 0xFF), (3, 8), (0x60, 1)];
    let marks = [(0x61, 3), (0x62, 6), (0x63, 8)];
    let heard = |control: u8| {
        let mut chip = ymz280b(&memory, &[&setup[..], &marks, &[(1, control)]].concat());
        // One step of a sample is 256 × 255 / 512 steps of the output.
        left::<12>(|out| chip.render(out)).map(|level| (level + 64) * 2 / 255)
    };
    // The chip interpolates linearly to each sample, so the first frame is still silent.
    assert_eq!(heard(0xD0), [0, 2, 3, 4, 5, 6, 4, 5, 6, 4, 5, 6]);
    assert_eq!(heard(0xC0), [0, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0]);
}

#[test]
fn ymz280b_interpolates_and_pans() {
    let memory = [64, 64, 64, 64];
    let setup = [(0xFF, 0x80), (0, 63), (2, 0x80), (0x63, 4)];
    let mut chip = ymz280b(&memory, &[&setup[..], &[(3, 8), (1, 0xC0)]].concat());
    let whole = 64 * 256 * 128 / 512;
    // At a quarter of 44,100 Hz, the first sample takes four frames.
    let line = [0, whole / 4, whole / 2, whole * 3 / 4, whole, whole];
    assert_eq!(left::<6>(|out| chip.render(out)), line);
    for (pan, expected) in [
        (1, [128, 0]),
        (4, [128, 128 * 3 / 7]),
        (15, [0, 128]),
        (12, [128 * 3 / 7, 128]),
    ] {
        let mut chip = ymz280b(&memory, &[&setup[..], &[(3, pan), (1, 0xC0)]].concat());
        let mut frames = [[0; 2]; 6];
        chip.render(&mut frames);
        assert_eq!(
            frames[5],
            expected.map(|gain| 64 * 256 * gain / 512),
            "{pan}"
        );
    }
}

#[test]
fn ymz280b_decodes_yamaha_adpcm() {
    // Code 7 moves up by 15/8 of the step 127. The step grows to 127 × 614 / 256 = 304. Code 8
    // moves down by 1/8 of 304. The step shrinks to 304 × 230 / 256 = 273, and the second code 8
    // moves down by 1/8 of that.
    let setup = [
        (0xFF, 0x80),
        (0, 0xFF),
        (2, 0xFF),
        (3, 8),
        (0x63, 2),
        (1, 0xA0),
    ];
    let mut chip = ymz280b(&[0x78, 0x80], &setup);
    let values = [0, 238, 238 - 38, 238 - 38 - 34];
    let heard = left::<4>(|out| chip.render(out));
    assert_eq!(heard, values.map(|value| (value * 255) >> 9));
}

#[test]
fn msm5205_follows_its_pins() {
    for (flags, is_msm6585, hz) in [
        (0, false, 4_000.0),
        (1, false, 6_000.0),
        (2, false, 8_000.0),
        (3, true, 19_200.0),
    ] {
        assert_eq!(Msm5205::new(384_000, flags, is_msm6585).rate().hz(), hz);
    }
    // A code of three bits has the effect of the four-bit code whose lowest bit is 0.
    let mut three = Msm5205::new(384_000, 2, false);
    let mut four = Msm5205::new(384_000, 6, false);
    for code in [3, 1, 7, 5, 2, 0, 4] {
        three.write(0, 1, code);
        four.write(0, 1, code << 1);
    }
    let heard = left::<7>(|out| three.render(out));
    assert_eq!(heard, left::<7>(|out| four.render(out)));
    // At first the step size is 16, and code 3 (6 in four bits) moves by 16 + 16 / 2 + 16 / 8.
    assert_eq!(heard[0], (16 + 8 + 2) << 4);
    // Without a divider, only a rising clock plays a code. A reset silences the chip.
    let mut slave = Msm5205::new(384_000, 7, false);
    slave.write(0, 1, 7);
    assert_eq!(left::<2>(|out| slave.render(out)), [0, 0]);
    slave.write(0, 2, 1);
    assert_eq!(left::<2>(|out| slave.render(out)), [30 << 4; 2]);
    slave.write(0, 0, 1);
    assert_eq!(left::<1>(|out| slave.render(out)), [0]);
}

fn es5503(modes: [u8; 2]) -> Es5503 {
    let mut chip = Es5503::new(8_000_000, 2);
    let memory = chip.memory_mut();
    memory[..256].fill(130);
    memory[256..512].fill(126);
    // An oscillator takes almost half a table per frame. The table of the second follows that of
    // the first.
    for (reg, value) in [
        (0xE1, 2),
        (0x20, 0x01),
        (0x21, 0x01),
        (0x40, 1),
        (0x41, 1),
        (0x81, 1),
    ] {
        chip.write(0, reg, value);
    }
    for index in 0..2 {
        chip.write(0, index, 0);
        chip.write(0, 0x20 + index, 0xFF);
        chip.write(
            0,
            0xA1 - index,
            modes[1 - usize::from(index)] << 1 | (1 - index),
        );
    }
    chip
}

#[test]
fn es5503_oscillators_loop_stop_or_swap_by_their_mode() {
    assert_eq!(es5503([0, 0]).rate().hz(), 8e6 / 32.0);
    // With a step of 0xFF00 / 2^17, two passes through the table take slightly more than four
    // frames.
    assert_eq!(left::<8>(|out| es5503([0, 0]).render(out)), [2; 8]);
    assert_eq!(
        left::<8>(|out| es5503([1, 0]).render(out)),
        [2, 2, 2, 0, 0, 0, 0, 0]
    );
    // When the first oscillator of a pair ends, the second one starts in the same frame. When the
    // second one ends, the first one starts in the next frame.
    let swapped = left::<8>(|out| es5503([3, 3]).render(out));
    assert_eq!(swapped, [2, 2, 0, -2, -2, 2, 2, 0]);
}

#[test]
fn es5503_stops_at_a_zero_byte_and_pans_by_its_channel() {
    let mut chip = es5503([0, 0]);
    chip.memory_mut()[128..].fill(0);
    let mut frames = [[0; 2]; 4];
    chip.render(&mut frames);
    assert_eq!(frames, [[2, 0], [2, 0], [0, 0], [0, 0]]);
    let mut chip = es5503([0, 0]);
    chip.write(0, 0xA0, 0x10);
    chip.render(&mut frames);
    assert_eq!(frames[0], [0, 2]);
}
