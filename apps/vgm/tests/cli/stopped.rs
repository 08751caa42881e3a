//! Runs that are interrupted or killed, and two runs at the same time.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::*;

#[cfg(unix)]
#[test]
fn interrupt_leaves_only_complete_files() {
    let folder = Folder::new("interrupt");
    let short = folder.put("short.vgm", &small_song());
    // The song lasts more than an hour, so that the run is still busy when we interrupt it.
    let mut long = small_song();
    long.truncate(0x46);
    for _ in 0..4000 {
        long.extend([0x61, 0xFF, 0xFF]);
    }
    long.push(0x66);
    let long = folder.put("long.vgm", &long);
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let out = folder.path(signal);
        let mut child = program()
            .args(["render", "--jobs", "2", "-o"])
            .args([&out, &short, &long])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let has_partial = || {
            let mut names = std::fs::read_dir(&out).into_iter().flatten().flatten();
            names.any(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("long.wav.") && name.ends_with(".part")
            })
        };
        while !(out.join("short.wav").exists() && has_partial()) {
            assert!(
                child.try_wait().unwrap().is_none(),
                "the run ended before it was interrupted"
            );
            std::thread::yield_now();
        }
        let pid = child.id().to_string();
        let killed = Command::new("kill").args([signal, &pid]).status();
        assert!(killed.unwrap().success());
        // The signal itself ends the process, so that a shell shows 130 or 143 and also ends its
        // loop.
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        let written = files(&out);
        let names: Vec<_> = written.iter().map(|file| &file.0).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        // The tags follow the samples, and the header has the length of all of it.
        let bytes = &written[0].1;
        let riff = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        assert!(bytes.len() == riff + 8 && riff > 4 * 44_100);
    }
}

/// Schedulers rely on this: if a run is killed without a chance to clean up, the same command with
/// `--skip-done` completes it.
#[cfg(unix)]
#[test]
fn killed_run_is_completed_by_the_next() {
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
    // The temporary files of the killed run are gone, unless they were made just before the end.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(render(&songs, &out, &["--skip-done"]).status.success());
    assert_eq!(files(&out).len(), songs.len(), "temporary files are left");
}

/// Two runs write the same folder at once. Each has temporary files of its own, so every file is
/// complete at the end.
#[test]
fn concurrent_runs_leave_complete_files() {
    let folder = Folder::new("two-runs");
    for number in 0..40 {
        folder.put(&format!("in/{number}.vgm"), &small_song());
    }
    let (input, out) = (folder.path("in"), folder.path("out"));
    let start = || {
        program()
            .args(["render", "--overwrite", "--jobs", "2", "-q", "-o"])
            .args([&out, &input])
            .spawn()
            .unwrap()
    };
    for mut child in [start(), start()] {
        assert!(child.wait().unwrap().success());
    }
    let whole = folder.path("whole");
    assert!(render(&[&input], &whole, &[]).status.success());
    let bytes = |folder: &Path| files(folder).into_iter().map(|(_, bytes)| bytes);
    assert_eq!(files(&out).len(), 40, "temporary files are left");
    assert!(bytes(&out).eq(bytes(&whole)));
}
