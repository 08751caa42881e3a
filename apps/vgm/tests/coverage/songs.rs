//! The fields of the header, and songs in which they matter.

use creel_vgm::format::ChipId;

use crate::State::{self, Heard, Reported, Silent, Tested};
use crate::samples::TONES;
use crate::steps::{pairs, tones, wait};

/// A byte of the header, or some of its bits.
pub struct Field {
    pub offset: usize,
    pub bits: &'static str,
    pub meaning: &'static str,
    /// The name of the song in which the byte is changed.
    pub song: &'static str,
    pub state: State,
}

const fn field(
    offset: usize,
    bits: &'static str,
    meaning: &'static str,
    song: &'static str,
    state: State,
) -> Field {
    Field {
        offset,
        bits,
        meaning,
        song,
        state,
    }
}

const LOOPS: State = Tested(&["loop_modifier_scales_loops_to_at_least_one"]);

/// Every field of the header apart from the clocks, and every flag of the clocks.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field(0x04, "all", "offset of the end", "PSG", Silent(0, 1, "we use the length of the file")),
    field(0x08, "all", "version", "", Tested(&["operand_counts_match_the_specification"])),
    field(0x0F, "6", "second SN76489", "T6W28", Heard(0x40, 0x00)),
    field(0x0F, "6, 7", "T6W28", "T6W28", Heard(0xC0, 0x40)),
    field(0x13, "7", "VRC7", "YM2413", Heard(0x00, 0x80)),
    field(0x14, "all", "offset of the tags", "", Tested(&["gd3_round_trips_and_truncated_tag_keeps_its_front"])),
    field(0x18, "all", "number of samples", "PSG", Silent(0, 1, "we add up the waits")),
    field(0x1C, "all", "offset of the loop", "", Tested(&["only_the_loop_is_repeated", "invalid_or_empty_loop_is_ignored"])),
    field(0x20, "all", "samples of the loop", "", Tested(&["invalid_or_empty_loop_is_ignored"])),
    field(0x24, "all", "rate of the recording", "PSG", Silent(0, 1, "it is a remark")),
    field(0x28, "all", "SN76489: taps of the noise", "PSG", Heard(9, 6)),
    field(0x2A, "all", "SN76489: width of the noise", "PSG", Heard(16, 15)),
    field(0x2B, "0", "SN76489: period 0 is 1024", "PSG", Heard(0, 1)),
    field(0x2B, "1", "SN76489: negated output", "PSG", Heard(0, 2)),
    field(0x2B, "2", "SN76489: no stereo port", "PSG", Heard(0, 4)),
    field(0x2B, "3", "SN76489: no division by 8", "PSG", Heard(0, 8)),
    field(0x2B, "4", "SN76489: feedback of the NCR 8496", "PSG", Heard(0, 16)),
    field(0x2F, "7", "YM3438", "YM2612", Heard(0x00, 0x80)),
    field(0x34, "all", "offset of the commands", "", Tested(&["header_fields_beyond_the_data_are_ignored", "tolerated_defects_render_with_a_warning"])),
    field(0x3C, "all", "SegaPCM: shift of the bank", "SegaPCM banks", Heard(12, 0)),
    field(0x3E, "all", "SegaPCM: mask of the bank", "SegaPCM banks", Heard(0x70, 0x02)),
    field(0x4F, "7", "YM2610B", "YM2610B", Heard(0x80, 0x00)),
    field(0x53, "7", "two YM3812, left and right", "YM3812", Heard(0x40, 0xC0)),
    field(0x78, "all", "AY8910: type", "AY8910", Heard(0x00, 0x10)),
    field(0x78, "all", "AY8910: another type", "AY8910", Reported),
    field(0x79, "0", "AY8910: legacy output", "AY8910", Silent(0, 1, "it is the usual level")),
    field(0x79, "1–3", "AY8910: joined pins", "AY8910", Reported),
    field(0x79, "4", "YM2149: pin 26 low", "YM2149", Heard(0x00, 0x10)),
    field(0x7A, "1–3", "YM2203: joined pins of the SSG", "YM2203", Reported),
    field(0x7B, "1–3", "YM2608: joined pins of the SSG", "YM2608", Reported),
    field(0x7C, "all", "volume of the song", "PSG", Heard(0, 0x10)),
    field(0x7D, "all", "reserved", "PSG", Silent(0, 1, "it has no meaning")),
    field(0x7E, "all", "loops to subtract", "", LOOPS),
    field(0x7F, "all", "factor of the loops", "", LOOPS),
    field(0x87, "7", "NES with FDS", "NES FDS", Heard(0x80, 0x00)),
    field(0x8F, "7", "uPD7759: slave mode", "uPD7759", Heard(0x00, 0x80)),
    field(0x94, "0, 1", "OKIM6258: divider", "OKIM6258", Heard(0, 2)),
    field(0x94, "2", "OKIM6258: codes of 3 or 4 bits", "OKIM6258", Silent(0, 4, "the chips of all known songs have 4 bits")),
    field(0x94, "3", "OKIM6258: output of 12 bits", "OKIM6258", Heard(0, 8)),
    field(0x95, "0", "K054539: sides swapped", "K054539", Silent(0, 1, "files have set it without swapped sides")),
    field(0x95, "1", "K054539: no echo", "K054539 echo", Heard(0, 2)),
    field(0x95, "2", "K054539: addresses at key on", "K054539 jump", Heard(0, 4)),
    field(0x96, "all", "C140: type of the board", "C140", Heard(0, 2)),
    field(0x96, "all", "C140: another type", "C140", Reported),
    field(0x97, "all", "reserved", "PSG", Silent(0, 1, "it has no meaning")),
    field(0x9B, "7", "OKIM6295: pin 7", "OKIM6295", Heard(0x00, 0x80)),
    field(0x9F, "7", "K052539", "K051649", Silent(0x00, 0x80, "port 4 has its waves in any case")),
    field(0xBC, "all", "offset of the extra header", "", Tested(&["extra_header_sets_second_chip_clock", "volumes_of_the_extra_header_are_heard"])),
    field(0xD3, "7", "ES5506 instead of ES5505", "ES5506", Heard(0x80, 0x00)),
    field(0xD4, "all", "ES5503: channels", "ES5503", Heard(2, 1)),
    field(0xD5, "all", "ES5506: channels", "ES5506", Silent(0, 1, "we mix all outputs")),
    field(0xD6, "all", "C352: clocks of a frame, in fours", "C352", Heard(72, 80)),
    field(0xD7, "0, 1", "MSM5205: pins S1 and S2", "MSM5205", Heard(0b110, 0b101)),
    field(0xD7, "2", "MSM5205: codes of 4 bits", "MSM5205", Heard(0b110, 0b010)),
    field(0xDF, "7", "C352: no rear speakers", "C352 rear", Heard(0x01, 0x81)),
    field(0xF3, "7", "MSM6585", "MSM5205", Heard(0x00, 0x80)),
];

