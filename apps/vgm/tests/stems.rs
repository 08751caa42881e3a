//! Stems add up: the sum of the chips of a song is the song, and the sum of the voices of a chip is
//! the chip.
//!
//! We play songs of every chip as a whole and in parts. Native frames and levels are integers, so
//! the sum of the voices is exactly the chip. The only error is that each part is rounded to a
//! sample of 24 bits separately.

#[path = "streams/opl.rs"]
mod opl;
#[path = "players/streams.rs"]
mod players;
#[path = "pcm/tones.rs"]
#[allow(dead_code, reason = "their pitches are tested elsewhere")]
mod samples;
mod streams;
#[path = "tones/mod.rs"]
#[allow(dead_code, reason = "the streams have notes of their own")]
mod tone;

use creel_vgm::chips::factory::missing;
use creel_vgm::chips::selection::Selection;
use creel_vgm::chips::voices::count;
use creel_vgm::demo;
use creel_vgm::format::{Instance, Song};
use creel_vgm::render::{Buffers, Player, Settings};
use streams::{Group, Step, memory, stream};

/// The number of frames that we play of each song.
const FRAMES: usize = 33_000;

fn play(song: &Song, only: Option<(Instance, Option<u8>)>) -> Vec<[f32; 2]> {
    let settings = Settings {
        chips: Selection {
            only,
            ..Selection::default()
        },
        ..Settings::default()
    };
    let mut buffers = Buffers::default();
    let mut player = Player::new(song, &settings, &mut buffers).unwrap();
    let mut out = vec![[0.0; 2]; FRAMES];
    let mut made = 0;
    // The blocks have uneven sizes, so that an effect of their borders would be found.
    for size in [700, 1_024, 333].into_iter().cycle() {
        let end = FRAMES.min(made + size);
        let frames = player.fill(&mut buffers, &mut out[made..end]);
        made += frames;
        if frames == 0 || made == FRAMES {
            break;
        }
    }
    out.truncate(made);
    out
}

fn peak(frames: &[[f32; 2]]) -> f32 {
    let sides = frames.as_flattened().iter();
    sides.fold(0.0, |peak, side| peak.max(side.abs()))
}

fn add(sum: &mut [[f64; 2]], part: &[[f32; 2]]) {
    assert_eq!(sum.len(), part.len());
    let sides = sum.as_flattened_mut().iter_mut();
    for (sum, side) in sides.zip(part.as_flattened()) {
        *sum += f64::from(*side);
    }
}

/// Creates a song of random writes to an FM chip. The arguments include the offset of its clock in
/// the header, the clock, and the command for port 0.
fn storm((at, clock_hz): (usize, u32), command: u8, groups: &[Group], seed: u64) -> Vec<u8> {
    let mut song = vec![0; 0x100];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x72, 0x01]);
    song[0x34] = 0xCC;
    song[at..at + 4].copy_from_slice(&clock_hz.to_le_bytes());
    // The data for ADPCM-A and ADPCM-B.
    if command == 0x58 {
        for kind in [0x82, 0x83] {
            song.extend(tone::rom(kind, &memory(1 << 16, seed)));
        }
    }
    let mut ticks = 0;
    for step in stream(groups, seed, FRAMES) {
        match step {
            Step::Write(port, reg, value) => song.extend([command + port, reg, value]),
            Step::Run(frames) => {
                ticks += frames;
                song.extend(tone::wait(frames));
            }
        }
    }
    song[0x18..0x1C].copy_from_slice(&(ticks as u32).to_le_bytes());
    song.push(0x66);
    song
}

/// A chip: its name, the offset of its clock in the header and the clock, the command for port 0,
/// and its registers.
type Storm = (&'static str, (usize, u32), u8, &'static [Group]);

/// Random writes to the FM chips exercise drums that share phases, timers that press keys, four
/// operators, the DAC, and sums that the converters clip.
fn storms() -> Vec<(String, Vec<u8>)> {
    let chips: [Storm; 10] = [
        ("YM2151", (0x30, 3_579_545), 0x54, streams::YM2151),
        ("YM2203", (0x44, 3_993_600), 0x55, streams::YM2203),
        ("YM2608", (0x48, 7_987_200), 0x56, streams::YM2608),
        ("YM2610", (0x4C, 8_000_000), 0x58, streams::YM2610),
        ("YM2612", (0x2C, 7_670_454), 0x52, streams::YM2612),
        ("YM2413", (0x10, 3_579_545), 0x51, opl::OPLL),
        ("YM3526", (0x54, 3_579_545), 0x5B, opl::OPL),
        ("Y8950", (0x58, 3_579_545), 0x5C, opl::Y8950),
        ("YM3812", (0x50, 3_579_545), 0x5A, opl::OPL),
        ("YMF262", (0x5C, 14_318_180), 0x5E, opl::OPL3),
    ];
    let storms = chips
        .into_iter()
        .flat_map(|(name, clock, command, groups)| {
            (0..2).map(move |seed| {
                let name = format!("{name}, seed {seed}");
                (name, storm(clock, command, groups, seed))
            })
        });
    storms.collect()
}

/// Returns the largest difference between the sum and the whole.
fn apart(whole: &[[f32; 2]], sum: &[[f64; 2]]) -> f64 {
    let sides = whole.as_flattened().iter().zip(sum.as_flattened());
    sides.fold(0.0, |most, (whole, sum)| {
        f64::max(most, (f64::from(*whole) - sum).abs())
    })
}

/// Checks one song. Returns the number of its voices, and how many of them are audible.
fn check(name: &str, song: &Song) -> (usize, usize) {
    let whole = play(song, None);
    let missing = missing(song);
    let chips: Vec<_> = song
        .chips()
        .filter(|chip| !missing.contains(chip))
        .collect();
    let mut of_chips = vec![[0.0; 2]; whole.len()];
    let (mut voices, mut heard) = (0, 0);
    for chip in chips {
        let alone = play(song, Some((chip, None)));
        add(&mut of_chips, &alone);
        let mut of_voices = vec![[0.0; 2]; whole.len()];
        for voice in 0..count(chip.chip) {
            let stem = play(song, Some((chip, Some(voice))));
            add(&mut of_voices, &stem);
            voices += 1;
            heard += usize::from(peak(&stem) > 1e-3);
        }
        // Each stem may differ by half a step of 24 bits, relative to its own size.
        let most = f64::from(count(chip.chip)) * f64::from(peak(&alone).max(0.1)) * 2f64.powi(-23);
        let found = apart(&alone, &of_voices);
        assert!(found <= most, "{name}, {}: {found:e}", chip.chip.name());
    }
    let found = apart(&whole, &of_chips);
    assert!(found <= 1e-6, "{name}: chips are {found:e} apart");
    (voices, heard)
}

#[test]
fn voices_and_chips_add_up_to_the_song() {
    let carried = demo::compose().into_iter();
    let carried = carried.map(|song| (song.name.to_string(), song.bytes));
    let steps = players::streams();
    let steps = steps
        .iter()
        .map(|stream| (stream.chip.name.to_string(), stream.song(3, 8)));
    let samples = samples::TONES.iter();
    let samples = samples.map(|tone| (tone.name.to_string(), tone.song()));
    let songs = carried.chain(steps).chain(samples).chain(storms());
    let songs: Vec<_> = songs.collect();
    assert!(songs.len() > 60, "{} songs", songs.len());
    for (name, bytes) in songs {
        let song = Song::parse(bytes).unwrap();
        let (voices, heard) = check(&name, &song);
        eprintln!("{name}: {heard} of {voices} voices heard");
        assert!(heard > 0, "{name}");
    }
}
