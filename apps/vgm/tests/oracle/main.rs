//! Compares the chips with ymfm bit by bit, for random register streams and songs.
//!
//! Run `cargo test -p creel-vgm --features oracle --test oracle`.

#[allow(dead_code, reason = "the bench alone plays the SSG")]
#[path = "../streams/song.rs"]
mod song;
#[path = "../streams/mod.rs"]
mod streams;

#[path = "../streams/opl.rs"]
mod groups;

mod opl;
mod reference;
mod ssg;

use creel_vgm::chips::bus::Bus;
use creel_vgm::chips::rom::Rom;
use creel_vgm::chips::ym2151::Ym2151;
use creel_vgm::chips::ym2203::Ym2203;
use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym2608::Ym2608;
use creel_vgm::chips::ym2610::Ym2610;
use creel_vgm::chips::ym2612::Ym2612;
use creel_vgm::format::{ChipId, Song};
use reference::Reference;
use song::{Kind, Track, tracks};
use streams::{Group, Random, Step, memory, paced, stream};
use ymfm_sys::ffi::ChipType;

const SEEDS: u64 = 40;

/// The number of frames of a random stream.
const FRAMES: usize = 150_000;

/// A clock for which all rates are integers.
const CLOCK_HZ: u32 = 7_200_000;

/// Returns the memories of ADPCM-A and ADPCM-B. They are smaller than the YM2610's address range.
fn memories() -> [Vec<u8>; 2] {
    [memory(1 << 20, 1), memory(1 << 18, 2)]
}

/// The operations of our chips that a stream needs.
struct Ours<C> {
    chip: C,
    write: fn(&mut C, u8, u8, u8),
    render: fn(&mut C, &mut [[i32; 2]]),
}

fn ym2151(clock_hz: u32) -> Ours<Ym2151> {
    let chip = Ym2151::new(clock_hz);
    Ours {
        chip,
        write: Ym2151::write,
        render: Ym2151::render,
    }
}

fn ym2203(clock_hz: u32) -> Ours<Ym2203> {
    let chip = Ym2203::new(clock_hz);
    Ours {
        chip,
        write: Ym2203::write,
        render: Ym2203::render,
    }
}

fn ym2608(clock_hz: u32, [rhythm, adpcm_b]: [Vec<u8>; 2]) -> Ours<Ym2608> {
    let mut chip = Ym2608::new(clock_hz);
    *chip.rhythm_rom_mut() = Rom::of(rhythm);
    *chip.adpcm_b_mut() = adpcm_b;
    Ours {
        chip,
        write: Ym2608::write,
        render: Ym2608::render,
    }
}

fn ym2610(mut chip: Ym2610, [adpcm_a, adpcm_b]: [Vec<u8>; 2]) -> Ours<Ym2610> {
    *chip.adpcm_a_mut() = Rom::of(adpcm_a);
    *chip.adpcm_b_mut() = Rom::of(adpcm_b);
    Ours {
        chip,
        write: Ym2610::write,
        render: Ym2610::render,
    }
}

fn ym2612(chip: Ym2612) -> Ours<Ym2612> {
    Ours {
        chip,
        write: Ym2612::write,
        render: Ym2612::render,
    }
}

/// Compares one chip for the streams of all seeds. Half of the streams write directly, and the
/// others use the bus, as songs do.
fn compare<C>(groups: &[Group], kind: ChipType, ours: impl Fn() -> Ours<C>) {
    for seed in 0..SEEDS {
        let theirs = Reference::new(kind, CLOCK_HZ, memories());
        let steps = stream(groups, seed, FRAMES).into_iter();
        let mut steps: Vec<_> = steps.map(|step| without_csm(kind, step)).collect();
        if seed % 2 == 1 {
            steps = paced(bus(kind), steps);
        }
        let (heard, all) = follow(seed, steps, ours(), theirs);
        assert!(
            heard * 20 > all,
            "seed {seed} is almost silent: {heard} of {all} frames are audible"
        );
    }
}