/// The clock of a chip in these songs.
pub fn clock_hz(_chip: ChipId) -> u32 {
    4_000_000
}

/// The offsets of the clocks in the header, in the order of the chips.
const CLOCKS: [usize; 48] = [
    0x0C, 0x10, 0x2C, 0x30, 0x38, 0x40, 0x44, 0x48, 0x4C, 0x50, 0x54, 0x58, 0x5C, 0x60, 0x64, 0x68,
    0x6C, 0x70, 0x74, 0x80, 0x84, 0x88, 0x8C, 0x90, 0x98, 0x9C, 0xA0, 0xA4, 0xA8, 0xAC, 0xB0, 0xB4,
    0xB8, 0xC0, 0xC4, 0xC8, 0xCC, 0xD0, 0xD8, 0xDC, 0xE0, 0xE4, 0xE8, 0xEC, 0xF0, 0xF4, 0xF8, 0xFC,
];

/// Returns a song of version 1.72 with these chips and commands, and a wait at the end. `bits` are
/// added to the clocks.
pub fn header_song(chips: &[ChipId], bits: u32, commands: &[u8]) -> Vec<u8> {
    let mut song = vec![0; 0x100];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x72, 0x01]);
    song[0x34] = 0xCC;
    for chip in chips {
        // The last clock ends where the commands begin.
        let clock = (clock_hz(*chip) | bits).to_le_bytes();
        song[CLOCKS[*chip as usize]..][..4].copy_from_slice(&clock);
    }
    song.extend(commands);
    song.extend([0x62, 0x66]);
    song
}

