//! Helpers of the program's tests: folders, songs, and running the program.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder, removed at the end of the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("creel-vgm-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
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

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_creel-vgm"))
}

pub fn render(paths: &[&Path], output: &Path, flags: &[&str]) -> Output {
    program()
        .arg("render")
        .args(paths)
        .arg("-o")
        .arg(output)
        .args(flags)
        .output()
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Parses the last line of stdout as JSON.
pub fn summary(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(stdout.lines().last().unwrap_or("")).unwrap()
}

/// Returns a complete song: one second with a tone of the SN76489.
pub fn small_song() -> Vec<u8> {
    let mut song = vec![0; 0x40];
    song[..4].copy_from_slice(b"Vgm ");
    song[8..10].copy_from_slice(&[0x50, 0x01]);
    song[0x34] = 0x0C;
    song[0x0C..0x10].copy_from_slice(&3_579_545u32.to_le_bytes());
    song[0x18..0x1C].copy_from_slice(&44_100u32.to_le_bytes());
    song.extend([0x50, 0x90, 0x50, 0x8F, 0x50, 0x07, 0x61, 0x44, 0xAC, 0x66]);
    song
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns all files below a folder, ordered by name.
pub fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
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

/// Returns the small song with a title and a game.
pub fn titled(title: &str) -> Vec<u8> {
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

/// Creates a zip archive of uncompressed files. The names are raw bytes.
pub fn stored_zip(files: &[(&[u8], &[u8])]) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        let size = (bytes.len() as u32).to_le_bytes();
        let mut about = [0; 10].to_vec();
        about[0] = 20;
        about.extend(sum.sum().to_le_bytes());
        about.extend([size, size].concat());
        about.extend((name.len() as u16).to_le_bytes());
        about.extend([0; 2]);
        directory.extend([b"PK\x01\x02\x14\x00", &about[..]].concat());
        directory.extend([0; 10]);
        directory.extend((zip.len() as u32).to_le_bytes());
        directory.extend(*name);
        zip.extend([b"PK\x03\x04", &about[..], *name, *bytes].concat());
    }
    let count = (files.len() as u16).to_le_bytes();
    let end = [
        b"PK\x05\x06\0\0\0\0",
        &count[..],
        &count,
        &(directory.len() as u32).to_le_bytes(),
        &(zip.len() as u32).to_le_bytes(),
        &[0; 2],
    ];
    [&zip[..], &directory, &end.concat()].concat()
}

/// Parses all lines of stdout as JSON.
pub fn lines(output: &Output) -> Vec<serde_json::Value> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON alone"))
        .collect()
}
