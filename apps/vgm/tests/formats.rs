//! Formats other than .vgm and WAV: archives, FLAC, stems and effects.
//!
//! If ffmpeg is installed, it must read every kind of file as well. Otherwise, that test prints
//! that it is skipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use creel_vgm::demo;

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("creel-vgm-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_creel-vgm"));
    program.args(arguments).output().unwrap()
}

fn done(arguments: &[&str]) {
    let run = run(arguments);
    assert!(run.status.success(), "{arguments:?}: {run:?}");
}

/// Writes a built-in song to a file.
fn song(folder: &Folder, name: &str) -> String {
    let carried = demo::CARRIED.iter().find(|song| song.name == name).unwrap();
    let path = folder.path(name).with_extension("vgz");
    fs::write(&path, carried.packed).unwrap();
    path.to_str().unwrap().into()
}

const ONCE: [&str; 4] = ["--loops", "1", "--fade", "0"];

fn render(song: &str, output: &Path, flags: &[&str]) {
    let output = output.to_str().unwrap();
    done(&[&["render", song, "-o", output, "-q"], &ONCE[..], flags].concat());
}

/// Returns the samples of a WAV file.
fn data(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(4).position(|tag| tag == b"data").unwrap();
    let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap());
    bytes[at + 8..][..length as usize].to_vec()
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = data(path);
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn flac_and_wav_have_the_same_samples() {
    let folder = Folder::new("flac");
    let song = song(&folder, "sn76489");
    for (bits, bytes) in [("8", 1), ("16", 2), ("24", 3)] {
        let flags = ["--bit-depth", bits, "--overwrite"];
        render(&song, &folder.0, &flags);
        render(&song, &folder.0, &[&flags[..], &["--flac"]].concat());
        let packed = fs::metadata(folder.path("sn76489.flac")).unwrap().len();
        let samples = data(&folder.path("sn76489.wav"));
        // The lowest bits of 24 look like noise to the encoder, so the file may even be larger.
        let most = samples.len() * if bits == "24" { 11 } else { 9 } / 10;
        assert!(packed < most as u64, "{packed} bytes of {}", samples.len());
        let mut flac = claxon::FlacReader::open(folder.path("sn76489.flac")).unwrap();
        assert_eq!(flac.get_tag("title").next(), Some("Tin Spindle"));
        let info = flac.streaminfo();
        assert_eq!(info.samples, Some((samples.len() / bytes / 2) as u64));
        let mut at = 0;
        for sample in flac.samples() {
            let mut word = sample.unwrap().to_le_bytes();
            // 8-bit samples of a WAV file are unsigned.
            word[0] ^= if bytes == 1 { 0x80 } else { 0 };
            assert_eq!(
                word[..bytes],
                samples[at..at + bytes],
                "{bits} bits, byte {at}"
            );
            at += bytes;
        }
        assert_eq!(at, samples.len());
    }
}

#[test]
fn files_have_numbers_loops_and_gains_as_tags() {
    let folder = Folder::new("numbers");
    let input = folder.path("in");
    fs::create_dir_all(&input).unwrap();
    for name in ["sn76489", "ym2151"] {
        let carried = demo::CARRIED
            .iter()
            .find(|song| song.name.starts_with(name))
            .unwrap();
        fs::write(input.join(name).with_extension("vgz"), carried.packed).unwrap();
    }
    let out = folder.path("out");
    render(
        input.to_str().unwrap(),
        &out,
        &["--flac", "--replay-gain-tags"],
    );
    for (number, name) in [("1", "sn76489"), ("2", "ym2151")] {
        let flac = claxon::FlacReader::open(out.join(name).with_extension("flac")).unwrap();
        let tag = |name: &str| flac.get_tag(name).next().map(str::to_owned);
        assert_eq!(tag("TRACKNUMBER").as_deref(), Some(number));
        let frames = |name: &str| tag(name).unwrap().parse::<u64>().unwrap();
        let end = frames("LOOPSTART") + frames("LOOPLENGTH");
        // The song is played once and without a fade, so it ends where its loop ends.
        assert_eq!(Some(end), flac.streaminfo().samples, "{name}");
        assert!(tag("REPLAYGAIN_TRACK_GAIN").unwrap().ends_with(" dB"));
        assert!(parsed(&tag("REPLAYGAIN_TRACK_PEAK").unwrap()) <= 1.0);
    }
    // The tags do not change the samples.
    render(input.to_str().unwrap(), &folder.path("plain"), &[]);
    render(
        input.to_str().unwrap(),
        &folder.path("tagged"),
        &["--replay-gain-tags"],
    );
    let [plain, tagged] = ["plain", "tagged"].map(|of| folder.path(of).join("ym2151.wav"));
    assert!(data(&plain) == data(&tagged) && fs::read(plain).unwrap() != fs::read(tagged).unwrap());
    let bytes = fs::read(folder.path("plain/ym2151.wav")).unwrap();
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    assert!(has(b"ITRK") && has(b"TRCK") && has(b"LOOPSTART"));
}