/// Returns the command that writes a value to a register of the first chip of its kind. There is
/// none for the BSMT2000.
pub fn write(chip: ChipId, port: u8, reg: u8, value: u8) -> Vec<u8> {
    match chip {
        ChipId::Sn76489 => vec![0x50, value],
        ChipId::Ym2413 => vec![0x51, reg, value],
        ChipId::Ym2612 => vec![0x52 + port, reg, value],
        ChipId::Ym2151 => vec![0x54, reg, value],
        ChipId::Ym2203 => vec![0x55, reg, value],
        ChipId::Ym2608 => vec![0x56 + port, reg, value],
        ChipId::Ym2610 => vec![0x58 + port, reg, value],
        ChipId::Ym3812 => vec![0x5A, reg, value],
        ChipId::Ym3526 => vec![0x5B, reg, value],
        ChipId::Y8950 => vec![0x5C, reg, value],
        ChipId::Ymz280b => vec![0x5D, reg, value],
        ChipId::Ymf262 => vec![0x5E + port, reg, value],
        ChipId::Ay8910 => vec![0xA0, reg, value],
        ChipId::Msm5205 => vec![0x32, reg << 4 | value & 15],
        ChipId::Mikey => vec![0x40, reg, value],
        ChipId::K007232 => vec![0x41, reg, value],
        ChipId::K005289 => vec![0x42, reg, value],
        ChipId::Msm5232 => vec![0x43, reg, value],
        ChipId::Ics2115 => vec![0x44, reg, value],
        ChipId::Bsmt2000 => Vec::new(),
        ChipId::Rf5c68 => vec![0xB0, reg, value],
        ChipId::Rf5c164 => vec![0xB1, reg, value],
        ChipId::Pwm => vec![0xB2, reg << 4, value],
        ChipId::GameBoy => vec![0xB3, reg, value],
        ChipId::NesApu => vec![0xB4, reg, value],
        ChipId::MultiPcm => vec![0xB5, reg, value],
        ChipId::Upd7759 => vec![0xB6, reg, value],
        ChipId::Okim6258 => vec![0xB7, reg, value],
        ChipId::Okim6295 => vec![0xB8, reg, value],
        ChipId::Huc6280 => vec![0xB9, reg, value],
        ChipId::K053260 => vec![0xBA, reg, value],
        ChipId::Pokey => vec![0xBB, reg, value],
        ChipId::WonderSwan => vec![0xBC, reg, value],
        ChipId::Saa1099 => vec![0xBD, reg, value],
        ChipId::Es5506 => vec![0xBE, reg, value],
        ChipId::Ga20 => vec![0xBF, reg, value],
        ChipId::SegaPcm => vec![0xC0, reg, 0, value],
        ChipId::Qsound => vec![0xC4, 0, value, reg],
        ChipId::Scsp => vec![0xC5, port, reg, value],
        ChipId::Vsu => vec![0xC7, 0, reg, value],
        ChipId::X1010 => vec![0xC8, 0, reg, value],
        ChipId::Ymf278b => vec![0xD0, port, reg, value],
        ChipId::Ymf271 => vec![0xD1, port, reg, value],
        ChipId::K051649 => vec![0xD2, port, reg, value],
        ChipId::K054539 => vec![0xD3, port, reg, value],
        ChipId::C140 => vec![0xD4, port, reg, value],
        ChipId::Es5503 => vec![0xD5, port, reg, value],
        ChipId::C352 => vec![0xE1, port, reg, 0, value],
    }
}

/// Returns a write to a chip that makes no sound.
pub fn one_write(chip: ChipId) -> Vec<u8> {
    write(chip, 0, 0, 0)
}

/// Returns a note of an OPN chip and a tone of its SSG. The channel counts from 0. The YM2610 lacks
/// channel 0.
fn opn(command: u8, channel: u8) -> Vec<u8> {
    let voice = [
        (0xB0, 0x07),
        (0xB4, 0xC0),
        (0xA4, 0x22),
        (0xA0, 0x69),
        (0x40, 0x00),
        (0x44, 0x7F),
        (0x48, 0x7F),
        (0x4C, 0x7F),
        (0x50, 0x1F),
        (0x80, 0x0F),
    ];
    let voice = voice.map(|(reg, value)| (reg + channel, value));
    let ssg = [
        (0, 0x1C),
        (1, 1),
        (7, 0x3E),
        (8, 15),
        (0x28, 0x10 | channel),
    ];
    pairs(command, &[&voice[..], &ssg].concat())
}

/// Returns the song with some bytes of its header, and a wait of 20,000 ticks at its end.
fn with(chip: ChipId, bytes: &[(usize, u8)], commands: &[u8]) -> Vec<u8> {
    let commands = [commands, &wait(20_000)].concat();
    let mut song = header_song(&[chip], 0, &commands);
    for (offset, value) in bytes {
        song[*offset] = *value;
    }
    song
}

/// Returns the song of a chip that plays samples, from the test of their notes.
fn sample_song(name: &str) -> Option<Vec<u8>> {
    Some(TONES.iter().find(|tone| tone.name == name)?.song())
}

/// Replaces bytes in a song by as many others.
fn replaced(mut song: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = song.windows(from.len()).position(|bytes| bytes == from);
    let at = at.expect("the song has these bytes");
    song.splice(at..at + from.len(), to.iter().copied());
    song
}

