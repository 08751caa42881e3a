//! Compares the speed of each FM chip with ymfm. Run it like this:
//!
//! `cargo bench -p creel-vgm --features oracle --bench chips`
//!
//! Both programs render the same writes on one thread, and they take turns. The writes are those of
//! the built-in songs, or of the songs in the folder that `CREEL_ORACLE_SONGS` names. If a variant
//! of a chip has no songs, we use those of the original chip. For example, the YM3438 plays the
//! songs of the YM2612.
//!
//! ymfm renders at its lowest fidelity (`Min`), and renders all frames between two writes with as
//! few calls as possible. If a chip has an SSG, both programs render it. ymfm renders it as a part
//! of the chip, and we render the steps of its square waves.
#![allow(missing_docs)]

#[path = "../tests/streams/song.rs"]
mod song;
#[path = "../tests/streams/mod.rs"]
mod streams;

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use creel_vgm::blep::Blep;
use creel_vgm::chips::Rate;
use creel_vgm::chips::rom::Rom;
use creel_vgm::chips::ssg::Ssg;
use creel_vgm::chips::y8950::Y8950;
use creel_vgm::chips::ym2151::Ym2151;
use creel_vgm::chips::ym2203::Ym2203;
use creel_vgm::chips::ym2413::Ym2413;
use creel_vgm::chips::ym2608::Ym2608;
use creel_vgm::chips::ym2610::Ym2610;
use creel_vgm::chips::ym2612::Ym2612;
use creel_vgm::chips::ym3526::Ym3526;
use creel_vgm::chips::ym3812::Ym3812;
use creel_vgm::chips::ymf262::Ymf262;
use creel_vgm::demo::CARRIED;
use creel_vgm::format::Song;
use song::{Kind, Track, tracks};
use streams::Step;
use ymfm_sys::ffi::{AccessClass, ChipType, Fidelity, create_chip, create_chip_with_callbacks};
use ymfm_sys::{InterfaceCallbacks, InterfaceHandler};

const ROUNDS: usize = 5;

/// The number of seconds that we play of each song.
const SECONDS: u64 = 20;

/// The maximum number of songs that we play per chip.
const SONGS_MAX: usize = 4;

/// The maximum number of frames that we render with one call.
const CALL: usize = 4096;

const KINDS: [Kind; 13] = [
    Kind::Ym2151,
    Kind::Ym2203,
    Kind::Ym2608,
    Kind::Ym2610,
    Kind::Ym2610B,
    Kind::Ym2612,
    Kind::Ym3438,
    Kind::Ym2413,
    Kind::Vrc7,
    Kind::Ym3526,
    Kind::Y8950,
    Kind::Ym3812,
    Kind::Ymf262,
];

fn main() {
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let mut tracks = all_tracks();
    println!(
        "{:8} {:>8} {:>12} {:>12} {:>7}",
        "chip", "Mframes", "ours M/s", "ymfm M/s", "ratio"
    );
    for kind in KINDS {
        let name = format!("{kind:?}").to_uppercase();
        if !(only.is_empty() || only.contains(&name)) {
            continue;
        }
        let has_songs = tracks.iter().any(|track| track.kind == kind);
        let source = if has_songs { kind } else { original(kind) };
        let of_source = tracks.iter_mut().filter(|track| track.kind == source);
        let mut chosen: Vec<&mut Track> = of_source.take(SONGS_MAX).collect();
        if chosen.is_empty() {
            continue;
        }
        chosen.iter_mut().for_each(|track| track.kind = kind);

        let frames: usize = chosen.iter().map(|track| frames(&track.steps)).sum();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(seconds(|| chosen.iter().for_each(|track| render(track))));
            theirs.push(seconds(|| {
                chosen.iter().for_each(|track| render_ymfm(track))
            }));
        }
        let rate = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            frames as f64 / times[ROUNDS / 2] / 1e6
        };
        let (ours, theirs) = (rate(&mut ours), rate(&mut theirs));
        print_row(&name, frames, ours, theirs);
        chosen.iter_mut().for_each(|track| track.kind = source);
    }
    if only.is_empty() || only.contains(&"SSG".to_string()) {
        compare_ssg(&tracks);
    }
}

/// Returns the chip whose songs a variant can play.
fn original(variant: Kind) -> Kind {
    match variant {
        Kind::Ym2610B => Kind::Ym2610,
        Kind::Ym3438 => Kind::Ym2612,
        Kind::Vrc7 => Kind::Ym2413,
        other => other,
    }
}

fn print_row(name: &str, frames: usize, ours: f64, theirs: f64) {
    let million = frames as f64 / 1e6;
    println!(
        "{name:8} {million:8.1} {ours:12.2} {theirs:12.2} {:7.2}",
        ours / theirs
    );
}

