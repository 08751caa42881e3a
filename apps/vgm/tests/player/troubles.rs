//! Tests that the player reports each error once, and that the other songs still play.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::{Folder, carried};

/// Returns a song of the SN76489 that lasts half a second.
fn short_song() -> Vec<u8> {
    let mut song = vec![0; 0x40];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x50, 0x01]);
    song[0x34] = 0x0C;
    song[0x0C..0x10].copy_from_slice(&3_579_545u32.to_le_bytes());
    song[0x18..0x1C].copy_from_slice(&22_050u32.to_le_bytes());
    song.extend([0x50, 0x90, 0x50, 0x8F, 0x50, 0x07, 0x61, 0x22, 0x56, 0x66]);
    song
}

fn play(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .arg("play")
        .args(words)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn damaged_songs_are_reported_once_and_others_play() {
    let folder = Folder::new("songs");
    folder.put("good.vgm", &short_song());
    folder.put("broken.vgm", b"not a song");
    folder.put("cut.vgz", &carried(0)[..200]);
    let list = folder.put(
        "list.m3u",
        b"#EXTM3U\nmissing.vgz\nbroken.vgm\ncut.vgz\ngood.vgm\n",
    );
    let sound = folder.path("out.wav");
    let output = play(&["--sink", &format!("wav:{sound}"), &list]);
    let printed = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    for name in ["missing.vgz", "broken.vgm", "cut.vgz"] {
        let lines = printed.lines().filter(|line| line.contains(name));
        assert_eq!(lines.count(), 1, "{name} in {printed}");
    }
    assert_eq!(
        printed
            .lines()
            .filter(|line| line.contains("good.vgm"))
            .count(),
        1,
        "{printed}"
    );
    // The file has a header and half a second of sound.
    let bytes = std::fs::metadata(&sound).unwrap().len();
    assert_eq!(bytes, 44 + 22_050 * 4);
}

#[test]
fn repeat_ends_if_all_songs_are_damaged() {
    let folder = Folder::new("repeat");
    let broken = folder.put("broken.vgm", b"not a song");
    let output = play(&["--sink", "null", "--repeat", "all", &broken, &broken]);
    assert_eq!(output.status.code(), Some(65));
    assert_eq!(
        printed(&output).matches("broken.vgm").count(),
        2,
        "{}",
        printed(&output)
    );
}

#[test]
fn playlists_are_read_in_any_encoding() {
    let folder = Folder::new("lists");
    folder.put("\u{e9}t\u{e9}.vgm", &short_song());
    // A playlist in Windows-1252 with backslashes, and a file that is not a playlist.
    let old = folder.put("old.m3u", b"..\\lists\\\xe9t\xe9.vgm\r\n");
    let bad = folder.put("bad.xspf", b"<playlist><trackList><track><loc");
    let good = folder.put("good.vgm", &short_song());
    std::fs::create_dir(folder.path("lists")).unwrap();
    std::fs::copy(
        folder.path("\u{e9}t\u{e9}.vgm"),
        folder.path("lists/\u{e9}t\u{e9}.vgm"),
    )
    .unwrap();
    std::fs::create_dir(folder.path("from")).unwrap();
    std::fs::rename(&old, folder.path("from/old.m3u")).unwrap();
    let output = play(&[
        "--sink",
        &format!("wav:{}", folder.path("out.wav")),
        &folder.path("from/old.m3u"),
        &bad,
        &good,
    ]);
    let printed = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert_eq!(printed.matches("bad.xspf").count(), 1, "{printed}");
    assert!(
        printed.contains("\u{e9}t\u{e9}.vgm") && printed.contains("good.vgm"),
        "{printed}"
    );
}

#[test]
fn player_exits_after_the_queue_is_drained() {
    let folder = Folder::new("end");
    let song = folder.put("song.vgm", &short_song());
    let begin = std::time::Instant::now();
    let output = play(&["--sink", "null", &song, &song]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(begin.elapsed().as_secs_f64() >= 0.97, "in real time");
    assert_eq!(
        printed(&output).matches("song.vgm").count(),
        2,
        "{}",
        printed(&output)
    );
}

#[test]
fn wav_sink_ends_with_the_song() {
    let folder = Folder::new("whole");
    // A minute of sound takes a tenth of a second, so there are more events than the channel holds.
    let song = folder.put("song.vgz", carried(1));
    let rendered = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .args(["render", "-q", "--loops", "1", "--raw", "-o", "-", &song])
        .output()
        .unwrap();
    for jobs in ["1", "2", "2", "2"] {
        let sound = folder.path("out.raw");
        let sink = format!("raw:{sound}");
        let output = play(&["--sink", &sink, "--jobs", jobs, "--loops", "1", &song]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(std::fs::read(&sound).unwrap() == rendered.stdout, "cut");
    }
}

#[test]
fn closed_output_pipe_ends_the_player() {
    use std::io::Read;
    for jobs in ["1", "2"] {
        let mut player = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["play", "-q", "--demo", "--sink", "-", "--jobs", jobs])
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 1000];
        let mut sound = player.stdout.take().unwrap();
        sound.read_exact(&mut some).unwrap();
        drop(sound);
        assert_eq!(player.wait().unwrap().code(), Some(0), "--jobs {jobs}");
    }
}

#[test]
fn player_applies_replay_gain() {
    let folder = Folder::new("loudness");
    let sound = folder.path("out.raw");
    let sink = format!("raw:{sound}");
    let songs = [0, 1].map(|at| folder.put(&format!("{at}.vgz"), carried(at)));
    let flags = ["--loops", "1", "--resampler", "linear"];
    let as_it_is = [&["--sink", &sink][..], &flags, &[&songs[1]]].concat();
    assert_eq!(play(&as_it_is).status.code(), Some(0));
    let as_it_is = std::fs::read(&sound).unwrap();
    for whose in ["track", "album"] {
        let flags = [&flags[..], &["--replay-gain", whose]].concat();
        let both = [&["--sink", &sink][..], &flags, &[&songs[0], &songs[1]]].concat();
        assert_eq!(play(&both).status.code(), Some(0));
        let played = std::fs::read(&sound).unwrap();
        let out = folder.path(whose);
        let rendered = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["render", "-q", "--raw", "-o", &out])
            .args(flags)
            .args(&songs)
            .status()
            .unwrap();
        assert!(rendered.success());
        let files = ["0.raw", "1.raw"].map(|name| std::fs::read(format!("{out}/{name}")).unwrap());
        assert!(played == files.concat(), "{whose}: another loudness");
        assert!(
            !played.ends_with(&as_it_is[as_it_is.len() / 2..]),
            "{whose}: none"
        );
    }
}

