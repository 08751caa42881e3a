//! The commands that list songs and chips without rendering them, and their JSON.

use std::path::Path;
use std::process::Output;

use creel_vgm::demo;
use serde_json::Value;

use crate::damaged::song_without_a_player;
use crate::harness::*;

#[test]
fn info_prints_title_length_and_chips() {
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

#[test]
fn info_of_folders_writes_one_csv_header() {
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
fn lines_output_is_only_json() {
    let folder = Folder::new("lines");
    let song = folder.put("s.vgm", &small_song());
    let out = folder.path("out");
    let run = render(&[&song], &out, &["--lines", "--format", "csv"]);
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    assert!(!out.exists());
    let run = render(&[&song], &out, &["--lines"]);
    assert_eq!(summary(&run)["songs"], 1);
}

/// Returns the output of `units` with these flags.
fn units(paths: &[&Path], output: &Path, flags: &[&str]) -> (Output, Vec<Value>) {
    let mut command = program();
    command.arg("units").args(paths).arg("-o").arg(output);
    let run = command.args(flags).output().unwrap();
    let units = lines(&run);
    (run, units)
}

#[test]
fn the_output_of_units_matches_that_of_render() {
    let folder = Folder::new("units");
    folder.put("in/a.vgm", &titled("Warp"));
    // The header claims a length of an hour, but the real length with loops counts.
    let mut liar = titled("Weft");
    liar[0x18..0x1C].copy_from_slice(&158_760_000u32.to_le_bytes());
    liar[0x1C..0x20].copy_from_slice(&(0x46u32 - 0x1C).to_le_bytes());
    liar[0x20..0x24].copy_from_slice(&44_100u32.to_le_bytes());
    folder.put("in/b.vgm", &liar);
    folder.put("in/c.vgm", b"Vgm broken");
    folder.put("in/d.vgm", &song_without_a_player());
    let (input, none) = (folder.path("in"), folder.path("none.vgm"));
    let done = folder.path("done");
    render(&[&folder.path("in/a.vgm")], &done, &["--name", "{title}"]);
    for (out, flags) in [
        ("plain", &[][..]),
        ("named", &["--name", "{game}/{track:02} {title}", "--raw"]),
        (
            "stems",
            &["--stems", "voice", "--mute", "SN76489:2", "--float"],
        ),
        (
            "loops",
            &[
                "--loops",
                "4",
                "--fade",
                "1s",
                "--sample-rate",
                "8000",
                "--au",
            ],
        ),
        ("done", &["--name", "{title}", "--skip-done", "--strict"]),
        ("done", &["--name", "{title}"]),
        ("flac", &["--flac", "--solo", "SN76489:1"]),
    ] {
        let out = folder.path(out);
        let exists = out.exists();
        let (printed, units) = units(&[&input, &none], &out, flags);
        assert_eq!(out.exists(), exists, "units must not create files");
        let run = render(&[&input, &none], &out, &[flags, &["--lines"]].concat());
        assert_eq!(printed.status.code(), run.status.code(), "{flags:?}");
        let key = |line: &Value| line["song"].as_str().unwrap().to_string();
        let mut ended = lines(&run);
        ended.pop();
        ended.retain(|line| !key(line).ends_with("none.vgm"));
        assert!(
            stderr(&printed).contains("none.vgm"),
            "{}",
            stderr(&printed)
        );
        ended.sort_by_key(key);
        let mut units = units;
        units.sort_by_key(key);
        assert_eq!(units.len(), ended.len(), "{flags:?}");
        for (unit, line) in units.iter().zip(&ended) {
            assert_eq!(unit["song"], line["song"]);
            let status = match unit["action"].as_str().unwrap() {
                "render" => "done",
                "skip" => "skipped",
                _ => "failed",
            };
            assert_eq!(status, line["status"], "{flags:?}: {unit} {line}");
            assert_eq!(unit["error"], line["error"], "{flags:?}");
            if status == "done" {
                assert_eq!(unit["output"], line["output"]);
                assert_eq!(unit["frames"], line["frames"], "{flags:?}: {unit}");
                assert_eq!(unit["chips_missing"], line["chips_missing"]);
                assert!(unit["cost_ns"].as_u64().unwrap() > 0);
            }
        }
    }
    let csv = units(&[&folder.path("in/a.vgm")], &done, &["--stems", "chip"]);
    assert_eq!(csv.1[0]["samples"], 44_100);
}

#[test]
fn chips_lists_supported_chips() {
    let run = program().arg("chips").output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    for name in ["YM2151", "NESAPU, FDS", "HuC6280"] {
        assert!(printed.contains(name), "{printed}");
    }
    let run = program()
        .args(["chips", "--format", "json"])
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(listed["schema"], 1);
    assert!(listed["chips"].as_array().unwrap().len() > 20);
}
