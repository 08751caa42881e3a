//! Damaged songs. For any bytes, reading and playing a song does not panic or hang, does not use
//! too much memory, and renders no more frames than announced.
//!
//! A seeded generator damages the built-in songs, songs of every other chip, compressed songs,
//! archives and playlists. Therefore, every run is the same. `CREEL_VGM_FUZZ` sets the number of
//! damaged files, and `CREEL_VGM_FUZZ_SEED` the first seed. Songs that once caused a failure are in
//! `tests/crashers`, and this test plays them again.
//!
//! `soak` (ignored, because it takes minutes) does the same with 100,000 files of all kinds, with
//! limits on the time per file and on the memory.

#[path = "streams/random.rs"]
#[allow(dead_code, reason = "the numbers here are indices")]
mod random;
#[path = "pcm/tones.rs"]
#[allow(dead_code, reason = "their pitches are tested elsewhere")]
mod samples;
#[path = "players/streams.rs"]
mod streams;
#[path = "tones/mod.rs"]
#[allow(dead_code, reason = "the streams have notes of their own")]
mod tone;

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use creel_vgm::batch;
use creel_vgm::demo;
use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};
use random::Random;

const CASES: u64 = 400;
const SEED: u64 = 0x5EED;
/// The number of frames that we play of a song that can still be read.
const FRAMES_MAX: u64 = 6000;
const BLOCK: usize = 500;