fn parsed(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn archives_are_treated_as_folders() {
    let folder = Folder::new("archives");
    let songs = [&demo::CARRIED[5], &demo::CARRIED[6]];
    let plain = folder.path("plain");
    fs::create_dir_all(plain.join("disc")).unwrap();
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path("album.zip")).unwrap());
    let mut seven = sevenz_rust2::ArchiveWriter::create(folder.path("album.7z")).unwrap();
    for name in ["disc/b.vgz", "a.vgz", "notes.txt"] {
        let packed = songs[usize::from(name == "a.vgz")].packed;
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(name, options).unwrap();
        zip.write_all(packed).unwrap();
        let entry = sevenz_rust2::ArchiveEntry::new_file(name);
        seven.push_archive_entry(entry, Some(packed)).unwrap();
        fs::write(plain.join(name), packed).unwrap();
    }
    zip.finish().unwrap();
    seven.finish().unwrap();
    let mut all = Vec::new();
    for name in ["plain", "album.zip", "album.7z"] {
        let out = folder.path(&format!("out of {name}"));
        let from = folder.path(name);
        render(from.to_str().unwrap(), &out, &["-r"]);
        let read = |name: &str| fs::read(out.join(name)).unwrap();
        all.push([read("a.wav"), read("disc/b.wav")]);
        assert_eq!(
            fs::read_dir(&out).unwrap().count(),
            2,
            "a, disc and no more"
        );
    }
    assert!(all[0] == all[1] && all[0] == all[2]);
    // An archive in a folder acts like a subfolder.
    let out = folder.path("deep");
    fs::remove_dir_all(folder.path("plain")).unwrap();
    fs::remove_file(folder.path("album.7z")).unwrap();
    render(folder.0.to_str().unwrap(), &out, &["-r"]);
    assert!(out.join("album/disc/b.wav").exists());
    let shallow = run(&[
        "render",
        folder.0.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ]);
    assert!(String::from_utf8_lossy(&shallow.stderr).contains("Use -r to include them"));
    // A truncated archive is malformed data and does not cause a panic.
    let whole = fs::read(folder.path("album.zip")).unwrap();
    fs::write(folder.path("cut.zip"), &whole[..whole.len() / 2]).unwrap();
    let cut = folder.path("cut.zip");
    let cut = run(&["render", cut.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    assert_eq!(cut.status.code(), Some(65), "{cut:?}");
}

#[test]
fn stems_add_up_to_the_song() {
    let folder = Folder::new("stems");
    let song = song(&folder, "ym2612-sn76489");
    let flags = ["--float"];
    render(&song, &folder.0, &flags);
    render(&song, &folder.0, &["--float", "--stems", "chip"]);
    let whole = floats(&folder.path("ym2612-sn76489.wav"));
    let fm = floats(&folder.path("ym2612-sn76489 - YM2612.wav"));
    let psg = floats(&folder.path("ym2612-sn76489 - SN76489.wav"));
    let loudest = |samples: &[f32]| samples.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    assert!(loudest(&fm) > 0.05 && loudest(&psg) > 0.02);
    for (place, whole) in whole.iter().enumerate() {
        assert!(
            (whole - fm[place] - psg[place]).abs() < 1e-5,
            "sample {place}"
        );
    }
    // Muting one chip leaves the other.
    let muted = folder.path("muted");
    render(&song, &muted, &["--float", "--mute", "sn76489"]);
    assert!(floats(&muted.join("ym2612-sn76489.wav")) == fm);
    let solo = folder.path("solo");
    render(&song, &solo, &["--float", "--solo", "SN76489#1"]);
    assert!(floats(&solo.join("ym2612-sn76489.wav")) == psg);
    let out = folder.path("none");
    let out = out.to_str().unwrap();
    let none = run(&["render", &song, "-o", out, "--solo", "YM2151"]);
    assert_eq!(none.status.code(), Some(65), "{none:?}");
    let unknown = run(&["render", &song, "-o", out, "--mute", "SID"]);
    assert_eq!(unknown.status.code(), Some(2));
}

/// With every kind of loudness, we measure the song and not each stem.
#[test]
fn stems_of_a_normalized_song_add_up_to_the_song() {
    let folder = Folder::new("louder-stems");
    let song = song(&folder, "ym2612-sn76489");
    for flags in [
        &["--normalize"][..],
        &["--replay-gain", "track", "--volume", "0.7"],
        &[
            "--replay-gain",
            "album",
            "--eq",
            "low:200:-6",
            "--reverb",
            "0.2",
        ],
    ] {
        let out = folder.path(&flags.join(" "));
        let flags = [&["--float"], flags].concat();
        render(&song, &out, &flags);
        render(&song, &out, &[&flags[..], &["--stems", "chip"]].concat());
        let whole = floats(&out.join("ym2612-sn76489.wav"));
        let fm = floats(&out.join("ym2612-sn76489 - YM2612.wav"));
        let psg = floats(&out.join("ym2612-sn76489 - SN76489.wav"));
        for (place, whole) in whole.iter().enumerate() {
            let sum = fm[place] + psg[place];
            assert!((whole - sum).abs() < 1e-5, "{flags:?}, sample {place}");
        }
    }
}

/// A single voice has the same samples for all flags that select it. Together with the song without
/// this voice, it gives the whole song.
#[test]
fn solo_voice_equals_its_stem() {
    let folder = Folder::new("solo-voice");
    let song = song(&folder, "ym2612-sn76489");
    let of = |out: &str, flags: &[&str], name: &str| {
        let out = folder.path(out);
        let fresh = ["--float", "--overwrite"];
        render(&song, &out, &[&fresh, flags].concat());
        floats(&out.join(format!("ym2612-sn76489{name}.wav")))
    };
    let stem = of("stems", &["--stems", "voice"], " - YM2612 voice 3");
    let solo = of("solo", &["--solo", "YM2612:3"], "");
    assert!(stem == solo && stem.iter().any(|side| side.abs() > 0.01));
    let first = ["--solo", "YM2612#1:3"];
    assert!(of("first", &first, "") == solo);
    // The stems of a song with a muted voice equal those of the whole song.
    let flags = ["--mute", "YM2612:2,SN76489", "--stems", "voice"];
    assert!(of("others", &flags, " - YM2612 voice 3") == stem);
    let (whole, muted) = (
        of("whole", &[], ""),
        of("muted", &["--mute", "YM2612:3"], ""),
    );
    for (place, whole) in whole.iter().enumerate() {
        let sum = muted[place] + stem[place];
        assert!((whole - sum).abs() < 1e-6, "sample {place}");
    }
}

/// Tests the files. `stems.rs` adds up the voices of every chip without files.
#[test]
fn voices_add_up_to_the_song() {
    for (name, most) in [
        ("ay8910", 1e-6),
        ("ym2151-okim6258", 1e-6),
        ("ym2608", 1e-6),
    ] {
        let folder = Folder::new(name);
        let song = song(&folder, name);
        render(&song, &folder.0, &["--float"]);
        let voices = folder.path("voices");
        render(&song, &voices, &["--float", "--stems", "voice"]);
        let whole = floats(&folder.path(name).with_extension("wav"));
        let (mut sum, mut heard) = (vec![0.0; whole.len()], 0);
        for file in fs::read_dir(&voices).unwrap() {
            let voice = floats(&file.unwrap().path());
            heard += usize::from(voice.iter().any(|side| side.abs() > 0.02));
            sum.iter_mut()
                .zip(&voice)
                .for_each(|(sum, side)| *sum += side);
        }
        assert!(heard >= 2, "{heard} voices");
        for (place, (whole, sum)) in whole.iter().zip(&sum).enumerate() {
            assert!(
                (whole - sum).abs() < most,
                "{name}, sample {place}: {whole} {sum}"
            );
        }
    }
}

fn lufs(samples: &[f32]) -> f64 {
    let mut meter = ebur128::EbuR128::new(2, 44_100, ebur128::Mode::I).unwrap();
    meter.add_frames_f32(samples).unwrap();
    meter.loudness_global().unwrap()
}

#[test]
fn replay_gain_is_independent_of_job_count() {
    let folder = Folder::new("loudness");
    let names = ["ym2413", "ay8910", "sn76489"];
    let songs = names.map(|name| song(&folder, name));
    let rendered = |flags: &[&str]| {
        let out = folder.path(&flags.join(" "));
        let [a, b, c] = songs.each_ref().map(String::as_str);
        let arguments = [
            "render",
            a,
            b,
            c,
            "-q",
            "--float",
            "-o",
            out.to_str().unwrap(),
        ];
        done(&[&arguments[..], &ONCE, flags].concat());
        names.map(|name| floats(&out.join(name).with_extension("wav")))
    };
    let plain = rendered(&[]).map(|song| lufs(&song));
    for song in rendered(&["--replay-gain", "track", "--soft-clip"]) {
        let found = lufs(&song);
        assert!((found + 18.0).abs() < 0.5, "{found} LUFS");
    }
    let album = rendered(&["--replay-gain", "album", "--jobs", "1"]);
    let moved = |place: usize| lufs(&album[place]) - plain[place];
    assert!(
        (moved(0) - moved(1)).abs() < 0.05,
        "songs keep their distance"
    );
    assert!(album == rendered(&["--replay-gain", "album", "--jobs", "3"]));
    let peak = |song: &[f32]| song.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    for song in rendered(&["--normalize"]) {
        assert!((peak(&song) - 1.0).abs() < 1e-5, "{}", peak(&song));
    }
    // The volume is applied after the normalisation.
    for song in rendered(&["--normalize", "--volume", "0.25"]) {
        assert!((peak(&song) - 0.25).abs() < 1e-5, "{}", peak(&song));
    }
    let softer = ["--replay-gain", "track", "--soft-clip", "--volume", "0.5"];
    for song in rendered(&softer) {
        let found = lufs(&song);
        assert!((found + 24.02).abs() < 0.5, "{found} LUFS");
    }
}

#[test]
fn other_programs_read_every_format() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        eprintln!("skipped: no ffmpeg");
        return;
    }
    let folder = Folder::new("ffmpeg");
    let song = song(&folder, "ay8910");
    let decoded = |name: &str| {
        let path = folder.path(name);
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-xerror", "-i"]).arg(path);
        let run = ffmpeg.args(["-f", "s16le", "-"]).output().unwrap();
        assert!(
            run.status.success() && run.stderr.is_empty(),
            "{name}: {run:?}"
        );
        run.stdout
    };
    let mut all = Vec::new();
    for (flags, name) in [
        (vec![], "ay8910.wav"),
        (vec!["--au"], "ay8910.au"),
        (vec!["--flac"], "ay8910.flac"),
    ] {
        for bits in ["16", "24"] {
            let flags = [&flags[..], &["--overwrite", "--bit-depth", bits]].concat();
            render(&song, &folder.0, &flags);
            let samples = decoded(name);
            if bits == "16" {
                all.push(samples);
            }
        }
    }
    assert!(all[0] == data_after(&folder, &song) && all[1] == all[0] && all[2] == all[0]);
    for name in ["ay8910.wav", "ay8910.flac"] {
        let run = Command::new("ffprobe")
            .args(["-v", "error", "-show_entries", "format_tags"])
            .arg(folder.path(name))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout).to_lowercase();
        for tag in ["title=", "artist=", "album="] {
            assert!(text.contains(tag), "{name}: {text}");
        }
    }
}

/// Renders the song to a WAV file of 16 bits, and returns its samples.
fn data_after(folder: &Folder, song: &str) -> Vec<u8> {
    let out = folder.path("again");
    render(song, &out, &[]);
    data(&out.join("ay8910.wav"))
}
