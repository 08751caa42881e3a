//! The program from outside: what it writes, what it refuses, and how it ends.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use creel_vgm::demo;

/// A folder of this test's own, removed at its end.
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

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
}

fn render(paths: &[&Path], output: &Path, flags: &[&str]) -> Output {
    program()
        .arg("render")
        .args(paths)
        .arg("-o")
        .arg(output)
        .args(flags)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The last line of stdout, as JSON.
fn summary(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(stdout.lines().last().unwrap_or("")).unwrap()
}

/// A whole song: one second of silence and a tone of the SN76489.
fn small_song() -> Vec<u8> {
    let mut song = vec![0; 0x40];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x50, 0x01]);
    song[0x34] = 0x0C;
    song[0x0C..0x10].copy_from_slice(&3_579_545u32.to_le_bytes());
    song[0x18..0x1C].copy_from_slice(&44_100u32.to_le_bytes());
    song.extend([0x50, 0x90, 0x50, 0x8F, 0x50, 0x07, 0x61, 0x44, 0xAC, 0x66]);
    song
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// All files below a folder, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_bytes_are_the_same_at_any_number_of_jobs() {
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
fn a_song_shared_by_several_jobs_has_the_same_bytes() {
    let folder = Folder::new("split");
    let song = Path::new(env!("CARGO_MANIFEST_DIR")).join("songs/ym2151-okim6258.vgz");
    let rendered = |jobs: &str| {
        let out = folder.path(jobs);
        let run = render(&[&song], &out, &["--jobs", jobs]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        files(&out).remove(0).1
    };
    let alone = rendered("1");
    assert!(alone.len() > 1_000_000, "the song is there");
    assert!(rendered("3") == alone);
}

#[test]
fn the_output_mirrors_the_input_and_is_not_overwritten_unasked() {
    let folder = Folder::new("tree");
    folder.put("in/top.vgm", &small_song());
    folder.put("in/below/deep.vgz", &gzip(&small_song()));
    folder.put("in/notes.txt", b"not a song");
    let (input, out) = (folder.path("in"), folder.path("out"));
    let run = render(&[&input], &out, &["--format", "json"]);
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
fn formats_have_the_sizes_they_should() {
    let folder = Folder::new("formats");
    let song = folder.put("s.vgm", &small_song());
    for (flags, name, bytes) in [
        (&["--bit-depth", "8"][..], "s.wav", 44 + 2 * 44_100),
        (&["--bit-depth", "24"], "s.wav", 44 + 6 * 44_100),
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
fn bad_songs_are_named_and_the_others_rendered() {
    let folder = Folder::new("bad");
    let good = folder.put("good.vgm", &small_song());
    let changed = |at: usize, value: u32| {
        let mut song = small_song();
        song[at..at + 4].copy_from_slice(&value.to_le_bytes());
        song
    };
    let whole = small_song();
    let packed = gzip(&whole);
    let bad: [(&str, Vec<u8>, &str); 7] = [
        ("empty.vgm", Vec::new(), "empty"),
        ("magic.vgm", b"RIFFwhatever".to_vec(), "not a VGM song"),
        ("header.vgm", whole[..20].to_vec(), "cut short"),
        ("cut.vgz", packed[..packed.len() - 20].to_vec(), "gzip"),
        ("data.vgm", changed(0x34, 0x00FF_FFFF), "outside"),
        ("command.vgm", changed(0x40, 0x0000_0001), "not a command"),
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
        let told = stderr(&run);
        assert!(
            told.contains(name) && told.contains(reason),
            "{name}: {told}"
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
fn a_missing_song_fails_alone() {
    let folder = Folder::new("missing");
    let good = folder.put("good.vgm", &small_song());
    let run = render(&[&folder.path("none.vgm"), &good], &folder.path("out"), &[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("none.vgm"), "{}", stderr(&run));
    assert!(folder.path("out/good.wav").exists());
}

#[test]
fn a_gzip_bomb_takes_no_more_memory_than_a_song_may() {
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

#[test]
fn two_songs_with_one_output_are_not_both_written() {
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
fn a_folder_that_cannot_be_written_is_named() {
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
fn a_full_disk_leaves_no_partial_output() {
    let folder = Folder::new("full");
    let song = folder.put("s.vgm", &small_song());
    // A limit on files' sizes stands in for a full disk.
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

#[cfg(unix)]
#[test]
fn interrupted_it_leaves_whole_files_only() {
    let folder = Folder::new("interrupt");
    let short = folder.put("short.vgm", &small_song());
    // An hour and more, so that it is still at it.
    let mut long = small_song();
    long.truncate(0x46);
    for _ in 0..4000 {
        long.extend([0x61, 0xFF, 0xFF]);
    }
    long.push(0x66);
    let long = folder.put("long.vgm", &long);
    let out = folder.path("out");
    let mut child = program()
        .args(["render", "--jobs", "2", "-o"])
        .args([&out, &short, &long])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let part = out.join(format!("long.wav.{}.part", child.id()));
    while !(out.join("short.wav").exists() && part.exists()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let written = files(&out);
    assert_eq!(
        written.len(),
        1,
        "{:?}",
        written.iter().map(|file| &file.0).collect::<Vec<_>>()
    );
    assert_eq!(written[0].1.len(), 44 + 4 * 44_100);
}

/// What a scheduler relies on: killed without a chance to clean up, a run is finished by the
/// same command again.
#[cfg(unix)]
#[test]
fn a_killed_run_is_finished_by_the_next() {
    let folder = Folder::new("killed");
    let songs: Vec<PathBuf> = (0..40)
        .map(|i| folder.put(&format!("{i}.vgm"), &small_song()))
        .collect();
    let songs: Vec<&Path> = songs.iter().map(PathBuf::as_path).collect();
    let whole = folder.path("whole");
    assert!(render(&songs, &whole, &[]).status.success());
    let out = folder.path("out");
    let mut child = program()
        .args(["render", "--jobs", "2", "-o"])
        .arg(&out)
        .args(&songs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let written = || std::fs::read_dir(&out).is_ok_and(|folder| folder.count() > 2);
    while child.try_wait().unwrap().is_none() && !written() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(render(&songs, &out, &["--skip-done"]).status.success());
    let wavs = |folder: &Path| {
        let mut files = files(folder);
        files.retain(|(path, _)| path.extension().is_some_and(|e| e == "wav"));
        files
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(wavs(&out), wavs(&whole));
}

#[test]
fn info_tells_title_length_and_chips() {
    let folder = Folder::new("info");
    let song = folder.put("song.vgz", demo::CARRIED[0].packed);
    let run = program()
        .args(["info", "--format", "json"])
        .arg(&song)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(summary(&run)["track"], "Warp and Weft");
    assert_eq!(summary(&run)["chips"][0]["name"], "YM2151");
    let run = program()
        .arg("info")
        .arg(folder.put("x", b"x"))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(65));
}

/// The small song with a chip that is not played.
fn song_without_a_player() -> Vec<u8> {
    let mut song = vec![0; 0x100];
    let small = small_song();
    song[..0x40].copy_from_slice(&small[..0x40]);
    song[8..10].copy_from_slice(&[0x72, 0x01]);
    song[0x34] = 0xCC;
    // An MSM5232, of arcade boards.
    song[0xF4..0xF8].copy_from_slice(&2_000_000u32.to_le_bytes());
    song.extend([0x43, 0x00, 0x7F]);
    song.extend(&small[0x40..]);
    song
}

#[test]
fn a_chip_that_is_not_played_is_named_counted_and_refused_if_asked() {
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
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(told.contains("2 songs (1 lack a chip)"), "{told}");

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
fn what_players_take_is_taken_with_a_warning() {
    let folder = Folder::new("lenient");
    let whole = small_song();
    let changed = |at: usize, value: u32| {
        let mut song = small_song();
        song[at..at + 4].copy_from_slice(&value.to_le_bytes());
        song
    };
    let halves = [gzip(&whole[..0x42]), gzip(&whole[0x42..])].concat();
    let songs: [(&str, Vec<u8>, &str); 5] = [
        ("end.vgm", whole[..whole.len() - 1].to_vec(), "cut short"),
        ("cut.vgm", whole[..whole.len() - 2].to_vec(), "cut short"),
        ("loop.vgm", changed(0x1C, 0x1000), "loop points to"),
        ("no-time.vgm", changed(0x1C, 0x40 - 0x1C), "no time"),
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
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
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
fn folders_say_where_their_songs_lie() {
    let folder = Folder::new("deeper");
    folder.put("in/below/deep/song.vgm", &small_song());
    fs::create_dir_all(folder.path("none")).unwrap();
    let out = folder.path("out");
    let run = render(&[&folder.path("in")], &out, &[]);
    assert!(stderr(&run).contains("-r takes them"), "{}", stderr(&run));
    let run = render(&[&folder.path("in")], &out, &["-r"]);
    assert_eq!(stderr(&run), "");
    assert!(out.join("below/deep/song.wav").exists());
    let run = render(&[&folder.path("none")], &out, &[]);
    assert!(stderr(&run).contains("no song"), "{}", stderr(&run));
}

#[test]
fn info_takes_folders_and_writes_one_csv_header() {
    use creel_vgm::format::Gd3;
    let folder = Folder::new("folders");
    let mut song = small_song();
    let tag = song.len() as u32;
    song[0x14..0x18].copy_from_slice(&(tag - 0x14).to_le_bytes());
    let tags = Gd3 {
        track_native: "縦糸".into(),
        game: "bell\u{7}\nand\u{1b}[2J".into(),
        ..Gd3::default()
    };
    song.extend(tags.to_bytes());
    folder.put("in/a.vgm", &song);
    folder.put("in/below/b.vgm", &small_song());
    let info = |flags: &[&str]| {
        let mut command = program();
        command.arg("info").arg(folder.path("in")).args(flags);
        command.output().unwrap()
    };
    let csv = info(&["-r", "--format", "csv"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert_eq!(csv.matches("loop_seconds").count(), 1, "{csv}");
    assert!(csv.contains("b.vgm") && csv.contains("縦糸"), "{csv}");
    let text = String::from_utf8_lossy(&info(&[]).stdout).into_owned();
    assert!(text.contains("縦糸") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("bell\\u{7}\\nand\\u{1b}[2J"), "{text}");
    assert!(!text.contains("b.vgm"));
}

#[test]
fn lines_are_json_alone() {
    let folder = Folder::new("lines");
    let song = folder.put("s.vgm", &small_song());
    let out = folder.path("out");
    let run = render(&[&song], &out, &["--lines", "--format", "csv"]);
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(!out.exists());
    let run = render(&[&song], &out, &["--lines"]);
    assert_eq!(summary(&run)["songs"], 1);
}

#[test]
fn playlists_and_standard_input_are_rendered() {
    let folder = Folder::new("lists");
    folder.put("songs/a b.vgm", &small_song());
    folder.put("songs/c.vgm", &small_song());
    let out = folder.path("out");
    for (name, list) in [
        ("l.m3u", "#EXTM3U\nsongs\\a%20b.vgm\r\nsongs/none.vgm\n"),
        (
            "l.xspf",
            "<playlist><trackList><track><location>songs/a%20b.vgm</location></track>\
             <track><location>songs/none.vgm</location></track></trackList></playlist>",
        ),
        (
            "l.jspf",
            r#"{"playlist":{"track":[{"location":["songs/a%20b.vgm"]},{"location":["songs/none.vgm"]}]}}"#,
        ),
    ] {
        let list = folder.put(name, list.as_bytes());
        let run = render(&[&list], &out, &["--overwrite", "--format", "json"]);
        assert_eq!(run.status.code(), Some(1), "{name}: {}", stderr(&run));
        assert!(
            stderr(&run).contains("none.vgm"),
            "{name}: {}",
            stderr(&run)
        );
        assert_eq!(summary(&run)["songs"], 1, "{name}");
        assert!(out.join("a b.wav").exists());
    }
    let broken = folder.put("broken.xspf", b"<playlist>");
    let run = render(&[&broken], &out, &[]);
    assert_eq!(run.status.code(), Some(65), "{}", stderr(&run));

    let mut child = program()
        .args(["render", "-", "-o"])
        .arg(&out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&gzip(&small_song()))
        .unwrap();
    assert!(child.wait().unwrap().success());
    let wav = fs::metadata(out.join("stdin.wav")).unwrap();
    assert_eq!(wav.len(), 44 + 4 * 44_100);
}

/// The small song with a title and a game.
fn titled(title: &str) -> Vec<u8> {
    let mut song = small_song();
    let tag = song.len() as u32;
    song[0x14..0x18].copy_from_slice(&(tag - 0x14).to_le_bytes());
    let tags = creel_vgm::format::Gd3 {
        track: title.into(),
        game: "Loom".into(),
        ..Default::default()
    };
    song.extend(tags.to_bytes());
    song
}

#[test]
fn names_follow_a_pattern_and_a_playlist_lists_them() {
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
        "03 a_b (Loom).wav",
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
    // A list is not replaced unasked, and a song, or what is read, never.
    let song = folder.path("in/1.vgm");
    let before = fs::read(&song).unwrap();
    for (list, flag, why) in [
        (&list, "--strict", "exists"),
        (&song, "--overwrite", "no M3U playlist"),
        (&folder.path("in"), "--overwrite", "is read"),
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
        "of nothing no list"
    );
    let twins = render(&[&input], &folder.path("twins"), &["--name", "{game}"]);
    assert_eq!(twins.status.code(), Some(1));
    assert_eq!(stderr(&twins).matches("same output").count(), 2);
    let wrong = render(&[&input], &out, &["--name", "{nme}"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("{title}"), "{}", stderr(&wrong));
}

#[test]
fn stdout_gets_samples_alone_in_the_order_of_the_input() {
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
    // Tags lie behind the samples.
    let text = String::from_utf8_lossy(&wav[44 + raw.len()..]).into_owned();
    assert!(text.starts_with("LIST") && text.contains("TIT2"), "{text}");
}

#[test]
fn units_tell_what_would_be_rendered() {
    let folder = Folder::new("units");
    folder.put("in/a.vgm", &small_song());
    folder.put("in/b.vgm", &small_song());
    let out = folder.path("out");
    let run = program()
        .args(["units", "-o"])
        .args([&out, &folder.path("in"), &folder.path("none.vgm")])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(stderr(&run).contains("none.vgm"), "{}", stderr(&run));
    let stdout = String::from_utf8_lossy(&run.stdout).into_owned();
    let units: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(units.len(), 2);
    for unit in units {
        assert_eq!(
            (&unit["samples"], &unit["exists"]),
            (&44_100.into(), &false.into())
        );
        assert!(unit["cost_ns"].as_u64().unwrap() > 0);
        let output = unit["output"].as_str().unwrap();
        assert!(output.starts_with(out.to_str().unwrap()) && output.ends_with(".wav"));
    }
    assert!(!out.exists());
}

#[test]
fn chips_lists_what_is_played() {
    let run = program().arg("chips").output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    for name in ["YM2151", "NESAPU, FDS", "HuC6280"] {
        assert!(told.contains(name), "{told}");
    }
    let run = program()
        .args(["chips", "--format", "json"])
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(listed["schema"], 1);
    assert!(listed["chips"].as_array().unwrap().len() > 20);
}