#[test]
fn full_disk_is_reported_and_ends_the_player() {
    if !std::path::Path::new("/dev/full").exists() {
        eprintln!("skipped: there is no /dev/full");
        return;
    }
    let folder = Folder::new("full");
    let song = folder.put("song.vgm", &short_song());
    let output = play(&["--sink", "wav:/dev/full", &song]);
    let printed = printed(&output);
    assert!(printed.contains("No space left"), "{printed}");
    assert_eq!(printed.matches("No space left").count(), 1, "{printed}");
    assert_eq!(output.status.code(), Some(1), "{printed}");
}

#[test]
fn missing_songs_are_reported_without_a_device() {
    let folder = Folder::new("nope");
    let song = folder.put("song.vgm", &short_song());
    let nope = folder.path("nope.vgz");
    for songs in [&[&*nope][..], &[&*nope, &*song]] {
        let output = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["play", "--sink", "aplay"])
            .args(songs)
            .env("PATH", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .output()
            .unwrap();
        assert!(
            printed(&output).contains("nope.vgz: No such file"),
            "{output:?}"
        );
    }
}

#[test]
fn invalid_sink_is_reported() {
    let output = play(&["--sink", "loud", "--demo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(printed(&output).contains("unknown sink loud"));
    let output = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .args(["play", "--demo", "--sink", "aplay"])
        .env("PATH", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed(&output).contains("Use --sink null to play without sound"),
        "{output:?}"
    );
}

#[test]
fn player_program_that_exits_is_rejected() {
    let folder = Folder::new("programs");
    let program = |name: &str, script: &str| {
        let path = folder.put(name, format!("#!/bin/sh\n{script}\n").as_bytes());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let song = folder.put("song.vgm", &short_song());
    let play = |sink: &str| {
        Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
            .args(["play", "-q", "--sink", sink, &song])
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path("")))
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("XDG_RUNTIME_DIR", "/nonexistent")
            .env("HOME", "/nonexistent")
            .env_remove("PULSE_SERVER")
            .output()
            .unwrap()
    };
    for name in ["pw-play", "pacat", "aplay"] {
        program(name, "echo no card >&2; exit 3");
    }
    for sink in ["aplay", "auto"] {
        let output = play(sink);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let printed = printed(&output);
        assert!(
            printed.contains("aplay: it ended at once (exit status: 3): no card"),
            "{printed}"
        );
    }
    // The player uses the next program that keeps running.
    program("aplay", &format!("cat > {}", folder.path("heard")));
    assert_eq!(play("auto").status.code(), Some(0));
    let heard = std::fs::metadata(folder.path("heard")).unwrap().len();
    assert_eq!(heard, 22_050 * 4);
}

#[test]
fn stalled_player_program_does_not_block_exit() {
    let folder = Folder::new("still");
    // The program writes its process ID, and never reads.
    let number = folder.path("number");
    let script =
        format!("#!/bin/sh\necho $$ > {number}.new && mv {number}.new {number}\nexec sleep 600\n");
    let program = folder.put("pacat", script.as_bytes());
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let song = folder.put("song.vgm", &short_song());
    let mut player = Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
        .args(["play", "-q", "--sink", "pacat", &song])
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path("")))
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let wait = || {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    };
    while !std::path::Path::new(&number).exists() {
        wait();
    }
    let number = std::fs::read_to_string(&number).unwrap();
    let still = format!("/proc/{}", number.trim());
    let pid = rustix::process::Pid::from_child(&player);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    while player.try_wait().unwrap().is_none() {
        wait();
    }
    while std::path::Path::new(&still).exists() {
        wait();
    }
}

