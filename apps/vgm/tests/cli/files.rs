//! The files that `render` writes: their paths, names, sizes and bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use creel_vgm::demo;

use crate::harness::*;

#[test]
fn output_is_independent_of_job_count() {
    let folder = Folder::new("jobs");
    let mut all = Vec::new();
    for jobs in ["1", "2", "8"] {
        let out = folder.path(jobs);
        let run = render(
            &[],
            &out,
            &[
                "--demo", "--loops", "1", "--fade", "0", "--jobs", jobs, "--format", "json",
            ],
        );
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        assert_eq!(summary(&run)["songs"], demo::CARRIED.len());
        let bytes: Vec<_> = files(&out).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes.len(), demo::CARRIED.len());
        all.push(bytes);
    }
    assert!(all[0] == all[1] && all[0] == all[2]);
}

#[test]
fn song_split_over_jobs_has_the_same_bytes() {
    let folder = Folder::new("split");
    let song = Path::new(env!("CARGO_MANIFEST_DIR")).join("songs/ym2151-okim6258.vgz");
    let rendered = |jobs: &str| {
        let out = folder.path(jobs);
        let run = render(&[&song], &out, &["--jobs", jobs]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        files(&out).remove(0).1
    };
    let alone = rendered("1");
    assert!(alone.len() > 1_000_000, "the song is missing");
    assert!(rendered("3") == alone);
}

#[test]
fn output_mirrors_input_and_is_not_overwritten_by_default() {
    let folder = Folder::new("tree");
    folder.put("in/top.vgm", &small_song());
    folder.put("in/below/deep.vgz", &gzip(&small_song()));
    folder.put("in/notes.txt", b"not a song");
    let (input, out) = (folder.path("in"), folder.path("out"));
    let run = render(&[&input], &out.join("."), &["--format", "json"]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(files(&out).len(), 1);
    let run = render(
        &[&input],
        &out,
        &["--recurse", "--skip-done", "--format", "json", "--lines"],
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(
        (&summary(&run)["songs"], &summary(&run)["skipped"]),
        (&1.into(), &1.into())
    );
    assert_eq!(String::from_utf8_lossy(&run.stdout).lines().count(), 3);
    let wav = fs::read(out.join("below/deep.wav")).unwrap();
    assert_eq!(wav.len(), 44 + 4 * 44_100);
    let run = render(&[&input], &out, &[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("exists"), "{}", stderr(&run));
    assert_eq!(
        render(&[&input], &out, &["--overwrite"]).status.code(),
        Some(0)
    );
}

#[test]
fn every_format_has_the_expected_file_size() {
    let folder = Folder::new("formats");
    let song = folder.put("s.vgm", &small_song());
    for (flags, name, bytes) in [
        (&["--bit-depth", "8"][..], "s.wav", 44 + 2 * 44_100),
        (&["--bit-depth", "24"], "s.wav", 68 + 6 * 44_100),
        (&["--bit-depth", "32", "--au"], "s.au", 28 + 8 * 44_100),
        (&["--float"], "s.wav", 58 + 8 * 44_100),
        (&["--sample-rate", "8000"], "s.wav", 44 + 4 * 8_000),
    ] {
        let out = folder.path("out");
        let run = render(&[&song], &out, &[flags, &["--overwrite"]].concat());
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        assert_eq!(
            fs::metadata(out.join(name)).unwrap().len(),
            bytes,
            "{flags:?}"
        );
    }
}

#[test]
fn songs_with_the_same_output_are_rejected() {
    let folder = Folder::new("twins");
    folder.put("in/a.vgm", &small_song());
    folder.put("in/a.vgz", &gzip(&small_song()));
    let run = render(
        &[&folder.path("in")],
        &folder.path("out"),
        &["--format", "json"],
    );
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("same output"), "{}", stderr(&run));
    assert_eq!(summary(&run)["songs"], 1);
}

#[test]
fn same_name_in_different_albums_is_allowed() {
    let folder = Folder::new("albums");
    for song in ["one/01.vgm", "two/01.vgm", "two/02.vgm"] {
        folder.put(song, &small_song());
    }
    let list = folder.put("best.m3u", b"one/01.vgm\ntwo/01.vgm\none/./01.vgm\n");
    let (one, two) = (folder.path("one"), folder.path("two"));
    for (name, paths, flags, written) in [
        (
            "a",
            &[&one, &two][..],
            &[][..],
            &["one/01.wav", "two/01.wav", "two/02.wav"][..],
        ),
        ("b", &[&two, &two], &[], &["01.wav", "02.wav"]),
        ("c", &[&list], &[], &["one/01.wav", "two/01.wav"]),
        (
            "d",
            &[&list],
            &["--name", "{track} {file}"],
            &["1 01.wav", "2 01.wav", "3 01.wav"],
        ),
        (
            "e",
            &[&list],
            &["--name", "{file}"],
            &["one/01.wav", "two/01.wav"],
        ),
    ] {
        let out = folder.path(name);
        let paths: Vec<_> = paths.iter().map(|path| path.as_path()).collect();
        let run = render(&paths, &out, flags);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", stderr(&run));
        let names: Vec<_> = files(&out).into_iter().map(|file| file.0).collect();
        let expected: Vec<_> = written.iter().map(|name| out.join(name)).collect();
        assert_eq!(names, expected, "{name}");
    }
}

#[test]
fn unwritable_folder_is_reported() {
    let folder = Folder::new("unwritable");
    let song = folder.put("s.vgm", &small_song());
    let file = folder.put("file", b"");
    let run = render(&[&song], &file.join("below"), &[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("below"), "{}", stderr(&run));
    let run = render(&[&song], &file, &[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("is a file"), "{}", stderr(&run));
}

#[cfg(unix)]
#[test]
fn full_disk_leaves_no_partial_file() {
    let folder = Folder::new("full");
    let song = folder.put("s.vgm", &small_song());
    // We use a limit on the size of files to simulate a full disk.
    let run = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_creel-vgm"))
        .arg("render")
        .arg(&song)
        .arg("-o")
        .arg(folder.path("out"))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert!(stderr(&run).contains("s.wav"), "{}", stderr(&run));
    assert!(files(&folder.path("out")).is_empty());
}

#[test]
fn name_pattern_and_playlist_are_written() {
    let folder = Folder::new("names");
    folder.put("in/1.vgm", &titled("Warp 1.5"));
    folder.put("in/2.vgm", &titled("a/b"));
    folder.put("in/3.vgm", &titled("a:b"));
    folder.put("in/below/1.vgm", &small_song());
    let (input, out) = (folder.path("in"), folder.path("out"));
    let list = folder.path("list.m3u");
    let flags = ["-r", "--name", "{track:02} {title} ({game})", "--m3u"];
    let run = render(
        &[&input],
        &out,
        &[&flags[..], &[list.to_str().unwrap()]].concat(),
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let names: Vec<_> = files(&out).into_iter().map(|(path, _)| path).collect();
    let expected = [
        "01 Warp 1.5 (Loom).wav",
        "02 a_b (Loom).wav",
        if cfg!(windows) {
            "03 a_b (Loom).wav"
        } else {
            "03 a:b (Loom).wav"
        },
    ];
    let mut expected: Vec<_> = expected.iter().map(|name| out.join(name)).collect();
    expected.push(out.join("below/01 1 ().wav"));
    expected.sort();
    assert_eq!(names, expected);
    let text = fs::read_to_string(&list).unwrap();
    assert!(
        text.starts_with("#EXTM3U\n#EXTINF:1,01 Warp 1.5 (Loom)\nout/01 Warp"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 9);
    // A playlist is replaced only with --overwrite. A song or an input is never replaced.
    let song = folder.path("in/1.vgm");
    let before = fs::read(&song).unwrap();
    for (list, flag, why) in [
        (&list, "--strict", "exists"),
        (&song, "--overwrite", "not an M3U playlist"),
        (&folder.path("in"), "--overwrite", "also an input"),
        (&out, "--overwrite", "regular file"),
    ] {
        let run = render(&[&input], &out, &["--m3u", list.to_str().unwrap(), flag]);
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(why), "{}", stderr(&run));
    }
    assert_eq!(fs::read(&song).unwrap(), before);
    let none = folder.path("none.vgm");
    let flags = ["--overwrite", "--m3u", list.to_str().unwrap()];
    assert_eq!(render(&[&none], &out, &flags).status.code(), Some(1));
    assert_eq!(
        fs::read_to_string(&list).unwrap(),
        text,
        "a run without songs must not replace the playlist"
    );
    let same_outputs = render(&[&input], &folder.path("twins"), &["--name", "{game}"]);
    assert_eq!(same_outputs.status.code(), Some(1));
    assert_eq!(stderr(&same_outputs).matches("same output").count(), 2);
    let nested = folder.path("nested");
    let run = render(
        &[&input],
        &nested,
        &["-r", "--name", "{game}/{track} {title}"],
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    for name in ["Loom/1 Warp 1.5.wav", "Loom/2 a_b.wav", "below/1 1.wav"] {
        assert!(nested.join(name).exists(), "{name}");
    }
    for (pattern, why) in [("{nme}", "{title}"), ("../{title}", "leads out")] {
        let wrong = render(&[&input], &out, &["--name", pattern]);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(stderr(&wrong).contains(why), "{}", stderr(&wrong));
    }
    let kept = render(&[&input], &folder.path("kept"), &["--name", "{title} <>"]);
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    #[cfg(unix)]
    assert!(folder.path("kept/a:b <>.wav").exists());
}

#[test]
fn stdout_contains_only_samples_in_input_order() {
    let folder = Folder::new("stdout");
    let song = folder.put("a.vgm", &titled("Weft"));
    let broken = folder.put("b.vgm", b"x");
    let out = folder.path("out");
    assert!(render(&[&song], &out, &["--raw"]).status.success());
    let raw = fs::read(out.join("a.raw")).unwrap();
    assert!(render(&[&song], &out, &[]).status.success());
    let wav = fs::read(out.join("a.wav")).unwrap();
    assert_eq!(wav[44..44 + raw.len()], raw);
    let run = render(&[&song, &broken, &song], Path::new("-"), &[]);
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert!(stderr(&run).contains("b.vgm"), "{}", stderr(&run));
    assert_eq!(run.stdout, [&raw[..], &raw].concat());
    // The tags follow the samples.
    let text = String::from_utf8_lossy(&wav[44 + raw.len()..]).into_owned();
    assert!(text.starts_with("LIST") && text.contains("TIT2"), "{text}");
}

#[test]
fn long_names_are_truncated_to_the_file_system_limit() {
    let folder = Folder::new("long-names");
    // The names differ only in their last letter. It fits before .wav, but not before longer
    // endings.
    let name = |last: char| format!("{}{last}.vgm", "é".repeat(125));
    for last in ['a', 'b'] {
        folder.put(&format!("in/{}", name(last)), &small_song());
    }
    let (songs, out) = (folder.path("in"), folder.path("out"));
    for (flags, ending) in [
        (&["--jobs", "2"][..], "a.wav"),
        (&["--flac"], ".flac"),
        (&["--stems", "voice"], " - SN76489 voice 1.wav"),
    ] {
        let run = render(&[&songs], &out, flags);
        let written = files(&out);
        let has = |file: &(std::path::PathBuf, Vec<u8>)| {
            let name = file.0.file_name().unwrap().to_str().unwrap();
            name.ends_with(ending) && name.len() > 200
        };
        assert!(written.iter().any(has), "{ending}: {}", stderr(&run));
        // Two names that become equal when they are cut are reported, so no song is lost silently.
        let is_whole = run.status.success() && written.len() == 2;
        assert!(is_whole || stderr(&run).contains("has the same output"));
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn closed_stderr_does_not_fail_the_run() {
    let folder = Folder::new("closed");
    let song = folder.put("a.vgm", &small_song());
    let missing = folder.path("missing.vgm");
    for command in ["render", "play", "units"] {
        let mut run = program();
        run.arg(command).args([&missing, &song]);
        match command {
            "play" => run.args(["--plain", "--sink", "null", "--no-mpris"]),
            _ => run.arg("-o").arg(folder.path("out")),
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = run.stdout(std::process::Stdio::null()).stderr(writer);
        assert_eq!(run.status().unwrap().code(), Some(1), "{command}");
    }
}

#[test]
fn unwritable_playlist_is_rejected_before_rendering() {
    let folder = Folder::new("list-place");
    let song = folder.put("s.vgm", &small_song());
    let out = folder.path("out");
    let with = |list: &str| render(&[&song], &out, &["--m3u", list]);
    let run = with(folder.path("none/x.m3u").to_str().unwrap());
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(stderr(&run).contains("does not exist"), "{}", stderr(&run));
    assert!(!out.exists());
    let below = out.join("lists/x.m3u");
    let run = with(below.to_str().unwrap());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(below.exists());
}

#[cfg(unix)]
#[test]
fn every_file_name_survives_a_playlist_round_trip() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("odd-names");
    let names = [&b"#a"[..], b" b", b"c\nd", b"e\x1b", b"100%25", b"caf\xE9"];
    for name in names {
        let name = OsStr::from_bytes(name);
        let path = folder.path("in").join(name).with_extension("vgm");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, titled("x")).unwrap();
    }
    let (out, list) = (folder.path("out"), folder.path("l.m3u"));
    let run = render(
        &[&folder.path("in")],
        &out,
        &["--m3u", list.to_str().unwrap(), "--lines"],
    );
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let text = fs::read(&list).unwrap();
    assert!(text.iter().all(|byte| *byte == b'\n' || *byte >= b' '));
    assert_eq!(
        text.split(|byte| *byte == b'\n').count(),
        2 * names.len() + 2
    );
    // JSON has a second, escaped form of names that are not UTF-8.
    let lines = lines(&run);
    let escaped = lines
        .iter()
        .filter_map(|line| line["output_escaped"].as_str());
    let escaped: Vec<_> = escaped.collect();
    assert_eq!(escaped.len(), 1);
    assert!(escaped[0].ends_with("/out/caf%E9.wav"), "{}", escaped[0]);
    // We read the playlist of sound files as a playlist of songs. Each file is found, but is not a
    // song.
    let run = render(&[&list], &folder.path("again"), &["--lines"]);
    assert_eq!(stderr(&run).matches("not a VGM song").count(), names.len());
}

#[test]
fn out_of_range_numbers_are_rejected_with_their_range() {
    let folder = Folder::new("ranges");
    let song = folder.put("s.vgm", &small_song());
    for (flag, value, why) in [
        ("--volume", "-1", "from 0 to 100"),
        ("--fade", "-1", "1.5s"),
        ("--fade", "5", "has no unit"),
        ("--loops", "-1", "1..=1000"),
        ("--eq", "-5:3", "-5:3"),
        ("--width", "-1", "from 0 to 2"),
        ("--jobs", "-1", "invalid value '-1'"),
        ("--dither", "--float", "8 or 16 bits"),
        ("--dither", "--bit-depth=24", "8 or 16 bits"),
    ] {
        let run = render(&[&song], &folder.path("out"), &[flag, value]);
        assert_eq!(run.status.code(), Some(2), "{flag}");
        assert!(stderr(&run).contains(why), "{flag}: {}", stderr(&run));
    }
}

#[test]
fn the_summary_counts_the_rendered_songs() {
    let folder = Folder::new("counted");
    let song = folder.put("s.vgm", &small_song());
    for (flags, what) in [
        (&[][..], "1 song, 0 failed"),
        (&["--stems", "voice"], "4 stems, 0 failed"),
        (
            &[
                "--stems",
                "voice",
                "--mute",
                "SN76489:2,SN76489:3,SN76489:4",
            ],
            "1 stem, 0 failed",
        ),
    ] {
        let flags = [flags, &["--overwrite"]].concat();
        let run = render(&[&song], &folder.path("out"), &flags);
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(printed.starts_with(what), "{printed}");
    }
}
