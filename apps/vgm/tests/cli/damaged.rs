//! Songs that are damaged or incomplete: which of them we reject, and which give a warning.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::*;

#[test]
fn damaged_songs_are_reported_and_others_rendered() {
    let folder = Folder::new("bad");
    let good = folder.put("good.vgm", &small_song());
    let changed = |at: usize, value: u32| {
        let mut song = small_song();
        song[at..at + 4].copy_from_slice(&value.to_le_bytes());
        song
    };
    let whole = small_song();
    let packed = gzip(&whole);
    let mut nothing = whole[..0x40].to_vec();
    nothing.extend([0; 40]);
    let bad: [(&str, Vec<u8>, &str); 6] = [
        ("empty.vgm", Vec::new(), "empty"),
        ("magic.vgm", b"RIFFwhatever".to_vec(), "not a VGM song"),
        ("header.vgm", whole[..20].to_vec(), "cut short"),
        ("cut.vgz", packed[..30].to_vec(), "gzip"),
        ("commands.vgm", nothing, "not a command"),
        ("clock.vgm", changed(0x0C, 3), "cannot run"),
    ];
    for (name, bytes, reason) in bad {
        let path = folder.put(name, &bytes);
        let out = folder.path("out");
        let _ = fs::remove_dir_all(&out);
        let alone = render(&[&path], &out, &[]);
        assert_eq!(alone.status.code(), Some(65), "{name}: {}", stderr(&alone));
        let run = render(&[&path, &good], &out, &["--format", "json"]);
        assert_eq!(run.status.code(), Some(1), "{name}: {}", stderr(&run));
        let printed = stderr(&run);
        assert!(
            printed.contains(name) && printed.contains(reason),
            "{name}: {printed}"
        );
        assert_eq!(
            (&summary(&run)["songs"], &summary(&run)["failed"]),
            (&1.into(), &1.into())
        );
        let written = files(&out);
        assert_eq!(written.len(), 1, "{name}: {written:?}");
        assert!(written[0].0.ends_with("good.wav"));
    }
}

