//! Damaged songs: whatever the bytes, reading and playing them neither panics nor hangs, takes no
//! more memory than it should, and makes no more frames than announced.
//!
//! The carried songs are damaged by a seeded generator, so every run is the same. `CREEL_VGM_FUZZ`
//! sets how many songs are damaged, `CREEL_VGM_FUZZ_SEED` the first seed. A song that once broke
//! something lies in `tests/crashers` and is played again here.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use creel_vgm::demo;
use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

const CASES: u64 = 400;
const SEED: u64 = 0x5EED;
/// Frames played of a song that can still be read.
const FRAMES_MAX: u64 = 6000;
const BLOCK: usize = 500;

/// SplitMix64.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Values that break careless arithmetic.
const EDGES: [u32; 8] = [
    0,
    1,
    0x40,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x4000_0000,
    0xFFFF,
];

fn damage(song: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        if song.is_empty() {
            return;
        }
        let at = match random.below(4) {
            0 => random.below(song.len().min(0x100)),
            _ => random.below(song.len()),
        };
        match random.below(7) {
            0 => song[at] ^= 1 << random.below(8),
            1 => song[at] = random.next() as u8,
            2 => song.truncate(at),
            3 => song.insert(at, random.next() as u8),
            4 => drop(song.remove(at)),
            5 => {
                let value = EDGES[random.below(EDGES.len())].to_le_bytes();
                for (byte, new) in song[at..].iter_mut().zip(value) {
                    *byte = new;
                }
            }
            _ => {
                let end = song.len().min(at + random.below(64));
                let piece = song[at..end].to_vec();
                let to = random.below(song.len());
                song.splice(to..to, piece);
            }
        }
    }
}

/// Plays the front of a song, if it is one; returns whether it was.
fn play(bytes: Vec<u8>, buffers: &mut Buffers) -> bool {
    let Ok(song) = Song::parse(bytes) else {
        return false;
    };
    let settings = Settings::default();
    let Ok(mut player) = Player::new(&song, &settings, buffers) else {
        return false;
    };
    let announced = player.frames();
    let mut block = vec![[0.0; 2]; BLOCK];
    let mut made = 0;
    while made < FRAMES_MAX {
        let frames = player.fill(buffers, &mut block) as u64;
        assert!(block.iter().flatten().all(|sample| sample.is_finite()));
        made += frames;
        if frames == 0 {
            assert_eq!(made, announced);
            break;
        }
    }
    assert!(made <= announced);
    true
}

fn from_env(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[test]
fn damaged_songs_do_no_harm() {
    let cases = from_env("CREEL_VGM_FUZZ", CASES);
    let first = from_env("CREEL_VGM_FUZZ_SEED", SEED);
    let plain: Vec<Vec<u8>> = demo::compose().into_iter().map(|song| song.bytes).collect();
    let mut buffers = Buffers::default();
    let mut played = 0;
    for seed in first..first + cases {
        let mut random = Random(seed);
        let which = random.below(plain.len());
        let mut song = if random.below(8) == 0 {
            demo::CARRIED[which].packed.to_vec()
        } else {
            plain[which].clone()
        };
        damage(&mut song, &mut random);
        let ran = catch_unwind(AssertUnwindSafe(|| play(song.clone(), &mut buffers)));
        match ran {
            Ok(true) => played += 1,
            Ok(false) => {}
            Err(_) => {
                let path = std::env::temp_dir().join(format!("creel-vgm-{seed:x}.vgm"));
                fs::write(&path, song).unwrap();
                panic!("seed {seed:#x} broke it; the song is in {}", path.display());
            }
        }
    }
    eprintln!("{cases} damaged songs from seed {first:#x}: {played} could still be played");
    assert!(
        played > cases / 20,
        "most damage should leave something to play"
    );
    if cases > CASES {
        eprintln!("{}", peak_memory());
    }
}

fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or("VmHWM: unknown").to_string()
}

#[test]
fn what_once_broke_something_does_so_no_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashers");
    let Ok(entries) = fs::read_dir(&folder) else {
        return;
    };
    for entry in entries {
        play(
            fs::read(entry.unwrap().path()).unwrap(),
            &mut Buffers::default(),
        );
    }
}