impl Random {
    fn index(&mut self, end: usize) -> usize {
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
    for _ in 0..1 + random.index(6) {
        if song.is_empty() {
            return;
        }
        let at = match random.index(4) {
            0 => random.index(song.len().min(0x100)),
            _ => random.index(song.len()),
        };
        match random.index(7) {
            0 => song[at] ^= 1 << random.index(8),
            1 => song[at] = random.next() as u8,
            2 => song.truncate(at),
            3 => song.insert(at, random.next() as u8),
            4 => drop(song.remove(at)),
            5 => {
                let value = EDGES[random.index(EDGES.len())].to_le_bytes();
                for (byte, new) in song[at..].iter_mut().zip(value) {
                    *byte = new;
                }
            }
            _ => {
                let end = song.len().min(at + random.index(64));
                let piece = song[at..end].to_vec();
                let to = random.index(song.len());
                song.splice(to..to, piece);
            }
        }
    }
}

/// Plays the beginning of a song. Returns whether the bytes are a song that we can play.
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

/// Returns songs of all supported chips.
fn all_songs() -> Vec<Vec<u8>> {
    let carried = demo::compose().into_iter().map(|song| song.bytes);
    let steps = streams::streams()
        .into_iter()
        .map(|stream| stream.song(1, 20));
    let samples = samples::TONES.iter().map(|tone| tone.song());
    carried.chain(steps).chain(samples).collect()
}

#[test]
fn damaged_songs_never_panic() {
    let cases = from_env("CREEL_VGM_FUZZ", CASES);
    let first = from_env("CREEL_VGM_FUZZ_SEED", SEED);
    let plain = all_songs();
    let mut buffers = Buffers::default();
    let mut played = 0;
    for seed in first..first + cases {
        let mut random = Random(seed);
        let which = random.index(plain.len());
        let mut song = if random.index(8) == 0 {
            demo::CARRIED[which % demo::CARRIED.len()].packed.to_vec()
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

fn zip(songs: &[&[u8]]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (place, song) in songs.iter().enumerate() {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(format!("{place}.vgm"), options).unwrap();
        writer.write_all(song).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn seven_z(songs: &[&[u8]]) -> Vec<u8> {
    let cursor = std::io::Cursor::new(Vec::new());
    let mut writer = sevenz_rust2::ArchiveWriter::new(cursor).unwrap();
    for (place, song) in songs.iter().enumerate() {
        let entry = sevenz_rust2::ArchiveEntry::new_file(&format!("{place}.vgm"));
        writer.push_archive_entry(entry, Some(*song)).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Returns files that contain or name songs, each with its extension.
fn containers() -> Vec<(&'static str, Vec<u8>)> {
    let songs = demo::compose();
    let songs = [&songs[5].bytes[..], &songs[6].bytes[..2000]];
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(songs[0]).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(songs[0], level);
    let xspf = r#"<?xml version="1.0"?><playlist xmlns="http://xspf.org/ns/0/"><trackList>
        <track><location>a%20b.vgm?&amp;&#x41;</location></track></trackList></playlist>"#;
    let jspf = r#"{"playlist":{"track":[{"location":["a.vgm","b"]},{"location":"c"},{}]}}"#;
    vec![
        ("zip", zip(&songs)),
        ("7z", seven_z(&songs)),
        ("vgb", bzip2.finish().unwrap()),
        ("vgzst", zstd),
        (
            "m3u",
            b"#EXTM3U\n#EXTINF:1,x\n a b.vgm \r\n\nc\\d%20\xE9.vgz".to_vec(),
        ),
        ("xspf", xspf.into()),
        ("jspf", jspf.into()),
    ]
}

#[test]
fn damaged_archives_and_playlists_never_panic() {
    let cases = from_env("CREEL_VGM_FUZZ", CASES) / 5;
    let first = from_env("CREEL_VGM_FUZZ_SEED", SEED);
    let folder = std::env::temp_dir().join(format!("creel-vgm-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let containers = containers();
    let (mut buffers, mut found, mut refused) = (Buffers::default(), 0, 0);
    for seed in first..first + cases {
        let mut random = Random(seed);
        let (ending, whole) = &containers[random.index(containers.len())];
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut random);
        let path = folder.join("file").with_extension(ending);
        fs::write(&path, &bytes).unwrap();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let songs = batch::find(std::slice::from_ref(&path), false).songs;
            let mut read = 0;
            for (source, place) in songs {
                assert!(
                    place
                        .components()
                        .all(|part| matches!(part, Component::Normal(_)))
                );
                if let Ok(song) = source.load() {
                    read += u64::from(play(song.bytes().to_vec(), &mut buffers));
                }
            }
            read
        }));
        match ran {
            Ok(0) => refused += 1,
            Ok(songs) => found += songs,
            Err(_) => panic!("seed {seed:#x} broke it; the file is {}", path.display()),
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    eprintln!("{cases} damaged files from seed {first:#x}: {found} songs, {refused} without any");
    assert!(found > 0 && refused > 0);
}

/// The number of files of the whole soak test, and the number between two progress messages.
const SOAK: u64 = 100_000;
const SOAK_PART: u64 = 10_000;
/// The time limit per damaged file. Only a hang can exceed it.
const FILE_SECONDS_MAX: u64 = 60;
/// The memory limit of the whole test, including the test's own songs.
const MEMORY_MIB_MAX: u64 = 1_024;

/// Overwrites one to three bytes after the first 64 bytes, which are the header of old versions.
/// Most songs can still be played.
fn touch(song: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.index(3) {
        let at = 0x40 + random.index(song.len().saturating_sub(0x40));
        if let Some(byte) = song.get_mut(at) {
            *byte = random.next() as u8;
        }
    }
}

/// Returns a damaged file of any kind: a song that is compressed before or after it is damaged, or
/// not at all, an archive or a playlist.
fn any_file(kinds: &[(&'static str, Vec<u8>)], random: &mut Random) -> (&'static str, Vec<u8>) {
    let (ending, whole) = &kinds[random.index(kinds.len())];
    let mut bytes = whole.clone();
    match random.index(2) {
        0 => damage(&mut bytes, random),
        _ => touch(&mut bytes, random),
    }
    match (*ending, random.index(8)) {
        ("vgm", 0) => ("zip", zip(&[&bytes])),
        ("vgm", 1) => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&bytes).unwrap();
            ("vgz", gzip.finish().unwrap())
        }
        _ => (*ending, bytes),
    }
}

/// Ends the process if one file takes too long, because a hang cannot be caught.
fn watch(at: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        loop {
            let before = at.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(FILE_SECONDS_MAX));
            if before == u64::MAX {
                return;
            }
            if at.load(Ordering::Relaxed) == before {
                eprintln!("seed {before:#x} takes more than {FILE_SECONDS_MAX} s");
                std::process::exit(1);
            }
        }
    });
}

#[test]
#[ignore = "a soak test that takes minutes"]
fn soak() {
    let cases = from_env("CREEL_VGM_FUZZ", SOAK);
    let first = from_env("CREEL_VGM_FUZZ_SEED", SEED);
    let folder = std::env::temp_dir().join(format!("creel-vgm-soak-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut kinds: Vec<_> = all_songs().into_iter().map(|song| ("vgm", song)).collect();
    let packed = demo::CARRIED.iter();
    kinds.extend(packed.map(|song| ("vgz", song.packed.to_vec())));
    // We repeat the containers until there are as many of them as songs, so that containers are
    // tested as often as songs.
    for _ in 0..kinds.len().div_ceil(containers().len()) {
        kinds.extend(containers());
    }
    let at = Arc::new(AtomicU64::new(first));
    watch(at.clone());
    let (mut buffers, mut played, mut refused) = (Buffers::default(), 0u64, 0u64);
    let started = Instant::now();
    for seed in first..first + cases {
        at.store(seed, Ordering::Relaxed);
        let (ending, bytes) = any_file(&kinds, &mut Random(seed));
        let path = folder.join("file").with_extension(ending);
        fs::write(&path, &bytes).unwrap();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut songs = 0;
            for (source, place) in batch::find(std::slice::from_ref(&path), false).songs {
                assert!(
                    place
                        .components()
                        .all(|part| matches!(part, Component::Normal(_)))
                );
                if let Ok(song) = source.load() {
                    songs += u64::from(play(song.bytes().to_vec(), &mut buffers));
                }
            }
            songs
        }));
        match ran {
            Ok(0) => refused += 1,
            Ok(songs) => played += songs,
            Err(_) => panic!("seed {seed:#x} broke it; the file is {}", path.display()),
        }
        if (seed - first + 1).is_multiple_of(SOAK_PART) {
            eprintln!(
                "to seed {seed:#x}: {played} songs played, {refused} files refused, {} s, {}",
                started.elapsed().as_secs(),
                peak_memory()
            );
        }
    }
    at.store(u64::MAX, Ordering::Relaxed);
    fs::remove_dir_all(&folder).unwrap();
    eprintln!(
        "{cases} damaged files of {} kinds from seed {first:#x}: {played} songs played, {refused} \
         files refused",
        kinds.len()
    );
    assert!(played > cases / 20 && refused > cases / 20);
    let memory = peak_memory();
    let kib = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok());
    assert!(
        kib.is_none_or(|kib| kib / 1024 <= MEMORY_MIB_MAX),
        "{memory}"
    );
}

fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or("VmHWM: unknown").to_string()
}

#[test]
fn inputs_that_once_crashed_no_longer_panic() {
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