#[test]
fn missing_song_does_not_affect_others() {
    let folder = Folder::new("missing");
    let good = folder.put("good.vgm", &small_song());
    let run = render(&[&folder.path("none.vgm"), &good], &folder.path("out"), &[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("none.vgm"), "{}", stderr(&run));
    assert!(folder.path("out/good.wav").exists());
}

#[test]
fn gzip_bomb_is_limited_to_the_maximum_song_size() {
    let folder = Folder::new("bomb");
    let mut bomb = small_song();
    bomb.resize(200 << 20, 0x70);
    let path = folder.put("bomb.vgz", &gzip(&bomb));
    drop(bomb);
    let run = render(&[&path], &folder.path("out"), &["--format", "json"]);
    assert_eq!(run.status.code(), Some(65), "{}", stderr(&run));
    assert!(stderr(&run).contains("64 MiB"), "{}", stderr(&run));
    if let Some(peak) = summary(&run)["peak_rss_bytes"].as_u64() {
        assert!(peak < 200 << 20, "{peak}");
    }
}

/// The small song with a chip that is not supported.
pub fn song_without_a_player() -> Vec<u8> {
    let mut song = vec![0; 0x100];
    let small = small_song();
    song[..0x40].copy_from_slice(&small[..0x40]);
    song[8..10].copy_from_slice(&[0x72, 0x01]);
    song[0x34] = 0xCC;
    // An MSM5232, a chip of arcade boards.
    song[0xF4..0xF8].copy_from_slice(&2_000_000u32.to_le_bytes());
    song.extend([0x43, 0x00, 0x7F]);
    song.extend(&small[0x40..]);
    song
}

#[test]
fn unsupported_chip_is_reported_and_fails_with_strict() {
    let folder = Folder::new("lacking");
    let lacking = folder.put("lacking.vgm", &song_without_a_player());
    let whole = folder.put("whole.vgm", &small_song());
    let out = folder.path("out");
    let run = render(&[&lacking, &whole], &out, &["--lines"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(
        stderr(&run).matches("MSM5232").count(),
        1,
        "{}",
        stderr(&run)
    );
    assert_eq!(
        (&summary(&run)["songs"], &summary(&run)["incomplete"]),
        (&2.into(), &1.into())
    );
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    let lines: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON alone"))
        .collect();
    for line in &lines[..2] {
        let missing = line["chips_missing"].as_array().unwrap().len();
        let lacks = line["song"].as_str().unwrap().ends_with("lacking.vgm");
        assert_eq!(missing, usize::from(lacks), "{line}");
    }
    let run = render(&[&lacking, &whole], &out, &["--overwrite"]);
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(printed.contains("2 songs (1 not in full)"), "{printed}");

    let run = render(
        &[&lacking, &whole],
        &folder.path("strict"),
        &["--strict", "--format", "json"],
    );
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("needs MSM5232"), "{}", stderr(&run));
    assert_eq!(summary(&run)["failed"], 1);
    assert!(!folder.path("strict/lacking.wav").exists());

    let info = program()
        .args(["info", "--format", "json"])
        .arg(&lacking)
        .output()
        .unwrap();
    assert_eq!(
        summary(&info)["chips_missing"],
        serde_json::json!(["MSM5232"])
    );
}

#[test]
fn tolerated_defects_render_with_a_warning() {
    let folder = Folder::new("lenient");
    let whole = small_song();
    let changed = |at: usize, value: u32| {
        let mut song = small_song();
        song[at..at + 4].copy_from_slice(&value.to_le_bytes());
        song
    };
    let halves = [gzip(&whole[..0x42]), gzip(&whole[0x42..])].concat();
    let packed = gzip(&whole);
    let checksum = {
        let (at, mut packed) = (packed.len() - 5, packed.clone());
        packed[at] ^= 1;
        packed
    };
    let mut gap = whole.clone();
    gap.splice(0x42..0x42, [0, 0, 0]);
    let songs: [(&str, Vec<u8>, &str); 9] = [
        (
            "trailer.vgz",
            packed[..packed.len() - 4].to_vec(),
            "its end is missing",
        ),
        ("checksum.vgz", checksum, "its end is missing"),
        ("data.vgm", changed(0x34, 0x00FF_FFFF), "outside the song"),
        ("gap.vgm", gap, "3 bytes skipped"),
        ("end.vgm", whole[..whole.len() - 1].to_vec(), "cut short"),
        ("cut.vgm", whole[..whole.len() - 2].to_vec(), "cut short"),
        ("loop.vgm", changed(0x1C, 0x1000), "loop points to"),
        ("no-time.vgm", changed(0x1C, 0x40 - 0x1C), "no duration"),
        ("members.vgz", halves, ""),
    ];
    for (name, bytes, warning) in songs {
        let path = folder.put(name, &bytes);
        let run = render(&[&path], &folder.path("out"), &["--lines"]);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", stderr(&run));
        assert!(stderr(&run).contains(warning), "{name}: {}", stderr(&run));
        assert_eq!(stderr(&run).is_empty(), warning.is_empty(), "{name}");
        let out = folder.path("out").join(name).with_extension("wav");
        let seconds = if name == "cut.vgm" { 0 } else { 1 };
        let bytes = fs::metadata(out).unwrap().len();
        assert_eq!(bytes, 44 + seconds * 4 * 44_100, "{name}");
        // A song is incomplete only if a part of it is lost.
        let loses = !["no-time.vgm", "members.vgz"].contains(&name);
        let not_played = lines(&run)[0]["not_played"].as_array().unwrap().len();
        assert_eq!(
            (not_played > 0, summary(&run)["incomplete"] == 1),
            (loses, loses),
            "{name}"
        );
        let run = render(&[&path], &folder.path("strict"), &["--strict"]);
        assert_eq!(run.status.success(), !loses, "{name}: {}", stderr(&run));
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_rejected_without_blocking() {
    let folder = Folder::new("fifo");
    let fifo = folder.path("in/fifo.vgm");
    fs::create_dir_all(folder.path("in")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    for path in [&fifo, &folder.path("in"), Path::new("/dev/zero")] {
        let run = render(&[path], &folder.path("out"), &[]);
        assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
        assert!(stderr(&run).contains("not a file"), "{}", stderr(&run));
        let info = program().arg("info").arg(path).output().unwrap();
        assert_eq!(stderr(&info).matches("not a file").count(), 1);
    }
}

#[test]
fn writes_to_a_chip_without_clock_warn_in_every_command() {
    let folder = Folder::new("clockless");
    let mut song = small_song();
    song.splice(0x40..0x40, [0x54, 0x08, 0x78, 0x54, 0x08, 0x00]);
    let path = folder.put("s.vgm", &song);
    let run = render(&[&path], &folder.path("out"), &["--lines"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let printed = "2 writes to a YM2151 ignored";
    assert_eq!(stderr(&run).matches(printed).count(), 1, "{}", stderr(&run));
    let has_warning =
        |line: &serde_json::Value| line["warnings"][0].as_str().unwrap().contains(printed);
    assert!(has_warning(&lines(&run)[0]));
    let info = program()
        .args(["info", "--format", "json"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(has_warning(&lines(&info)[0]));
    let run = render(&[&path], &folder.path("strict"), &["--strict"]);
    assert_ne!(run.status.code(), Some(0));
    assert!(stderr(&run).contains(printed), "{}", stderr(&run));
    // A song that has only such writes is silent. Both ways of rendering warn about it.
    let mut none = song[..0x46].to_vec();
    none.extend([0x62, 0x66]);
    let silent = folder.put("n.vgm", &none);
    for jobs in ["1", "2"] {
        let flags = ["--lines", "--overwrite", "--jobs", jobs];
        let run = render(&[&silent], &folder.path("out"), &flags);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        let printed = stderr(&run);
        assert!(
            printed.contains("does not write to any chip for which it has a clock"),
            "{printed}"
        );
        assert!(printed.contains("the song is silent"), "{printed}");
        assert_eq!(lines(&run)[0]["frames"], 735);
    }
    // Zeros make no sound, so nothing is lost.
    let mut zeros = none.clone();
    zeros[0x42] = 0;
    let run = render(
        &[&folder.put("z.vgm", &zeros)],
        &folder.path("out"),
        &["--strict"],
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    none[0x0C..0x10].fill(0);
    let run = render(&[&folder.put("c.vgm", &none)], &folder.path("out"), &[]);
    assert_eq!(run.status.code(), Some(65));
    assert!(stderr(&run).contains("clock"), "{}", stderr(&run));
}

#[test]
fn info_reports_what_render_rejects() {
    let folder = Folder::new("refused");
    let mut song = small_song();
    song[0x0C..0x10].copy_from_slice(&1u32.to_le_bytes());
    let song = folder.put("s.vgm", &song);
    let run = render(&[&song], &folder.path("out"), &[]);
    assert_eq!(run.status.code(), Some(65), "{}", stderr(&run));
    let info = program().arg("info").arg(&song).output().unwrap();
    assert_eq!(info.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(printed.contains("cannot be rendered"), "{printed}");
    assert!(printed.contains("1 Hz"), "{printed}");
}

#[test]
fn silent_song_warns_and_clipping_is_counted() {
    let folder = Folder::new("zeros");
    let mut silent = small_song();
    silent[0x41] = 0x9F;
    let silent = folder.put("silent.vgm", &silent);
    let loud = folder.put("loud.vgm", &small_song());
    let out = folder.path("out");
    for dither in [&[][..], &["--dither"]] {
        let flags = [&["--lines", "--overwrite", "--volume", "50"], dither].concat();
        let run = render(&[&silent, &loud], &out, &flags);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        assert_eq!(stderr(&run).matches("the song is silent").count(), 1);
        for line in &lines(&run)[..2] {
            let is_silent = line["song"].as_str().unwrap().contains("silent");
            let peak = line["peak"].as_f64().unwrap();
            assert_eq!(
                line["warnings"].as_array().unwrap().len(),
                usize::from(is_silent)
            );
            assert_eq!(line["clipped"].as_u64() == Some(0), is_silent, "{line}");
            assert_eq!(peak < 0.01, is_silent, "{line}");
        }
        assert_eq!(summary(&run)["clipped"], 1);
    }
    // A silent stem is normal, so it causes no warning.
    let run = render(&[&silent], &out, &["--stems", "voice"]);
    assert_eq!(stderr(&run), "");
}
