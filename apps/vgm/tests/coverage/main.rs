//! The coverage of the VGM format: the parts of it that we play, and the test that checks each of
//! them.
//!
//! The tests generate a song for each flag of the header, each kind of data block, each command and
//! each part of a chip. They compare the sound or the report of the song. They also write the
//! table, which is `docs/design/vgm-coverage.md`. If that file differs, run this command:
//!
//! ```text
//! CREEL_WRITE_COVERAGE=1 cargo test -p creel-vgm --test coverage
//! ```

mod clocks;
mod dual;
mod modes;
mod reports;
#[path = "../pcm/tones.rs"]
#[allow(dead_code, reason = "we use only the songs")]
mod samples;
mod songs;
#[path = "../tones/mod.rs"]
#[allow(dead_code, reason = "we use only the songs")]
mod steps;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use creel_vgm::batch::Warnings;
use creel_vgm::chips::registry;
use creel_vgm::chips::unplayed::{Sign, UNPLAYED, knows_variant};
use creel_vgm::format::{ChipId, Header, Instance, Song};
use songs::{FIELDS, Field, base_song, header_song};

/// Our treatment of a part of the format, and the way in which a test shows it.
#[derive(Clone, Copy)]
pub enum State {
    /// The part changes the sound. The song differs between these two values of the byte.
    Heard(u8, u8),
    /// The part has no effect on the sound. The song sounds the same with these two values of the
    /// byte, for this reason.
    Silent(u8, u8, &'static str),
    /// The part makes no sound, for this reason.
    Unheard(&'static str),
    /// We play the part, and the tests with these names check it.
    Tested(&'static [&'static str]),
    /// We do not play the part, and we report a song that uses it.
    Reported,
}

impl State {
    fn cells(self, own: &str) -> [String; 2] {
        match self {
            State::Heard(..) => ["played".into(), format!("`{own}`")],
            State::Silent(_, _, why) => [format!("no effect: {why}"), format!("`{own}`")],
            State::Unheard(why) => [format!("no effect: {why}"), "-".into()],
            State::Tested(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                ["played".into(), names.join(", ")]
            }
            State::Reported => ["not played, and reported".into(), format!("`{own}`")],
        }
    }
}

fn parse(song: Vec<u8>) -> Song {
    Song::parse(song).unwrap()
}

/// Returns whether we report a part of the song as not played, so that `--strict` rejects it.
fn is_reported(song: &Song) -> bool {
    let warnings = Warnings::of(song);
    !warnings.is_complete()
}

#[test]
fn each_header_flag_is_heard_or_reported_or_has_no_effect() {
    for Field {
        offset,
        bits,
        meaning,
        song,
        state,
    } in FIELDS
    {
        let name = format!("{offset:#04x} {bits}: {meaning}");
        let with = |value: u8| {
            let mut song = base_song(song);
            song[*offset] = value;
            song
        };
        match *state {
            State::Heard(a, b) => {
                let [a, b] = [a, b].map(|value| steps::play(with(value)));
                assert!(
                    a.iter().flatten().any(|sample| *sample != 0.0),
                    "{name} is silent"
                );
                assert!(a != b, "{name} changes nothing");
            }
            State::Silent(a, b, _) => {
                assert!(!is_reported(&parse(with(b))), "{name}");
                let [a, b] = [a, b].map(|value| steps::play(with(value)));
                assert!(a == b, "{name} changes the sound");
            }
            State::Reported => assert!(is_reported(&parse(with(0xFF))), "{name}"),
            State::Tested(_) | State::Unheard(_) => {}
        }
    }
}

#[test]
fn each_chip_of_the_header_is_played_or_missing() {
    for chip in ChipId::all() {
        let song = parse(header_song(&[chip], 0, &songs::one_write(chip)));
        let missing = Warnings::of(&song).chips_missing;
        let is_played = registry::of(chip).is_some();
        assert_eq!(missing.is_empty(), is_played, "{chip:?}: {missing:?}");
        assert_eq!(is_reported(&song), !is_played, "{chip:?}");
    }
}

#[test]
fn bit_31_of_each_clock_has_a_meaning_or_is_reported() {
    for chip in ChipId::all().filter(|chip| registry::of(*chip).is_some()) {
        for bits in [1 << 31, 3 << 30] {
            let bytes = header_song(&[chip], bits, &songs::one_write(chip));
            let header = Header::parse(&bytes).unwrap();
            let song = parse(bytes);
            let known = knows_variant(&header, chip);
            assert_eq!(is_reported(&song), !known, "{chip:?}: {:?}", song.losses());
        }
    }
}

/// Returns our treatment of the command or the data block in this song.
fn state_of(song: &Song) -> &'static str {
    let played = |instance: &Instance| registry::of(instance.chip).is_some();
    match song.chips().find(|chip| song.writes(*chip) > 0) {
        _ if !song.losses().is_empty() => "not played, and reported",
        Some(chip) if played(&chip) => "played",
        Some(_) => "chip not played, and reported",
        None => "played",
    }
}