/// Returns a song by its name.
pub fn base_song(name: &str) -> Vec<u8> {
    let sn = [(0x28, 9), (0x2A, 16)];
    match name {
        "PSG" => {
            let bytes = [0xE4, 0xF4, 0x80, 0x00, 0x90, 0xA5, 0x02, 0xB0, 0xE4];
            let bytes = bytes.map(|byte| [0x50, byte]).concat();
            let stereo = [0x4F, 0x2D];
            let later = [&wait(3_000)[..], &[0x50, 0xE4], &wait(777), &[0x50, 0xE5]].concat();
            with(
                ChipId::Sn76489,
                &sn,
                &[&bytes[..], &stereo, &later].concat(),
            )
        }
        "T6W28" => {
            let bytes = [
                0x50, 0x85, 0x50, 0x04, 0x50, 0x90, 0x30, 0xE4, 0x30, 0xF4, 0x30, 0xB2,
            ];
            with(ChipId::Sn76489, &sn, &bytes)
        }
        "YM2413" => with(
            ChipId::Ym2413,
            &[],
            &pairs(0x51, &[(0x30, 0x10), (0x10, 0x22), (0x20, 0x19)]),
        ),
        "YM2612" => with(ChipId::Ym2612, &[], &opn(0x52, 1)),
        "YM2203" => with(ChipId::Ym2203, &[], &opn(0x55, 1)),
        "YM2608" => with(ChipId::Ym2608, &[], &opn(0x56, 1)),
        "YM2610B" => {
            let mut commands = opn(0x58, 0);
            // We silence the SSG, so that only the FM is heard.
            commands.extend([0x58, 8, 0]);
            with(ChipId::Ym2610, &[], &commands)
        }
        "YM3812" => {
            let voice = [
                (0x23, 0x21),
                (0x40, 0x3F),
                (0x63, 0xF0),
                (0x83, 0x0F),
                (0xA0, 0x44),
                (0xB0, 0x32),
            ];
            with(ChipId::Ym3812, &[], &pairs(0x5A, &voice))
        }
        "AY8910" | "YM2149" => {
            let voice = [(0, 0x1C), (1, 1), (7, 0x3E), (8, 0x10), (11, 40), (13, 14)];
            let kind = if name == "YM2149" { 0x10 } else { 0 };
            with(ChipId::Ay8910, &[(0x78, kind)], &pairs(0xA0, &voice))
        }
        "OKIM6258" => {
            let mut commands = vec![0xB7, 0, 2];
            for code in 0..400u32 {
                let value = ((code * 37) >> 2) as u8;
                commands.extend([0xB7, 1, value, 0x7A]);
            }
            with(ChipId::Okim6258, &[], &commands)
        }
        "K051649" => {
            let wave = (0..16)
                .map(|at| [0xD2, 4, at, 0x60])
                .collect::<Vec<_>>()
                .concat();
            let voice = [0xD2, 1, 0, 0x80, 0xD2, 2, 0, 15, 0xD2, 3, 0, 1];
            with(ChipId::K051649, &[], &[&wave[..], &voice].concat())
        }
        // The flags of the voice select a bank. With another mask or shift they select another one,
        // so the sound changes.
        "SegaPCM banks" => {
            let data: Vec<u8> = (0..0x4000u32).map(|at| ((at * at) >> 7) as u8).collect();
            let mut commands = vec![0x67, 0x66, 0x80];
            commands.extend((8 + data.len() as u32).to_le_bytes());
            commands.extend([0, 0x40, 0, 0, 0, 0, 0, 0]);
            commands.extend(&data);
            for (reg, value) in [
                (2, 0x7F),
                (3, 0x7F),
                (6, 0x0F),
                (7, 0x40),
                (0x84, 0),
                (0x85, 0),
                (0x86, 0x12),
            ] {
                commands.extend([0xC0, reg, 0, value]);
            }
            with(ChipId::SegaPcm, &[(0x3C, 12), (0x3E, 0x70)], &commands)
        }
        "K054539 echo" => {
            let send = [0xD3, 0, 0x04, 0, 0xD3, 0, 0x07, 2];
            replaced(base_song("K054539"), &[0xD3, 0, 0x04, 0xFF], &send)
        }
        // The song writes a new address in the middle of the last note.
        "K054539 jump" => {
            let mut song = base_song("K054539");
            song.pop();
            song.extend([
                0xD3, 2, 0x15, 1, 0xD3, 2, 0x14, 1, 0x62, 0xD3, 0, 0x0D, 4, 0xD3, 0, 0x0E, 0,
            ]);
            song.extend([0x62, 0x62, 0x66]);
            song
        }
        "C352 rear" => replaced(
            base_song("C352"),
            &[0xE1, 0, 0, 0xFF, 0xFF],
            &[0xE1, 0, 1, 0xFF, 0xFF],
        ),
        _ => sample_song(name).unwrap_or_else(|| {
            let tone = tones().into_iter().find(|tone| tone.name == name);
            let tone = tone.unwrap_or_else(|| panic!("there is no song {name}"));
            let commands = [&tone.setup[..], &tone.on, &wait(20_000)].concat();
            tone.song(false, &commands)
        }),
    }
}