#[test]
fn config_applies_and_errors_are_reported() {
    let folder = Folder::new("config");
    let file = folder.put(
        "creel.toml",
        b"volume = 30\nloops = 1\nwidth = 0.5\neq = [\"low:100:6\"]\n[[song]]\nmatch = \"*.vgm\"\nvolume = 0\n",
    );
    let output = play(&["--config", &file, "--loops", "3", "--dump-config"]);
    let dumped = String::from_utf8(output.stdout).unwrap();
    assert!(
        dumped.contains("volume = 30\n") && dumped.contains("loops = 3\n"),
        "{dumped}"
    );
    let again = folder.put("again.toml", dumped.as_bytes());
    let output = play(&["--config", &again, "--dump-config"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), dumped);
    // A song with volume 0 is silent.
    let song = folder.put("song.vgm", &short_song());
    let sound = folder.path("out.wav");
    let output = play(&["--config", &file, "--sink", &format!("wav:{sound}"), &song]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        std::fs::read(&sound).unwrap()[44..]
            .iter()
            .all(|byte| *byte == 0)
    );
    let bad = folder.put("bad.toml", b"volume = 30\nlops = 1\n");
    let output = play(&["--config", &bad, "--demo"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    let printed = printed(&output);
    assert!(
        printed.contains("bad.toml: line 2: unknown field `lops`"),
        "{printed}"
    );
}