/// Returns the step with CSM mode off.
///
/// ymfm releases the keys of CSM only when it samples them again, which is up to 4,096 frames later.
/// The chips release them after a frame (`tests/chip_modes.rs`).
fn without_csm(kind: ChipType, step: Step) -> Step {
    let Step::Write(port, reg, value) = step else {
        return step;
    };
    let value = match (kind, port, reg) {
        (ChipType::Ym2151, _, 0x14) => value & 0x7F,
        (ChipType::Ym3526 | ChipType::Ym3812 | ChipType::Y8950, _, 0x08) => value & 0x7F,
        (
            ChipType::Ym2203
            | ChipType::Ym2608
            | ChipType::Ym2610
            | ChipType::Ym2610B
            | ChipType::Ym2612
            | ChipType::Ym3438,
            _,
            0x27,
        ) if value >> 6 == 2 => value & 0x7F,
        _ => value,
    };
    Step::Write(port, reg, value)
}

fn bus(kind: ChipType) -> Bus {
    let chip = match kind {
        ChipType::Ym2151 => ChipId::Ym2151,
        ChipType::Ym2203 => ChipId::Ym2203,
        ChipType::Ym2608 => ChipId::Ym2608,
        ChipType::Ym2610 | ChipType::Ym2610B => ChipId::Ym2610,
        ChipType::Ym2612 | ChipType::Ym3438 => ChipId::Ym2612,
        ChipType::Ym2413 | ChipType::Ds1001 => ChipId::Ym2413,
        ChipType::Ym3526 => ChipId::Ym3526,
        ChipType::Ym3812 => ChipId::Ym3812,
        ChipType::Y8950 => ChipId::Y8950,
        ChipType::Ymf262 => ChipId::Ymf262,
        _ => panic!("this chip has no bus"),
    };
    Bus::of(chip).expect("a chip with keys has a bus")
}

/// Compares one chip like [`compare`], with writes to the prescaler between the steps.
fn compare_prescaled<C>(groups: &[Group], kind: ChipType, ours: impl Fn() -> Ours<C>) {
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        let mut steps = Vec::new();
        for step in stream(groups, seed, FRAMES / 4) {
            match without_csm(kind, step) {
                Step::Run(count) => {
                    steps.push(Step::Run(count.next_multiple_of(6)));
                    if random.below(4) == 0 {
                        steps.push(Step::Write(0, 0x2d + random.below(3) as u8, 0));
                    }
                }
                write => steps.push(write),
            }
        }
        let theirs = Reference::prescaled(kind, CLOCK_HZ, memories());
        follow(seed, steps, ours(), theirs);
    }
}

/// Asserts that both outputs are equal. Returns the number of audible frames, and the number of all
/// frames.
fn follow<C>(seed: u64, steps: Vec<Step>, ours: Ours<C>, mut theirs: Reference) -> (usize, usize) {
    let Ours {
        mut chip,
        write,
        render,
    } = ours;
    let mut frames = Vec::new();
    let (mut at, mut heard) = (0, 0);
    for step in steps {
        match step {
            Step::Write(port, reg, value) => {
                write(&mut chip, port, reg, value);
                theirs.write(port, reg, value);
            }
            Step::Run(count) => {
                frames.resize(count, [0; 2]);
                render(&mut chip, &mut frames);
                for &ours in &frames {
                    assert_eq!(ours, theirs.frame(), "seed {seed}, frame {at}");
                    at += 1;
                    heard += usize::from(ours[0] != ours[1] || ours[0].abs() > 100);
                }
            }
        }
    }
    (heard, at)
}

#[test]
fn ym2151_renders_random_writes_like_ymfm() {
    compare(streams::YM2151, ChipType::Ym2151, || ym2151(CLOCK_HZ));
    compare(streams::YM2151_NOISE, ChipType::Ym2151, || ym2151(CLOCK_HZ));
}

#[test]
fn ym2203_renders_random_writes_like_ymfm() {
    compare(streams::YM2203, ChipType::Ym2203, || ym2203(CLOCK_HZ));
    compare(streams::SSG_EG, ChipType::Ym2203, || ym2203(CLOCK_HZ));
}

#[test]
fn ym2608_renders_random_writes_like_ymfm() {
    compare(streams::YM2608, ChipType::Ym2608, || {
        ym2608(CLOCK_HZ, memories())
    });
}

