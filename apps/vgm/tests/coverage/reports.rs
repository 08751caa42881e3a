//! Reports of parts that a song uses with several registers, of chips without a clock, and of
//! replaced or missing samples. A song that does not use such a part is not reported.

use creel_vgm::format::ChipId;

use crate::songs::{self, header_song};
use crate::{is_reported, parse};

#[test]
fn a_part_that_several_registers_select_is_reported_only_if_all_of_them_do() {
    #[rustfmt::skip]
    let songs: [(ChipId, &[u8]); 12] = [
        // A voice of an OPL3 on A and C, without a key, or without the new registers.
        (ChipId::Ymf262, &[0x5F, 5, 1, 0x5E, 0xC0, 0x50, 0x5E, 0xB0, 0x20]),
        (ChipId::Ymf262, &[0x5F, 5, 1, 0x5E, 0xC0, 0xF0, 0x5E, 0xB0, 0x20]),
        (ChipId::Ymf262, &[0x5F, 5, 1, 0x5E, 0xC0, 0x40, 0x5E, 0xB1, 0x20]),
        (ChipId::Ymf262, &[0x5E, 0xC0, 0x40, 0x5E, 0xB0, 0x20]),
        // Samples of slots that play on their own, and a sample without a key.
        (ChipId::Ymf271, &[0xD1, 6, 0, 3, 0xD1, 0, 0xB0, 7, 0xD1, 0, 0, 1]),
        (ChipId::Ymf271, &[0xD1, 6, 0, 2, 0xD1, 3, 0xB0, 7, 0xD1, 3, 0, 1]),
        (ChipId::Ymf271, &[0xD1, 6, 0, 0, 0xD1, 3, 0xB0, 7, 0xD1, 0, 1, 1]),
        // A slot that is silent everywhere, and one that is heard on output 1.
        (ChipId::Ymf271, &[0xD1, 6, 0, 3, 0xD1, 0, 0xD0, 0xFF, 0xD1, 0, 0, 1]),
        (ChipId::Ymf271, &[0xD1, 6, 0, 3, 0xD1, 0, 0xD0, 0x0F, 0xD1, 0, 0xE0, 0, 0xD1, 0, 0, 1]),
        // The initial filters, and filters that are not loaded.
        (ChipId::Qsound, &[0xC4, 0x0D, 0xB2, 0xDA, 0xC4, 0x00, 0x39, 0xE3]),
        (ChipId::Qsound, &[0xC4, 0x0D, 0x53, 0xDA]),
        // Silence of the FDS.
        (ChipId::NesApu, &[0xB4, 0x20, 0x80, 0xB4, 0x20, 0x3F, 0xB4, 0x29, 0x80]),
    ];
    for (chip, commands) in songs {
        let song = parse(header_song(&[chip], 0, commands));
        assert!(!is_reported(&song), "{chip:?}: {:?}", song.losses());
    }
    // The header has an FDS.
    let fds = parse(header_song(&[ChipId::NesApu], 1 << 31, &[0xB4, 0x20, 0xA0]));
    assert!(!is_reported(&fds), "{:?}", fds.losses());
    // The drums of an OPL3 on output D.
    let drums = [0x5F, 5, 1, 0x5E, 0xC8, 0x80, 0x5E, 0xBD, 0x21];
    assert!(is_reported(&parse(header_song(
        &[ChipId::Ymf262],
        0,
        &drums
    ))));
}

#[test]
fn writes_to_a_chip_without_clock_are_reported_unless_they_are_silence() {
    for chip in ChipId::all().filter(|chip| *chip != ChipId::Bsmt2000) {
        let other = match chip {
            ChipId::Ym2151 => ChipId::Ym2612,
            _ => ChipId::Ym2151,
        };
        let silence = match chip {
            ChipId::Sn76489 => [0x9F, 0xBF, 0xDF, 0xFF].map(|byte| [0x50, byte]).concat(),
            _ => songs::one_write(chip),
        };
        let quiet = parse(header_song(&[other], 0, &silence));
        let line = format!("to a {} ignored", quiet.header.name(chip));
        let has_line = |lines: &[String]| lines.iter().any(|it| it.contains(&line));
        assert!(!is_reported(&quiet), "{chip:?}: {:?}", quiet.losses());
        assert!(
            has_line(quiet.warnings()),
            "{chip:?}: {:?}",
            quiet.warnings()
        );
        let loud = [silence, songs::write(chip, 0, 1, 0x0D)].concat();
        let loud = parse(header_song(&[other], 0, &loud));
        assert!(has_line(loud.losses()), "{chip:?}: {:?}", loud.losses());
    }
    // A second chip that the header does not have.
    let second = parse(header_song(&[ChipId::Ym2612], 0, &[0xA2, 0x28, 0xF0]));
    assert!(is_reported(&second));
    // The DAC, and a stream.
    let chip = ChipId::Ym2612 as u8;
    for commands in [&[0x81][..], &[0x90, 0, chip, 0, 0x2A]] {
        assert!(is_reported(&parse(header_song(
            &[ChipId::Sn76489],
            0,
            commands
        ))));
    }
}

#[test]
fn replaced_drums_are_reported() {
    let song = |chip, reg: u8, value: u8| {
        let command = if chip == ChipId::Ym2608 { 0x56 } else { 0x58 };
        parse(header_song(&[chip], 0, &[command, reg, value]))
    };
    assert!(is_reported(&song(ChipId::Ym2608, 0x10, 0x01)));
    // Damping, no drum, and another register.
    for (reg, value) in [(0x10, 0x81), (0x10, 0x00), (0x11, 0x3F)] {
        assert!(!is_reported(&song(ChipId::Ym2608, reg, value)), "{reg:x}");
    }
}

#[test]
fn missing_samples_of_a_second_chip_or_of_the_dmc_are_reported() {
    let loss = |song: &[u8]| {
        let losses = parse(song.to_vec()).losses().to_vec();
        losses.into_iter().find(|line| line.contains("no samples"))
    };
    // Each OKIM6295 has its own memory.
    let start = [0xB8, 0x00, 0x81, 0xB8, 0x80, 0x81];
    let block = |second: u8| [0x67, 0x66, 0x8B, 8, 0, 0, second, 0, 0, 0, 0, 0, 0, 0, 0];
    let song = |blocks: &[u8]| {
        let commands = [blocks, &start].concat();
        header_song(&[ChipId::Okim6295], 1 << 30, &commands)
    };
    let first = loss(&song(&block(0x80))).unwrap();
    assert!(first.starts_with("the OKIM6295 is silent"), "{first}");
    let second = loss(&song(&block(0))).unwrap();
    assert!(second.starts_with("the second OKIM6295"), "{second}");
    assert_eq!(loss(&song(&[block(0), block(0x80)].concat())), None);
    // A DMC without a length plays nothing.
    let nes = |commands: &[u8]| loss(&header_song(&[ChipId::NesApu], 0, commands));
    assert_eq!(nes(&[0xB4, 0x15, 0x1F]), None);
    assert_eq!(nes(&[0xB4, 0x13, 0x04, 0xB4, 0x15, 0x0F]), None);
    assert!(nes(&[0xB4, 0x13, 0x04, 0xB4, 0x15, 0x1F]).is_some());
    let memory = [0x67, 0x66, 0xC2, 3, 0, 0, 0, 0, 0xC0, 0x55];
    let commands = [&memory[..], &[0xB4, 0x13, 0x04, 0xB4, 0x15, 0x1F]].concat();
    assert_eq!(nes(&commands), None);
}