/// Compares the SSGs of the first songs that have one, in ticks per second. Ours is rendered
/// without aliases at 44,100 Hz. That of ymfm is a YM2149, which renders its ticks, and a player
/// would still have to resample them.
fn compare_ssg(tracks: &[Track]) {
    let has_ssg = |track: &&Track| track.kind.dividers().1.is_some();
    let chosen: Vec<&Track> = tracks.iter().filter(has_ssg).take(SONGS_MAX).collect();
    if chosen.is_empty() {
        return;
    }
    let ticks: usize = chosen.iter().map(|track| frames(&track.ssg)).sum();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(seconds(|| chosen.iter().for_each(|track| hear_ssg(track))));
        theirs.push(seconds(|| {
            chosen.iter().for_each(|track| tick_ym2149(track))
        }));
    }
    let rate = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        ticks as f64 / times[ROUNDS / 2] / 1e6
    };
    print_row("SSG", ticks, rate(&mut ours), rate(&mut theirs));
}

/// Renders an SSG in the same way as the player.
fn hear_ssg(track: &Track) {
    let divider = track.kind.dividers().1.expect("a chip with an SSG");
    let ticks = Rate {
        frames: u64::from(track.clock_hz),
        seconds: divider,
    };
    let mut blep = Blep::new(ticks, 44_100);
    let mut ssg = Ssg::new();
    ssg.set_inaudible_period(blep.inaudible_half_period());
    let mut frames = vec![0; CALL];
    for step in &track.ssg {
        match *step {
            Step::Write(_, reg, value) => ssg.write(reg, value),
            Step::Run(mut left) => {
                while left > 0 {
                    let here = left.min(CALL);
                    ssg.run(here as u32, |tick, _, delta| blep.step(tick, delta));
                    blep.advance(here as u32);
                    left -= here;
                    let ready = blep.tick() * 44_100 * divider / u64::from(track.clock_hz);
                    let ready = ready.saturating_sub(blep.frame() + 1) as usize;
                    blep.read(&mut frames[..ready]);
                    black_box(&mut frames);
                }
            }
        }
    }
}

fn tick_ym2149(track: &Track) {
    let mut chip = create_chip(ChipType::Ym2149, 2_000_000);
    let mut ticks = vec![0; CALL * 3];
    for step in &track.ssg {
        match *step {
            Step::Write(_, reg, value) => {
                chip.pin_mut().write(0, reg);
                chip.pin_mut().write(2, value);
            }
            Step::Run(mut left) => {
                while left > 0 {
                    let here = left.min(CALL);
                    chip.pin_mut().generate(&mut ticks[..here * 3]);
                    black_box(&mut ticks);
                    left -= here;
                }
            }
        }
    }
}

fn all_tracks() -> Vec<Track> {
    let songs: Vec<Song> = match std::env::var_os("CREEL_ORACLE_SONGS") {
        Some(folder) => songs_in(Path::new(&folder)),
        None => {
            let packed = CARRIED.iter().map(|carried| carried.packed.to_vec());
            packed
                .map(|packed| Song::parse(packed).expect("a carried song is whole"))
                .collect()
        }
    };
    songs
        .iter()
        .flat_map(|song| tracks(song, SECONDS))
        .collect()
}

fn songs_in(folder: &Path) -> Vec<Song> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| Song::read(path).ok())
        .collect()
}