/// Returns a song with every chip, two of each, in which this command appears with zeros. A sample
/// of the DAC and one for a RAM precede it.
fn command_song(code: u8) -> Song {
    let mut commands = [0u8, 1]
        .map(|kind| [0x67, 0x66, kind, 1, 0, 0, 0, 9])
        .concat();
    commands.push(code);
    let operands = match code {
        0x67 => vec![0x66, 0, 1, 0, 0, 0, 9],
        0x68 => vec![0x66, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        _ => vec![0; 11],
    };
    let length = match code {
        0x30..=0x3F | 0x4F | 0x50 | 0x94 => 1,
        0x61 | 0x40..=0x4E | 0x51..=0x5F | 0xA0..=0xBF => 2,
        0x64 | 0xC0..=0xDF => 3,
        0x90 | 0x91 | 0x95 | 0xE0..=0xFF => 4,
        0x92 => 5,
        0x67 => 7,
        0x93 => 10,
        0x68 => 11,
        _ => 0,
    };
    commands.extend(&operands[..length]);
    let all: Vec<_> = ChipId::all().collect();
    parse(header_song(&all, 1 << 30, &commands))
}

/// The commands that are not writes to a chip, with their meaning and their check.
const OTHERS: &[(u8, u8, &str, &[&str])] = &[
    (0x61, 0x63, "waits", &["song_ticks_are_the_sum_of_waits"]),
    (
        0x66,
        0x66,
        "end",
        &["song_without_end_command_ends_with_its_data"],
    ),
    (
        0x67,
        0x67,
        "data block",
        &["data_block_has_its_range_and_chip"],
    ),
    (
        0x68,
        0x68,
        "copy into RAM",
        &["pcm_chips_play_eight_notes_at_their_pitch_and_level"],
    ),
    (
        0x70,
        0x7F,
        "waits of 1 to 16",
        &["song_ticks_are_the_sum_of_waits"],
    ),
    (
        0x80,
        0x8F,
        "DAC of the YM2612, wait",
        &["dac_writes_continue_after_seek"],
    ),
    (
        0x90,
        0x92,
        "stream: chip, data, rate",
        &["stream_frequency_is_independent_of_window_size"],
    ),
    (
        0x93,
        0x95,
        "stream: start, stop",
        &["stream_loops_reverses_and_stops"],
    ),
    (
        0xE0,
        0xE0,
        "seek in the data of the DAC",
        &["dac_writes_continue_after_seek"],
    ),
];

fn other(code: u8) -> Option<(&'static str, &'static [&'static str])> {
    let row = OTHERS.iter().find(|row| (row.0..=row.1).contains(&code))?;
    Some((row.2, row.3))
}

#[test]
fn each_command_is_played_or_reported() {
    for code in 0..=255u8 {
        let song = command_song(code);
        let writes: u64 = song.chips().map(|chip| song.writes(chip)).sum();
        if other(code).is_some() {
            assert!(song.losses().is_empty(), "{code:#04x}: {:?}", song.losses());
        } else {
            assert_eq!(
                writes > 0,
                song.losses().is_empty(),
                "{code:#04x}: {writes} writes"
            );
        }
    }
}

/// Returns a song that has a short data block of this kind.
fn block_song(kind: u8) -> Song {
    let mut block = vec![0x67, 0x66, kind];
    let data: &[u8] = match kind {
        0x7F => &[0, 2, 8, 2, 4, 0, 1, 2, 3, 4],
        // The block has four codes of 4 bits, which unpack to values of 8 bits.
        0x40..0x7F => &[0, 4, 0, 0, 0, 8, 4, 0, 0, 0, 0x12, 0x34],
        _ => &[16, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
    };
    block.extend((data.len() as u32).to_le_bytes());
    block.extend(data);
    parse(header_song(&[ChipId::Ym2612], 0, &block))
}

#[test]
fn each_kind_of_data_block_is_used_or_reported() {
    for kind in 0..=255u8 {
        let song = block_song(kind);
        let is_stream = matches!(kind, 0x00..=0x08 | 0x40..=0x48 | 0x7F);
        let is_memory = kind >= 0x80 && registry::of_block(kind).is_some();
        assert_eq!(!is_reported(&song), is_stream || is_memory, "{kind:#04x}");
    }
}

#[test]
fn stream_blocks_of_every_kind_can_be_streamed() {
    for bank in 0..=8u8 {
        for packed in [0, 0x40] {
            let mut commands = vec![0x67, 0x66, bank | packed];
            let data: &[u8] = match packed {
                0 => &[0x10, 0xF0, 0x10, 0xF0],
                _ => &[0, 4, 0, 0, 0, 8, 8, 0, 0, 0, 0x10, 0xF0, 0x10, 0xF0],
            };
            commands.extend((data.len() as u32).to_le_bytes());
            commands.extend(data);
            let chip = ChipId::Ym2612 as u8;
            commands.extend([
                0x52, 0x2B, 0x80, 0x90, 0, chip, 0, 0x2A, 0x91, 0, bank, 1, 0,
            ]);
            commands.extend([0x92, 0, 0x40, 0x1F, 0, 0, 0x95, 0, 0, 0, 1, 0x61, 0, 8]);
            let frames = steps::play(header_song(&[ChipId::Ym2612], 0, &commands));
            assert!(
                frames.iter().any(|frame| frame[0].abs() > 0.01),
                "bank {bank:#04x}"
            );
        }
    }
}

#[test]
fn streams_select_the_channel_in_their_port() {
    // The port of the stream is the channel whose DAC it feeds, here channel 4 while channel 0 is
    // selected. Port FF stands for the selected channel.
    let song = |port: u8, selected: u8| {
        let setup = [(1, 0xFF), (0, 4), (5, 0xFF), (4, 0xDF), (0, selected)];
        let mut commands = vec![0x67, 0x66, 5, 4, 0, 0, 0, 0, 31, 0, 31];
        for (reg, value) in setup {
            commands.extend([0xB9, reg, value]);
        }
        commands.extend([0x90, 0, ChipId::Huc6280 as u8, port, 0x06, 0x91, 0, 5, 1, 0]);
        commands.extend([0x92, 0, 0x40, 0x1F, 0, 0, 0x95, 0, 0, 0, 1, 0x61, 0, 8]);
        steps::play(header_song(&[ChipId::Huc6280], 0, &commands))
    };
    let heard = |frames: &[[f32; 2]]| {
        let changes = frames[200..].windows(2);
        changes.fold(0.0f32, |most, pair| {
            most.max((pair[1][0] - pair[0][0]).abs())
        }) > 0.01
    };
    let (selected, by_port) = (song(0xFF, 4), song(4, 0));
    assert!(heard(&selected) && selected == by_port);
    assert!(!heard(&song(0, 4)) && !heard(&song(0xFF, 0)));
}

#[test]
fn volumes_of_the_extra_header_are_heard() {
    let song = |entries: &[[u8; 4]]| {
        let base = base_song("YM2203");
        let mut song = base[..0x100].to_vec();
        song[0xBC] = 0x44;
        song[0x34] = 0xF0;
        // The extra header consists of its size, an offset of 0 for clocks, and the offset of the
        // volumes, which follow directly.
        song.extend([12, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, entries.len() as u8]);
        song.extend(entries.concat());
        song.resize(0x124, 0);
        song.extend(&base[0x100..]);
        steps::play(song)
    };
    let (chip, ssg) = (ChipId::Ym2203 as u8, ChipId::Ym2203 as u8 | 0x80);
    let unchanged = song(&[]);
    for entry in [
        [chip, 0, 0x80, 0x00],
        [chip, 0, 0x80, 0x80],
        [ssg, 0, 0x20, 0x00],
        [ssg, 0, 0x20, 0x80],
    ] {
        assert!(song(&[entry]) != unchanged, "{entry:x?}");
    }
    // The song has no second chip, so the volume of that chip changes nothing.
    assert!(song(&[[chip, 1, 0x80, 0]]) == unchanged);
}

#[test]
fn each_unplayed_part_is_reported_when_it_is_used() {
    for part in UNPLAYED {
        let (mut header, mut commands) = (Vec::new(), songs::one_write(part.chip));
        match part.sign {
            Sign::HeaderBits(offset, bits) => header.push((offset, bits)),
            Sign::HeaderValues(offset, _) => header.push((offset, 0x55)),
            Sign::Written { port, regs, bits } => {
                commands.extend(songs::write(part.chip, port, regs.0 as u8, bits as u8));
            }
            Sign::Matches { regs, value, .. } => {
                let [high, low] = regs.1.to_be_bytes();
                commands.extend(songs::write(part.chip, high, low, value as u8));
            }
            Sign::Expanded => {
                header.push((0x78, 3));
                commands.extend(songs::write(part.chip, 0, 0x0D, 0xA0));
            }
            Sign::Together(_, example) => commands.extend(example),
        }
        let plain = header_song(&[part.chip], 0, &songs::one_write(part.chip));
        assert!(!is_reported(&parse(plain)), "{:?}", part.chip);
        let mut song = header_song(&[part.chip], 0, &commands);
        for (offset, value) in header {
            song[offset] = value;
        }
        let warnings = Warnings::of(&parse(song));
        let reported = warnings
            .not_played
            .iter()
            .any(|line| line.contains(part.what));
        assert!(reported, "{:?}, {}: {warnings:?}", part.chip, part.what);
    }
}

#[test]
fn chips_without_their_samples_are_reported() {
    for tone in samples::TONES {
        let whole = tone.song();
        assert!(!is_reported(&parse(whole.clone())), "{}", tone.name);
        // Blocks of kind 00 are for the YM2612, which these songs do not have.
        let mut without = whole.clone();
        for at in 0x100..without.len() - 2 {
            if without[at..at + 2] == [0x67, 0x66] && without[at + 2] >= 0x80 {
                without[at + 2] = 0;
            }
        }
        let has_block = without != whole;
        let losses = parse(without).losses().to_vec();
        let is_reported = losses
            .iter()
            .any(|loss| loss.contains("contains no samples"));
        assert_eq!(is_reported, has_block, "{}: {losses:?}", tone.name);
    }
}

/// Adds the names of all private functions below a folder, which include the tests.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            names.extend(text.lines().filter_map(|line| {
                let name = line.trim_start().strip_prefix("fn ")?.split('(').next()?;
                Some(name.into())
            }));
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_test_that_the_table_names_exists() {
    let mut names = BTreeSet::new();
    functions(&root().join("src"), &mut names);
    functions(&root().join("tests"), &mut names);
    let modes = modes::MODES.iter().map(|mode| mode.2);
    let states = FIELDS.iter().map(|field| field.state).chain(modes);
    let tests = states.flat_map(|state| match state {
        State::Tested(names) => names,
        _ => &[],
    });
    for name in tests.chain(OTHERS.iter().flat_map(|row| row.3)) {
        assert!(names.contains(*name), "there is no test {name}");
    }
    // Each chip has at least one row.
    for chip in ChipId::all() {
        assert!(
            modes::MODES.iter().any(|mode| mode.0 == chip),
            "{chip:?} has no row"
        );
    }
}

