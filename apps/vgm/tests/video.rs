//! `creel-vgm video`, run as a program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("creel-video-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn song(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("songs")
        .join(name)
}

fn video(song: &Path, output: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-vgm"));
    command
        .arg("video")
        .arg(song)
        .arg("-o")
        .arg(output)
        .args(flags);
    command
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SMALL: [&str; 6] = ["--size", "320x180", "--fps", "30", "--length", "2s"];

#[test]
fn raw_pictures_have_a_header_and_the_right_number() {
    let folder = Folder::new("raw");
    let output = folder.0.join("a.y4m");
    let done = run(video(
        &song("ym2612-sn76489.vgz"),
        &output,
        &[&SMALL[..], &["--format", "json"]].concat(),
    ));
    assert!(done.status.success(), "{}", stderr(&done));
    let bytes = fs::read(&output).unwrap();
    let header = b"YUV4MPEG2 W320 H180 F30:1 Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n";
    assert!(bytes.starts_with(header));
    let picture = 6 + 320 * 180 * 3 / 2;
    let pictures = &bytes[header.len()..];
    assert_eq!(pictures.len(), 60 * picture);
    assert!(
        pictures
            .chunks(picture)
            .all(|picture| picture.starts_with(b"FRAME\n"))
    );
    let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(document["pictures"], 60);
    let voices = document["voices"].as_array().unwrap();
    assert!(voices.len() > 5 && voices[2] == "YM2612 FM 1", "{voices:?}");
    assert_eq!(folder.files(), ["a.y4m"]);
}

#[test]
fn pictures_do_not_depend_on_the_number_of_workers() {
    let folder = Folder::new("workers");
    let draw = |jobs: &str, extension: &str| {
        let output = folder.0.join(format!("{jobs}.{extension}"));
        let flags = [&SMALL[..], &["--jobs", jobs]].concat();
        let done = run(video(&song("ym2612-sn76489.vgz"), &output, &flags));
        assert!(done.status.success(), "{}", stderr(&done));
        output
    };
    let one = fs::read(draw("1", "y4m")).unwrap();
    assert!(one == fs::read(draw("3", "y4m")).unwrap());
    assert!(one == fs::read(draw("5", "y4m")).unwrap());
    // Pictures without any difference would also pass.
    let picture = 320 * 180 * 3 / 2;
    assert!(one[one.len() - picture..] != one[one.len() - 2 * picture - 6..][..picture]);
}

#[test]
fn png_files_are_numbered_and_have_the_given_size() {
    let folder = Folder::new("png");
    let draw = |name: &str, flags: &[&str]| {
        let flags = [
            &["--size", "320x180", "--fps", "10", "--layout", "chips"],
            flags,
        ]
        .concat();
        let done = run(video(
            &song("ym2612-sn76489.vgz"),
            &folder.0.join(name),
            &flags,
        ));
        assert!(done.status.success(), "{}", stderr(&done));
    };
    draw("a.png", &["--length", "500ms"]);
    let names: Vec<String> = (1..=5).map(|number| format!("a-{number:06}.png")).collect();
    assert_eq!(folder.files(), names);
    let file = fs::File::open(folder.0.join("a-000003.png")).unwrap();
    let reader = png::Decoder::new(std::io::BufReader::new(file))
        .read_info()
        .unwrap();
    assert_eq!((reader.info().width, reader.info().height), (320, 180));
}

#[test]
fn an_existing_file_stays_without_overwrite() {
    let folder = Folder::new("exists");
    let output = folder.0.join("a.y4m");
    fs::write(&output, "old").unwrap();
    let song = song("ym2612-sn76489.vgz");
    let done = run(video(&song, &output, &SMALL));
    assert_eq!(done.status.code(), Some(1));
    assert!(stderr(&done).contains("--overwrite"), "{}", stderr(&done));
    assert_eq!(fs::read(&output).unwrap(), b"old");
    let done = run(video(
        &song,
        &output,
        &[&SMALL[..], &["--overwrite"]].concat(),
    ));
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(fs::read(&output).unwrap().starts_with(b"YUV4MPEG2"));
}

#[test]
fn errors_name_the_reason_and_leave_no_file() {
    let folder = Folder::new("errors");
    let output = folder.0.join("a.mp4");
    let mut without_ffmpeg = video(&song("ym2612-sn76489.vgz"), &output, &SMALL);
    without_ffmpeg.env("PATH", "/nonexistent");
    let song = song("ym2612-sn76489.vgz");
    let raw = folder.0.join("a.y4m");
    let late = video(&song, &raw, &["--start", "2h"]);
    let unknown = video(&song, &folder.0.join("a.avi"), &[]);
    let odd = video(&song, &raw, &["--size", "321x180"]);
    let muted = video(&song, &raw, &["--solo", "SAA1099"]);
    let nowhere = video(&song, &folder.0.join("none/a.y4m"), &[]);
    let missing = video(Path::new("/nonexistent/a.vgm"), &raw, &[]);
    for (command, code, reason) in [
        (without_ffmpeg, 127, "ffmpeg is not installed"),
        (late, 2, "the song ends after"),
        (unknown, 2, ".y4m"),
        (odd, 2, "even"),
        (muted, 1, "none of the selected chips"),
        (nowhere, 2, "does not exist"),
        (missing, 1, "/nonexistent/a.vgm: No such file"),
    ] {
        let done = run(command);
        assert!(
            stderr(&done).contains(reason),
            "{reason}: {}",
            stderr(&done)
        );
        assert_eq!(done.status.code(), Some(code), "{reason}");
    }
    assert!(folder.files().is_empty(), "{:?}", folder.files());
}

#[test]
fn ffmpeg_encodes_pictures_and_sound() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        eprintln!("skipped: ffmpeg is not installed");
        return;
    }
    let folder = Folder::new("ffmpeg");
    let output = folder.0.join("a.mkv");
    let done = run(video(&song("ym2612-sn76489.vgz"), &output, &SMALL));
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(folder.files(), ["a.mkv"]);
    let about = Command::new("ffmpeg")
        .arg("-i")
        .arg(&output)
        .output()
        .unwrap();
    let about = stderr(&about);
    assert!(
        about.contains("320x180") && about.contains("Audio: aac"),
        "{about}"
    );
    assert!(about.contains("Duration: 00:00:02.0"), "{about}");
}