#[test]
fn ym2203_and_ym2608_apply_their_prescaler_like_ymfm() {
    compare_prescaled(streams::YM2203, ChipType::Ym2203, || ym2203(CLOCK_HZ));
    compare_prescaled(streams::YM2608, ChipType::Ym2608, || {
        ym2608(CLOCK_HZ, memories())
    });
}

#[test]
fn ym2610_renders_random_writes_like_ymfm() {
    compare(streams::YM2610, ChipType::Ym2610, || {
        ym2610(Ym2610::new(CLOCK_HZ), memories())
    });
    compare(streams::YM2610, ChipType::Ym2610B, || {
        ym2610(Ym2610::new_b(CLOCK_HZ), memories())
    });
}

#[test]
fn ym2612_renders_random_writes_like_ymfm() {
    compare(streams::YM2612, ChipType::Ym2612, || {
        ym2612(Ym2612::new(CLOCK_HZ))
    });
    compare(streams::SSG_EG, ChipType::Ym2612, || {
        ym2612(Ym2612::new(CLOCK_HZ))
    });
}

#[test]
fn ym3438_renders_random_writes_like_ymfm() {
    compare(streams::YM2612, ChipType::Ym3438, || {
        ym2612(Ym2612::new_3438(CLOCK_HZ))
    });
}

/// Compares all songs in the folder `CREEL_ORACLE_SONGS`.
#[test]
fn songs_of_a_folder_sound_as_in_ymfm() {
    let Some(folder) = std::env::var_os("CREEL_ORACLE_SONGS") else {
        eprintln!("skipped: CREEL_ORACLE_SONGS names no folder of songs");
        return;
    };
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        let Ok(song) = Song::read(&path) else {
            eprintln!("not a song: {}", path.display());
            continue;
        };
        for track in tracks(&song, u64::MAX / 44_100) {
            let kind = track.kind;
            let (heard, all) = play(track);
            eprintln!("{}: {kind:?}: {all} frames, heard {heard}", path.display());
        }
    }
}

fn play(track: Track) -> (usize, usize) {
    let Track {
        kind,
        clock_hz,
        steps,
        memories,
        ..
    } = track;
    let theirs = |kind| Reference::new(kind, clock_hz, memories.clone());
    match kind {
        Kind::Ym2151 => follow(0, steps, ym2151(clock_hz), theirs(ChipType::Ym2151)),
        Kind::Ym2203 => follow(0, steps, ym2203(clock_hz), theirs(ChipType::Ym2203)),
        Kind::Ym2608 => {
            let theirs = theirs(ChipType::Ym2608);
            follow(0, steps, ym2608(clock_hz, memories), theirs)
        }
        Kind::Ym2610 => {
            let theirs = theirs(ChipType::Ym2610);
            follow(0, steps, ym2610(Ym2610::new(clock_hz), memories), theirs)
        }
        Kind::Ym2610B => {
            let theirs = theirs(ChipType::Ym2610B);
            follow(0, steps, ym2610(Ym2610::new_b(clock_hz), memories), theirs)
        }
        Kind::Ym2612 => {
            let chip = Ym2612::new(clock_hz);
            follow(0, steps, ym2612(chip), theirs(ChipType::Ym2612))
        }
        Kind::Ym3438 => {
            let chip = Ym2612::new_3438(clock_hz);
            follow(0, steps, ym2612(chip), theirs(ChipType::Ym3438))
        }
        Kind::Ym2413 => {
            let chip = opl::opll(Ym2413::new(clock_hz));
            follow(0, steps, chip, theirs(ChipType::Ym2413))
        }
        Kind::Vrc7 => {
            let chip = opl::opll(Ym2413::new_vrc7(clock_hz));
            follow(0, steps, chip, theirs(ChipType::Ds1001))
        }
        Kind::Ym3526 => follow(0, steps, opl::ym3526(clock_hz), theirs(ChipType::Ym3526)),
        Kind::Y8950 => {
            let theirs = theirs(ChipType::Y8950);
            follow(0, steps, opl::y8950(clock_hz, memories), theirs)
        }
        Kind::Ym3812 => follow(0, steps, opl::ym3812(clock_hz), theirs(ChipType::Ym3812)),
        Kind::Ymf262 => follow(0, steps, opl::ymf262(clock_hz), theirs(ChipType::Ymf262)),
    }
}