fn frames(steps: &[Step]) -> usize {
    let count = |step: &Step| {
        if let Step::Run(count) = step {
            *count
        } else {
            0
        }
    };
    steps.iter().map(count).sum()
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn render(track: &Track) {
    let clock_hz = track.clock_hz;
    let [a, b] = &track.memories;
    match track.kind {
        Kind::Ym2151 => run(Ym2151::new(clock_hz), track, Ym2151::write, Ym2151::render),
        Kind::Ym2203 => run(Ym2203::new(clock_hz), track, Ym2203::write, Ym2203::render),
        Kind::Ym2608 => {
            let mut chip = Ym2608::new(clock_hz);
            *chip.rhythm_rom_mut() = Rom::of(a.clone());
            chip.adpcm_b_mut().clone_from(b);
            run(chip, track, Ym2608::write, Ym2608::render);
        }
        Kind::Ym2610 | Kind::Ym2610B => {
            let is_b = track.kind == Kind::Ym2610B;
            let mut chip = if is_b {
                Ym2610::new_b(clock_hz)
            } else {
                Ym2610::new(clock_hz)
            };
            *chip.adpcm_a_mut() = Rom::of(a.clone());
            *chip.adpcm_b_mut() = Rom::of(b.clone());
            run(chip, track, Ym2610::write, Ym2610::render);
        }
        Kind::Ym2612 => run_with_dac(Ym2612::new(clock_hz), track),
        Kind::Ym3438 => run_with_dac(Ym2612::new_3438(clock_hz), track),
        Kind::Ym2413 => run(Ym2413::new(clock_hz), track, Ym2413::write, Ym2413::render),
        Kind::Vrc7 => {
            let chip = Ym2413::new_vrc7(clock_hz);
            run(chip, track, Ym2413::write, Ym2413::render);
        }
        Kind::Ym3526 => run(Ym3526::new(clock_hz), track, Ym3526::write, Ym3526::render),
        Kind::Y8950 => {
            let mut chip = Y8950::new(clock_hz);
            chip.adpcm_b_mut().clone_from(b);
            run(chip, track, Y8950::write, Y8950::render);
        }
        Kind::Ym3812 => run(Ym3812::new(clock_hz), track, Ym3812::write, Ym3812::render),
        Kind::Ymf262 => run(Ymf262::new(clock_hz), track, Ymf262::write, Ymf262::render),
    }
    render_ssg(track);
}

fn run<C>(
    mut chip: C,
    track: &Track,
    write: impl Fn(&mut C, u8, u8, u8),
    render: impl Fn(&mut C, &mut [[i32; 2]]),
) {
    let mut frames = vec![[0; 2]; CALL];
    for step in &track.steps {
        match *step {
            Step::Write(port, reg, value) => write(&mut chip, port, reg, value),
            Step::Run(mut left) => {
                while left > 0 {
                    let here = left.min(CALL);
                    render(&mut chip, &mut frames[..here]);
                    black_box(&mut frames);
                    left -= here;
                }
            }
        }
    }
}

/// Renders a YM2612. Like the player, we pass the data of the DAC together with the frames, and not
/// as single writes.
fn run_with_dac(mut chip: Ym2612, track: &Track) {
    let mut frames = vec![[0; 2]; CALL];
    let mut data = Vec::new();
    let mut pending = 0;
    for step in &track.steps {
        match *step {
            Step::Write(0, 0x2a, value) => data.push((pending, value)),
            Step::Write(port, reg, value) => {
                chip.render_with_dac(&data, &mut frames[..pending]);
                data.clear();
                pending = 0;
                chip.write(port, reg, value);
            }
            Step::Run(mut left) => {
                while left > 0 {
                    let here = left.min(CALL - pending);
                    pending += here;
                    left -= here;
                    if pending == CALL {
                        chip.render_with_dac(&data, &mut frames);
                        data.clear();
                        pending = 0;
                    }
                }
            }
        }
        black_box(&mut frames);
    }
    chip.render_with_dac(&data, &mut frames[..pending]);
}

fn render_ssg(track: &Track) {
    let mut ssg = Ssg::new();
    let mut sum = 0;
    for step in &track.ssg {
        match *step {
            Step::Write(_, reg, value) => ssg.write(reg, value),
            Step::Run(ticks) => ssg.run(ticks as u32, |_, _, delta| sum += delta),
        }
    }
    black_box(sum);
}

fn render_ymfm(track: &Track) {
    let (kind, repeats) = match track.kind {
        Kind::Ym2151 => (ChipType::Ym2151, 1),
        Kind::Ym2203 => (ChipType::Ym2203, 3),
        Kind::Ym2608 => (ChipType::Ym2608, 3),
        Kind::Ym2610 => (ChipType::Ym2610, 1),
        Kind::Ym2610B => (ChipType::Ym2610B, 1),
        Kind::Ym2612 => (ChipType::Ym2612, 1),
        Kind::Ym3438 => (ChipType::Ym3438, 1),
        Kind::Ym2413 => (ChipType::Ym2413, 1),
        Kind::Vrc7 => (ChipType::Ds1001, 1),
        Kind::Ym3526 => (ChipType::Ym3526, 1),
        Kind::Y8950 => (ChipType::Y8950, 1),
        Kind::Ym3812 => (ChipType::Ym3812, 1),
        Kind::Ymf262 => (ChipType::Ymf262, 1),
    };
    let [a, b] = track.memories.clone();
    let read = move |class, address: u32| {
        let memory = if class == AccessClass::AdpcmA { &a } else { &b };
        memory.get(address as usize).copied().unwrap_or(0)
    };
    let callbacks = InterfaceCallbacks::new(InterfaceHandler {
        ymfm_external_read: Some(Box::new(read)),
        ..InterfaceHandler::default()
    });
    let mut chip = create_chip_with_callbacks(kind, track.clock_hz, Box::new(callbacks));
    chip.pin_mut().set_fidelity(Fidelity::Min);
    let outputs = chip.channels() as usize;
    let mut buffer = vec![0; CALL * outputs * repeats];
    for step in &track.steps {
        match *step {
            Step::Write(port, reg, value) => {
                let port = u32::from(port) * 2;
                chip.pin_mut().write(port, reg);
                chip.pin_mut().write(port + 1, value);
            }
            Step::Run(mut left) => {
                while left > 0 {
                    let here = left.min(CALL);
                    chip.pin_mut()
                        .generate(&mut buffer[..here * outputs * repeats]);
                    black_box(&mut buffer);
                    left -= here;
                }
            }
        }
    }
}