/// Returns the meaning and the state of bit 31 of a chip's clock, which is at this offset of the
/// header.
fn variant_of(chip: ChipId, clock: usize) -> String {
    let is_flag = |field: &&Field| field.offset == clock + 3 && field.bits.ends_with('7');
    let field = FIELDS.iter().find(is_flag).expect("a variant has a field");
    let [state, _] = field.state.cells("");
    let prefix = format!("{}: ", chip.name());
    let meaning = field.meaning.trim_start_matches(prefix.as_str());
    format!("{meaning}, {state}")
}

/// Returns ranges of equal neighbours, as (first, last, value).
fn ranges<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(usize, usize, T)> {
    let mut ranges: Vec<(usize, usize, T)> = Vec::new();
    for (at, value) in values.enumerate() {
        match ranges.last_mut() {
            Some(last) if last.2 == value => last.1 = at,
            _ => ranges.push((at, at, value)),
        }
    }
    ranges
}

fn range(first: usize, last: usize) -> String {
    if first == last {
        format!("{first:02X}")
    } else {
        format!("{first:02X}–{last:02X}")
    }
}

/// Returns the table as Markdown.
fn table() -> String {
    let heads = |title: &str, cells: &[&str]| {
        let line = vec!["---"; cells.len()].join("|");
        format!("\n## {title}\n\n| {} |\n|{line}|", cells.join(" | "))
    };
    let mut lines = vec![include_str!("head.md").trim_end().to_string()];
    lines.push(heads(
        "Header",
        &["offset", "bits", "meaning", "state", "check"],
    ));
    for field in FIELDS {
        let [state, check] = field
            .state
            .cells("each_header_flag_is_heard_or_reported_or_has_no_effect");
        let (offset, bits, meaning) = (field.offset, field.bits, field.meaning);
        lines.push(format!(
            "| {offset:02X} | {bits} | {meaning} | {state} | {check} |"
        ));
    }
    lines.push(heads(
        "Chips",
        &[
            "chip",
            "clock",
            "state",
            "variant that bit 31 of the clock selects",
        ],
    ));
    for chip in ChipId::all() {
        let state = match registry::of(chip) {
            Some(_) => "played",
            None => "not played, and reported (`chips_missing`)",
        };
        let clocks = |bits| Header::parse(&header_song(&[chip], bits, &[])).unwrap();
        let offset = header_song(&[chip], 0, &[]);
        let at = (0x0C..0x100)
            .step_by(4)
            .find(|at| offset[*at..*at + 4] == songs::clock_hz(chip).to_le_bytes());
        let at = at.unwrap_or(0);
        let variant = match (registry::of(chip), knows_variant(&clocks(3 << 30), chip)) {
            (None, _) => "-".into(),
            (_, true) => variant_of(chip, at),
            (_, false) => "reported".into(),
        };
        lines.push(format!(
            "| {} | {at:02X} | {state} | {variant} |",
            chip.name()
        ));
    }
    lines.push(heads("Commands", &["command", "meaning", "state", "check"]));
    let own = "each_command_is_played_or_reported";
    let commands = ranges((0..=255u8).map(|code| {
        let song = command_song(code);
        if let Some((meaning, tests)) = other(code) {
            let tests: Vec<_> = tests.iter().map(|name| format!("`{name}`")).collect();
            return (meaning.to_string(), "played", tests.join(", "));
        }
        let chip = song.chips().find(|chip| song.writes(*chip) > 0);
        let second = |chip: Instance| if chip.second { ", second chip" } else { "" };
        let meaning = match chip {
            Some(chip) => format!("{}{}", chip.chip.name(), second(chip)),
            None if song.losses().iter().any(|loss| loss.contains("skipped")) => "undefined".into(),
            None => "reserved".into(),
        };
        (meaning, state_of(&song), format!("`{own}`"))
    }));
    for (first, last, (meaning, state, check)) in commands {
        lines.push(format!(
            "| {} | {meaning} | {state} | {check} |",
            range(first, last)
        ));
    }
    lines.push(heads("Data blocks", &["kind", "meaning", "state", "check"]));
    let kinds = ranges((0..=255u8).map(|kind| {
        let meaning = match (kind, registry::of_block(kind)) {
            (0x00..=0x08, _) => "data of streams".to_string(),
            (0x40..=0x48, _) => "packed data of streams".into(),
            (0x7F, _) => "table for unpacking".into(),
            (0x80.., Some(chip)) => format!("memory of the {}", chip.name()),
            _ => "undefined".into(),
        };
        let state = if is_reported(&block_song(kind)) {
            "not used, and reported"
        } else {
            "used"
        };
        (meaning, state)
    }));
    for (first, last, (meaning, state)) in kinds {
        let check = match first {
            0x00..=0x48 if state == "used" => "`stream_blocks_of_every_kind_can_be_streamed`",
            0x7F => "`table_compression_requires_a_table`",
            _ => "`each_kind_of_data_block_is_used_or_reported`",
        };
        lines.push(format!(
            "| {} | {meaning} | {state} | {check} |",
            range(first, last)
        ));
    }
    lines.push(heads("Modes of chips", &["chip", "mode", "state", "check"]));
    for chip in ChipId::all() {
        for (_, mode, state) in modes::MODES.iter().filter(|mode| mode.0 == chip) {
            let [state, check] = state.cells("each_chip_of_the_header_is_played_or_missing");
            lines.push(format!("| {} | {mode} | {state} | {check} |", chip.name()));
        }
        for part in UNPLAYED.iter().filter(|part| part.chip == chip) {
            let [state, check] =
                State::Reported.cells("each_unplayed_part_is_reported_when_it_is_used");
            lines.push(format!(
                "| {} | {} | {state} | {check} |",
                chip.name(),
                part.what
            ));
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_table_in_the_documents_is_current() {
    let path = root().join("../../docs/design/vgm-coverage.md");
    let table = table();
    assert!(!table.contains("unknown"));
    if std::env::var_os("CREEL_WRITE_COVERAGE").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table,
        "run this test with CREEL_WRITE_COVERAGE=1"
    );
}
